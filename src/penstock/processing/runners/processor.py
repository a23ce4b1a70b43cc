"""What every processor has that runs in a thread of its own: a beginning, an end, and those who wait for it."""

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
from penstock.processing.engine.engine import Engine
from penstock.processing.parameters import check_number
from penstock.processing.progress import Progress
from penstock.processing.runners.inbox import Asking, ProcessorEnded
from penstock.processing.runners.observing import Observing
from penstock.processing.snapshot import BusyStream, Snapshot
from penstock.wire.http import is_transient

_log: Final = logging.getLogger("penstock.processing")


class _Gap(NamedTuple):
    """What a stream waits for."""

    tranche: str
    missing: int
    found: int
    """The first index that there is behind it."""


def approve_missing(
    stream: str,
    reason: str,
    engine: Engine,
    record: Callable[[str, str], None],
    ask: Callable[[Callable[[], Any]], Any],
) -> None:
    """Have a stream go on with what there is: the index that it waits for will never come.

    Args:
        stream: The stream.
        reason: Why.
        engine: What it is in.
        record: Keeps on record what is done, given a tranche. It may wait for a call that goes on, and so must hold
            nobody up whom that waits for.
        ask: Has the thread that has the engine do something, and returns what comes of it.

    Raises:
        BadParameter: it waits for none.
    """
    gap: _Gap = ask(lambda: _gap(engine, stream))
    told = f"{stream} goes on at {gap.found}, though {gap.missing} has not come: {reason}"
    record(gap.tranche, told)
    _log.warning("%s", told)
    ask(lambda: _pass_over(engine, stream, gap))


def _gap(engine: Engine, stream: str) -> _Gap:
    missing = engine.missing().get(stream)
    if missing is None:
        waiting = ", ".join(engine.missing()) or "none does"
        raise BadParameter(parameter="stream", value=stream, allowed=f"one that waits for an index: {waiting}")
    return _Gap(engine.tranche_of(stream), *missing)


def _pass_over(engine: Engine, stream: str, gap: _Gap) -> None:
    """Go on, unless what was missing has come meanwhile."""
    missing, found = engine.missing().get(stream, (None, 0))
    if missing == gap.missing:
        engine.go_on(stream, found)


PAUSES_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02)
PAUSE_SECONDS: Final = 0.05
TOLD_MAX: Final = 3
"""So many streams are named, and of those that get nowhere so many characters of the reason."""
DETAIL_CHARS: Final = 200
LOOKS: Final = 2
"""So often it has to be looked what is wanted of parked streams: once may have begun before somebody wanted it."""
LOOK_INTERVAL: Final = 0.1
"""So often it is looked whether the processor goes on, while its source is asked."""
NOT_BEGUN: Final = "what may come: it has begun with no tranche of its source, such as a file or a partition"
LONG_SECONDS: Final = 1.0
"""A commit that is under way for so long is told of."""
NOT_STARTED: Final = "the processor is not started: start() does that, and a `with` block of it"


class CatchingUp:
    """Those who wait for a processor.

    Args:
        progress: The processor's.
        thread: In which its loop runs.
        wake: Has the loop go on: what is done is to be committed at once while somebody waits.
        error: Returns what has ended the loop.
        snapshot: Returns what it had under way lately.
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
        """How many wait."""

    def wait(self, timeout: float) -> None:
        """Wait until nothing is behind, and all that was wanted of parked streams before is done and committed.

        Raises:
            BadParameter: *timeout* is no number of seconds.
            Unavailable: that has not come for *timeout* seconds; says what is behind, and which streams get nowhere.
                Or the processor does not run.
            BaseException: what has ended the processor.
        """
        check_number("timeout", timeout, least=float("-inf"), allowed="a number of seconds")
        self._check()
        deadline = time.monotonic() + timeout
        looks = self._progress.heeded + LOOKS
        self.count += 1
        try:
            for pause in chain(PAUSES_SECONDS, repeat(PAUSE_SECONDS)):
                self._wake()
                behind = self._asked(looks, deadline)
                if behind is None:
                    return
                if time.monotonic() > deadline:
                    reason = f"the processor has not caught up within {timeout:g} s: behind is {behind}"
                    raise Unavailable(reason="; ".join([reason, *troubles_of(self._snapshot())]))
                time.sleep(pause)
        finally:
            self.count -= 1

    def _asked(self, looks: int, deadline: float) -> str | None:
        """Return the same as `_behind`, which may wait for a source that is away, until the deadline."""
        asking: Future[str | None] = Future()

        def ask() -> None:
            try:
                asking.set_result(self._behind(looks))
            except BaseException as error:  # noqa: BLE001 - Whoever waits is told.
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
                self._check()  # What has ended it says more.
                raise

    def _check(self) -> None:
        error = self._error()
        if error is not None:
            raise error
        if self._thread.ident is None:
            raise Unavailable(reason=NOT_STARTED)
        if not self._thread.is_alive():
            raise Unavailable(reason="the processor has ended")

    def _behind(self, looks: int) -> str | None:
        """Return what is behind, for people; None: nothing is, after so many looks at what is wanted."""
        try:
            left = {tranche: count for tranche, count in self._progress.behind().items() if count != 0}
        except PenstockError as error:
            if not is_transient(error):
                raise
            return f"what its source would say: {error.detail}"
        if not left and self._progress.has_begun:
            return self._parked(looks)
        if not left:
            return NOT_BEGUN
        return ", ".join(f"{tranche}: {count}" for tranche, count in sorted(left.items()))

    def _parked(self, looks: int) -> str | None:
        """Return what is left to do for parked streams, for people; None: nothing is, after so many looks."""
        progress = self._progress
        if progress.settled >= looks:  # The loop has said so: what this thread sees meanwhile may be of two moments.
            return None
        if retried := progress.retried:
            more = [f"{len(retried) - TOLD_MAX} more"] if len(retried) > TOLD_MAX else []
            return f"what is parked and tried again: {', '.join([*retried[:TOLD_MAX], *more])}"
        if progress.has_parked_changes:
            return "what has come of parked streams, which is not committed yet"
        return "what is wanted of parked streams, which is not known yet"


def troubles_of(snapshot: Snapshot) -> list[str]:
    """Return in words whether commits fail, which streams fail and stall, the oldest first, and why.

    Of the streams some are named, and it is said how many more there are.
    """
    told = _commits_of(snapshot)
    for state, is_doing in (("failing", "fails"), ("stalled", "stalls")):
        found = [each for each in snapshot.longest if each.state == state][:TOLD_MAX]
        told += [_trouble(each, is_doing) for each in found]
        if more := snapshot.busy[state].streams - len(found):
            told.append(f"{more} more {'stream is' if more == 1 else 'streams are'} {state}")
    return told


def _commits_of(snapshot: Snapshot) -> list[str]:
    failing, seconds = snapshot.commits_failing, snapshot.commit_seconds
    told = []
    if failing:
        count = "the last commit has" if failing == 1 else f"the last {failing} commits have"
        told.append(f"{count} failed: {_short(snapshot.commit_failure or '')}")
    if seconds is not None and seconds >= LONG_SECONDS:
        told.append(f"a commit has not been answered for {seconds:.0f} s")
    return told


def _short(text: str) -> str:
    return " ".join(text.split())[:DETAIL_CHARS]


def _trouble(stream: BusyStream, is_doing: str) -> str:
    reason = ": ".join(part for part in (stream.tag, stream.detail) if part)
    told = _short(reason)
    where = f"{stream.stream} {is_doing} at {stream.index} for {stream.age_seconds:.0f} s"
    return f"{where}: {told}" if told else where


class Processor(ABC):
    """A processor that runs from `start` to `stop`, or as long as a `with` block: once.

    Args:
        progress: Where it has come to.
        wake: Has its loop go on, where that sleeps.
        observing: What its loop does for those who watch.
    """

    engine: Engine
    """What it has under way."""

    def __init__(self, progress: Progress, wake: Callable[[], None], observing: Observing) -> None:
        self.name = observing.name
        """What it is called in logs, views and metrics."""
        self._observing = observing
        self._progress = progress
        self._wake = wake
        self._asking = Asking(wake)
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        run = observing.tally.cpu.counted("schedule", self._run)
        self._thread = threading.Thread(target=run, name="penstock-processor", daemon=True)
        self._catching_up = CatchingUp(progress, self._thread, wake, lambda: self._error, lambda: self.snapshot)

    def start(self) -> Self:
        """Begin.

        Raises:
            AlreadyUsed: it was begun or stopped before.
        """
        if self._is_begun or self._stopping.is_set():
            raise AlreadyUsed.of("already-started", processor=self.name)
        self._begin()
        self._thread.start()
        return self

    def stop(self) -> None:
        """End: calls that are under way are waited for, what is done is committed, and nothing new is begun.

        Of one that was never started, what is open is closed. Where a handler says so, nothing is waited for: it ends
        once that call has.
        """
        self._stopping.set()
        if not self._is_begun:
            self._let_go()
            self._ended.set()
            return
        self._wake()
        if self._observing.tally.cpu.counts_me:
            return
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended by itself, or for so many seconds; tell whether it has. `stop` says why.

        Raises:
            BadParameter: *timeout* is no number of seconds that a thread can wait.
            Unavailable: it is not started.
        """
        if not (self._is_begun or self._ended.is_set()):
            raise Unavailable(reason=NOT_STARTED)
        if timeout is not None:
            most, allowed = threading.TIMEOUT_MAX, "a number of seconds, or None: however long that takes"
            check_number("timeout", timeout, least=float("-inf"), most=most, allowed=allowed)
        return self._ended.wait(timeout)  # A thread that is joined is taken for dead where a signal breaks in.

    def wait_until_caught_up(self, timeout: float) -> None:
        """Wait until nothing is behind what is handled and committed: of tranches that are shared out, its own.

        Parked streams stay behind. What was asked for them before the call is done by then, and committed: each retried
        one is handled, or parked again.

        Raises:
            Unavailable: that has not come for so many seconds; says what is behind, which streams get nowhere, and why
                commits fail.
                Or the processor does not run.
            BadParameter: *timeout* is no number of seconds.
        """
        self._catching_up.wait(timeout)

    @property
    def snapshot(self) -> Snapshot:
        """What it had under way half a second ago at most. May be asked by any thread."""
        return self._observing.snapshot

    def behind(self) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind what is committed. May be asked by any thread."""
        return self._progress.behind()

    def approve_missing(self, stream: str, *, reason: str) -> None:
        """Have a stream go on that waits for an index which will never come: see `Rules.require_all`.

        That is on record in the log, and in the history of checkpoints that have one. `snapshot.gapped` says who waits,
        and for what. What has been approved is not handled any more, should it come.

        Raises:
            BadParameter: the stream waits for no index.
            Unavailable: the processor does not run.
            DatabaseUnavailable: it is not on record; the stream still waits.
            OutcomeUnknown: it may not be on record; likewise.
        """
        try:
            if self._thread.is_alive():
                approve_missing(stream, reason, self.engine, self._progress.record, self._asking.ask)
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
            with suppress(Exception):  # What the block has raised says more.
                self.stop()

    @property
    def _is_begun(self) -> bool:
        return self._thread.ident is not None

    def _begin(self) -> None:  # noqa: B027 - There may be nothing beside the loop.
        """Begin with what goes on beside the loop."""

    @abstractmethod
    def _let_go(self) -> None:
        """Close what is open, where it was never started."""

    @abstractmethod
    def _go_on(self) -> None:
        """Do what there is to do now, and sleep where there is nothing."""

    @abstractmethod
    def _finish(self) -> None:
        """Wait for what is under way, commit what is done, and let go of everything."""

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._go_on()
        except BaseException as error:  # noqa: BLE001 - Whoever stops or waits is told.
            self._error = error
        try:
            self._finish()
        except BaseException as error:  # noqa: BLE001 - Likewise.
            self._error = self._error or error
        self._asking.end()
        self._ended.set()
