"""The results of a round: a row for each call, and for each span that waits. Rows have no payload."""

import json
from collections.abc import Iterable
from operator import index
from typing import Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from penstock.processing.outcomes import Failure, Outcome
from penstock.processing.stats import Stats

State: TypeAlias = Literal["waiting", "done", "failed"]
RESULTS: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("place", pa.int32()),
        pa.field("again", pa.bool_()),
        pa.field("first", pa.int64()),
        pa.field("next", pa.int64()),
        pa.field("events", pa.int64()),
        pa.field("received", pa.int64()),
        pa.field("state", pa.string()),
        pa.field("to", pa.int64()),
        pa.field("after", pa.float64()),
        pa.field("tag", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("stats", pa.string()),
        pa.field("took", pa.float64()),
        pa.field("passed", pa.int64()),
        pa.field("computed", pa.float64()),
    ]
)
RESULTS_SQL: Final = (
    "stream string, place int, again boolean, first bigint, next bigint, events bigint, received bigint, state string, "
    "to bigint, after double, tag string, detail string, stats string, took double, passed bigint, computed double"
)
ROWS_MAX: Final = 10_000
_SPAN: Final = 7
"""The number of columns that describe the span; the others have the result."""


class Result(NamedTuple):
    """The result of a span."""

    stream: str
    place: int
    again: bool
    """True if it is from an earlier round."""
    first: int
    """The offset of its first event."""
    next: int
    """Behind its last one."""
    events: int
    received: int | None
    """When the hub received its first event, in microseconds since 1970; None: unknown."""
    state: State = "waiting"
    to: int | None = None
    after: float | None = None
    tag: str | None = None
    detail: str | None = None
    stats: str | None = None
    took: float = 0.0
    passed: int = 0
    """How many events of its stream lie below where that has come to, of those that were read: also behind the span."""
    computed: float = 0.0
    """Of the last call of a task: how many seconds of a core all its calls took."""

    def with_outcome(self, outcome: Outcome | Failure, took: float, passed: int) -> "Result":
        """Return it with the outcome of a call, which has advanced its stream by *passed* events.

        Raises:
            Exception: the handler's outcome has a value that a row cannot hold.
        """
        if isinstance(outcome, Failure):
            return self._replace(state="failed", tag=outcome.tag, detail=outcome.detail, took=took)
        to, after, tag, stats = outcome.next, outcome.after_seconds, outcome.tag, None
        if to is not None:
            to = index(to)
        if after is not None:
            after = float(after)
        if tag is not None:
            tag.encode()
        if outcome.counts is not None or outcome.stats is not None:
            counts = None if outcome.counts is None else dict(outcome.counts)
            others = None if outcome.stats is None else outcome.stats.to_json()
            stats = json.dumps([counts, others])  # ASCII: names of any text, and numbers of any size.
        # `_replace` takes twice as long, and most calls end here.
        return Result(*self[:_SPAN], "done", to, after, tag, None, stats, took, passed)

    @property
    def handled(self) -> int:
        """How many of its events are done."""
        return min(self.passed, self.events)

    @property
    def outcome(self) -> Outcome | Failure:
        """Return the outcome of its call, for the engine."""
        if self.state == "failed":
            return Failure(self.tag or "failed", self.detail or "")
        to = self.next if self.to is None else self.to
        counts, others = (None, None) if self.stats is None else json.loads(self.stats)
        stats = None if others is None else Stats.from_json(others)
        # To be wanted again from its first event on is to have come no further.
        return Outcome(-1 if to <= self.first else to, self.after, self.tag, counts, stats)


def in_batches(results: Iterable[Result]) -> Iterable[pa.RecordBatch]:
    """Yield results as rows."""
    waiting: list[Result] = []
    for result in results:
        waiting.append(result)
        if len(waiting) == ROWS_MAX:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


def results_of(table: pa.Table) -> list[Result]:
    """Return rows as results."""
    return list(map(Result, *(column.to_pylist() for column in table.columns)))


def _batch(results: list[Result]) -> pa.RecordBatch:
    columns = zip(*results, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, RESULTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RESULTS)
