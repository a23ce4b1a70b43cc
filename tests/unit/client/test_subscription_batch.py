from typing import Any

import pytest

from penstock.client.subscription_batch import SubscriptionBatch, cursors_of
from penstock.core.event_decoder import EventDecoder
from penstock.errors import EventUnfit
from penstock.wire.nakadi_batches import BATCHES
from tests.unit.client.batches import batch, line, text


def test_a_batch_is_what_its_line_says() -> None:
    found = batch("s1", partition=3, last=9, count=2, token="t9")

    assert (found.stream_id, found.event_type, found.partition, found.offset) == (
        "s1", "a.b", 3, "001-0001-000000000000000009",
    )  # fmt: skip
    assert (len(found), found.debug, found.is_parked) == (2, None, False)
    assert found.raw == [b'{"n":8}', b'{"n":9}']
    assert [event.data for event in found.events] == [{"n": 8}, {"n": 9}]
    assert found.events[0].partition == 3
    assert found.cursor == {
        "event_type": "a.b",
        "partition": "3",
        "offset": "001-0001-000000000000000009",
        "cursor_token": "t9",
    }


def test_the_offsets_of_events_are_said_or_follow_from_the_cursor() -> None:
    assert list(batch(last=9, count=2).offsets) == [8, 9]
    found = BATCHES.decode(text(last=9, count=2).replace(b"]}\n", b'],"info":{"offsets":[3,9]}}'))
    assert SubscriptionBatch[Any]("s1", found).offsets == [3, 9]


def test_events_are_decoded_into_a_type_when_they_are_asked_for() -> None:
    decoder = EventDecoder(dict[str, str], "a subscription")
    found: SubscriptionBatch[Any] = SubscriptionBatch("s1", line(), decoder)

    [event] = found.events
    with pytest.raises(EventUnfit, match="a subscription"):
        event.data  # noqa: B018


def test_it_says_what_it_is() -> None:
    assert repr(batch()) == (
        "SubscriptionBatch(event_type='a.b', partition=0, offset='001-0001-000000000000000000', events=1)"
    )


def test_parked_events_are_told_by_their_token() -> None:
    assert batch(token="parked-3-17-x").is_parked


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "in no order"])
def test_of_each_partition_the_last_cursor_is_committed(turned: bool) -> None:
    batches = [batch(last=10), batch(last=9), batch(partition=1, last=2), batch("s2", last=99)]

    found = cursors_of(batches[::-1] if turned else batches)

    assert {stream: sorted(each["offset"][-2:] for each in cursors) for stream, cursors in found.items()} == {
        "s1": ["02", "10"],
        "s2": ["99"],
    }


def test_parked_events_are_committed_each_by_themselves() -> None:
    batches = [batch(last=7), batch(last=7, token="parked-1-2-x"), batch(last=7, token="parked-2-5-x")]

    assert len(cursors_of(batches)["s1"]) == 3
