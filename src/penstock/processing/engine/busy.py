"""Active calls, and failing and stalled streams with the time since when they are.

A stream *fails* if its last call has raised or is overdue. It *stalls* if calls return without an error and without
progress. Ages are known while calls are still running. A stream that alternates between the two counts as what its
last call was, from the first time it was that: without progress its age never decreases.

Source: the busy metrics of Propulsion, https://github.com/jet/propulsion.
"""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from penstock.processing.engine.stream import Call
from penstock.processing.outcomes import Failure
from penstock.processing.stats import counted_as


@dataclass(frozen=True, slots=True)
class Trouble:
    """A stream that makes no progress, and the time since when."""

    stream: str
    index: int
    """Index of the first event that is not done."""
    since: float
    """Time at which the first of the unsuccessful calls began."""
    last: float
    """Time at which the last of them began."""
    attempts: int
    tag: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Number of streams in one state, and their times in it."""

    streams: int
    attempts: int
    oldest_seconds: float
    newest_seconds: float


NONE: Final = Figures(0, 0, 0.0, 0.0)
NEWS_MAX: Final = 100


class Busy:
    """Tracks the active calls, and the streams that fail or stall."""

    def __init__(self) -> None:
        self.active: dict[str, Call] = {}
        """The active calls by stream, in the order in which they began."""
        self.failing: dict[str, Trouble] = {}
        self.stalled: dict[str, Trouble] = {}
        self._by_turns: dict[str, Trouble] = {}
        """For streams in one of these states: their trouble in the other state since they last made progress."""
        self.troubled_calls: set[str] = set()
        """The streams of active calls that had failed or stalled before, and of those that are overdue."""
        self.overdue_calls: set[str] = set()
        self.failures: Counter[str] = Counter()
        """Number of failed calls by tag. An overdue call counts as failed, however it ends."""
        self.news: deque[Trouble] = deque(maxlen=NEWS_MAX)
        """The streams that began to fail last, until the reporter removes them."""

    def begin(self, call: Call) -> None:
        """Record that a call has begun."""
        self.active[call.stream] = call
        if call.stream in self.failing or call.stream in self.stalled:
            self.troubled_calls.add(call.stream)

    def overdue(self, call: Call, failure: Failure) -> None:
        """Record that a call is overdue: it counts as failed while it still runs."""
        self.troubled_calls.add(call.stream)
        self.overdue_calls.add(call.stream)
        self._fail(call, failure)

    def failed(self, call: Call, failure: Failure) -> None:
        """Record that a call has failed."""
        self.end(call)
        if not call.is_overdue:
            self._fail(call, failure)

    def went_well(self, call: Call, *, has_progressed: bool, tag: str | None) -> None:
        """Record that a call has ended without an error."""
        self.end(call)
        if has_progressed:
            if self.failing or self.stalled:  # Else, as mostly, there is nothing to be forgotten.
                self.forget(call.stream)
        else:
            before = self._before(call.stream, self.stalled, self.failing)
            self.stalled[call.stream] = _again(before, call, tag, None)

    def end(self, call: Call) -> None:
        """Remove a call that has ended, with or without an error."""
        del self.active[call.stream]
        self.troubled_calls.discard(call.stream)
        self.overdue_calls.discard(call.stream)

    def forget(self, stream: str) -> None:
        """Remove a stream from the failing and stalled ones."""
        self.failing.pop(stream, None)
        self.stalled.pop(stream, None)
        self._by_turns.pop(stream, None)

    def figures(self, now: float) -> dict[str, Figures]:
        """Return how many streams are active, failing and stalled, and for how long."""
        begun = [call.began for call in self.active.values()]
        found = {"active": Figures(len(begun), len(begun), now - min(begun), now - max(begun)) if begun else NONE}
        for state, troubles in (("failing", self.failing), ("stalled", self.stalled)):
            if troubles:
                since = [trouble.since for trouble in troubles.values()]
                attempts = sum(trouble.attempts for trouble in troubles.values())
                found[state] = Figures(len(since), attempts, now - min(since), now - max(since))
            else:
                found[state] = NONE
        return found

    def _fail(self, call: Call, failure: Failure) -> None:
        self.failures[counted_as(failure.tag, self.failures)] += 1
        is_new = call.stream not in self.failing
        before = self._before(call.stream, self.failing, self.stalled)
        trouble = self.failing[call.stream] = _again(before, call, failure.tag, failure.detail)
        if is_new:
            self.news.append(trouble)

    def _before(self, stream: str, state: dict[str, Trouble], other: dict[str, Trouble]) -> Trouble | None:
        """Move a stream from the *other* state to *state*; return its previous trouble in *state*."""
        left = other.pop(stream, None)
        if left is None:
            return state.get(stream)
        before = self._by_turns.pop(stream, None)
        self._by_turns[stream] = left
        return before


def _again(before: Trouble | None, call: Call, tag: str | None, detail: str | None) -> Trouble:
    since, attempts = (call.began, 0) if before is None else (before.since, before.attempts)
    return Trouble(call.stream, call.index, since, call.began, attempts + 1, tag, detail)
