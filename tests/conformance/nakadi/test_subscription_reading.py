"""What streams of subscriptions read (5.6, 5.7, 3.7): from every offset on, without what was deleted."""

import gzip
import json

import pytest

from tests.nakadi import EventType, Nakadi, business, offset
from tests.scenes import scene
from tests.served import until
from tests.subscribing import STREAM_ID, Consumer, filled, subscribe, told

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
COMPACT = {"category": "business", "cleanup_policy": "compact"}


def publish(created: EventType, *keys: int, path: str = "/events") -> None:
    """Publish, or delete, events of these keys."""
    events = [business(foo=str(key), meta={"partition_compaction_key": str(key)}) for key in keys]
    answer = created.hand_in(*events, path=path)
    assert answer.status_code == 200, answer.text


def delete(created: EventType, *keys: int) -> None:
    publish(created, *keys, path="/deleted-events")


def foos(consumer: Consumer, count: int) -> list[str]:
    return [event["foo"] for batch in consumer.batches(count) for event in batch.events or []]


@scene
def test_what_was_deleted_takes_offsets_and_is_not_sent(nakadi: Nakadi) -> None:
    """3.7; HilaDeleteEventsAT.testConsumptionForDeletedEvents: 1, 2, 3, 4, 5, 7, and why it ends."""
    created = nakadi.create(**COMPACT)
    subscription = subscribe(created)
    with subscription.stream(max_uncommitted_events=100, stream_timeout=2) as consumer:
        publish(created, 1, 2, 3, 4)
        assert foos(consumer, 4) == ["1", "2", "3", "4"]  # Else a cursor could be behind deletions, too.
        delete(created, 3, 4, 5, 6)
        publish(created, 5, 7)
        assert foos(consumer, 2) == ["5", "7"]
        assert [each.offset for each in consumer.seen if each.events] == [offset(n) for n in (0, 1, 2, 3, 8, 9)]
        assert [each["unconsumed_events"] for each in subscription.partitions()] == [10], "gaps are counted"
        assert told(consumer.rest()) == ["9[] Stream timeout reached"]


@scene
def test_what_is_left_out_at_the_end_is_committed_by_the_hub(nakadi: Nakadi) -> None:
    """5.7: every 5 seconds, where nothing else waits."""
    created = nakadi.create(**COMPACT)
    subscription = subscribe(created)
    publish(created, 1)
    with subscription.stream(batch_flush_timeout=30) as consumer:
        consumer.done(consumer.batch())
        delete(created, 1, 2, 3)
        until(lambda: subscription.committed() == [offset(3)])
        assert [each["unconsumed_events"] for each in subscription.partitions()] == [0]
        assert [each.events is None for each in consumer.seen] == [False]


def test_what_is_left_out_before_an_event_takes_no_room(nakadi: Nakadi) -> None:
    """5.6: it does not hold up a window that is smaller."""
    created = nakadi.create(**COMPACT)
    subscription = subscribe(created)
    delete(created, *range(20))
    publish(created, 1, 2)
    with subscription.stream(max_uncommitted_events=1, batch_flush_timeout=1) as consumer:
        assert foos(consumer, 1) == ["1"]
        consumer.done(consumer.seen[-1])
        assert foos(consumer, 1) == ["2"]


def test_a_stream_sends_what_follows_each_offset_that_it_was_given(nakadi: Nakadi) -> None:
    """5.3, 5.5; SubscriptionConsumptionTest.testAllEventsConsumed, without timelines."""
    subscription = filled(nakadi, 6)
    with subscription.stream() as consumer:
        cursors = [each.cursor for each in consumer.batches(6)]
        assert consumer.commit(*cursors).status_code == 204
    for number, cursor in enumerate(cursors[:-1]):
        members = {"read_from": "cursors", "initial_cursors": [cursor]}
        begun = subscribe(EventType(nakadi.http, subscription.event_types[0]), **members)
        with begun.stream() as consumer:
            assert [each.numbers for each in consumer.batches(5 - number)] == [[n] for n in range(number + 1, 6)]
        subscription.reset(cursor)
        with subscription.stream() as consumer:
            assert [each.numbers for each in consumer.batches(5 - number)] == [[n] for n in range(number + 1, 6)]


def test_several_read_the_same_without_each_other(nakadi: Nakadi) -> None:
    """5.1: each subscription has positions of its own."""
    one = filled(nakadi, 5)
    others = [subscribe(EventType(nakadi.http, one.event_types[0])) for _ in range(3)]
    for number, subscription in enumerate([one, *others]):
        with subscription.stream() as consumer:
            found = consumer.batches(5)
            assert [each.numbers for each in found] == [[n] for n in range(5)]
            consumer.done(found[number])
    assert [each.committed() for each in (one, *others)] == [[offset(number)] for number in range(4)]


# How clients send: 0.3 and 10


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json;charset=UTF-8", "application/json; x=y"]
)
def test_bodies_are_json_whatever_their_type_says_besides(nakadi: Nakadi, content_type: str) -> None:
    """10."""
    subscription = filled(nakadi, 1)
    with subscription.stream() as consumer:
        body = json.dumps({"items": [consumer.batch().cursor]})
        headers = {"Content-Type": content_type, STREAM_ID: consumer.id}
        answer = nakadi.http.post(f"{subscription.path}/cursors", content=body, headers=headers)
        assert answer.status_code == 204


@pytest.mark.parametrize("name", ["X-Nakadi-StreamId", "x-nakadi-streamid", "X-NAKADI-STREAMID"])
def test_a_commit_may_be_compressed_and_headers_be_written_in_any_case(nakadi: Nakadi, name: str) -> None:
    """0.3, 10."""
    subscription = filled(nakadi, 1)
    with subscription.stream() as consumer:
        body = gzip.compress(json.dumps({"items": [consumer.batch().cursor]}).encode())
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", name: consumer.id}
        answer = nakadi.http.post(f"{subscription.path}/cursors", content=body, headers=headers)
        assert answer.status_code == 204


def test_every_answer_has_a_flow_id(nakadi: Nakadi) -> None:
    """0.3."""
    subscription = filled(nakadi, 1)
    for path in ("", "/cursors", "/stats", "/nothing"):
        answer = nakadi.http.get(subscription.path + path, headers={"X-Flow-Id": "abc"})
        assert answer.headers["X-Flow-Id"] == "abc"
    with subscription.asked(headers={"X-Flow-Id": "abc"}) as answer:
        assert answer.headers["X-Flow-Id"] == "abc"


def test_whoever_asks_for_a_head_begins_no_stream(nakadi: Nakadi) -> None:
    """A HEAD is a GET without its body: it takes no slot."""
    subscription = filled(nakadi, 1)
    answer = nakadi.http.head(f"{subscription.path}/events")
    assert answer.status_code == 200
    assert subscription.cursors() == {}
