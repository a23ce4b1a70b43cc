"""Pages: a reader's cursors become ranges of the log, which are read chunk by chunk."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.log.cursor import FIRST, LAST, FeedCursor, FeedView, feed_mark
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.delivery import JoinedEvents
from penstock.errors import BadCursor, BadPartitionCount, CursorExpired, EventTypeNotFound, PartitionNotFound
from penstock.hub.log.publish import append_rows, lock_heads
from penstock.hub.log.read import (
    CHUNK_ROWS,
    CHUNK_ROWS_MAX,
    SCAN_ROWS,
    SCAN_ROWS_MAX,
    ChunkRows,
    ColumnChunk,
    PageReading,
    Reader,
    Track,
    WantedPartition,
    read_next_events,
    resolve,
    share_page,
    take_events,
)
from penstock.storage import Store
from penstock.storage.log.events import CHUNK_BYTES, DELETION, Block, KindFilter
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import a_new_event
from tests.store_contract.database import purge
from tests.unit.hub.feeds import (
    JOINED,
    NAME,
    a_feed,
    create_feed,
    find_feed,
    make_heads,
    make_registry,
    prepare_events,
)
from tests.unit.hub.forwarding import ForwardingStore

KINDS = KindFilter(frozenset({"paid"}), skip=False, default=NAME)


def a_track(
    *ends: int,
    offsets: Sequence[int] = (),
    n: int | None = None,
    until: Mapping[int, int] | None = None,
    page: int | None = None,
) -> Track:
    """Return the first partition of a view at *n* of a feed whose partitions end at *ends*, with a *page* to fill."""
    feed = a_feed(len(ends))
    view = FeedView(len(ends) if n is None else n, 0, len(ends))
    begins = dict(zip(view.physical, offsets or [0] * len(ends), strict=False))
    track = Track(feed, view, begins, make_heads(feed, *ends), until or {})
    if page is not None:
        share_page([track], page)
    return track


def a_reading(kinds: KindFilter | None, *tracks: Track) -> PageReading:
    return PageReading(a_feed(), tracks, kinds, scan_max=SCAN_ROWS_MAX)


def read_ranges(track: Track, rows_max: int = 100) -> list[tuple[int, int, int]]:
    """Return the ranges that are read of *track*, where every event counts."""
    found = []
    while wanted := track.find_next_range(rows_max):
        found.append((wanted.physical, wanted.start, wanted.stop))
        track.advance(wanted, wanted.stop - wanted.start)
    return found


# A page is shared among partitions


@pytest.mark.parametrize(
    ("ends", "size", "shares"),
    [([100, 100, 100], 10, [4, 3, 3]), ([100, 2, 0, 100], 10, [4, 2, 0, 4]), ([100], 0, [0])],
    ids=["evenly", "surplus to the others", "nothing"],
)
def test_page_is_shared_among_partitions(ends: list[int], size: int, shares: list[int]) -> None:
    tracks = [a_track(end) for end in ends]

    share_page(tracks, size)

    assert [track.quotas[0] for track in tracks] == shares


def test_page_is_shared_among_the_parts_of_a_merged_partition() -> None:
    assert a_track(50, 3, 50, n=1, page=9).quotas == {0: 3, 1: 3, 2: 3}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.integers(0, 100))
def test_shares_fill_the_page_and_are_even_up_to_the_events_that_are_there(available: list[int], size: int) -> None:
    tracks = [a_track(each) for each in available]

    share_page(tracks, size)

    shares = [track.quotas[0] for track in tracks]
    assert sum(shares) == min(size, sum(available))
    for share, has in zip(shares, available, strict=True):
        assert share <= has
        assert share == has or share >= max(shares) - 1


@given(
    st.lists(st.integers(11, 90), min_size=1, max_size=7), st.lists(st.integers(11, 90), min_size=7, max_size=7),
    st.integers(1, 77),
)  # fmt: skip
def test_shares_before_the_head_do_not_depend_on_how_long_the_partitions_are(
    before: list[int], after: list[int], size: int
) -> None:
    found = []
    for ends in (before, after):
        tracks = [a_track(end) for end in ends[: len(before)]]
        share_page(tracks, size)
        if not any(track.depends_on_head() for track in tracks):
            found.append([track.quotas[0] for track in tracks])

    assert found == found[:1] * len(found)


def test_page_depends_on_the_head_unless_it_ends_before_it_or_at_a_given_cursor() -> None:
    sizes = [a_track(7, page=size).depends_on_head() for size in (0, 6, 7, 100)]
    ends = [a_track(7, until={0: until}, page=100).depends_on_head() for until in (3, 7)]
    merged = [a_track(7, 50, n=1, page=size).depends_on_head() for size in (12, 14)]

    assert (sizes, ends, merged) == ([False, False, True, True], [False, False], [False, True])


# A track is read in ranges


@pytest.mark.parametrize(
    ("track", "rows_max", "ranges"),
    [
        (a_track(100, offsets=[5], page=25), 10, [(0, 5, 15), (0, 15, 25), (0, 25, 30)]),
        (a_track(4, 4, n=1, page=6), 2, [(0, 0, 2), (0, 2, 3), (1, 0, 2), (1, 2, 3)]),
        (a_track(7, page=100), 100, [(0, 0, 7)]),
        (a_track(7, page=0), 100, []),
        *[(a_track(7, offsets=[2], until={0: until}, page=100), 100, ranges)
          for until, ranges in ((3, [(0, 2, 3)]), (2, []), (0, []), (99, [(0, 2, 7)]))],
    ],
    ids=["up to its quota", "one after the other", "to the end", "nothing", "until 3", "until its begin",
         "until before that", "until beyond the end"],
)  # fmt: skip
def test_track_is_read_in_ranges(track: Track, rows_max: int, ranges: list[tuple[int, int, int]]) -> None:
    assert read_ranges(track, rows_max) == ranges
    assert track.kept == track.scanned == sum(stop - start for _, start, stop in ranges)


def test_ranges_grow_while_few_events_are_kept() -> None:
    track = a_track(10_000, page=10)
    sizes = []
    while wanted := track.find_next_range(SCAN_ROWS):
        sizes.append(wanted.stop - wanted.start)
        track.advance(wanted, 0)

    assert sizes == [10, 110, 1210, 8670]


def test_filtered_page_is_not_filled_beyond_its_quota() -> None:
    track = a_track(1000, page=10)
    for kept, size in ((9, 10), (1, 1)):
        wanted = track.find_next_range(SCAN_ROWS)
        assert wanted and wanted.stop - wanted.start == size
        track.advance(wanted, kept)

    assert track.find_next_range(SCAN_ROWS) is None


def test_rows_of_a_chunk_follow_the_size_of_the_events() -> None:
    track, found = a_track(1), [CHUNK_ROWS]
    for rows, size in ((1000, 10 * CHUNK_BYTES), (0, 0), (1000, 1), (1, 100 * CHUNK_BYTES)):
        track.measure(rows, size)
        found.append(track.rows_per_chunk)

    assert found == [CHUNK_ROWS, 100, 100, CHUNK_ROWS_MAX, 1]


def test_cursor_of_a_track_is_the_place_after_its_events() -> None:
    track = a_track(9, 9, n=1, page=6)
    beforehand = track.cursor_after(whole=False)
    assert track.cursor == FeedCursor(feed_mark(NAME), 1, FeedView(1, 0, 2), (0, 0)).encode()

    read_ranges(track)

    assert track.cursor == beforehand == track.cursor_after(whole=True)
    assert track.cursor == FeedCursor(feed_mark(NAME), 1, FeedView(1, 0, 2), (3, 3)).encode()


def test_page_waits_in_each_partition_for_the_first_of_its_slices() -> None:
    assert a_track(7, 9, n=1, offsets=[7, 9]).waits_at == {100: 7, 101: 9}
    for first, second in ((0, 5), (5, 0)):
        assert a_reading(None, a_track(5, n=2, offsets=[first]), a_track(5, n=2, offsets=[second])).waits_at == {100: 0}


@pytest.mark.parametrize(
    ("track", "reaches"),
    [
        *[(a_track(7, page=size), reaches) for size, reaches in ((0, False), (6, False), (7, True), (100, True))],
        (a_track(7, until={0: 5}, page=100), False),
        (a_track(0, 100, n=1, page=10), True),
    ],
    ids=["0 of 7", "6 of 7", "7 of 7", "more", "until before it", "one of two at its end"],
)
def test_page_reaches_the_head_where_it_takes_all_events(track: Track, reaches: bool) -> None:
    assert track.reaches_head() == reaches


@pytest.mark.parametrize(
    ("events", "size", "reaches"),
    [(500, 10, True), (500, 0, False), (SCAN_ROWS_MAX, 1, True), (SCAN_ROWS_MAX + 1, 1, False), (0, 0, True)],
)
def test_filtered_page_reaches_the_head_where_it_may_scan_so_far(events: int, size: int, reaches: bool) -> None:
    for kinds, n in ((KINDS, None), (None, 2)):
        assert a_reading(kinds, a_track(events, n=n, page=size)).reaches_head == reaches
    assert not a_reading(KINDS, a_track(500, until={0: 499}, page=10)).reaches_head


def test_page_is_filtered_by_kind_or_slice() -> None:
    readings = [(None, a_track(1)), (KINDS, a_track(1)), (None, a_track(1, n=2)), (None, a_track(1, 1, n=1))]

    assert [a_reading(*each).is_filtered for each in readings] == [False, True, True, False]


def test_whole_page_is_read_chunk_by_chunk() -> None:
    track = a_track(1_000_000, page=100_000)

    assert a_reading(None, track).find_next_range(track).stop == CHUNK_ROWS  # type: ignore[union-attr]
    track.measure(1, CHUNK_BYTES // 7)
    assert a_reading(None, track).find_next_range(track).stop == 7  # type: ignore[union-attr]


def test_filtered_page_gives_cursors_between_and_ends_after_its_scan() -> None:
    track = a_track(1_000_000, page=100_000)
    reading, sizes = a_reading(KINDS, track), []
    while wanted := reading.find_next_range(track):
        sizes.append(wanted.stop - wanted.start)
        track.advance(wanted, 0)

    assert max(sizes) == SCAN_ROWS
    assert sum(sizes) == track.scanned == SCAN_ROWS_MAX


# Cursors


VIEW = FeedView(2, 1, 4)
"""Partitions 1 and 3 of four, which end at 6 and 8."""


def resolve_cursor(text: str, floor: int = 2) -> dict[int, int]:
    feed = a_feed(4)
    return resolve(feed, make_heads(feed, 5, 6, 7, 8, floor=floor), VIEW, text, "cursor1")


def a_cursor(*offsets: int) -> str:
    return FeedCursor(feed_mark(NAME), 1, VIEW, offsets).encode()


def test_cursor_resolves_to_offsets_from_the_floor_to_the_head() -> None:
    assert resolve_cursor(FIRST) == {1: 2, 3: 2}
    assert resolve_cursor(LAST) == {1: 6, 3: 8}
    assert resolve_cursor(a_cursor(2, 8)) == {1: 2, 3: 8}


def test_cursor_after_the_end_is_refused_by_its_partition() -> None:
    with pytest.raises(BadCursor, match="partition 3 ends at offset 8") as refused:
        resolve_cursor(a_cursor(2, 9))

    assert refused.value.parameter == "cursor1"


def test_cursor_below_the_floor_is_expired_with_the_loss_and_where_to_go_on() -> None:
    with pytest.raises(CursorExpired) as refused:
        resolve_cursor(a_cursor(0, 3), floor=4)

    fields = refused.value.fields
    assert (fields["parameter"], fields["partition"], fields["lost"]) == ("cursor1", 1, 4 + 1)
    assert resolve_cursor(fields["first_available"], floor=4) == {1: 4, 3: 4}
    assert resolve_cursor(fields["last_available"], floor=4) == {1: 6, 3: 8}


@pytest.mark.parametrize(
    ("holes_stop", "reason"),
    [
        (3, "retention has removed them"),
        (4, "retention has removed them, and some may have been compacted or erased before"),
    ],
)
def test_expired_cursor_says_whether_lost_offsets_may_have_had_no_event(holes_stop: int, reason: str) -> None:
    feed = a_feed(4)
    heads = {each: head._replace(holes_stop=holes_stop) for each, head in make_heads(feed, 5, 6, 7, 8, floor=5).items()}

    with pytest.raises(CursorExpired) as refused:
        resolve(feed, heads, VIEW, a_cursor(6, 3), "cursor1")

    assert (refused.value.fields["lost"], refused.value.fields["reason"]) == (2, reason)


# Reading a real log


def make_reader(store: Any) -> Reader:
    return Reader(store, make_registry(store, VirtualClock()))


@pytest.fixture
def reader(forwarding: ForwardingStore) -> Reader:
    return make_reader(forwarding)


def fill(store: Store, *counts: int, data: Any = None) -> None:
    """Create an event type with so many events in each of its partitions."""
    feed = create_feed(store, partition_count=len(counts))
    events = [
        a_new_event(data or {"p": partition, "n": n}, partition=partition)
        for partition, count in enumerate(counts)
        for n in range(count)
    ]
    with store.write() as tx:
        batch = prepare_events(feed, *events)
        append_rows(tx, [batch], lock_heads(tx, [batch]), START_AT)


def wanted(*partitions: int) -> list[WantedPartition]:
    return [WantedPartition(f"cursor{each}", each, FIRST) for each in partitions]


def read_columns(reader: Reader, reading: PageReading) -> list[ColumnChunk]:
    """Read the rest of the first partition by column."""
    chunks = []
    while chunk := reader.read_next_columns(reading, reading.tracks[0]):
        reading.tracks[0].advance(chunk.range, chunk.columns.rows)
        chunks.append(chunk)
    return chunks


def test_page_of_an_unknown_feed_partition_or_count_is_refused(store: Store, reader: Reader) -> None:
    create_feed(store, partition_count=4)

    with pytest.raises(EventTypeNotFound):
        reader.open("unheard.of", None, wanted(0), 10)
    with pytest.raises(EventTypeNotFound):
        reader.find_heads("unheard.of")
    with pytest.raises(EventTypeNotFound):
        reader.find_offsets_since("unheard.of", START_AT)
    with pytest.raises(BadPartitionCount):
        reader.open(NAME, 3, wanted(0), 10)
    with pytest.raises(PartitionNotFound) as refused:
        reader.open(NAME, 2, wanted(2), 10)
    assert refused.value.partition_count == 2


def test_scan_limit_is_shared_among_partitions_with_events(store: Store, reader: Reader) -> None:
    fill(store, 5, 5, 0, 5)

    assert reader.open(NAME, None, wanted(0, 1, 2, 3), 100).scan_max == SCAN_ROWS_MAX // 3
    alone = reader.open(NAME, None, wanted(2), 100)
    assert (alone.scan_max, alone.tracks[0].view) == (SCAN_ROWS_MAX, FeedView(4, 2, 4))


def fill_at_once(store: Store, count: int) -> StoredFeed:
    """Create an event type with so many events of nothing in its one partition."""
    feed = create_feed(store)
    with store.write() as tx:
        tx.log.append([Block(feed.partition_ids[0], 0, START_AT, [(None, None, None, b"{}")] * count)])
    return feed


def follow(reader: Reader, size: int, kinds: KindFilter | None = None) -> list[str]:
    """Read from the beginning on; return the cursors after the pages that do not depend on the head."""
    cursors = [FIRST]
    while True:
        reading = reader.open(NAME, None, [WantedPartition("cursor0", 0, cursors[-1])], size, kinds)
        while reader.read_next_lines(reading, reading.tracks[0], JOINED):
            pass
        if not reading.is_constant(is_whole=True):
            return cursors[1:]
        cursors.append(reading.tracks[0].cursor)


def raise_floor(store: Store, feed: StoredFeed, floor: int) -> None:
    with store.write() as tx:
        assert tx.removal.raise_floor(feed.partition_ids[0], floor)


@pytest.mark.parametrize("size", [10, 30, 99])
def test_readers_that_begin_at_different_floors_follow_the_same_cursors(
    store: Store, reader: Reader, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("penstock.hub.log.read.MEETING_ROWS", 100)
    feed = fill_at_once(store, 1_000)

    cursors = [follow(reader, size)]
    for floor in (7, 8, 43, 99, 100, 101, 250):
        raise_floor(store, feed, floor)
        cursors.append(follow(reader, size))

    assert len(cursors[0]) >= 10
    for later in cursors[1:]:
        assert later == cursors[0][-len(later) :]


def test_readers_of_a_feed_with_removed_events_meet(
    store: Store, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.hub.log.read.MEETING_ROWS", 100)
    feed = fill_at_once(store, 1_000)
    with store.write() as tx:
        tx.log.find_heads(feed.partition_ids, lock=True)
        tx.removal.remove(feed.partition_ids[0], [*range(3, 900, 7)])

    first = follow(reader, 10)
    raise_floor(store, feed, 43)
    second = follow(reader, 10)

    met = [each for each in second if each in first]
    assert met == first[-len(met) :]
    assert second[-len(met) :] == met
    assert len(second) - len(met) <= 100 / 10


def test_first_page_near_the_head_is_not_shortened(store: Store, reader: Reader) -> None:
    feed = fill_at_once(store, 10)
    raise_floor(store, feed, 7)

    assert reader.open(NAME, None, wanted(0), 100).tracks[0].quotas == {0: 3}


def test_filtered_page_is_constant_once_it_has_ended_before_the_head(store: Store, reader: Reader) -> None:
    fill_at_once(store, 50)
    page = reader.open(NAME, None, wanted(0), 10, KindFilter(frozenset({"other"}), skip=True, default=NAME))

    before = page.is_constant(is_whole=False)
    while reader.read_next_lines(page, page.tracks[0], JOINED):
        pass

    assert (before, page.is_constant(is_whole=True), page.tracks[0].offsets) == (False, True, {0: 10})


def test_chunk_from_before_a_removal_is_not_shared_with_a_page_that_begins_after_it(
    store: Store, reader: Reader
) -> None:
    feed = fill_at_once(store, 20)

    def read() -> int:
        page = reader.open(NAME, None, wanted(0), 10)
        chunk = reader.read_next_lines(page, page.tracks[0], JOINED)
        return chunk.scanned if chunk else 0

    before = read()
    with store.write() as tx:
        tx.log.find_heads(feed.partition_ids, lock=True)
        tx.removal.remove(feed.partition_ids[0], [3])

    assert (before, read()) == (10, 9)


def test_small_chunk_is_shared_by_readers_at_one_place(store: Store, forwarding: ForwardingStore) -> None:
    reader = make_reader(forwarding)
    fill(store, 3)
    readings = [reader.open(NAME, None, wanted(0), 10) for _ in range(5)]
    reads = forwarding.reads

    chunks = [reader.read_next_lines(reading, reading.tracks[0], JOINED) for reading in readings]

    assert {each.body for each in chunks if each} == {b'{"p":0,"n":0}\n{"p":0,"n":1}\n{"p":0,"n":2}'}
    assert forwarding.reads == reads + 1
    assert all(reading.tracks[0].offsets == {0: 3} for reading in readings)


def test_small_chunk_of_joined_columns_is_shared_by_readers_at_one_place(
    store: Store, forwarding: ForwardingStore
) -> None:
    reader = make_reader(forwarding)
    fill(store, 3)
    readings = [reader.open(NAME, None, wanted(0), 10) for _ in range(5)]
    reads = forwarding.reads

    chunks = [reader.read_next_joined_columns(each, each.tracks[0], "|") for each in readings]
    again = reader.read_next_columns(readings[0], readings[0].tracks[0])

    assert {each.columns.data for each in chunks if each} == {b'{"p":0,"n":0}|{"p":0,"n":1}|{"p":0,"n":2}'}
    assert again is not None
    assert ChunkRows(again).data == [b'{"p":0,"n":0}', b'{"p":0,"n":1}', b'{"p":0,"n":2}']
    assert forwarding.reads == reads + 2


def test_chunk_is_not_shared_across_frames_and_filters(store: Store, reader: Reader) -> None:
    fill(store, 3)
    kinds = KindFilter(frozenset({NAME}), skip=True, default=NAME)
    bodies = set()
    for frame, filtered in ((JOINED, None), (JOINED._replace(separator="|"), None), (JOINED, kinds)):
        reading = reader.open(NAME, None, wanted(0), 10, filtered)
        chunk = reader.read_next_lines(reading, reading.tracks[0], frame)
        assert chunk
        bodies.add(chunk.body)

    assert len(bodies) == 3


def test_large_chunk_is_not_shared(store: Store, forwarding: ForwardingStore) -> None:
    reader = make_reader(forwarding)
    fill(store, 100)
    readings = [reader.open(NAME, None, wanted(0), 100) for _ in range(3)]
    reads = forwarding.reads

    for reading in readings:
        reader.read_next_lines(reading, reading.tracks[0], JOINED)

    assert forwarding.reads == reads + 3


@pytest.mark.parametrize(
    ("events", "page", "data", "first_rows"),
    [(300, 200, None, 7), (30, 30, {"x": "x" * 400_000}, None)],
    ids=["by rows", "by bytes"],
)
def test_columns_are_read_chunk_by_chunk_without_gaps(
    store: Store, reader: Reader, *, events: int, page: int, data: Any, first_rows: int | None
) -> None:
    fill(store, events, data=data)
    reading = reader.open(NAME, None, wanted(0), page)
    track = reading.tracks[0]
    track.rows_per_chunk = first_rows or track.rows_per_chunk

    chunks = read_columns(reader, reading)

    assert len(chunks) >= 2
    assert [chunk.range.start for chunk in chunks] == [0, *(chunk.range.stop for chunk in chunks[:-1])]
    assert first_rows in (None, chunks[0].range.stop)
    assert sum(chunk.columns.rows for chunk in chunks) == track.kept == page
    assert track.offsets == {0: page}


def test_events_removed_during_a_read_are_an_error_and_never_skipped(store: Store, reader: Reader) -> None:
    fill(store, 10)
    lines, columns = (reader.open(NAME, None, wanted(0), 10) for _ in range(2))
    with store.write() as tx:
        tx.registry.delete(NAME)
    assert purge(store, 4) == 4

    with pytest.raises(CursorExpired, match="removed while they were being read"):
        reader.read_next_lines(lines, lines.tracks[0], JOINED)
    with pytest.raises(CursorExpired, match="an unknown number of events"):
        reader.read_next_columns(columns, columns.tracks[0])


def write(store: Store, keys: Sequence[str | None], *kinds: str | None, **definition: object) -> Reader:
    """Append an event for each key, two a second from START_AT on; return a reader."""
    feed = create_feed(store, **definition)
    with store.write() as tx:
        for at, key in enumerate(keys):
            row = (key, kinds[at] if at < len(kinds) else None, None, b"%d" % at)
            tx.log.append([Block(feed.partition_ids[0], at, START_AT + at // 2 * 1_000_000, [row])])
    return make_reader(store)


def test_time_begins_in_each_partition_at_the_first_event_received_then(store: Store) -> None:
    reader = write(store, "abc", partition_count=2)

    second = 1_000_000
    offsets = [reader.find_offsets_since(NAME, START_AT + at)[1] for at in (0, 1, second, second + 1)]

    assert offsets == [[0, 0], [2, 0], [2, 0], [3, 0]]
    assert reader.find_offsets_since(NAME, START_AT)[0] == find_feed(store)


# Events one by one

COMPACTED = {"category": "business", "cleanup_policy": "compact"}


def begin(store: Store, reader: Reader, start: int, stop: int) -> tuple[PageReading, Track]:
    reading = reader.open_range(find_feed(store), 0, start, stop, 99)
    return reading, reading.tracks[0]


def test_rows_of_a_chunk_are_the_appended_events(store: Store) -> None:
    reader = write(store, ["a", None, "é", ""])
    chunk = reader.read_next_columns(*begin(store, reader, 1, 4))
    assert chunk is not None

    rows = ChunkRows(chunk)

    assert list(rows.keys) == [None, "é".encode(), b""]
    assert list(rows.data) == [b"1", b"2", b"3"]
    assert list(rows.received) == [START_AT / 1e6, START_AT / 1e6 + 1, START_AT / 1e6 + 1]
    assert list(rows.tuples()) == [(None, None, None, b"1"), ("é".encode(), None, None, b"2"), (b"", None, None, b"3")]


def test_events_are_read_as_one_value_and_shared_with_readers_of_the_same(store: Store) -> None:
    reader = write(store, "abc")
    feed = find_feed(store)
    assert reader.find_shared(feed, 0, 1, 3) is None
    asked = begin(store, reader, 1, 3)

    read = read_next_events(reader, *asked)

    assert read is not None
    assert isinstance(read.events, JoinedEvents)
    assert (list(read.events), list(read.offsets), read.position) == ([b"1", b"2"], [1, 2], 3)
    assert read_next_events(reader, *asked) is None
    shared = reader.find_shared(feed, 0, 1, 3)
    assert shared is not None
    assert (shared.kept, shared.body) == (2, b"1\n2")
    assert reader.find_shared(feed, 0, 1, 2) is None


def test_deletion_marks_are_left_out_and_such_events_not_shared(store: Store) -> None:
    reader = write(store, "aab", None, DELETION, **COMPACTED)

    read = read_next_events(reader, *begin(store, reader, 0, 3))

    assert read is not None
    assert (read.events, read.offsets, read.position) == ([b"0", b"2"], [0, 2], 3)
    assert reader.find_shared(find_feed(store), 0, 0, 3) is None


def test_only_kept_events_are_taken_and_the_position_passes_the_others(store: Store) -> None:
    reader = write(store, "abcd")
    reading, track = begin(store, reader, 0, 4)
    chunk = reader.read_next_columns(reading, track)
    assert chunk is not None

    read = take_events(chunk, ChunkRows(chunk), track, [False, True, False, True], timed=True)

    assert (read.events, read.offsets, read.position, track.offsets) == ([b"1", b"3"], [1, 3], 4, {0: 4})
    assert read.received == [START_AT / 1e6, START_AT / 1e6 + 1]
