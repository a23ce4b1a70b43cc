"""Both clients, called in one way: what a producer does for code that waits, and for async code."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio
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

Kind: TypeAlias = Literal["sync", "async"]
Means: TypeAlias = Literal["thread-event", "asyncio-event", "anyio-event", "task"]
"""By what a call is cancelled."""
QUICK: Mapping[str, Any] = {"retry": RetryPolicy(max_delay=0.02), "attempt_timeout": 10.0, "delivery_timeout": 30.0}
"""A test has not the time that a service has."""
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

    def __init__(self, kind: Kind, url: str, http: Any = None) -> None:
        self.kind = kind
        self._stack = ExitStack()
        self._threads = self._stack.enter_context(ThreadPoolExecutor(8))
        self.portal: BlockingPortal | None = None
        if kind == "async":
            self.portal = self._stack.enter_context(start_blocking_portal())
            client: Any = self.portal.call(partial(AsyncClient, url, http=http))
            self._stack.callback(self.portal.call, client.aclose)
        else:
            client = self._stack.enter_context(Client(url, http=http))
        self.client = client

    def close(self) -> None:
        self._stack.close()

    def run(self, work: Callable[[], Any]) -> Any:
        """Do *work*, which is a call of the client or of what is its."""
        return work() if self.portal is None else self.portal.call(work)

    def producer(self, event_type: str, **options: Any) -> "Handle":
        """Make a producer."""
        given = {**QUICK, **options}
        kind: Any = IdempotentProducer if self.kind == "sync" else AsyncIdempotentProducer
        return Handle(self, self.run(partial(kind, self.client, event_type, **given)))

    def begin(self, work: Callable[[], Any]) -> "Future[Any]":
        """Do *work* meanwhile."""
        if self.portal is None:
            return self._threads.submit(work)
        return self.portal.start_task_soon(work)

    def sending(self, handle: "Handle", means: Means, events: Any, **options: Any) -> "Sending":
        """Send meanwhile, so that it can be cancelled by these *means*."""
        if means == "task":
            return _TaskSending(self, partial(handle.inner.send, events, **options))
        token: Any = {"thread-event": threading.Event, "asyncio-event": asyncio.Event, "anyio-event": anyio.Event}
        made = self.run(token[means])
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
        """Send meanwhile."""
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

    def close(self, timeout: float | None = None) -> CloseReport:
        close = self.inner.close if self._either.kind == "sync" else self.inner.aclose
        report: CloseReport = self._either.run(partial(close, timeout))
        return report


class Sending:
    """A call that is under way, and can be cancelled."""

    def __init__(self, either: Either, work: Callable[[], Any], token: Any) -> None:
        self._either = either
        self._token = token
        self._future = either.begin(work)

    def cancel(self) -> None:
        self._either.run(self._token.set)

    def result(self) -> PublishResult:
        found: PublishResult = self._future.result(30)
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
        assert begun.wait(30)

    def cancel(self) -> None:
        assert self._task is not None
        self._either.run(self._task.cancel)


@contextmanager
def either(kind: Kind, url: str, http: Any = None) -> Iterator[Either]:
    """Have a client of one kind for as long as the block lasts."""
    made = Either(kind, url, http)
    try:
        yield made
    finally:
        made.close()
