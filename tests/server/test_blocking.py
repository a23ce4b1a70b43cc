"""A blocked application or event type neither publishes nor reads; its waits end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from penstock.hub.admin.settings import BlockKind
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store
from penstock.testing.factories import a_new_event, an_event_type
from tests.served import problem_of

NAME = "order.placed"
READS: dict[str, dict[str, Any]] = {
    "a page": {"n": 1, "cursor0": "_first"},
    "cursors alone": {"n": 1, "cursor0": "_last", "pagesizehint": 0},
    "a cursor set kept": {"n": 1, "cursor0": "_last", "cursorset": "x", "store_cursor": 1, "pagesizehint": 0},
    "a cursor set resumed": {"n": 1, "cursorset": "kept", "resume": 0},
}
Act = Callable[[Hub, httpx2.AsyncClient], Awaitable[None]]


def serve(url: str, act: Act) -> None:
    """Have *act* use a hub on *url*, and talk to it over HTTP."""

    async def main() -> None:
        hub = Hub(open_store(url))
        hub.store.migrate()
        hub.start()
        hub.registry.create(an_event_type(NAME))
        hub.log.publish(NAME, [a_new_event()])
        app = HubApp(lambda: hub)
        async with (
            app.lifespan(),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://hub") as http,
        ):
            await http.get(f"/feeds/{NAME}", params={"n": 1, "cursor0": "_first", "cursorset": "kept"})
            await act(hub, http)

    asyncio.run(main())


async def get(http: httpx2.AsyncClient, path: str = "", **arguments: Any) -> httpx2.Response:
    return await http.get(f"/feeds/{NAME}{path}", params=arguments)


async def waiting(hub: Hub, count: int = 1) -> None:
    while hub.log.watch.waiting < count:  # noqa: ASYNC110 - nobody tells when a wait has begun
        await asyncio.sleep(0)


def assert_blocked(answer: httpx2.Response) -> None:
    problem = problem_of(answer, 403, "blocked")
    assert problem["detail"] == "Application or event type is blocked"
    assert (problem["event_type"], problem["application"]) == (NAME, "unauthenticated")


@pytest.mark.parametrize(("kind", "name"), [("CONSUMER_ET", NAME), ("CONSUMER_APP", "unauthenticated")])
def test_blocked_consumer_cannot_read_in_any_way_until_it_is_lifted(
    sqlite_url: str, kind: BlockKind, name: str
) -> None:
    async def act(hub: Hub, http: httpx2.AsyncClient) -> None:
        hub.admin.settings.block(kind, name)
        for arguments in READS.values():
            assert_blocked(await get(http, **arguments))
        assert_blocked(await get(http, "/events", token="1-1", partition=0, cursor="_first"))
        assert (await http.head(f"/feeds/{NAME}", params=READS["a page"])).status_code == 403

        assert (await get(http)).status_code == 200, "discovery is not blocked"
        assert (await http.post(f"/feeds/{NAME}", content=b'{"data":{}}')).status_code == 200

        hub.admin.settings.unblock(kind, name)
        for arguments in READS.values():
            assert (await get(http, **arguments)).status_code == 200

    serve(sqlite_url, act)


@pytest.mark.parametrize(("kind", "name"), [("PRODUCER_ET", NAME), ("PRODUCER_APP", "unauthenticated")])
def test_blocked_producer_publishes_nothing_until_it_is_lifted(sqlite_url: str, kind: BlockKind, name: str) -> None:
    async def act(hub: Hub, http: httpx2.AsyncClient) -> None:
        hub.admin.settings.block(kind, name)
        assert_blocked(await http.post(f"/feeds/{NAME}", content=b'{"data":{}}'))

        assert (await get(http, **READS["a page"])).text.count('"data"') == 1

        hub.admin.settings.unblock(kind, name)
        assert (await http.post(f"/feeds/{NAME}", content=b'{"data":{}}')).status_code == 200

    serve(sqlite_url, act)


def test_block_ends_the_waits_of_its_event_type_alone(migrated_url: str) -> None:
    async def act(hub: Hub, http: httpx2.AsyncClient) -> None:
        hub.registry.create(an_event_type("order.sent"))
        v1 = asyncio.ensure_future(get(http, n=1, cursor0="_last", wait=60))
        v2 = asyncio.ensure_future(get(http, "/events", token="1-1", partition=0, cursor="_last", wait=60))
        other = asyncio.ensure_future(http.get("/feeds/order.sent", params={"n": 1, "cursor0": "_last", "wait": 60}))
        await waiting(hub, 3)

        for kind in ("CONSUMER_ET", "PRODUCER_ET"):
            hub.admin.settings.block(kind, NAME)
        assert_blocked(await v1)
        assert_blocked(await v2)
        await waiting(hub, 1)
        assert not other.done()

        assert (await http.post("/feeds/order.sent", content=b'{"data":{"n":1}}')).status_code == 200
        assert (await other).text.count('"data"') == 1

    serve(migrated_url, act)


def test_wait_continues_when_another_event_type_is_blocked(sqlite_url: str) -> None:
    async def act(hub: Hub, http: httpx2.AsyncClient) -> None:
        wait = asyncio.ensure_future(get(http, n=1, cursor0="_last", wait=60))
        await waiting(hub)
        for _ in range(3):
            hub.admin.settings.block("CONSUMER_ET", "order.sent")
            hub.admin.settings.unblock("CONSUMER_ET", "order.sent")
            await asyncio.sleep(0)
        await waiting(hub)
        assert not wait.done()

        await http.post(f"/feeds/{NAME}", content=b'{"data":{"n":1}}')
        assert (await wait).text.count('"data"') == 1

    serve(sqlite_url, act)


def test_block_just_before_a_wait_begins_ends_it(sqlite_url: str) -> None:
    """Between the read of a page and its wait no reader can be woken."""

    async def act(hub: Hub, http: httpx2.AsyncClient) -> None:
        wait = hub.log.watch.wait
        before: list[str] = []

        def blocked_at_the_last_moment(offsets: Any, wake: Any) -> Any:
            if not before:
                before.append("blocked")
                hub.admin.settings.block("CONSUMER_ET", NAME)
            return wait(offsets, wake)

        hub.log.watch.wait = blocked_at_the_last_moment  # type: ignore[method-assign]
        assert_blocked(await get(http, n=1, cursor0="_last", wait=60))

    serve(sqlite_url, act)
