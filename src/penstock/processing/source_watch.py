"""Tells how far a processor is behind its source, by the source's last answer, and how long ago that was."""

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.processing.engine.item import Position

SAID_SECONDS: Final = 15.0
"""A source that has not answered for so long is said to be silent, in the log and on the terminal."""


class SourceAnswer(NamedTuple):
    """The last answer of a source about the number of events behind positions."""

    counts: Mapping[str, int | None]
    """By tranche; None: it cannot tell."""
    completed: Mapping[str, int]
    """By tranche, how many events were done at those positions."""


class _Unread(NamedTuple):
    read: Position
    gap: int
    since: float


class SourceWatch:
    """The last answer of a source. A source that does not answer keeps its last known head.

    Two things are answers: a batch, and a count of events that are behind. While reads fail, counts are none: whatever
    gives them is not what is read.
    """

    def __init__(self) -> None:
        self._answered_at: float | None = None
        self._answer = SourceAnswer({}, {})
        self._is_failing = False
        self._unread: dict[str, _Unread] = {}

    def begin(self, now: float) -> None:
        """Count from *now* on for how long there is no answer, unless that has begun already."""
        if self._answered_at is None:
            self._answered_at = now

    def read(self, now: float, *, is_answer: bool) -> None:
        """Take note that a read has succeeded; it *is_answer* where it has brought a batch, also an empty one."""
        self._is_failing = False
        if is_answer:
            self._answered_at = now

    def read_failed(self) -> None:
        """Take note that a read has failed."""
        self._is_failing = True

    def told(self, answer: SourceAnswer, now: float, *, is_wanted: bool) -> None:
        """Take note of what the source was asked at *now*.

        Where it can tell of no tranche how many events are behind, that is no answer, unless nothing of it *is_wanted*:
        then it cannot be told from one that is not asked.
        """
        self._answer = answer
        knows = not answer.counts or any(count is not None for count in answer.counts.values())
        if not self._is_failing and (knows or not is_wanted):
            self._answered_at = max(now, self._answered_at or now)

    def unanswered_seconds(self, now: float) -> float:
        """Return for how many seconds the source has not answered."""
        return 0.0 if self._answered_at is None else max(0.0, now - self._answered_at)

    def gap(self, tranche: str, ahead: int, completed: int) -> int | None:
        """Return how many events of a tranche are not done; None: the source has not said.

        Args:
            tranche: Its name.
            ahead: How many of its events are read and not done.
            completed: How many of its events were done so far.
        """
        count = self._answer.counts.get(tranche)
        if count is None:
            return None
        return max(ahead, count - (completed - self._answer.completed.get(tranche, 0)))

    def unread_since(self, tranche: str, read: Position, gap: int | None, ahead: int) -> float | None:
        """Return since when a tranche has had events that are not read, with no progress; None: none are known.

        In seconds since 1970. That is later than the source has received them.
        """
        if gap is None or gap <= ahead:
            self._unread.pop(tranche, None)
            return None
        before = self._unread.get(tranche)
        has_moved = before is None or before.read != read or gap < before.gap
        since = time.time() if before is None or has_moved else before.since
        self._unread[tranche] = _Unread(read, gap, since)
        return since


def silence(unanswered_seconds: float | None) -> str | None:
    """Return in words that a source is silent; None: it is not."""
    if unanswered_seconds is None or unanswered_seconds < SAID_SECONDS:
        return None
    return f"the source has not answered for {unanswered_seconds:.0f} s"
