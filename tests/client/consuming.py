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
    return client.create_subscription("shop", [name], **traits)[0].id


def unconsumed(client: Client, id: str) -> int:
    """Return how many events are not committed."""
    return sum(each.unconsumed_events or 0 for each in client.subscription(id).stats())


class Seen:
    """The events that handlers were called with, from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Condition()
        self.numbers: list[int] = []
        self.by_key: dict[str, list[int]] = defaultdict(list)

    def __call__(self, event: Any) -> None:
        with self._guard:
            self.numbers.append(event.data["n"])
            self.by_key[event.data["key"]].append(event.data["n"])
            self._guard.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until *count* different events were seen."""
        with self._guard:
            assert self._guard.wait_for(lambda: len(set(self.numbers)) >= count, 300), len(set(self.numbers))

    @property
    def is_in_order(self) -> bool:
        """Return whether the events of each key came in order, each once."""
        return all(numbers == sorted(set(numbers)) for numbers in self.by_key.values())


def until(condition: Callable[[], bool]) -> None:
    pause = 0.005
    while not condition():
        time.sleep(pause)
        pause = min(pause * 1.25, 0.05)


class Running:
    """A client that consumes: in a thread of its own within the `with` block, or in the caller's by `run`.

    *handle* is a plain function; the async kind awaits an async function that calls it.
    """

    def __init__(self, kind: Kind, url: str, wanted: Any, handle: Any, **options: Any):
        self._kind = kind
        self._url = url
        self._wanted = wanted
        self._handle = handle
        self._options = options
        self._has_begun = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._keep)
        self.error: BaseException | None = None

    def run(self) -> None:
        """Consume until the end."""
        if self._kind is ASYNC:
            asyncio.run(self._run_async())
        else:
            self._run()

    def _keep(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001 - it is raised at the end of the block
            self.error = error

    def _run(self) -> None:
        cancel = threading.Event()
        with Client(self._url) as client:
            self._begin(cancel.set)
            client.consume(self._wanted, self._handle, cancel=cancel, **self._options)

    async def _run_async(self) -> None:
        loop, cancel = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncClient(self._url) as client:
            self._begin(lambda: loop.call_soon_threadsafe(cancel.set))
            await client.consume(self._wanted, in_thread(self._handle), cancel=cancel, **self._options)

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
        self.stop()
        self._thread.join(300)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


def in_thread(function: Callable[..., Any]) -> Any:
    """Return an async function of an event that calls *function* in a thread."""

    async def call(event: Any) -> None:
        await asyncio.to_thread(function, event)

    return call
