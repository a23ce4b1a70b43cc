"""Streams of subscriptions: their parameters, their lines, where they begin, how they end, and refusals.

Limits and timeouts are in test_subscription_clock.py, to the moment.
"""

import gzip
import json
import uuid
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import ON_SQLITE, block
from tests.nakadi import BEFORE_FIRST, EventType, Nakadi, business, offset
from tests.scenes import scene
from tests.served import as_new, until
from tests.subscribing import STREAM_ID, Consumer, Subscription, event_type_of, filled, numbered, put, subscribe, told

pytestmark = ON_SQLITE
STARTED = "Stream started"
LONG_SECONDS = 3_000
"""A flush timeout that ends no test: whatever waited for it would run into the time limit of the test."""


def pair(nakadi: Nakadi, partitions: int = 1) -> list[EventType]:
    """Create two event types, sorted by their names."""
    return sorted((numbered(nakadi, partitions) for _ in range(2)), key=lambda each: each.name)


# Lines


def test_line_has_its_members_in_order_and_no_spaces(nakadi: Nakadi) -> None:
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


def test_headers_come_before_the_first_batch_and_name_the_stream(nakadi: Nakadi) -> None:
    sent = {"X-Flow-Id": "abc"}
    with filled(nakadi, 0).asked(headers=sent, batch_flush_timeout=LONG_SECONDS) as answer:
        headers = answer.headers
    assert headers["content-type"] == "application/x-json-stream"
    assert headers["transfer-encoding"] == "chunked"
    assert "content-length" not in headers
    assert len(headers["x-nakadi-streamid"]) == 36
    assert headers["x-flow-id"] == "abc"


def test_stream_and_commits_may_be_compressed(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 2)
    sent = {"Accept-Encoding": "gzip"}
    with subscription.asked(headers=sent, batch_limit=2, batch_flush_timeout=1, stream_timeout=1) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        body = b"".join(answer.iter_raw())
    first = json.loads(gzip.decompress(body).splitlines()[0])
    assert [event["n"] for event in first["events"]] == [0, 1]
    commit = gzip.compress(json.dumps({"items": [first["cursor"]]}).encode())
    headers = {"Content-Type": "application/json; x=y", "Content-Encoding": "gzip"}
    headers["X-NAKADI-STREAMID"] = answer.headers[STREAM_ID]
    assert nakadi.http.post(f"{subscription.path}/cursors", content=commit, headers=headers).status_code == 204


def test_later_events_are_sent_at_once(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 0)
    with subscription.stream(batch_flush_timeout=LONG_SECONDS) as consumer:
        for number in range(3):
            put(event_type_of(subscription), number)
            consumer.done(consumer.next())
        assert [each.numbers for each in consumer.seen] == [[0], [1], [2]]


def test_stream_above_its_memory_limit_is_sent_before_its_time(strict: Nakadi) -> None:
    created = numbered(strict)
    created.publish(*(business(n=number, text="x" * 1_000, meta={"partition": "0"}) for number in range(50)))
    limits = {"batch_limit": 1_000, "max_uncommitted_events": 1_000, "batch_flush_timeout": LONG_SECONDS}
    with subscribe(created).stream(**limits) as consumer:
        first = consumer.next()
        consumer.done(first)
        assert first.numbers[0] == 0
        assert 0 < len(first.numbers) <= 50
        if len(first.numbers) < 50:
            assert consumer.next().debug == "Stream parameters are causing overflow"


def test_parameters_of_a_post_replace_those_of_the_query(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 4)
    body = {"batch_limit": 2, "stream_limit": 4, "max_uncommitted_events": 20, "unknown": [1]}
    path = f"{subscription.path}/events"
    with subscription.http.stream("POST", path, json=body, params={"batch_limit": "x"}) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        found = [json.loads(next(lines))["events"] for _ in range(2)]
    assert [[event["n"] for event in events] for events in found] == [[0, 1], [2, 3]]


def test_several_event_types_come_in_one_stream(nakadi: Nakadi) -> None:
    one, two = pair(nakadi, 2)
    for created in (one, two):
        put(created, 0, 1, partition=1)
    subscription = subscribe(two, one)
    with subscription.stream(batch_limit=2) as consumer:
        found = consumer.batches(2)
        assert sorted((*each.place, each.numbers) for each in found) == [(e.name, "1", [0, 1]) for e in (one, two)]
        consumer.done(*found)
    wanted = {"0": BEFORE_FIRST, "1": offset(1)}
    assert subscription.cursors() == {(each.name, number): wanted[number] for each in (one, two) for number in wanted}


# Where streams begin


def test_initial_cursors_are_where_a_subscription_begins(nakadi: Nakadi) -> None:
    """SubscriptionAT.testSubscriptionWithInitialCursors: two event types of two partitions, 19 events."""
    one, two = pair(nakadi, 2)
    for created in (one, two):
        for number in range(2):
            put(created, *range(10), partition=number)
    initial = [
        {"event_type": created.name, "partition": str(number), "offset": at}
        for created, number, at in [(one, 0, offset(7)), (one, 1, offset(2)), (two, 0, "BEGIN"), (two, 1, offset(9))]
    ]
    subscription = subscribe(one, two, read_from="cursors", initial_cursors=initial)
    with subscription.stream(max_uncommitted_events=100, batch_limit=1, batch_flush_timeout=1) as consumer:
        firsts = {each.place: each.numbers[0] for each in reversed(consumer.batches(19))}
        assert firsts == {(one.name, "0"): 8, (one.name, "1"): 3, (two.name, "0"): 0}
        assert [consumer.next().events for _ in range(4)] == [None] * 4


def test_stream_begins_after_each_offset_that_a_stream_has_sent(nakadi: Nakadi) -> None:
    """SubscriptionConsumptionTest.testAllEventsConsumed, without timelines; each subscription has its own positions."""
    subscription = filled(nakadi, 5)
    with subscription.stream() as consumer:
        cursors = [each.cursor for each in consumer.batches(5)]
        assert consumer.commit(*cursors).status_code == 204
    for number, cursor in enumerate(cursors[:-1]):
        begun = subscribe(event_type_of(subscription), read_from="cursors", initial_cursors=[cursor])
        subscription.reset(cursor)
        for each in (begun, subscription):
            with each.stream() as consumer:
                assert [batch.numbers for batch in consumer.batches(4 - number)] == [[n] for n in range(number + 1, 5)]


def test_beginning_and_end_are_those_at_the_first_stream(nakadi: Nakadi) -> None:
    """Events published between the creation and the first stream are skipped at the end."""
    subscription = filled(nakadi, 2, read_from="end")
    created = event_type_of(subscription)
    put(created, 2)
    assert subscription.cursors() == {}
    with subscription.stream() as consumer:
        assert subscription.committed() == [offset(2)]
        put(created, 3)
        assert consumer.next().numbers == [3]
    whole = subscribe(created)
    with whole.stream() as consumer:
        assert whole.committed() == [BEFORE_FIRST]
        assert [each.numbers for each in consumer.batches(4)] == [[0], [1], [2], [3]]


def test_subscription_created_after_partitions_were_added_reads_all_of_them(nakadi: Nakadi) -> None:
    """HilaAT.whenEventTypeRepartitionedTheNewSubscriptionShouldHaveUpdatedPartition: one batch from partition 1."""
    created = numbered(nakadi)
    put(created, 0)
    assert nakadi.http.put(f"{created.path}/partition-count", json={"partition_count": 2}).status_code == 204
    put(created, 1, partition=1)
    with subscribe(created).stream() as consumer:
        assert sorted((each.partition, each.numbers) for each in consumer.batches(2)) == [("0", [0]), ("1", [1])]


# Deleted events

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
def test_deletions_take_offsets_and_are_not_sent(nakadi: Nakadi) -> None:
    """HilaDeleteEventsAT.testConsumptionForDeletedEvents: 1, 2, 3, 4, 5, 7, and the reason."""
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
def test_deletions_at_the_end_are_committed_by_the_hub(nakadi: Nakadi) -> None:
    """Every 5 seconds, if no other event waits for a commit."""
    created = nakadi.create(**COMPACT)
    subscription = subscribe(created)
    publish(created, 1)
    with subscription.stream(batch_flush_timeout=1) as consumer:
        consumer.done(consumer.batch())
        delete(created, 1, 2, 3)
        while subscription.committed() != [offset(3)]:
            assert consumer.next().events is None
        assert [each["unconsumed_events"] for each in subscription.partitions()] == [0]


def test_deletions_take_no_room_in_the_window(nakadi: Nakadi) -> None:
    created = nakadi.create(**COMPACT)
    subscription = subscribe(created)
    delete(created, *range(20))
    publish(created, 1, 2)
    with subscription.stream(max_uncommitted_events=1, batch_flush_timeout=1) as consumer:
        assert foos(consumer, 1) == ["1"]
        consumer.done(consumer.seen[-1])
        assert foos(consumer, 1) == ["2"]


# Ends


@scene
def test_stream_timeout_flushes_and_leaves_the_commit_timeout(nakadi: Nakadi) -> None:
    """HilaAT.whenStreamTimeoutReachedThenEventsFlushed, whenStreamTimeoutReachedPossibleToCommit."""
    subscription = filled(nakadi, 4)
    limits = {"batch_limit": 10, "batch_flush_timeout": LONG_SECONDS, "stream_timeout": 1, "commit_timeout": 60}
    with subscription.stream(**limits) as consumer:
        assert told(consumer.rest()) == [f"3[0, 1, 2, 3] {STARTED}", "3[] Stream timeout reached"]
    [kept] = subscription.partitions()
    assert (kept["state"], kept["stream_id"]) == ("assigned", consumer.id)
    consumer.done(consumer.seen[0])
    assert subscription.committed() == [offset(3)]
    assert [each["state"] for each in subscription.partitions()] == ["unassigned"]
    assert consumer.commit(consumer.seen[0]).status_code == 422, "with nothing left to commit, the stream is forgotten"


@scene
def test_commit_timeout_ends_the_stream_at_the_last_offset_sent(nakadi: Nakadi) -> None:
    """HilaAT.whenCommitTimeoutReachedSessionIsClosed."""
    subscription = filled(nakadi, 1)
    with subscription.stream(commit_timeout=1, batch_flush_timeout=LONG_SECONDS) as consumer:
        assert told(consumer.rest()) == [f"0[0] {STARTED}", "0[] Commit timeout reached"]
        assert consumer.commit(consumer.seen[0]).status_code == 422
    assert subscription.committed() == [BEFORE_FIRST]


@scene
def test_lease_extends_the_commit_timeout(nakadi: Nakadi) -> None:
    """It is for handlers that are slow."""
    subscription = filled(nakadi, 1)
    with subscription.stream(commit_timeout=5, batch_flush_timeout=1) as consumer:
        batch = consumer.next()
        for _ in range(6):
            assert told([consumer.next()]) == ["0[]"], "a second each"
            answer = nakadi.http.post(f"{subscription.path}/streams/{consumer.id}/lease")
            assert (answer.status_code, answer.content) == (204, b"")
        consumer.done(batch)
    for stream in (str(uuid.uuid4()), "x"):
        assert nakadi.http.post(f"{subscription.path}/streams/{stream}/lease").status_code == 422


@scene
def test_uncommitted_events_of_a_client_that_left_come_again_after_its_commit_timeout(nakadi: Nakadi) -> None:
    """HilaAT.whenConnectionIsClosedByClientNakadiRecognizesIt."""
    subscription = filled(nakadi, 2)
    with subscription.stream(commit_timeout=2, batch_flush_timeout=LONG_SECONDS) as consumer:
        assert told([consumer.next()]) == [f"0[0] {STARTED}"]
    with subscription.joined(commit_timeout=2, batch_flush_timeout=1) as consumer:
        assert consumer.batch().numbers == [0]


def test_partition_of_a_client_that_left_with_all_committed_is_free_at_once(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 2)
    with subscription.stream(batch_flush_timeout=LONG_SECONDS, commit_timeout=LONG_SECONDS, batch_limit=2) as consumer:
        consumer.done(consumer.batch())
    until(lambda: subscription.partitions()[0]["state"] == "unassigned")
    put(event_type_of(subscription), 2)
    with subscription.stream(batch_flush_timeout=LONG_SECONDS) as consumer:
        assert consumer.next().numbers == [2]


def test_stream_ends_when_stream_limit_events_are_committed(nakadi: Nakadi) -> None:
    """HilaAT.whenOffsetIsCommittedNextSessionStartsFromNextEventAfterCommitted: 0, 1; then 2, 3."""
    subscription = filled(nakadi, 4)
    for wanted in ([0, 1], [2, 3]):
        with subscription.stream(stream_limit=2) as consumer:
            found = consumer.batches(2)
            assert [each.numbers for each in found] == [[number] for number in wanted]
            assert found[0].debug == STARTED
            consumer.done(found[1])
            assert told(consumer.rest()) == [f"{wanted[1]}[] Stream limit in events reached: 2"]


def test_deletion_of_the_subscription_ends_its_streams(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1)
    with subscription.stream(batch_flush_timeout=LONG_SECONDS) as consumer:
        batch = consumer.batch()
        subscription.drop()
        assert told(consumer.rest()) == ["0[] The subscription was deleted"]
        assert consumer.commit(batch).status_code == 404


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("at", [0, 1], ids=["its first event type", "another one"])
def test_block_of_an_event_type_ends_streams_and_refuses_commits(nakadi: Nakadi, at: int) -> None:
    """HilaAT.whenConsumerIsBlockedDuringConsumption: five events, and the reason; whenConsumerIsBlocked403."""
    one, two = pair(nakadi)
    put(one, *range(5))
    subscription = subscribe(one, two)
    with subscription.stream(batch_flush_timeout=LONG_SECONDS) as consumer:
        found = consumer.batches(5)
        block(nakadi, subscription.event_types[at])
        assert told(consumer.rest()) == ["4[] Consumption is blocked"]
        if at == 0:
            assert consumer.commit(found[4]).status_code == 403, "a cursor of a blocked event type"
        subscription.refuse(403)
        as_new(nakadi.http)
        consumer.done(found[4])
    put(one, 5)
    with subscription.stream() as consumer:
        assert consumer.next().numbers == [5]


# Refusals

NUMBERS: list[tuple[str, Any, int]] = [
    *((name, -1, 422) for name in ("stream_limit", "batch_flush_timeout", "batch_timespan", "stream_keep_alive_limit")),
    ("batch_limit", 0, 422),
    ("max_uncommitted_events", 0, 422),
    ("commit_timeout", -1, 422),
    ("batch_limit", "x", 400),
    ("max_uncommitted_events", "1.5", 400),
    ("stream_timeout", str(2**31), 400),
]


def test_parameter_out_of_range_is_refused(nakadi: Nakadi) -> None:
    """A window of 0, which Nakadi allows, would send nothing."""
    subscription = filled(nakadi, 0)
    for name, value, status in NUMBERS:
        subscription.refuse(status, **{name: value})
        subscription.refuse(status, partitions=[], **{name: value})


@pytest.mark.parametrize(("hub", "most"), [("strict", 60), ("nakadi", 3_600)])
def test_commit_timeout_is_at_most_a_minute_on_a_strict_hub_and_an_hour_else(
    request: pytest.FixtureRequest, database: str, hub: str, most: int
) -> None:
    subscription = filled(request.getfixturevalue(hub), 0)
    for fine in (0, 1, most):
        with subscription.joined(commit_timeout=fine):
            pass
    subscription.refuse(422, commit_timeout=most + 1)


def test_avro_is_answered_406_unless_json_is_accepted_too(nakadi: Nakadi) -> None:
    for accept, status in (("application/avro-binary", 406), ("application/avro-binary, */*", 200)):
        with nakadi.http.stream("GET", f"{filled(nakadi, 0).path}/events", headers={"Accept": accept}) as answer:
            assert answer.status_code == status


def test_head_begins_no_stream(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1)
    assert nakadi.http.head(f"{subscription.path}/events").status_code == 200
    assert subscription.cursors() == {}


def test_wrong_partitions_are_refused_in_nakadis_words(strict: Nakadi) -> None:
    """SubscriptionAT.whenStreamDuplicatePartitionsThenUnprocessableEntity, whenStreamWrongPartitionsThen…Entity.

    That is whenStreamWrongPartitionsThenUnprocessableEntity: they are listed in the order of the request.
    """
    subscription = filled(strict, 0)
    assert subscription.refuse(422, partitions=[0, 0]) == "Duplicated partition specified"
    assert subscription.refuse(422, partitions=[0, 1, ("dummy-et-123", 0)]) == (
        "Wrong partitions specified - some partitions don't belong to subscription: "
        f"EventTypePartition{{eventType='{subscription.event_types[0]}', partition='1'}}, "
        "EventTypePartition{eventType='dummy-et-123', partition='0'}"
    )


@pytest.mark.usefixtures("restored")
def test_first_refusal_is_of_the_parameters_then_block_subscription_and_partitions(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 0)
    nowhere = Subscription(nakadi.http, {"id": "none", "event_types": subscription.event_types})
    nowhere.refuse(422, batch_limit=0)
    nowhere.refuse(404, partitions=[9])
    subscription.refuse(422, partitions=[9])
    block(nakadi, subscription.event_types[0])
    subscription.refuse(422, batch_limit=0)
    subscription.refuse(403, partitions=[9])
