"""The threads beside a processor's loop that read and commit, and their hand-overs to it.

Mailbox           takes results of all threads; the loop alone empties it
RequestQueue      functions that other threads have the loop run
BackgroundThread  runs one task at a time; the loop receives the result
SourceReader      reads new events up to the limits, and those of parked streams that are tried again
CheckpointWriter  commits the progress at intervals, so that the loop does not wait
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from penstock.errors import CheckpointMoved, DatabaseUnsuitable, OutcomeUnknown, PenstockError
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Call
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import Failure, Outcome
from penstock.processing.parameters import check_seconds
from penstock.processing.progress import Beginning, PageReplay, Progress
from penstock.processing.runners.observer import is_logged
from penstock.processing.snapshot import Tally
from penstock.processing.sources.source import ReadRequest, Source
from penstock.processing.sources.subscription import find_subscription
from penstock.wire.http import RetryBackoff, is_transient

R = TypeVar("R")


class ProcessorEnded(Exception):
    """The processor's loop has ended and runs no more requests."""


class RequestQueue:
    """Requests of other threads to a processor's loop.

    Args:
        wake: Wakes the loop.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._requests: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._is_over = False

    def run(self, do: Callable[[], R]) -> R:
        """Run *do* in the loop, and return its result.

        Raises:
            ProcessorEnded: the loop has ended.
            Exception: the exception that *do* has raised.
        """
        answer: Future[R] = Future()
        self._requests.put((do, answer))
        if self._is_over:
            self.close()
        self._wake()
        return answer.result()

    def serve(self) -> None:
        """Run all requests. Only the loop may call it."""
        with suppress(Empty):
            while True:
                do, answer = self._requests.get_nowait()
                try:
                    answer.set_result(do())
                except Exception as error:  # noqa: BLE001 - The caller of `run` raises it.
                    answer.set_exception(error)

    def close(self) -> None:
        """Fail all requests with ProcessorEnded, including later ones."""
        self._is_over = True
        with suppress(Empty):
            while True:
                _, answer = self._requests.get_nowait()
                answer.set_exception(ProcessorEnded())


class CallResult(msgspec.Struct, gc=False, eq=False):
    """The result of a call."""

    call: Call
    result: Outcome | Failure
    took: float


MailboxItem: TypeAlias = CallResult | Callable[[], None]
"""The result of a call, or a function for the loop to call."""


class Mailbox:
    """Items that threads put for the loop. They wake it only if it sleeps."""

    def __init__(self) -> None:
        self._items: deque[MailboxItem] = deque()
        self._woken = threading.Event()
        self._sleeps = False

    def put(self, item: MailboxItem) -> None:
        """Add an item."""
        self._items.append(item)
        if self._sleeps:
            self._woken.set()

    def wake(self) -> None:
        """Wake the loop without an item."""
        self._woken.set()

    def take_all(self) -> list[MailboxItem]:
        """Remove and return all items."""
        items = self._items
        return [items.popleft() for _ in range(len(items))]

    def wait(self, seconds: float) -> None:
        """Wait up to *seconds* for an item."""
        self._sleeps = True
        if not self._items:
            self._woken.wait(seconds)
        self._sleeps = False
        self._woken.clear()


BackgroundTask: TypeAlias = Callable[[], None]


class BackgroundThread:
    """Runs background tasks one after the other, in a thread of its own; the loop receives each result.

    Args:
        mailbox: Receives the results, for the loop.
        name: The thread's name.
        counted: Wraps the thread's function, see `Cpu.wrap`.
    """

    def __init__(
        self, mailbox: Mailbox, name: str, counted: Callable[[BackgroundTask], BackgroundTask] = lambda run: run
    ) -> None:
        self._mailbox = mailbox
        self._tasks: SimpleQueue[BackgroundTask | None] = SimpleQueue()
        self._thread = threading.Thread(target=counted(self._run), name=name, daemon=True)
        self.is_busy = False
        """True if a result is still to come."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def run(self, task: Callable[[], R], then: Callable[[R], None], failed: Callable[[BaseException], None]) -> None:
        """Run *task* in the thread; the loop calls *then* with its result, or *failed* with its exception."""
        self.is_busy = True
        self._tasks.put(partial(self._run_task, task, then, failed))

    def end(self) -> None:
        """Run no further tasks, without waiting for the current one."""
        self._tasks.put(None)

    def stop(self) -> None:
        """Stop the thread, and wait for the current task."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()

    def _run_task(
        self, task: Callable[[], R], then: Callable[[R], None], failed: Callable[[BaseException], None]
    ) -> None:
        try:
            result = task()
        except BaseException as error:  # noqa: BLE001 - The loop decides how to treat it.
            deliver = partial(failed, error)
        else:
            deliver = partial(then, result)
        self._mailbox.put(partial(self._end_task, deliver))

    def _end_task(self, deliver: BackgroundTask) -> None:
        self.is_busy = False
        deliver()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


READ_TIMEOUT: Final = 0.5
"""Seconds for which a source waits for new events; stopping may take as long."""
BUSY_READ_TIMEOUT: Final = 0.01
"""The same while events are unfinished: other tranches may have room soon."""
DELAY_SECONDS_MAX: Final = 10.0
_log: Final = logging.getLogger("penstock.processing")


class ReadResult(NamedTuple):
    """The result of one read."""

    opened: Mapping[str, Beginning]
    """New tranches, and their beginnings."""
    batches: Sequence[Batch]
    replayed: Sequence[tuple[PageReplay, Batch | Failure]]
    """Pages for streams that are tried again, or the read's failure."""
    took: float
    """Seconds that reading the batches took."""


class SourceReader:
    """Reads a source in a thread of its own, and adds its batches to the engine.

    After a transient failure, it reads again after growing delays.
    """

    def __init__(
        self,
        source: Source,
        engine: Engine,
        progress: Progress,
        mailbox: Mailbox,
        clock: Callable[[], float],
        *,
        tally: Tally,
    ) -> None:
        self._source = source
        self._engine = engine
        self._progress = progress
        self._clock = clock
        self._tally = tally
        self._thread = BackgroundThread(mailbox, "penstock-reader", partial(tally.cpu.wrap, "read"))
        self._backoff = RetryBackoff(DELAY_SECONDS_MAX)
        self._not_before = 0.0
        self._is_over = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """True if a read is in progress."""
        return self._thread.is_busy

    def end(self) -> None:
        """Close the source, and read no further, without waiting for the read in progress."""
        self._is_over = True
        self._source.close()
        self._thread.end()

    def stop(self) -> None:
        """Close the source, and wait for the thread's end."""
        if not self._is_over:
            self.end()
        self._thread.stop()

    def give_back(self) -> None:
        """Return the uncommitted events of a subscription to the hub, which sends them to other streams.

        Tranches with failing streams or active calls count as failed there.
        """
        if (subscription := find_subscription(self._source)) is not None:
            engine = self._engine
            failed = {engine.find_tranche(stream) for stream in engine.busy.failing}
            subscription.release(failed=failed.union(*map(engine.find_tranches, engine.busy.active.values())))

    def begin_read(self, now: float) -> None:
        """Begin a read up to the limits, unless one is in progress."""
        if self._thread.is_busy or now < self._not_before:
            return
        wants, replays = self._progress.plan_reads(), self._progress.plan_replays()
        if wants or replays or not self._progress.has_begun:
            is_idle = self._engine.is_idle and not self._engine.parking.retried
            timeout = READ_TIMEOUT if is_idle else BUSY_READ_TIMEOUT
            self._thread.run(lambda: self._read(wants, replays, timeout), self._ingest, self._retry_later)

    def _read(self, wants: Mapping[str, ReadRequest], replays: Sequence[PageReplay], timeout: float) -> ReadResult:
        source, opened = self._source, self._progress.find_new_tranches()
        if not (wants or replays or opened):
            time.sleep(timeout)  # There is no tranche yet.
        replayed = [(replay, self._progress.reread(replay)) for replay in replays]
        began = self._clock()
        batches = source.read(wants, 0.0 if replayed or opened else timeout) if wants else ()
        return ReadResult(opened, batches, replayed, self._clock() - began)

    def _ingest(self, read: ReadResult) -> None:
        now = self._clock()
        self._backoff.reset()
        self._tally.source.note_read(now, is_answer=bool(read.batches))
        self._progress.open(read.opened)
        if any(batch.items for batch in read.batches):
            self._tally.reads.add(read.took)
        # A tranche that begins here was not open when the positions to read from were chosen.
        batches = [batch for batch in read.batches if batch.tranche not in read.opened]
        open_tranches = self._engine.positions().keys() - self._progress.closing
        for batch in batches:
            began = self._clock()
            self._engine.ingest(batch, now)
            if batch.tranche in open_tranches:
                self._tally.note_batch(batch, self._clock() - began)
        for replay, page in read.replayed:
            if replay.tranche in open_tranches and replay.tranche not in read.opened:
                self._engine.replay_all(replay.parked, page, now)

    def _retry_later(self, error: BaseException) -> None:
        if self._is_over:
            return
        if not (isinstance(error, PenstockError) and is_transient(error)):
            raise error
        self._tally.source.note_failed_read()
        delay = self._backoff.delay(error)
        _log.warning("the source is asked again in %.1f s: %s", delay, error.detail)
        self._not_before = self._clock() + delay


LAST_ATTEMPTS: Final = 3
LAST_PAUSE_SECONDS: Final = 0.5
LAST_SECONDS_MAX: Final = 10.0
"""Seconds after which no attempt follows: with a locked database, each attempt waits for the lock's timeout."""
SOON_INTERVAL: Final = 0.01
"""Minimum seconds between commits while a caller waits for them."""
HOPELESS: Final = (CheckpointMoved, DatabaseUnsuitable)
"""Errors after which a processor that ends does not try a last commit."""


class CheckpointWriter:
    """Commits positions in a thread of its own. The next commit includes the progress of a failed one.

    The log reports the first, second, fourth, eighth … consecutive failure.

    Args:
        progress: The progress to commit.
        mailbox: Receives the results, for the loop.
        clock: Returns monotonic seconds.
        interval: Seconds between commits.
        tally: Counts commits and their failures.

    Raises:
        BadParameter: *interval*, the processor's `commit_interval`, is not a number of seconds.
    """

    def __init__(
        self, progress: Progress, mailbox: Mailbox, clock: Callable[[], float], interval: float, *, tally: Tally
    ) -> None:
        check_seconds("commit_interval", interval, zero=True)
        self._progress = progress
        self._clock = clock
        self._interval = interval
        self._thread = BackgroundThread(mailbox, "penstock-committer", partial(tally.cpu.wrap, "commit"))
        self._began_at: float | None = None
        self._tally = tally

    @property
    def is_busy(self) -> bool:
        """True if a commit is in progress."""
        return self._thread.is_busy

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def commit(self, now: float, *, at_once: bool) -> None:
        """Commit if the interval has passed, or soon if *at_once*, unless a commit is in progress."""
        interval = min(self._interval, SOON_INTERVAL) if at_once else self._interval
        if self._thread.is_busy or (self._began_at is not None and now - self._began_at < interval):
            return
        progress = self._progress
        advance = progress.find_advance()
        is_wanted = advance or progress.has_parked
        if (
            is_wanted or self._began_at is not None
        ):  # The first position is stored at once: a restart might begin elsewhere.
            self._began_at = now
        if is_wanted:
            self._tally.commit_began = now
            self._thread.run(
                lambda: progress.write(advance),
                lambda requests: self._confirm(partial(progress.confirm, advance, requests)),
                self._note_failure,
            )

    def stop(self) -> None:
        """Stop the thread after the commit in progress."""
        self._thread.stop()

    def _confirm(self, note: Callable[[], object]) -> None:
        self._tally.end_commit()
        note()

    def _note_failure(self, error: BaseException) -> None:
        self._tally.commit_began = None
        if isinstance(error, CheckpointMoved):
            self._progress.concede(error)
        else:
            note_failure(error, self._tally)


def commit_remaining(
    progress: Progress, tally: Tally, clock: Callable[[], float], look: Callable[[], object] = lambda: None
) -> None:
    """Commit the remaining progress of a processor that ends.

    If all attempts fail, the log reports it, and the uncommitted events are handled again in a later run.

    Args:
        progress: The progress to commit.
        tally: Counts the commit and its failures.
        clock: Returns monotonic seconds.
        look: Called before each attempt.

    Raises:
        Exception: an error that a later commit cannot repair.
    """
    began = clock()
    for attempt in range(1, LAST_ATTEMPTS + 1):
        try:
            look()
            _commit_until_done(progress)
        except PenstockError as error:
            note_failure(error, tally)
            if attempt < LAST_ATTEMPTS and clock() - began < LAST_SECONDS_MAX:
                time.sleep(LAST_PAUSE_SECONDS)
            else:
                _log.warning("the last commit has failed, and what is done since comes again: %s", error.detail)
                return
        else:
            tally.end_commit()
            return


def _commit_until_done(progress: Progress) -> None:
    while True:
        try:
            progress.commit()
        except CheckpointMoved as error:
            progress.concede(error)
        else:
            return


def note_failure(error: BaseException, tally: Tally) -> None:
    """Record a failed commit; log the first, second, fourth, eighth … consecutive failure.

    Raises:
        BaseException: *error*, if a later commit cannot repair it: the processor ends.
    """
    if not isinstance(error, PenstockError) or not (is_transient(error) or isinstance(error, OutcomeUnknown)):
        raise error
    tally.fail_commit(error.detail)
    failing = tally.commits_failing
    if is_logged(failing):
        count = "a commit has" if failing == 1 else f"{failing} commits in a row have"
        _log.warning("%s failed, and what is done is kept by the next: %s", count, error.detail)
