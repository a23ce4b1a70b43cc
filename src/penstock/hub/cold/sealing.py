"""Sealing: moves the oldest events of partitions into files of the cold tier.

A range leaves the database in steps, each of which can be the last one before a crash:

1. The manifest records the path of the file that is going to be written.
2. The file is written, read back, and verified.
3. One transaction, with the head of the partition locked, records that the file has the range and that the partition's
   events below its end are in files. It does nothing if events of the range were erased meanwhile.
4. The sweeper deletes these events from the database.

A file that a killed hub was writing is deleted after `ABANDONED_SECONDS`; a file whose events have expired once no
reader uses it. Each round also closes files that other processes have deleted: their bytes stay on a disk for
as long as they are open.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.cold.description import FileContent, FileDescription
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import ColdTierUnavailable, ColdTierUnsuitable, PenstockError, Unavailable
from penstock.hub.background import Background, Clock
from penstock.hub.cold.files import attach, check_none_needed, delete_files, give_up
from penstock.hub.log.read import Reader
from penstock.schema.parsing import parse_schema
from penstock.storage.log.events import NONE
from penstock.storage.log.removal import Range
from penstock.storage.store import Store, Tx

if TYPE_CHECKING:
    import pyarrow as pa

SEAL_AFTER_SECONDS: Final = 86_400.0
"""The age at which events are sealed, in seconds, unless another is given."""
FILE_BYTES: Final = 128 << 20
"""A file ends once it has so much data, before compression."""
SAMPLE_ROWS: Final = 1_000
"""The number of events by which the size of a range is estimated."""
PAUSE_SHARE: Final = 2.0
"""After each chunk that is encoded others get so much of the time that it took."""
SEAL_INTERVALS: Final = (1.0, 60.0)
"""The least and the most seconds between two rounds: a tenth of the age at which events are sealed."""
ABANDONED_SECONDS: Final = 1_800.0
"""A file that is being written for so long is given up: its hub was killed.

This is more than a hub that is alive may take for a file of `FILE_BYTES`, by `WRITE_SECONDS` and `WRITE_RATE` of
`penstock.storage.cold.tier`.
"""
KEPT_SECONDS: Final = 60.0
"""A file is deleted so long after it was given up: readers may be in it."""
FILES_MAX: Final = 1_000
_log: Final = structlog.get_logger("penstock.cold")


class SealingOptions(NamedTuple):
    """When events are sealed."""

    after_seconds: float | None = SEAL_AFTER_SECONDS
    """The age of events that are sealed, in seconds; None: no more are sealed."""
    file_bytes: int = FILE_BYTES
    """The size of a file, in bytes of data before compression; once its oldest event is twice as old, a smaller one is
    written."""
    is_typed: bool = True
    """True if files have columns for the members that the schemas of event types name."""


class _Candidate(NamedTuple):
    """A range that can be sealed."""

    feed: StoredFeed
    partition: int
    start: int
    stop: int

    @property
    def partition_id(self) -> int:
        return self.feed.partition_ids[self.partition]


class _Written(NamedTuple):
    """A range as a file."""

    stop: int
    holes: Sequence[Range]
    """The offsets of the range whose events had been removed one by one when it was read."""
    body: "pa.Buffer"
    content: FileContent


class Sealer:
    """Seals the events of one store, a round at a time. Any number of hubs may do so at the same time.

    Attributes:
        sealed: The number of events that this process has sealed, by event type.
        overdue_since: When the oldest event that is not sealed should have been, in microseconds since 1970; None: none
            should have been, at the last look.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        reader: Reader,
        sweep: Callable[[], object],
        options: SealingOptions = SealingOptions(),  # noqa: B008 - it is immutable
    ) -> None:
        """*sweep* has events deleted that were sealed, after a round that has changed files."""
        self._store = store
        self._clock = clock
        self._reader = reader
        self._sweep = sweep
        self._options = options
        self._stop_wanted = threading.Event()
        self._thread = Background("penstock-sealer", self._run)
        self.sealed: Counter[str] = Counter()
        self.overdue_since: int | None = None

    def start(self) -> None:
        """Check whose cold tier it is, and start sealing; do nothing if the store has no cold tier.

        Raises:
            ColdTierUnsuitable: the cold tier is not that of the database, or the database has one that was not named.
            DatabaseUnavailable: the database cannot be reached.
        """
        if self._store.cold is None:
            check_none_needed(self._store)
            return
        try:
            attach(self._store)
        except ColdTierUnsuitable:
            raise
        except PenstockError as error:
            _log.warning("the cold tier cannot be used yet", reason=error.detail)
        self._thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """End after the current file; return whether that was within *timeout*."""
        self._stop_wanted.set()
        return self._thread.wait_for_end(timeout)

    def run(self, event_types: Collection[str] | None = None) -> bool:
        """Seal events that are old enough, and delete files that are no longer needed; return whether there was work.

        With *event_types*, only these are sealed.

        Raises:
            Unavailable: the database or the cold tier is unavailable; nothing was lost.
            ColdTierUnsuitable: the cold tier belongs to another database.
        """
        if self._store.cold is None:
            return False
        self._forget_deleted()
        candidates = self._find_candidates(event_types) if self._options.after_seconds is not None else ()
        attach(self._store)
        done = self._delete_unneeded()
        for each in candidates:
            if self._stop_wanted.is_set():
                return done
            self._forget_deleted()
            done = self._attempt(each) or done
        if done:
            self._sweep()
        return done

    def _forget_deleted(self) -> None:
        """Close the files that another process has deleted."""
        tier = self._store.cold
        assert tier is not None
        if found := tier.list_open():
            with self._store.read() as tx:
                known = tx.cold.find_known(found)
            for path in found - known:
                tier.forget(path)

    def _attempt(self, wanted: _Candidate) -> bool:
        """Seal a range; return whether it is sealed. One that cannot be keeps no others waiting."""
        try:
            return self._seal(wanted)
        except Unavailable:  # No other can be sealed now either.
            raise
        except Exception as error:  # noqa: BLE001 - whatever the events of one event type are
            _log.warning(
                "a range cannot be sealed",
                event_type=wanted.feed.name,
                partition=wanted.partition,
                start=wanted.start,
                reason=str(error),
            )
            return False

    def _run(self) -> None:
        while not self._stop_wanted.is_set():
            try:
                while self.run() and not self._stop_wanted.is_set():
                    pass
            except Exception as error:  # noqa: BLE001 - if this thread ended, nothing would be sealed
                _log.warning("sealing failed, trying again", reason=str(error))
            least, most = SEAL_INTERVALS
            age = self._options.after_seconds
            self._stop_wanted.wait(most if age is None else min(most, max(least, age / 10)))

    def _find_candidates(self, event_types: Collection[str] | None) -> Sequence[_Candidate]:
        """Return the ranges that are old enough and large enough, one of each partition at most."""
        assert self._options.after_seconds is not None
        age = int(self._options.after_seconds * 1_000_000)
        found, overdue = [], list[int]()
        with self._store.read() as tx:
            now = min(self._clock(), tx.now())
            for feed in tx.registry.list():
                if feed.event_type.is_compacted or (event_types is not None and feed.name not in event_types):
                    continue
                heads = tx.log.find_heads(feed.partition_ids)
                ranges = {
                    each: (max(head.floor, head.cold_stop), head.next_offset - 1)  # The last event stays.
                    for each, head in heads.items()
                    if max(head.floor, head.cold_stop) < head.next_offset - 1
                }
                if not ranges:
                    continue
                stops = tx.log.find_first_offsets(ranges, now - age + 1)
                times = tx.log.find_receive_times({each: start for each, (start, _) in ranges.items()})
                for partition, each in enumerate(feed.partition_ids):
                    if each in ranges and stops.get(each, 0) > ranges[each][0]:
                        start, stop = ranges[each][0], stops[each]
                        is_late = times.get(each, now) <= now - 2 * age
                        if is_late:
                            overdue.append(times.get(each, now) + 2 * age)
                        if is_late or self._estimate(tx, each, start, stop) >= self._options.file_bytes:
                            found.append(_Candidate(feed, partition, start, stop))
        self.overdue_since = min(overdue, default=None)
        return found

    @staticmethod
    def _estimate(tx: Tx, partition_id: int, start: int, stop: int) -> float:
        """Return about how many bytes of data a range has."""
        rows = min(SAMPLE_ROWS, stop - start)
        return tx.removal.measure_size(partition_id, start, start + rows) / rows * (stop - start)

    def _seal(self, wanted: _Candidate) -> bool:
        """Seal a range up to the size of a file; return whether it is sealed."""
        from penstock.storage.cold.tier import make_path

        tier = self._store.cold
        assert tier is not None
        if self._is_being_sealed(wanted):
            return False
        written = self._encode(wanted)
        path = make_path(wanted.feed.name, wanted.partition, wanted.start, written.stop)
        with self._store.write() as tx:
            if not self._is_current(tx, wanted, written):
                return False  # An erasure that waits for all files being written does not wait for this one.
            tx.cold.begin(path, wanted.partition_id, wanted.start, written.stop, self._clock())
        try:
            tier.write(path, written.body, written.content)
            with self._store.write() as tx:
                is_sealed = self._record(tx, wanted, path, written)
        except BaseException:
            give_up(self._store, [path], self._clock())
            raise
        if not is_sealed:
            give_up(self._store, [path], self._clock())
            delete_files(self._store, [path])  # Another hub may have forgotten it before it was there.
            return False
        self.sealed[wanted.feed.name] += written.content.events
        _log.info(
            "events were sealed",
            event_type=wanted.feed.name,
            partition=wanted.partition,
            start=wanted.start,
            stop=written.stop,
            path=path,
        )
        return True

    def _is_being_sealed(self, wanted: _Candidate) -> bool:
        """Return whether another hub is writing a file of the partition."""
        with self._store.read() as tx:
            return bool(tx.cold.list([wanted.partition_id], "writing", limit=1))

    def _encode(self, wanted: _Candidate) -> _Written:
        """Return the events of a range as a file, up to the size of one."""
        from penstock.cold.parquet import FileWriter
        from penstock.core.log.arrow import record_batch

        tier = self._store.cold
        assert tier is not None and tier.id is not None
        with self._store.read() as tx:
            holes = tx.removal.list_holes(wanted.partition_id, wanted.start, wanted.stop)
        reading = self._reader.open_range(
            wanted.feed, wanted.partition, wanted.start, wanted.stop, wanted.stop - wanted.start
        )
        [track] = reading.tracks
        typed = None
        if self._options.is_typed:
            from penstock.typed.columns import event_columns

            event_type = wanted.feed.event_type
            typed = event_columns(parse_schema(event_type.definition["schema"]["schema"]), event_type.category)
        writer = FileWriter(typed)
        while writer.data_bytes < self._options.file_bytes:
            began = time.monotonic()
            chunk = self._reader.read_next_columns(reading, track)
            if chunk is None:
                break
            if chunk.rows:
                writer.add(record_batch(wanted.partition, chunk.offsets, chunk.columns, NONE))
            track.advance(chunk.range, chunk.rows, is_filtered=False)
            self._stop_wanted.wait(PAUSE_SHARE * (time.monotonic() - began))
        stop = track.offsets[wanted.partition]
        description = FileDescription(
            tier=tier.id,
            event_type=wanted.feed.name,
            epoch=wanted.feed.epoch,
            partition=wanted.partition,
            partition_count=wanted.feed.partition_count,
            start=wanted.start,
            stop=stop,
            created_at=wanted.feed.created_at,
            definition=wanted.feed.event_type.definition,
            written_at=self._clock(),
        )
        body, content = writer.finish(description)
        return _Written(stop, cut_ranges(holes, stop), body, content)

    def _record(self, tx: Tx, wanted: _Candidate, path: str, written: _Written) -> bool:
        """Record that a file has a range; return False if it must not, since the partition has changed meanwhile."""
        if not self._is_current(tx, wanted, written):
            return False
        if not tx.cold.seal(path, written.content, len(written.body), self._clock()):
            return False
        tx.cold.set_stop(wanted.partition_id, written.stop)
        return True

    @staticmethod
    def _is_current(tx: Tx, wanted: _Candidate, written: _Written) -> bool:
        """Return whether a range can be sealed as it was read; lock the head of its partition."""
        partition_id, start, stop = wanted.partition_id, wanted.start, written.stop
        head = tx.log.find_heads([partition_id], lock=True).get(partition_id)
        if head is None or head.floor >= stop:
            return False
        feed = tx.registry.find(wanted.feed.name)
        if feed is None or feed.event_type.is_compacted:
            return False
        follows = head.cold_stop == start or head.cold_stop < start <= head.floor
        return follows and cut_ranges(tx.removal.list_holes(partition_id, start, stop), stop) == written.holes

    def _delete_unneeded(self) -> bool:
        """Delete files that are no longer needed; return whether there were any."""
        now = self._clock()
        with self._store.write() as tx:
            tx.cold.give_up_unneeded(ABANDONED_SECONDS, now)
            removed = tx.cold.list(state="removed", limit=FILES_MAX)
        kept = range(now - int(KEPT_SECONDS * 1_000_000) + 1, now + int(ABANDONED_SECONDS * 1_000_000))
        paths = [each.path for each in removed if each.changed_at not in kept]  # Or a clock was set back.
        for path in paths:
            try:
                delete_files(self._store, [path])
            except ColdTierUnavailable as error:  # Sealing goes on without it.
                _log.warning("a file of the cold tier cannot be deleted", path=path, reason=error.detail)
                return False
        return bool(paths)


def cut_ranges(ranges: Sequence[Range], stop: int) -> list[Range]:
    """Return the parts of *ranges* below *stop*.

    >>> cut_ranges([(1, 4), (6, 9), (11, 12)], 8)
    [(1, 4), (6, 8)]
    """
    return [(start, min(past, stop)) for start, past in ranges if start < stop]
