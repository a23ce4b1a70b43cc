"""Handlers of several streams at once: for writes that are made as a set, in one transaction where that is wanted.

What comes of it is told stream by stream, as ever. Where a call fails as a whole, its streams are tried in halves, so
that the one at fault is found and holds no other.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.errors import BadOutcome, BadParameter
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.connecting import Connect, connector, is_nobodys, may_be_one
from penstock.processing.engine.stream import Call
from penstock.processing.handling import Classify, failure_of, settled
from penstock.processing.outcomes import ALL, Failure, Outcome, retry
from penstock.processing.parameters import check_count, check_flag, check_function, check_kind, shown

__all__ = ["Span", "Together", "Transactional"]

STREAMS_MAX: Final = 10_000
AWAY_SECONDS: Final = 1.0
AWAY: Final = retry(AWAY_SECONDS, tag="away")
"""What becomes of a call that a database has not begun, or not committed, which is no stream's fault."""


class Span(NamedTuple):
    """What one stream has to be handled."""

    stream: str
    events: Sequence[Any]
    """By index."""


Results: TypeAlias = Sequence[Any] | None
"""For each span, in their order, an outcome as any handler may return, or the exception by which it has failed.

None: all is done."""


class Together:
    """A handler that is called with many streams; one call goes on at a time.

    Args:
        handle: Takes spans, and returns what has come of each, or nothing where all is done.
        streams_max: How many spans it is given at most.

    Raises:
        BadParameter: the handler cannot be called as it would be.
    """

    def __init__(self, handle: Callable[[Sequence[Span]], Results], *, streams_max: int = STREAMS_MAX) -> None:
        check_function("handle", handle, "spans", is_async=False)
        check_count("streams_max", streams_max)
        self._handle = handle
        self.streams_max = streams_max

    def results(self, calls: Sequence[Call], classify: Classify | None) -> list[Outcome | Failure]:
        """Call the handler, and return what has come of each of *calls*."""
        return told(self._handle(spans_of(calls)), calls, classify)


class Transactional:
    """A handler that is called with many streams inside a transaction, in which its checkpoint moves, too.

    What it writes and how far it is are committed together, or not at all: each event has its effect once. Where the
    checkpoint waits for a stream that fails, or that was not among those of the call, it is kept beside it how far the
    others are: after a restart they go on from there. Whoever is started under the same name takes over: the one before
    commits nothing any more, and ends.

    Args:
        database: As for `DatabaseCheckpoints`; it must be the same one.
        handle: Takes the connection and spans; see `Together`. It does not commit. Unless it raises, what it has
            written is: also for spans that it defers, or returns an exception for.
        checkpoints: Where the processor keeps how far it is.
        streams_max: How many spans it is given at most.
        is_idempotent: Whether it keeps beside its rows what they have seen, so that events may come again after a
            restart: then it is not kept which streams are ahead of the checkpoint.
        ended: Is told after each call whether it is committed.

    Raises:
        BadParameter: the handler cannot be called as it would be, or the checkpoints are not in that database.
    """

    def __init__(
        self,
        database: str | Connect,
        handle: Callable[[Any, Sequence[Span]], Results],
        checkpoints: DatabaseCheckpoints,
        *,
        streams_max: int = STREAMS_MAX,
        is_idempotent: bool = False,
        ended: Callable[[bool], None] | None = None,
    ) -> None:
        check_function("handle", handle, "connection", "spans", is_async=False)
        check_count("streams_max", streams_max)
        check_flag("is_idempotent", is_idempotent)
        if ended is not None:
            check_function("ended", ended, "is_committed")
        allowed = "DatabaseCheckpoints of the same database: they move in its transaction"
        check_kind("checkpoints", checkpoints, DatabaseCheckpoints, allowed)
        self.connect = connector(database)
        if not may_be_one(database, checkpoints.database):
            raise BadParameter(parameter="checkpoints", value=shown(checkpoints.database), allowed=allowed)
        self.is_idempotent = is_idempotent
        self.ended = ended
        self.checkpoints = checkpoints
        self._handle = handle
        self.streams_max = streams_max

    def results(self, connection: Any, calls: Sequence[Call], classify: Classify | None) -> list[Outcome | Failure]:
        """Call the handler in the transaction that is open, and return what has come of each of *calls*."""
        return told(self._handle(connection, spans_of(calls)), calls, classify)


def spans_of(calls: Sequence[Call]) -> list[Span]:
    """Return what *calls* are to be made with."""
    return [Span(call.stream, call.events) for call in calls]


def told(returned: Results, calls: Sequence[Call], classify: Classify | None) -> list[Outcome | Failure]:
    """Return what a handler of *calls* has said of each.

    Raises:
        BadOutcome: it has said it of another number of spans, or what it has said is none.
    """
    if returned is None:
        return [ALL] * len(calls)
    if not isinstance(returned, Sequence):
        raise BadOutcome(returned=f"{returned!r:.200}")
    if len(returned) != len(calls):
        raise BadOutcome(returned=f"{len(returned)} outcomes for {len(calls)} streams")
    return [
        _blamed(each, classify) if isinstance(each, Exception) else settled(each, call.next)
        for each, call in zip(returned, calls, strict=True)
    ]


def _blamed(error: Exception, classify: Classify | None) -> Outcome | Failure:
    return AWAY if is_nobodys(error) else failure_of(error, classify)
