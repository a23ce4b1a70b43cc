"""A batch of an idempotent producer is appended, a duplicate, or refused, by the numbers that are stored."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.producers import EpochEnd, OffsetRange, ProducerState
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import PenstockError
from penstock.hub.committer import judge, record
from penstock.hub.log.publish import AppendResult, ProducerResult, RequestResult
from penstock.hub.producers import sequencing
from penstock.hub.producers.sequencing import StaleError
from penstock.storage import Store
from penstock.storage.producers import Producer
from penstock.testing.clock import START_AT
from tests.unit.hub.feeds import NAME, a_feed, create_feed, prepare_events, read_data
from tests.unit.hub.numbering import (
    UNFIT,
    a_batch,
    a_publish,
    change,
    expire,
    find_producer,
    forget_batches,
    make_events,
    settle,
)

LOG = "xuvabcyde"
AT_5 = ProducerState(epoch=3, begin=0, next=5, last_offset=8, previous=EpochEnd(2, 2, 2))
TRIMS = {"trims": True}
Given = tuple[int, int, str, dict[str, Any]]
"""Epoch, sequence number, events; and others, as `a_batch` takes them."""


def read_letters(store: Store, feed: StoredFeed, partition: int = 0) -> str:
    return "".join(line[6] for line in read_data(store, feed.partition_ids[partition]))


def read_producer(store: Store, feed: StoredFeed, group: str = "g", partition: int = 0) -> Producer:
    producer = find_producer(store, feed, group, partition)
    assert producer is not None
    return producer


def produce(store: Store, feed: StoredFeed, epoch: int, sequence: int, letters: str, **others: Any) -> ProducerResult:
    """Append a batch, and return what its producer is told."""
    [told] = settle(store, a_batch(feed, epoch, sequence, letters, **others))
    return read_produced(told)


def read_produced(told: RequestResult) -> ProducerResult:
    assert isinstance(told, AppendResult), told
    assert told.produced is not None
    return told.produced


def read_refusal(told: RequestResult) -> tuple[str, dict[str, Any]]:
    assert isinstance(told, PenstockError), told
    return told.code, told.fields


def refuse(
    store: Store, feed: StoredFeed, epoch: int, sequence: int, letters: str, **others: Any
) -> tuple[str, dict[str, Any]]:
    """Hand in a batch that is refused, and return how."""
    [told] = settle(store, a_batch(feed, epoch, sequence, letters, **others))
    return read_refusal(told)


APPENDED: dict[str, tuple[Given, ProducerResult, str]] = {
    "the next": ((3, 5, "f", {}), ProducerResult("appended", 3, 5, 5, 6, [OffsetRange(9, 9)]), "f"),
    "the next ones": ((3, 5, "fgh", {}), ProducerResult("appended", 3, 5, 7, 8, [OffsetRange(9, 11)]), "fgh"),
    "the next, to be trimmed": ((3, 5, "fgh", TRIMS),
        ProducerResult("appended", 3, 5, 7, 8, [OffsetRange(9, 11)]), "fgh"),
    "the next epoch": ((4, 0, "ab", {}), ProducerResult("appended", 4, 0, 1, 2, [OffsetRange(9, 10)]), "ab"),
    "another producer": ((0, 0, "ab", {"group": "h"}),
        ProducerResult("appended", 0, 0, 1, 2, [OffsetRange(9, 10)]), "ab"),
    "one whose beginning is there": ((3, 3, "defg", TRIMS), ProducerResult(
        "trimmed", 3, 3, 6, 7, [OffsetRange(7, 8), OffsetRange(9, 10)]), "fg"),
    "one whose beginning lies apart": ((3, 1, "bcdef", TRIMS), ProducerResult(
        "trimmed", 3, 1, 5, 6, [OffsetRange(4, 5), OffsetRange(7, 8), OffsetRange(9, 9)]), "f"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "told", "more"), APPENDED.values(), ids=APPENDED)
def test_new_events_are_appended_and_a_repeat_is_a_duplicate(
    store: Store, feed: StoredFeed, given: Given, told: ProducerResult, more: str
) -> None:
    epoch, sequence, letters, others = given

    [published] = settle(store, a_batch(feed, epoch, sequence, letters, **others), at=START_AT + 7)

    assert read_produced(published) == told
    assert isinstance(published, AppendResult)
    assert (published.events, published.next_offsets) == (len(more), {0: len(LOG + more)})
    assert read_letters(store, feed) == LOG + more
    producer = read_producer(store, feed, others.get("group", "g"))
    assert (producer.state.epoch, producer.state.next, producer.updated_at) == (epoch, told.next, START_AT + 7)
    again = produce(store, feed, epoch, sequence, letters, **others)
    assert (again.outcome, spread(again.ranges)) == ("duplicate", spread(told.ranges))


def spread(ranges: Sequence[OffsetRange]) -> list[int]:
    return [offset for each in ranges for offset in range(each.first, each.last + 1)]


REPEATED: dict[str, tuple[int, str, list[OffsetRange]]] = {
    "the last one": (3, "de", [OffsetRange(7, 8)]),
    "the first one": (0, "abc", [OffsetRange(3, 5)]),
    "an event of it": (1, "b", [OffsetRange(4, 4)]),
    "all": (0, "abcde", [OffsetRange(3, 5), OffsetRange(7, 8)]),
    "in other pieces": (2, "cd", [OffsetRange(5, 5), OffsetRange(7, 7)]),
}


@pytest.mark.parametrize(("sequence", "letters", "ranges"), REPEATED.values(), ids=REPEATED)
def test_duplicate_is_answered_with_its_offsets_however_it_is_sent(
    store: Store, feed: StoredFeed, sequence: int, letters: str, ranges: list[OffsetRange]
) -> None:
    before = find_producer(store, feed)
    last = sequence + len(letters) - 1
    for how in ({}, TRIMS, {"fits": False}):
        told = settle(store, a_batch(feed, 3, sequence, letters, **how), at=START_AT + 7)

        assert told == [AppendResult(feed, 0, {}, ProducerResult("duplicate", 3, sequence, last, 5, ranges))]
        assert (read_letters(store, feed), find_producer(store, feed)) == (LOG, before)


def committed(is_committed: bool | None, *ranges: tuple[int, int]) -> dict[str, Any]:
    """Return the fields that say how much of a batch is stored."""
    return {"committed": is_committed, "ranges": [{"first": first, "last": last} for first, last in ranges]}


NOTHING, UNKNOWN = committed(False), committed(None)
REFUSED: dict[str, tuple[Given, str, dict[str, Any]]] = {
    "one too far": ((3, 6, "g", {}), "sequence-gap", {"expected": 5} | NOTHING),
    "before the first": ((3, (1 << 53) - 1, "g", {}), "sequence-gap", {"expected": 5} | NOTHING),
    "an epoch that does not begin with 0": ((4, 5, "f", {}), "sequence-gap", {"expected": 0} | NOTHING),
    "a new producer that does not": ((0, 1, "b", {"group": "h"}), "sequence-gap", {
        "expected": 0, "current_epoch": None, "next_sequence": None} | UNKNOWN),
    "one whose beginning is there": ((3, 3, "defg", {}), "sequence-overlap", committed(False, (7, 8))),
    "all and more": ((3, 0, "abcdef", {}), "sequence-overlap", committed(False, (3, 5), (7, 8))),
    "another one": ((3, 3, "d!", {}), "payload-mismatch", {"differs_at": 4} | NOTHING),
    "another one across two": ((3, 2, "!d", {}), "payload-mismatch", {"differs_at": 2} | NOTHING),
    "another beginning, to be trimmed": ((3, 4, "!f", TRIMS), "payload-mismatch", {"differs_at": 4} | NOTHING),
    "of the epoch before, stored": ((2, 0, "uv", {}), "producer-fenced", committed(True, (1, 2))),
    "of the epoch before, an event of it": ((2, 1, "v", {}), "producer-fenced", committed(True, (2, 2))),
    "of the epoch before, half of it": ((2, 1, "vw", {}), "producer-fenced", committed(False, (2, 2))),
    "of the epoch before, half of it, to be trimmed": (
        (2, 1, "vw", TRIMS), "producer-fenced", committed(False, (2, 2))),
    "of the epoch before, not stored": ((2, 2, "w", {}), "producer-fenced", NOTHING),
    "of the epoch before, another one": ((2, 0, "u!", {}), "producer-fenced", NOTHING),
    "of an epoch that is not known": ((1, 0, "u", {}), "producer-fenced", UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize(("given", "code", "fields"), REFUSED.values(), ids=REFUSED)
def test_refused_batch_changes_nothing_and_learns_how_much_of_it_is_stored(
    store: Store, feed: StoredFeed, given: Given, code: str, fields: dict[str, Any]
) -> None:
    epoch, sequence, letters, others = given
    before = read_producer(store, feed)
    assert before.state == AT_5

    who = {"producer_group": others.get("group", "g"), "partition": 0, "received": sequence}
    for fits in (True, False):
        refusal = refuse(store, feed, epoch, sequence, letters, **others, fits=fits)
        assert refusal == (code, {"current_epoch": 3, "next_sequence": 5} | who | fields)
    assert (read_letters(store, feed), read_producer(store, feed)) == (LOG, before)
    assert find_producer(store, feed, "h") is None


def test_batch_whose_stored_digests_are_forgotten_is_too_old(store: Store, feed: StoredFeed) -> None:
    forget_batches(store, feed, 3, 0)

    fields = {"current_epoch": 3, "next_sequence": 5, "producer_group": "g", "partition": 0} | UNKNOWN
    assert refuse(store, feed, 3, 1, "bc") == ("sequence-too-old", fields | {"received": 1})
    assert refuse(store, feed, 3, 2, "cdef", **TRIMS) == ("sequence-too-old", fields | {"received": 2})
    assert read_letters(store, feed) == LOG


@pytest.mark.parametrize(
    ("epoch", "sequence", "letters", "stored"),
    [(3, 3, "de", committed(True, (7, 8))), (3, 5, "f", NOTHING), (2, 2, "w", NOTHING)],
    ids=["stored", "not stored", "of an epoch before"],
)
def test_expired_producer_is_refused(
    store: Store, feed: StoredFeed, *, epoch: int, sequence: int, letters: str, stored: dict[str, Any]
) -> None:
    expire(store, feed)

    who = {"producer_group": "g", "partition": 0, "received": sequence, "current_epoch": 3, "next_sequence": None}
    assert refuse(store, feed, epoch, sequence, letters) == ("producer-state-expired", who | stored)
    assert read_letters(store, feed) == LOG


def test_expired_producer_without_batches_is_refused_with_an_unknown_outcome(store: Store, feed: StoredFeed) -> None:
    expire(store, feed)
    forget_batches(store, feed, 3, 0, 3)

    kind, fields = refuse(store, feed, 3, 3, "de")

    assert (kind, fields["committed"], fields["ranges"]) == ("producer-state-expired", None, [])


def test_expired_producer_goes_on_with_a_higher_epoch(store: Store, feed: StoredFeed) -> None:
    expire(store, feed)

    _, gap = refuse(store, feed, 4, 1, "f")
    assert gap | {"expected": 0, "current_epoch": 3, "next_sequence": None} == gap
    assert produce(store, feed, 4, 0, "f") == ProducerResult("appended", 4, 0, 0, 1, [OffsetRange(9, 9)])
    assert read_producer(store, feed).state == ProducerState(4, 0, 1, 9)


def test_new_producer_is_recorded_with_its_first_batch(store: Store, feed: StoredFeed) -> None:
    settle(store, a_batch(feed, 7, 0, "ab", group="h", partition=1), at=START_AT + 7)

    producer = read_producer(store, feed, "h", partition=1)
    assert producer[1:] == (feed.partition_ids[1], "h", ProducerState(7, 0, 2, 1), None, False, START_AT + 7)
    assert find_producer(store, feed, "h") is find_producer(store, feed, "g", partition=1) is None


def test_new_epoch_drops_the_claim_and_keeps_the_end_of_the_epoch_before(store: Store, feed: StoredFeed) -> None:
    change(store, feed, claim_id="mine", is_pinned=True)

    produce(store, feed, 3, 5, "f")
    before = read_producer(store, feed)
    assert (before.claim_id, before.is_pinned) == ("mine", True)
    produce(store, feed, 9, 0, "a")

    after = read_producer(store, feed)
    assert after.state == ProducerState(9, 0, 1, 10, previous=EpochEnd(3, 6, 9))
    assert (after.id, after.claim_id, after.is_pinned) == (before.id, None, True)


def test_epoch_that_was_claimed_from_a_number_begins_there(store: Store, feed: StoredFeed) -> None:
    change(store, feed, state=AT_5.begin_epoch(4, 100), claim_id="mine")

    assert refuse(store, feed, 4, 99, "a")[0] == "sequence-gap"
    assert produce(store, feed, 4, 100, "a") == ProducerResult("appended", 4, 100, 100, 101, [OffsetRange(9, 9)])
    assert produce(store, feed, 4, 100, "a").outcome == "duplicate"
    assert read_producer(store, feed).claim_id == "mine"


def test_sequence_numbers_wrap_around_within_a_batch(store: Store, feed: StoredFeed) -> None:
    def send(sequence: int, letters: str) -> RequestResult:
        return settle(store, a_batch(feed, 0, sequence, letters, group="h"), modulus=8)[0]

    told = [send(*each) for each in [(0, "abc"), (3, "def"), (6, "ghi"), (6, "ghi"), (7, "hi")]]

    assert [read_produced(each) for each in told] == [
        ProducerResult("appended", 0, 0, 2, 3, [OffsetRange(9, 11)]),
        ProducerResult("appended", 0, 3, 5, 6, [OffsetRange(12, 14)]),
        ProducerResult("appended", 0, 6, 0, 1, [OffsetRange(15, 17)]),
        ProducerResult("duplicate", 0, 6, 0, 1, [OffsetRange(15, 17)]),
        ProducerResult("duplicate", 0, 7, 0, 1, [OffsetRange(16, 17)]),
    ]
    for sequence, letters, kind, some in [
        (0, "ijk", "sequence-overlap", {"next_sequence": 1, "ranges": [{"first": 17, "last": 17}]}),
        (7, "h!", "payload-mismatch", {"next_sequence": 1, "differs_at": 0}),
        (2, "k", "sequence-gap", {"expected": 1}),
    ]:
        refused, fields = read_refusal(send(sequence, letters))
        assert (refused, fields | some) == (kind, fields)


def test_unfit_new_events_are_refused_and_use_up_no_number(store: Store, feed: StoredFeed) -> None:
    new: list[Given] = [(3, 5, "f", {}), (4, 0, "f", {}), (0, 0, "f", {"group": "h"}), (3, 4, "ef", TRIMS)]

    for epoch, sequence, letters, others in new:
        assert settle(store, a_batch(feed, epoch, sequence, letters, **others, fits=False)) == [UNFIT]

    assert read_producer(store, feed).state == AT_5
    assert (read_letters(store, feed), find_producer(store, feed, "h")) == (LOG, None)
    assert produce(store, feed, 3, 5, "f").first == 5


def test_new_producer_beyond_the_limit_is_refused(
    store: Store, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 1)
    too_many = ("too-many-producers", {"event_type": NAME, "partition": 0, "limit": 1})

    assert refuse(store, feed, 0, 0, "a", group="h") == too_many
    assert refuse(store, feed, 0, 1, "a", group="h")[0] == "sequence-gap"
    assert settle(store, a_batch(feed, 0, 0, "a", group="h", fits=False)) == [UNFIT]
    assert (read_letters(store, feed), find_producer(store, feed, "h")) == (LOG, None)

    assert produce(store, feed, 0, 0, "a", group="h", partition=1).outcome == "appended"
    assert produce(store, feed, 4, 0, "a").outcome == "appended"
    expire(store, feed)
    assert produce(store, feed, 0, 0, "a", group="h").outcome == "appended"


def test_producers_that_begin_together_or_after_they_expired_count_toward_the_limit(
    store: Store, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 2)

    def begin(*groups: str) -> list[str]:
        told = settle(store, *[a_batch(feed, 4, 0, "a", group=each) for each in groups])
        return [group for group, each in zip(groups, told, strict=True) if isinstance(each, AppendResult)]

    assert begin("h", "i", "g") == ["h", "g"]
    expire(store, feed, "h")
    assert begin("i") == ["i"]
    assert refuse(store, feed, 5, 0, "b", group="h")[0] == "too-many-producers"


def test_each_request_of_a_transaction_has_its_own_answer(store: Store, feed: StoredFeed) -> None:
    told = settle(
        store,
        a_batch(feed, 3, 5, "fg"),
        a_publish(feed, "p"),
        a_batch(feed, 0, 4, "!", group="h"),
        a_batch(feed, 0, 0, "hi", group="i"),
        a_batch(feed, 0, 0, "jk", group="g", partition=1),
        a_publish(feed, "q", partition=1),
        moved=[prepare_events(feed, *make_events("m"))],
    )

    assert read_refusal(told[2])[0] == "sequence-gap"
    assert [(each.events, each.next_offsets) for each in told if isinstance(each, AppendResult)] == [
        (2, {0: 12}), (1, {0: 13}), (2, {0: 15}), (2, {1: 2}), (1, {1: 3}),
    ]  # fmt: skip
    ranges = [read_produced(told[n]).ranges for n in (0, 3, 4)]
    assert ranges == [[OffsetRange(10, 11)], [OffsetRange(13, 14)], [OffsetRange(0, 1)]]
    assert (read_letters(store, feed), read_letters(store, feed, 1)) == (LOG + "mfgphi", "jkq")


def test_no_producer_is_locked_for_requests_without_one() -> None:
    nothing: Any = None
    request = a_publish(a_feed(), "p")

    [verdict] = judge(nothing, [request], [prepare_events(a_feed(), *make_events("m"))])

    assert (verdict.appends, verdict.result, verdict.reservation) == (request.ready, None, None)


def test_producers_are_locked_sorted_after_all_event_types_of_the_transaction(
    store: Store, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, third = (create_feed(store, name, partition_count=2) for name in ("other", "third"))
    requests = [
        a_batch(third, 0, 0, "a", fits=False),
        a_batch(feed, 0, 0, "a", group="h", partition=1),
        a_publish(other, "p"),
        a_batch(feed, 0, 0, "a", group="H", partition=1),
        a_batch(feed, 0, 0, "a", group="z"),
    ]
    asked: list[Any] = []

    with store.write() as tx:
        find = tx.producers.find
        monkeypatch.setattr(
            tx.producers, "find", lambda keys, *, lock: (asked.extend([keys, lock]), find(keys, lock=lock))[1]
        )
        judge(tx, requests, [prepare_events(other, *make_events("m", 1))])

    (first, second), last = feed.partition_ids, third.partition_ids[0]
    assert asked == [
        [(first, "z"), (second, "H"), (second, "h"), (last, "g")],
        [first, second, *other.partition_ids, last],
    ]


def test_batch_for_a_removed_partition_is_stale_and_nothing_is_written(store: Store, feed: StoredFeed) -> None:
    other = create_feed(store, "another")
    with store.write() as tx:
        tx.registry.delete("another")
    gone, kept = a_batch(other, 0, 0, "a"), a_batch(feed, 3, 5, "f")

    with pytest.raises(StaleError) as raised:
        settle(store, kept, gone, a_publish(feed, "p"))

    assert raised.value.requests == [gone]
    assert read_letters(store, feed) == LOG


def test_batch_of_a_producer_that_another_hub_has_inserted_is_stale(
    store: Store, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, kept = a_batch(feed, 0, 0, "a", group="h"), a_batch(feed, 3, 5, "f")

    with store.write() as tx:
        verdicts = judge(tx, [kept, new], [])
        monkeypatch.setattr(tx.producers, "insert", lambda *_given, **_others: None)
        results = [AppendResult(feed, 1, {0: 10}), AppendResult(feed, 1, {0: 11})]
        with pytest.raises(StaleError) as raised:
            record(tx, verdicts, results, START_AT)

    assert raised.value.requests == [new]
    assert read_producer(store, feed).state == AT_5
