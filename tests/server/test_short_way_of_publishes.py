"""A small plain publish takes a short way through the server, and is answered as on the long way.

A query without effect sends the same request the long way. The shortest way is that of a connection which repeats the
head of its last request.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import chain
from typing import Any

import httpx2
import pytest

from penstock.core.access import Caller
from penstock.errors import DatabaseUnavailable, DiskFull, OutcomeUnknown, PenstockError
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.server.http.http1 import HttpExchange
from penstock.server.limits import UsageLimits
from penstock.server.telemetry import AccessLine
from penstock.storage.log.events import Frame
from penstock.testing.factories import an_event_type
from penstock.wire.problem import TYPE_PREFIX
from tests.server.in_process import Here, connect, open_hub, serve

pytestmark = pytest.mark.anyio
PLAIN, BUSINESS, HASHED, GUARDED = "order.plain", "order.business", "order.hashed", "order.guarded"
LONG_WAY = {"chunk": 0}
METADATA = {"eid": "8e2b3c1a-2a0f-4f2e-9a1e-0f6b5a3c2d1e", "occurred_at": "2026-01-01T00:00:00Z"}
BODY = b'{"data":{"id":1}}'
EMPTY = b'{"data":{}}'


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Here]:
    """A hub that has started, with event types whose validators are compiled."""
    hub = open_hub(sqlite_url)
    hub.start()
    schema = json.dumps({"properties": {"id": {"type": "integer"}}})
    hub.registry.create(an_event_type(PLAIN, partition_count=3))
    hub.registry.create(an_event_type(BUSINESS, category="business"))
    hub.registry.create(an_event_type(HASHED, partition_strategy="hash", partition_key_fields=["id"]))
    hub.registry.create(an_event_type(GUARDED, schema={"type": "json_schema", "schema": schema}))
    for name in (PLAIN, BUSINESS, HASHED, GUARDED):
        hub.registry.load(name).event_type.validator  # noqa: B018 - it is compiled from now on
    async with serve(hub) as here:
        yield here


def forbid_long_way(app: HubApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise AssertionError("the request went the long way")

    monkeypatch.setattr(app, "_app", refuse)


def fail_commits(here: Here, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(here.hub.store, "write", fail)


def shown(answer: httpx2.Response) -> tuple[Any, ...]:
    """Return what does not differ between two requests of the same kind."""
    said: Any = answer.json()
    if answer.status_code == 200:
        said = (said["count"], [cursor.rpartition("-")[0] for cursor in said["cursors"].values()])
    kept = ("content-type", "vary", "cache-control", "retry-after", "warning")
    return answer.status_code, {name: answer.headers.get(name) for name in kept}, said


async def publish_both_ways(
    here: Here, name: str, body: bytes, headers: dict[str, str] | None = None
) -> tuple[httpx2.Response, httpx2.Response]:
    short = await here.post_lines(name, body, headers)
    return short, await here.http.post(f"/feeds/{name}", content=body, headers=headers, params=LONG_WAY)


REQUESTS: list[tuple[str, bytes, dict[str, str]]] = [
    *((name, body, {}) for name, body in (
        (GUARDED, BODY),
        (GUARDED, b'{"data":{"id":1}}\n\n{"data":{"id":2},"headers":{"a":"b"}}\n'),
        (HASHED, BODY),
        (HASHED, b'{"data":{},"key":"a"}'),
        (BUSINESS, json.dumps({"data": {"metadata": METADATA}}).encode()),
        (GUARDED, b""),
        (GUARDED, b"\n\n"),
        (GUARDED, b'{"data":{"id":"a"}}'),
        (GUARDED, b'{"data":{"id":1,"id":2}}'),
        (GUARDED, b'{"data":[]}'),
        (GUARDED, b"{]"),
        (GUARDED, b'{"dat":{}}'),
        (HASHED, EMPTY),
        (BUSINESS, EMPTY),
        ("order.missing", EMPTY),
        ("order.missing/a", EMPTY),
        ("", EMPTY),
        ("order%00", EMPTY),
    )),
    *((GUARDED, BODY, {name: value}) for name, value in (
        ("content-encoding", "gzip"),
        ("content-encoding", "identity"),
        ("content-type", "application/cloudevents+json"),
        ("content-type", "Application/Avro-Binary"),
        ("ce-specversion", "1.0"),
        ("producer-group", "a"),
        ("producer-sequence", "1"),
        ("content-length", "7"),
        ("content-length", "1_7"),
        ("content-length", "+17"),
        ("accept-encoding", "gzip"),
        ("accept", "text/html"),
        ("x-flow-id", "abc"),
        ("expect", "100-continue"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "headers"), REQUESTS, ids=lambda value: str(value)[:50])
async def test_short_way_answers_as_the_long_way(here: Here, name: str, body: bytes, headers: dict[str, str]) -> None:
    short, long = await publish_both_ways(here, name, body, headers)
    assert shown(short) == shown(long)


FRAMING = ("content-length", "expect")


@pytest.mark.parametrize(
    ("name", "body", "headers"),
    [each for each in REQUESTS if not set(FRAMING) & set(each[2])],
    ids=lambda value: str(value)[:50],
)
async def test_repeated_head_is_answered_as_the_long_way(
    here: Here, name: str, body: bytes, headers: dict[str, str]
) -> None:
    async with connect(here.app) as connection:
        await connection.post(f"/feeds/{name}", EMPTY, headers)
        short = await connection.post(f"/feeds/{name}", body, headers)
    _, long = await publish_both_ways(here, name, body, headers)
    assert shown(short) == shown(long)


async def test_repeated_head_of_a_plain_publish_needs_no_task(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connect(here.app) as connection:
        first = await connection.post(f"/feeds/{HASHED}", BODY, {})
        monkeypatch.setattr(HttpExchange, "serve", None)
        answers = [await connection.post(f"/feeds/{HASHED}", b'{"data":{"id":%d}}\n' % i, {}) for i in range(20)]

    assert {answer.status_code for answer in answers} == {200}
    assert [answer.json()["cursors"]["0"].rpartition("-")[2] for answer in answers] == [str(2 + i) for i in range(20)]
    names = [answer.headers.keys() for answer in (first, answers[0])]
    assert set(names[0]) == set(names[1])
    assert len({answer.headers["x-flow-id"] for answer in (first, *answers)}) == 21


@pytest.mark.parametrize("error", [DatabaseUnavailable(reason="away", retry_after=3), ValueError("a defect")])
async def test_failed_commit_is_the_same_problem_where_a_head_is_repeated(
    here: Here, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with connect(here.app) as connection:
        assert (await connection.post(f"/feeds/{PLAIN}", EMPTY, {})).status_code == 200
        fail_commits(here, monkeypatch, error)
        short = await connection.post(f"/feeds/{PLAIN}", EMPTY, {})
    _, long = await publish_both_ways(here, PLAIN, EMPTY)
    assert short.status_code == long.status_code >= 500
    assert shown(short)[1] == shown(long)[1]
    assert short.json()["title"] == long.json()["title"]


async def test_blocked_producer_is_refused_where_a_head_is_repeated(here: Here) -> None:
    async with connect(here.app) as connection:
        assert (await connection.post(f"/feeds/{PLAIN}", EMPTY, {})).status_code == 200
        here.hub.admin.settings.block("PRODUCER_ET", PLAIN)
        assert (await connection.post(f"/feeds/{PLAIN}", EMPTY, {})).status_code == 403
        here.hub.admin.settings.unblock("PRODUCER_ET", PLAIN)
        assert (await connection.post(f"/feeds/{PLAIN}", EMPTY, {})).status_code == 200


async def test_caller_without_a_valid_token_is_refused_where_a_head_is_repeated(here: Here) -> None:
    token = here.hub.admin.tokens.create(Caller("service", "shop"))
    app = HubApp(lambda: here.hub, authentication=[TokenMethod()])
    lines: list[AccessLine] = []
    app._log_access = lines.append
    async with connect(app) as connection:
        headers = {"Authorization": f"Bearer {token.secret}"}
        answers = [await connection.post(f"/feeds/{PLAIN}", EMPTY, headers) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3
        here.hub.admin.tokens.revoke(token.token.id)
        here.hub.admin.tokens.replace_known([])  # The poller does so within a second.
        refused = await connection.post(f"/feeds/{PLAIN}", EMPTY, headers)

    assert refused.status_code == 401
    members = [{**line.members(), "flow_id": "", "ms": 0, "partitions": ""} for line in lines]
    assert members[0] == members[1] == members[2]
    assert members[1]["caller"] == "service:shop"


async def test_caller_over_its_limit_is_refused_where_a_head_is_repeated(here: Here) -> None:
    app = HubApp(lambda: here.hub, limits=UsageLimits().replace(["requests=2"]))
    async with connect(app) as connection:
        answers = [await connection.post(f"/feeds/{PLAIN}", EMPTY, {}) for _ in range(20)]

    statuses = [answer.status_code for answer in answers]
    assert statuses[:4] == [200] * 4
    assert statuses[-1] == 429


async def test_plain_publish_of_a_known_event_type_takes_the_short_way(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_long_way(here.app, monkeypatch)
    answer = await here.post_lines(HASHED, b'{"data":{"id":1},"key":"k"}\n{"data":{"id":2}}\n')

    assert (answer.status_code, answer.json()["count"]) == (200, 2)
    assert here.hub.log.find_heads(HASHED)[1].popitem()[1].next_offset == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DatabaseUnavailable(reason="away", retry_after=3), 503),
        (DiskFull(reason="full"), 503),
        (OutcomeUnknown(reason="cut off"), 500),
        (ValueError("a defect"), 500),
    ],
    ids=["unavailable", "full", "unknown", "defect"],
)
async def test_failed_commit_is_the_same_problem_on_both_ways(
    here: Here, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    fail_commits(here, monkeypatch, error)
    short, long = await publish_both_ways(here, PLAIN, EMPTY)
    assert short.status_code == status
    if isinstance(error, PenstockError):
        assert shown(short) == shown(long)
        assert short.json()["type"] == f"{TYPE_PREFIX}{error.code}"
    else:
        assert short.json()["title"] == long.json()["title"] == "Internal Server Error"
        assert "a defect" not in short.text + long.text


async def test_blocked_producer_is_refused_on_the_short_way(here: Here) -> None:
    here.hub.admin.settings.block("PRODUCER_ET", PLAIN)
    assert (await here.post_lines(PLAIN, EMPTY)).status_code == 403


@pytest.mark.parametrize("root_path", ["", "/events"])
async def test_mounted_hub_takes_the_short_way(here: Here, monkeypatch: pytest.MonkeyPatch, root_path: str) -> None:
    forbid_long_way(here.app, monkeypatch)
    transport = httpx2.ASGITransport(here.app, root_path=root_path)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hub") as http:
        answer = await http.post(f"{root_path}/feeds/{PLAIN}", content=EMPTY)
    assert answer.status_code == 200


async def test_body_in_pieces_is_published_once(here: Here) -> None:
    async def pieces() -> Any:
        for piece in (b'{"data":', b"{}}", b"\n"):
            yield piece

    answer = await here.http.post(f"/feeds/{PLAIN}", content=pieces(), headers={"content-length": "12"})
    assert answer.json()["count"] == 1
    assert sum(head.next_offset for head in here.hub.log.find_heads(PLAIN)[1].values()) == 1


async def publish_together(here: Here, name: str, *bodies: bytes) -> list[httpx2.Response]:
    """Send *bodies* so that they arrive in one turn of the event loop."""
    return await asyncio.gather(*(here.post_lines(name, body) for body in bodies))


def read_offsets(here: Here, name: str) -> dict[int, list[int]]:
    """Return the ids of the events of a feed by partition, in the order of their offsets."""
    feed, heads = here.hub.log.find_heads(name)
    found = {}
    for number, partition_id in enumerate(feed.partition_ids):
        with here.hub.store.read() as tx:
            lines = tx.log.read_lines(partition_id, 0, heads[partition_id].next_offset, Frame("", "\n", ""), None)
        found[number] = [json.loads(line)["id"] for line in lines.body.splitlines()]
    return found


@pytest.mark.parametrize("name", [PLAIN, HASHED])
async def test_publishes_that_arrive_together_have_one_transaction_and_each_its_own_cursors(
    here: Here, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    forbid_long_way(here.app, monkeypatch)
    batches = [[3 * k + i for i in range(1 + k % 3)] for k in range(40)]
    bodies = ["".join(f'{{"data":{{"id":{i}}}}}\n' for i in ids)[: -1 if ids[0] % 2 else None] for ids in batches]
    writes, write = [], here.hub.store.write

    def count_write(*given: Any, **options: Any) -> Any:
        writes.append(1)
        return write(*given, **options)

    monkeypatch.setattr(here.hub.store, "write", count_write)
    answers = await publish_together(here, name, *(body.encode() for body in bodies))

    assert [answer.status_code for answer in answers] == [200] * len(batches)
    assert len(writes) < len(batches) / 4
    offsets = read_offsets(here, name)
    assert sorted(chain.from_iterable(offsets.values())) == sorted(chain.from_iterable(batches))
    for ids, answer in zip(batches, answers, strict=True):
        said = answer.json()
        assert said["count"] == len(ids)
        ends = {
            str(partition): max(held.index(i) for i in ids if i in held) + 1
            for partition, held in offsets.items()
            if set(ids) & set(held)
        }
        assert {at: int(cursor.rpartition("-")[2]) for at, cursor in said["cursors"].items()} == ends


async def test_refused_publish_concerns_none_that_arrive_together_with_it(here: Here) -> None:
    bad = [
        b'{"data":{"id":"a"}}',
        b'{"data":{"id":1},"key":1}',
        b'{"data":',
        b"1}\n",
        b'{"data":{"id":8}}{"data":{"id":9}}\n',
        b"\n",
        b'{"cursor":"a"}\n',
    ]
    good = [b'{"data":{"id":%d}}\n' % i for i in range(len(bad))]

    alone = [shown(await here.post_lines(GUARDED, body)) for body in bad]
    together = await publish_together(here, GUARDED, *chain.from_iterable(zip(bad, good, strict=True)))

    assert [shown(answer) for answer in together[::2]] == alone
    assert [answer.status_code for answer in together[1::2]] == [200] * len(good)
    assert read_offsets(here, GUARDED) == {0: list(range(len(good)))}


async def test_line_is_never_joined_from_two_publishes(here: Here) -> None:
    halves = [b'{"data":{"id":', b"1}}\n", b'{"data":{"id":\n', b"1}}"]
    answers = await publish_together(here, GUARDED, *halves)

    assert [answer.status_code for answer in answers] == [422] * len(halves)
    assert read_offsets(here, GUARDED) == {0: []}


async def test_failed_commit_is_told_to_all_that_arrived_together(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_commits(here, monkeypatch, OutcomeUnknown(reason="cut off"))
    answers = await publish_together(here, PLAIN, *[EMPTY] * 5)

    assert {(answer.status_code, answer.json()["type"]) for answer in answers} == {
        (500, f"{TYPE_PREFIX}{OutcomeUnknown.code}")
    }


async def test_publish_refused_by_a_changed_event_type_concerns_none_that_arrive_together_with_it(here: Here) -> None:
    schema = json.dumps({"properties": {"id": {"type": "integer", "maximum": 3}}})
    definition = here.hub.registry.load(GUARDED).event_type.definition | {"compatibility_mode": "none"}
    here.hub.registry.replace(GUARDED, definition)
    remembered = here.hub.registry.load(GUARDED)
    remembered.event_type.validator  # noqa: B018 - it is compiled from now on
    other = open_hub(here.hub.store.url)
    other.registry.add_schema(GUARDED, {"type": "json_schema", "schema": schema})
    alone = await here.post_lines(GUARDED, b'\n{"data":{"id":99}}')
    assert (alone.status_code, alone.json()["line"]) == (422, 2)
    here.hub.registry.remember(GUARDED, remembered)
    answers = await publish_together(here, GUARDED, *(b'{"data":{"id":%d}}' % i for i in (1, 99, 2)))

    assert [answer.status_code for answer in answers] == [200, 422, 200]
    assert "line 1: " in answers[1].json()["detail"]
    assert read_offsets(here, GUARDED) == {0: [1, 2]}
    other.store.close()


async def test_many_refused_publishes_concern_none_that_arrive_together_with_them(here: Here) -> None:
    bodies = [b'{"data":{"id":%s}}' % (b"true" if i % 3 else b"%d" % i) for i in range(30)]
    answers = await publish_together(here, GUARDED, *bodies)

    assert [answer.status_code for answer in answers] == [422 if i % 3 else 200 for i in range(30)]
    assert sorted(read_offsets(here, GUARDED)[0]) == list(range(0, 30, 3))


async def test_chunked_publish_leaves_the_error_of_others_in_its_group_as_it_is(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OutcomeUnknown(reason="cut off")
    fail_commits(here, monkeypatch, error)
    answer = await here.http.post(f"/feeds/{PLAIN}", content=EMPTY, params={"chunk": 1})

    assert answer.json()["stored"] == 0
    assert "stored" not in error.fields
