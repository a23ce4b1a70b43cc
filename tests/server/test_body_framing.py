"""`HubApp` checks under any ASGI server that a body is as long as its head says, and does nothing where it is not."""

import asyncio
import gzip
import json
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.routes import ROUTES
from penstock.storage.sqlite.store import SqliteStore
from penstock.testing.factories import an_event_type
from tests.server.in_process import make_scope

pytestmark = pytest.mark.anyio
FEED, COMPACTED = "/event-types/feed", "/event-types/compacted"
NOBODY = "00000000-0000-0000-0000-000000000000"
LINE = b'{"data":{"id":1}}\n'
NDJSON = {"content-type": "application/x-ndjson"}
CURSOR = {"partition": "0", "offset": "BEGIN"}
SUBSCRIPTION = {"owning_application": "billing", "event_types": ["feed"], "read_from": "begin"}
ADMINISTRATORS = [{"data_type": "user", "value": "ada"}]


class Row(NamedTuple):
    """A request with a body, and the status of its answer."""

    method: str
    path: str
    body: Any
    status: int
    headers: Mapping[str, str] = {}

    @property
    def sent(self) -> bytes:
        """The body as it is sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


ROWS = (
    Row("POST", "/feeds/feed", LINE, 200),
    Row("POST", f"{FEED}/events", [{"id": 1}], 200),
    Row("POST", f"{COMPACTED}/deleted-events", [{"metadata": {"partition_compaction_key": "a"}}], 200),
    Row("POST", f"{FEED}/partitions/0/events", [{"id": 1}], 200),
    Row("POST", f"{FEED}/partitions/0/producers", {}, 201),
    Row("PUT", f"{FEED}/partitions/0/producers/billing", {}, 200),
    Row("POST", f"{FEED}/uploads", {"producer_group": "billing", "batch": 0, "query": "q"}, 201),
    Row("PUT", f"{FEED}/uploads/{{upload}}/chunks/0", LINE, 200, NDJSON),
    Row("PUT", f"{FEED}/producers/billing/batches/0", {"query": "q", "uploads": []}, 200),
    Row("POST", "/subscriptions", SUBSCRIPTION | {"consumer_group": "other"}, 201),
    Row("PUT", "/subscriptions/{subscription}", SUBSCRIPTION, 204),
    Row("PATCH", "/subscriptions/{subscription}/cursors", {"items": [CURSOR | {"event_type": "feed"}]}, 204),
    Row(
        "POST",
        "/subscriptions/{subscription}/cursors",
        {"items": [CURSOR | {"event_type": "feed", "cursor_token": NOBODY}]},
        422,
        {"x-nakadi-streamid": NOBODY},
    ),
    Row("POST", "/subscriptions/{subscription}/events", {"batch_limit": 1}, 200),
    Row("POST", f"/subscriptions/{{subscription}}/streams/{NOBODY}/release", {"keep": []}, 422),
    Row("POST", "/subscriptions/{subscription}/parked/1/skip", {"reason": "a test"}, 404),
    Row("POST", "/event-types", an_event_type("other"), 201),
    Row("PUT", FEED, an_event_type("feed", ordering_key_fields=[]), 200),
    Row("POST", f"{FEED}/erasures", {"key": "a"}, 202),
    Row("PUT", f"{FEED}/partition-count", {"partition_count": 2}, 204),
    Row("POST", f"{FEED}/definition-check", an_event_type("feed"), 204),
    Row("POST", f"{FEED}/schemas", {"type": "json_schema", "schema": '{"properties": {"a": {}}}'}, 200),
    Row("POST", f"{FEED}/schemas/latest/compatibility-check", {"type": "json_schema", "schema": "{}"}, 200),
    Row("POST", f"{FEED}/cursor-distances", [{"initial_cursor": CURSOR, "final_cursor": CURSOR}], 200),
    Row("POST", f"{FEED}/shifted-cursors", [CURSOR | {"shift": 0}], 200),
    Row("POST", f"{FEED}/cursors-lag", [CURSOR], 200),
    Row(
        "POST",
        "/groups/copier/positions",
        {"kind": "processor", "items": [{"event_type": "feed", "partition": 0, "offset": 0}]},
        200,
    ),
    Row("PATCH", "/groups/known/positions", {"to": "earliest", "reason": "a test"}, 200),
    Row("POST", "/groups/known/parked/1/skip", {"reason": "a test"}, 404),
    Row("POST", "/groups/known/members/one", {"tranches": ["feed/0"], "lease_seconds": 10}, 200),
    Row("POST", "/groups/known/members/one/release", {"tranches": ["feed/0"]}, 200),
    Row("PUT", "/settings/replicas", {"readers": None}, 200),
    Row("PUT", "/settings/retention", {"retention_time": 1, "retention_bytes": None}, 200),
    Row("POST", "/settings/admins", dict.fromkeys(("admins", "readers", "writers"), ADMINISTRATORS), 200),
    Row("POST", "/tokens", {"name": "billing"}, 403),
    Row("POST", "/tokens/none/rotation", {}, 403),
    Row("POST", "/settings/features", {"feature": "disable_event_type_deletion", "enabled": True}, 204),
)

IGNORED = b'{"nobody": "reads this"}'
IGNORING = (
    Row("DELETE", f"{FEED}/partitions/0/producers/billing", IGNORED, 404),
    Row("DELETE", f"{FEED}/uploads/{{upload}}", IGNORED, 204),
    Row("DELETE", f"{FEED}/producers/tasks/batches", IGNORED, 200),
    Row("DELETE", "/subscriptions/{subscription}", IGNORED, 204),
    Row("POST", f"/subscriptions/{{subscription}}/streams/{NOBODY}/lease", IGNORED, 422),
    Row("POST", "/subscriptions/{subscription}/parked/retry", IGNORED, 200),
    Row("POST", "/subscriptions/{subscription}/parked/1/retry", IGNORED, 404),
    Row("DELETE", COMPACTED, IGNORED, 200),
    Row("DELETE", "/groups/known", IGNORED, 204),
    Row("POST", "/groups/known/parked/retry", IGNORED, 200),
    Row("POST", "/groups/known/parked/1/retry", IGNORED, 404),
    Row("DELETE", "/groups/known/members/one", IGNORED, 204),
    Row("PUT", "/settings/blacklist/PRODUCER_ET/feed", IGNORED, 204),
    Row("DELETE", "/settings/blacklist/PRODUCER_ET/feed", IGNORED, 204),
    Row("DELETE", "/tokens/none", IGNORED, 404),
    Row("POST", "/outbox/rejected/retry", IGNORED, 400),
    Row("DELETE", "/outbox/rejected", IGNORED, 400),
    Row("POST", "/storages", IGNORED, 422),
    Row("DELETE", "/storages/default", IGNORED, 403),
    Row("PUT", "/storages/default/other", IGNORED, 404),
    Row("POST", f"{FEED}/timelines", IGNORED, 422),
)
"""Requests that change something and take no body; clients send them one all the same."""


class Damage(NamedTuple):
    """How a server hands in a body whose request it has read wrongly, or not to its end."""

    headers: Mapping[str, str]
    messages: Sequence[Mapping[str, Any]]


def message(body: bytes, *, more: bool = False) -> dict[str, Any]:
    """Return what an ASGI server says of a piece of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


def damages(body: bytes) -> dict[str, Damage]:
    """Return each damage of *body* that leaves it well-formed, so that nothing but its framing tells."""
    length, gone = {"content-length": str(len(body))}, {"type": "http.disconnect"}
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c"}
    return {
        "shorter than its length": Damage({"content-length": str(len(body) + 1)}, [message(body)]),
        "longer than its length": Damage(length, [message(body + b"\n")]),
        "longer than its length, in pieces": Damage(length, [message(body, more=True), message(b"\n")]),
        "not there": Damage(length, [message(b"")]),
        "not there, with an upgrade": Damage(length | upgrade, [message(b"")]),
        "not there, in chunks with an upgrade": Damage({"transfer-encoding": "chunked"} | upgrade, [message(b"")]),
        "there where its length is 0": Damage({"content-length": "0"}, [message(body)]),
        "cut off before its first byte": Damage(length, [gone]),
        "cut off within its length": Damage({"content-length": str(len(body) + 1)}, [message(body, more=True), gone]),
        "cut off between chunks": Damage({"transfer-encoding": "chunked"}, [message(body, more=True), gone]),
    }


async def send(app: HubApp, row: Row, headers: Mapping[str, str], messages: Sequence[Mapping[str, Any]]) -> Any:
    """Hand in a request as an ASGI server does; return the status of the answer, its type and its body."""
    sent: list[Any] = []
    waiting = iter(messages)

    async def receive() -> Any:
        return next(waiting, {"type": "http.disconnect"})

    async def take(event: Any) -> None:
        sent.append(event)

    named = [(name.encode(), value.encode()) for name, value in {**row.headers, **headers}.items()]
    await app(make_scope(row.method, row.path, headers=[(b"host", b"hub"), *named]), receive, take)
    if not sent:
        return None, "", b""
    kind = dict(sent[0]["headers"]).get(b"content-type", b"").decode()
    return sent[0]["status"], kind, b"".join(event.get("body", b"") for event in sent[1:])


async def send_whole(app: HubApp, row: Row, **headers: str) -> Any:
    """Hand in an undamaged request."""
    return await send(app, row, {"content-length": str(len(row.sent)), **headers}, [message(row.sent)])


def dump(path: Path) -> bytes:
    """Return all that a database holds, as it would be written into one file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.serialize()


@asynccontextmanager
async def app_on(path: Path) -> AsyncIterator[HubApp]:
    """Serve the SQLite database at *path*."""
    app = HubApp(lambda: Hub(SqliteStore(path)))
    async with app.lifespan():
        yield app


class Prepared(NamedTuple):
    """A database with an object of every kind, and the ids of those that have one."""

    path: Path
    ids: Mapping[str, str]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Make the database that each case begins with a copy of."""
    path = tmp_path_factory.mktemp("framing") / "hub.db"
    SqliteStore(path).migrate()
    compacted = an_event_type("compacted", category="business", cleanup_policy="compact")
    committed = {"kind": "processor", "items": [{"event_type": "feed", "partition": 0, "offset": 0}]}

    async def main() -> dict[str, str]:
        async with app_on(path) as app:

            async def make(method: str, to: str, body: Any) -> Any:
                status, _, answer = await send_whole(app, Row(method, to, body, 0))
                assert status in (200, 201), answer
                return json.loads(answer or b"null")

            await make("POST", "/event-types", an_event_type("feed"))
            await make("POST", "/event-types", compacted)
            await make("POST", "/groups/known/positions", committed)
            upload = await make("POST", f"{FEED}/uploads", {"producer_group": "billing", "batch": 0, "query": "q"})
            subscription = await make("POST", "/subscriptions", SUBSCRIPTION)
        return {"upload": upload["upload"], "subscription": subscription["id"]}

    return Prepared(path, asyncio.run(main()))


@pytest.mark.parametrize("reads_body", [True, False], ids=["reads its body", "ignores its body"])
def test_table_has_every_route_that_changes_something(reads_body: bool) -> None:
    table = ROWS if reads_body else IGNORING
    routes = [each for each in ROUTES if each.method != "GET" and (each.body is not None) is reads_body]
    patterns = [rf"{each.method} {re.sub(r'{[^}]*}', '[^/]+', each.path)}" for each in routes]
    rows = [[row for row in table if re.fullmatch(pattern, f"{row.method} {row.path}")] for pattern in patterns]
    assert [len(found) for found in rows] == [1] * len(patterns)
    assert len(table) == len(patterns)


@pytest.fixture
def path(prepared: Prepared, tmp_path: Path) -> Path:
    """A copy of the prepared database."""
    shutil.copy(prepared.path, tmp_path / "hub.db")
    return tmp_path / "hub.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[HubApp]:
    """An application on that copy."""
    async with app_on(path) as app:
        yield app


@pytest.mark.parametrize("row", ROWS + IGNORING, ids=lambda row: f"{row.method} {row.path}")
async def test_body_of_another_length_than_its_head_says_is_refused_and_changes_nothing(
    prepared: Prepared, path: Path, app: HubApp, row: Row
) -> None:
    row = row._replace(path=row.path.format(**prepared.ids))

    before = dump(path)
    for name, (headers, messages) in damages(row.sent).items():
        status, media_type, answer = await send(app, row, headers, messages)
        cut_off = messages[-1]["type"] == "http.disconnect"
        assert status == 400 or (cut_off and status is None), (name, status, answer)
        assert status is None or media_type == "application/problem+json", (name, media_type)
        assert dump(path) == before, f"{name}: something was done"
    status, _, answer = await send_whole(app, row)
    assert status == row.status, answer


async def test_length_of_an_encoded_body_is_its_encoded_length(app: HubApp) -> None:
    row = Row("POST", "/feeds/feed", gzip.compress(LINE * 100), 200)

    status, _, answer = await send_whole(app, row, **{"content-encoding": "gzip"})
    assert (status, json.loads(answer)["count"]) == (200, 100)
    wrong = {"content-encoding": "gzip", "content-length": str(len(LINE * 100))}
    assert (await send(app, row, wrong, [message(row.sent)]))[0] == 400


async def test_body_of_a_request_that_offers_an_upgrade_is_read(app: HubApp) -> None:
    status, _, answer = await send_whole(app, ROWS[0], connection="Upgrade", upgrade="h2c")
    assert (status, json.loads(answer)["count"]) == (200, 1)
    chunked = {"transfer-encoding": "chunked", "connection": "Upgrade", "upgrade": "h2c"}
    pieces = [message(LINE[:5], more=True), message(LINE[5:], more=True), message(b"")]
    status, _, answer = await send(app, ROWS[0], chunked, pieces)
    assert (status, json.loads(answer)["count"]) == (200, 1)
