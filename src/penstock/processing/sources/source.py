"""Sources: the tranches that a processor reads, each from its position on; and parts of several sources.

Source     the protocol of all sources
Closable   base of sources that are closed by an event
Puller     calls a user's iterator in a thread of its own, so that a waiting thread can be woken
Exclusive  a resource, such as a connection, that one thread at a time uses
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from penstock.client.concurrency import Closing
from penstock.errors import BadParameter, Unavailable
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.parameters import check_members

T = TypeVar("T")
_ALLOWED: Final = "a source, such as FeedSource(url, 'order.placed')"


class ReadRequest(NamedTuple):
    """A request for events of a tranche."""

    position: Position
    """The position to read from."""
    events_max: int
    """The maximum number of events."""


class Source(Protocol):
    """Provides events in tranches. One thread at a time reads it; others may call `behind`."""

    @property
    def is_dense(self) -> bool:
        """True if the indices of a stream have no gaps, from 0 on, over all tranches.

        Then the source must return a stream's events in the order of indices, over all tranches; or the processor needs
        `require_all`, which projections cannot have. Otherwise an event behind a later one counts as a repeat, and is
        never handled: a tranche may be delayed while others continue.

        Indices that are not dense grow, from 0 on or later.
        """
        ...

    @property
    def is_by_stream(self) -> bool:
        """True if indices are those of the stream, and not of the tranche, so that two streams may have the same.

        This holds for dense indices, and for a filtered part of events with dense indices.
        """
        ...

    @property
    def is_replayable(self) -> bool:
        """True if events can be read again, so that streams can be parked."""
        ...

    def tranches(self) -> Collection[str]:
        """Return the present tranches; more may be added."""
        ...

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return the first position in a tranche for a processor that has none.

        If it has positions in others, those in *kept*, this tranche is new: it is read from its start.
        """
        ...

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the next events, at most one batch of each tranche, or its parts; wait *timeout* if there are none.

        A batch without events says that there are none up to its end.
        """
        ...

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a tranche again from an earlier position.

        Raises:
            EventsLost: the events cannot be read again.
        """
        ...

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now; None: unknown.

        For a tranche without a position all its events count. A processor calls it every few seconds, and so detects an
        unavailable source.

        Raises:
            PenstockError: the source is unavailable, which is not waited for.
        """
        ...

    def close(self) -> None:
        """End, and wake the reading thread."""
        ...


def check_source(value: Any) -> None:
    """Raise BadParameter if *value* lacks members of a source, or is closed."""
    check_members("source", value, Source, _ALLOWED)
    if getattr(value, "is_closed", False):
        allowed = "one that is not closed: a processor closes its source when it ends. Make another, as the first was"
        raise BadParameter(parameter="source", value=f"a {type(value).__name__}", allowed=allowed)


class Closable(Closing):
    """Base of sources that are closed by setting `_closed`."""

    _closed: threading.Event

    @property
    def is_closed(self) -> bool:
        """True if it is closed: no processor can start with it."""
        return self._closed.is_set()


class Puller(Generic[T]):
    """Calls *pull* in one thread on request, until `close`.

    Args:
        pull: Returns the next value.
        notify: Called by that thread when an answer is ready.
    """

    def __init__(self, pull: Callable[[], T], notify: Callable[[], object] = lambda: None) -> None:
        self._pull = pull
        self._notify = notify
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._answers: SimpleQueue[Callable[[], T | None]] = SimpleQueue()
        self._is_waiting = False
        self._thread: threading.Thread | None = None
        self._is_over = False

    def ask(self) -> bool:
        """Request a call of *pull*, unless one is running; return whether an answer is ready."""
        if not (self._is_over or self._is_waiting):
            self._is_waiting = True
            self._ask()
        return not self._answers.empty()

    def take(self, timeout: float) -> T | None:
        """Return the next value; None: there was none within *timeout* seconds, or it is closed.

        *timeout* 0 waits without a limit.

        Raises:
            BaseException: an exception of *pull*.
        """
        if self._is_over:
            return None
        self.ask()
        try:
            answer = self._answers.get(timeout=timeout or None)
        except Empty:
            return None
        self._is_waiting = False
        return answer()

    def close(self) -> None:
        """End, and wake the waiting thread; a running call is not waited for."""
        self._is_over = True
        self._asked.put(False)
        self._answers.put(lambda: None)

    def _ask(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-puller", daemon=True)
            self._thread.start()
        self._asked.put(True)

    def _run(self) -> None:
        while self._asked.get():
            self._answers.put(self._call())
            self._notify()

    def _call(self) -> Callable[[], T | None]:
        try:
            found = self._pull()
        except BaseException as error:  # noqa: BLE001 - The waiting thread raises it, even SystemExit.
            failed = error  # Python forgets the other name.

            def raises() -> T | None:
                raise failed

            return raises
        return lambda: found


class Exclusive(Generic[T]):
    """A resource that one thread at a time uses. If it is in use when closed, its user closes it afterwards.

    Args:
        thing: The resource.
        close: Closes the resource; called once.
    """

    def __init__(self, thing: T, close: Callable[[T], object]) -> None:
        self._thing = thing
        self._close = close
        self._turn = threading.Lock()
        self._is_over = False
        self._is_closed = False

    @contextmanager
    def use(self) -> Iterator[T]:
        """Wait until the resource is free, and yield it.

        Raises:
            Unavailable: it is closed.
        """
        try:
            with self._turn:
                if self._is_over:
                    raise Unavailable(reason="the source is closed")
                yield self._thing
        finally:
            if self._is_over:
                self._end()

    def close(self) -> None:
        """Refuse further use, and close the resource; if it is in use, its user closes it."""
        self._is_over = True
        self._end()

    def _end(self) -> None:
        if self._turn.acquire(blocking=False):
            try:
                if not self._is_closed:
                    self._is_closed = True
                    self._close(self._thing)
            finally:
                self._turn.release()
