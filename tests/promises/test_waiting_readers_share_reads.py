"""Readers that wait at one cursor share one read of the log, and each gets what it asked for."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2

from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.state import WORKERS
from penstock.storage import Store, open_store
from tests.promises.scene import NAME, create, event, hub_on

WAITERS = 60


class CountingStore:
    """A store that counts how often events are read as lines; it passes everything on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def read(self) -> Iterator["CountingTx"]:
        with self._store.read() as tx:
            yield CountingTx(self, tx)


class CountingTx:
    """One look at a store that counts; its events are itself."""

    def __init__(self, store: CountingStore, tx: Any) -> None:
        self._store = store
        self._tx = tx
        self.events = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx if hasattr(self._tx, name) else self._tx.events, name)

    def lines(self, *given: Any) -> Any:
        self._store.reads += 1
        return self._tx.events.lines(*given)


class App:
    """A hub over HTTP in this process, and its store."""

    def __init__(self, app: HubApp, store: CountingStore) -> None:
        self.hub = app.hub
        self.store = store
        self._http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://hub")

    async def get(self, path: str) -> bytes:
        answer = await self._http.get(f"/feeds/{NAME}{path}")
        assert answer.status_code == 200, answer.text
        return answer.content

    async def publish(self, *lines: dict[str, Any]) -> None:
        body = b"\n".join(json.dumps({"partition": 0} | line).encode() for line in lines)
        assert (await self._http.post(f"/feeds/{NAME}", content=body)).status_code == 200


@asynccontextmanager
async def app_on(url: str) -> AsyncIterator[App]:
    store = CountingStore(open_store(url))
    app = HubApp(lambda: Hub(store))  # type: ignore[arg-type]
    async with app.lifespan():
        yield App(app, store)


def test_readers_that_wait_at_one_cursor_are_served_by_few_reads(url: str) -> None:
    with hub_on(url, partitions=1):
        pass

    async def main() -> None:
        async with app_on(url) as app:
            await app.publish({"data": {"n": 0}})
            start = (await app.get("?n=1&cursor0=_last")).decode()
            cursor = json.loads(start)["cursor"]
            waits = [asyncio.ensure_future(app.get(f"?n=1&cursor0={cursor}&wait=60")) for _ in range(WAITERS)]
            while app.hub.watch().waiting < WAITERS:  # noqa: ASYNC110 - nobody tells when a wait has begun
                await asyncio.sleep(0.01)
            before = app.store.reads

            await app.publish({"data": {"n": 1}})
            answers = await asyncio.gather(*waits)

            assert app.store.reads - before <= WORKERS  # Reads that begin at the very same moment are not shared.
            assert len(set(answers)) == 1
            assert [json.loads(line).get("data") for line in answers[0].splitlines()] == [{"n": 1}, None]

    asyncio.run(main())


def test_shared_read_gives_each_reader_its_own_view(url: str) -> None:
    """The same events as lines of v1 in one view and in another, as lines of v2, and sifted by kind."""
    lines = [{"data": {"n": n}, "partition": n % 2, "headers": {"ce_type": f"kind.{n % 3}"}} for n in range(6)]
    asked = {
        "?n=2&cursor0=_first": [(0, 0), (0, 2), (0, 4)],
        "?n=2&cursor1=_first": [(1, 1), (1, 3), (1, 5)],
        "?n=1&cursor0=_first": [(0, 0), (0, 2), (0, 4), (0, 1), (0, 3), (0, 5)],
        "/events?token=1-2&partition=0&cursor=_first": [(None, 0), (None, 2), (None, 4)],
        "/events?token=1-2&partition=1&cursor=_first": [(None, 1), (None, 3), (None, 5)],
        "?n=2&cursor0=_first&event-types=kind.0": [(0, 0)],
        "?n=2&cursor0=_first&skip-event-types=kind.0": [(0, 2), (0, 4)],
        "?n=2&cursor0=_first&event-types=kind.1": [(0, 4)],
        "?n=2&cursor0=_first&pagesizehint=2": [(0, 0), (0, 2)],
        "/events?token=1-2&partition=0&cursor=_first&skip-event-types=kind.2": [(None, 0), (None, 4)],
    }
    with hub_on(url, partitions=2):
        pass

    async def main() -> None:
        async with app_on(url) as app:
            await app.publish(*lines)
            first = {path: await app.get(path) for path in asked}
            read = app.store.reads
            again = {path: await app.get(path) for path in reversed(asked)}

            assert {path: events_of(body) for path, body in first.items()} == asked
            assert again == first
            assert read > 0
            assert app.store.reads == read  # It was shared.

    asyncio.run(main())


def test_recreated_event_type_shares_no_read_with_the_one_before(url: str) -> None:
    """An event type is dropped and created again, here or by another hub: its first events lie at the same offsets."""
    asked = ("?n=2&cursor0=_first", "/events?token={}-2&partition=0&cursor=_first")
    with hub_on(url, partitions=2) as elsewhere:

        async def main() -> None:
            async with app_on(url) as app:
                for life, hub in enumerate((app.hub, elsewhere, app.hub, elsewhere), 1):
                    await asyncio.to_thread(elsewhere.publish, NAME, [event({"n": life * 10 + n}) for n in range(2)])
                    for _ in range(2):
                        for path in asked:
                            found = events_of(await app.get(path.format(life)))
                            assert [n for _, n in found] == [life * 10, life * 10 + 1]
                    await asyncio.to_thread(hub.delete_event_type, NAME)
                    await asyncio.to_thread(create, hub, partitions=2)
                assert events_of(await app.get("?n=2&cursor0=_first")) == []

        asyncio.run(main())


def test_later_reader_at_the_same_cursor_gets_newer_events_too(url: str) -> None:
    with hub_on(url, partitions=1):
        pass

    async def main() -> None:
        async with app_on(url) as app:
            for count in range(1, 4):
                await app.publish({"data": {"n": count - 1}})
                found = events_of(await app.get("?n=1&cursor0=_first"))
                assert [n for _, n in found] == list(range(count))

    asyncio.run(main())


def events_of(body: bytes) -> list[tuple[int | None, int]]:
    """Return the partition and the number of each event of a page."""
    lines = [json.loads(line) for line in body.splitlines()]
    return [(line.get("partition"), line["data"]["n"]) for line in lines if "data" in line]
