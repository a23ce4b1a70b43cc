"""A hub that was told to keep to Nakadi: its problems have no members but Nakadi's."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import live_hub
from tests.served import PROBLEM, client_of

PLAIN: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("GET", "/event-types/x", None, {"title": "Not Found", "status": 404, "detail": 'EventType "x" does not exist.'}),
    ("GET", "/nowhere", None, {"title": "Not Found", "status": 404, "detail": "there is nothing at /nowhere"}),
    ("POST", "/storages", None, {
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": "there is one storage, 'default', and each event type has one timeline in it: none can be added",
    }),
    ("DELETE", "/storages/default", None, {
        "title": "Forbidden", "status": 403, "detail": "storage 'default' holds the events of all event types",
    }),
]  # fmt: skip


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    folder = tmp_path_factory.mktemp("strict")
    url = f"sqlite:///{folder}/hub.db"
    with live_hub(url, log=folder / "log", options=["--nakadi-strict"]) as hub, client_of(hub) as http:
        yield http


@pytest.mark.parametrize(("method", "path", "body", "problem"), PLAIN)
def test_a_problem_is_title_status_and_detail(
    strict: httpx2.Client, method: str, path: str, body: Any, problem: dict[str, Any]
) -> None:
    answer = strict.request(method, path, json=body)
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json() == problem


def test_a_body_encoded_with_another_method_than_post_is_told_exactly_so(strict: httpx2.Client) -> None:
    answer = strict.get("/event-types", headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()) == (
        406,
        {
            "title": "Not Acceptable",
            "status": 406,
            "detail": "GET method doesn't support gzip content encoding",
        },
    )


def test_what_is_wrong_with_fields_has_a_type_and_ends_its_line(strict: httpx2.Client) -> None:
    answer = strict.post("/settings/admins", json={"admins": [], "readers": [], "writers": []})
    assert answer.json() == {
        "type": "http://httpstatus.es/422",
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": 'Field "admins" must name at least one, by data_type and value\n',
    }


def test_unavailable_says_when_to_ask_again_all_the_same(strict: httpx2.Client) -> None:
    switch = {"feature": "disable_db_write_operations", "enabled": True}
    assert strict.post("/settings/features", json=switch).status_code == 204
    try:
        answer = strict.put("/settings/blacklist/PRODUCER_ET/x")
    finally:
        assert strict.post("/settings/features", json=switch | {"enabled": False}).status_code == 204
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert set(answer.json()) == {"title", "status", "detail"}


def test_another_hub_says_more(http: httpx2.Client) -> None:
    assert {"type", "title", "status", "detail", "hint", "event_type"} <= set(http.get("/event-types/x").json())
