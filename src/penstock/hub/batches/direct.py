"""Direct batches: the tasks of a batch publish as idempotent producers, and the hub checks their counts at the end.

A manifest fixes the number of partitions of the batch and the epoch of its tasks, which number the events of each
partition from 0. A task that runs again sends the same events with the same numbers, and they are stored once. Events
are visible before the batch is complete. docs/decisions/direct-batches.md gives the reasons.

Invariants:
    A batch keeps its manifest, even if the event type gets more partitions.
    No producer publishes in the epoch of a completed batch: late tasks are fenced.
    A batch is complete when each of its partitions holds exactly the events that its tasks have counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from penstock.core.producers import ForgottenSequences, OffsetRange, ProducerState, locate
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import (
    BatchUnfinished,
    DatabaseUnavailable,
    EventTypeNotFound,
    OutcomeUnknown,
    ProducerFenced,
    Unavailable,
)
from penstock.hub.background import Clock
from penstock.hub.batches.ledger import find_batch, find_newest, key_of, load_batch
from penstock.hub.log.publish import (
    BatchName,
    NewEvents,
    NumberedBatch,
    Preparation,
    Prepared,
    ProducerName,
    prepare_or_refuse,
)
from penstock.hub.producers.sequencing import counts_toward_limit, find_excess
from penstock.storage.batches import LedgerBatch
from penstock.storage.producers import Producer, ProducerKey
from penstock.storage.store import Store, Tx

RACES_MAX: Final = 10
NUMBERS_AT_ONCE: Final = 100_000
"""The number of events whose digests are read at once to locate them."""


class DirectBatches:
    """The direct batches of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def begin(self, name: BatchName, query: str) -> LedgerBatch:
        """Begin a batch and return it; the manifest of the first call stays.

        Raises:
            EventTypeNotFound: there is no such event type.
            BatchFenced, BatchUnfinished: see `find_batch`.
            LimitReached: a partition has too many producer groups.
            DatabaseUnavailable, Unavailable: the batch may have begun; repeat the call.
        """
        try:
            for _ in range(RACES_MAX):
                with self._store.write() as tx:
                    batch = self._find_or_begin(tx, name, query)
                if batch is not None:
                    return batch
        except OutcomeUnknown as error:
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error
        raise Unavailable(f"others keep publishing as {name.group!r}", retry_after=1)

    def complete(self, name: BatchName, query: str, counts: Mapping[int, int]) -> LedgerBatch:
        """Complete a batch whose tasks have counted *counts* events by partition; return it.

        Safe to repeat: a complete batch stays as it is.

        Raises:
            EventTypeNotFound, BatchNotFound: there is no such event type or batch.
            BatchFenced, BatchUnfinished: see `find_batch`.
            BatchUnfinished: a partition does not hold as many events as were counted.
            ProducerFenced: another producer has taken over the group.
            DatabaseUnavailable: the batch may be complete; repeat the call.
        """
        try:
            with self._store.write() as tx:
                feed = _lock_feed(tx, name)
                batch = find_batch(tx, feed, name, query, is_direct=True) or load_batch(tx, feed.id, name)
                return batch if batch.is_done else self._complete(tx, feed, name, batch, counts)
        except OutcomeUnknown as error:
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error

    def place(self, handed: NewEvents, stamped: NumberedBatch, found: Preparation) -> tuple[NewEvents, Preparation]:
        """Prepare a part of a batch again by the partition count of its manifest, if the current count refused it."""
        if isinstance(found, Prepared) or found.error.code != "partition-refused":
            return handed, found
        with self._store.read() as tx:
            batch = find_newest(tx, found.feed.id, stamped.who.group)
        if batch is None or batch.is_done or batch.epoch != stamped.stamp.epoch or batch.partitions is None:
            return handed, found
        handed = handed._replace(among=batch.partitions)
        return handed, prepare_or_refuse(found.feed, handed, self._clock(), exact=True)

    def _find_or_begin(self, tx: Tx, name: BatchName, query: str) -> LedgerBatch | None:
        """Return the batch; None if another producer of the group came first, and the call has to be repeated."""
        feed = _lock_feed(tx, name)
        batch = find_batch(tx, feed, name, query, is_direct=True)
        if batch is not None:
            return batch
        keys = _keys(feed, name.group, feed.partition_count)
        producers = _find_producers(tx, keys)
        epoch = choose_epoch(producers.values())
        if len(producers) < len(keys) or not self._claim(tx, feed, producers, epoch):
            return None
        tx.batches.begin(key_of(feed, name, query), self._clock(), partitions=feed.partition_count, epoch=epoch)
        return load_batch(tx, feed.id, name)

    def _claim(self, tx: Tx, feed: StoredFeed, producers: Mapping[ProducerKey, Producer | None], epoch: int) -> bool:
        """Claim *epoch* for the group in all partitions; return False if another hub has inserted a producer first."""
        new = sorted(key for key, producer in producers.items() if not counts_toward_limit(producer))
        if new:
            tx.log.find_heads(
                [partition_id for partition_id, _ in new], lock=True
            )  # Two claims at once could exceed it.
        for partition_id, group in new:
            who = ProducerName(feed.name, feed.partition_ids.index(partition_id), group)
            if (error := find_excess(tx, who, partition_id)) is not None:
                raise error
        for key, producer in producers.items():
            if producer is not None:
                self._raise(tx, producer, epoch)
            elif (
                tx.producers.insert(key, ProducerState(epoch, 0, 0), self._clock(), claim_id=None, is_pinned=True)
                is None
            ):
                return False
        return True

    def _raise(self, tx: Tx, producer: Producer, epoch: int) -> None:
        """Raise the epoch of a locked producer and pin it."""
        state = producer.state
        if state.epoch != epoch or not producer.is_pinned:
            state = state if state.epoch == epoch else state.begin_epoch(epoch)
            tx.producers.update(producer._replace(state=state, claim_id=None, is_pinned=True, updated_at=self._clock()))

    def _complete(
        self, tx: Tx, feed: StoredFeed, name: BatchName, batch: LedgerBatch, counts: Mapping[int, int]
    ) -> LedgerBatch:
        assert batch.partitions is not None
        assert batch.epoch is not None
        keys = _keys(feed, name.group, batch.partitions)
        tx.batches.lock([batch.id], feed.partition_ids)
        producers = _find_producers(tx, keys)
        fields = {"event_type": feed.name, "producer_group": name.group, "batch": name.number}
        offsets = {}
        for partition in sorted({*range(batch.partitions), *counts}):
            producer = producers.get(keys[partition]) if partition < batch.partitions else None
            stored, counted = _count_stored(name.group, partition, batch.epoch, producer), counts.get(partition, 0)
            if stored != counted:
                raise BatchUnfinished.of(
                    "batch-incomplete", **fields, partition=partition, counted=counted, stored=stored
                )
            if producer is not None:
                offsets[str(partition)] = [list(each) for each in _list_ranges(tx, producer)]
                self._raise(tx, producer, batch.epoch + 1)
        shown = msgspec.json.encode({partition: ranges for partition, ranges in offsets.items() if ranges}).decode()
        now = self._clock()
        done = batch._replace(done=batch.chunks, events=sum(counts.values()), offsets=shown, updated_at=now)
        tx.batches.advance(done, (), now)
        return done


def choose_epoch(producers: Iterable[Producer | None]) -> int:
    """Return the lowest epoch that is unused by all *producers* and not below any of their epochs."""
    states = [producer.state for producer in producers if producer is not None]
    highest = max((state.epoch for state in states), default=0)
    is_used = any(state.epoch == highest and (state.next != 0 or state.is_expired) for state in states)
    return highest + is_used


def _lock_feed(tx: Tx, name: BatchName) -> StoredFeed:
    feed = tx.registry.find(name.event_type, lock=True)
    if feed is None:
        raise EventTypeNotFound(event_type=name.event_type)
    return feed


def _keys(feed: StoredFeed, group: str, partitions: int) -> Sequence[ProducerKey]:
    return [(partition_id, group) for partition_id in feed.partition_ids[:partitions]]


def _find_producers(tx: Tx, keys: Sequence[ProducerKey]) -> Mapping[ProducerKey, Producer | None]:
    return tx.producers.find(sorted(keys), lock=sorted(partition_id for partition_id, _ in keys))


def _count_stored(group: str, partition: int, epoch: int, producer: Producer | None) -> int:
    """Return the number of events of *epoch* that a producer has stored.

    Raises:
        ProducerFenced: the producer has another epoch.
    """
    if producer is None:
        return 0
    if producer.state.epoch != epoch:
        fields = {"producer_group": group, "partition": partition, "current_epoch": producer.state.epoch}
        raise ProducerFenced(**fields, received=None, next_sequence=None, committed=None, ranges=[])
    return producer.state.next


def _list_ranges(tx: Tx, producer: Producer) -> Sequence[OffsetRange]:
    """Return the offsets of the events of a producer's epoch; adjacent ranges become one."""
    found: list[OffsetRange] = []
    for first in range(0, producer.state.next, NUMBERS_AT_ONCE):
        numbers = range(first, min(first + NUMBERS_AT_ONCE, producer.state.next))
        part = locate(
            tx.producers.list_batches(producer.id, producer.state.epoch, numbers.start, numbers.stop), numbers
        )
        if isinstance(part, ForgottenSequences):  # Retention has removed these events.
            continue
        if found and part and found[-1].last + 1 == part[0].first:
            part[0] = OffsetRange(found.pop().first, part[0].last)
        found += part
    return found
