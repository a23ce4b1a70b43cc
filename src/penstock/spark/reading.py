"""Reads a range of offsets on an executor: every event of it once, or an error; never less in silence."""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadCursor, CursorExpired, MalformedAnswer, PenstockError, StaleToken
from penstock.spark.heads import Heads, recreated
from penstock.spark.loss import report_loss
from penstock.spark.patience import Patience
from penstock.spark.ranges import Range


class Pages(Protocol):
    """Where pages come from: a hub."""

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[pa.RecordBatch]:
        """Read events from the start of *wanted* on, not past its end; some of them, or an error."""

    def heads(self, event_type: str) -> Heads:
        """Return what the feed has to offer now."""


def read_range(
    hub: Pages, wanted: Range, patience: Patience, *, fail_on_loss: bool, with_headers: bool
) -> Iterator[pa.RecordBatch]:
    """Read *wanted* to its end, page by page, going on where a connection broke.

    Raises:
        EventsLost: events of the range are gone, and that is to fail.
        MalformedAnswer: the hub answers with other events than were asked for.
        PenstockError: what the hub answers, when it does not pass in time.
    """
    while wanted.events > 0:
        asked = wanted
        try:
            for batch in hub.page(wanted, with_headers=with_headers):
                check_dense(batch, wanted)
                wanted = wanted._replace(start=wanted.start + batch.num_rows)
                patience.reset()
                yield batch
            if wanted == asked:
                reason = f"no events of {wanted.event_type!r} from offset {wanted.start} on, though there are some"
                raise MalformedAnswer(url=f"{wanted.event_type!r}, partition {wanted.partition},", reason=reason)
        except (CursorExpired, StaleToken, BadCursor, MalformedAnswer) as error:
            adjusted = look_again(wanted, hub.heads(wanted.event_type), fail_on_loss=fail_on_loss)
            if adjusted == wanted:
                raise error
            wanted = adjusted
        except PenstockError as error:
            patience.endure(error)


def check_dense(batch: pa.RecordBatch, wanted: Range) -> None:
    """Raise MalformedAnswer unless *batch* has the events of *wanted*, in order, each once."""
    if not batch.num_rows:
        return
    offsets = batch.column("offset")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    steps = pc.min_max(pc.pairwise_diff(offsets)).as_py() if batch.num_rows > 1 else {"min": 1, "max": 1}
    if first != wanted.start or last >= wanted.end or steps != {"min": 1, "max": 1}:
        found = f"offsets {first} to {last} in {batch.num_rows} rows"
        reason = f"{found} where {wanted.start} and those after it, before {wanted.end}, were asked for"
        raise MalformedAnswer(url=f"{wanted.event_type!r}, partition {wanted.partition},", reason=reason)


def look_again(wanted: Range, heads: Heads, *, fail_on_loss: bool) -> Range:
    """Return what is left of *wanted* now that the feed offers *heads*; *wanted* itself when nothing has changed.

    Raises:
        EventsLost: events of the range are gone, and that is to fail.
    """

    def lose(lost: int, reason: str) -> None:
        report_loss(fail_on_loss, event_type=wanted.event_type, partition=wanted.partition, lost=lost, reason=reason)

    if heads.epoch != wanted.epoch or wanted.partition >= len(heads.nexts):
        lose(
            wanted.events,
            recreated(wanted.epoch, heads.epoch),
        )
        return wanted._replace(start=wanted.end)
    floor, head = heads.floors[wanted.partition], heads.nexts[wanted.partition]
    if floor > wanted.start:
        start = min(floor, wanted.end)
        lose(start - wanted.start, "retention has removed them")
        wanted = wanted._replace(start=start)
    if head < wanted.end:
        end = max(head, wanted.start)
        lose(wanted.end - end, f"the partition ends at offset {head}")
        wanted = wanted._replace(end=end)
    return wanted._replace(partition_count=len(heads.nexts))
