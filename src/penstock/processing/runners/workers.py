"""The threads that call handlers: for one stream at a time, in tasks of an event loop, and for many streams at once.

WorkerThreads  threads that call a handler, each for one stream
WorkerTasks    tasks of an event loop that call a coroutine function, each for one stream
GroupWorker    a thread that calls a handler of many streams, one call at a time
GroupCaller    makes such a call in the present thread, with the transaction of a `Transactional`
"""

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from penstock.core.groups.leases import MemberTranches
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
from penstock.processing.database import is_blameless, is_broken, is_overdue, is_passing, transaction
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Call
from penstock.processing.handlers import Classify, StreamCaller, is_interrupt, to_failure
from penstock.processing.outcomes import Failure, Outcome, to_timeout
from penstock.processing.progress import Progress, ResultsRejected
from penstock.processing.runners.background import CallResult, Mailbox, ProcessorEnded, RequestQueue
from penstock.processing.runners.leaseholder import Leaseholder
from penstock.processing.snapshot import Cpu, Tally
from penstock.processing.together import AWAY, AWAY_SECONDS, Together, Transactional


class WorkerThreads:
    """Threads that call one handler."""

    def __init__(self, handling: StreamCaller, mailbox: Mailbox, clock: Callable[[], float], cpu: Cpu) -> None:
        self._handling = handling
        self._mailbox = mailbox
        self._clock = clock
        self._cpu = cpu
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._count = 0
        self._active: dict[int, Call] = {}
        """The active calls, by their ids. Only the thread that removes a call may go on in its place: the call's own
        thread, or a replacement."""

    def start(self, count: int) -> None:
        """Start *count* threads."""
        self._add(count)

    def replace(self, calls: Sequence[Call]) -> None:
        """Start other threads in place of those that are stuck in *calls*; these end with their calls."""
        self._add(sum(self._active.pop(id(call), None) is not None for call in calls))

    def _add(self, count: int) -> None:
        for _ in range(count):
            self._count += 1
            run, name = self._cpu.wrap("handle", self._run), f"penstock-handler-{self._count}"
            threading.Thread(target=run, name=name, daemon=True).start()

    def call(self, calls: Sequence[Call]) -> None:
        """Queue *calls* for the next free threads; their results are put into the mailbox."""
        for call in calls:
            call.called = inf
            self._calls.put(call)

    def withdraw(self) -> list[Call]:
        """Remove and return the calls that have not begun."""
        found = []
        with suppress(Empty):
            while call := self._calls.get_nowait():
                found.append(call)
        return found

    def stop(self) -> None:
        """Stop the threads, each after its call."""
        for _ in range(self._count):
            self._calls.put(None)

    def _run(self) -> None:
        handling, clock, put, get = self._handling, self._clock, self._mailbox.put, self._calls.get
        active = self._active
        while (call := get()) is not None:
            active[id(call)] = call
            began = call.called = clock()
            result = handling(call)
            put(CallResult(call, result, clock() - began))
            if active.pop(id(call), None) is None:
                return


CANCEL_TIMEOUT: Final = 5.0
"""Seconds that cancelled calls have to end."""


class WorkerTasks:
    """Tasks that call one handler. A call that lasts longer than *timeout* seconds is cancelled.

    The tasks run in *loop*, which runs in a thread of the user's; by default in a loop and thread of their own.
    """

    def __init__(
        self,
        handling: StreamCaller,
        mailbox: Mailbox,
        clock: Callable[[], float],
        cpu: Cpu,
        *,
        timeout: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._handling = handling
        self._mailbox = mailbox
        self._clock = clock
        self._timeout = timeout
        self._loop = asyncio.new_event_loop() if loop is None else loop
        self._thread: threading.Thread | None = None
        if loop is None:
            run = cpu.wrap("handle", self._run)
            self._thread = threading.Thread(target=run, name="penstock-handlers", daemon=True)
        self._tasks: dict[asyncio.Task[None], Call] = {}
        self._stuck: set[asyncio.Task[None]] = set()
        self._calls: deque[Call] = deque()
        self._count_max = 0
        self._is_ending = False
        self._is_over = threading.Event()

    def start(self, count: int) -> None:
        """Begin, with up to *count* calls at once."""
        self._count_max = count
        if self._thread is not None:
            self._thread.start()

    def replace(self, calls: Sequence[Call]) -> None:
        """Allow other calls in place of *calls*, which were cancelled but have not ended, until they end."""
        self._loop.call_soon_threadsafe(self._give_up, calls)

    def call(self, calls: Sequence[Call]) -> None:
        """Queue *calls*, which begin in order as others end; their results are put into the mailbox."""
        for call in calls:
            call.called = inf
        self._calls.extend(calls)
        self._loop.call_soon_threadsafe(self._begin)

    def withdraw(self) -> list[Call]:
        """Remove and return the calls that have not begun."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._calls.popleft())
        return found

    def stop(self) -> None:
        """Cancel the active calls, wait up to `CANCEL_TIMEOUT` seconds for them, and end.

        Tasks that handlers have started are cancelled after them.
        """
        if self._thread is None:
            with suppress(RuntimeError):  # The loop is closed, so no call is active.
                self._loop.call_soon_threadsafe(self._end)
                self._is_over.wait(CANCEL_TIMEOUT)
            return
        if self._thread.ident is None:
            self._loop.close()
            return
        deadline = time.monotonic() + CANCEL_TIMEOUT
        self._loop.call_soon_threadsafe(self._end)
        self._is_over.wait(CANCEL_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(max(0.1, deadline - time.monotonic()))  # A handler may block it.

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self._cancel_other_tasks()
        finally:
            self._loop.close()

    def _cancel_other_tasks(self) -> None:
        """Cancel the tasks that handlers have started beside their calls: a batcher would never end by itself."""
        left = asyncio.all_tasks(self._loop) - self._tasks.keys()
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=CANCEL_TIMEOUT))

    def _begin(self) -> None:
        with suppress(IndexError):  # They may be withdrawn meanwhile.
            while self._calls and len(self._tasks) - len(self._stuck) < self._count_max:
                call = self._calls.popleft()
                task = self._loop.create_task(self._await_handler(call))
                self._tasks[task] = call
                task.add_done_callback(self._end_task)

    def _give_up(self, calls: Sequence[Call]) -> None:
        given_up = {id(call) for call in calls}
        self._stuck |= {task for task, call in self._tasks.items() if id(call) in given_up}
        self._begin()

    def _end_task(self, task: "asyncio.Task[None]") -> None:
        call = self._tasks.pop(task)
        self._stuck.discard(task)
        if task.cancelled() and not self._is_ending:  # Cancelled by a handler, maybe before it began.
            now = self._clock()
            call.called = min(call.called, now)
            self._mailbox.put(CallResult(call, self._handling.fail(call, asyncio.CancelledError()), now - call.called))
        self._begin()
        self._check_end()

    async def _await_handler(self, call: Call) -> None:
        began = call.called = self._clock()
        try:
            async with asyncio.timeout(self._timeout):
                result: Outcome | Failure = await self._handling.call_async(call)
        except TimeoutError:
            assert self._timeout is not None, "that is what is over"
            result = to_timeout(self._timeout)
        except asyncio.CancelledError:  # This call was cancelled: see `_end_task`.
            raise
        except BaseException as error:  # noqa: BLE001 - This thread gets no interrupts: the handler raised it.
            result = self._handling.fail(call, error)
        self._mailbox.put(CallResult(call, result, self._clock() - began))

    def _end(self) -> None:
        self._is_ending = True
        self._calls.clear()
        for task in self._tasks:
            task.cancel()
        self._check_end()

    def _check_end(self) -> None:
        if self._is_ending and not self._tasks:
            self._is_over.set()


_log: Final = logging.getLogger("penstock.processing")

RETRY_TIMEOUT: Final = 60.0
"""Seconds for which the database is asked again whether it has committed a transaction, if its answer was lost."""
PAUSE_SECONDS: Final = 0.5
FINAL: Final = (CheckpointMoved, TransactionFailed, DatabaseUnsuitable, ProjectionNotFound, ProcessorEnded)
"""Errors that end a processor, and do not count as failures of streams."""
CallOutcome: TypeAlias = tuple[Call, Outcome | Failure]


RunInLoop: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Runs a function in the loop that owns the engine, and returns its result."""


class _CallUnmade(Exception):
    """Base of errors that no stream of a call has caused; the call is made again, or the processor ends."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class _NotCommitted(_CallUnmade):
    """The database is unavailable: a transaction could not begin, or was not committed."""


class _ConnectionLost(_CallUnmade):
    """The database ended a call during the handler, and no stream is known to have caused it."""


class _CommitInterrupted(_CallUnmade):
    """An interrupt, such as the end of the program, broke off a commit."""


class EngineAccess:
    """Access to the engine for calls of several streams. Only the thread that owns the engine may use it."""

    def __init__(
        self,
        engine: Engine,
        progress: Progress,
        clock: Callable[[], float],
        tally: Tally,
        leaseholder: Leaseholder | None = None,
    ) -> None:
        self._leaseholder = leaseholder
        self._tally = tally
        self._engine = engine
        self._progress = progress
        self._clock = clock

    def apply_leases(self, calls: Sequence[Call], held: MemberTranches) -> None:
        """Apply the processor's leases.

        Raises:
            ResultsRejected: some of *calls* belong to tranches that the processor no longer owns.
        """
        tranches = {tranche for call in calls for tranche in self._engine.find_tranches(call)}
        if self._leaseholder is not None and not self._leaseholder.apply(held, tranches):
            raise ResultsRejected

    def plan_advance(self, results: Sequence[CallOutcome]) -> Advance:
        """Return the progress to commit together with *results*.

        Raises:
            ResultsRejected: some of the results must not be committed.
        """
        return self._progress.plan_advance(results)

    def note_failed_commit(self, error: BaseException) -> None:
        """Record that a transaction could not begin, or was not committed."""
        self._tally.fail_commit(error.detail if isinstance(error, PenstockError) else str(error))

    def settle(self, results: Sequence[CallOutcome], took: float, advance: Advance | None) -> None:
        """Settle *results*; *advance* was committed with them."""
        if advance is not None:
            self._progress.confirm(advance, None)
            self._tally.end_commit()
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
        """Undo those of *calls* that are not settled: their streams become ready again, without a failed attempt."""
        active = self._engine.busy.active
        for call in calls:
            if active.get(call.stream) is call:
                self._engine.give_back(call)


class GroupCaller:
    """Calls a handler for several streams at once.

    Args:
        handler: The handler to call.
        classify: Names failures.
        access: Access to the engine.
        run_in_loop: Runs a function in the loop that owns the engine.
        clock: Returns monotonic seconds.
        leases: Leases to check and renew in the transaction of each call; None: none.
    """

    def __init__(
        self,
        handler: Together | Transactional,
        classify: Classify | None,
        access: EngineAccess,
        run_in_loop: RunInLoop,
        *,
        clock: Callable[[], float],
        leases: DatabaseLeases | None = None,
    ) -> None:
        self._handler = handler
        self._classify = classify
        self._access = access
        self._run_in_loop = run_in_loop
        self._clock = clock
        self._leases = leases

    def make(self, calls: Sequence[Call]) -> None:
        """Make *calls*, and settle their results.

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
            results, advance = self._call_handler(calls)
        except FINAL:
            raise
        except _CommitInterrupted as interrupted:
            raise interrupted.cause from None
        except _NotCommitted as error:  # No stream is to blame.
            _log.warning(
                "a call was not committed, and is made again in %g s, since its database is away: %s",
                AWAY_SECONDS,
                error,
            )
            self._note_failed_commit(error.cause)
            results, advance = [(call, AWAY) for call in calls], None
        except BadOutcome as error:  # Fewer streams would not change it.
            results, advance = [(call, to_failure(error, self._classify)) for call in calls], None
        except BaseException as error:  # Whatever a handler raises is a failure of its streams.
            if is_interrupt(error):
                raise
            if len(calls) > 1:
                for half in (calls[: len(calls) // 2], calls[len(calls) // 2 :]):
                    self.make(half)
                return
            if isinstance(error, ResultsRejected):
                self._run_in_loop(lambda: self._access.give_back(calls))
                return
            results, advance = self._to_results(calls[0], error), None
        took = self._clock() - began
        self._run_in_loop(lambda: self._access.settle(results, took, advance))

    def _note_failed_commit(self, error: BaseException) -> None:
        self._run_in_loop(lambda: self._access.note_failed_commit(error))

    def _to_results(self, call: Call, error: BaseException) -> Sequence[CallOutcome]:
        if isinstance(error, _ConnectionLost):
            return self._put_off([call], error.cause)
        _log.debug("a call for %s has failed", call.stream, exc_info=error)
        return [(call, to_failure(error, self._classify))]

    def _put_off(self, calls: Sequence[Call], cause: BaseException) -> Sequence[CallOutcome]:
        """Return results that repeat *calls* later, since no stream is known to have caused the error."""
        _log.warning("the database of a handler is away, and is asked again in %g s: %s", AWAY_SECONDS, cause)
        self._note_failed_commit(cause)
        return [(call, AWAY) for call in calls]

    def _call_handler(self, calls: Sequence[Call]) -> tuple[Sequence[CallOutcome], Advance | None]:
        handler = self._handler
        if isinstance(handler, Together):
            with _blame_no_stream():
                return list(zip(calls, handler.results(calls, self._classify), strict=True)), None
        is_committed = False
        try:
            results, advance = self._call_in_transaction(handler, calls)
            is_committed = True
        finally:
            if handler.ended is not None:
                handler.ended(is_committed)
        return results, advance

    def _call_in_transaction(
        self, handler: Transactional, calls: Sequence[Call]
    ) -> tuple[Sequence[CallOutcome], Advance]:
        advance: Advance | None = None
        is_open = False
        try:
            with transaction(handler.connect) as connection:
                if self._leases is not None:
                    held = self._leases.keep_in(connection)
                    self._run_in_loop(lambda: self._access.apply_leases(calls, held))
                is_open = True
                with _blame_no_stream(connection):
                    results = list(zip(calls, handler.results(connection, calls, self._classify), strict=True))
                _check_open(handler, connection)
                advance = self._run_in_loop(lambda: self._access.plan_advance(results))
                handler.checkpoints.commit_in(connection, advance)
                if self._leases is not None:  # Renewal was blocked: the lease must not be over once others can write.
                    self._leases.keep_in(connection)
        except Exception as error:
            is_handlers = (is_open and advance is None) or is_overdue(error)
            if is_handlers or not (is_passing(error) or isinstance(error, DatabaseUnavailable)):
                raise
            if advance is None or not _is_committed(handler, advance):
                raise _NotCommitted(error) from error
        except BaseException as error:
            if advance is None:
                raise
            raise _CommitInterrupted(error) from error
        return results, advance


@contextmanager
def _blame_no_stream(connection: Any = None) -> Iterator[None]:
    """Do not count errors of the database during a call as failures of its streams.

    Timeouts of a statement, a lock or the transaction do count as the handler's failures.

    Raises:
        _ConnectionLost: the call's *connection* has ended, or the error says that no statement of the call caused it.
    """
    try:
        yield
    except Exception as error:
        if is_blameless(error) or (is_broken(connection) and not is_overdue(error)):
            raise _ConnectionLost(error) from error
        raise
    if is_broken(connection):  # The handler hid the error, or returned it as failures of streams.
        raise _ConnectionLost(ConnectionError("the connection has ended while the handler had it"))


def _check_open(handler: Transactional, connection: Any) -> None:
    is_sqlite = isinstance(connection, sqlite3.Connection)
    if not connection.in_transaction if is_sqlite else connection.closed:
        raise TransactionFailed.of("transaction-ended", processor=handler.checkpoints.name)


def _is_committed(handler: Transactional, advance: Advance) -> bool:
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


class GroupWorker:
    """A thread that makes calls of several streams. It accesses the engine through the processor's loop."""

    def __init__(
        self,
        handler: Together | Transactional,
        classify: Classify | None,
        access: EngineAccess,
        mailbox: Mailbox,
        clock: Callable[[], float],
        *,
        requests: RequestQueue,
        cpu: Cpu,
        leases: DatabaseLeases | None = None,
    ) -> None:
        self._calls: SimpleQueue[Sequence[Call] | None] = SimpleQueue()
        self._access = access
        self._mailbox = mailbox
        self._caller = GroupCaller(handler, classify, access, requests.run, clock=clock, leases=leases)
        run = cpu.wrap("handle", self._run)
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

    def _run(self) -> None:
        while (calls := self._calls.get()) is not None:
            try:
                self._caller.make(calls)
            except ProcessorEnded:  # Nothing of it is committed, and the loop has ended.
                return
            except BaseException as error:  # noqa: BLE001 - The loop raises it.
                self._mailbox.put(partial(self._end_call, calls, error))

    def _end_call(self, calls: Sequence[Call], error: BaseException) -> None:
        """Undo *calls* that have ended with *error*; raise it unless only a tranche has to be given up."""
        self._access.give_back(calls)  # Those that are not settled: they are not made again.
        if not isinstance(error, CheckpointMoved):
            raise error
        self._access.concede(error)
