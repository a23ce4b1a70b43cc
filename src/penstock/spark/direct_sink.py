"""Direct mode: tasks publish their rows themselves, and each row is stored once, however often it is sent.

See docs/decisions/direct-batches.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from penstock.errors import (
    BatchUnfinished,
    EventTooLarge,
    InvalidEvent,
    InvalidRecord,
    PayloadMismatch,
    PenstockError,
    ProducerFenced,
    ReplayDiffers,
)
from penstock.spark.layout import Share, shares
from penstock.spark.publishing import HubBatches, QueryBatch
from penstock.spark.rows import SHOWN_CHARS
from penstock.wire.batches import BatchStatus

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """What a task tells the driver."""

    batch: QueryBatch
    counts: Mapping[int, int] | None
    """How many events it has published, by partition; None: the batch was published before."""


def send(hub: HubBatches, batch: QueryBatch, rows: "Iterable[pa.RecordBatch]") -> Sent:
    """Publish the rows of one task.

    Raises:
        ReplayDiffers: other rows were published as this batch, before it was made again.
        InvalidRecord: a row is no valid event.
        ProducerFenced: a later batch was begun, or somebody else publishes as the group.
        PenstockError: what else the hub answers, or that it has not answered for too long.
    """
    counts: Counter[int] = Counter()
    begun: BatchStatus | None = None
    for share in shares(rows):
        if begun is None:
            begun = hub.begin(batch)
        if begun.state == "published":
            return Sent(batch, None)
        assert begun.epoch is not None
        try:
            hub.send(batch, begun.epoch, share.place, share.lines)
        except ProducerFenced:
            if hub.begin(batch).state == "published":  # By whom else the batch was made.
                return Sent(batch, None)
            raise
        except PayloadMismatch as error:
            partition, number = share.place.partition, error.differs_at
            raise _differs(batch, f"event {number} of it in partition {partition} is another one") from error
        except (InvalidEvent, EventTooLarge) as error:
            raise _named(batch.event_type, share, error) from error
        counts[share.place.partition] += share.events
    return Sent(batch, dict(counts))


def complete(hub: HubBatches, told: Sequence[Sent]) -> None:
    """Let a batch be published, which the tasks have.

    Raises:
        ReplayDiffers: other rows were published as this batch before, or several tasks published to
            one partition.
        PenstockError: what the hub answers, or that it has not answered for too long.
    """
    batch = told[0].batch
    counts: dict[int, int] = {}
    for sent in told:
        for partition, events in (sent.counts or {}).items():
            if partition in counts:
                raise ReplayDiffers.of("rows-scattered", event_type=batch.event_type, partition=partition)
            counts[partition] = events
    if hub.begin(batch).state != "published":
        try:
            hub.complete(batch, counts)
        except BatchUnfinished as error:
            if error.code != "batch-incomplete":
                raise
            reason = (
                f"it has {error.counted} events for partition {error.partition}, of which {error.stored} are stored"
            )
            raise _differs(batch, reason) from error


def _differs(batch: QueryBatch, reason: str) -> ReplayDiffers:
    told = {"event_type": batch.event_type, "producer_group": batch.group, "batch": batch.number}
    return ReplayDiffers.of("non-deterministic-replay", **told, reason=reason)


def _named(event_type: str, share: Share, error: PenstockError) -> InvalidRecord:
    """Return the error that shows the row which a request was refused for."""
    line = error.fields.get("line", 0)
    rows = bytes(share.lines).splitlines()
    row = rows[line - 1].decode(errors="backslashreplace") if 0 < line <= len(rows) else "unknown"
    return InvalidRecord.of(
        "invalid-row", event_type=event_type, reason=error.fields.get("reason") or error.detail, row=row[:SHOWN_CHARS]
    )
