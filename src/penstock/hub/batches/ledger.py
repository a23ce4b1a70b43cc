"""The ledger of batches: which batch of a producer group was begun, and how much of it is in the log.

The committer reads and writes it inside its append transactions: a batch is locked before it is judged, and before
producers and the heads of partitions are locked (docs/decisions/staged-batches.md).
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from penstock.core.registry.event_type import StoredFeed
from penstock.errors import BatchFenced, BatchNotFound, BatchRefused
from penstock.hub.log.publish import AppendResult, BatchName, BatchPiece, Prepared
from penstock.storage.batches import BatchKey, LedgerBatch
from penstock.storage.store import Tx

Offsets = Mapping[str, Sequence[Sequence[int]]]
"""By partition: ranges of offsets, each with its first and last."""


def find_batch(tx: Tx, feed: StoredFeed, name: BatchName, query: str) -> LedgerBatch | None:
    """Return a batch that was begun before; None if this one may begin.

    Raises:
        BatchFenced, BatchRefused: this or the last batch belongs to another query.
        BatchFenced, BatchRefused: a later batch was begun, or the one before is not complete.
    """
    fields = {"event_type": feed.name, "producer_group": name.group, "batch": name.number}
    newest = find_newest(tx, feed.id, name.group)
    if newest is None:
        return None
    if newest.query != query:
        raise BatchFenced.of("batch-of-another-query", **fields, newest=newest.number, query=newest.query)
    for batch in tx.batches.list(feed.id, name.group, number=name.number):
        return batch
    if newest.number > name.number:
        raise BatchFenced.of("batch-superseded", **fields, newest=newest.number)
    if not newest.is_done:
        raise BatchRefused.of("batch-unfinished", **fields, newest=newest.number, retry_after=1)
    return None


def find_newest(tx: Tx, event_type_id: int, group: str) -> LedgerBatch | None:
    """Return the newest batch of a producer group, or None."""
    return next(iter(tx.batches.list(event_type_id, group)), None)


def load_batch(tx: Tx, event_type_id: int, name: BatchName) -> LedgerBatch:
    """Return the batch of that name.

    Raises:
        BatchNotFound: there is none.
    """
    for batch in tx.batches.list(event_type_id, name.group, number=name.number):
        return batch
    raise BatchNotFound(event_type=name.event_type, producer_group=name.group, batch=name.number)


def key_of(feed: StoredFeed, name: BatchName, query: str) -> BatchKey:
    """Return the key of a batch in the ledger."""
    return BatchKey(feed.id, name.group, name.number, query)


class BatchTurns:
    """Decides which pieces are next in their batches, after locking the batches."""

    def __init__(self, tx: Tx, pieces: Iterable[BatchPiece], partition_ids: Sequence[int]) -> None:
        """Lock the batches of *pieces*; *partition_ids* are all partitions that the transaction appends to."""
        ids = sorted({piece.batch.id for piece in pieces})
        self._batches = dict(tx.batches.lock(ids, partition_ids)) if ids else {}

    def take(self, piece: BatchPiece) -> bool:
        """Return whether *piece* is the next of its batch; False if it or another piece was appended first."""
        batch = self._batches.pop(piece.batch.id, None)
        return batch is not None and batch.done == piece.batch.done


def record_piece(tx: Tx, piece: BatchPiece, appended: Prepared, published: AppendResult, now: int) -> None:
    """Record that *piece* was *appended*, and record its invalid lines as rejected."""
    batch = piece.batch
    if piece.rejected:
        tx.outbox.reject(piece.rejected, now)
    batch = batch._replace(
        done=batch.done + len(piece.chunks),
        events=batch.events + published.events,
        rejected=batch.rejected + len(piece.rejected),
        offsets=json.dumps(_extend(json.loads(batch.offsets), appended, published), separators=(",", ":")),
    )
    tx.batches.advance(batch, piece.chunks, now)


def _extend(offsets: Offsets, appended: Prepared, published: AppendResult) -> Offsets:
    """Return *offsets* with the offsets of the appended events; adjacent ranges become one."""
    found = {partition: [list(each) for each in ranges] for partition, ranges in offsets.items()}
    for number, rows in appended.rows.items():
        stop = published.next_offsets[number]
        first, ranges = stop - len(rows), found.setdefault(str(number), [])
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1][1] = stop - 1
        else:
            ranges.append([first, stop - 1])
    return found
