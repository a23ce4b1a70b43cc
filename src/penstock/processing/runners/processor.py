"""What every processor has that runs in a thread of its own: a beginning, an end, and those who wait for it."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from penstock.errors import AlreadyUsed, Unavailable
from penstock.processing.approving import approve_missing
from penstock.processing.asking import Asking, ProcessorEnded
from penstock.processing.engine.engine import Engine
from penstock.processing.parameters import check_number
from penstock.processing.progress import Progress
from penstock.processing.runners.catching_up import NOT_STARTED, CatchingUp
from penstock.processing.runners.observing import Observing
from penstock.processing.snapshot import Snapshot


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
