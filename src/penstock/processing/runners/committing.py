"""Commits a processor's progress at intervals, in a thread, so that the processor does not wait."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.errors import CheckpointMoved, DatabaseUnsuitable, OutcomeUnknown, PenstockError
from penstock.processing.parameters import check_seconds
from penstock.processing.progress import Progress
from penstock.processing.runners.inbox import Errands, Inbox
from penstock.processing.runners.observing import is_said
from penstock.processing.snapshot import Tally
from penstock.wire.http import is_transient

LAST_ATTEMPTS: Final = 3
LAST_PAUSE_SECONDS: Final = 0.5
LAST_SECONDS_MAX: Final = 10.0
"""Seconds after which no attempt follows: with a locked database, each attempt waits for the lock's timeout."""
SOON_INTERVAL: Final = 0.01
"""Minimum seconds between commits while a caller waits for them."""
HOPELESS: Final = (CheckpointMoved, DatabaseUnsuitable)
"""Errors after which a processor that ends does not try a last commit."""
_log: Final = logging.getLogger("penstock.processing")


class Committing:
    """Commits positions in a thread of its own. The next commit includes the progress of a failed one.

    The log reports the first, second, fourth, eighth … consecutive failure.

    Args:
        progress: The progress to commit.
        inbox: Receives the results, for the loop.
        clock: Returns monotonic seconds.
        interval: Seconds between commits.
        tally: Counts commits and their failures.

    Raises:
        BadParameter: *interval*, the processor's `commit_interval`, is not a number of seconds.
    """

    def __init__(
        self, progress: Progress, inbox: Inbox, clock: Callable[[], float], interval: float, *, tally: Tally
    ) -> None:
        check_seconds("commit_interval", interval, zero=True)
        self._progress = progress
        self._clock = clock
        self._interval = interval
        self._errands = Errands(inbox, "penstock-committer", partial(tally.cpu.counted, "commit"))
        self._at: float | None = None
        self._tally = tally

    @property
    def is_busy(self) -> bool:
        """True if a commit is in progress."""
        return self._errands.is_busy

    def start(self) -> None:
        """Start the thread."""
        self._errands.start()

    def commit(self, now: float, *, at_once: bool) -> None:
        """Commit if the interval has passed, or soon if *at_once*, unless a commit is in progress."""
        interval = min(self._interval, SOON_INTERVAL) if at_once else self._interval
        if self._errands.is_busy or (self._at is not None and now - self._at < interval):
            return
        progress = self._progress
        advance = progress.advance()
        is_wanted = advance or progress.has_parked
        if is_wanted or self._at is not None:  # The first position is stored at once: a restart might begin elsewhere.
            self._at = now
        if is_wanted:
            self._tally.commit_began = now
            self._errands.do(
                lambda: progress.write(advance),
                lambda requests: self._committed(partial(progress.committed, advance, requests)),
                self._failed,
            )

    def stop(self) -> None:
        """Stop the thread after the commit in progress."""
        self._errands.stop()

    def _committed(self, note: Callable[[], object]) -> None:
        self._tally.committed()
        note()

    def _failed(self, error: BaseException) -> None:
        self._tally.commit_began = None
        if isinstance(error, CheckpointMoved):
            self._progress.concede(error)
        else:
            note_failure(error, self._tally)


def commit_the_last(
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
            _commit_what_is_left(progress)
        except PenstockError as error:
            note_failure(error, tally)
            if attempt < LAST_ATTEMPTS and clock() - began < LAST_SECONDS_MAX:
                time.sleep(LAST_PAUSE_SECONDS)
            else:
                _log.warning("the last commit has failed, and what is done since comes again: %s", error.detail)
                return
        else:
            tally.committed()
            return


def _commit_what_is_left(progress: Progress) -> None:
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
    tally.commit_failed(error.detail)
    failing = tally.commits_failing
    if is_said(failing):
        count = "a commit has" if failing == 1 else f"{failing} commits in a row have"
        _log.warning("%s failed, and what is done is kept by the next: %s", count, error.detail)
