"""A hub, a line to it on which requests and answers go wrong, and a client of either kind that speaks by the line."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn

from penstock.client import PartitionPublishingOptions, PublishResult, RetryPolicy
from penstock.core.producers import OffsetRange
from penstock.errors import PenstockError, RetriesExhausted
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.storage import open_store
from tests.faults.either import Either, Handle, Kind, either
from tests.faults.proxy import Fate, Line, lost, unanswered
from tests.producing import Producer
from tests.served import Served, create
from tests.store_contract import database_at

GROUP = "mine"
TWO_ATTEMPTS = RetryPolicy(max_attempts=2, max_delay_seconds=0.02)
"""The retries of a producer, unless a test names others."""
MANY_ATTEMPTS = RetryPolicy(max_delay_seconds=0.02)
STORED: tuple[Fate, ...] = (lost, unanswered)
"""After these two attempts a batch is stored, and its producer does not know it."""
NOT_STORED: tuple[Fate, ...] = (lost, lost)
either_way = pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not stored"])
"""Runs a test for a batch that is stored, and for one that is not."""


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
        return self.client.producer(self.name, producer_group=group, **{"retry": TWO_ATTEMPTS} | options)

    def leave_in_doubt(
        self, mine: Handle, events: Any, fates: tuple[Fate, ...] = NOT_STORED, partition: int | None = 0
    ) -> None:
        """Send *events* in a call that ends without knowing whether they are stored."""
        self.line.does(*fates)
        told = {"partition": partition or 0, "attempts": len(fates), "outcome": "unknown"}
        failure_of(lambda: mine.send(events, partition=partition), RetriesExhausted, **told)

    def raw(self, group: str = GROUP, partition: int = 0) -> Producer:
        """Return that producer group without a client: it speaks to the hub directly."""
        return Producer(self.feed, group, partition)

    def log(self, partition: int = 0) -> list[int]:
        """Return the ids of the events of a partition."""
        return self.raw(partition=partition).log()

    def numbers_sent(self) -> list[tuple[str, str, bytes]]:
        """Return epoch, number and body of all batches that have come to the line."""
        return [
            (each.headers["producer-epoch"], each.headers["producer-sequence"], each.body) for each in self.line.batches
        ]

    def rows(self, sql: str) -> list[Any]:
        """Query the database; `{mine}` stands for the ids of the feed's partitions."""
        mine = (
            "SELECT p.id FROM penstock_partition p JOIN penstock_event_type t ON t.id = p.event_type_id "
            f"WHERE t.name = '{self.name}'"
        )
        return database_at(self.database).run(sql.format(mine=mine))

    def change(self, **definition: Any) -> None:
        """Change the definition of the event type."""
        path = f"/event-types/{self.name}"
        answer = self.http.put(path, json=self.http.get(path).json() | definition)
        assert answer.status_code == 200, answer.text

    def assert_dense(self) -> None:
        """Assert that the offsets of each partition have no holes."""
        sql = 'SELECT count(*), min("offset"), max("offset") FROM penstock_event WHERE partition_id IN ({mine})'
        for count, first, last in self.rows(sql + " GROUP BY partition_id"):
            assert (first, last) == (0, count - 1)


def starting(epoch: int | None = None, sequence: int | None = None) -> dict[str, Any]:
    """Return options of a producer that begins partition 0 with that epoch and that number."""
    return {"partition_options": {0: PartitionPublishingOptions(epoch=epoch, starting_sequence=sequence)}}


def ids(*numbers: int) -> list[dict[str, int]]:
    """Return new events with these ids."""
    return [{"id": number} for number in numbers]


def stored(
    first: int,
    *offsets: tuple[int, int],
    epoch: int = 0,
    partition: int = 0,
    duplicate: bool = False,
    attempts: int = 1,
) -> PublishResult:
    """Return the result of a call whose events are at these offsets, the first of them with the number *first*."""
    ranges = tuple(OffsetRange(*each) for each in offsets)
    count = sum(last - begin + 1 for begin, last in offsets)
    return PublishResult(partition, epoch, first, count, ranges, duplicate, attempts)


def failure_of(call: Callable[[], Any], kind: type[PenstockError], **fields: Any) -> PenstockError:
    """Assert that *call* fails with exactly that kind of error, with these fields; return the error."""
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
    """Connect a client by a new line to the hub at *port*; create an event type unless *name* is one."""
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
