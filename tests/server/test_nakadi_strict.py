"""A hub with `--nakadi-strict`: its problems have no members but Nakadi's."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import live_hub
from tests.served import PROBLEM, client_of

ONE_STORAGE = "there is one storage, 'default', and each event type has one timeline in it: none can be added"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    folder = tmp_path_factory.mktemp("strict")
    url = f"sqlite:///{folder}/hub.db"
    with live_hub(url, log=folder / "log", options=["--nakadi-strict"]) as hub, client_of(hub) as http:
        yield http


@pytest.mark.parametrize(
    ("method", "path", "request_", "problem"),
    [
        ("GET", "/event-types/x", {}, ("Not Found", 404, 'EventType "x" does not exist.')),
        ("GET", "/nowhere", {}, ("Not Found", 404, "there is nothing at /nowhere")),
        ("POST", "/storages", {}, ("Unprocessable Entity", 422, ONE_STORAGE)),
        ("DELETE", "/storages/default", {},
         ("Forbidden", 403, "storage 'default' holds the events of all event types")),
        ("GET", "/event-types", {"headers": {"Content-Encoding": "gzip"}},
         ("Not Acceptable", 406, "GET method doesn't support gzip content encoding")),
        ("POST", "/settings/admins", {"json": {"admins": [], "readers": [], "writers": []}},
         ("Unprocessable Entity", 422, 'Field "admins" must name at least one, by data_type and value\n')),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_problem_of_a_strict_hub_has_title_status_and_detail(
    strict: httpx2.Client, method: str, path: str, request_: dict[str, Any], problem: tuple[str, int, str]
) -> None:
    answer = strict.request(method, path, **request_)
    assert answer.headers["content-type"] == PROBLEM
    of_fields = {"type": "http://httpstatus.es/422"} if path == "/settings/admins" else {}
    assert answer.json() == dict(zip(("title", "status", "detail"), problem, strict=True)) | of_fields


def test_unavailable_strict_hub_sends_retry_after(strict: httpx2.Client) -> None:
    switch = {"feature": "disable_db_write_operations", "enabled": True}
    assert strict.post("/settings/features", json=switch).status_code == 204
    try:
        answer = strict.put("/settings/blacklist/PRODUCER_ET/x")
    finally:
        assert strict.post("/settings/features", json=switch | {"enabled": False}).status_code == 204
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert set(answer.json()) == {"title", "status", "detail"}


def test_problem_of_another_hub_has_more_members(http: httpx2.Client) -> None:
    assert {"type", "title", "status", "detail", "hint", "event_type"} <= set(http.get("/event-types/x").json())
