"""Reads feeds: resolves cursors, and reads pages chunk by chunk.

Invariants:
    A page is never decoded, and no transaction outlives a chunk.
    A chunk is bounded in rows and, unless a single event is larger, in bytes; so is the memory of a reader.
    Reading a range again gives the same events.
    Events that retention removes between two chunks are an error, never a silent gap. Those that were compacted or
    erased are left out: the database has a record of their offsets, and no other event may be missing.
"""

import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import accumulate, chain, compress, pairwise, repeat
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar
from zlib import crc32

from penstock.core.log.cursor import (
    FIRST,
    LAST,
    FeedCursor,
    FeedView,
    check_view,
    feed_mark,
    parse_cursor,
    resolve_cursor,
)
from penstock.core.log.details import EventDetails
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.delivery import EventChunk, JoinedEvents
from penstock.errors import (
    BadCursor,
    BadPartitionCount,
    ColdFileDamaged,
    CursorExpired,
    DatabaseUnavailable,
    EventTypeNotFound,
    PartitionNotFound,
)
from penstock.storage.cold.loading import load_and_repeat
from penstock.storage.log.events import CHUNK_BYTES, DELETION, NONE, Frame, KindFilter, PartitionHead, StoredColumns
from penstock.storage.store import EventTx, Store, Tx

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS: Final = 4_096
CHUNK_ROWS_MAX: Final = 16_384
SCAN_ROWS: Final = 10_000
"""The interval of cursors of a filtered or sliced read, in events scanned."""
SCAN_ROWS_MAX: Final = 100_000
"""The end of a filtered or sliced page, in events scanned."""
MEETING_ROWS: Final = SCAN_ROWS_MAX
"""No page crosses a multiple of this number of offsets: readers that began at different ones meet there."""
SHARED_ROWS: Final = 64
SHARED_BYTES: Final = 32 << 10
SHARED_CHUNKS: Final = 256
SHARED_SECONDS: Final = 2.0
"""The limits of shared chunks: readers that wait at one place wake together and read the same. 8 MiB of lines in all,
and 8 MiB of columns."""
REPEATS: Final = 5
"""A range is read so often if events of it are removed one by one meanwhile."""
ENDS_KEPT: Final = 10_000
"""The ends of so many partitions are remembered."""
EVENTS: Final = Frame("", "\n", "")
"""The frame of events that are read one by one: no event holds a line break."""

Chunk = TypeVar("Chunk")


class WantedPartition(NamedTuple):
    """One partition that a reader asks for."""

    parameter: str
    """The name of its cursor in errors."""
    partition: int
    cursor: str
    until: str | None = None
    """The cursor to stop at, or None."""
    until_parameter: str = "until"
    """The name of *until* in errors."""


class ReadRange(NamedTuple):
    """The next range to read of one physical partition."""

    physical: int
    partition_id: int
    start: int
    stop: int


class LineChunk(NamedTuple):
    """Events joined to one value, ready to be sent."""

    scanned: int
    kept: int
    body: bytes
    offsets: Sequence[int] | None = None
    """The offsets of the scanned events; None: they are dense."""


class ColumnChunk:
    """Events by column.

    Attributes:
        range: The range that they were read from.
        offsets: The offset of each event.
        batch: The same events as a record batch, if they come from a file of the cold tier.
    """

    def __init__(
        self,
        range: ReadRange,
        columns: "StoredColumns | pa.RecordBatch",
        offsets: Sequence[int],
        separator: str = "",
    ) -> None:
        """*separator* stands between the data of the events in `columns`."""
        self.range = range
        self.offsets = offsets
        self.separator = separator
        self.batch: pa.RecordBatch | None = None
        if isinstance(columns, StoredColumns):
            self.columns = columns
        else:
            self.batch = columns

    @cached_property
    def columns(self) -> StoredColumns:
        """The events as joined text."""
        from penstock.storage.cold.rows import to_columns

        return to_columns(self.batch, self.range.stop, self.separator)

    @property
    def rows(self) -> int:
        """The number of events."""
        return len(self.offsets)

    @property
    def data_bytes(self) -> int:
        """The size of their data."""
        if self.batch is None:
            return len(self.columns.data)
        from penstock.cold.parquet import count_bytes

        return count_bytes(self.batch.column("data"))


class Track:
    """The progress of a page in one partition of a reader's view."""

    def __init__(
        self,
        feed: StoredFeed,
        view: FeedView,
        offsets: dict[int, int],
        heads: Mapping[int, PartitionHead],
        until: Mapping[int, int],
    ) -> None:
        self.view = view
        self.offsets = offsets
        self.stops = {
            physical: max(
                offsets[physical], min(heads[feed.partition_ids[physical]].next_offset, until.get(physical, 1 << 62))
            )
            for physical in view.physical
        }
        self.quotas = dict.fromkeys(view.physical, 0)
        self._heads = {physical: heads[feed.partition_ids[physical]].next_offset for physical in view.physical}
        self.has_holes = any(
            offsets[physical] < heads[feed.partition_ids[physical]].holes_stop for physical in view.physical
        )
        """True if events after the offsets may have been removed one by one."""
        self.removals = {physical: heads[feed.partition_ids[physical]].removals for physical in view.physical}
        """By physical partition: the number of removals of events one by one, as it was when the page was opened."""
        self.sealed = {
            physical: min(stop, heads[feed.partition_ids[physical]].cold_stop) for physical, stop in self.stops.items()
        }
        """By physical partition: the offset below which events are in files of the cold tier, up to the page's stop."""
        self.kept = 0
        self.scanned = 0
        self.rows_per_chunk = CHUNK_ROWS
        self._feed = feed
        self._until = frozenset(until)

    @property
    def cursor(self) -> str:
        """The cursor just after the events that have been read."""
        return self.cursor_at({}).encode()

    def cursor_at(self, offsets: Mapping[int, int]) -> FeedCursor:
        """Return the cursor after the last event read, at other *offsets* of some physical partitions."""
        places = tuple(offsets.get(physical, self.offsets[physical]) for physical in self.view.physical)
        return FeedCursor(feed_mark(self._feed.name), self._feed.epoch, self.view, places)

    @property
    def is_at_head(self) -> bool:
        """True if all events were read that were there when the page was opened."""
        return all(self.offsets[physical] >= head for physical, head in self._heads.items())

    def cursor_after(self, *, whole: bool) -> str:
        """Return the cursor just after the page; unless the page is read *whole*, only an unfiltered page knows it."""
        if whole:
            return self.cursor
        places = tuple(self.offsets[physical] + self.quotas[physical] for physical in self.view.physical)
        return FeedCursor(feed_mark(self._feed.name), self._feed.epoch, self.view, places).encode()

    @property
    def waits_at(self) -> dict[int, int]:
        """By partition id: the offset that this track waits for."""
        return {self._feed.partition_ids[physical]: offset for physical, offset in self.offsets.items()}

    def reaches_head(self, scan_max: int | None = None) -> bool:
        """Return whether the page would reach the end of the feed.

        A filtered page scans up to *scan_max* events of each partition.
        """
        return any(self._reach(physical, scan_max) >= head for physical, head in self._heads.items())

    def depends_on_head(self, rows: int | None = None) -> bool:
        """Return whether a page that goes on by *rows*, or by its share, would have been another in a longer feed."""
        return any(
            self.offsets[physical] + (self.quotas[physical] if rows is None else rows) >= head
            for physical, head in self._heads.items()
            if self.stops[physical] >= head and physical not in self._until
        )

    def stop_at_meeting(self) -> None:
        """Stop the page before the next multiple of `MEETING_ROWS` in each partition."""
        for physical, offset in self.offsets.items():
            self.stops[physical] = min(self.stops[physical], offset - offset % MEETING_ROWS + MEETING_ROWS)

    def align(self) -> None:
        """Shorten the page to end at the same offset as a page that begins at a multiple of `MEETING_ROWS`."""
        for physical, quota in self.quotas.items():
            offset = self.offsets[physical]
            if 0 < quota < self.stops[physical] - offset:
                self.quotas[physical] -= offset % MEETING_ROWS % quota

    def _reach(self, physical: int, scan_max: int | None) -> int:
        quota = self.quotas[physical]
        rows = scan_max if quota and scan_max is not None else quota
        return min(self.stops[physical], self.offsets[physical] + rows)

    def find_next_range(self, rows_max: int) -> ReadRange | None:
        """Return the next range to read; None if the page is full or nothing is left.

        A filtered page reads as many events as are likely to fill it, by the share that was kept so far.
        """
        for physical in self.view.physical:
            start, quota = self.offsets[physical], self.quotas[physical]
            promising = quota * (self.scanned + 1) // (self.kept + 1)
            stop = min(self.stops[physical], start + min(rows_max, max(quota, promising)))
            if quota > 0 and start < stop:
                return ReadRange(physical, self._feed.partition_ids[physical], start, stop)
        return None

    def measure(self, rows: int, size: int) -> None:
        """Adapt the number of rows of the next chunk to the size of this one."""
        if rows:
            self.rows_per_chunk = max(1, min(CHUNK_ROWS_MAX, CHUNK_BYTES * rows // max(size, 1)))

    def advance(self, done: ReadRange, kept: int, *, is_filtered: bool = True) -> None:
        """Record that *done* has been read, and that *kept* of its events count.

        A page that is not filtered ends at a known offset: where events were removed, it has fewer of them.
        """
        self.offsets[done.physical] = done.stop
        self.quotas[done.physical] -= kept if is_filtered else done.stop - done.start
        self.kept += kept
        self.scanned += done.stop - done.start


class PageReading(NamedTuple):
    """A page that is being read."""

    feed: StoredFeed
    tracks: Sequence[Track]
    kinds: KindFilter | None
    scan_max: int
    """The number of events that a filtered page may scan in each partition."""
    has_holes: bool = False
    """True if events of the page may have been removed one by one, as is known at its beginning."""
    is_even: bool = False
    """True if the shares of the partitions are what they will ever be, however long the feed becomes."""
    uses_replicas: bool = False
    """True if replicas of the database may serve its chunks."""

    def find_next_range(self, track: Track) -> ReadRange | None:
        """Return the next range to read of *track*; None if its share of the page is full or nothing is left."""
        if not self.is_filtered:
            return track.find_next_range(track.rows_per_chunk)
        return track.find_next_range(min(SCAN_ROWS, self.scan_max - track.scanned))

    @property
    def is_filtered(self) -> bool:
        """True if the page leaves out events: by kind, as those of another slice, or because they are gone."""
        return self.has_holes or self.is_sifted

    @property
    def is_sifted(self) -> bool:
        """True if each event has to be examined: the page leaves some out by kind, or as of another slice."""
        return self.kinds is not None or any(track.view.slices > 1 for track in self.tracks)

    def is_constant(self, *, is_whole: bool) -> bool:
        """Return whether the page stays the same whatever is published, as long as no event of it is removed.

        Of a filtered page more is known once the *whole* is read.
        """
        rows = self.scan_max if self.is_filtered and not is_whole else 0
        return self.is_even and not any(track.depends_on_head(rows) for track in self.tracks)

    @property
    def reaches_head(self) -> bool:
        """True if the page would reach the end of the feed."""
        scan_max = self.scan_max if self.is_filtered else None
        return any(track.reaches_head(scan_max) for track in self.tracks)

    @property
    def waits_at(self) -> dict[int, int]:
        """By partition id: the offset that this page waits for."""
        first: dict[int, int] = {}
        for track in self.tracks:  # Two slices of one partition may be at different offsets.
            for partition_id, offset in track.waits_at.items():
                first[partition_id] = min(offset, first.get(partition_id, offset))
        return first


class UnsettledError(Exception):
    """Rows wait in the outbox that a read has to show: it is repeated once they are in the log."""

    def __init__(self, names: Sequence[str]) -> None:
        """*names* are the event types of these rows."""
        self.names = names


class EventTypeCatalogue(Protocol):
    """The event types that a hub knows: see `penstock.hub.registry.Registry`."""

    remembered: Mapping[str, StoredFeed]
    """The feeds by name, as they were when last seen."""

    def load(self, name: str) -> StoredFeed:
        """Return the feed as the store has it now."""

    def remember(self, name: str, feed: StoredFeed | None) -> StoredFeed:
        """Return *feed*, which the store has now, and remember it."""


class Reader:
    """Reads the feeds of one store."""

    def __init__(self, store: Store, event_types: EventTypeCatalogue) -> None:
        self._store = store
        self._event_types = event_types
        self._shared = _SharedChunks[LineChunk]()
        self._shared_columns = _SharedChunks[ColumnChunk]()
        self._ends: dict[int, int] = {}
        """By partition id: the next offset, as last seen."""

    def open(
        self,
        name: str,
        n: int | None,
        wanted: Sequence[WantedPartition],
        page_size: int,
        kinds: KindFilter | None = None,
        *,
        settled: bool = True,
    ) -> PageReading:
        """Open a page: resolve cursors and find the range to read; *n* None stands for the physical partition count.

        Unless the outbox is *settled*, it is looked at too, if the page may reach the end of the feed.

        Raises:
            EventTypeNotFound, BadPartitionCount, BadCursor, StaleSplit: the request cannot be served.
            CursorExpired: retention has removed events after a cursor.
            UnsettledError: the page reaches the end of the feed, and rows of the feed wait in the outbox.
        """
        if not settled and self._is_far_from_end(name, wanted, page_size):
            reading, _ = self._open(name, n, wanted, page_size, kinds, looks=False)
            if not reading.reaches_head:
                return reading
        reading, has_waiting = self._open(name, n, wanted, page_size, kinds, looks=not settled)
        if has_waiting and reading.reaches_head:
            raise UnsettledError([name])
        return reading

    def _is_far_from_end(self, name: str, wanted: Sequence[WantedPartition], page_size: int) -> bool:
        """Return whether the ends of the partitions, as last seen, are further on than a page reaches: they only grow.

        It is a guess, which saves most pages of a long log a look into the outbox.
        """
        feed = self._event_types.remembered.get(name)
        for each in wanted:
            if feed is None or each.cursor in (FIRST, LAST):
                return False
            try:
                cursor = parse_cursor(each.cursor, each.parameter, name)
            except BadCursor:
                return False
            for physical, offset in zip(cursor.view.physical, cursor.offsets, strict=True):
                partition_id = feed.partition_ids[physical] if physical < feed.partition_count else -1
                if offset + page_size >= self._ends.get(partition_id, 0):
                    return False
        return True

    def _open(
        self,
        name: str,
        n: int | None,
        wanted: Sequence[WantedPartition],
        page_size: int,
        kinds: KindFilter | None,
        *,
        looks: bool,
    ) -> tuple[PageReading, bool]:
        """Return an open page and, if it *looks* into the outbox, whether rows of the feed wait there."""
        with self._store.read() as tx:
            has_waiting, found = self._find_as_known(tx, name, n, wanted, looks=looks)
            if found is None:
                feed = self._event_types.remember(name, tx.registry.find(name))
                views, partition_ids = _find_views(feed, n, wanted)
                found = feed, views, tx.log.find_heads(partition_ids)
        feed, views, heads = found
        if any(feed.partition_ids[p] not in heads for view in views for p in view.physical):
            raise EventTypeNotFound(event_type=name)  # Dropped between the two queries.
        tracks = [_open_track(feed, heads, view, each) for view, each in zip(views, wanted, strict=True)]
        share_page(tracks, page_size)
        busy = sum(any(track.quotas.values()) for track in tracks)
        scan_max = max(1, SCAN_ROWS_MAX // max(1, busy))
        has_holes = any(track.has_holes for track in tracks)
        is_even = page_size > 0 and not any(track.depends_on_head() for track in tracks)
        reading = PageReading(feed, tracks, _choose_filter(feed, kinds), scan_max, has_holes, is_even)
        if not reading.is_filtered:
            for track, each in zip(tracks, wanted, strict=True):
                if each.cursor == FIRST:
                    track.align()
        self._note_ends(heads)
        return reading, has_waiting

    def _note_ends(self, heads: Mapping[int, PartitionHead]) -> None:
        if len(self._ends) >= ENDS_KEPT:
            self._ends.clear()
        self._ends.update((partition_id, head.next_offset) for partition_id, head in heads.items())

    def _find_as_known(
        self, tx: Tx, name: str, n: int | None, wanted: Sequence[WantedPartition], *, looks: bool
    ) -> "tuple[bool, tuple[StoredFeed, Sequence[FeedView], Mapping[int, PartitionHead]] | None]":
        """Return whether rows wait in the outbox, if it *looks* there, and what `open` needs by the cached event type.

        That is None if the cache may be out of date: each change of an event type changes the revision of its heads.
        No request is refused because of the cache. The outbox comes first: rows that another hub moves before the heads
        are read are in the log then.
        """
        feed = self._event_types.remembered.get(name)
        views: Sequence[FeedView] | None = None
        partition_ids: Sequence[int] = ()
        if feed is not None:
            with suppress(PartitionNotFound, BadPartitionCount):
                views, partition_ids = _find_views(feed, n, wanted)
        waiting, heads = tx.outbox.find_waiting_and_heads([name], partition_ids) if looks else ((), None)
        if feed is None or views is None or not partition_ids:
            return bool(waiting), None
        if heads is None:
            heads = tx.log.find_heads(partition_ids)
        is_current = all(each in heads and heads[each].revision == feed.revision for each in partition_ids)
        return bool(waiting), (feed, views, heads) if is_current else None

    def open_range(self, feed: StoredFeed, partition: int, start: int, stop: int, rows_max: int) -> PageReading:
        """Open a page of one partition up to *stop*, which the caller knows to exist, without a query."""
        view = FeedView(feed.partition_count, partition, feed.partition_count)
        head = PartitionHead(feed.revision, 0, stop, 0)
        track = Track(feed, view, {partition: start}, {feed.partition_ids[partition]: head}, {})
        track.quotas[partition] = min(rows_max, stop - start)
        return PageReading(feed, [track], _choose_filter(feed, None), SCAN_ROWS_MAX)

    def find_shared(self, feed: StoredFeed, partition: int, start: int, stop: int) -> LineChunk | None:
        """Return this range of a partition if another reader has just read it as events (`EVENTS`), else None."""
        wanted = ReadRange(partition, feed.partition_ids[partition], start, stop)
        return None if _choose_filter(feed, None) else self._shared.find((wanted, feed.epoch, EVENTS, None, 0))

    def find_shared_columns(self, feed: StoredFeed, partition: int, start: int, stop: int) -> ColumnChunk | None:
        """Return what `find_shared` does, with the columns of the events."""
        wanted = ReadRange(partition, feed.partition_ids[partition], start, stop)
        form = (wanted, feed.epoch, EVENTS.separator, 0)
        return None if _choose_filter(feed, None) else self._shared_columns.find(form)

    def find_heads(self, name: str) -> tuple[StoredFeed, dict[int, PartitionHead]]:
        """Return the feed and its heads by partition id.

        Raises:
            EventTypeNotFound: there is no such feed.
        """
        with self._store.read() as tx:
            feed = tx.registry.get(name)
            return feed, tx.log.find_heads(feed.partition_ids)

    def find_offsets_since(self, name: str, at: int) -> tuple[StoredFeed, list[int]]:
        """Return the feed and, by partition, the first retained offset received at *at* or later.

        A partition without such an event gives its end. *at* are microseconds since 1970, UTC.

        Raises:
            EventTypeNotFound: there is no such feed.
            ColdTierUnavailable, ColdFileDamaged: the events are in a file, which cannot be read.
        """

        def find() -> tuple[StoredFeed, dict[int, int]]:
            with self._store.read() as tx:
                feed = tx.registry.get(name)
                heads = tx.log.find_heads(feed.partition_ids)
                ranges = {each: (head.floor, head.next_offset) for each, head in heads.items()}
                return feed, tx.log.find_first_offsets(ranges, at)

        feed, found = load_and_repeat(find)
        if len(found) < feed.partition_count:
            raise EventTypeNotFound(event_type=name)  # Dropped between the two queries.
        return feed, [found[partition_id] for partition_id in feed.partition_ids]

    def read_next_lines(self, reading: PageReading, track: Track, frame: Frame) -> LineChunk | None:
        """Read the next chunk as lines; return None at the end. Slices are read by column instead.

        Raises:
            CursorExpired: retention has removed the range.
        """
        wanted = reading.find_next_range(track)
        if wanted is None:
            return None
        form = (reading.feed.epoch, frame, reading.kinds, track.removals[wanted.physical])
        chunk = self._shared.find((wanted, *form))
        if chunk is None:
            wanted, chunk = self._read_lines(reading, wanted, frame)
            self._shared.keep((wanted, *form), chunk, chunk.scanned, len(chunk.body))
        track.measure(chunk.kept, len(chunk.body))
        track.advance(wanted, chunk.kept, is_filtered=reading.is_filtered)
        return chunk

    def read_next_columns(self, reading: PageReading, track: Track) -> ColumnChunk | None:
        """Read the next chunk by column; return None at the end. The caller filters, and calls `track.advance`.

        Raises:
            CursorExpired: retention has removed the range.
        """
        return self._read_next_columns(track, reading.find_next_range(track), partial(self._read_columns, reading))

    def read_next_joined_columns(self, reading: PageReading, track: Track, separator: str) -> ColumnChunk | None:
        """Read as `read_next_columns` does, with *separator* between the data of the events.

        Like lines, the chunk may be one that another reader has just read.
        """

        def read(wanted: ReadRange) -> ColumnChunk:
            form = (reading.feed.epoch, separator, track.removals[wanted.physical])
            chunk = self._shared_columns.find((wanted, *form))
            if chunk is None:
                chunk = self._read_columns(reading, wanted, separator)
                self._shared_columns.keep((chunk.range, *form), chunk, chunk.rows, chunk.data_bytes)
            return chunk

        return self._read_next_columns(track, reading.find_next_range(track), read)

    def _read_next_columns(
        self, track: Track, wanted: ReadRange | None, read: Callable[[ReadRange], ColumnChunk]
    ) -> ColumnChunk | None:
        if wanted is None:
            return None
        chunk = read(wanted)
        track.measure(chunk.rows, chunk.data_bytes)
        return chunk

    def _read_columns(self, reading: PageReading, wanted: ReadRange, separator: str = "") -> ColumnChunk:
        tier = None if reading.has_holes else self._store.cold  # Else only the database knows which events are gone.
        if tier is not None and (file := tier.recall(wanted.partition_id, wanted.start, wanted.stop)) is not None:
            with suppress(ColdFileDamaged):  # It may have been replaced.
                batch, stop = tier.read(file, wanted.start, wanted.stop)
                if batch.num_rows == stop - wanted.start:
                    return ColumnChunk(wanted._replace(stop=stop), batch, range(wanted.start, stop), separator)

        def read(tx: EventTx) -> ColumnChunk | None:
            columns = tx.log.read_columns(wanted.partition_id, wanted.start, wanted.stop, separator)
            found = wanted._replace(stop=columns.stop)
            offsets = find_offsets(tx, reading.feed, found, columns.rows)
            return None if offsets is None else ColumnChunk(found, columns, offsets, separator)

        return self._read(reading, wanted, read)

    def _read_lines(self, reading: PageReading, wanted: ReadRange, frame: Frame) -> tuple[ReadRange, LineChunk]:
        tier = None if reading.has_holes else self._store.cold
        if tier is not None and (file := tier.recall(wanted.partition_id, wanted.start, wanted.stop)) is not None:
            with suppress(ColdFileDamaged):  # It may have been replaced.
                lines = tier.read_lines(file, wanted.start, wanted.stop, frame, reading.kinds)
                if lines.scanned == lines.stop - wanted.start:
                    return wanted._replace(stop=lines.stop), LineChunk(lines.scanned, lines.kept, lines.body)

        def read(tx: EventTx) -> tuple[ReadRange, LineChunk] | None:
            lines = tx.log.read_lines(wanted.partition_id, wanted.start, wanted.stop, frame, reading.kinds)
            found = wanted._replace(stop=lines.stop)
            offsets = find_offsets(tx, reading.feed, found, lines.scanned)
            if offsets is None:
                return None
            is_dense = isinstance(offsets, range)
            return found, LineChunk(lines.scanned, lines.kept, lines.body, None if is_dense else offsets)

        return self._read(reading, wanted, read)

    def _read(self, reading: PageReading, wanted: ReadRange, read: Callable[[EventTx], Chunk | None]) -> Chunk:
        """Return what *read* finds of a range on a replica that has it all, or else in the database itself."""
        return load_and_repeat(partial(self._read_once, reading, wanted, read))

    def _read_once(self, reading: PageReading, wanted: ReadRange, read: Callable[[EventTx], Chunk | None]) -> Chunk:
        replicas = self._store.replicas if reading.uses_replicas else None
        if replicas is not None:
            with suppress(CursorExpired):  # The database itself decides that.
                found = replicas.read(wanted.partition_id, wanted.start, wanted.stop, read)
                if found is not None:
                    return found
        for _ in range(REPEATS):
            with self._store.read() as tx:
                found = read(tx)
            if found is not None:
                return found
        raise make_changing_error()


def make_changing_error() -> DatabaseUnavailable:
    """Return the error of a read of events that are being removed one by one: a repeat leaves them out."""
    return DatabaseUnavailable(reason="events are being removed while they are read", retry_after=1)


def find_offsets(tx: EventTx, feed: StoredFeed, wanted: ReadRange, rows: int) -> Sequence[int] | None:
    """Return the offsets of the *rows* events that were found in a range; None if others were removed since.

    Raises:
        CursorExpired: retention has removed some of the range.
    """
    if rows == wanted.stop - wanted.start:
        return range(wanted.start, wanted.stop)
    head = tx.log.find_heads([wanted.partition_id]).get(wanted.partition_id)
    if head is None or head.floor > wanted.start:
        raise make_removed_error(feed, wanted)
    found: list[int] = []
    at = wanted.start
    for start, stop in tx.removal.list_holes(wanted.partition_id, wanted.start, wanted.stop):
        found += range(at, start)
        at = max(at, stop)
    found += range(at, wanted.stop)
    return found if len(found) == rows else None


def _choose_filter(feed: StoredFeed, kinds: KindFilter | None) -> KindFilter | None:
    """Return the filter of a reader that asks for *kinds*; in compacted feeds it always skips tombstones."""
    if not feed.event_type.is_compacted or (kinds and not kinds.skip):
        return kinds
    skipped = kinds.kinds if kinds else frozenset()
    return KindFilter(skipped | {DELETION}, skip=True, default=feed.name)


class _SharedChunks(Generic[Chunk]):
    """Chunks that were just read; none is given out that is older than `SHARED_SECONDS`, since events can be erased."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._kept: OrderedDict[object, tuple[float, Chunk]] = OrderedDict()

    def find(self, key: object) -> Chunk | None:
        with self._guard:
            self._forget()
            found = self._kept.get(key)
            return found[1] if found is not None else None

    def keep(self, key: object, chunk: Chunk, rows: int, size: int) -> None:
        if rows > SHARED_ROWS or size > SHARED_BYTES:
            return
        with self._guard:
            self._forget()
            self._kept.pop(key, None)
            self._kept[key] = time.monotonic() + SHARED_SECONDS, chunk
            while len(self._kept) > SHARED_CHUNKS:
                self._kept.popitem(last=False)

    def _forget(self) -> None:
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values()))[0] < now:
            self._kept.popitem(last=False)


def share_page(tracks: Sequence[Track], page_size: int) -> None:
    """Share *page_size* events evenly among the partitions that have any; pass on what a partition does not need."""
    needs = sorted(
        (track.stops[p] - track.offsets[p], i, p) for i, track in enumerate(tracks) for p in track.view.physical
    )
    needs = [need for need in needs if need[0] > 0]
    while needs and needs[0][0] < -(-page_size // len(needs)):
        available, i, physical = needs.pop(0)
        tracks[i].quotas[physical] = available
        page_size -= available
    # The rest depends on no partition's length: pages before the end of the feed are the same whenever they are read.
    for taken, (_, i, physical) in enumerate(sorted(needs, key=lambda need: need[1:])):
        share = -(-page_size // (len(needs) - taken))
        tracks[i].quotas[physical] = share
        page_size -= share


def resolve(
    feed: StoredFeed, heads: Mapping[int, PartitionHead], view: FeedView, text: str, parameter: str
) -> dict[int, int]:
    """Return the next offset of each physical partition of *view*, by the cursor *text*.

    Raises:
        BadCursor, StaleSplit: the cursor cannot be used here.
        CursorExpired: retention has removed events after the cursor.
    """
    by_number = {physical: heads[feed.partition_ids[physical]] for physical in view.physical}
    if text == FIRST:
        return {physical: head.floor for physical, head in by_number.items()}
    if text == LAST:
        return {physical: head.next_offset for physical, head in by_number.items()}
    cursor = parse_cursor(text, parameter, feed.name)
    offsets = resolve_cursor(cursor, view, parameter, feed=feed.name, epoch=feed.epoch)
    for physical, offset in offsets.items():
        if offset > by_number[physical].next_offset:
            reason = f"it is after the end: partition {physical} ends at offset {by_number[physical].next_offset}"
            raise BadCursor(parameter=parameter, value=text[:80], reason=reason)
        if offset < by_number[physical].floor:
            raise _make_expired_error(feed, view, by_number, offsets, parameter)
    return offsets


def _find_views(
    feed: StoredFeed, n: int | None, wanted: Sequence[WantedPartition]
) -> tuple[Sequence[FeedView], Sequence[int]]:
    """Return the views that a reader wants, and the ids of their partitions.

    Raises:
        BadPartitionCount, PartitionNotFound: *feed* cannot be read so.
    """
    n = feed.partition_count if n is None else n
    check_view(n, feed.partition_count)
    views = [_make_view(feed, n, each) for each in wanted]
    return views, sorted({feed.partition_ids[p] for view in views for p in view.physical})


def _make_view(feed: StoredFeed, n: int, wanted: WantedPartition) -> FeedView:
    if not 0 <= wanted.partition < n:
        raise PartitionNotFound(event_type=feed.name, partition=wanted.partition, partition_count=n)
    return FeedView(n, wanted.partition, feed.partition_count)


def _open_track(feed: StoredFeed, heads: Mapping[int, PartitionHead], view: FeedView, wanted: WantedPartition) -> Track:
    offsets = resolve(feed, heads, view, wanted.cursor, wanted.parameter)
    until = {} if wanted.until is None else resolve(feed, heads, view, wanted.until, wanted.until_parameter)
    track = Track(feed, view, offsets, heads, until)
    track.stop_at_meeting()
    return track


def _make_expired_error(
    feed: StoredFeed, view: FeedView, heads: Mapping[int, PartitionHead], offsets: Mapping[int, int], parameter: str
) -> CursorExpired:
    available = tuple(max(heads[p].floor, offsets[p]) for p in view.physical)
    has_holes = any(offsets[p] < heads[p].floor and offsets[p] < heads[p].holes_stop for p in view.physical)
    reason = "retention has removed them"
    return CursorExpired(
        parameter=parameter,
        event_type=feed.name,
        partition=view.partition,
        lost=sum(max(0, heads[p].floor - offsets[p]) for p in view.physical),
        first_available=FeedCursor(feed_mark(feed.name), feed.epoch, view, available).encode(),
        last_available=LAST,
        reason=f"{reason}, and some may have been compacted or erased before" if has_holes else reason,
    )


def make_removed_error(feed: StoredFeed, wanted: ReadRange) -> CursorExpired:
    """Return the error of a read whose events were removed after it had begun."""
    return CursorExpired(
        parameter="cursor",
        event_type=feed.name,
        partition=wanted.physical,
        lost=None,
        first_available=FIRST,
        last_available=LAST,
        reason="they were removed while they were being read",
    )


class Reads(Protocol):
    """Reads a page chunk by chunk."""

    def read_next_lines(self, reading: PageReading, track: Track, frame: Frame) -> LineChunk | None:
        """See `Reader.read_next_lines`."""

    def read_next_columns(self, reading: PageReading, track: Track) -> ColumnChunk | None:
        """See `Reader.read_next_columns`."""

    def read_next_joined_columns(self, reading: PageReading, track: Track, separator: str) -> ColumnChunk | None:
        """See `Reader.read_next_joined_columns`."""


class ChunkRows:
    """The rows of a chunk one by one, for reads that filter or decode them."""

    def __init__(self, chunk: ColumnChunk) -> None:
        self.offsets = chunk.offsets
        self._columns = chunk.columns
        self._gap = len(chunk.separator.encode())

    @cached_property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each."""
        return _split(self._columns.keys, self._columns.rows)

    @cached_property
    def data(self) -> Sequence[bytes]:
        """The data of each."""
        data, gap = self._columns.data, self._gap
        sizes = array("i", self._columns.sizes)
        starts = accumulate(sizes, lambda at, size: at + size + gap, initial=0) if gap else accumulate(sizes, initial=0)
        return [data[start : start + size] for start, size in zip(starts, sizes, strict=False)]

    @cached_property
    def kinds(self) -> Sequence[bytes | None]:
        """The kind of each; None: the event type's name."""
        return _split(self._columns.kinds, self._columns.rows)

    def tuples(self) -> Iterator[tuple[bytes | None, bytes | None, bytes | None, bytes]]:
        """Yield key, kind, own headers and data of each row."""
        headers = _split(self._columns.headers, self._columns.rows)
        return zip(self.keys, self.kinds, headers, self.data, strict=True)

    def match(self, reading: PageReading, track: Track) -> list[bool]:
        """Return for each row whether it belongs to the track's slice and passes the filter."""
        slices, own = track.view.slices, track.view.slice
        kept = [True] * len(self.offsets)
        if slices > 1:
            places = zip(self.offsets, self.keys, strict=True)
            kept = [(offset if key is None else crc32(key)) % slices == own for offset, key in places]
        if (kinds := reading.kinds) is not None:
            default = kinds.default.lower()
            names = (default if kind is None else kind.lower().decode() for kind in self.kinds)
            kept = [keep and (name in kinds.kinds) != kinds.skip for keep, name in zip(kept, names, strict=True)]
        return kept

    @property
    def received(self) -> Sequence[float]:
        """The time at which each row was received, in seconds since 1970."""
        if not self.offsets:
            return ()
        ends, times = self._columns.received
        spans = pairwise([0, *map(int, ends.split(b"\n"))])
        runs = zip([int(each) / 1e6 for each in times.split(b"\n")], spans, strict=True)
        return list(chain.from_iterable(repeat(at, end - start) for at, (start, end) in runs))


def find_details(chunk: ColumnChunk, kind: str, kept: Sequence[bool] | None = None) -> EventDetails:
    """Return the details of the events of a chunk, of which there are some; *kind* is the name of the event type.

    *kept* marks the events to include, which are some; None includes all.
    """
    columns = chunk.columns
    ends, times = ([*map(int, each.split(b"\n"))] for each in columns.received)
    keys, kinds = _texts(columns.keys), _texts(columns.kinds)
    found = EventDetails(kind, ends, times, offsets=chunk.offsets, keys=keys, kinds=kinds)
    return found if kept is None else found.keep(kept)


def _texts(column: bytes | None) -> Sequence[str | None] | None:
    if column is None:
        return None
    texts = column.decode().split("\n")
    return [None if text == _NO_TEXT else text for text in texts] if NONE in column else texts


_NO_TEXT: Final = NONE.decode()


def read_next_events(
    reads: Reads, reading: PageReading, track: Track, *, has_details: bool = False
) -> EventChunk | None:
    """Read the next chunk as events without those that the reader filters out; return None at the end."""
    (physical,) = track.view.physical
    start = track.offsets[physical]
    if not reading.is_filtered:
        if has_details:
            found = reads.read_next_joined_columns(reading, track, EVENTS.separator)
            if found is not None:
                track.advance(found.range, found.rows, is_filtered=False)
            return None if found is None else to_detailed_events(found, reading.feed)
        lines = reads.read_next_lines(reading, track, EVENTS)
        return to_events(lines, start, track.offsets[physical]) if lines else None
    chunk = reads.read_next_columns(reading, track)
    if chunk is None:
        return None
    rows = ChunkRows(chunk)
    kept = rows.match(reading, track)
    return take_events(chunk, rows, track, kept, kind=reading.feed.name if has_details else None)


def to_events(lines: LineChunk, start: int, stop: int) -> EventChunk:
    """Return the events of a range that were read as lines, framed as `EVENTS`, without a filter."""
    events = JoinedEvents(lines.body, lines.kept) if lines.kept else ()
    return EventChunk(events, range(start, stop) if lines.offsets is None else lines.offsets, stop)


def to_detailed_events(chunk: ColumnChunk, feed: StoredFeed) -> EventChunk:
    """Return the events of a range that were read as columns, joined as `EVENTS` are, with their details."""
    if not chunk.rows:
        return EventChunk((), (), chunk.range.stop)
    events = JoinedEvents(chunk.columns.data, chunk.rows)
    return EventChunk(events, chunk.offsets, chunk.range.stop, details=find_details(chunk, feed.name))


def take_events(
    chunk: ColumnChunk,
    rows: ChunkRows,
    track: Track,
    kept: Sequence[bool],
    *,
    timed: bool = False,
    kind: str | None = None,
) -> EventChunk:
    """Return the events of a chunk that are *kept*, and advance the track past the chunk.

    *kind*, the name of the event type, stands for details; None: they are not needed.
    """
    events = list(compress(rows.data, kept))
    offsets = list(compress(chunk.offsets, kept))
    received = list(compress(rows.received, kept)) if timed else ()
    track.advance(chunk.range, len(events))
    details = find_details(chunk, kind, kept) if kind is not None and events else None
    return EventChunk(events, offsets, chunk.range.stop, received, details)


def _split(column: bytes | None, count: int) -> list[bytes | None]:
    if column is None:
        return [None] * count
    return [None if value == NONE else value for value in column.split(b"\n")]
