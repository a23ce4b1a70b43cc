"""Publishing: batches that are taken whole or not at all, what is said of each event, and what is written into it."""

import json
import re
from typing import Any

import pytest

from tests.nakadi import EventType, Nakadi, business, change, eid, json_schema, metadata, offset, problem

STATUSES = ("publishing_status", "step")


def told(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["publishing_status"], each["step"]) for each in items]


def newest(created: EventType) -> str:
    return created.newest()["0"]


# What is taken: 3.2


@pytest.mark.parametrize("body", ["[]", " [ ] ", "\n[\r\n]\t"])
def test_an_empty_array_is_taken(nakadi: Nakadi, body: str) -> None:
    """3.2."""
    created = nakadi.create()
    created.publish(body)
    assert newest(created) == offset(-1)


def test_a_batch_is_stored_in_its_order(nakadi: Nakadi) -> None:
    """3.3."""
    created = nakadi.create()
    events = [{"foo": str(number)} for number in range(10)]
    created.publish(*events)
    created.publish({"foo": "next"})
    assert created.events(11) == [*events, {"foo": "next"}]
    assert newest(created) == offset(10)


def test_an_event_comes_back_as_it_was_written(nakadi: Nakadi) -> None:
    """3.5: the spelling of numbers, the order of keys, whatever stands within texts."""
    created = nakadi.create(compatibility_mode="forward", schema=json_schema("{}"))
    event = '{"z":1.0,"a":1E2,"m":-0,"t":"a b\\u00e9é\\n","n":[1.50,null,true],"l":9223372036854775807}'
    created.publish(f"[{event}]")
    assert f'"events":[{event}]}}' in created.raw()


def test_spaces_outside_of_texts_may_go_and_line_ends_do(nakadi: Nakadi) -> None:
    """3.5: a batch is one line."""
    created = nakadi.create(compatibility_mode="forward", schema=json_schema("{}"))
    created.publish('\n[\n {\n  "a" :\t"b c",\r\n "d": [ 1,\n 2 ] }\n,\n {"a":"e"}\n ]\n')
    text = created.raw(2)
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert "\r" not in text
    assert json.loads(text)["events"] == [{"a": "b c", "d": [1, 2]}, {"a": "e"}]


@pytest.mark.parametrize(
    "body",
    [
        "",
        " ",
        "{}",
        '{"foo":"a"}',
        "null",
        '"[]"',
        "[1]",
        "[[]]",
        '["a"]',
        "[null]",
        '[{"foo":"a"}',
        '{"foo":"a"}]',
        '[{"foo":"a"}] x',
        '[{"foo":"a",}]',
        '[{"foo":"a","foo":"b"}]',
        '[{"foo":"a"},{"foo":}]',
        '[{"foo":9223372036854775808}]',
        '[{"foo":-9223372036854775809}]',
        '[{"foo":1e999}]',
        '[{"foo":NaN}]',
        b'[{"foo":"\xff"}]',
    ],
)
def test_what_cannot_be_read_is_refused_whole(nakadi: Nakadi, body: str | bytes) -> None:
    """3.2, 6: 400, and nothing is told of any one event."""
    created = nakadi.create()
    detail = problem(created.hand_in(body), 400)["detail"]
    assert detail.startswith("Error occurred when parsing event(s). ")
    assert newest(created) == offset(-1)


@pytest.mark.parametrize("between", ["", " ", ",,", ", ,"])
def test_events_have_one_comma_between_them(nakadi: Nakadi, between: str) -> None:
    """3.2: Nakadi overlooks commas that are missing or there twice; a batch is JSON here."""
    created = nakadi.create()
    problem(created.hand_in(f'[{{"foo":"a"}}{between}{{"foo":"b"}}]'), 400)
    assert newest(created) == offset(-1)


def test_the_largest_integers_are_taken(nakadi: Nakadi) -> None:
    """3.2."""
    created = nakadi.create(schema=json_schema({"properties": {"n": {"type": "integer"}}}))
    created.publish('[{"n":9223372036854775807},{"n":-9223372036854775808}]')


@pytest.mark.parametrize("name", ["nowhere", "a b", "%00"])
def test_an_event_type_that_is_not_there_is_answered_404(nakadi: Nakadi, name: str) -> None:
    """3.2, 6."""
    path = f"/event-types/{name}/events"
    problem(nakadi.http.post(path, json=[{"foo": "a"}]), 404)
    problem(nakadi.http.post(path, json=[]), 404)


def test_a_batch_is_read_before_its_event_type_is_looked_for(nakadi: Nakadi) -> None:
    """3.2: the order of work."""
    problem(EventType(nakadi.http, "nowhere").hand_in("["), 400)


# What is refused: 3.3


def test_a_batch_with_an_invalid_event_is_refused_whole(nakadi: Nakadi) -> None:
    """3.3: it stops at the first failure, and tells of every event in order."""
    created = nakadi.create(category="business")
    good, bad, last = business(foo="a"), business(foo=1), business(foo=2)
    items = created.refuse(good, bad, last)
    assert told(items) == [("aborted", "validating"), ("failed", "validating"), ("aborted", "none")]
    assert [each["eid"] for each in items] == [event["metadata"]["eid"] for event in (good, bad, last)]
    assert [each["detail"] for each in items] == ["", "#/foo: expected type: String, found: Integer", ""]
    assert [each["partition"] for each in items] == [None] * 3
    assert newest(created) == offset(-1)


def test_an_event_without_an_eid_has_an_empty_one(nakadi: Nakadi) -> None:
    """3.3."""
    created = nakadi.create()
    items = created.refuse({"foo": "a"}, {"foo": 1}, {"metadata": {"eid": 5}})
    assert [each["eid"] for each in items] == ["", "", ""]
    assert told(items) == [("aborted", "validating"), ("failed", "validating"), ("aborted", "none")]


def test_a_batch_with_an_event_that_has_no_partition_is_refused_whole(nakadi: Nakadi) -> None:
    """3.3: those before it keep the step that they have come to, those after it that of the last phase."""
    created = nakadi.create(
        partition_strategy="hash",
        partition_key_fields=["key"],
        compatibility_mode="forward",
        schema=json_schema("{}"),
    )
    items = created.refuse({"key": "a"}, {"foo": "b"}, {"key": "c"})
    assert told(items) == [("aborted", "partitioning"), ("failed", "partitioning"), ("aborted", "validating")]
    assert "key" in items[1]["detail"]
    assert newest(created) == offset(-1)


@pytest.mark.parametrize("category", ["business", "data"])
@pytest.mark.parametrize("without", ["metadata", "eid", "occurred_at"])
def test_events_without_metadata_are_told_of_one_by_one(nakadi: Nakadi, category: str, without: str) -> None:
    """3.3; 11, no. 11: 422 with items where Nakadi says 400; a decision."""
    created = nakadi.create(category=category)
    event = business(foo="a") if category == "business" else change({"foo": "a"})
    if without == "metadata":
        del event["metadata"]
    else:
        del event["metadata"][without]
    (item,) = created.refuse(event)
    assert told([item]) == [("failed", "validating")]
    assert item["detail"].endswith(f"required key [{without}] not found")


def test_an_event_has_at_most_999000_bytes(nakadi: Nakadi) -> None:
    """0.1, 3.2, 3.4: spaces counted, an error only when greater."""
    created = nakadi.create()
    empty = len('{"foo":  ""}')
    largest = '{"foo":  "' + "x" * (999_000 - empty) + '"}'
    created.publish(f"[{largest}]")
    larger = '{"foo":   "' + "x" * (999_000 - empty) + '"}'
    items = created.refuse(f'[{{"foo":"a"}},{larger}]')
    assert told(items) == [("aborted", "validating"), ("failed", "validating")]
    assert items[1]["detail"] == "Event too large: 999001 bytes, max size is 999000 bytes"
    wide = '{"foo":"' + "é" * 499_500 + '"}'
    (item,) = created.refuse(f"[{wide}]".encode())
    assert item["detail"].startswith("Event too large: 999010 bytes")


def test_what_is_published_twice_is_there_twice(nakadi: Nakadi) -> None:
    """3.3: an eid is not looked for."""
    created = nakadi.create(category="business")
    event = business(foo="a")
    created.publish(event, event)
    created.publish(event)
    assert [each["metadata"]["eid"] for each in created.events(3)] == [event["metadata"]["eid"]] * 3


# What is written into it: 3.5

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.parametrize("category", ["business", "data"])
def test_metadata_is_completed(nakadi: Nakadi, category: str) -> None:
    """3.5."""
    created = nakadi.create(category=category)
    sent = business(foo="a") if category == "business" else change({"foo": "a"})
    created.publish(sent, headers={"X-Flow-Id": "the-flow"})
    (event,) = created.events(1)
    written = event["metadata"]
    assert MOMENT.fullmatch(written.pop("received_at"))
    assert written == sent["metadata"] | {
        "published_by": "unauthenticated",
        "event_type": created.name,
        "flow_id": "the-flow",
        "partition": "0",
        "version": "1.0.0",
    }
    assert {name: value for name, value in event.items() if name != "metadata"} == {
        name: value for name, value in sent.items() if name != "metadata"
    }


def test_a_flow_id_of_its_own_stays(nakadi: Nakadi) -> None:
    """3.5: only if absent or empty."""
    created = nakadi.create(category="business")
    created.publish(*(business(foo="a", meta={"flow_id": own}) for own in ("mine", "")), headers={"X-Flow-Id": "f"})
    assert [event["metadata"]["flow_id"] for event in created.events(2)] == ["mine", "f"]


def test_without_a_flow_id_there_is_that_of_the_answer(nakadi: Nakadi) -> None:
    """0.3, 3.5: the request's own is generated."""
    created = nakadi.create(category="business")
    answer = created.hand_in(business(foo="a"))
    assert created.events(1)[0]["metadata"]["flow_id"] == answer.headers["X-Flow-Id"]


def test_the_version_is_that_of_the_latest_schema(nakadi: Nakadi) -> None:
    """3.5."""
    created = nakadi.create(category="business")
    created.publish(business(foo="a"))
    created.changed(schema=json_schema({"properties": {"foo": {"type": "string"}, "bar": {"type": "string"}}}))
    created.publish(business(foo="a", bar="b"))
    assert [event["metadata"]["version"] for event in created.events(2)] == ["1.0.0", "1.1.0"]


def test_the_partition_is_the_one_that_it_falls_in(nakadi: Nakadi) -> None:
    """3.5: whatever the publisher has said."""
    created = nakadi.create(category="business", partitions=3, partition_strategy="hash", partition_key_fields=["foo"])
    created.publish(business(foo="Hello", meta={"partition": "0"}), business(foo="a"))
    found = {event["foo"]: (partition, event["metadata"]["partition"]) for partition, _, event in created.read(2)}
    assert found == {"Hello": ("2", "2"), "a": ("1", "1")}


def test_what_has_no_category_is_left_alone(nakadi: Nakadi) -> None:
    """2.3, 3.5: no metadata is required, looked at or completed."""
    created = nakadi.create(compatibility_mode="forward", schema=json_schema("{}"))
    events = [{"foo": "a"}, {"metadata": {"anything": 1}}, {"metadata": "goes"}]
    created.publish(*events)
    assert created.events(3) == events


def test_only_metadata_is_written_anew(nakadi: Nakadi) -> None:
    """3.5."""
    created = nakadi.create(category="business", compatibility_mode="forward", schema=json_schema("{}"))
    before, after = '{"z":1.0,"metadata":', ',"a":[1.50,"x y"],"b":{"metadata":{}}}'
    created.publish(f"[{before}{json.dumps(metadata())}{after}]")
    text = created.raw()
    assert before in text
    assert after in text


# 3.7


def test_compacted_events_are_deleted_by_their_keys(nakadi: Nakadi) -> None:
    """3.7; the vector of HilaDeleteEventsAT: marks of deletion take offsets and are never delivered."""
    created = nakadi.create(category="business", cleanup_policy="compact")

    def events(*keys: int) -> list[dict[str, Any]]:
        return [business(foo=str(key), meta={"partition_compaction_key": str(key)}) for key in keys]

    created.publish(*events(1, 2, 3, 4))
    answer = created.hand_in(*events(3, 4, 5, 6), path="/deleted-events")
    assert (answer.status_code, answer.content) == (200, b"")
    created.publish(*events(5, 7))
    found = created.read(6)
    assert [event["foo"] for _, _, event in found] == ["1", "2", "3", "4", "5", "7"]
    assert [at for _, at, _ in found] == [offset(number) for number in (0, 1, 2, 3, 8, 9)]


def test_a_deletion_needs_no_more_than_its_key(nakadi: Nakadi) -> None:
    """3.7: it is not validated and not completed."""
    created = nakadi.create(category="business", cleanup_policy="compact_and_delete")
    key = {"metadata": {"partition_compaction_key": "a"}}
    assert created.hand_in(key, {"foo": 5} | key, path="/deleted-events").status_code == 200
    assert newest(created) == offset(1)


@pytest.mark.parametrize("event", [{}, {"metadata": {}}, {"metadata": {"partition_compaction_key": ""}}], ids=str)
def test_a_deletion_without_a_key_is_told_of(nakadi: Nakadi, event: dict[str, Any]) -> None:
    """3.7; 11, no. 11: 422 with items where Nakadi says 400; a decision."""
    created = nakadi.create(category="business", cleanup_policy="compact")
    (item,) = created.refuse(event, path="/deleted-events")
    assert item["publishing_status"] == "failed"
    assert "partition_compaction_key" in item["detail"]


def test_what_is_not_compacted_has_no_deletions(nakadi: Nakadi) -> None:
    """3.4, 3.7: all are aborted, none was looked at."""
    created = nakadi.create(category="business")
    events = [business(foo="a"), business(foo="b")]
    items = created.refuse(*events, path="/deleted-events")
    assert told(items) == [("aborted", "none")] * 2
    assert [each["eid"] for each in items] == [event["metadata"]["eid"] for event in events]
    assert newest(created) == offset(-1)


# 3.8, 3.9


def test_avro_is_not_offered(nakadi: Nakadi) -> None:
    """2.7, 3.8: a decision: 415 that says so."""
    created = nakadi.create()
    detail = problem(created.hand_in(b"\xc3\x01", headers={"Content-Type": "application/avro-binary"}), 415)["detail"]
    assert "Avro" in detail
    schema = {"type": "avro_schema", "schema": '{"type":"record","name":"a","fields":[]}'}
    problem(nakadi.post(schema=schema), 415)
    problem(created.post("/schemas", schema), 415)


@pytest.mark.parametrize(
    "tag",
    ["", "consumer_subscription_id", "consumer_subscription_id=", "consumer_subscription_id=x", "other=x"],
)
def test_a_consumer_tag_that_names_no_subscription_is_answered_422(nakadi: Nakadi, tag: str) -> None:
    """3.9."""
    created = nakadi.create()
    for value in (tag, f"consumer_subscription_id={eid()}"):
        problem(created.hand_in({"foo": "a"}, headers={"X-CONSUMER-TAG": value}), 422)
    assert newest(created) == offset(-1)
