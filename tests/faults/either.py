"""The sync and the async client and their producers, called in one way."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio
import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal

from penstock.client import (
    AsyncClient,
    AsyncIdempotentProducer,
    Client,
    CloseReport,
    EventBatch,
    IdempotentProducer,
    PublishingProperties,
    PublishResult,
    Resolution,
    RetryPolicy,
)
from penstock.client.http import adapter

Kind: TypeAlias = Literal["sync", "async"]
Means: TypeAlias = Literal["thread-event", "asyncio-event", "anyio-event", "task"]
"""The means to cancel a call."""
QUICK: Mapping[str, Any] = {
    "retry": RetryPolicy(max_delay_seconds=0.02),
    "attempt_timeout": 10.0,
    "delivery_timeout": 30.0,
}
"""Delays of tests."""
MEANS: Mapping[Means, Kind] = {
    "thread-event": "sync",
    "asyncio-event": "async",
    "anyio-event": "async",
    "task": "async",
}


class TaskCancelled(Exception):
    """The task that called was cancelled, and has ended as such."""


class Either:
    """A client of one of the two kinds."""

    def __init__(self, kind: Kind, url: str) -> None:
        self.kind = kind
        settings = {**adapter.SETTINGS, "verify": False}  # What is never asked for takes a long time to load.
        self._stack = ExitStack()
        self._threads = self._stack.enter_context(ThreadPoolExecutor(8))
        self.portal: BlockingPortal | None = None
        if kind == "async":
            self.portal = self._stack.enter_context(start_blocking_portal())
            http: Any = self.portal.call(partial(httpx2.AsyncClient, **settings))
            self._stack.callback(self.portal.call, http.aclose)
            self.client: Any = self.portal.call(partial(AsyncClient, url, http=http))
        else:
            http = self._stack.enter_context(httpx2.Client(**settings))
            self.client = Client(url, http=http)

    def close(self) -> None:
        self._stack.close()

    def run(self, work: Callable[[], Any]) -> Any:
        """Run *work*, a call of the client or of one of its objects, and return its result."""
        return work() if self.portal is None else self.portal.call(work)

    def producer(self, event_type: str, **options: Any) -> "Handle":
        """Make a producer."""
        given = {**QUICK, **options}
        kind: Any = IdempotentProducer if self.kind == "sync" else AsyncIdempotentProducer
        return Handle(self, self.run(partial(kind, self.client, event_type, **given)))

    def begin(self, work: Callable[[], Any]) -> "Future[Any]":
        """Run *work* in the background."""
        if self.portal is None:
            return self._threads.submit(work)
        return self.portal.start_task_soon(work)

    def sending(
        self, handle: "Handle", means: Means, events: Any, *, is_cancelled: bool = False, **options: Any
    ) -> "Sending":
        """Send in the background, so that the call can be cancelled by these *means*, also before it begins."""
        if means == "task":
            return _TaskSending(self, partial(handle.inner.send, events, **options))
        token: Any = {"thread-event": Noticed, "asyncio-event": asyncio.Event, "anyio-event": anyio.Event}
        made = self.run(token[means])
        if is_cancelled:
            self.run(made.set)
        return Sending(self, partial(handle.inner.send, events, cancel=made, **options), made)


class Handle:
    """A producer of either kind."""

    def __init__(self, either: Either, inner: Any) -> None:
        self.inner = inner
        self._either = either

    @property
    def group(self) -> str | None:
        group: str | None = self.inner.producer_group
        return group

    def send(self, events: Any, **options: Any) -> PublishResult:
        found: PublishResult = self._either.run(partial(self.inner.send, events, **options))
        return found

    def begin(self, events: Any, **options: Any) -> "Future[PublishResult]":
        """Send in the background."""
        return self._either.begin(partial(self.inner.send, events, **options))

    def batch(self, partition: int, *events: Any) -> EventBatch:
        """Return a batch with these events."""
        batch: EventBatch = self._either.run(partial(self.inner.create_batch, partition))
        for event in events:
            assert batch.try_add(event)
        return batch

    def properties(self, partition: int, **options: Any) -> PublishingProperties:
        asked = partial(self.inner.get_publishing_properties, partition, **options)
        found: PublishingProperties = self._either.run(asked)
        return found

    def resolve(self, partition: int) -> Resolution | None:
        found: Resolution | None = self._either.run(partial(self.inner.resolve, partition))
        return found

    def waiting(self, partition: int) -> int:
        """Return how many calls wait for their turn in a partition."""
        guard = self._guard(partition)
        found: int = len(guard._queue) if self._either.kind == "sync" else guard.statistics().tasks_waiting
        return found

    def is_free(self, partition: int) -> bool:
        """Return whether no call has its turn in a partition."""
        guard = self._guard(partition)
        held: bool = guard._held if self._either.kind == "sync" else guard.statistics().locked
        return not held

    def _guard(self, partition: int) -> Any:
        return self.inner._partitions.lock(self.inner._partitions.state(partition))

    def close(self, timeout: float | None = None) -> CloseReport:
        close = self.inner.close if self._either.kind == "sync" else self.inner.aclose
        report: CloseReport = self._either.run(partial(close, timeout))
        return report


class Noticed(threading.Event):
    """An event that knows whether it has been read as set."""

    def __init__(self) -> None:
        super().__init__()
        self.noticed = threading.Event()

    def is_set(self) -> bool:
        if found := super().is_set():
            self.noticed.set()
        return found


class Sending:
    """A call that is under way, and can be cancelled."""

    def __init__(self, either: Either, work: Callable[[], Any], token: Any) -> None:
        self._either = either
        self._token = token
        self._future = either.begin(work)

    def cancel(self) -> None:
        """Cancel it, and return when that has been noticed."""
        self._either.run(self._token.set)
        self._noticed()

    def _noticed(self) -> None:
        if self._either.portal is not None:
            self._either.portal.call(anyio.wait_all_tasks_blocked)
        while self._either.portal is None and not self._future.done() and not self._token.noticed.wait(0.005):
            pass

    def result(self) -> PublishResult:
        found: PublishResult = self._future.result(300)
        return found


class _TaskSending(Sending):
    """The same in a task that is itself cancelled."""

    def __init__(self, either: Either, work: Callable[[], Any]) -> None:
        self._either = either
        self._task: asyncio.Task[Any] | None = None
        begun = threading.Event()

        async def run() -> Any:
            self._task = asyncio.ensure_future(work())
            begun.set()
            await asyncio.wait([self._task])
            if self._task.cancelled():
                raise TaskCancelled
            return self._task.result()

        self._future = either.begin(run)
        assert begun.wait(300)

    def cancel(self) -> None:
        assert self._task is not None
        self._either.run(self._task.cancel)
        self._noticed()


@contextmanager
def either(kind: Kind, url: str) -> Iterator[Either]:
    """Open a client of one kind for the block."""
    made = Either(kind, url)
    try:
        yield made
    finally:
        made.close()
