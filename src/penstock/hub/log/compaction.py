"""Compaction: removes events whose key has a newer one, and deletions once consumers have had time to see them.

A pass over a partition has two steps. It reads the keys of the events that came since the last pass, and keeps the last
offset of each key. Then it reads the keys of the whole partition from its floor on, and removes each event with a lower
offset than that. Memory is bounded: with more than `KEYS_MAX` keys a pass ends earlier, and the next one goes on. Each
pass records its end after the last removal, so that the next one continues there, in any hub.

A partition is compacted once it has as many new events as the last pass has left, or once the first new event is older
than `LAG_MAX`: so the work is proportional to the published events. Events younger than `DELAY` are left alone, so that
consumers which follow a feed see each of them. Events from before their event type was compacted have no compaction
key, and stay.
"""

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final

import structlog

from penstock.core.registry.event_type import StoredFeed
from penstock.hub.background import Clock, StepSize
from penstock.storage.log.removal import CompactionProgress, EventKey
from penstock.storage.store import Store

DELAY: Final = 60.0
"""Events stay at least so long, in seconds."""
LAG_MAX: Final = 3_600.0
"""Events are compacted at the latest so long after they were received, in seconds."""
DELETIONS_KEPT: Final = 86_400.0
"""How long deletions are kept if their event type sets no `retention_time`, in seconds."""
KEYS_MAX: Final = 200_000
"""The number of keys that a pass has in memory."""
STEP_EVENTS: Final = 2_000
"""The number of events whose keys are read at once."""
REMOVED_EVENTS: Final = (50, 2_000)
"""The fewest and the most events that are removed in one transaction."""
REMOVAL_SECONDS: Final = 0.02
"""About how long such a transaction takes."""
_MICROSECONDS: Final = 1_000_000
_log: Final = structlog.get_logger("penstock.compaction")


class Compactor:
    """Compacts the event types of one store, a round at a time. Not to be used from several threads.

    Any number of hubs may do so at the same time.

    Attributes:
        removed: The number of events that this process has removed.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._step = StepSize(*REMOVED_EVENTS, REMOVAL_SECONDS)
        self.removed = 0

    def run(self, pause: Callable[[float], bool] = lambda seconds: False) -> None:  # noqa: ARG005
        """Compact each partition that needs it.

        *pause*: see `penstock.hub.admin.sweeping.SweepTask`.

        Raises:
            Unavailable: the database cannot be asked.
        """
        with self._store.read() as tx:
            now = min(self._clock(), tx.now())
            feeds = [feed for feed in tx.registry.list() if feed.event_type.is_compacted]
        try:
            for feed in feeds:
                before = self.removed
                for partition_id in feed.partition_ids:
                    self._compact(feed, partition_id, now, pause)
                if self.removed > before:
                    _log.info("events were compacted", event_type=feed.name, removed=self.removed - before)
        except _StoppedError:
            return

    def _compact(self, feed: StoredFeed, partition_id: int, now: int, pause: Callable[[float], bool]) -> None:
        retention_ms = feed.event_type.definition["options"].get("retention_time")
        kept_us = retention_ms * 1_000 if retention_ms is not None else int(DELETIONS_KEPT * _MICROSECONDS)
        deletions_from = now - kept_us
        with self._store.read() as tx:
            head = tx.log.find_heads([partition_id]).get(partition_id)
            if head is None:  # Dropped meanwhile.
                return
            known = tx.removal.find_compaction(partition_id)
            lowest = max(head.floor, known.start)
            start = max(known.progress.stop, lowest)
            found = tx.log.find_first_offsets(
                {partition_id: (start, head.next_offset)}, now - int(DELAY * _MICROSECONDS)
            )
            end = found.get(partition_id, start)
            since = tx.log.find_receive_times({partition_id: start}).get(partition_id, now)
        is_late = since < now - int(LAG_MAX * _MICROSECONDS)
        is_due = end > start and (end - start >= known.progress.events or is_late)
        late_us = int(LAG_MAX * _MICROSECONDS)
        if not is_due and (
            known.progress.deletion_at is None or known.progress.deletion_at >= deletions_from - late_us
        ):
            return
        newest, end = self._find_newest(partition_id, start, end, pause)
        events, deletion_at, old = 0, None, []
        last = head.next_offset - 1  # It stays, so that hubs of an older version know where the partition goes on.
        for each in self._scan(partition_id, lowest, end, pause):
            digest = None if each.key is None else _digest(each.key)
            is_old_deletion = each.is_deletion and each.received_at < deletions_from
            is_replaced = digest is not None and each.offset < newest.get(digest, -1)
            if each.offset != last and (is_old_deletion or is_replaced):
                old.append(each.offset)
                if len(old) >= self._step.size:
                    self._remove(partition_id, old, pause)
                    old = []
                continue
            events += 1
            if (
                each.is_deletion and not is_old_deletion
            ):  # The last event, which stays, is seen again once others follow.
                deletion_at = min(each.received_at, deletion_at or each.received_at)
        self._remove(partition_id, old, pause)
        with self._store.write() as tx:
            tx.removal.put_compaction(partition_id, CompactionProgress(end, events, deletion_at))

    def _find_newest(
        self, partition_id: int, start: int, stop: int, pause: Callable[[float], bool]
    ) -> tuple[dict[bytes, int], int]:
        """Return the last offset of each key in a range, by the digest of the key, and where the range ends."""
        newest: dict[bytes, int] = {}
        for each in self._scan(partition_id, start, stop, pause):
            if each.key is not None:
                newest[_digest(each.key)] = each.offset
                if len(newest) == KEYS_MAX:
                    return newest, each.offset + 1
        return newest, stop

    def _scan(self, partition_id: int, start: int, stop: int, pause: Callable[[float], bool]) -> Iterator[EventKey]:
        while start < stop:
            began = time.monotonic()
            with self._store.read() as tx:
                found = tx.removal.list_keys(partition_id, start, stop, STEP_EVENTS)
            yield from found
            start = found[-1].offset + 1 if len(found) == STEP_EVENTS else stop
            _rest(pause, began)

    def _remove(self, partition_id: int, offsets: list[int], pause: Callable[[float], bool]) -> None:
        if not offsets:
            return
        began = time.monotonic()
        with self._store.write() as tx:
            head = tx.log.find_heads([partition_id], lock=True).get(partition_id)
            if head is not None:
                self.removed += tx.removal.remove(partition_id, [each for each in offsets if each >= head.floor])
        self._step.adapt(time.monotonic() - began)
        _rest(pause, began)


class _StoppedError(Exception):
    """The round is to end."""


def _rest(pause: Callable[[float], bool], began: float) -> None:
    if pause(time.monotonic() - began):
        raise _StoppedError


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=16).digest()
