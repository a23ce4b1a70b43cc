"""A blocked application or event type neither publishes nor reads; its waits end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from penstock.hub.admin.settings import BlockKind
from penstock.hub.hub import Hub
from penstock.testing.factories import a_new_event, an_event_type
from tests.served import problem_of
from tests.server.in_process import Here, open_hub, serve

pytestmark = pytest.mark.anyio
NAME, OTHER = "order.placed", "order.sent"
READS: dict[str, dict[str, Any]] = {
    "a page": {"n": 1, "cursor0": "_first"},
    "cursors alone": {"n": 1, "cursor0": "_last", "pagesizehint": 0},
    "a cursor set kept": {"n": 1, "cursor0": "_last", "cursorset": "x", "store_cursor": 1, "pagesizehint": 0},
    "a cursor set resumed": {"n": 1, "cursorset": "kept", "resume": 0},
}


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Here]:
    """A hub that has started, with an event, and a cursor set that has read it."""
    hub = open_hub(sqlite_url)
    hub.start()
    hub.registry.create(an_event_type(NAME))
    hub.registry.create(an_event_type(OTHER))
    hub.log.publish(NAME, [a_new_event()])
    async with serve(hub) as here:
        await get(here, **READS["a page"], cursorset="kept")
        yield here


async def get(here: Here, path: str = "", name: str = NAME, **arguments: Any) -> httpx2.Response:
    return await here.http.get(f"/feeds/{name}{path}", params=arguments)


async def publish(here: Here, name: str = NAME) -> httpx2.Response:
    return await here.post_lines(name, b'{"data":{"n":1}}')


async def waiting(hub: Hub, count: int = 1) -> None:
    while hub.log.watch.waiting < count:  # noqa: ASYNC110 - nobody tells when a wait has begun
        await asyncio.sleep(0)


def assert_blocked(answer: httpx2.Response) -> None:
    problem = problem_of(answer, 403, "blocked")
    assert problem["detail"] == "Application or event type is blocked"
    assert (problem["event_type"], problem["application"]) == (NAME, "unauthenticated")


@pytest.mark.parametrize(("kind", "name"), [("CONSUMER_ET", NAME), ("CONSUMER_APP", "unauthenticated")])
async def test_blocked_consumer_cannot_read_in_any_way_until_it_is_lifted(
    here: Here, kind: BlockKind, name: str
) -> None:
    here.hub.admin.settings.block(kind, name)
    for arguments in READS.values():
        assert_blocked(await get(here, **arguments))
    assert_blocked(await get(here, "/events", token="1-1", partition=0, cursor="_first"))
    assert (await here.http.head(f"/feeds/{NAME}", params=READS["a page"])).status_code == 403
    assert (await get(here)).status_code == 200, "discovery is not blocked"
    assert (await publish(here)).status_code == 200

    here.hub.admin.settings.unblock(kind, name)
    for arguments in READS.values():
        assert (await get(here, **arguments)).status_code == 200


@pytest.mark.parametrize(("kind", "name"), [("PRODUCER_ET", NAME), ("PRODUCER_APP", "unauthenticated")])
async def test_blocked_producer_publishes_nothing_until_it_is_lifted(here: Here, kind: BlockKind, name: str) -> None:
    here.hub.admin.settings.block(kind, name)
    assert_blocked(await publish(here))
    assert (await get(here, **READS["a page"])).text.count('"data"') == 1

    here.hub.admin.settings.unblock(kind, name)
    assert (await publish(here)).status_code == 200


async def test_block_ends_the_waits_of_its_event_type_alone(here: Here) -> None:
    v1 = asyncio.ensure_future(get(here, n=1, cursor0="_last", wait=60))
    v2 = asyncio.ensure_future(get(here, "/events", token="1-1", partition=0, cursor="_last", wait=60))
    other = asyncio.ensure_future(get(here, "", OTHER, n=1, cursor0="_last", wait=60))
    await waiting(here.hub, 3)

    for kind in ("CONSUMER_ET", "PRODUCER_ET"):
        here.hub.admin.settings.block(kind, NAME)
    assert_blocked(await v1)
    assert_blocked(await v2)
    await waiting(here.hub, 1)
    assert not other.done()

    assert (await publish(here, OTHER)).status_code == 200
    assert (await other).text.count('"data"') == 1


async def test_wait_continues_when_another_event_type_is_blocked(here: Here) -> None:
    wait = asyncio.ensure_future(get(here, n=1, cursor0="_last", wait=60))
    await waiting(here.hub)
    for _ in range(3):
        here.hub.admin.settings.block("CONSUMER_ET", OTHER)
        here.hub.admin.settings.unblock("CONSUMER_ET", OTHER)
        await asyncio.sleep(0)
    await waiting(here.hub)
    assert not wait.done()

    await publish(here)
    assert (await wait).text.count('"data"') == 1


async def test_block_just_before_a_wait_begins_ends_it(here: Here) -> None:
    """Between the read of a page and its wait no reader can be woken."""
    wait = here.hub.log.watch.wait
    before: list[str] = []

    def blocked_at_the_last_moment(offsets: Any, wake: Any) -> Any:
        if not before:
            before.append("blocked")
            here.hub.admin.settings.block("CONSUMER_ET", NAME)
        return wait(offsets, wake)

    here.hub.log.watch.wait = blocked_at_the_last_moment  # type: ignore[method-assign]
    assert_blocked(await get(here, n=1, cursor0="_last", wait=60))
