"""Publishing: batches that are stored whole or not at all, the report on each event, and the metadata of a hub."""

import json
import re
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import ON_SQLITE
from tests.nakadi import EventType, Nakadi, business, change, eid, json_schema, metadata, offset, problem

ANY = {"compatibility_mode": "forward", "schema": json_schema("{}")}
COMPACTED = {"category": "business", "cleanup_policy": "compact"}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def statuses(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the status of each event, and the step in which it was decided."""
    return [(each["publishing_status"], each["step"]) for each in items]


def newest(created: EventType) -> str:
    return created.newest()["0"]


# Accepted batches


def test_batch_is_stored_in_its_order(nakadi: Nakadi) -> None:
    created = nakadi.create()
    events = [{"foo": str(number)} for number in range(10)]
    for body in ("[]", " [ ] ", "\n[\r\n]\t"):
        created.publish(body)
    created.publish(*events)
    created.publish({"foo": "next"})
    assert created.events(11) == [*events, {"foo": "next"}]
    assert newest(created) == offset(10)


def test_event_published_twice_is_stored_twice(nakadi: Nakadi) -> None:
    """Its eid identifies no duplicates."""
    created = nakadi.create(category="business")
    event = business(foo="a")
    created.publish(event, event)
    created.publish(event)
    assert [each["metadata"]["eid"] for each in created.events(3)] == [event["metadata"]["eid"]] * 3


def test_event_comes_back_with_the_same_bytes(nakadi: Nakadi) -> None:
    created = nakadi.create(**ANY)
    event = '{"z":1.0,"a":1E2,"m":-0,"t":"a b\\u00e9é\\n","l":[1.50,-9223372036854775808,9223372036854775807]}'
    created.publish(f"[{event}]")
    assert f'"events":[{event}]}}' in created.raw()


def test_line_ends_between_events_are_removed(nakadi: Nakadi) -> None:
    """A batch of a stream is one line."""
    created = nakadi.create(**ANY)
    created.publish('\n[\n {\n  "a" :\t"b c",\r\n "d": [ 1,\n 2 ] }\n,\n {"a":"e"}\n ]\n')
    text = created.raw(2)
    assert (text.count("\n"), text[-1], text.count("\r")) == (1, "\n", 0)
    assert json.loads(text)["events"] == [{"a": "b c", "d": [1, 2]}, {"a": "e"}]


# Refused batches


@ON_SQLITE
@pytest.mark.parametrize(
    "body",
    [
        "",
        '{"foo":"a"}',
        "null",
        "[1]",
        "[[]]",
        '[{"foo":"a"}',
        '[{"foo":"a"}] x',
        '[{"foo":"a",}]',
        '[{"foo":"a"}{"foo":"b"}]',
        '[{"foo":"a"},,{"foo":"b"}]',
        '[{"foo":"a","foo":"b"}]',
        '[{"foo":9223372036854775808}]',
        '[{"foo":NaN}]',
        b'[{"foo":"\xff"}]',
    ],
)
def test_batch_that_is_no_json_array_of_objects_is_answered_400(nakadi: Nakadi, body: str | bytes) -> None:
    """Nakadi overlooks commas that are missing or doubled; this is JSON."""
    created = nakadi.create()
    detail = problem(created.hand_in(body), 400)["detail"]
    assert detail.startswith("Error occurred when parsing event(s). ")
    assert newest(created) == offset(-1)


@ON_SQLITE
def test_batch_for_an_unknown_event_type_is_answered_404_if_it_can_be_read(nakadi: Nakadi) -> None:
    for name in ("nowhere", "a b", "%00"):
        for body in ([{"foo": "a"}], []):
            problem(nakadi.http.post(f"/event-types/{name}/events", json=body), 404)
    problem(EventType(nakadi.http, "nowhere").hand_in("["), 400)


def test_batch_with_an_invalid_event_is_refused_whole(nakadi: Nakadi) -> None:
    """Validation stops at the first failure; the report has an item for each event, in order."""
    created = nakadi.create(category="business")
    good, bad, last = business(foo="a"), business(foo=1), business(foo=2)
    items = created.refuse(good, bad, last)
    assert statuses(items) == [("aborted", "validating"), ("failed", "validating"), ("aborted", "none")]
    assert [each["eid"] for each in items] == [event["metadata"]["eid"] for event in (good, bad, last)]
    assert [each["detail"] for each in items] == ["", "#/foo: expected type: String, found: Integer", ""]
    assert [each["partition"] for each in items] == [None] * 3
    assert newest(created) == offset(-1)


@ON_SQLITE
def test_report_on_an_event_without_an_eid_has_an_empty_one(nakadi: Nakadi) -> None:
    items = nakadi.create().refuse({"foo": "a"}, {"foo": 1}, {"metadata": {"eid": 5}})
    assert [each["eid"] for each in items] == ["", "", ""]


@ON_SQLITE
@pytest.mark.parametrize("category", ["business", "data"])
@pytest.mark.parametrize("missing", ["metadata", "eid", "occurred_at"])
def test_event_without_required_metadata_fails_by_itself(nakadi: Nakadi, category: str, missing: str) -> None:
    """Nakadi answers 400 for the whole batch."""
    created = nakadi.create(category=category)
    event = business(foo="a") if category == "business" else change({"foo": "a"})
    del (event if missing == "metadata" else event["metadata"])[missing]
    items = created.refuse(event)
    assert statuses(items) == [("failed", "validating")]
    assert items[0]["detail"].endswith(f"required key [{missing}] not found")


@ON_SQLITE
def test_event_has_at_most_999000_bytes(nakadi: Nakadi) -> None:
    """Spaces count, and characters count by their bytes."""
    created = nakadi.create()
    empty = len('{"foo":  ""}')
    created.publish('[{"foo":  "' + "x" * (999_000 - empty) + '"}]')
    items = created.refuse('[{"foo":"a"},{"foo":   "' + "x" * (999_000 - empty) + '"}]')
    assert statuses(items) == [("aborted", "validating"), ("failed", "validating")]
    assert items[1]["detail"] == "Event too large: 999001 bytes, max size is 999000 bytes"
    [item] = created.refuse(('[{"foo":"' + "é" * 499_500 + '"}]').encode())
    assert item["detail"].startswith("Event too large: 999010 bytes")


@ON_SQLITE
def test_avro_is_answered_415(nakadi: Nakadi) -> None:
    created = nakadi.create()
    answer = created.hand_in(b"\xc3\x01", headers={"Content-Type": "application/avro-binary"})
    assert "Avro" in problem(answer, 415)["detail"]
    schema = {"type": "avro_schema", "schema": '{"type":"record","name":"a","fields":[]}'}
    problem(nakadi.post(schema=schema), 415)
    problem(created.post("/schemas", schema), 415)


@ON_SQLITE
def test_consumer_tag_is_answered_422(nakadi: Nakadi) -> None:
    """Events cannot be addressed to one subscription."""
    created = nakadi.create()
    for tag in ("", "other=x", "consumer_subscription_id=x", f"consumer_subscription_id={eid()}"):
        problem(created.hand_in({"foo": "a"}, headers={"X-CONSUMER-TAG": tag}), 422)
    assert newest(created) == offset(-1)


# Metadata


@pytest.mark.parametrize("category", ["business", "data"])
def test_metadata_is_completed(nakadi: Nakadi, category: str) -> None:
    created = nakadi.create(category=category)
    sent = business(foo="a") if category == "business" else change({"foo": "a"})
    created.publish(sent, headers={"X-Flow-Id": "the-flow"})
    [event] = created.events(1)
    written = event.pop("metadata")
    assert MOMENT.fullmatch(written.pop("received_at"))
    assert written == sent.pop("metadata") | {
        "published_by": "unauthenticated",
        "event_type": created.name,
        "flow_id": "the-flow",
        "partition": "0",
        "version": "1.0.0",
    }
    assert event == sent


def test_flow_id_is_that_of_the_event_or_else_of_the_request(nakadi: Nakadi) -> None:
    created = nakadi.create(category="business")
    created.publish(*(business(foo="a", meta={"flow_id": own}) for own in ("mine", "")), headers={"X-Flow-Id": "f"})
    answer = created.hand_in(business(foo="a"))
    found = [event["metadata"]["flow_id"] for event in created.events(3)]
    assert found == ["mine", "f", answer.headers["X-Flow-Id"]]


def test_version_in_the_metadata_is_that_of_the_latest_schema(nakadi: Nakadi) -> None:
    """A changed event type holds for the next request: Nakadi's tests have to poll for up to 5 s."""
    created = nakadi.create(category="business")
    for number in range(4):
        schema = {"properties": {"foo": {"type": "string"}, **{f"p{n}": {} for n in range(number)}}}
        created.changed(schema=json_schema(schema))
        created.publish(business(**{f"p{n}": 1 for n in range(number)}))
    assert [event["metadata"]["version"] for event in created.events(4)] == ["1.0.1", "1.1.0", "1.2.0", "1.3.0"]


def test_bytes_beside_the_metadata_stay_as_they_are(nakadi: Nakadi) -> None:
    created = nakadi.create(category="business", **ANY)
    before, after = '{"z":1.0,"metadata":', ',"a":[1.50,"x y"],"b":{"metadata":{}}}'
    created.publish(f"[{before}{json.dumps(metadata())}{after}]")
    text = created.raw()
    assert before in text
    assert after in text


def test_undefined_event_is_stored_without_a_look_at_its_metadata(nakadi: Nakadi) -> None:
    created = nakadi.create(**ANY)
    events = [{"foo": "a"}, {"metadata": {"anything": 1}}, {"metadata": "goes"}]
    created.publish(*events)
    assert created.events(3) == events


# Partitions

KEYS: dict[str, tuple[Any, list[str], int]] = {
    "text": ({"key": "Hello"}, ["key"], 10),
    "null": ({"key": None}, ["key"], 9),
    "true": ({"key": True}, ["key"], 8),
    "two fields, whose order does not matter": ({"a": "customer-42", "b": "order-1"}, ["a", "b"], 5),
    "path": ({"a": {"b": "Hello"}}, ["a.b"], 10),
    "quoted path": ({"a.b": {"c": "Hello"}}, ["'a.b'.c"], 10),
    "escaped path": ({"a.b": "Hello"}, ["a\\.b"], 10),
}
"""An event, the key fields, and the partition of 12: partitions are numbered in the order of their names as text."""


def hashed(nakadi: Nakadi, *fields: str, partitions: int = 12, **members: Any) -> EventType:
    strategy = {"partition_strategy": "hash", "partition_key_fields": list(fields)}
    return nakadi.create(partitions=partitions, **strategy, **ANY | members)


@ON_SQLITE
@pytest.mark.parametrize("name", KEYS)
def test_hash_strategy_places_an_event_by_the_hash_of_its_key(nakadi: Nakadi, name: str) -> None:
    event, fields, partition = KEYS[name]
    created = hashed(nakadi, *fields)
    created.publish(event)
    assert [(found, each) for found, _, each in created.read(1)] == [(str(partition), event)]


@ON_SQLITE
def test_key_fields_lie_under_data_and_beside_or_in_metadata(nakadi: Nakadi) -> None:
    for category, field, event in (
        ("data", "key", change({"key": "Hello"})),
        ("business", "key", business(key="Hello", meta={"partition": "0"})),
        ("business", "metadata.flow_id", business(meta={"flow_id": "Hello"})),
    ):
        created = hashed(nakadi, field, category=category)
        created.publish(event)
        [(partition, _, found)] = created.read(1)
        assert partition == found["metadata"]["partition"] == "10"


@ON_SQLITE
def test_batch_with_an_event_without_its_key_is_refused_whole(nakadi: Nakadi) -> None:
    created = hashed(nakadi, "a.b")
    for event in ({}, {"a": 1}, {"a": {}}, {"a": ["b"]}, {"a": None}):
        items = created.refuse({"a": {"b": 1}}, event, {"a": {"b": 1}})
        assert statuses(items) == [("aborted", "partitioning"), ("failed", "partitioning"), ("aborted", "validating")]
    assert "a.b" in items[1]["detail"]


def test_random_strategy_spreads_events_over_all_partitions(nakadi: Nakadi) -> None:
    """One of three partitions stays empty with a probability of 10⁻³⁴."""
    created = nakadi.create(partitions=3, **ANY)
    created.publish(*({"number": number} for number in range(200)))
    assert {partition for partition, _, _ in created.read(200)} == {"0", "1", "2"}


@pytest.mark.parametrize("category", ["business", "undefined"])
def test_user_defined_strategy_takes_the_partition_in_the_metadata(nakadi: Nakadi, category: str) -> None:
    """Nakadi refuses user_defined for undefined event types, as a strict hub does."""
    created = nakadi.create(category=category, partitions=3, partition_strategy="user_defined", **ANY)
    created.publish(*(business(number=number, meta={"partition": str(number)}) for number in (2, 0, 1)))
    assert {event["number"]: partition for partition, _, event in created.read(3)} == {0: "0", 1: "1", 2: "2"}
    for members in ({}, {"partition": "3"}, {"partition": "-1"}, {"partition": "x"}, {"partition": ""}):
        assert statuses(created.refuse(business(number=0, meta=members))) == [("failed", "partitioning")]


def test_keys_are_placed_anew_after_partitions_were_added(nakadi: Nakadi) -> None:
    """UserJourneyAT.testRepartition."""
    created = hashed(nakadi, "key", partitions=3)
    created.publish({"number": 0, "key": "order-1"})
    assert created.http.put(f"{created.path}/partition-count", json={"partition_count": 8}).status_code == 204
    created.publish({"number": 1, "key": "order-1"})
    assert {event["number"]: partition for partition, _, event in created.read(2)} == {0: "2", 1: "6"}


# Deletions


def test_deletions_take_offsets_and_are_not_delivered(nakadi: Nakadi) -> None:
    """The vector of HilaDeleteEventsAT."""
    created = nakadi.create(**COMPACTED)

    def events(*keys: int) -> list[dict[str, Any]]:
        return [business(foo=str(key), meta={"partition_compaction_key": str(key)}) for key in keys]

    created.publish(*events(1, 2, 3, 4))
    answer = created.hand_in(*events(3, 4, 5, 6), path="/deleted-events")
    assert (answer.status_code, answer.content) == (200, b"")
    created.publish(*events(5, 7))
    found = created.read(6)
    assert [event["foo"] for _, _, event in found] == ["1", "2", "3", "4", "5", "7"]
    assert [at for _, at, _ in found] == [offset(number) for number in (0, 1, 2, 3, 8, 9)]


def test_deletion_needs_its_key_and_nothing_else(nakadi: Nakadi) -> None:
    created = nakadi.create(**COMPACTED)
    key = {"metadata": {"partition_compaction_key": "a"}}
    assert created.hand_in(key, {"foo": 5} | key, path="/deleted-events").status_code == 200
    assert newest(created) == offset(1)
    for event in ({}, {"metadata": {}}, {"metadata": {"partition_compaction_key": ""}}):
        [item] = created.refuse(event, path="/deleted-events")
        assert item["publishing_status"] == "failed"
        assert "partition_compaction_key" in item["detail"]


def test_event_type_that_is_not_compacted_refuses_deletions(nakadi: Nakadi) -> None:
    created = nakadi.create(category="business")
    events = [business(foo="a"), business(foo="b")]
    items = created.refuse(*events, path="/deleted-events")
    assert statuses(items) == [("aborted", "none")] * 2
    assert [each["eid"] for each in items] == [event["metadata"]["eid"] for event in events]
    assert newest(created) == offset(-1)
