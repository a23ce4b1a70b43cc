"""Work that can take long runs in worker threads, not on the event loop."""

import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from penstock.schema import validation
from penstock.schema.validation import Validator
from penstock.server import admin as settings
from penstock.server import registry as event_types
from penstock.server import registry as schemas
from penstock.server.http import responses as answers
from penstock.server.log import nakadi as cursors
from penstock.server.log import publish as batches
from penstock.testing.factories import an_event_type
from tests.server.in_process import open_hub, serve

pytestmark = pytest.mark.anyio
NAME = "order.placed"
HEAVY = {"additionalProperties": {"items": {"allOf": [{"maximum": limit} for limit in range(1, 4_000)]}}}


class Places:
    """Notes for functions if they are called on the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_loop: dict[str, list[bool]] = {}
        self._monkeypatch = monkeypatch

    def watch(self, *owners: Any, name: str) -> None:
        """Note, from now on, for each call of *name* by one of *owners* whether it is on the event loop."""
        for owner in owners:
            self._monkeypatch.setattr(owner, name, self._watched(getattr(owner, name), name))

    def _watched(self, called: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.on_loop.setdefault(name, []).append(threading.current_thread() is threading.main_thread())
            return called(*args, **kwargs)

        return watched


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    return Places(monkeypatch)


@pytest.fixture
async def http(sqlite_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a hub that has nothing in memory."""
    async with serve(open_hub(sqlite_url)) as here:
        yield here.http


async def create(http: httpx2.AsyncClient, schema: Any) -> None:
    definition = an_event_type(NAME, schema={"type": "json_schema", "schema": json.dumps(schema)})
    assert (await http.post("/event-types", json=definition)).status_code == 201


WAYS_IN: dict[str, tuple[str, Callable[[Any], str]]] = {
    "by lines": (f"/feeds/{NAME}", lambda event: json.dumps({"data": event}, separators=(",", ":"))),
    "by batches": (f"/event-types/{NAME}/events", lambda event: json.dumps([event], separators=(",", ":"))),
}


@pytest.mark.parametrize("way", WAYS_IN)
async def test_schema_is_compiled_in_a_thread_and_small_events_validated_on_the_loop(
    way: str, http: httpx2.AsyncClient, places: Places
) -> None:
    path, body = WAYS_IN[way]
    await create(http, {"title": f"compiled {way}", "required": ["order_id"]})
    places.watch(validation, name="_compile")
    places.watch(Validator, name="find_first_invalid")
    for number in range(3):
        assert (await http.post(path, content=body({"order_id": number}))).status_code == 200
    assert places.on_loop == {"_compile": [False, False], "find_first_invalid": [False, True, True]}


@pytest.mark.parametrize("way", WAYS_IN)
async def test_event_that_takes_long_to_validate_is_validated_in_a_thread(
    way: str, http: httpx2.AsyncClient, places: Places
) -> None:
    path, body = WAYS_IN[way]
    await create(http, HEAVY | {"title": way})
    assert (await http.post(path, content=body({"a": []}))).status_code == 200
    places.watch(Validator, name="find_first_invalid")
    assert (await http.post(path, content=body({"a": []}))).status_code == 200
    assert (await http.post(path, content=body({"a": [1] * 1_000}))).status_code == 200
    assert places.on_loop == {"find_first_invalid": [True, False]}


@pytest.mark.parametrize("way", WAYS_IN)
async def test_reason_of_an_invalid_event_is_found_in_a_thread(
    way: str, http: httpx2.AsyncClient, places: Places
) -> None:
    path, body = WAYS_IN[way]
    await create(http, {"title": f"told {way}", "required": ["order_id"]})
    assert (await http.post(path, content=body({"order_id": 1}))).status_code == 200
    places.watch(Validator, name="find_first_invalid")
    places.watch(Validator, name="explain")
    answer = await http.post(path, content=body({}))
    assert answer.status_code == 422
    assert "required key [order_id] not found" in answer.text
    assert places.on_loop["find_first_invalid"][0], "as long as it may be right it is looked at here"
    assert not any(places.on_loop["explain"])


CURSOR = {"partition": "0", "offset": "BEGIN"}
AT = f"/event-types/{NAME}"
SCHEMA = {"type": "json_schema", "schema": '{"required": ["order_id"]}'}
JSON: dict[str, tuple[str, str, Any, int]] = {
    "cursors-lag": ("POST", f"{AT}/cursors-lag", [CURSOR], 200),
    "shifted-cursors": ("POST", f"{AT}/shifted-cursors", [CURSOR | {"shift": 0}], 200),
    "cursor-distances": ("POST", f"{AT}/cursor-distances", [{"initial_cursor": CURSOR, "final_cursor": CURSOR}], 200),
    "partitions": ("GET", f"{AT}/partitions", None, 200),
    "partition": ("GET", f"{AT}/partitions/0", None, 200),
    "cursors at a time": ("GET", f"{AT}/cursors?at=2026-01-02T03:04:05Z", None, 200),
    "create": ("POST", "/event-types", an_event_type("order.paid"), 201),
    "replace": ("PUT", AT, an_event_type(NAME, schema=SCHEMA), 200),
    "grow": ("PUT", f"{AT}/partition-count", {"partition_count": 2}, 204),
    "check": ("POST", f"{AT}/definition-check", an_event_type(NAME, schema=SCHEMA), 204),
    "show": ("GET", AT, None, 200),
    "list": ("GET", "/event-types", None, 200),
    "schemas": ("GET", f"{AT}/schemas", None, 200),
    "schema": ("GET", f"{AT}/schemas/latest", None, 200),
    "look for a schema": ("POST", f"{AT}/schemas?fetch=true", SCHEMA, 200),
    "add a schema": ("POST", f"{AT}/schemas", SCHEMA, 200),
    "compare": ("POST", f"{AT}/schemas/latest/compatibility-check", SCHEMA, 200),
    "administrators": ("POST", "/settings/admins", {name: [] for name in ("admins", "readers", "writers")}, 422),
    "features": ("POST", "/settings/features", {"feature": "disable_event_type_creation", "enabled": False}, 204),
    "a batch that is refused": ("POST", f"{AT}/events", [{}], 422),
}


@pytest.mark.parametrize("asked", JSON)
async def test_json_that_can_be_large_is_read_and_written_in_a_thread(
    asked: str, http: httpx2.AsyncClient, places: Places
) -> None:
    method, path, body, status = JSON[asked]
    await create(http, {"required": ["order_id"]})
    places.watch(event_types, schemas, settings, name="parse_json")
    places.watch(cursors, name="parse_body")
    places.watch(batches, name="make_batch_responses")
    places.watch(answers, name="JsonResponse")
    answer = await http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert places.on_loop
    assert not any(any(each) for each in places.on_loop.values()), places.on_loop
