"""Event types over HTTP: definitions that are refused by field, and their life on both databases."""

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


def test_event_type_is_shown_and_listed_by_name_with_all_its_members(either_http: httpx2.Client) -> None:
    feed = create(either_http, owning_application="shop", labels={"team": "x"}, something={"new": [1, None]})
    shown = either_http.get(f"/event-types/{feed.name}").json()
    assert (shown["name"], shown["category"], shown["partition_count"]) == (feed.name, "undefined", 1)
    assert (shown["owning_application"], shown["labels"]) == ("shop", {"team": "x"})
    assert shown["something"] == {"new": [1, None]}
    given = {"type": "json_schema", "schema": "{}"}
    assert shown["schema"] == given | {"version": "1.0.0", "created_at": shown["created_at"]}
    assert shown["created_at"] == shown["updated_at"]

    for _ in range(2):
        create(either_http)
    listed = either_http.get("/event-types").json()
    assert shown in listed
    assert [each["name"] for each in listed] == sorted(each["name"] for each in listed)


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
def test_partition_count_is_given_or_follows_from_the_statistic(
    http: httpx2.Client, members: dict[str, Any], count: int
) -> None:
    feed = create(http, **{"partition_count": None} | members)
    assert http.get(f"/event-types/{feed.name}").json()["partition_count"] == count
    assert len(feed.get().json()["partitions"]) == count


INVALID: list[tuple[dict[str, Any], str]] = [
    *(({"name": name}, "name") for name in (None, "", "1a", "a b", "a.", "é", "a/b", "a\x00", "a" * 256)),
    *(({name: None}, name) for name in ("owning_application", "category", "schema", "enrichment_strategies")),
    ({"schema": {"type": "json_schema", "schema": "{"}}, "schema.schema"),
    ({"partition_strategy": "other"}, "partition_strategy"),
    ({"partition_strategy": "hash"}, "partition_key_fields"),
    ({"partition_strategy": "hash", "partition_key_fields": []}, "partition_key_fields"),
    *(({"partition_count": count}, "partition_count") for count in (0, 257)),
    ({"default_statistic": statistic(0, 1)}, "default_statistic.read_parallelism"),
    ({"default_statistic": {"read_parallelism": 1, "write_parallelism": 1}}, "default_statistic.message_size"),
]
MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"name": 5}, "name"),
    ({"category": "other"}, "category"),
    ({"schema": "{}"}, "schema"),
    *(({"partition_key_fields": fields}, "partition_key_fields") for fields in ("id", [1])),
    *(({"partition_count": count}, "partition_count") for count in ("4", True, 1.5)),
    ({"default_statistic": 4}, "default_statistic"),
    ({"default_statistic": statistic("4", 1)}, "default_statistic.read_parallelism"),
    ({"options": ["x"]}, "options"),
    ({"options": {"publishing": "twice"}}, "options.publishing"),
]


@pytest.mark.parametrize(
    ("members", "field", "status", "code"),
    [
        *((*row, 422, "invalid-event-type") for row in INVALID),
        *((*row, 400, "malformed-event-type") for row in MALFORMED),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_definition_is_refused_by_field(
    http: httpx2.Client, members: dict[str, Any], field: str, status: int, code: str
) -> None:
    problem = problem_of(http.post("/event-types", json=definition(**members)), status, code)
    assert field in [problem["field"], *(each["field"] for each in problem.get("violations", []))]
    assert status == 400 or f'Field "{field}" ' in problem["detail"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        *((body, 400, "bad-parameter")
          for body in (b"", b"{", b"nonsense", b"\xff", b'{"name":"\\ud800"}', b"[" * 100_000)),
        *((body, 400, "malformed-event-type") for body in (b"[]", b'"x"', b"1", b"null")),
        (json.dumps(definition(description="x" * (4 << 20))).encode(), 413, "body-too-large"),
    ],
    ids=lambda value: repr(value[:20]) if isinstance(value, bytes) else "",
)  # fmt: skip
def test_body_that_is_no_definition_is_refused(http: httpx2.Client, body: bytes, status: int, code: str) -> None:
    problem_of(http.post("/event-types", content=body), status, code)


@pytest.mark.parametrize("awkward", ["\x00", "\n", "🦑", '"', "\\", "'", "\u2028", "\x7f"])
def test_description_of_any_text_is_kept(either_http: httpx2.Client, awkward: str) -> None:
    feed = create(either_http, description=awkward)
    assert either_http.get(f"/event-types/{feed.name}").json()["description"] == awkward


def test_name_of_an_event_type_is_free_again_in_the_next_epoch_once_it_is_dropped(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    path = f"/event-types/{feed.name}"
    again = either_http.post("/event-types", json=definition(name=feed.name))
    assert problem_of(again, 409, "event-type-exists")["event_type"] == feed.name

    answer = either_http.delete(path)
    assert (answer.status_code, answer.content) == (200, b"")
    for gone in (path, f"{path}/partitions", feed.path):
        problem_of(either_http.get(gone), 404, "event-type-not-found")
    problem_of(either_http.delete(path), 404, "event-type-not-found")
    assert feed.name not in [each["name"] for each in either_http.get("/event-types").json()]

    create(either_http, 1, feed.name)
    (partition,) = either_http.get(f"{path}/partitions").json()
    assert partition["newest_available_offset"] == "001-0002--1"


def test_head_of_an_event_type_has_the_headers_of_the_get(feed: Served) -> None:
    for path in (f"/event-types/{feed.name}", f"/event-types/{feed.name}/partitions", "/event-types"):
        got, head = feed.http.get(path), feed.http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"] == "application/json"
