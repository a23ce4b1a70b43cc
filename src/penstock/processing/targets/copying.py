"""A handler that copies streams to a target, and continues from the target's progress."""

import threading
from collections.abc import Sequence
from random import Random
from typing import Final

from penstock.processing.engine.rules import Backoff
from penstock.processing.handlers import Handler
from penstock.processing.outcomes import Outcome, done_to, retry, skip_to
from penstock.processing.parameters import check_flag, check_kind, check_members
from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.target import Duplicate, Partial, PrefixMissing, SyncTarget, Written

BACKOFF: Final = Backoff(first_seconds=0.5)


def copy_streams(
    target: SyncTarget, *, dense: bool, backoff: Backoff = BACKOFF, random: Random | None = None
) -> Handler:
    """Return a handler that appends each span to *target*.

    A stream continues from the target's progress: events below it are done, whatever process has copied them. If the
    target lacks events before a span, the span comes again after a pause. Outcomes have the tags
    `written`, `duplicate`, `partial` and `prefix-missing`, and count events under `written`, `duplicate` and `waiting`.

    Args:
        target: The target to copy to.
        dense: True if the indices of the source's streams have no gaps, from 0 on (`Source.is_dense`), so that missing
            events can be detected. Those of a hub's feed have gaps.
        backoff: The pauses of a stream whose beginning is missing.
        random: The random numbers for the jitter of these pauses.

    Raises:
        BadParameter: an argument is of another kind.
    """
    check_members(
        "target", target, SyncTarget, "one that streams are appended to, such as HubTarget or MessagedbTarget"
    )
    check_flag("dense", dense)
    check_kind("backoff", backoff, Backoff, "Backoff(…)")
    check_kind("random", random, Random | None, "a random.Random, or None")
    return _StreamCopier(target, dense, backoff, random or Random())  # noqa: S311 - Of delays.


class _StreamCopier:
    """Appends spans, and counts the pauses of each stream without progress."""

    def __init__(self, target: SyncTarget, dense: bool, backoff: Backoff, random: Random) -> None:
        self._target = target
        self._dense = dense
        self._backoff = backoff
        self._random = random
        self._waits: dict[str, int] = {}
        self._turn = threading.Lock()

    def __call__(self, stream: str, events: Sequence[StreamEvent]) -> Outcome:
        first, end = events[0].index, events[-1].next
        attained = self._target.append(stream, first if self._dense else None, events)
        if isinstance(attained, PrefixMissing) or attained.position <= first:
            return retry(self._pause(stream), tag="prefix-missing", waiting=len(events))
        with self._turn:
            self._waits.pop(stream, None)
        tag, counts = _count_events(attained, events)
        make = skip_to if attained.position > end else done_to
        return make(attained.position, tag=tag, stats=None, **counts)

    def _pause(self, stream: str) -> float:
        with self._turn:
            attempts = self._waits[stream] = self._waits.get(stream, 0) + 1
            return self._backoff.delay(attempts, self._random.random())


def _count_events(attained: Written | Duplicate | Partial, events: Sequence[StreamEvent]) -> tuple[str, dict[str, int]]:
    """Return the tag of an *attained* result, and its counts of *events*."""
    match attained:
        case Written():
            return "written", {"written": len(events)}
        case Duplicate():
            return "duplicate", {"duplicate": len(events)}
        case Partial(position, count):
            waiting = sum(event.index >= position for event in events)
            return "partial", {"written": count, "duplicate": len(events) - count - waiting, "waiting": waiting}
