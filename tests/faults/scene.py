"""What the fault matrix is played with: a hub, a line to it on which things go wrong, and a client of either kind."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn

from penstock.client import PublishResult
from penstock.core.producer import Range
from penstock.errors import PenstockError
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store
from penstock.testing.store_contract import database_at
from tests.faults.either import Either, Handle, Kind, either
from tests.faults.proxy import Line
from tests.producing import Producer
from tests.served import Served, create

GROUP = "mine"


class Scene:
    """A feed of its own in a hub, and a client that speaks to the hub by the line."""

    def __init__(self, database: str, http: httpx2.Client, line: Line, client: Either, feed: Served) -> None:
        self.database = database
        self.http = http
        """Straight to the hub."""
        self.line = line
        self.client = client
        self.feed = feed
        self.name = feed.name

    def producer(self, *, group: str | None = GROUP, **options: Any) -> Handle:
        return self.client.producer(self.name, producer_group=group, **options)

    def raw(self, group: str = GROUP, partition: int = 0) -> Producer:
        """Speak as that producer without a client, past the line."""
        return Producer(self.feed, group, partition)

    def log(self, partition: int = 0) -> list[int]:
        """Return the ids of the events of a partition."""
        return self.raw(partition=partition).log()

    def numbers_sent(self) -> list[tuple[str, str, bytes]]:
        """Return epoch, number and body of all batches that came to the line."""
        return [
            (each.headers["producer-epoch"], each.headers["producer-sequence"], each.body) for each in self.line.batches
        ]

    def rows(self, sql: str) -> list[Any]:
        """Ask the database itself about the partitions of the feed: `{mine}` are their ids."""
        mine = (
            "SELECT p.id FROM penstock_partition p JOIN penstock_event_type t ON t.id = p.event_type_id "
            f"WHERE t.name = '{self.name}'"
        )
        return database_at(self.database).run(sql.format(mine=mine))

    def change(self, **definition: Any) -> None:
        """Let the event type be another, from now on."""
        path = f"/event-types/{self.name}"
        answer = self.http.put(path, json=self.http.get(path).json() | definition)
        assert answer.status_code == 200, answer.text

    def dense(self) -> None:
        """See that the offsets of the events have no holes, and the next event follows them."""
        sql = 'SELECT count(*), min("offset"), max("offset") FROM penstock_event WHERE partition_id IN ({mine})'
        for count, first, last in self.rows(sql + " GROUP BY partition_id"):
            assert (first, last) == (0, count - 1)


def ids(*numbers: int) -> list[dict[str, int]]:
    """Return events with these ids."""
    return [{"id": number} for number in numbers]


def stored(
    first: int,
    *offsets: tuple[int, int],
    epoch: int = 0,
    partition: int = 0,
    duplicate: bool = False,
    attempts: int = 1,
) -> PublishResult:
    """Return the result of a call whose events lie at these offsets, the first of them with the number *first*."""
    ranges = tuple(Range(*each) for each in offsets)
    count = sum(last - begin + 1 for begin, last in offsets)
    return PublishResult(partition, epoch, first, count, ranges, duplicate, attempts)


def failure_of(call: Callable[[], Any], kind: type[PenstockError], **fields: Any) -> PenstockError:
    """See that *call* fails with exactly that kind of error, which has these fields; return it."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    said = {name: error.fields.get(name) for name in fields}
    assert (type(error), said) == (kind, fields), f"{error!r} says {error.fields}"
    return error


@contextmanager
def scene_on(
    database: str, port: int, kind: Kind, partitions: int = 1, name: str | None = None, **definition: Any
) -> Iterator[Scene]:
    """Set the scene before the hub at *port*; with a *name*, in an event type that is there already."""
    with (
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, verify=False) as http,
        Line(port) as line,
        either(kind, line.url) as client,
    ):
        feed = create(http, partitions, **definition) if name is None else Served(http, name, partitions)
        yield Scene(database, http, line, client, feed)


class HubHere:
    """A hub in this process, which can be stopped, and is started again on the same port."""

    def __init__(self, database: str, **traits: Any) -> None:
        """*traits* are what `Hub` is made with."""
        self.database = database
        self.port = 0
        self.hub: Hub | None = None
        self._traits = traits
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        def opened() -> Hub:
            store = open_store(self.database)
            store.migrate()
            self.hub = Hub(store, **self._traits)
            self.hub.start()
            return self.hub

        config = uvicorn.Config(HubApp(opened), port=self.port, log_config=None, ws="none", timeout_graceful_shutdown=1)
        server = self._server = _Server(config)
        self._thread = threading.Thread(target=server.run)
        self._thread.start()
        assert server.listening.wait(300)
        self.port = server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(300)
        assert not self._thread.is_alive()
        self._server = self._thread = None


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@contextmanager
def hub_here(database: str, **traits: Any) -> Iterator[HubHere]:
    hub = HubHere(database, **traits)
    hub.start()
    try:
        yield hub
    finally:
        hub.stop()
