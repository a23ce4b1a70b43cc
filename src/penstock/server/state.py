"""Learns of a shutdown in time to end waits.

A server stops by waiting for its open requests and only then tells the application, so waits would hold it up. The
signal itself comes earlier: its handler is wrapped, and called after ours.

What the handlers share: the hub, its worker threads, its metrics.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, Final, TypeVar

from starlette.requests import Request

from penstock.core.registry.definition import is_name
from penstock.errors import EventTypeNotFound
from penstock.hub.hub import Hub
from penstock.server.metrics import Backlog, Metrics, backlog_of
from penstock.wire.query import printable

_actions: list[Callable[[], object]] = []


def before_shutdown(action: Callable[[], object]) -> Callable[[], None]:
    """Have *action* called when the process is told to stop; return what takes that back.

    Without effect where nobody handles signals in the main thread.
    """
    _actions.append(action)
    _wrap_handlers()
    return lambda: _actions.remove(action)


def _wrap_handlers() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler) and not getattr(handler, "wraps_penstock", False):
            signal.signal(number, _wrapping(handler))


def _wrapping(handler: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
    def handle(number: int, frame: FrameType | None) -> Any:
        for action in tuple(_actions):
            # In a thread of its own: a signal may interrupt the very code that holds the lock which draining takes.
            threading.Thread(target=action, name="penstock-drain", daemon=True).start()
        return handler(number, frame)

    handle.wraps_penstock = True  # type: ignore[attr-defined]
    return handle


WORKERS: Final = 8
COUNT_SECONDS_MAX: Final = 2.0
"""A scrape waits no longer for the database; Prometheus gives it up after 10."""
Result = TypeVar("Result")


class State:
    """One hub in one process, started when it is first needed."""

    def __init__(self, open_hub: Callable[[], Hub]) -> None:
        self._open_hub = open_hub
        self._starting = asyncio.Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._hub: Hub | None = None
        self._ending: threading.Thread | None = None
        self._forget: Callable[[], None] = lambda: None
        self.flights: dict[object, asyncio.Future[Any]] = {}
        """What is being read for a stream, by what it needs: others who need the same wait for it."""
        self._counting: asyncio.Future[Backlog | None] | None = None
        self.metrics = Metrics(lambda: self._hub)

    @property
    def hub(self) -> Hub:
        """The hub, which must have been started."""
        assert self._hub is not None, "the hub has not been started"
        return self._hub

    def run(self, function: Callable[[], Result], /) -> Awaitable[Result]:
        """Run *function* in a worker thread."""
        return asyncio.get_running_loop().run_in_executor(self._workers, function)

    async def start(self) -> None:
        """Start the hub; harmless when repeated. It fails as often as the database does, and works once that does.

        Raises:
            SchemaMissing, DatabaseUnsuitable, DatabaseUnavailable: see `Hub.start`.
        """
        if self._hub is not None:
            return
        async with self._starting:
            if self._hub is None:
                self._workers = self._workers or ThreadPoolExecutor(WORKERS, "penstock-worker")
                hub = await asyncio.get_running_loop().run_in_executor(self._workers, self._open_hub)
                self._forget = before_shutdown(hub.drain)
                self._hub = hub

    async def backlog(self) -> Backlog | None:
        """Return what lies in the outbox's tables; None before the hub has started, or where that takes too long.

        However many ask, and however long the database takes, one worker counts.
        """
        if self._hub is None:
            return None
        if self._counting is None or self._counting.done():
            store = self._hub.store
            self._counting = asyncio.ensure_future(self.run(lambda: backlog_of(store)))
        await asyncio.wait({self._counting}, timeout=COUNT_SECONDS_MAX)
        return self._counting.result() if self._counting.done() else None

    def drain(self) -> None:
        """End all waits."""
        if self._hub is not None:
            self._hub.drain()

    @property
    def stopping(self) -> bool:
        """Whether the hub is about to stop, or has stopped."""
        return self._hub is None or self._hub.log.watch.draining

    def give_up(self, timeout: float) -> None:
        """Stop the hub in a thread of its own: see `HubApp.give_up`."""
        if self._hub is not None and self._ending is None:
            stop = partial(self._hub.stop, timeout)
            self._ending = threading.Thread(target=stop, name="penstock-stop", daemon=True)
            self._ending.start()

    async def stop(self) -> None:
        """End all waits, append what is queued and let go of the database."""
        hub, self._hub = self._hub, None
        if hub is not None:
            self._forget()
            hub.drain()
            ending, self._ending = self._ending, None
            await asyncio.to_thread(ending.join if ending else hub.stop)
        if self._workers is not None:
            workers, self._workers = self._workers, None
            await asyncio.to_thread(workers.shutdown)


def event_type_of(request: Request) -> str:
    """Return the name of the event type that the request's path names.

    Raises:
        EventTypeNotFound: no event type can have that name. PostgreSQL could not even be asked for one with NUL.
    """
    name: str = request.path_params["event_type"]
    if not is_name(name):
        raise EventTypeNotFound(event_type=printable(name))
    return name


def subscription_of(request: Request) -> str:
    """Return the id of the subscription that the request's path names, as it can be looked for."""
    return printable(request.path_params["subscription"]).replace("\0", "")


def state_of(request: Request) -> State:
    """Return the state of the app that *request* came to. Its hub runs if the route needs a permission."""
    state: State = request.app.state.penstock
    return state
