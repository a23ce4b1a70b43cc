"""Waits until a processor has nothing behind what is handled and committed."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import chain, repeat
from typing import Final

from penstock.errors import PenstockError, Unavailable
from penstock.processing.parameters import check_number
from penstock.processing.progress import Progress
from penstock.processing.snapshot import BusyStream, Snapshot
from penstock.wire.http import is_transient

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
