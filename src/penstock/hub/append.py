"""The bare write: what goes into the log, and where, once the heads are locked."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.core.registry.event_type import Feed
from penstock.hub.publish import Prepared
from penstock.hub.stamped import Produced
from penstock.storage.store import Block, Head, Tx


class Published(NamedTuple):
    """What a publish has stored."""

    feed: Feed
    events: int
    """How many."""
    next_offsets: dict[int, int]
    """By partition number: the offset just after."""
    produced: Produced | None = None
    """Of a batch that said who publishes it: what became of it."""


def lock_heads(tx: Tx, batches: Iterable[Prepared | None]) -> dict[int, Head]:
    """Lock the heads of all partitions that *batches* go to."""
    partition_ids = sorted({partition_id for batch in batches if batch for partition_id in batch.partition_ids})
    return tx.events.lock_heads(partition_ids) if partition_ids else {}


def is_stale(prepared: Prepared, heads: dict[int, Head]) -> bool:
    """Tell whether the event type is another by now than the one that *prepared* was made for."""
    revision = prepared.feed.revision
    return any(each not in heads or heads[each].revision != revision for each in prepared.partition_ids)


def append_rows(tx: Tx, batches: Sequence[Prepared | None], heads: dict[int, Head], now: int) -> list[Published | None]:
    """Append *batches* in their order, moving *heads* on; return what each has stored."""
    blocks: dict[int, Block] = {}
    results: list[Published | None] = []
    for batch in batches:
        if batch is None:
            results.append(None)
            continue
        next_offsets = {}
        for number, ready in batch.rows.items():
            partition_id = batch.feed.partition_ids[number]
            head = heads[partition_id]
            received_at = max(now, head.received_at)
            block = blocks.setdefault(partition_id, Block(partition_id, head.next_offset, received_at, []))
            block.rows.extend(ready)
            heads[partition_id] = head._replace(next_offset=head.next_offset + len(ready), received_at=received_at)
            next_offsets[number] = heads[partition_id].next_offset
        results.append(Published(batch.feed, batch.events, next_offsets))
    if blocks:
        tx.events.append(blocks.values())
    return results
