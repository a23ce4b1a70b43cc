"""What executors do with events: run as a program, it says what has come of it, as JSON."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from penstock.errors import BadParameter
from penstock.processing import StreamEvent
from penstock.processing.outcomes import Outcome, done, done_to, retry
from penstock.processing.projections.projection import Projection
from penstock.spark.processors.calling import CallAll
from penstock.spark.processors.reading import EVENTS, Again, ProcessingPlan
from penstock.spark.projections.folding import ROWS, FoldAll, RowFinder
from penstock.spark.projections.typed_rows import KEY, POSITION, STATE, TypedRows, as_standing

TRANCHE = "order.placed/0"
PLAN = ProcessingPlan((TRANCHE,), (TRANCHE,), again={"c": Again(0, 2, 4)}, waiting=frozenset({"b"}), events_per_call=3)


class Total(msgspec.Struct):
    """What an account has come to."""

    amount: int = 0


TOTALS = Projection("totals", Total, lambda total, event: Total(total.amount + event.data["n"]))


def rows(streams: str, *, start: int = 0, again: bool = False) -> pa.RecordBatch:
    """Return an event for each letter, which is its stream, at the offsets from *start* on."""
    found = []
    for offset, stream in enumerate(streams, start):
        data = json.dumps({"n": offset})
        found.append((stream, 0, again, offset, stream, "placed", "{}", data, 1_000_000))
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*found, strict=True), EVENTS, strict=True)],
        schema=EVENTS,
    )


def handle(stream: str, events: Sequence[StreamEvent]) -> Outcome:
    """Do the first two events of `a`, fail at `d`, and do the rest."""
    if stream == "d":
        raise ValueError("not d")
    return done_to(events[2].index) if stream == "a" else retry() if stream == "e" else done()


def called() -> list[Any]:
    """Return what has come of calls: stream, whether again, first, next, state, up to where, how many passed."""
    batches = [rows("abacadaaebb", start=4), rows("abac", start=4), rows("cccc", again=True)]
    found = pa.Table.from_batches([*CallAll(PLAN, handle, None)(batches)])
    names = ["stream", "again", "first", "next", "state", "to", "passed"]
    return sorted(list(row.values()) for row in found.select(names).to_pylist())


def twice() -> str:
    """Return what is said of a source that has an index for two events."""
    first = rows("b")
    other = first.set_column(EVENTS.get_field_index("data"), EVENTS.field("data"), pa.array(["{}"]))
    try:
        list(CallAll(ProcessingPlan((TRANCHE,), (TRANCHE,)), handle, None)([first, other]))
    except BadParameter as error:
        return str(error)
    return "nothing"


def folded() -> list[Any]:
    """Return rows of two rounds, the second of which goes on from the first: key, amount, deleted, changed."""
    plan = ProcessingPlan((TRANCHE,), (TRANCHE,))
    first = pa.Table.from_batches([*FoldAll(plan, TOTALS, TOTALS.fold)([RowFinder(plan, TOTALS)(rows("aab"))])], ROWS)
    kept = pa.Table.from_batches([*TypedRows(TOTALS)(first.to_batches())])
    standing = [*as_standing(kept.select([KEY, STATE, POSITION]).to_batches())]
    more = [RowFinder(plan, TOTALS)(rows("aac", start=2)), *standing]
    second = pa.Table.from_batches([*TypedRows(TOTALS)(FoldAll(plan, TOTALS, TOTALS.fold)(more))])
    names = ["key", "amount", "penstock_deleted", "penstock_changed"]
    return sorted(list(row.values()) for row in second.select(names).to_pylist())


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"called": called(), "twice": twice(), "folded": folded()}))
