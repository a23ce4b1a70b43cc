"""The state that handlers share: the hub, its worker threads, its metrics.

A server that stops first waits for its open requests and only then tells the application, so readers that wait would
hold it up. The signal comes earlier: this module wraps the server's handlers of SIGTERM and SIGINT, and ends all waits
before they run.
"""

import asyncio
import signal
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect, Request

from penstock.errors import DatabaseUnavailable, EventTypeNotFound, OutcomeUnknown, PenstockError, SubscriptionNotFound
from penstock.hub.activity import Activity
from penstock.hub.admin.permissions import AccessPolicy
from penstock.hub.hub import Hub
from penstock.hub.log.log import SETTLE_TIMEOUT, make_unsettled_error
from penstock.hub.log.publish import AppendResult
from penstock.hub.log.read import UnsettledError
from penstock.server.authentication.authentication import Authentication
from penstock.server.coalescing import CachedFigure, CoalescedRead
from penstock.server.http.streaming import Beats, Disconnect, await_unless_disconnected
from penstock.server.limits import CURRENT_USAGE, Limiter, RequestUsage
from penstock.server.metrics import DatabaseFigures, Metrics
from penstock.storage.registry import EventTypeMeasurement
from penstock.wire.query import make_printable

_actions: list[Callable[[], object]] = []


def call_before_shutdown(action: Callable[[], object]) -> Callable[[], None]:
    """Call *action* when the process receives a signal to stop; return a function that cancels this.

    It has no effect if no handler of signals is installed in the main thread.
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
            signal.signal(number, _wrap_handler(handler))


def _wrap_handler(handler: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
    def handle(number: int, frame: FrameType | None) -> Any:
        for action in tuple(_actions):
            # In a thread of its own: a signal may interrupt code that holds the lock which draining takes.
            threading.Thread(target=action, name="penstock-drain", daemon=True).start()
        return handler(number, frame)

    handle.wraps_penstock = True  # type: ignore[attr-defined]
    return handle


class EventTypeFigures(NamedTuple):
    """An event type with its measurement, in the list of all event types."""

    name: str
    owning_application: str | None
    category: str
    partition_count: int
    measured: EventTypeMeasurement


class EventTypeStatistics(NamedTuple):
    """All event types with their measurements, sorted by name."""

    at: int
    """The time, in microseconds since 1970, UTC."""
    event_types: Sequence[EventTypeFigures]


CACHE_TTL_SECONDS: Final = 3_600.0
"""How long HTTP caches may keep a page by default, in seconds: see `penstock.server.log.caching`."""
OVERVIEW_TIMEOUT: Final = 1.0
"""An answer about many event types waits no longer for the outbox: one with a backlog must not hide the others."""
COUNT_TIMEOUT: Final = 2.0
"""A scrape waits no longer for the database; Prometheus gives it up after 10."""
STATISTICS_TIMEOUT: Final = 10.0
"""A request for statistics of all event types waits no longer for the database."""
EVENT_TYPES_MAX: Final = 100_000
"""Maximum number of event types in statistics."""
RIGHTS_INTERVAL: Final = 0.01
"""Seconds between two reads of rights, however many requests are to be refused: they share a read."""
MEASURE_INTERVAL: Final = 5.0
"""The database is measured no more often: no scraper asks more often, but several may ask one after the other."""
MEASUREMENT_KEPT_SECONDS: Final = 300.0
"""A scrape shows the last measurement for so long while the database is slow; its age says how old it is."""
Result = TypeVar("Result")
WORKERS: Final = 8
"""How many worker threads work at a time."""
STATE: Final = "penstock.state"
"""The scope's key for the state of the app that serves a request."""


class Workers(Executor):
    """A pool of threads, of which `WORKERS` work at a time.

    A thread that waits within `waiting` gives its turn to another, so that slow storage keeps nobody else waiting.
    """

    def __init__(self, waiting_max: int = 0) -> None:
        """Let up to *waiting_max* threads wait besides those that work."""
        self._threads = ThreadPoolExecutor(WORKERS + waiting_max, "penstock-worker")
        self._turns = threading.Semaphore(WORKERS) if waiting_max else None
        self._own = threading.local()

    def submit(self, function: Callable[..., Result], /, *args: Any, **named: Any) -> "Future[Result]":
        """See `Executor.submit`."""
        if self._turns is None:
            return self._threads.submit(function, *args, **named)
        return self._threads.submit(self._run, function, *args, **named)

    def _run(self, function: Callable[..., Result], *args: Any, **named: Any) -> Result:
        assert self._turns is not None
        self._own.works = True
        with self._turns:
            return function(*args, **named)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Give the turn of this thread to another while the block runs, if it is one of the pool."""
        if self._turns is None or not getattr(self._own, "works", False):
            yield
            return
        self._turns.release()
        try:
            yield
        finally:
            self._turns.acquire()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `Executor.shutdown`."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


class Results:
    """Brings results of other threads to one event loop, as many as there are at a time.

    The committer ends a group of requests at once. To wake the event loop for each of them, as `asyncio.wrap_future`
    does, would take longer than all else that the loop does for them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_waking = False

    def wait(self, future: "Future[Result]") -> "asyncio.Future[Result]":
        """Return a future of the loop with the result of *future*; cancelling it cancels *future*."""
        found: asyncio.Future[Result] = self.loop.create_future()

        def deliver(_: "Future[Result]") -> None:
            self._done.append((found, future))
            if not self._is_waking:
                self._is_waking = True
                with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                    self.loop.call_soon_threadsafe(self._deliver)

        future.add_done_callback(deliver)
        found.add_done_callback(lambda each: future.cancel() if each.cancelled() else None)
        return found

    def _deliver(self) -> None:
        self._is_waking = False  # First, so that a result that comes while these are delivered wakes the loop again.
        while self._done:
            found, future = self._done.popleft()
            if found.done():
                continue
            if future.cancelled():
                found.cancel()
            elif (error := future.exception()) is not None:
                found.set_exception(error)
            else:
                found.set_result(future.result())


class State:
    """One hub in one process, started when it is first needed."""

    def __init__(
        self,
        open_hub: Callable[[], Hub],
        authentication: Authentication | None = None,
        policy: AccessPolicy = AccessPolicy(),  # noqa: B008 - it is immutable
        limiter: Limiter | None = None,
        cache_ttl_seconds: float = CACHE_TTL_SECONDS,
    ) -> None:
        """Take a function that opens the hub; with *authentication* callers are known, and *policy* holds.

        *limiter* holds callers to their limits; None: to those of a hub on loopback. *cache_ttl_seconds*: see `HubApp`.
        """
        self._open_hub = open_hub
        self.authentication = authentication
        """Finds out who sends a request; None: nobody is asked."""
        self._policy = policy
        self.limiter = limiter or Limiter()
        """Holds callers to their limits."""
        self.cache_ttl_seconds = cache_ttl_seconds
        """How long caches may keep pages, in seconds; below 1: not at all."""
        self._starting = asyncio.Lock()
        self._workers: Workers | None = None
        self._hub: Hub | None = None
        self.activity: Activity | None = None
        """Records what callers do; None before the hub has started."""
        self._ending: threading.Thread | None = None
        self._forget: Callable[[], None] = lambda: None
        self.flights: dict[object, asyncio.Future[Any]] = {}
        """Reads under way for streams, by the events that they need: other streams that need the same wait for them."""
        self.event_sources = 0
        """The number of streams of server-sent events."""
        self.beats = Beats()
        """The heartbeats of these streams."""
        self._outbox = CachedFigure(
            lambda: self._ask(lambda hub: hub.admin.database.count_outbox()), timeout=COUNT_TIMEOUT
        )
        self.rights = CoalescedRead(lambda: self.run(self.hub.admin.permissions.refresh), RIGHTS_INTERVAL)
        """Reads rights again, for requests that would be refused by those in memory."""
        self._measured = CachedFigure(
            lambda: self._ask(lambda hub: hub.admin.database.measure()),
            interval=MEASURE_INTERVAL,
            timeout=COUNT_TIMEOUT,
            kept_seconds=MEASUREMENT_KEPT_SECONDS,
        )
        self._event_types = CachedFigure(
            lambda: self._ask(_measure_event_types),
            interval=MEASURE_INTERVAL,
            timeout=STATISTICS_TIMEOUT,
            kept_seconds=MEASUREMENT_KEPT_SECONDS,
        )
        self.metrics = Metrics(lambda: self._hub)
        if authentication is not None:
            self.metrics.keys_age = authentication.measure_keys_age
        self._results: Results | None = None

    @property
    def has_started(self) -> bool:
        """True once the hub has started."""
        return self._hub is not None

    @property
    def hub(self) -> Hub:
        """The hub, which must have been started."""
        assert self._hub is not None, "the hub has not been started"
        return self._hub

    def run(self, function: Callable[[], Result], /) -> Awaitable[Result]:
        """Run *function* in a worker thread, and count the time that it uses for the request that is being answered."""
        loop, usage = asyncio.get_running_loop(), CURRENT_USAGE.get()
        if usage is not None and usage.is_measured:
            return loop.run_in_executor(self._workers, partial(_measure, function, loop, usage))
        return loop.run_in_executor(self._workers, function)

    def wait(self, future: "Future[Result]") -> "asyncio.Future[Result]":
        """Return a future of the running event loop with the result of *future*: see `Results`."""
        loop = asyncio.get_running_loop()
        if self._results is None or self._results.loop is not loop:  # An application may be served again, by another.
            self._results = Results(loop)
        found = self._results.wait(future)
        usage = CURRENT_USAGE.get()
        if usage is not None and usage.is_large:
            found.add_done_callback(partial(_note_commit, usage))
        return found

    async def read_settled(self, read: Callable[[bool], Result], disconnect: Disconnect | None = None) -> Result:
        """Run *read* in a worker thread; if it raises UnsettledError, run it again once these rows are in the log.

        *read* is told whether the outbox is settled: False at first, then True. No thread waits for the rows.

        Raises:
            HubUnavailable, DatabaseUnavailable: the rows could not be moved now.
            ClientDisconnect: *disconnect* was done before that.
        """
        try:
            return await self.run(lambda: read(False))
        except UnsettledError as error:
            waiting = error.names
        for name in waiting:
            if disconnect is None:
                await self._settle(name)
            elif not await await_unless_disconnected(disconnect, self._settle(name)):
                raise ClientDisconnect
        return await self.run(lambda: read(True))

    async def run_settled(self, names: Sequence[str], function: Callable[[], Result]) -> Result:
        """Run *function* in a worker thread once the outbox rows of *names* are in the log: see `read_settled`."""

        def read(is_settled: bool) -> Result:
            # The outbox comes first: rows that another hub moves before the log is read are in the log then.
            if not is_settled and names and (waiting := self.hub.log.find_waiting(names)):
                raise UnsettledError(waiting)
            return function()

        return await self.read_settled(read)

    async def _settle(self, name: str) -> None:
        try:
            await asyncio.wait_for(self.wait(self.hub.log.move(name)), SETTLE_TIMEOUT)
        except (TimeoutError, OutcomeUnknown) as error:
            raise make_unsettled_error(name, error) from error

    async def settle_some(self, names: Sequence[str]) -> None:
        """Move the outbox rows of *names* into the log, as far as that can be done within `OVERVIEW_TIMEOUT`."""
        waiting = await self.run(lambda: self.hub.log.find_waiting(names)) if names else ()
        moves = [self.wait(self.hub.log.move(name)) for name in waiting]
        if moves:
            done, late = await asyncio.wait(moves, timeout=OVERVIEW_TIMEOUT)
            for each in late:
                each.cancel()
            await asyncio.gather(*done, *late, return_exceptions=True)

    async def start(self) -> None:
        """Start the hub; harmless when repeated. After a failure the next call tries again.

        Raises:
            DatabaseUnsuitable, DatabaseUnavailable: see `Hub.start`.
        """
        if self._hub is not None:
            return
        async with self._starting:
            if self._hub is None:
                hub = await asyncio.to_thread(self._open)
                self._workers = self._workers or Workers(hub.cold.waits_max)
                hub.cold.surround_waits(self._workers.waiting)
                self._forget = call_before_shutdown(hub.drain)
                self._hub, self.activity = hub, hub.activity

    def _open(self) -> Hub:
        hub = self._open_hub()
        with suppress(DatabaseUnavailable):  # A hub that was not started reads its settings when they are asked for.
            hub.activity.apply_features(hub.admin.settings.current().features)
        if self.authentication is not None:
            hub.admin.permissions.enforce(self._policy)
            self.authentication.start(hub)
        return hub

    async def ask_database(self) -> DatabaseFigures:
        """Return the database's figures for metrics, without those that take longer than `COUNT_TIMEOUT`.

        At most two worker threads ask it, however many requests there are.
        """
        return DatabaseFigures(*await asyncio.gather(self._outbox.get(), self._measured.get()))

    async def ask_event_types(self) -> EventTypeStatistics | None:
        """Return statistics of all event types, of the last seconds; None if they cannot be computed now."""
        return await self._event_types.get()

    async def _ask(self, function: "Callable[[Hub], Result | None]") -> "Result | None":
        """Run *function* in a worker thread; return None before the hub has started, or if the database is away."""
        hub = self._hub
        if hub is None:
            return None
        with suppress(PenstockError):
            return await self.run(partial(function, hub))
        return None

    def drain(self) -> None:
        """End all waits."""
        if self._hub is not None:
            self._hub.drain()

    @property
    def stopping(self) -> bool:
        """True once the hub begins to stop."""
        return self._hub is None or self._hub.log.watch.draining

    def give_up(self, timeout: float) -> None:
        """Stop the hub in a thread of its own: see `HubApp.give_up`."""
        if self._hub is not None and self._ending is None:
            stop = partial(self._hub.stop, timeout)
            self._ending = threading.Thread(target=stop, name="penstock-stop", daemon=True)
            self._ending.start()

    async def stop(self) -> None:
        """End all waits, append all queued requests, and close the database."""
        hub, self._hub = self._hub, None
        if hub is not None:
            self._forget()
            hub.drain()
            ending, self._ending = self._ending, None
            await asyncio.to_thread(ending.join if ending else hub.stop)
            if self.authentication is not None:
                self.authentication.close()
        if self._workers is not None:
            workers, self._workers = self._workers, None
            await asyncio.to_thread(workers.shutdown)


def _measure_event_types(hub: Hub) -> EventTypeStatistics:
    """Return statistics of all event types.

    Raises:
        Unavailable: the database cannot be asked, or took too long.
    """
    at = hub.admin.tokens.clock()
    measured = {each.name: each for each in hub.admin.database.measure_event_types(EVENT_TYPES_MAX, STATISTICS_TIMEOUT)}
    found = [
        EventTypeFigures(
            feed.name,
            feed.event_type.definition["owning_application"],
            feed.event_type.category,
            feed.partition_count,
            measured[feed.name],
        )
        for feed in hub.registry.list()
        if feed.name in measured
    ]
    return EventTypeStatistics(at, found)


def _measure(function: Callable[[], Result], loop: asyncio.AbstractEventLoop, usage: RequestUsage) -> Result:
    """Return the result of *function*, and note in *usage* what processor time the calling thread has used for it."""
    started = time.thread_time()
    try:
        return function()
    finally:
        with suppress(RuntimeError):  # The loop has been closed.
            loop.call_soon_threadsafe(usage.note_work, time.thread_time() - started)


def _note_commit(usage: RequestUsage, done: "asyncio.Future[Any]") -> None:
    """Note in *usage* for how long the committer was busy with the events of the request."""
    if done.cancelled() or done.exception() is not None:
        return
    result = done.result()
    if isinstance(result, AppendResult) and result.seconds:
        usage.note_work(result.seconds)


def event_type_of(request: Request) -> str:
    """Return the name of the event type that the request's path names.

    Raises:
        EventTypeNotFound: no event type can have that name. PostgreSQL would even refuse one with a NUL.
    """
    name: str = request.path_params["event_type"]
    if not name.isprintable():
        raise EventTypeNotFound(event_type=make_printable(name))
    return name


def subscription_of(request: Request) -> str:
    """Return the id of the subscription that the request's path names.

    Raises:
        SubscriptionNotFound: no subscription can have that id. PostgreSQL would even refuse one with a NUL.
    """
    given: str = request.path_params["subscription"]
    if not given.isprintable():
        raise SubscriptionNotFound(subscription=make_printable(given))
    return given


def state_of(request: Request) -> State:
    """Return the state of the app that serves *request*. Its hub has started if the route needs a permission."""
    state: State = request.scope[STATE]
    return state
