"""Events of a subscription: handed in once, in order, and committed once the position has passed."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.subscriptions.stream_protocol import SubscriptionBatch
from penstock.errors import BadParameter
from penstock.processing.effects import effect_id
from penstock.processing.sources.feed_position import FeedPosition
from penstock.processing.sources.subscription import BatchPosition, DeliveredPartition, Sent, SubscribedEvents
from penstock.processing.stream_event import StreamEvent
from penstock.wire.log.nakadi import offset_text
from penstock.wire.subscriptions import BatchCursor, BatchInfo, BatchLine

TRANCHE = "order.placed/3"


def a_batch(
    numbers: Sequence[int], *, epoch: int = 1, stream: str = "s1", parked: int | None = None, to: int | None = None
) -> Sent:
    """Return a batch whose events are at these offsets, and hold them; what was left out *to* the cursor's, too."""
    last = numbers[-1] if to is None else to
    cursor_token = "proof" if parked is None else f"parked-{parked}-{numbers[-1]}-proof"
    cursor = BatchCursor("3", offset_text(epoch, last), "order.placed", cursor_token)
    is_gapped = parked is not None or [*numbers] != [*range(last + 1 - len(numbers), last + 1)]
    info = BatchInfo(offsets=[*numbers]) if is_gapped else None
    return SubscriptionBatch(stream, BatchLine(cursor, [msgspec.Raw(str(number).encode()) for number in numbers], info))


def make(batch: Sent, skip: int) -> Sequence[StreamEvent]:
    found = zip(batch.offsets[skip:], batch.raw[skip:], strict=True)
    return [StreamEvent("S", offset, "event", raw) for offset, raw in found]


def take(tranche: DeliveredPartition) -> tuple[list[Any], int]:
    """Return the offsets that the engine is given next, and the number of their batch."""
    assert tranche.is_ready
    batch = tranche.take(make)
    assert all(event.index == event.data for event in batch.items)  # type: ignore[attr-defined]
    return [event.data for event in batch.items], BatchPosition.decode(str(batch.end)).number  # type: ignore[attr-defined]


def begin() -> DeliveredPartition:
    return DeliveredPartition(TRANCHE, FeedPosition(1, 0))


def test_batches_keep_their_order_and_are_committed_once_the_position_has_passed() -> None:
    tranche = begin()
    batches = [a_batch(range(3)), a_batch(range(3, 5))]
    for batch in batches:
        tranche.add(batch)
    assert [take(tranche), take(tranche)] == [([0, 1, 2], 1), ([3, 4], 2)]
    assert (tranche.is_ready, tranche.uncommitted) == (False, 2)

    assert tranche.pass_batches(0) == []
    assert tranche.pass_batches(1) == batches[:1]
    assert tranche.pass_batches(2) == batches, "the first was not committed"
    tranche.forget(batches, are_kept=True)
    assert (tranche.uncommitted, tranche.committed) == (0, FeedPosition(1, 5))


def test_events_sent_again_are_committed_and_not_handed_in_again() -> None:
    tranche = begin()
    tranche.add(a_batch(range(6)))
    take(tranche)
    tranche.add(a_batch(range(6, 8)))
    tranche.restart(FeedPosition(1, 0))
    assert not tranche.is_ready, "what waited is sent again, too"

    again = [a_batch(numbers, stream="s2") for numbers in (range(4), range(4, 9))]
    for batch in again:
        tranche.add(batch)
    assert [take(tranche), take(tranche)] == [([], 2), ([6, 7, 8], 3)]
    assert [batch.stream_id for batch in tranche.pass_batches(3)] == ["s1", "s2", "s2"]


def test_events_sent_again_in_other_batches_have_the_same_indices_despite_left_out_events() -> None:
    tranche = begin()
    tranche.add(a_batch([0, 2, 5], to=7))
    assert take(tranche) == ([0, 2, 5], 1)
    tranche.restart(FeedPosition(1, 0))

    for numbers, to in (([0], 1), ([2, 5], 6), ([9, 11], 11)):
        tranche.add(a_batch(numbers, stream="s2", to=to))
    assert [take(tranche) for _ in range(3)] == [([], 2), ([], 3), ([9, 11], 4)]


def test_events_handled_by_others_meanwhile_are_not_missed() -> None:
    tranche = begin()
    tranche.add(a_batch(range(6)))
    take(tranche)
    tranche.restart(FeedPosition(1, 50))
    tranche.add(a_batch(range(50, 52), stream="s2"))
    assert take(tranche) == ([50, 51], 2)


def test_reset_waits_until_all_events_are_handled_and_then_sends_them_again() -> None:
    tranche = begin()
    first = a_batch(range(6))
    tranche.add(first)
    take(tranche)
    tranche.forget(tranche.pass_batches(1), are_kept=True)
    tranche.add(a_batch(range(6, 9)))
    take(tranche)

    tranche.restart(FeedPosition(1, 2))
    tranche.add(a_batch(range(2, 8), stream="s2"))
    tranche.add(a_batch(range(8, 9), stream="s2"))
    assert not tranche.is_ready
    tranche.forget(tranche.pass_batches(2), are_kept=False)
    assert take(tranche) == ([2, 3, 4, 5, 6, 7], 3)
    assert take(tranche) == ([8], 4)


def test_recreated_feed_is_read_from_its_beginning() -> None:
    tranche = begin()
    tranche.add(a_batch(range(6)))
    take(tranche)
    tranche.pass_batches(1)
    tranche.restart(FeedPosition(2, 0))
    tranche.add(a_batch(range(3), epoch=2, stream="s2"))
    assert take(tranche) == ([0, 1, 2], 2)


def test_parked_events_come_one_batch_at_a_time() -> None:
    tranche = DeliveredPartition(f"{TRANCHE}+parked", FeedPosition(0, 0), is_parked=True)
    batches = [a_batch(range(8, 10), parked=1), a_batch(range(5, 6), parked=2)]
    for batch in batches:
        tranche.add(batch)
    assert take(tranche) == ([8, 9], 1)
    assert not tranche.is_ready
    tranche.forget(tranche.pass_batches(1), are_kept=True)
    assert take(tranche) == ([5], 2)
    assert tranche.pass_batches(2) == batches[1:]


def test_parked_events_are_numbered_apart_where_their_stream_may_have_other_keys() -> None:
    definition = {"partition_strategy": "hash", "partition_key_fields": ["k"]}
    by_key, by_field = (SubscribedEvents(stream, None, lambda _: definition) for stream in (None, ["shop"]))
    told = []
    for events in (by_key, by_field):
        events.learn("order.placed")
        for parked in (None, 7):
            cursor = BatchCursor("3", offset_text(1, 9), "order.placed", f"parked-{parked}-9-proof" if parked else "")
            raw = [msgspec.Raw(b'{"k":"a","shop":1}'), msgspec.Raw(b'{"shop":1}')]
            batch: Sent = SubscriptionBatch("s1", BatchLine(cursor, raw, BatchInfo(offsets=[5, 9])))
            found = events.make(batch, 0)
            assert [event.index for event in found] == [5, 9]
            assert len({effect_id(event, "sent") for event in found}) == 2
            told.append([(event.numbering, effect_id(event, "sent")) for event in found])

    own, again, elsewhere, apart = [[numbering for numbering, _ in each] for each in told]
    assert own == elsewhere == ["order.placed/3@1"] * 2
    assert again == ["order.placed/3@1", "order.placed/3@1+parked-7"], "an event without a key is parked by itself"
    assert apart == ["order.placed/3@1+parked-7"] * 2
    ids = [[told_id for _, told_id in each] for each in told]
    assert ids[0] == ids[1] and ids[2] == ids[3], "whoever drops repeats sees one"


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["send", "take", "commit", "restart"])), max_size=60))
def test_each_event_is_handed_in_once_and_in_order_whatever_happens_to_streams(
    steps: list[tuple[int, str]],
) -> None:
    tranche, handed, numbers = begin(), [], []
    committed = head = 0
    stream = 1
    for count, step in steps:
        if step == "send":
            tranche.add(a_batch(range(head, head + count), stream=f"s{stream}"))
            head += count
        elif step == "take" and tranche.is_ready:
            found, number = take(tranche)
            handed += found
            numbers.append(number)
        elif step == "commit" and numbers:
            may = tranche.pass_batches(numbers[min(count, len(numbers)) - 1])
            kept = [batch for batch in may if batch.stream_id == f"s{stream}"]
            committed = max([committed, *(int(batch.offset.rpartition("-")[2]) + 1 for batch in kept)])
            tranche.forget(kept, are_kept=True)
            tranche.forget(may, are_kept=False)
            assert committed <= len(handed)
        elif step == "restart":
            tranche.restart(FeedPosition(1, committed))
            head, stream = committed, stream + 1
    assert handed == list(range(len(handed)))
    tranche.restart(FeedPosition(1, committed))
    tranche.add(a_batch(range(committed, committed + 300), stream="last"))
    assert handed + take(tranche)[0] == list(range(committed + 300))


def test_batch_position_is_decoded_from_its_text() -> None:
    position = BatchPosition(FeedPosition(1, 17), 3)
    assert BatchPosition.decode(position.encode()) == position
    for text in ("1:17", "1:17#x", "x#3"):
        with pytest.raises(BadParameter, match="position is "):
            BatchPosition.decode(text)
