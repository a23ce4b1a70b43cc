"""Event types over HTTP, beyond Nakadi's contract: problems with their fields, texts of any kind, and limits."""

import json
from typing import Any

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from tests.served import create, problem_of


@pytest.mark.parametrize(
    ("members", "field", "status", "code"),
    [
        ({"default_statistic": {"read_parallelism": 1, "write_parallelism": 1}}, "default_statistic.message_size",
         422, "invalid-event-type"),
        ({"options": {"publishing": "twice"}}, "options.publishing", 400, "malformed-event-type"),
        ({"category": "other", "partition_count": 0}, "partition_count", 400, "malformed-event-type"),
    ],
    ids=["invalid", "malformed", "both"],
)  # fmt: skip
def test_wrong_definition_is_refused_by_field(
    http: httpx2.Client, members: dict[str, Any], field: str, status: int, code: str
) -> None:
    problem = problem_of(http.post("/event-types", json=an_event_type("a.b") | members), status, code)
    assert field in [problem["field"], *(each["field"] for each in problem.get("violations", []))]
    assert f'Field "{field}" ' in problem["detail"]


def test_body_that_is_no_definition_is_refused(http: httpx2.Client) -> None:
    large = json.dumps(an_event_type("a.b", description="x" * (4 << 20))).encode()
    rows = (
        (b"[" * 100_000, 400, "bad-parameter"),
        (b"[]", 400, "malformed-event-type"),
        (large, 413, "body-too-large"),
    )
    for body, status, code in rows:
        problem_of(http.post("/event-types", content=body), status, code)


def test_description_of_any_text_is_kept(either_http: httpx2.Client) -> None:
    for awkward in ("\x00", "\n", "🦑", '"', "\\", "'", "\u2028", "\x7f"):
        feed = create(either_http, description=awkward)
        assert either_http.get(f"/event-types/{feed.name}").json()["description"] == awkward


def test_name_of_an_event_type_is_free_again_once_it_is_dropped(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    again = either_http.post("/event-types", json=an_event_type(feed.name))
    assert problem_of(again, 409, "event-type-exists")["event_type"] == feed.name
    feed.drop()
    problem_of(either_http.delete(f"/event-types/{feed.name}"), 404, "event-type-not-found")
    create(either_http, 1, feed.name)
