"""The model of errors (section 6): which status each cause has, and what a problem is made of.

Its rows on subscriptions are with those. Nobody is asked who they are yet, so that nothing is answered 401, or 403 for
want of a right.
"""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.nakadi import EventType, Nakadi, business, json_schema, problem
from tests.served import as_new

JSON = {"Content-Type": "application/json"}
Cause = Callable[[Nakadi, EventType], httpx2.Response]


def cursor(partition: str, offset: str) -> list[dict[str, str]]:
    return [{"partition": partition, "offset": offset}]


def stream(created: EventType, cursors: Any = None, **arguments: Any) -> httpx2.Response:
    sent = {} if cursors is None else {"X-nakadi-cursors": cursors if isinstance(cursors, str) else json.dumps(cursors)}
    return created.http.get(f"{created.path}/events", params=arguments, headers=sent)


def switched_on(nakadi: Nakadi, feature: str) -> Nakadi:
    assert nakadi.http.post("/settings/features", json={"feature": feature, "enabled": True}).status_code == 204
    return nakadi


def blocked(nakadi: Nakadi, kind: str, created: EventType) -> EventType:
    assert nakadi.http.put(f"/settings/blacklist/{kind}/{created.name}").status_code == 204
    return created


ROWS: dict[str, tuple[int, Cause]] = {
    "body unreadable": (400, lambda n, _: n.http.post("/event-types", content="{", headers=JSON)),
    "wrong type": (400, lambda n, _: n.post(name=5)),
    "bad enum": (400, lambda n, _: n.post(category="whatever")),
    "bad boolean": (400, lambda _, e: e.post("/schemas", json_schema("{}"), fetch="whatever")),
    "bad integer": (400, lambda _, e: stream(e, batch_limit="whatever")),
    "limit out of range": (400, lambda _, e: e.get("/schemas", limit=0)),
    "offset out of range": (400, lambda _, e: e.get("/schemas", offset=-1)),
    "bad version": (400, lambda _, e: e.get("/schemas/newest")),
    "corrupt gzip": (400, lambda _, e: e.hand_in("[{]", headers={"Content-Encoding": "gzip"})),
    "bad feature": (400, lambda n, _: n.http.post("/settings/features", json={"feature": "x", "enabled": True})),
    "bad blacklist": (400, lambda n, _: n.http.put("/settings/blacklist/WHATEVER/x")),
    "bad writer": (400, lambda n, _: n.http.get("/event-types?writer=jane")),
    "syntax of a batch": (400, lambda _, e: e.hand_in("[{]")),
    "header not JSON": (400, lambda _, e: stream(e, "{")),
    "two slashes": (400, lambda n, _: n.http.get(f"{n.http.base_url}/event-types")),
    "blocked from publishing": (403, lambda n, e: blocked(n, "PRODUCER_ET", e).hand_in({"foo": "a"})),
    "blocked from reading": (403, lambda n, e: stream(blocked(n, "CONSUMER_ET", e))),
    "deletion disabled": (403, lambda n, e: switched_on(n, "disable_event_type_deletion").http.delete(e.path)),
    "storage in use": (403, lambda n, _: n.http.delete("/storages/default")),
    "event type unknown": (404, lambda n, _: n.http.get("/event-types/nowhere")),
    "event type unknown to publish to": (404, lambda n, _: EventType(n.http, "nowhere").hand_in({})),
    "event type unknown to read": (404, lambda n, _: stream(EventType(n.http, "nowhere"))),
    "schema unknown": (404, lambda _, e: e.get("/schemas/9.9.9")),
    "partition unknown": (404, lambda _, e: e.get("/partitions/9")),
    "storage unknown": (404, lambda n, _: n.http.get("/storages/another")),
    "encoding of what is no POST": (406, lambda n, _: n.http.get("/event-types", headers={"Content-Encoding": "gzip"})),
    "duplicate event type": (409, lambda n, e: n.post(name=e.name)),
    "event type in use": (409, lambda n, e: n.http.delete(n.subscribe(e).path)),
    "cursor bad in a stream": (412, lambda _, e: stream(e, cursor("0", "x"))),
    "cursor beyond the end in a stream": (412, lambda _, e: stream(e, cursor("0", "7"))),
    "partition unknown in a stream": (412, lambda _, e: stream(e, cursor("7", "BEGIN"))),
    "cursor bad in an operation": (422, lambda _, e: e.post("/cursors-lag", cursor("0", "x"))),
    "cursor bad of a partition": (422, lambda _, e: e.get("/partitions/0", consumed_offset="x")),
    "bean validation": (422, lambda n, _: n.post(name=None)),
    "schema": (422, lambda n, _: n.post(schema=json_schema("{"))),
    "evolution": (422, lambda _, e: e.post("/schemas", json_schema("{}"))),
    "partition strategy": (422, lambda n, _: n.post(partition_strategy="whatever")),
    "retention": (422, lambda n, _: n.post(options={"retention_time": 0})),
    "partitions taken away": (422, lambda _, e: e.http.put(f"{e.path}/partition-count", json={"partition_count": 0})),
    "admins that are none": (422, lambda n, _: n.http.post("/settings/admins", json={"admins": []})),
    "remote reference": (422, lambda n, _: n.post(schema=json_schema({"$ref": "http://127.0.0.1:9/"}))),
    "update conflict": (422, lambda _, e: e.put(name="another")),
    "authorization section": (422, lambda n, _: n.post(authorization={"admins": [], "readers": [], "writers": []})),
    "stream parameters": (422, lambda _, e: stream(e, batch_limit=2, stream_limit=1)),
    "consumer tag": (422, lambda _, e: e.hand_in({"foo": "a"}, headers={"X-CONSUMER-TAG": "x"})),
    "creation switched off": (501, lambda n, _: switched_on(n, "disable_event_type_creation").post()),
    "changes switched off": (503, lambda n, _: switched_on(n, "disable_db_write_operations").post()),
}
TITLES = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    406: "Not Acceptable",
    409: "Conflict",
    412: "Precondition Failed",
    501: "Not Implemented",
    503: "Service Unavailable",
}
ROWS["two slashes"] = (400, lambda n, _: n.http.get(f"{str(n.http.base_url).rstrip('/')}//event-types"))


@pytest.mark.parametrize("cause", ROWS)
def test_each_cause_has_its_status(nakadi: Nakadi, cause: str) -> None:
    """6: with the title that goes with it, and no word of what the server is made of."""
    status, ask = ROWS[cause]
    created = nakadi.create()
    try:
        found = problem(ask(nakadi, created), status)
    finally:
        as_new(nakadi.http)
    assert found["title"] == TITLES.get(status, found["title"])
    assert not any(word in found["detail"] for word in ("Traceback", "SELECT", "sqlite", "psycopg"))


def test_a_batch_that_is_refused_is_no_problem(nakadi: Nakadi) -> None:
    """6: an array, of one member for each event."""
    created = nakadi.create(category="business")
    assert len(created.refuse(business(foo="a"), business(foo=1))) == 2


def test_a_feature_drops_what_is_in_use(nakadi: Nakadi) -> None:
    """2.9: `delete_event_type_with_subscriptions`."""
    created = nakadi.subscribe(nakadi.create())
    try:
        problem(nakadi.http.delete(created.path), 409)
        assert created.shown(), "it is still there"
        switched_on(nakadi, "delete_event_type_with_subscriptions")
        created.drop()
    finally:
        as_new(nakadi.http)
    problem(created.get(), 404)
    groups = nakadi.http.get("/groups").json()["items"]
    assert not any(created.name in each["event_types"] for each in groups)


def test_unavailable_says_when_to_ask_again(nakadi: Nakadi) -> None:
    """6, 10: clients repeat what is answered 503."""
    try:
        answer = switched_on(nakadi, "disable_db_write_operations").post()
    finally:
        as_new(nakadi.http)
    assert int(answer.headers["Retry-After"]) > 0


def test_a_problem_of_a_strict_hub_says_nothing_else(strict: Nakadi) -> None:
    """6: tests compare whole objects."""
    created = strict.create()
    for status, ask in ROWS.values():
        try:
            found = problem(ask(strict, created if status != 403 else strict.create()), status)
        finally:
            as_new(strict.http)
        assert set(found) - {"type"} == {"title", "status", "detail"}
        assert found.get("type", "http://httpstatus.es/422") == "http://httpstatus.es/422"
