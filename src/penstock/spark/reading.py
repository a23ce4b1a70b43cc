"""Reads a range of offsets on an executor: every event of it once, or an error; never less in silence."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.log.arrow import SCHEMA
from penstock.core.log.cursor import parse_cursor
from penstock.errors import BadCursor, CursorExpired, MalformedAnswer, PenstockError, StaleToken
from penstock.spark.heads import Heads, explain_new_epoch, report_loss
from penstock.spark.patience import Patience
from penstock.spark.planning import Range


class PagePart(NamedTuple):
    """A part of a page."""

    batch: pa.RecordBatch
    end: int
    """The offset just after all that it stands for: its events, and those that are not shown to anybody."""


class PageSource(Protocol):
    """Where pages come from: a hub."""

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[PagePart]:
        """Read events from the start of *wanted* on, not past its end; some of them, or an error."""

    def heads(self, event_type: str) -> Heads:
        """Return what the feed has to offer now."""


def read_range(
    hub: PageSource, wanted: Range, patience: Patience, *, fail_on_loss: bool, with_headers: bool
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
            for part in hub.page(wanted, with_headers=with_headers):
                check_place(part, wanted)
                wanted = wanted._replace(start=part.end)
                patience.reset()
                if part.batch.num_rows:
                    yield part.batch
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


def check_place(part: PagePart, wanted: Range) -> None:
    """Raise MalformedAnswer unless *part* begins where *wanted* does, its events in order, each once.

    Where a page leaves nothing out, its parts end after as many offsets as they have events: then none is missing.
    """
    if not part.batch.num_rows:
        return
    offsets = part.batch.column("offset")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    step = pc.min(pc.pairwise_diff(offsets)).as_py() if part.batch.num_rows > 1 else 1
    if not (wanted.start <= first and last < part.end <= wanted.end and step >= 1):
        found = f"offsets {first} to {last} in {part.batch.num_rows} rows"
        reason = f"{found} where {wanted.start} and those after it, before {wanted.end}, were asked for"
        raise MalformedAnswer(url=f"{wanted.event_type!r}, partition {wanted.partition},", reason=reason)


def sift(batches: list[pa.RecordBatch], wanted: Range, left_out: str, cursor: str) -> Iterator[PagePart]:
    """Yield the parts of a page that omits *left_out* events before its cursor.

    Raises:
        MalformedAnswer: shown and omitted events do not add up to the cursor.
    """
    shown = sum(batch.num_rows for batch in batches)
    try:
        [end] = parse_cursor(cursor, "cursor", wanted.event_type).offsets
        is_all = end - wanted.start == shown + int(left_out)
    except (ValueError, BadCursor):
        is_all = False
    if not is_all:
        reason = f"it shows {shown} events, leaves {left_out} out, and goes from {wanted.start} to {cursor!r}"
        raise MalformedAnswer(url=f"{wanted.event_type!r}, partition {wanted.partition},", reason=reason)
    for batch in batches[:-1]:
        yield PagePart(batch, batch.column("offset")[-1].as_py() + 1 if batch.num_rows else wanted.start)
    yield PagePart(batches[-1] if batches else pa.RecordBatch.from_pylist([], SCHEMA), end)


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
            explain_new_epoch(wanted.epoch, heads.epoch),
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
