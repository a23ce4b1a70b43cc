"""Processors: the choice of checkpoints, and the base of those that run in a thread: start, stop, wait, approve."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from itertools import chain, repeat
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from penstock.errors import AlreadyUsed, BadParameter, PenstockError, Unavailable
from penstock.processing.checkpoints.checkpoint import Checkpoints, MemoryCheckpoints, check_checkpoints
from penstock.processing.checkpoints.hub import SubscriptionCheckpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.parameters import check_number
from penstock.processing.progress import Progress
from penstock.processing.runners.background import ProcessorEnded, RequestQueue
from penstock.processing.runners.observer import ProcessorObserver
from penstock.processing.snapshot import BusyStream, Snapshot
from penstock.processing.sources.subscription import find_subscription
from penstock.processing.together import Transactional
from penstock.wire.http import is_transient

_log: Final = logging.getLogger("penstock.processing")


class _Gap(NamedTuple):
    """The missing index that a stream waits for."""

    tranche: str
    missing: int
    found: int
    """The first index present after it."""


def approve_missing(
    stream: str,
    reason: str,
    engine: Engine,
    record: Callable[[str, str], None],
    ask: Callable[[Callable[[], Any]], Any],
) -> None:
    """Advance a stream past the missing index that it waits for, which will never come.

    Args:
        stream: The stream.
        reason: The reason, for the record.
        engine: The stream's engine.
        record: Stores a record of the decision, given a tranche and a text. It may wait for an active call, so it runs
            outside the engine's thread.
        ask: Runs a function in the thread that owns the engine, and returns its result.

    Raises:
        BadParameter: the stream waits for no index.
    """
    gap: _Gap = ask(lambda: _find_gap(engine, stream))
    text = f"{stream} goes on at {gap.found}, though {gap.missing} has not come: {reason}"
    record(gap.tranche, text)
    _log.warning("%s", text)
    ask(lambda: _pass_over(engine, stream, gap))


def _find_gap(engine: Engine, stream: str) -> _Gap:
    missing = engine.find_missing().get(stream)
    if missing is None:
        waiting = ", ".join(engine.find_missing()) or "none does"
        raise BadParameter(parameter="stream", value=stream, allowed=f"one that waits for an index: {waiting}")
    return _Gap(engine.find_tranche(stream), *missing)


def _pass_over(engine: Engine, stream: str, gap: _Gap) -> None:
    """Advance the stream, unless the missing event has come meanwhile."""
    missing, found = engine.find_missing().get(stream, (None, 0))
    if missing == gap.missing:
        engine.advance_stream(stream, found)


def choose_checkpoints(handler: object, checkpoints: Checkpoints | None, source: object) -> tuple[Checkpoints, bool]:
    """Return the checkpoints of a processor: *checkpoints*, those of its handler or source, or new ones in memory.

    Also return whether they are to store the streams that are ahead of their positions.

    Raises:
        BadParameter: *checkpoints* differ from those of its handler or its source, or are no checkpoints.
    """
    if checkpoints is not None:
        check_checkpoints(checkpoints)
    if not isinstance(handler, Transactional):
        return _choose_suitable(checkpoints, source), False
    if checkpoints not in (None, handler.checkpoints):
        allowed = "those that Transactional has; it need not be given again"
        raise BadParameter(parameter="checkpoints", value=checkpoints, allowed=allowed)
    return _choose_suitable(handler.checkpoints, source), not handler.is_idempotent


def _choose_suitable(checkpoints: Checkpoints | None, source: object) -> Checkpoints:
    """Return *checkpoints*; None: the default for the source.

    Raises:
        BadParameter: the source is a subscription, and these checkpoints would not commit to the hub.
    """
    subscription = find_subscription(source)
    if subscription is None:
        return checkpoints or MemoryCheckpoints()
    if checkpoints is None:
        return SubscriptionCheckpoints(subscription)
    if not isinstance(checkpoints, SubscriptionCheckpoints) or checkpoints.source is not subscription:
        allowed = "SubscriptionCheckpoints of the source, or none: a hub sends on what it hears to be done"
        raise BadParameter(parameter="checkpoints", value=type(checkpoints).__name__, allowed=allowed)
    return checkpoints


PAUSES_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02)
PAUSE_SECONDS: Final = 0.05
NAMED_MAX: Final = 3
"""Maximum number of streams that an error names."""
DETAIL_CHARS: Final = 200
"""Maximum number of characters of a reason in an error."""
LOOKS: Final = 2
"""Number of times that requests for parked streams have to be read: the first read may have begun before a request."""
LOOK_INTERVAL: Final = 0.1
"""Seconds between checks that the processor still runs, while its source is asked."""
NOT_BEGUN: Final = "what may come: it has begun with no tranche of its source, such as a file or a partition"
LONG_SECONDS: Final = 1.0
"""Seconds after which an error mentions a commit in progress."""
NOT_STARTED: Final = "the processor is not started: start() does that, and a `with` block of it"


class CatchUpWait:
    """Lets callers wait until a processor has caught up.

    Args:
        progress: The processor's progress.
        thread: The thread of its loop.
        wake: Wakes the loop, which commits at once while a caller waits.
        error: Returns the error that has ended the loop.
        snapshot: Returns the processor's last snapshot.
    """

    def __init__(
        self,
        progress: Progress,
        thread: threading.Thread,
        wake: Callable[[], None],
        error: Callable[[], BaseException | None],
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self._progress = progress
        self._thread = thread
        self._wake = wake
        self._error = error
        self._snapshot = snapshot
        self.count = 0
        """Number of waiting callers."""

    def wait(self, timeout: float) -> None:
        """Wait until all events are handled and all earlier requests for parked streams are done and committed.

        Raises:
            BadParameter: *timeout* is not a number of seconds.
            Unavailable: this takes longer than *timeout* seconds; the error names the tranches that are behind, and the
                streams without progress. Or the processor does not run.
            BaseException: the error that has ended the processor.
        """
        check_number("timeout", timeout, least=float("-inf"), allowed="a number of seconds")
        self._check()
        deadline = time.monotonic() + timeout
        looks = self._progress.poll_count + LOOKS
        self.count += 1
        try:
            for pause in chain(PAUSES_SECONDS, repeat(PAUSE_SECONDS)):
                self._wake()
                behind = self._ask_source(looks, deadline)
                if behind is None:
                    return
                if time.monotonic() > deadline:
                    reason = f"the processor has not caught up within {timeout:g} s: behind is {behind}"
                    raise Unavailable(reason="; ".join([reason, *describe_troubles(self._snapshot())]))
                time.sleep(pause)
        finally:
            self.count -= 1

    def _ask_source(self, looks: int, deadline: float) -> str | None:
        """Return `_describe_behind`, but wait only until the deadline for a source that does not answer."""
        asking: Future[str | None] = Future()

        def ask() -> None:
            try:
                asking.set_result(self._describe_behind(looks))
            except BaseException as error:  # noqa: BLE001 - The waiting caller raises it.
                asking.set_exception(error)

        threading.Thread(target=ask, name="penstock-behind", daemon=True).start()
        while True:
            self._check()
            try:
                return asking.result(LOOK_INTERVAL)
            except FutureTimeout:
                if time.monotonic() > deadline:
                    return "what its source would say, which does not answer"
            except PenstockError:
                self._check()  # The error that ended it says more.
                raise

    def _check(self) -> None:
        error = self._error()
        if error is not None:
            raise error
        if self._thread.ident is None:
            raise Unavailable(reason=NOT_STARTED)
        if not self._thread.is_alive():
            raise Unavailable(reason="the processor has ended")

    def _describe_behind(self, looks: int) -> str | None:
        """Return a text that names the tranches behind; None: none is, and requests were read *looks* times."""
        try:
            left = {tranche: count for tranche, count in self._progress.behind().items() if count != 0}
        except PenstockError as error:
            if not is_transient(error):
                raise
            return f"what its source would say: {error.detail}"
        if not left and self._progress.has_begun:
            return self._describe_parked(looks)
        if not left:
            return NOT_BEGUN
        return ", ".join(f"{tranche}: {count}" for tranche, count in sorted(left.items()))

    def _describe_parked(self, looks: int) -> str | None:
        """Return a text that names the work left for parked streams; None: none is, after *looks* reads of requests."""
        progress = self._progress
        if progress.settled_at_poll >= looks:  # Set by the loop: this thread's own view may mix two moments.
            return None
        if retried := progress.retried:
            more = [f"{len(retried) - NAMED_MAX} more"] if len(retried) > NAMED_MAX else []
            return f"what is parked and tried again: {', '.join([*retried[:NAMED_MAX], *more])}"
        if progress.has_parked_changes:
            return "what has come of parked streams, which is not committed yet"
        return "what is wanted of parked streams, which is not known yet"


def describe_troubles(snapshot: Snapshot) -> list[str]:
    """Return texts about failing commits, and about failing and stalled streams with reasons, the oldest first.

    They name up to `NAMED_MAX` streams of each state, and the number of others.
    """
    texts = _describe_commits(snapshot)
    for state, is_doing in (("failing", "fails"), ("stalled", "stalls")):
        found = [each for each in snapshot.longest if each.state == state][:NAMED_MAX]
        texts += [_describe_trouble(each, is_doing) for each in found]
        if more := snapshot.busy[state].streams - len(found):
            texts.append(f"{more} more {'stream is' if more == 1 else 'streams are'} {state}")
    return texts


def _describe_commits(snapshot: Snapshot) -> list[str]:
    failing, seconds = snapshot.commits_failing, snapshot.commit_seconds
    texts = []
    if failing:
        count = "the last commit has" if failing == 1 else f"the last {failing} commits have"
        texts.append(f"{count} failed: {_shorten(snapshot.commit_failure or '')}")
    if seconds is not None and seconds >= LONG_SECONDS:
        texts.append(f"a commit has not been answered for {seconds:.0f} s")
    return texts


def _shorten(text: str) -> str:
    return " ".join(text.split())[:DETAIL_CHARS]


def _describe_trouble(stream: BusyStream, is_doing: str) -> str:
    reason = ": ".join(part for part in (stream.tag, stream.detail) if part)
    text = _shorten(reason)
    where = f"{stream.stream} {is_doing} at {stream.index} for {stream.age_seconds:.0f} s"
    return f"{where}: {text}" if text else where


class Processor(ABC):
    """A processor that runs once, from `start` to `stop`, or for a `with` block.

    Args:
        progress: Its progress.
        wake: Wakes its loop.
        observer: Provides its snapshots and log lines.
    """

    engine: Engine
    """Its engine, with the unfinished events and calls."""

    def __init__(self, progress: Progress, wake: Callable[[], None], observer: ProcessorObserver) -> None:
        self.name = observer.name
        """Its name in logs, views and metrics."""
        self._observer = observer
        self._progress = progress
        self._wake = wake
        self._requests = RequestQueue(wake)
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        run = observer.tally.cpu.wrap("schedule", self._run)
        self._thread = threading.Thread(target=run, name="penstock-processor", daemon=True)
        self._catch_up = CatchUpWait(progress, self._thread, wake, lambda: self._error, lambda: self.snapshot)

    def start(self) -> Self:
        """Start the processor.

        Raises:
            AlreadyUsed: it was started or stopped before.
        """
        if self._is_begun or self._stopping.is_set():
            raise AlreadyUsed.of("already-started", processor=self.name)
        self._begin()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the processor: begin no further calls, wait for active ones, and commit the progress.

        If it was never started, only close its resources. If a handler calls it, return at once: the processor stops
        after that call.
        """
        self._stopping.set()
        if not self._is_begun:
            self._release()
            self._ended.set()
            return
        self._wake()
        if self._observer.tally.cpu.is_counted:
            return
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds until it has ended by itself; return whether it has. `stop` raises the cause.

        Raises:
            BadParameter: *timeout* is not a number of seconds that a thread can wait.
            Unavailable: it is not started.
        """
        if not (self._is_begun or self._ended.is_set()):
            raise Unavailable(reason=NOT_STARTED)
        if timeout is not None:
            most, allowed = threading.TIMEOUT_MAX, "a number of seconds, or None: however long that takes"
            check_number("timeout", timeout, least=float("-inf"), most=most, allowed=allowed)
        return self._ended.wait(timeout)  # A join that a signal interrupts marks the thread as ended.

    def wait_until_caught_up(self, timeout: float) -> None:
        """Wait until all events are handled and committed; if tranches are shared, those of its own tranches.

        It does not wait for parked streams, except for those with a request from before the call: each retried stream
        is then handled, or parked again, and that is committed.

        Raises:
            Unavailable: this takes longer than *timeout* seconds; the error names the tranches that are behind, the
                streams without progress, and the reason of failing commits. Or the processor does not run.
            BadParameter: *timeout* is not a number of seconds.
        """
        self._catch_up.wait(timeout)

    @property
    def snapshot(self) -> Snapshot:
        """Its state, at most half a second old. Any thread may read it."""
        return self._observer.snapshot

    def behind(self) -> Mapping[str, int | None]:
        """Return the number of events after the committed position of each tranche. Any thread may call it."""
        return self._progress.behind()

    def approve_missing(self, stream: str, *, reason: str) -> None:
        """Advance a stream past a missing index that will never come: see `Rules.require_all`.

        The decision is recorded in the log, and in the history of checkpoints that have one. `snapshot.gapped` names
        the waiting streams and their missing indices. An approved event is not handled if it comes later.

        Raises:
            BadParameter: the stream waits for no index.
            Unavailable: the processor does not run.
            DatabaseUnavailable: the decision is not recorded; the stream still waits.
            OutcomeUnknown: the decision may not be recorded; the stream still waits.
        """
        try:
            if self._thread.is_alive():
                approve_missing(stream, reason, self.engine, self._progress.record, self._requests.run)
                return
        except ProcessorEnded:
            pass
        raise Unavailable(reason="the processor does not run")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            with suppress(Exception):  # The block's own error says more.
                self.stop()

    @property
    def _is_begun(self) -> bool:
        return self._thread.ident is not None

    def _begin(self) -> None:  # noqa: B027 - A processor may have no other threads.
        """Start the threads beside the loop."""

    @abstractmethod
    def _release(self) -> None:
        """Close the resources of a processor that was never started."""

    @abstractmethod
    def _run_once(self) -> None:
        """Do the work that is due, and sleep if there is none."""

    @abstractmethod
    def _finish(self) -> None:
        """Wait for active calls, commit the progress, and release all resources."""

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._run_once()
        except BaseException as error:  # noqa: BLE001 - Callers of stop and wait receive it.
            self._error = error
        try:
            self._finish()
        except BaseException as error:  # noqa: BLE001 - Likewise.
            self._error = self._error or error
        self._requests.close()
        self._ended.set()
