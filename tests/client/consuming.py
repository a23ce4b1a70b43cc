"""Consumers of both kinds in threads, the event types that they consume, and the events that their handlers see."""

import asyncio
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from penstock.client import AsyncClient, Client
from tests.unit.client.kinds import ASYNC, Kind

EVENTS = 200


def create_filled(client: Client, partitions: int = 4, events: int = EVENTS) -> str:
    """Create an event type with *events* events, numbered from 0, whose keys lie in all of its partitions."""
    name = f"order.{uuid.uuid4().hex}"
    client.create_event_type(name, partition_count=partitions, partition_strategy="hash", partition_key_fields=["key"])
    put(client, name, range(events))
    return name


def put(client: Client, name: str, numbers: Any) -> None:
    """Publish events of these numbers."""
    client.publish(name, [{"key": f"key-{number % 20}", "n": number} for number in numbers])


def definition(name: str, **members: Any) -> dict[str, Any]:
    """Return the definition of a new subscription that reads from the beginning."""
    traits = {"owning_application": "shop", "event_types": [name], "consumer_group": uuid.uuid4().hex}
    return {**traits, "read_from": "begin", **members}


def subscribe(client: Client, name: str, **members: Any) -> str:
    """Create such a subscription, and return its id."""
    traits: Any = {"consumer_group": uuid.uuid4().hex, "start": "earliest", **members}
    return client.subscriptions.create("shop", [name], **traits)[0].id


def unconsumed(client: Client, id: str) -> int:
    """Return how many events are not committed."""
    return sum(each.unconsumed_events or 0 for each in client.subscriptions.stats(id))


class Seen:
    """The events that handlers were called with, from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Condition()
        self.numbers: list[int] = []
        self.by_partition: dict[int, list[int]] = defaultdict(list)

    def __call__(self, batch: Any) -> None:
        with self._guard:
            found = [event.data["n"] for event in batch.events]
            self.numbers += found
            self.by_partition[batch.partition] += found
            self._guard.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until *count* different events were seen."""
        with self._guard:
            assert self._guard.wait_for(lambda: len(set(self.numbers)) >= count, 300), len(set(self.numbers))

    @property
    def is_in_order(self) -> bool:
        """Return whether the events of each partition came in order, each once."""
        return all(numbers == sorted(set(numbers)) for numbers in self.by_partition.values())


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


class Running:
    """A consumer of either kind: in a thread of its own within the `with` block, or in the caller's by `run`.

    Its *handle* and callbacks are plain functions; those of the async kind are awaited in threads.
    """

    def __init__(self, kind: Kind, client: Client, wanted: Any, handle: Any, *, by_event: bool = False, **options: Any):
        """Consume *wanted*; with *by_event*, `stop` sets the event of the option `cancel`."""
        self._kind = kind
        self._url = client.parts()[0].url
        self._wanted = wanted
        self._handle = handle
        self._by_event = by_event
        self._options = options
        self._has_begun = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self.run)
        self.consumed: Any = None

    def run(self) -> Any:
        """Consume until the end, and return the counts."""
        self.consumed = asyncio.run(self._run_async()) if self._kind is ASYNC else self._run()
        return self.consumed

    def _run(self) -> Any:
        with Client(self._url) as client:
            cancel = threading.Event()
            options = {"cancel": cancel} if self._by_event else {}
            consumer = client.consumer(self._wanted, self._handle, **options, **self._options)
            self._begin(cancel.set if self._by_event else consumer.stop)
            return consumer.run()

    async def _run_async(self) -> Any:
        loop = asyncio.get_running_loop()
        async with AsyncClient(self._url) as client:
            cancel = asyncio.Event()
            options = {"cancel": cancel} if self._by_event else {}
            own = {name: in_thread(each) if callable(each) else each for name, each in self._options.items()}
            consumer = client.consumer(self._wanted, in_thread(self._handle), **options, **own)
            stop = cancel.set if self._by_event else consumer.stop
            self._begin(lambda: loop.call_soon_threadsafe(stop))
            return await consumer.run()

    def _begin(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._has_begun.set()

    def stop(self) -> None:
        """Have it stop."""
        assert self._has_begun.wait(300)
        with suppress(RuntimeError):  # Its loop is closed: it has ended.
            self._stop()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop it and wait for its end."""
        self.stop()
        self._thread.join(300)
        assert not self._thread.is_alive()


def in_thread(function: Callable[..., Any]) -> Any:
    """Return an async function that calls *function* in a thread."""

    async def call(*given: Any) -> Any:
        return await asyncio.to_thread(function, *given)

    return call
