from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cursor import FIRST, LAST, Cursor, View, feed_mark
from penstock.errors import BadCursor, BadPartitionCount, CursorExpired, EventTypeNotFound, PartitionNotFound
from penstock.hub.append import append_rows, lock_heads
from penstock.hub.read import (
    CHUNK_ROWS,
    CHUNK_ROWS_MAX,
    SCAN_ROWS,
    SCAN_ROWS_MAX,
    ColumnChunk,
    Reader,
    Reading,
    Track,
    Wanted,
    resolve,
    share_page,
)
from penstock.storage import Store
from penstock.storage.store import CHUNK_BYTES, KindFilter
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import JOINED, NAME, a_feed, created, heads_of, ready
from tests.unit.hub.forwarding import ForwardingStore


def a_track(
    *ends: int, offsets: Sequence[int] = (), n: int | None = None, until: Mapping[int, int] | None = None
) -> Track:
    """Return the first partition of a view at *n* of a feed whose partitions end at *ends*."""
    feed = a_feed(len(ends))
    view = View(len(ends) if n is None else n, 0, len(ends))
    given = dict(zip(view.physical, offsets or [0] * len(ends), strict=False))
    return Track(feed, view, given, heads_of(feed, *ends), until or {})


def steps(track: Track, rows_max: int) -> list[tuple[int, int, int]]:
    """Return the ranges that are read of *track*, where every event counts."""
    found = []
    while wanted := track.next_range(rows_max):
        found.append((wanted.physical, wanted.start, wanted.stop))
        track.advance(wanted, wanted.stop - wanted.start)
    return found


class TestSharing:
    def test_a_page_is_shared_evenly(self) -> None:
        tracks = [a_track(100), a_track(100), a_track(100)]

        share_page(tracks, 10)

        assert sorted(track.quotas[0] for track in tracks) == [3, 3, 4]

    def test_what_one_does_not_need_goes_to_the_others(self) -> None:
        tracks = [a_track(100), a_track(2), a_track(0), a_track(100)]

        share_page(tracks, 10)

        assert [track.quotas[0] for track in tracks] == [4, 2, 0, 4]

    def test_a_merged_partition_is_shared_among_those_that_it_is_made_of(self) -> None:
        track = a_track(50, 3, 50, n=1)

        share_page([track], 9)

        assert track.quotas == {0: 3, 1: 3, 2: 3}

    def test_a_page_of_nothing_gives_nothing(self) -> None:
        track = a_track(100)

        share_page([track], 0)

        assert track.quotas == {0: 0}
        assert track.next_range(CHUNK_ROWS) is None

    @given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.integers(0, 100))
    def test_a_page_is_filled_and_nobody_gets_less_but_who_has_less(self, available: list[int], size: int) -> None:
        tracks = [a_track(each) for each in available]

        share_page(tracks, size)

        shares = [track.quotas[0] for track in tracks]
        assert sum(shares) == min(size, sum(available))
        for share, has in zip(shares, available, strict=True):
            assert share <= has
            assert share == has or share >= max(shares) - 1


class TestTracks:
    def test_a_track_is_read_in_ranges_up_to_its_quota(self) -> None:
        track = a_track(100, offsets=[5])
        share_page([track], 25)

        assert steps(track, 10) == [(0, 5, 15), (0, 15, 25), (0, 25, 30)]
        assert (track.kept, track.scanned, track.offsets) == (25, 25, {0: 30})

    def test_a_merged_track_is_read_one_partition_after_the_other(self) -> None:
        track = a_track(4, 4, n=1)
        share_page([track], 6)

        assert steps(track, 2) == [(0, 0, 2), (0, 2, 3), (1, 0, 2), (1, 2, 3)]

    def test_it_ends_where_the_feed_ended_when_it_was_begun(self) -> None:
        track = a_track(7)
        share_page([track], 100)

        assert steps(track, 100) == [(0, 0, 7)]

    @pytest.mark.parametrize(("until", "ranges"), [(3, [(0, 2, 3)]), (2, []), (0, []), (99, [(0, 2, 7)])])
    def test_it_ends_at_its_last_cursor_even_where_that_lies_behind(
        self, until: int, ranges: list[tuple[int, int, int]]
    ) -> None:
        track = a_track(7, offsets=[2], until={0: until})
        share_page([track], 100)

        assert steps(track, 100) == ranges

    def test_the_fewer_events_are_kept_the_more_are_looked_at(self) -> None:
        track = a_track(10_000)
        share_page([track], 10)
        sizes = []
        for _ in range(4):
            wanted = track.next_range(SCAN_ROWS)
            assert wanted
            sizes.append(wanted.stop - wanted.start)
            track.advance(wanted, 0)

        assert sizes == [10, 110, 1210, 8670]
        assert track.next_range(SCAN_ROWS) is None

    def test_a_sifted_page_is_not_filled_beyond_its_quota(self) -> None:
        track = a_track(1000)
        share_page([track], 10)
        wanted = track.next_range(SCAN_ROWS)
        assert wanted

        track.advance(wanted, 9)
        wanted = track.next_range(SCAN_ROWS)
        assert wanted and wanted.stop - wanted.start == 1
        track.advance(wanted, 1)

        assert track.next_range(SCAN_ROWS) is None

    def test_chunks_grow_and_shrink_with_the_events(self) -> None:
        track = a_track(1)
        assert track.rows_per_chunk == CHUNK_ROWS

        track.measure(1000, 1000 * CHUNK_BYTES // 100)
        assert track.rows_per_chunk == 100
        track.measure(1000, 1)
        assert track.rows_per_chunk == CHUNK_ROWS_MAX
        track.measure(1, 100 * CHUNK_BYTES)
        assert track.rows_per_chunk == 1

    def test_an_empty_chunk_teaches_nothing(self) -> None:
        track = a_track(1)
        track.measure(1000, 1000 * CHUNK_BYTES // 100)

        track.measure(0, 0)

        assert track.rows_per_chunk == 100

    def test_its_cursor_is_the_place_after_what_was_read(self) -> None:
        track = a_track(9, 9, n=1)
        share_page([track], 6)
        beforehand = track.cursor_after(whole=False)
        assert track.cursor == Cursor(feed_mark(NAME), 1, View(1, 0, 2), (0, 0)).encode()

        steps(track, 100)

        assert track.cursor == beforehand == track.cursor_after(whole=True)
        assert track.cursor == Cursor(feed_mark(NAME), 1, View(1, 0, 2), (3, 3)).encode()

    def test_it_waits_where_it_stands_in_every_partition(self) -> None:
        assert a_track(7, 9, n=1, offsets=[7, 9]).waits_at == {100: 7, 101: 9}

    @pytest.mark.parametrize(("size", "reaches"), [(0, False), (6, False), (7, True), (100, True)])
    def test_a_page_that_takes_all_there_is_reaches_the_head(self, size: int, reaches: bool) -> None:
        track = a_track(7)
        share_page([track], size)

        assert track.reaches_head() == reaches

    def test_a_page_that_ends_before_the_head_by_its_last_cursor_does_not_reach_it(self) -> None:
        track = a_track(7, until={0: 5})
        share_page([track], 100)

        assert not track.reaches_head()

    def test_one_partition_at_its_end_is_enough_to_reach_the_head(self) -> None:
        track = a_track(0, 100, n=1)
        share_page([track], 10)

        assert track.reaches_head()


class TestSifting:
    kinds = KindFilter(frozenset({"paid"}), skip=False, default=NAME)

    def reading(self, kinds: KindFilter | None, *tracks: Track) -> Reading:
        return Reading(a_feed(), tracks, kinds, scan_max=SCAN_ROWS_MAX)

    def test_a_page_is_sifted_by_kind_or_by_slice(self) -> None:
        assert not self.reading(None, a_track(1)).sifted
        assert self.reading(self.kinds, a_track(1)).sifted
        assert self.reading(None, a_track(1, n=2)).sifted
        assert not self.reading(None, a_track(1, 1, n=1)).sifted

    @pytest.mark.parametrize(
        ("events", "size", "reaches"),
        [(500, 10, True), (500, 0, False), (SCAN_ROWS_MAX, 1, True), (SCAN_ROWS_MAX + 1, 1, False), (0, 0, True)],
    )
    def test_it_reaches_the_head_where_it_may_look_so_far(self, events: int, size: int, reaches: bool) -> None:
        for kinds, track in ((self.kinds, a_track(events)), (None, a_track(events, n=2))):
            share_page([track], size)
            assert self.reading(kinds, track).reaches_head == reaches

    def test_it_does_not_where_its_last_cursor_is_before_that(self) -> None:
        track = a_track(500, until={0: 499})
        share_page([track], 10)
        assert not self.reading(self.kinds, track).reaches_head

    def test_a_whole_page_is_read_by_what_a_chunk_can_hold(self) -> None:
        track = a_track(1_000_000)
        share_page([track], 100_000)

        assert self.reading(None, track).next_range(track).stop == CHUNK_ROWS
        track.measure(1, CHUNK_BYTES // 7)
        assert self.reading(None, track).next_range(track).stop == 7

    def test_a_sifted_one_stops_for_cursors_and_then_for_good(self) -> None:
        track = a_track(1_000_000)
        share_page([track], 100_000)
        reading = self.reading(self.kinds, track)
        sizes = []
        while wanted := reading.next_range(track):
            sizes.append(wanted.stop - wanted.start)
            track.advance(wanted, 0)

        assert max(sizes) == SCAN_ROWS
        assert sum(sizes) == track.scanned == SCAN_ROWS_MAX


class TestResolving:
    feed = a_feed(4)
    view = View(2, 1, 4)  # Physical 1 and 3.

    def resolved(self, text: str, floor: int = 2) -> dict[int, int]:
        return resolve(self.feed, heads_of(self.feed, 5, 6, 7, 8, floor=floor), self.view, text, "cursor1")

    def cursor(self, *offsets: int) -> str:
        return Cursor(feed_mark(NAME), 1, self.view, offsets).encode()

    def test_the_first_is_the_floor_and_the_last_is_the_head(self) -> None:
        assert self.resolved(FIRST) == {1: 2, 3: 2}
        assert self.resolved(LAST) == {1: 6, 3: 8}

    def test_a_cursor_is_where_it_says_from_the_floor_to_the_head(self) -> None:
        assert self.resolved(self.cursor(2, 8)) == {1: 2, 3: 8}

    def test_a_cursor_after_the_end_is_refused_by_the_partition_that_it_is_after(self) -> None:
        with pytest.raises(BadCursor, match="partition 3 ends at offset 8") as told:
            self.resolved(self.cursor(2, 9))

        assert told.value.fields["parameter"] == "cursor1"

    def test_a_cursor_from_before_the_floor_is_told_how_much_is_lost_and_where_to_go_on(self) -> None:
        with pytest.raises(CursorExpired) as told:
            self.resolved(self.cursor(0, 3), floor=4)

        fields = told.value.fields
        assert (fields["parameter"], fields["partition"], fields["lost"]) == ("cursor1", 1, 4 + 1)
        assert self.resolved(fields["first_available"], floor=4) == {1: 4, 3: 4}
        assert self.resolved(fields["last_available"], floor=4) == {1: 6, 3: 8}


@pytest.fixture
def reader(forwarding: ForwardingStore) -> Reader:
    return Reader(forwarding)


def all_columns(reader: Reader, reading: Reading) -> Iterator[ColumnChunk]:
    """Read the rest of the first partition by column."""
    while chunk := reader.next_columns(reading, reading.tracks[0]):
        reading.tracks[0].advance(chunk.range, chunk.columns.rows)
        yield chunk


def filled(store: Store, counts: Sequence[int], data: Any = None) -> None:
    """Create the feed and put so many events into each of its partitions."""
    feed = created(store, partition_count=len(counts))
    events = [
        a_new_event(data or {"p": partition, "n": n}, partition=partition)
        for partition, count in enumerate(counts)
        for n in range(count)
    ]
    with store.write() as tx:
        batch = ready(feed, *events)
        append_rows(tx, [batch], lock_heads(tx, [batch]), START_AT)


def wanted(partition: int = 0, cursor: str = FIRST) -> list[Wanted]:
    return [Wanted(f"cursor{partition}", partition, cursor)]


class TestReader:
    def test_it_says_what_cannot_be_read(self, store: Store, reader: Reader) -> None:
        created(store, partition_count=4)

        with pytest.raises(EventTypeNotFound):
            reader.open("unheard.of", None, wanted(), 10)
        with pytest.raises(EventTypeNotFound):
            reader.heads("unheard.of")
        with pytest.raises(BadPartitionCount):
            reader.open(NAME, 3, wanted(), 10)
        with pytest.raises(PartitionNotFound) as told:
            reader.open(NAME, 2, wanted(2), 10)
        assert told.value.fields["partition_count"] == 2

    def test_without_an_n_the_feed_is_seen_as_it_is(self, store: Store, reader: Reader) -> None:
        filled(store, [1, 1, 1])

        assert reader.open(NAME, None, wanted(2), 10).tracks[0].view == View(3, 2, 3)

    def test_how_much_may_be_looked_at_is_shared_among_the_partitions_that_have_events(
        self, store: Store, reader: Reader
    ) -> None:
        filled(store, [5, 5, 0, 5])
        every = [each for partition in range(4) for each in wanted(partition)]

        assert reader.open(NAME, None, every, 100).scan_max == SCAN_ROWS_MAX // 3
        assert reader.open(NAME, None, wanted(2), 100).scan_max == SCAN_ROWS_MAX

    def test_those_who_wait_at_one_place_share_a_small_chunk(
        self, store: Store, reader: Reader, forwarding: ForwardingStore
    ) -> None:
        filled(store, [3])
        readings = [reader.open(NAME, None, wanted(), 10) for _ in range(5)]
        reads = forwarding.reads

        bodies = [reader.next_lines(reading, reading.tracks[0], JOINED) for reading in readings]

        assert {each.body for each in bodies if each} == {b'{"p":0,"n":0}\n{"p":0,"n":1}\n{"p":0,"n":2}'}
        assert forwarding.reads == reads + 1
        assert all(reading.tracks[0].offsets == {0: 3} for reading in readings)

    def test_who_asks_in_another_form_or_for_other_kinds_shares_nothing(self, store: Store, reader: Reader) -> None:
        filled(store, [3])
        kinds = KindFilter(frozenset({NAME}), skip=True, default=NAME)
        bodies = []
        for frame, filtered in ((JOINED, None), (JOINED._replace(separator="|"), None), (JOINED, kinds)):
            reading = reader.open(NAME, None, wanted(), 10, filtered)
            chunk = reader.next_lines(reading, reading.tracks[0], frame)
            assert chunk
            bodies.append(chunk.body)

        assert len(set(bodies)) == 3

    def test_a_large_chunk_is_nobody_elses(self, store: Store, reader: Reader, forwarding: ForwardingStore) -> None:
        filled(store, [100])
        readings = [reader.open(NAME, None, wanted(), 100) for _ in range(3)]
        reads = forwarding.reads

        for reading in readings:
            reader.next_lines(reading, reading.tracks[0], JOINED)

        assert forwarding.reads == reads + 3

    def test_columns_come_chunk_by_chunk_and_whole(self, store: Store, reader: Reader) -> None:
        filled(store, [2_000])
        reading = reader.open(NAME, None, wanted(), 1_500)
        reading.tracks[0].rows_per_chunk = 7

        chunks = list(all_columns(reader, reading))

        assert [chunk.range.start for chunk in chunks] == [0, *(chunk.range.stop for chunk in chunks[:-1])]
        assert (chunks[0].range.stop, chunks[-1].range.stop) == (7, 1_500)
        assert sum(chunk.columns.rows for chunk in chunks) == reading.tracks[0].kept == 1_500

    def test_after_columns_that_were_cut_short_it_goes_on_where_they_end(self, store: Store, reader: Reader) -> None:
        filled(store, [30], {"x": "x" * 400_000})
        reading = reader.open(NAME, None, wanted(), 30)

        chunks = list(all_columns(reader, reading))

        assert len(chunks) > 2
        assert [chunk.range.start for chunk in chunks] == [0, *(chunk.range.stop for chunk in chunks[:-1])]
        assert sum(chunk.columns.rows for chunk in chunks) == 30
        assert reading.tracks[0].offsets == {0: 30}

    def test_what_is_removed_while_it_is_read_is_told_and_never_passed_over(self, store: Store, reader: Reader) -> None:
        filled(store, [10])
        lines, columns = (reader.open(NAME, None, wanted(), 10) for _ in range(2))
        with store.write() as tx:
            tx.feeds.delete(NAME)
        with store.write() as tx:
            tx.feeds.purge(4)

        with pytest.raises(CursorExpired, match="removed while they were being read"):
            reader.next_lines(lines, lines.tracks[0], JOINED)
        with pytest.raises(CursorExpired, match="an unknown number of events"):
            reader.next_columns(columns, columns.tracks[0])


class TestTimes:
    def test_every_partition_tells_where_a_time_begins(self, store: Store) -> None:
        feed = created(store, partition_count=2)
        for at in (10, 10, 20):
            batch = ready(feed, a_new_event(partition=0))
            with store.write() as tx:
                append_rows(tx, [batch], lock_heads(tx, [batch]), START_AT + at)

        reader = Reader(store)

        assert [reader.since(NAME, START_AT + at)[1] for at in (0, 10, 11, 20, 21)] == [
            [0, 0],
            [0, 0],
            [2, 0],
            [2, 0],
            [3, 0],
        ]
        assert reader.since(NAME, START_AT)[0] == feed

    def test_an_event_type_that_is_not_there_has_no_times(self, store: Store) -> None:
        with pytest.raises(EventTypeNotFound):
            Reader(store).since(NAME, START_AT)
