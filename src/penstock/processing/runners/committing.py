"""Commits for a processor, as often as it is to be, without holding it up."""

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
from penstock.processing.tally import Tally
from penstock.wire.http import is_transient

LAST_ATTEMPTS: Final = 3
LAST_PAUSE_SECONDS: Final = 0.5
LAST_SECONDS_MAX: Final = 10.0
"""After so long it is not tried once more: a database that is locked keeps each commit waiting for its own time."""
SOON_INTERVAL: Final = 0.01
"""How often at most it commits while somebody waits for that."""
HOPELESS: Final = (CheckpointMoved, DatabaseUnsuitable)
"""What has ended a processor that need not try to commit once more."""
_log: Final = logging.getLogger("penstock.processing")


class Committing:
    """Has positions committed, in a thread of its own. A commit that fails is made up for by the next.

    The log says so of the first in a row that fails, the second, the fourth and so on.

    Args:
        progress: What is committed.
        inbox: Where the loop hears of it.
        clock: Seconds that never go back.
        interval: How often.
        tally: Where they are counted.

    Raises:
        BadParameter: *interval*, which is a processor's `commit_interval`, is no number of seconds.
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
        """Whether a commit is under way."""
        return self._errands.is_busy

    def start(self) -> None:
        """Begin."""
        self._errands.start()

    def commit(self, now: float, *, at_once: bool) -> None:
        """Commit, if it is time to or is to be *at_once*, unless a commit is under way."""
        interval = min(self._interval, SOON_INTERVAL) if at_once else self._interval
        if self._errands.is_busy or (self._at is not None and now - self._at < interval):
            return
        progress = self._progress
        advance = progress.advance()
        is_wanted = advance or progress.has_parked
        if is_wanted or self._at is not None:  # Where it begins is kept at once: another time that may be elsewhere.
            self._at = now
        if is_wanted:
            self._tally.commit_began = now
            self._errands.do(
                lambda: progress.write(advance),
                lambda requests: self._committed(partial(progress.committed, advance, requests)),
                self._failed,
            )

    def stop(self) -> None:
        """End, once what is being committed is."""
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
    """Commit what is left of a processor that ends; what cannot be committed comes again another time: the log says so.

    Args:
        progress: What is committed.
        tally: Where it is counted.
        clock: Seconds that never go back.
        look: Is called before each attempt.

    Raises:
        Exception: what no later commit makes up for.
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
    """Take note of a commit that has failed, and have the log say so, unless that was said often enough.

    Raises:
        BaseException: *error*, where no later commit makes up for it: the processor ends.
    """
    if not isinstance(error, PenstockError) or not (is_transient(error) or isinstance(error, OutcomeUnknown)):
        raise error
    tally.commit_failed(error.detail)
    failing = tally.commits_failing
    if is_said(failing):
        count = "a commit has" if failing == 1 else f"{failing} commits in a row have"
        _log.warning("%s failed, and what is done is kept by the next: %s", count, error.detail)
