"""Streams of subscriptions (5.6 and 5.7): what they are asked for, what they consist of, and who is refused.

Those that end by the clock are in test_subscription_timeouts.py.
"""

import gzip
import json
import time
from typing import Any

import httpx2
import pytest

from tests.nakadi import BEFORE_FIRST, Nakadi, business, offset, statistic
from tests.served import as_new, until
from tests.subscribing import event_type_of, filled, numbered, put, subscribe, told

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
STARTED = "Stream started"


# How much is sent


def test_a_window_that_is_full_sends_nothing_more(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenWindowSizeIsSetItIsConsidered: of 15 events 5; 10 with the 5th committed; 12 with the 7th."""
    subscription = filled(nakadi, 15)
    with subscription.stream(max_uncommitted_events=5, batch_flush_timeout=1) as consumer:
        consumer.batches(5)
        assert consumer.next().events is None
        consumer.done(consumer.seen[4])
        consumer.batches(5)
        assert consumer.next().events is None
        sent = [each for each in consumer.seen if each.events]
        consumer.done(sent[6])
        consumer.batches(2)
        assert consumer.next().events is None
        sent = [each for each in consumer.seen if each.events]
        assert [each.numbers for each in sent] == [[number] for number in range(12)]
        assert [each.offset for each in sent] == [offset(number) for number in range(12)]


def test_the_window_is_of_all_partitions_together(nakadi: Nakadi) -> None:
    """5.6."""
    subscription = filled(nakadi, 5, partitions=2)
    with subscription.stream(max_uncommitted_events=6, batch_flush_timeout=1) as consumer:
        consumer.batches(6)
        assert [consumer.next().events for _ in range(2)] == [None, None]


def test_a_window_of_10_is_the_default_and_so_is_a_batch_of_1(nakadi: Nakadi) -> None:
    """5.6."""
    subscription = filled(nakadi, 12)
    with subscription.stream(batch_flush_timeout=1) as consumer:
        assert [each.numbers for each in consumer.batches(10)] == [[number] for number in range(10)]
        assert consumer.next().events is None


def test_a_batch_is_no_larger_than_the_window(nakadi: Nakadi) -> None:
    """5.6."""
    subscription = filled(nakadi, 12)
    with subscription.stream(max_uncommitted_events=4, batch_limit=100, batch_flush_timeout=1) as consumer:
        first = consumer.batch()
        assert first.numbers == [0, 1, 2, 3]
        consumer.done(first)
        assert consumer.batch().numbers == [4, 5, 6, 7]


def test_a_stream_ends_when_as_much_is_committed_as_was_asked_for(nakadi: Nakadi) -> None:
    """5.6; HilaAT.whenOffsetIsCommittedNextSessionStartsFromNextEventAfterCommitted: 0, 1; then 2, 3."""
    subscription = filled(nakadi, 4)
    for wanted in ([0, 1], [2, 3]):
        with subscription.stream(stream_limit=2) as consumer:
            found = consumer.batches(2)
            assert [each.numbers for each in found] == [[number] for number in wanted]
            assert found[0].debug == STARTED
            consumer.done(found[1])
            assert told(consumer.rest()) == [f"{wanted[1]}[] Stream limit in events reached: 2"]


def test_a_limit_of_events_needs_no_relation_to_that_of_a_batch(nakadi: Nakadi) -> None:
    """5.6: no check; what is sent is cut."""
    subscription = filled(nakadi, 9)
    with subscription.stream(stream_limit=3, batch_limit=5, batch_flush_timeout=1) as consumer:
        batch = consumer.batch()
        assert batch.numbers == [0, 1, 2]
        assert consumer.next().events is None
        consumer.done(batch)
        assert consumer.reason() == "Stream limit in events reached: 3"


def test_events_that_come_later_are_sent_at_once(nakadi: Nakadi) -> None:
    """5.7: the headers come before the first batch, and a full batch does not wait."""
    subscription = filled(nakadi, 0)
    began_at = time.monotonic()
    with subscription.stream(batch_flush_timeout=30) as consumer:
        for number in range(3):
            put(event_type_of(subscription), number)
            consumer.done(consumer.next())
        assert [each.numbers for each in consumer.seen] == [[0], [1], [2]]
    assert time.monotonic() - began_at < 28


def test_much_that_waits_is_sent_before_its_time(strict: Nakadi) -> None:
    """0.1, 5.6: and the batch says why."""
    created = numbered(strict)
    created.publish(*(business(n=number, text="x" * 1_000, meta={"partition": "0"}) for number in range(50)))
    subscription = subscribe(created)
    parameters = {"batch_limit": 1_000, "max_uncommitted_events": 1_000, "batch_flush_timeout": 30}
    began_at = time.monotonic()
    with subscription.stream(**parameters) as consumer:
        first = consumer.next()
        consumer.done(first)
        assert first.numbers[0] == 0
        assert 0 < len(first.numbers) <= 50
        if len(first.numbers) < 50:
            assert consumer.next().debug == "Stream parameters are causing overflow"
    assert time.monotonic() - began_at < 28


# What is in a line


def test_a_line_has_its_members_in_this_order_and_no_spaces(nakadi: Nakadi) -> None:
    """5.6, 10, 12."""
    created = nakadi.create()
    created.publish('[{"foo":"a"},{"foo":"b"}]')
    subscription = subscribe(created)
    with subscription.asked(batch_limit=2, batch_flush_timeout=1) as answer:
        lines = answer.iter_lines()
        first, second = next(lines), next(lines)
    token = json.loads(first)["cursor"]["cursor_token"]
    cursor = f'{{"cursor":{{"partition":"0","offset":"{offset(1)}","event_type":"{created.name}","cursor_token":"%s"}}'
    assert first == f'{cursor % token},"events":[{{"foo":"a"}},{{"foo":"b"}}],"info":{{"debug":"Stream started"}}}}'
    assert second == f"{cursor % json.loads(second)['cursor']['cursor_token']}}}"


def test_headers_tell_the_stream_and_its_media_type(nakadi: Nakadi) -> None:
    """5.6, 0.3, 10: in chunks, and without waiting for the first batch."""
    subscription = filled(nakadi, 0)
    with subscription.asked(batch_flush_timeout=30) as answer:
        headers = answer.headers
    assert headers["content-type"] == "application/x-json-stream"
    assert headers["transfer-encoding"] == "chunked"
    assert "content-length" not in headers
    assert len(headers["x-nakadi-streamid"]) == 36
    assert headers["x-flow-id"]


def test_it_is_compressed_where_that_is_asked_for(nakadi: Nakadi) -> None:
    """0.3."""
    subscription = filled(nakadi, 2)
    sent = {"Accept-Encoding": "gzip"}
    with subscription.asked(headers=sent, batch_limit=2, batch_flush_timeout=1, stream_timeout=1) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        body = b"".join(answer.iter_raw())
    first = json.loads(gzip.decompress(body).splitlines()[0])
    assert [event["n"] for event in first["events"]] == [0, 1]


def test_parameters_come_by_post_as_well(nakadi: Nakadi) -> None:
    """5.6: the query string is ignored then; numbers and unknown members may be there."""
    subscription = filled(nakadi, 4)
    body = {"batch_limit": 2, "stream_limit": 4, "max_uncommitted_events": 20, "unknown": [1]}
    path = f"{subscription.path}/events"
    with subscription.http.stream("POST", path, json=body, params={"batch_limit": "x"}) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        found = [json.loads(next(lines))["events"] for _ in range(2)]
    assert [[event["n"] for event in events] for events in found] == [[0, 1], [2, 3]]


def test_several_event_types_come_in_one_stream(nakadi: Nakadi) -> None:
    """5.10: every cursor says of which it is."""
    one, two = sorted((numbered(nakadi, 2) for _ in range(2)), key=lambda each: each.name)
    for created in (one, two):
        put(created, 0, 1, partition=1)
    subscription = subscribe(two, one)
    with subscription.stream(batch_limit=2) as consumer:
        found = consumer.batches(2)
        assert sorted(each.place for each in found) == [(one.name, "1"), (two.name, "1")]
        assert {tuple(each.numbers) for each in found} == {(0, 1)}
        consumer.done(*found)
    wanted = {"0": BEFORE_FIRST, "1": offset(1)}
    assert subscription.cursors() == {
        (name, number): wanted[number] for name in (one.name, two.name) for number in wanted
    }


# Where it begins: 5.3


def test_cursors_are_where_it_begins(nakadi: Nakadi) -> None:
    """5.1, 5.3; SubscriptionAT.testSubscriptionWithInitialCursors: two event types of two partitions, 19 events."""
    one, two = sorted((numbered(nakadi, 2) for _ in range(2)), key=lambda each: each.name)
    for created in (one, two):
        for number in range(2):
            put(created, *range(10), partition=number)
    given = [(one, 0, 7), (one, 1, 2), (two, 0, "BEGIN"), (two, 1, 9)]
    initial = [
        {"event_type": created.name, "partition": str(number), "offset": offset(at) if isinstance(at, int) else at}
        for created, number, at in given
    ]
    subscription = subscribe(one, two, read_from="cursors", initial_cursors=initial)
    with subscription.stream(max_uncommitted_events=100, batch_limit=1, batch_flush_timeout=1) as consumer:
        found = consumer.batches(19)
        firsts = {each.place: each.numbers[0] for each in reversed(found)}
        assert firsts == {(one.name, "0"): 8, (one.name, "1"): 3, (two.name, "0"): 0}
        assert [consumer.next().events for _ in range(4)] == [None] * 4


def test_the_end_is_where_it_was_when_the_first_stream_began(nakadi: Nakadi) -> None:
    """5.3: events published between creating and first reading are skipped."""
    subscription = filled(nakadi, 2, read_from="end")
    created = event_type_of(subscription)
    put(created, 2)
    assert subscription.cursors() == {}
    with subscription.stream() as consumer:
        assert subscription.committed() == [offset(2)]
        put(created, 3)
        assert consumer.next().numbers == [3]


def test_the_beginning_is_before_the_oldest_event(nakadi: Nakadi) -> None:
    """5.3."""
    subscription = filled(nakadi, 2)
    with subscription.stream() as consumer:
        assert subscription.committed() == [BEFORE_FIRST]
        assert [each.numbers for each in consumer.batches(2)] == [[0], [1]]


def test_one_made_after_partitions_were_added_reads_all_of_them(nakadi: Nakadi) -> None:
    """HilaAT.whenEventTypeRepartitionedTheNewSubscriptionShouldHaveUpdatedPartition: one batch from partition 1."""
    created = numbered(nakadi)
    put(created, 0)
    answer = nakadi.http.put(f"{created.path}/partition-count", json={"partition_count": 2})
    assert answer.status_code == 204
    put(created, 1, partition=1)
    assert created.shown()["default_statistic"] == statistic(2) | created.shown()["default_statistic"]
    with subscribe(created).stream() as consumer:
        assert sorted((each.partition, each.numbers) for each in consumer.batches(2)) == [("0", [0]), ("1", [1])]


# What is refused: 5.6, 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_limit", 0),
        ("batch_limit", -1),
        ("max_uncommitted_events", 0),
        ("max_uncommitted_events", -1),
        ("stream_limit", -1),
        ("batch_flush_timeout", -1),
        ("batch_timespan", -1),
        ("stream_keep_alive_limit", -1),
        ("commit_timeout", -1),
        ("commit_timeout", 61),
    ],
)
def test_a_number_out_of_range_is_answered_422(strict: Nakadi, name: str, value: int) -> None:
    """5.6, 0.1; 11, no. 10: a window of 0 would send nothing."""
    subscription = filled(strict, 0)
    subscription.refuse(422, **{name: value})
    subscription.refuse(422, partitions=[], **{name: value})


@pytest.mark.parametrize("name", ["batch_limit", "max_uncommitted_events", "commit_timeout", "stream_timeout"])
@pytest.mark.parametrize("value", ["x", "1.5", str(2**31)])
def test_a_number_that_is_none_is_answered_400(nakadi: Nakadi, name: str, value: str) -> None:
    """6."""
    subscription = filled(nakadi, 0)
    subscription.refuse(400, **{name: value})
    answer = nakadi.http.post(f"{subscription.path}/events", json={name: value})
    assert answer.status_code == 400


@pytest.mark.parametrize("body", [b"x", b"[]", b'{"partitions":{}}', b'{"partitions":["0"]}'])
def test_a_body_that_cannot_be_read_is_answered_400(nakadi: Nakadi, body: bytes) -> None:
    """0.2."""
    path, sent = f"{filled(nakadi, 0).path}/events", {"Content-Type": "application/json"}
    assert nakadi.http.post(path, content=body, headers=sent).status_code == 400


@pytest.mark.parametrize(
    ("accept", "status"), [("application/avro-binary", 406), ("application/avro-binary, */*", 200)]
)
def test_avro_is_not_spoken(nakadi: Nakadi, accept: str, status: int) -> None:
    """5.6: asked for alone, it would be what is sent."""
    with nakadi.http.stream("GET", f"{filled(nakadi, 0).path}/events", headers={"Accept": accept}) as answer:
        assert answer.status_code == status


def test_a_time_to_commit_can_be_as_long_as_a_minute_and_for_us_an_hour(nakadi: Nakadi, strict: Nakadi) -> None:
    """0.1, 5.6: 0 is a minute."""
    for hub, most in ((strict, 60), (nakadi, 3_600)):
        subscription = filled(hub, 0)
        for fine in (0, 1, most):
            with subscription.stream(commit_timeout=fine):
                pass
            until(lambda found=subscription: found.partitions()[0]["state"] == "unassigned")
        subscription.refuse(422, commit_timeout=most + 1)


def test_partitions_are_asked_for_once(strict: Nakadi) -> None:
    """5.6; SubscriptionAT.whenStreamDuplicatePartitionsThenUnprocessableEntity."""
    assert filled(strict, 0).refuse(422, partitions=[0, 0]) == "Duplicated partition specified"


def test_partitions_are_those_of_the_subscription(strict: Nakadi) -> None:
    """5.6; SubscriptionAT.whenStreamWrongPartitionsThenUnprocessableEntity: they are listed as they were asked for."""
    subscription = filled(strict, 0)
    name = subscription.event_types[0]
    detail = subscription.refuse(422, partitions=[0, 1, ("dummy-et-123", 0)])
    assert detail == (
        "Wrong partitions specified - some partitions don't belong to subscription: "
        f"EventTypePartition{{eventType='{name}', partition='1'}}, "
        f"EventTypePartition{{eventType='dummy-et-123', partition='0'}}"
    )


def test_what_is_wrong_is_told_in_this_order(nakadi: Nakadi) -> None:
    """5.6: parameters, who is blocked, what is not there, partitions."""
    subscription = filled(nakadi, 0)
    nowhere = httpx2.URL("/subscriptions/none/events")
    try:
        block(nakadi, subscription)
        subscription.refuse(422, batch_limit=0)
        subscription.refuse(403, partitions=[9])
    finally:
        as_new(nakadi.http)
    assert nakadi.http.get(nowhere, params={"batch_limit": 0}).status_code == 422
    assert nakadi.http.post(nowhere, json={"partitions": [subscription.place(9)]}).status_code == 404
    subscription.refuse(422, partitions=[9])


# Who is blocked


def block(nakadi: Nakadi, subscription: Any, at: int = 0) -> None:
    path = f"/settings/blacklist/CONSUMER_ET/{subscription.event_types[at]}"
    assert nakadi.http.put(path).status_code == 204


def test_who_is_blocked_does_not_read(nakadi: Nakadi) -> None:
    """5.6, 7; HilaAT.whenConsumerIsBlocked403: 403, and 200 once unblocked."""
    subscription = filled(nakadi, 1)
    try:
        block(nakadi, subscription)
        subscription.refuse(403)
    finally:
        as_new(nakadi.http)
    with subscription.stream() as consumer:
        assert consumer.next().numbers == [0]


@pytest.mark.parametrize("at", [0, 1], ids=["its first event type", "another one"])
def test_who_is_blocked_on_the_way_is_told_so(nakadi: Nakadi, at: int) -> None:
    """5.7; 11, no. 13; HilaAT.whenConsumerIsBlockedDuringConsumption: five events, and why there is no sixth."""
    one, two = sorted((numbered(nakadi) for _ in range(2)), key=lambda each: each.name)
    put(one, *range(5))
    subscription = subscribe(one, two)
    with subscription.stream(batch_flush_timeout=30) as consumer:
        consumer.batches(5)
        try:
            block(nakadi, subscription, at)
            assert told(consumer.rest()) == ["4[] Consumption is blocked"]
        finally:
            as_new(nakadi.http)


def test_one_whose_subscription_is_deleted_is_told_so(nakadi: Nakadi) -> None:
    """11, no. 25."""
    subscription = filled(nakadi, 1)
    with subscription.stream(batch_flush_timeout=30) as consumer:
        batch = consumer.batch()
        subscription.drop()
        assert told(consumer.rest()) == ["0[] The subscription was deleted"]
        assert consumer.commit(batch).status_code == 404
