"""Handlers of many streams at once, for writes as a set.

    Together       is called with the events of many streams
    Transactional  the same inside a transaction, in which its checkpoint moves, too

A handler of many streams returns the result of each. If a call fails as a whole, its streams are retried in halves, so
that the failing one is isolated and does not block others.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.errors import BadOutcome, BadParameter
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.database import Connect, connector, is_blameless, may_be_one
from penstock.processing.engine.stream import Call
from penstock.processing.handlers import Classify, read_outcome, to_failure
from penstock.processing.outcomes import ALL, Failure, Outcome, retry
from penstock.processing.parameters import check_count, check_flag, check_function, check_kind, redact

__all__ = ["Span", "Together", "Transactional"]

STREAMS_MAX: Final = 10_000
AWAY_SECONDS: Final = 1.0
AWAY: Final = retry(AWAY_SECONDS, tag="away")
"""The outcome of a call that the database could not begin or commit, which no stream has caused."""


class Span(NamedTuple):
    """The events of one stream to handle."""

    stream: str
    events: Sequence[Any]
    """By index."""


Results: TypeAlias = Sequence[Any] | None
"""For each span, in their order, an outcome as any handler may return, or the exception by which it has failed.

None: all is done."""


class Together:
    """A handler that is called with many streams, one call at a time.

    Args:
        handle: Takes spans, and returns the result of each, or None if all are done.
        streams_max: The maximum number of spans of a call.

    Raises:
        BadParameter: the handler cannot be called with these arguments.
    """

    def __init__(self, handle: Callable[[Sequence[Span]], Results], *, streams_max: int = STREAMS_MAX) -> None:
        check_function("handle", handle, "spans", is_async=False)
        check_count("streams_max", streams_max)
        self._handle = handle
        self.streams_max = streams_max

    def results(self, calls: Sequence[Call], classify: Classify | None) -> list[Outcome | Failure]:
        """Call the handler, and return the result of each of *calls*."""
        return read_results(self._handle(to_spans(calls)), calls, classify)


class Transactional:
    """A handler that is called with many streams inside a transaction, in which its checkpoint moves, too.

    Its writes and its checkpoint are committed together, or not at all: each event has its effect once. While the
    checkpoint waits for a stream that fails, or that was not part of the call, the database also keeps the progress of
    the other streams, which continue from there after a restart. A processor that starts under the same name takes
    over: the former one commits no more, and ends.

    Args:
        database: As for `DatabaseCheckpoints`; it must be the same one.
        handle: Takes the connection and spans; see `Together`. It does not commit. Unless it raises, its
            writes are committed, also for spans that it defers or returns an exception for.
        checkpoints: Where the processor keeps its positions.
        streams_max: The maximum number of spans of a call.
        is_idempotent: True if its rows record their applied events, so that events may come again after a restart: then
            the streams ahead of the checkpoint are not stored.
        ended: Called after each call with True if it is committed.

    Raises:
        BadParameter: the handler cannot be called with these arguments, or the checkpoints are not in that database.
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
            raise BadParameter(parameter="checkpoints", value=redact(checkpoints.database), allowed=allowed)
        self.is_idempotent = is_idempotent
        self.ended = ended
        self.checkpoints = checkpoints
        self._handle = handle
        self.streams_max = streams_max

    def results(self, connection: Any, calls: Sequence[Call], classify: Classify | None) -> list[Outcome | Failure]:
        """Call the handler in the open transaction, and return the result of each of *calls*."""
        return read_results(self._handle(connection, to_spans(calls)), calls, classify)


def to_spans(calls: Sequence[Call]) -> list[Span]:
    """Return the spans of *calls*."""
    return [Span(call.stream, call.events) for call in calls]


def read_results(returned: Results, calls: Sequence[Call], classify: Classify | None) -> list[Outcome | Failure]:
    """Return the results that a handler has *returned* for *calls*.

    Raises:
        BadOutcome: the number of results is not that of the spans, or a result is no outcome.
    """
    if returned is None:
        return [ALL] * len(calls)
    if not isinstance(returned, Sequence):
        raise BadOutcome(returned=f"{returned!r:.200}")
    if len(returned) != len(calls):
        raise BadOutcome(returned=f"{len(returned)} outcomes for {len(calls)} streams")
    return [
        ALL if each is None else _to_result(each, call.next, classify)
        for each, call in zip(returned, calls, strict=True)
    ]


def _to_result(returned: Any, end: int, classify: Classify | None) -> Outcome | Failure:
    """Return the result of one call that ends before index *end*, from a value or an exception that is *returned*."""
    if not isinstance(returned, Exception):
        return read_outcome(returned, end)
    return AWAY if is_blameless(returned) else to_failure(returned, classify)
