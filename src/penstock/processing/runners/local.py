"""Runs a processor in this process: one thread reads, some call handlers, and one owns the engine.

    reader ── batches ──┐                        ┌── calls ──▶ workers
                        ▼                        │               │
                   mailbox ──▶ the loop: ingest, take, settle, commit
                        ▲                                        │
                        └──────────────── results ───────────────┘

Handlers that are coroutine functions run in one event loop, in a thread of its own, up to the rules' concurrency.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from random import Random
from typing import Final

from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.leases import DatabaseLeases, Leases
from penstock.processing.database import writes_alone
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.handlers import Classify, Handler, StreamCaller
from penstock.processing.parameters import check_function, is_coroutine_function
from penstock.processing.progress import Progress
from penstock.processing.runners.background import (
    HOPELESS,
    CallResult,
    CheckpointWriter,
    Mailbox,
    SourceReader,
    commit_remaining,
)
from penstock.processing.runners.leaseholder import Leaseholder, check_leases
from penstock.processing.runners.observer import ProcessorObserver, choose_name
from penstock.processing.runners.processor import Processor, choose_checkpoints
from penstock.processing.runners.workers import CANCEL_TIMEOUT, EngineAccess, GroupWorker, WorkerTasks, WorkerThreads
from penstock.processing.sources.source import Source, check_source
from penstock.processing.together import Together, Transactional

LOOK_INTERVAL: Final = 0.5
"""Maximum seconds between checks for due commits, overdue calls and bad health."""
CLOSING_LOOK_INTERVAL: Final = 0.02
"""The same while another processor waits for tranches of this one."""
AHEAD_SECONDS: Final = 0.002
"""Seconds of work to queue beyond the active calls, so that short calls follow each other without a pause."""
AHEAD_MAX: Final = 128
STOP_TIMEOUT: Final = 30.0
"""Default seconds to wait for active calls when stopping; in the last seconds of it, coroutines are cancelled."""
NAMED_MAX: Final = 3
_log: Final = logging.getLogger("penstock.processing")


class LocalProcessor(Processor):
    """A processor in this process, from `start` to `stop`, or for a `with` block.

    Args:
        handler: See `Handler`. Several threads call it, never two at once for one stream.
        source: The source to read. It is closed when the processor ends.
        checkpoints: Where it stores its progress; by default in memory, or in the checkpoints of a `Transactional` or
            a `SubscriptionSource`.
        rules: The processor's rules.
        classify: Names failures.
        leases: Leases of tranches, if several processors of its name share them; None: it owns all tranches.
        commit_interval: Seconds between commits; it also commits when it stops.
        stats_interval: Seconds between lines with figures in the log; None: no such lines.
        name: Its name in logs, views and metrics; by default the name of its checkpoints.
        clock: Returns monotonic seconds.
        loop: The event loop that calls a coroutine handler, running in another thread; by default one of the
            processor's own.

    Raises:
        BadParameter: the handler does not accept the arguments of a call; the source or the checkpoints are invalid; or
            leases and checkpoints have different names.
        PenstockError: (`stop`, `wait_until_caught_up`) the error that has ended it.
    """

    def __init__(
        self,
        handler: Handler | Together | Transactional,
        source: Source,
        *,
        checkpoints: Checkpoints | None = None,
        rules: Rules | None = None,
        classify: Classify | None = None,
        leases: Leases | None = None,
        commit_interval: float = 5.0,
        stats_interval: float | None = 60.0,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        check_source(source)
        self.grace_seconds = STOP_TIMEOUT
        """Seconds to wait for active calls when it stops; then coroutines are cancelled."""
        self._loop = loop
        check_function("clock", clock)
        is_patient = isinstance(handler, Together | Transactional)
        rules = Rules() if rules is None else rules
        chance = Random()  # noqa: S311 - Of delays.
        self.engine = Engine(rules, chance, is_dense=source.is_dense, is_patient=is_patient)
        checkpoints, keeps_ahead = choose_checkpoints(handler, checkpoints, source)
        if leases is not None:
            check_leases(leases, checkpoints, rules)
            # The next owner of a tranche does not handle again what is done behind its position.
            keeps_ahead |= not isinstance(handler, Transactional)
        self._mailbox = Mailbox()
        progress = Progress(self.engine, source, checkpoints, keeps_ahead=keeps_ahead)
        observer = ProcessorObserver(
            choose_name(name, checkpoints), self.engine, progress.behind, stats_interval, clock()
        )
        super().__init__(progress, self._mailbox.wake, observer)
        self._clock = clock
        tally = self._observer.tally
        self._reader = SourceReader(source, self.engine, self._progress, self._mailbox, clock, tally=tally)
        self._committer = CheckpointWriter(self._progress, self._mailbox, clock, commit_interval, tally=tally)
        self._streams_max = handler.streams_max if isinstance(handler, Together | Transactional) else None
        call_leases = _find_leases_of_calls(handler, leases)
        self._leaseholder: Leaseholder | None = None
        if leases is not None:
            is_timeless = call_leases is not None
            self._leaseholder = Leaseholder(leases, self._progress, self._mailbox, clock, is_timeless=is_timeless)
        self._workers = self._make_workers(handler, classify, call_leases)
        self._mean_seconds = 0.0
        self._checked_at = float("-inf")  # At once, so that the first snapshot shows that it runs.

    def _begin(self) -> None:
        if self._leaseholder is not None:
            self._leaseholder.start()
        self._reader.start()
        self._committer.start()
        self._workers.start(self.engine.rules.concurrency)

    def _release(self) -> None:
        self._reader.stop()
        self._workers.stop()

    def _make_workers(
        self, handler: Handler | Together | Transactional, classify: Classify | None, leases: DatabaseLeases | None
    ) -> WorkerThreads | WorkerTasks | GroupWorker:
        mailbox, clock, cpu = self._mailbox, self._clock, self._observer.tally.cpu
        if isinstance(handler, Together | Transactional):
            return GroupWorker(
                handler,
                classify,
                EngineAccess(self.engine, self._progress, clock, self._observer.tally, self._leaseholder),
                mailbox,
                clock,
                requests=self._requests,
                cpu=cpu,
                leases=leases,
            )
        caller = StreamCaller(handler, classify)
        if is_coroutine_function(handler):
            return WorkerTasks(caller, mailbox, clock, cpu, timeout=self.engine.rules.timeout, loop=self._loop)
        return WorkerThreads(caller, mailbox, clock, cpu)

    def _run_once(self) -> None:
        now = self._clock()
        self._take_results(now)
        self._requests.serve()
        self._maintain_leases(now)
        self._reader.begin_read(now)
        calls = self.engine.take(self._count_free(), now)
        if calls:
            self._workers.call(calls)
        self._check_due(now)
        due = self.engine.due
        longest = self._checked_at + LOOK_INTERVAL - now  # The next check must not be late.
        if self._progress.closing:
            longest = min(longest, CLOSING_LOOK_INTERVAL)
        self._mailbox.wait(longest if due is None else min(longest, max(0.0, due - now)))

    def _take_results(self, now: float) -> None:
        engine, error = self.engine, None
        for item in self._mailbox.take_all():
            try:
                if isinstance(item, CallResult):
                    engine.settle(item.call, item.result, now, item.took)
                    self._mean_seconds += (item.took - self._mean_seconds) * 0.05
                else:
                    item()
            except BaseException as raised:  # noqa: BLE001 - The other items are taken in nevertheless.
                error = error or raised
        if error is not None:
            raise error

    def _count_free(self) -> int:
        """Return how many calls may be made now: for idle workers, and some to queue if calls are short."""
        concurrency, busy = self.engine.rules.concurrency, self.engine.busy
        if self._streams_max is not None:
            waits = busy.active or self._committer.is_busy or self._progress.is_doubtful
            waits = waits or (self._leaseholder is not None and self._leaseholder.holds_calls)
            return 0 if waits else self._streams_max
        ahead = (
            min(AHEAD_MAX, int(concurrency * AHEAD_SECONDS / max(self._mean_seconds, 1e-6)))
            if self.engine.handled
            else 0
        )
        stuck = min(len(busy.overdue_calls), concurrency)
        return concurrency + ahead + stuck - len(busy.active)

    def _maintain_leases(self, now: float) -> None:
        if self._leaseholder is not None:
            is_committing = self._committer.is_busy or self._may_commit_by_calls
            if self._leaseholder.maintain(now, is_committing=is_committing):
                self._withdraw_calls()

    def _withdraw_calls(self) -> None:
        """Withdraw the calls that have not begun."""
        for call in self._workers.withdraw():
            self.engine.give_back(call)

    @property
    def _may_commit_by_calls(self) -> bool:
        """True if a call is active that may commit its results."""
        return self._streams_max is not None and bool(self.engine.busy.active)

    def _commit(self, now: float, *, at_once: bool) -> None:
        if not self._may_commit_by_calls:
            self._committer.commit(now, at_once=at_once)

    def _check_due(self, now: float) -> None:
        is_due = now - self._checked_at >= LOOK_INTERVAL
        is_leaving = bool(self._progress.closing)
        at_once = is_leaving or self._catch_up.count > 0 or (is_due and self._progress.has_parked)
        at_once |= is_due and self._progress.is_doubtful
        self._commit(now, at_once=at_once)
        if is_due:
            self._checked_at = now
            self._workers.replace(self.engine.mark_overdue(now))
            self._observer.observe(now)
            self.engine.check_health(now)
            self._observer.check_source(now)

    def _finish(self) -> None:
        try:
            self._end()
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            self._observer.end(self._clock(), self._error)

    def _end(self) -> None:
        """Wait for the active calls, and commit the progress."""
        began, cancelling = time.monotonic(), CANCEL_TIMEOUT if isinstance(self._workers, WorkerTasks) else 0.0
        self._withdraw_calls()
        self._reader.end()
        if self._leaseholder is not None:
            self._leaseholder.end()
        while (self.engine.busy.active or self._reader.is_busy) and (
            time.monotonic() < began + self.grace_seconds - cancelling
        ):
            self._commit_and_release()
            self._mailbox.wait(LOOK_INTERVAL if self._leaseholder is None else CLOSING_LOOK_INTERVAL)
            self._take_in_remaining()
        self._workers.stop()
        self._committer.stop()
        self._reader.stop()
        self._take_in_remaining()
        self._log_remaining()
        if not isinstance(self._error, HOPELESS):
            commit_remaining(self._progress, self._observer.tally, self._clock, self._give_up_lapsed)
        self._reader.give_back()
        if self._leaseholder is not None:
            self._leaseholder.stop()

    def _commit_and_release(self) -> None:
        """Keep the leases of active calls, and release the others once their progress is committed."""
        if self._leaseholder is not None:
            now = self._clock()
            self._maintain_leases(now)
            if not isinstance(self._error, HOPELESS):
                self._commit(now, at_once=True)

    def _log_remaining(self) -> None:
        streams = sorted(self.engine.busy.active)
        if streams:
            names = ", ".join([*streams[:NAMED_MAX], *(["…"] if len(streams) > NAMED_MAX else [])])
            left = "calls that were not done within %g s come again, and go on unheard where they cannot be cut off: %s"
            _log.warning(left, self.grace_seconds, names)

    def _give_up_lapsed(self) -> None:
        if self._leaseholder is not None:
            self._leaseholder.give_up_lapsed(self._clock())

    def _take_in_remaining(self) -> None:
        try:
            self._requests.serve()
            self._take_results(self._clock())
        except BaseException as error:  # noqa: BLE001 - It is raised at the end.
            self._error = self._error or error


def _find_leases_of_calls(handler: Handler | Together | Transactional, leases: Leases | None) -> DatabaseLeases | None:
    """Return *leases* if each call has to check them in its transaction, which blocks their renewal."""
    if isinstance(leases, DatabaseLeases) and isinstance(handler, Transactional) and writes_alone(handler.connect):
        return leases
    return None
