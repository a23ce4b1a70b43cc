"""Calls a handler for several streams at once, one call at a time, in a thread of its own."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeAlias

from penstock.core.groups.leases import Held
from penstock.errors import (
    BadOutcome,
    CheckpointMoved,
    DatabaseUnavailable,
    DatabaseUnsuitable,
    PenstockError,
    ProjectionNotFound,
    TransactionFailed,
)
from penstock.processing.checkpoints.checkpoint import Advance
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.database import is_broken, is_nobodys, is_overdue, is_passing, transaction
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Call
from penstock.processing.handlers import AWAY, AWAY_SECONDS, Classify, Together, Transactional, failure_of, is_interrupt
from penstock.processing.outcomes import Failure, Outcome
from penstock.processing.progress import NotToBeKept, Progress
from penstock.processing.runners.inbox import Asking, Inbox, ProcessorEnded
from penstock.processing.runners.sharing import Sharing
from penstock.processing.snapshot import Cpu, Tally

_log: Final = logging.getLogger("penstock.processing")

RETRY_TIMEOUT: Final = 60.0
"""Seconds for which the database is asked again whether it has committed a transaction, if its answer was lost."""
PAUSE_SECONDS: Final = 0.5
FINAL: Final = (CheckpointMoved, TransactionFailed, DatabaseUnsuitable, ProjectionNotFound, ProcessorEnded)
"""Errors that end a processor, and do not count as failures of streams."""
Result: TypeAlias = tuple[Call, Outcome | Failure]


class _Away(Exception):
    """The database is unavailable: a transaction could not begin, or was not committed."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class _Spared(Exception):
    """The database ended a call during the handler, and no stream is known to have caused it."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class _CutOff(Exception):
    """An interrupt, such as the end of the program, broke off a commit."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class Desk(Protocol):
    """Access to the engine for calls of several streams."""

    def hold(self, calls: Sequence[Call], held: Held) -> None:
        """Apply the processor's leases.

        Raises:
            NotToBeKept: some of *calls* belong to tranches that the processor no longer owns.
        """
        ...

    def foresee(self, results: Sequence[Result]) -> Advance:
        """Return the progress to commit together with *results*.

        Raises:
            NotToBeKept: some of the results must not be committed.
        """
        ...

    def give_back(self, calls: Sequence[Call]) -> None:
        """Undo *calls*: their streams become ready again, without a failed attempt."""
        ...

    def away(self, error: Exception) -> None:
        """Record that a transaction could not begin, or was not committed."""
        ...

    def settle(self, results: Sequence[Result], took: float, advance: Advance | None) -> None:
        """Settle *results*; *advance* was committed with them."""
        ...


class GroupCalls:
    """Calls a handler for several streams at once.

    Args:
        handler: The handler to call.
        classify: Names failures.
        desk: Access to the engine.
        clock: Returns monotonic seconds.
        leases: Leases to check and renew in the transaction of each call; None: none.
    """

    def __init__(
        self,
        handler: Together | Transactional,
        classify: Classify | None,
        desk: Desk,
        clock: Callable[[], float],
        leases: DatabaseLeases | None = None,
    ) -> None:
        self._handler = handler
        self._classify = classify
        self._desk = desk
        self._clock = clock
        self._leases = leases

    def make(self, calls: Sequence[Call]) -> None:
        """Make *calls*, and settle their results at the desk.

        Raises:
            CheckpointMoved: another processor has the same name. Nothing of the call is committed.
            TransactionFailed: the transaction may be committed, or not.
            TransactionFailed: the handler has committed, or rolled back.
            ProcessorEnded: the processor ended before the call was committed.
            KeyboardInterrupt: the user pressed Ctrl-C, and this is the main thread.
            BaseException: the exception broke off a commit, which may be made or not.
        """
        began = self._clock()
        for call in calls:
            call.called = began
        try:
            results, advance = self._made(calls)
        except FINAL:
            raise
        except _CutOff as cut:
            raise cut.cause from None
        except _Away as error:  # No stream is to blame.
            _log.warning(
                "a call was not committed, and is made again in %g s, since its database is away: %s",
                AWAY_SECONDS,
                error,
            )
            self._desk.away(error.cause)
            results, advance = [(call, AWAY) for call in calls], None
        except BadOutcome as error:  # Fewer streams would not change it.
            results, advance = [(call, failure_of(error, self._classify)) for call in calls], None
        except BaseException as error:  # Whatever a handler raises is a failure of its streams.
            if is_interrupt(error):
                raise
            if len(calls) > 1:
                for half in (calls[: len(calls) // 2], calls[len(calls) // 2 :]):
                    self.make(half)
                return
            if isinstance(error, NotToBeKept):
                self._desk.give_back(calls)
                return
            results, advance = self._failed(calls[0], error), None
        self._desk.settle(results, self._clock() - began, advance)

    def _failed(self, call: Call, error: BaseException) -> Sequence[Result]:
        if isinstance(error, _Spared):
            return self._put_off([call], error.cause)
        _log.debug("a call for %s has failed", call.stream, exc_info=error)
        return [(call, failure_of(error, self._classify))]

    def _put_off(self, calls: Sequence[Call], cause: Exception) -> Sequence[Result]:
        """Return results that repeat *calls* later, since no stream is known to have caused the error."""
        _log.warning("the database of a handler is away, and is asked again in %g s: %s", AWAY_SECONDS, cause)
        self._desk.away(cause)
        return [(call, AWAY) for call in calls]

    def _made(self, calls: Sequence[Call]) -> tuple[Sequence[Result], Advance | None]:
        handler = self._handler
        if isinstance(handler, Together):
            with _spared():
                return list(zip(calls, handler.results(calls, self._classify), strict=True)), None
        is_committed = False
        try:
            results, advance = self._committed(handler, calls)
            is_committed = True
        finally:
            if handler.ended is not None:
                handler.ended(is_committed)
        return results, advance

    def _committed(self, handler: Transactional, calls: Sequence[Call]) -> tuple[Sequence[Result], Advance]:
        advance: Advance | None = None
        is_open = False
        try:
            with transaction(handler.connect) as connection:
                if self._leases is not None:
                    self._desk.hold(calls, self._leases.keep_in(connection))
                is_open = True
                with _spared(connection):
                    results = list(zip(calls, handler.results(connection, calls, self._classify), strict=True))
                _check_open(handler, connection)
                advance = self._desk.foresee(results)
                handler.checkpoints.commit_in(connection, advance)
                if self._leases is not None:  # Renewal was blocked: the lease must not be over once others can write.
                    self._leases.keep_in(connection)
        except Exception as error:
            is_handlers = (is_open and advance is None) or is_overdue(error)
            if is_handlers or not (is_passing(error) or isinstance(error, DatabaseUnavailable)):
                raise
            if advance is None or not _is_kept(handler, advance):
                raise _Away(error) from error
        except BaseException as error:
            if advance is None:
                raise
            raise _CutOff(error) from error
        return results, advance


@contextmanager
def _spared(connection: Any = None) -> Iterator[None]:
    """Do not count errors of the database during a call as failures of its streams.

    Timeouts of a statement, a lock or the transaction do count as the handler's failures.

    Raises:
        _Spared: the call's *connection* has ended, or the error says that no statement of the call caused it.
    """
    try:
        yield
    except Exception as error:
        if is_nobodys(error) or (is_broken(connection) and not is_overdue(error)):
            raise _Spared(error) from error
        raise
    if is_broken(connection):  # The handler hid the error, or returned it as failures of streams.
        raise _Spared(ConnectionError("the connection has ended while the handler had it"))


def _check_open(handler: Transactional, connection: Any) -> None:
    is_sqlite = isinstance(connection, sqlite3.Connection)
    if not connection.in_transaction if is_sqlite else connection.closed:
        raise TransactionFailed.of("transaction-ended", processor=handler.checkpoints.name)


def _is_kept(handler: Transactional, advance: Advance) -> bool:
    """Return whether a commit was made whose answer was lost.

    Raises:
        TransactionFailed: the database does not answer. Repeating the call might apply its effects twice.
    """
    deadline = time.monotonic() + RETRY_TIMEOUT
    while True:
        try:
            return handler.checkpoints.holds(advance)
        except PenstockError as error:
            _log.warning("whether the last transaction was committed is asked again: %s", error.detail)
            if time.monotonic() > deadline:
                raise TransactionFailed.of("commit-unknown", processor=handler.checkpoints.name) from error
            time.sleep(PAUSE_SECONDS)


class GroupThread:
    """A thread that makes calls of several streams. It accesses the engine through the processor's loop."""

    def __init__(
        self,
        handler: Together | Transactional,
        classify: Classify | None,
        desk: "AtTheDesk",
        inbox: Inbox,
        clock: Callable[[], float],
        *,
        asking: Asking,
        cpu: Cpu,
        leases: DatabaseLeases | None = None,
    ) -> None:
        self._calls: SimpleQueue[Sequence[Call] | None] = SimpleQueue()
        self._desk = desk
        self._asking = asking
        self._inbox = inbox
        self._making = GroupCalls(handler, classify, self, clock, leases)
        run = cpu.counted("handle", self._run)
        self._thread = threading.Thread(target=run, name="penstock-handler", daemon=True)

    def start(self, count: int) -> None:  # noqa: ARG002 - One call goes on at a time.
        """Start the thread."""
        self._thread.start()

    def replace(self, calls: Sequence[Call]) -> None:
        """Do nothing: a stuck call blocks the next one."""

    def call(self, calls: Sequence[Call]) -> None:
        """Queue *calls*, which are made as one call."""
        self._calls.put(calls)

    def withdraw(self) -> list[Call]:
        """Remove and return the calls that have not begun."""
        found: list[Call] = []
        with suppress(Empty):
            while calls := self._calls.get_nowait():
                found += calls
        return found

    def stop(self) -> None:
        """Stop the thread after the active call."""
        self._calls.put(None)

    def hold(self, calls: Sequence[Call], held: Held) -> None:
        """Run `Desk.hold` in the loop."""
        self._asking.ask(lambda: self._desk.hold(calls, held))

    def foresee(self, results: Sequence[Result]) -> Advance:
        """Run `Desk.foresee` in the loop."""
        return self._asking.ask(lambda: self._desk.foresee(results))

    def away(self, error: Exception) -> None:
        """Run `Desk.away` in the loop."""
        self._asking.ask(lambda: self._desk.away(error))

    def settle(self, results: Sequence[Result], took: float, advance: Advance | None) -> None:
        """Run `Desk.settle` in the loop."""
        self._asking.ask(lambda: self._desk.settle(results, took, advance))

    def give_back(self, calls: Sequence[Call]) -> None:
        """Run `Desk.give_back` in the loop."""
        self._asking.ask(lambda: self._desk.give_back(calls))

    def _run(self) -> None:
        while (calls := self._calls.get()) is not None:
            try:
                self._making.make(calls)
            except ProcessorEnded:  # Nothing of it is committed, and the loop has ended.
                return
            except BaseException as error:  # noqa: BLE001 - The loop raises it.
                self._inbox.put(self._raiser(calls, error))

    def _raiser(self, calls: Sequence[Call], error: BaseException) -> Callable[[], None]:
        def raise_it() -> None:
            self._desk.give_back(calls)  # Those that are not settled: they are not made again.
            if not isinstance(error, CheckpointMoved):
                raise error
            self._desk.concede(error)

        return raise_it


class AtTheDesk:
    """The `Desk` of a processor's engine. Only the thread that owns the engine may use it."""

    def __init__(
        self,
        engine: Engine,
        progress: Progress,
        clock: Callable[[], float],
        tally: Tally,
        sharing: Sharing | None = None,
    ) -> None:
        self._sharing = sharing
        self._tally = tally
        self._engine = engine
        self._progress = progress
        self._clock = clock

    def hold(self, calls: Sequence[Call], held: Held) -> None:
        """Apply the processor's leases; see `Desk.hold`."""
        tranches = {tranche for call in calls for tranche in self._engine.tranches_of(call)}
        if self._sharing is not None and not self._sharing.hold(held, tranches):
            raise NotToBeKept

    def foresee(self, results: Sequence[Result]) -> Advance:
        """Return the progress to commit together with *results*."""
        return self._progress.advance_if(results)

    def away(self, error: Exception) -> None:
        """Record that a transaction could not begin, or was not committed."""
        self._tally.commit_failed(error.detail if isinstance(error, PenstockError) else str(error))

    def settle(self, results: Sequence[Result], took: float, advance: Advance | None) -> None:
        """Settle *results*; *advance* was committed with them."""
        if advance is not None:
            self._progress.committed(advance, None)
            self._tally.committed()
        now, error = self._clock(), None
        for call, result in results:
            try:
                self._engine.settle(call, result, now, took)
            except PenstockError as raised:  # The others are settled nevertheless.
                error = error or raised
        if error is not None:
            raise error

    def concede(self, error: CheckpointMoved) -> None:
        """Give up a tranche that another processor has moved, or raise *error*: see `Progress.concede`."""
        self._progress.concede(error)

    def give_back(self, calls: Sequence[Call]) -> None:
        """Undo those of *calls* that are not settled."""
        active = self._engine.busy.active
        for call in calls:
            if active.get(call.stream) is call:
                self._engine.give_back(call)
