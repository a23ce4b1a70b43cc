"""Retention: raises the floors of partitions above events that are too old, or that exceed the size of an event type.

A floor rises in one step, in a transaction of its own; the events below it are deleted afterwards, a few at a time, by
the sweeper. Ages are measured by the clocks of this process and of the database, whichever is behind.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from penstock.core.groups.groups import slice_of, view_of
from penstock.core.log.cursor import FeedView
from penstock.core.registry.event_type import StoredFeed
from penstock.core.registry.retention import Retention, RetentionLimits
from penstock.errors import ColdFileDamaged, ColdTierUnavailable
from penstock.hub.background import Clock
from penstock.storage.cold.loading import load_and_repeat
from penstock.storage.log.events import PartitionHead
from penstock.storage.store import Store, Tx

SEGMENT_EVENTS: Final = 10_000
"""Sizes are measured by segments of this many offsets; those of whole segments are remembered."""
_log: Final = structlog.get_logger("penstock.retention")

_Offsets = dict[int, int]
"""By partition id."""


class _View(NamedTuple):
    """An event type as a round sees it."""

    tx: Tx
    feed: StoredFeed
    heads: Mapping[int, PartitionHead]
    now: int


class Overtaken(NamedTuple):
    """A consumer group that lost uncommitted events, since the event type could not wait for it any longer."""

    event_type: str
    group: str


class RetentionRunner:
    """Applies the retention of all event types of one store, a round at a time. Not to be used from several threads.

    Any number of hubs may do so at the same time.

    Attributes:
        expired: The number of offsets that this process has put below a floor, by event type.
        overtaken: The number of those that a group had not committed; 0 for each other group that is waited for.
    """

    def __init__(self, store: Store, default: Callable[[], RetentionLimits], clock: Clock) -> None:
        """*default* returns the limits of event types that set none."""
        self._store = store
        self._default = default
        self._clock = clock
        self._sizes = _SegmentSizes()
        self.expired: Counter[str] = Counter()
        self.overtaken: dict[Overtaken, int] = {}

    def run(self, pause: Callable[[float], bool] = lambda seconds: False) -> bool:  # noqa: ARG005
        """Raise floors once for each event type; return whether any has risen.

        *pause*: see `penstock.hub.admin.sweeping.SweepTask`.

        Raises:
            Unavailable: the database cannot be asked.
        """
        with self._store.read() as tx:
            now = min(self._clock(), tx.now())
            feeds = tx.registry.list()
        default, has_risen = self._default(), False
        self._sizes.keep_only({each for feed in feeds for each in feed.partition_ids})
        for feed in feeds:
            if pause(0.0):
                break
            retention = feed.event_type.find_retention(default)
            for group in retention.groups:
                self.overtaken.setdefault(Overtaken(feed.name, group), 0)
            if not retention.is_endless:
                try:
                    has_risen |= load_and_repeat(partial(self._apply, feed, retention, now))
                except (ColdTierUnavailable, ColdFileDamaged) as error:
                    _log.warning("events expire later", event_type=feed.name, reason=error.detail)
        return has_risen

    def _apply(self, feed: StoredFeed, retention: Retention, now: int) -> bool:
        with self._store.read() as tx:
            heads = tx.log.find_heads(feed.partition_ids)
            if len(heads) < feed.partition_count:  # Dropped meanwhile.
                return False
            view = _View(tx, feed, heads, now)
            floors = self._find_floors(view, retention.limits)
            lost: Counter[Overtaken] = Counter()
            if retention.groups and any(floor > heads[each].floor for each, floor in floors.items()):
                floors, lost = self._wait_for_groups(view, retention, floors)
        risen = {each: floor for each, floor in sorted(floors.items()) if floor > heads[each].floor}
        if not risen:
            return False
        with self._store.write() as tx:
            locked = tx.log.find_heads(sorted(risen), lock=True)
            if any(each not in locked or locked[each].revision != feed.revision for each in risen):
                return False  # The event type was changed meanwhile, or dropped.
            done = [each_id for each_id, floor in risen.items() if tx.removal.raise_floor(each_id, floor)]
        if not done:  # Another hub was faster.
            return False
        events = sum(risen[each_id] - heads[each_id].floor for each_id in done)
        _log.info("events have expired", event_type=feed.name, events=events)
        self.expired[feed.name] += events
        for each, events in lost.items():
            self.overtaken[each] += events
            _log.warning(
                "retention deletes events that a consumer group has not committed: it lags by more than retention_wait",
                event_type=each.event_type,
                group=each.group,
                events=events,
            )
        return True

    def _find_floors(self, view: _View, limits: RetentionLimits) -> _Offsets:
        """Return the first offset within *limits* of each partition, at least its floor."""
        tx, heads = view.tx, view.heads
        floors = {each: head.floor for each, head in heads.items()}
        if limits.time_ms is not None:
            ranges = {each: (head.floor, head.next_offset) for each, head in heads.items()}
            floors = tx.log.find_first_offsets(ranges, max(0, view.now - limits.time_ms * 1_000))
        if limits.size is not None:
            ends = {each: head.next_offset for each, head in heads.items()}
            if view.feed.event_type.is_compacted:
                self._sizes.forget(heads)
            self._sizes.forget_below({each: head.floor for each, head in heads.items()})
            floors = self._sizes.find_floors(tx, floors, ends, limits.size)
        return floors

    def _wait_for_groups(
        self, view: _View, retention: Retention, floors: _Offsets
    ) -> tuple[_Offsets, Counter[Overtaken]]:
        """Lower *floors* to the groups' committed offsets, as far as the limits of waiting allow.

        Also return the number of events that each group loses because of its lag.
        """
        name, latest = view.feed.name, self._find_floors(view, retention.waiting)
        committed = _find_committed(view.tx, view.feed, retention.groups)
        found, lost = {}, Counter[Overtaken]()
        for number, each in enumerate(view.feed.partition_ids):
            lowest = view.heads[each].floor
            offsets = {group: committed.get((group, number), 0) for group in retention.groups}
            found[each] = min(floors[each], max(lowest, latest[each], min(offsets.values())))
            for group, offset in offsets.items():
                lost[Overtaken(name, group)] += max(0, found[each] - max(offset, lowest))
        return found, +lost


def _find_committed(tx: Tx, feed: StoredFeed, groups: Sequence[str]) -> Mapping[tuple[str, int], int]:
    """Return the next offset that each group wants of each partition.

    Of several slices the one that is behind counts, and one that has never committed wants everything.
    """
    found: dict[tuple[str, int], int] = {}
    slices: dict[tuple[str, int], set[str]] = {}
    for each in tx.groups.list_standings(groups):
        if each.source == feed.name:
            place, offset = (each.group, each.tranche), each.offset if each.epoch == feed.epoch else 0
            found[place] = min(offset, found.get(place, offset))
            slices.setdefault(place, set()).add(each.slice)
    for place, known in slices.items():
        views = [view for each in known if (view := view_of(each, feed.partition_count)) is not None]
        siblings = {
            slice_of(FeedView(view.n, number, view.count))
            for view in views
            for number in range(view.partition % view.count, view.n, view.count)
            if view.slices > 1
        }
        if siblings - known:
            found[place] = 0
    return found


class _Segment(NamedTuple):
    """Consecutive offsets of a partition, and the bytes of their events."""

    start: int
    stop: int
    size: int
    is_file: bool = False
    """True if they are in a file of the cold tier."""


class _SegmentSizes:
    """Measures partitions by segments, and finds the floors at which event types keep to their size."""

    def __init__(self) -> None:
        self._whole: dict[int, dict[int, _Segment]] = {}
        """Whole segments by partition id and start."""

    def keep_only(self, partition_ids: set[int]) -> None:
        """Forget all other partitions."""
        for each in self._whole.keys() - partition_ids:
            del self._whole[each]

    def forget(self, partition_ids: Iterable[int]) -> None:
        """Forget these partitions: events of them may have been removed."""
        for each in partition_ids:
            self._whole.pop(each, None)

    def forget_below(self, floors: _Offsets) -> None:
        """Forget the segments below these floors."""
        for each, floor in floors.items():
            known = self._whole.get(each, {})
            for start in [start for start in known if start < floor]:
                del known[start]

    def find_floors(self, tx: Tx, floors: _Offsets, ends: _Offsets, limit: int) -> _Offsets:
        """Return floors, not below *floors*, above which all partitions together have at most *limit* bytes.

        *ends* are the next offsets of the partitions. The events that were received first go first.
        """
        segments = {each: deque(self._measure(tx, each, floor, ends[each])) for each, floor in floors.items()}
        excess = sum(segment.size for own in segments.values() for segment in own) - limit
        found = dict(floors)
        times = tx.log.find_receive_times(found) if excess > 0 else {}
        while excess > 0:
            oldest = min((each for each, own in segments.items() if own), key=lambda each: times.get(each, 0))
            segment = segments[oldest].popleft()
            if segment.size <= excess:
                found[oldest] = segment.stop
            elif segment.is_file:  # It goes once all of it may.
                found[oldest] = segment.start
            else:
                found[oldest] = tx.removal.find_size_stop(oldest, segment.start, segment.stop, excess)
            excess -= segment.size
            times |= tx.log.find_receive_times({oldest: found[oldest]})
        return found

    def _measure(self, tx: Tx, partition_id: int, start: int, stop: int) -> Sequence[_Segment]:
        known, found = self._whole.setdefault(partition_id, {}), list[_Segment]()
        for file in tx.cold.list([partition_id], "sealed"):
            if file.stop > start:
                size = file.content.data_bytes * (file.stop - start) // (file.stop - file.start)
                found.append(_Segment(start, file.stop, min(size, file.content.data_bytes), is_file=True))
                start = file.stop
        while start < stop:
            end = min(stop, start - start % SEGMENT_EVENTS + SEGMENT_EVENTS)
            segment = known.get(start) or _Segment(start, end, tx.removal.measure_size(partition_id, start, end))
            found.append(segment)
            start = end
        known |= {each.start: each for each in found if each.stop - each.start == SEGMENT_EVENTS and not each.is_file}
        return found
