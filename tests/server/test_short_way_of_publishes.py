"""A small plain publish takes a short way through the server, and is answered as on the long way.

A query without effect sends the same request the long way.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Any

import httpx2
import pytest

from penstock.errors import DatabaseUnavailable, DiskFull, OutcomeUnknown, PenstockError
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store
from penstock.storage.log.events import Frame
from penstock.testing.factories import an_event_type
from penstock.wire.problem import TYPE_PREFIX

PLAIN, BUSINESS, HASHED, GUARDED = "order.plain", "order.business", "order.hashed", "order.guarded"
LONG_WAY = {"chunk": 0}
METADATA = {"eid": "8e2b3c1a-2a0f-4f2e-9a1e-0f6b5a3c2d1e", "occurred_at": "2026-01-01T00:00:00Z"}
Act = Callable[[Hub, HubApp, httpx2.AsyncClient], Awaitable[None]]


def serve(url: str, act: Act) -> None:
    """Have *act* use a hub on *url* directly and over HTTP."""

    async def main() -> None:
        hub = Hub(open_store(url))
        hub.store.migrate()
        hub.start()
        schema = json.dumps({"properties": {"id": {"type": "integer"}}})
        hub.registry.create(an_event_type(PLAIN, partition_count=3))
        hub.registry.create(an_event_type(BUSINESS, category="business"))
        hub.registry.create(an_event_type(HASHED, partition_strategy="hash", partition_key_fields=["id"]))
        hub.registry.create(an_event_type(GUARDED, schema={"type": "json_schema", "schema": schema}))
        for name in (PLAIN, BUSINESS, HASHED, GUARDED):
            hub.registry.load(name).event_type.validator  # noqa: B018 - it is compiled from now on
        app = HubApp(lambda: hub)
        async with (
            app.lifespan(),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app, raise_app_exceptions=False), base_url="http://hub"
            ) as http,
        ):
            await act(hub, app, http)

    asyncio.run(main())


def forbid_long_way(app: HubApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise AssertionError("the request went the long way")

    monkeypatch.setattr(app, "_app", refuse)


def shown(answer: httpx2.Response) -> tuple[Any, ...]:
    """Return what does not differ between two requests of the same kind."""
    said: Any = answer.json()
    if answer.status_code == 200:
        said = (said["count"], [cursor.rpartition("-")[0] for cursor in said["cursors"].values()])
    kept = ("content-type", "vary", "cache-control", "retry-after", "warning")
    return answer.status_code, {name: answer.headers.get(name) for name in kept}, said


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (GUARDED, b'{"data":{"id":1}}'),
        (GUARDED, b'{"data":{"id":1}}\n\n{"data":{"id":2},"headers":{"a":"b"}}\n'),
        (HASHED, b'{"data":{"id":1}}'),
        (HASHED, b'{"data":{},"key":"a"}'),
        (BUSINESS, json.dumps({"data": {"metadata": METADATA}}).encode()),
        (GUARDED, b""),
        (GUARDED, b"\n\n"),
        (GUARDED, b'{"data":{"id":"a"}}'),
        (GUARDED, b'{"data":{"id":1,"id":2}}'),
        (GUARDED, b'{"data":[]}'),
        (GUARDED, b"{]"),
        (GUARDED, b'{"dat":{}}'),
        (HASHED, b'{"data":{}}'),
        (BUSINESS, b'{"data":{}}'),
        ("order.missing", b'{"data":{}}'),
        ("order.missing/a", b'{"data":{}}'),
        ("", b'{"data":{}}'),
        ("order%00", b'{"data":{}}'),
    ],
)
def test_short_way_answers_as_the_long_way(sqlite_url: str, name: str, body: bytes) -> None:
    async def act(_: Hub, __: HubApp, http: httpx2.AsyncClient) -> None:
        short = await http.post(f"/feeds/{name}", content=body)
        long = await http.post(f"/feeds/{name}", content=body, params=LONG_WAY)
        assert shown(short) == shown(long)

    serve(sqlite_url, act)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-encoding": "gzip"},
        {"content-encoding": "identity"},
        {"content-type": "application/cloudevents+json"},
        {"content-type": "Application/Avro-Binary"},
        {"ce-specversion": "1.0"},
        {"producer-group": "a"},
        {"producer-sequence": "1"},
        {"content-length": "7"},
        {"content-length": "1_7"},
        {"content-length": "+17"},
        {"accept-encoding": "gzip"},
        {"accept": "text/html"},
        {"x-flow-id": "abc"},
        {"expect": "100-continue"},
    ],
    ids=lambda headers: " ".join(f"{name}: {value}" for name, value in headers.items()),
)
def test_headers_mean_the_same_on_both_ways(sqlite_url: str, headers: dict[str, str]) -> None:
    async def act(_: Hub, __: HubApp, http: httpx2.AsyncClient) -> None:
        body = b'{"data":{"id":1}}'
        short = await http.post(f"/feeds/{GUARDED}", content=body, headers=headers)
        long = await http.post(f"/feeds/{GUARDED}", content=body, headers=headers, params=LONG_WAY)
        assert shown(short) == shown(long)

    serve(sqlite_url, act)


def test_plain_publish_of_a_known_event_type_takes_the_short_way(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(hub: Hub, app: HubApp, http: httpx2.AsyncClient) -> None:
        forbid_long_way(app, monkeypatch)
        answer = await http.post(f"/feeds/{HASHED}", content=b'{"data":{"id":1},"key":"k"}\n{"data":{"id":2}}\n')

        assert (answer.status_code, answer.json()["count"]) == (200, 2)
        assert hub.log.find_heads(HASHED)[1].popitem()[1].next_offset == 2

    serve(sqlite_url, act)


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
def test_failed_commit_is_the_same_problem_on_both_ways(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(hub.store, "write", fail)
        short = await http.post(f"/feeds/{PLAIN}", content=b'{"data":{}}')
        long = await http.post(f"/feeds/{PLAIN}", content=b'{"data":{}}', params=LONG_WAY)
        assert short.status_code == status
        if isinstance(error, PenstockError):
            assert shown(short) == shown(long)
            assert short.json()["type"] == f"{TYPE_PREFIX}{error.code}"
        else:
            assert short.json()["title"] == long.json()["title"] == "Internal Server Error"

    serve(sqlite_url, act)


def test_blocked_producer_is_refused_on_the_short_way(sqlite_url: str) -> None:
    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        hub.admin.settings.block("PRODUCER_ET", PLAIN)
        answer = await http.post(f"/feeds/{PLAIN}", content=b'{"data":{}}')
        assert answer.status_code == 403

    serve(sqlite_url, act)


@pytest.mark.parametrize("root_path", ["", "/events"])
def test_mounted_hub_takes_the_short_way(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, root_path: str) -> None:
    async def act(_: Hub, app: HubApp, __: httpx2.AsyncClient) -> None:
        forbid_long_way(app, monkeypatch)
        transport = httpx2.ASGITransport(app, root_path=root_path)
        async with httpx2.AsyncClient(transport=transport, base_url="http://hub") as http:
            answer = await http.post(f"{root_path}/feeds/{PLAIN}", content=b'{"data":{}}')
        assert answer.status_code == 200

    serve(sqlite_url, act)


def test_body_in_pieces_is_published_once(sqlite_url: str) -> None:
    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        async def pieces() -> Any:
            for piece in (b'{"data":', b"{}}", b"\n"):
                yield piece

        answer = await http.post(f"/feeds/{PLAIN}", content=pieces(), headers={"content-length": "12"})
        assert answer.json()["count"] == 1
        assert sum(head.next_offset for head in hub.log.find_heads(PLAIN)[1].values()) == 1

    serve(sqlite_url, act)


async def publish_together(http: httpx2.AsyncClient, name: str, *bodies: bytes) -> list[httpx2.Response]:
    """Send *bodies* so that they arrive in one turn of the event loop."""
    return await asyncio.gather(*(http.post(f"/feeds/{name}", content=body) for body in bodies))


def read_offsets(hub: Hub, name: str) -> dict[int, list[int]]:
    """Return the ids of the events of a feed by partition, in the order of their offsets."""
    feed, heads = hub.log.find_heads(name)
    found = {}
    for number, partition_id in enumerate(feed.partition_ids):
        with hub.store.read() as tx:
            lines = tx.log.read_lines(partition_id, 0, heads[partition_id].next_offset, Frame("", "\n", ""), None)
        found[number] = [json.loads(line)["id"] for line in lines.body.splitlines()]
    return found


@pytest.mark.parametrize("name", [PLAIN, HASHED])
def test_publishes_that_arrive_together_have_one_transaction_and_each_its_own_cursors(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def act(hub: Hub, app: HubApp, http: httpx2.AsyncClient) -> None:
        forbid_long_way(app, monkeypatch)
        batches = [[3 * k + i for i in range(1 + k % 3)] for k in range(40)]
        bodies = ["".join(f'{{"data":{{"id":{i}}}}}\n' for i in ids)[: -1 if ids[0] % 2 else None] for ids in batches]
        writes, write = [], hub.store.write

        def count_write(*given: Any, **options: Any) -> Any:
            writes.append(1)
            return write(*given, **options)

        monkeypatch.setattr(hub.store, "write", count_write)
        answers = await publish_together(http, name, *(body.encode() for body in bodies))

        assert [answer.status_code for answer in answers] == [200] * len(batches)
        assert len(writes) < len(batches) / 4
        offsets = read_offsets(hub, name)
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

    serve(sqlite_url, act)


def test_refused_publish_concerns_none_that_arrive_together_with_it(sqlite_url: str) -> None:
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

    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        alone = [shown(await http.post(f"/feeds/{GUARDED}", content=body)) for body in bad]
        together = await publish_together(
            http, GUARDED, *(body for pair in zip(bad, good, strict=True) for body in pair)
        )

        assert [shown(answer) for answer in together[::2]] == alone
        assert [answer.status_code for answer in together[1::2]] == [200] * len(good)
        assert read_offsets(hub, GUARDED) == {0: list(range(len(good)))}

    serve(sqlite_url, act)


def test_line_is_never_joined_from_two_publishes(sqlite_url: str) -> None:
    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        halves = [b'{"data":{"id":', b"1}}\n", b'{"data":{"id":\n', b"1}}"]
        answers = await publish_together(http, GUARDED, *halves)

        assert [answer.status_code for answer in answers] == [422] * len(halves)
        assert read_offsets(hub, GUARDED) == {0: []}

    serve(sqlite_url, act)


def test_failed_commit_is_told_to_all_that_arrived_together(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise OutcomeUnknown(reason="cut off")

        monkeypatch.setattr(hub.store, "write", fail)
        answers = await publish_together(http, PLAIN, *[b'{"data":{}}'] * 5)

        assert {(answer.status_code, answer.json()["type"]) for answer in answers} == {
            (500, f"{TYPE_PREFIX}{OutcomeUnknown.code}")
        }

    serve(sqlite_url, act)


def test_publish_refused_by_a_changed_event_type_concerns_none_that_arrive_together_with_it(sqlite_url: str) -> None:
    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        schema = json.dumps({"properties": {"id": {"type": "integer", "maximum": 3}}})
        definition = hub.registry.load(GUARDED).event_type.definition | {"compatibility_mode": "none"}
        hub.registry.replace(GUARDED, definition)
        remembered = hub.registry.load(GUARDED)
        remembered.event_type.validator  # noqa: B018 - it is compiled from now on
        other = Hub(open_store(sqlite_url))
        other.registry.add_schema(GUARDED, {"type": "json_schema", "schema": schema})
        alone = await http.post(f"/feeds/{GUARDED}", content=b'\n{"data":{"id":99}}')
        assert (alone.status_code, alone.json()["line"]) == (422, 2)
        hub.registry.remember(GUARDED, remembered)
        answers = await publish_together(http, GUARDED, *(b'{"data":{"id":%d}}' % i for i in (1, 99, 2)))

        assert [answer.status_code for answer in answers] == [200, 422, 200]
        assert "line 1: " in answers[1].json()["detail"]
        assert read_offsets(hub, GUARDED) == {0: [1, 2]}
        other.store.close()

    serve(sqlite_url, act)


def test_many_refused_publishes_concern_none_that_arrive_together_with_them(sqlite_url: str) -> None:
    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        bodies = [b'{"data":{"id":%s}}' % (b"true" if i % 3 else b"%d" % i) for i in range(30)]
        answers = await publish_together(http, GUARDED, *bodies)

        assert [answer.status_code for answer in answers] == [422 if i % 3 else 200 for i in range(30)]
        assert sorted(read_offsets(hub, GUARDED)[0]) == list(range(0, 30, 3))

    serve(sqlite_url, act)


def test_chunked_publish_leaves_the_error_of_others_in_its_group_as_it_is(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OutcomeUnknown(reason="cut off")

    async def act(hub: Hub, _: HubApp, http: httpx2.AsyncClient) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(hub.store, "write", fail)
        answer = await http.post(f"/feeds/{PLAIN}", content=b'{"data":{}}', params={"chunk": 1})

        assert answer.json()["stored"] == 0
        assert "stored" not in error.fields

    serve(sqlite_url, act)
