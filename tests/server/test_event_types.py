"""Event types over HTTP, in Nakadi's shape."""

import json
from typing import Any

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from tests.served import Served, create, problem_of


def definition(**members: Any) -> dict[str, Any]:
    return an_event_type("a.b") | members


def statistic(read: Any, write: Any) -> dict[str, Any]:
    return {"messages_per_minute": 9, "message_size": 100, "read_parallelism": read, "write_parallelism": write}


def test_what_the_owner_gave_is_shown_with_defaults_and_times(either_http: httpx2.Client) -> None:
    feed = create(either_http, owning_application="shop", labels={"team": "x"}, something={"new": [1, None]})
    shown = either_http.get(f"/event-types/{feed.name}").json()
    assert (shown["name"], shown["category"], shown["partition_count"]) == (feed.name, "undefined", 1)
    assert (shown["owning_application"], shown["labels"]) == ("shop", {"team": "x"})
    assert shown["something"] == {"new": [1, None]}
    given = {"type": "json_schema", "schema": "{}"}
    assert shown["schema"] == given | {"version": "1.0.0", "created_at": shown["created_at"]}
    assert shown["created_at"] == shown["updated_at"]
    assert shown in either_http.get("/event-types").json()


def test_the_list_is_sorted_by_name(either_http: httpx2.Client) -> None:
    for _ in range(3):
        create(either_http)
    names = [each["name"] for each in either_http.get("/event-types").json()]
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("members", "count"),
    [
        ({}, 1),
        ({"default_statistic": statistic(4, 2)}, 4),
        ({"default_statistic": statistic(1, 3)}, 3),
        ({"default_statistic": statistic(1, 300)}, 256),
        ({"default_statistic": None}, 1),
        ({"partition_count": 5, "default_statistic": statistic(2, 2)}, 5),
        ({"partition_count": 256}, 256),
    ],
)
def test_the_number_of_partitions_follows_from_the_statistic_or_is_given(
    http: httpx2.Client, members: dict[str, Any], count: int
) -> None:
    feed = create(http, **{"partition_count": None} | members)
    assert http.get(f"/event-types/{feed.name}").json()["partition_count"] == count
    assert len(feed.get().json()["partitions"]) == count


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "1a"}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a."}, "name"),
        ({"name": "é"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "a\x00"}, "name"),
        ({"name": "a" * 256}, "name"),
        ({"owning_application": None}, "owning_application"),
        ({"category": None}, "category"),
        ({"schema": None}, "schema"),
        ({"schema": {"type": "json_schema", "schema": "{"}}, "schema.schema"),
        ({"enrichment_strategies": None}, "enrichment_strategies"),
        ({"partition_strategy": "other"}, "partition_strategy"),
        ({"partition_strategy": "hash"}, "partition_key_fields"),
        ({"partition_strategy": "hash", "partition_key_fields": []}, "partition_key_fields"),
        ({"partition_count": 0}, "partition_count"),
        ({"partition_count": 257}, "partition_count"),
        ({"default_statistic": statistic(0, 1)}, "default_statistic.read_parallelism"),
        ({"default_statistic": {"read_parallelism": 1, "write_parallelism": 1}}, "default_statistic.message_size"),
    ],
    ids=str,
)
def test_a_definition_that_breaks_a_rule_is_refused_naming_the_field(
    http: httpx2.Client, members: dict[str, Any], field: str
) -> None:
    problem = problem_of(http.post("/event-types", json=definition(**members)), 422, "invalid-event-type")
    assert field in [problem["field"], *(each["field"] for each in problem.get("violations", []))]
    assert f'Field "{field}" ' in problem["detail"]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"name": 5}, "name"),
        ({"category": "other"}, "category"),
        ({"schema": "{}"}, "schema"),
        ({"partition_key_fields": "id"}, "partition_key_fields"),
        ({"partition_key_fields": [1]}, "partition_key_fields"),
        ({"partition_count": "4"}, "partition_count"),
        ({"partition_count": True}, "partition_count"),
        ({"partition_count": 1.5}, "partition_count"),
        ({"default_statistic": 4}, "default_statistic"),
        ({"default_statistic": statistic("4", 1)}, "default_statistic.read_parallelism"),
        ({"options": ["x"]}, "options"),
        ({"options": {"publishing": "twice"}}, "options.publishing"),
    ],
    ids=str,
)
def test_a_member_of_the_wrong_type_or_none_of_its_values_is_400(
    http: httpx2.Client, members: dict[str, Any], field: str
) -> None:
    problem = problem_of(http.post("/event-types", json=definition(**members)), 400, "malformed-event-type")
    assert problem["field"] == field


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nonsense", b"\xff", b'{"name":"\\ud800"}', b"[" * 100_000], ids=lambda b: repr(b[:20])
)
def test_a_body_that_is_no_json_is_400(http: httpx2.Client, body: bytes) -> None:
    assert problem_of(http.post("/event-types", content=body), 400, "bad-parameter")["parameter"] == "body"


@pytest.mark.parametrize("body", ["[]", '"x"', "1", "null"])
def test_a_body_that_is_no_object_is_400(http: httpx2.Client, body: str) -> None:
    problem_of(http.post("/event-types", content=body), 400, "malformed-event-type")


def test_a_name_is_taken_once(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    again = either_http.post("/event-types", json=definition(name=feed.name))
    assert problem_of(again, 409, "event-type-exists")["event_type"] == feed.name


@pytest.mark.parametrize("awkward", ["\x00", "\n", "🦑", '"', "\\", "'", "\u2028", "\x7f"])
def test_any_text_can_be_said_of_an_event_type(either_http: httpx2.Client, awkward: str) -> None:
    feed = create(either_http, description=awkward)
    assert either_http.get(f"/event-types/{feed.name}").json()["description"] == awkward


def test_a_dropped_event_type_is_gone(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    answer = either_http.delete(f"/event-types/{feed.name}")
    assert (answer.status_code, answer.content) == (200, b"")
    for path in (f"/event-types/{feed.name}", f"/event-types/{feed.name}/partitions", feed.path):
        problem_of(either_http.get(path), 404, "event-type-not-found")
    problem_of(either_http.delete(f"/event-types/{feed.name}"), 404, "event-type-not-found")
    assert feed.name not in [each["name"] for each in either_http.get("/event-types").json()]


def test_partitions_tell_their_first_and_their_last_offset(either_http: httpx2.Client) -> None:
    feed = create(either_http, 2)
    feed.publish_ids(range(42), partition=1)
    assert either_http.get(f"/event-types/{feed.name}/partitions").json() == [
        {
            "partition": "0",
            "oldest_available_offset": "001-0001-000000000000000000",
            "newest_available_offset": "001-0001--1",
        },
        {
            "partition": "1",
            "oldest_available_offset": "001-0001-000000000000000000",
            "newest_available_offset": "001-0001-000000000000000041",
        },
    ]


def test_a_feed_created_again_is_of_the_next_epoch(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.drop()
    create(either_http, 1, feed.name)
    (partition,) = either_http.get(f"/event-types/{feed.name}/partitions").json()
    assert partition["newest_available_offset"] == "001-0002--1"


def test_a_definition_has_a_limit(http: httpx2.Client) -> None:
    body = json.dumps(definition(name="too.large", description="x" * (4 << 20)))
    problem_of(http.post("/event-types", content=body), 413, "body-too-large")


def test_the_head_of_every_look_is_that_of_the_get(feed: Served) -> None:
    for path in (f"/event-types/{feed.name}", f"/event-types/{feed.name}/partitions", "/event-types"):
        got, head = feed.http.get(path), feed.http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"] == "application/json"
