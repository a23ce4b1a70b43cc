from collections.abc import Sequence

from penstock.core.track import Joined
from penstock.hub.read import Reader, Reading, Track
from penstock.hub.rows import Rows, next_events, take
from penstock.storage import Store
from penstock.storage.store import DELETION, Block
from penstock.testing.clock import START_AT
from tests.unit.hub.feeds import NAME, created


def written(store: Store, keys: Sequence[str | None], *kinds: str | None, **definition: object) -> Reader:
    """Append an event for each key, the first at START_AT, two at a time; return who reads them."""
    feed = created(store, **definition)
    with store.write() as tx:
        for at, key in enumerate(keys):
            kind = kinds[at] if at < len(kinds) else None
            tx.events.append(
                [Block(feed.partition_ids[0], at, START_AT + at // 2 * 1_000_000, [(key, kind, None, b"%d" % at)])]
            )
    return Reader(store)


def reading(reader: Reader, start: int, stop: int) -> tuple[Reading, Track]:
    """Begin to read the first partition."""
    with reader._store.read() as tx:
        feed = tx.feeds.find(NAME)
    assert feed is not None
    found = reader.onward(feed, 0, start, stop, 99)
    return found, found.tracks[0]


def test_rows_are_what_was_appended(store: Store) -> None:
    reader = written(store, ["a", None, "é", ""])
    chunk = reader.next_columns(*reading(reader, 1, 4))
    assert chunk is not None

    rows = Rows(chunk)

    assert list(rows.keys) == [None, "é".encode(), b""]
    assert list(rows.data) == [b"1", b"2", b"3"]
    assert list(rows.received) == [START_AT / 1e6, START_AT / 1e6 + 1, START_AT / 1e6 + 1]
    assert list(rows.tuples()) == [(None, None, None, b"1"), ("é".encode(), None, None, b"2"), (b"", None, None, b"3")]


def test_events_are_read_as_one_value_with_the_offset_after_them(store: Store) -> None:
    reader = written(store, ["a", "b", "c"])
    asked = reading(reader, 1, 3)

    read = next_events(reader, *asked)

    assert read is not None
    assert isinstance(read.events, Joined)
    assert (list(read.events), list(read.offsets), read.position) == ([b"1", b"2"], [1, 2], 3)
    assert next_events(reader, *asked) is None


def test_marks_of_deletion_are_left_out(store: Store) -> None:
    compacted = {"category": "business", "cleanup_policy": "compact"}
    reader = written(store, ["a", "a", "b"], None, DELETION, **compacted)

    read = next_events(reader, *reading(reader, 0, 3))

    assert read is not None
    assert (read.events, read.offsets, read.position) == ([b"0", b"2"], [0, 2], 3)


def test_what_was_just_read_is_shared_by_those_who_want_the_same(store: Store) -> None:
    reader = written(store, ["a", "b", "c"])
    asked, track = reading(reader, 1, 3)
    assert reader.shared(asked.feed, 0, 1, 3) is None

    next_events(reader, asked, track)

    shared = reader.shared(asked.feed, 0, 1, 3)
    assert shared is not None
    assert (shared.kept, shared.body) == (2, b"1\n2")
    assert reader.shared(asked.feed, 0, 1, 2) is None


def test_where_marks_of_deletion_are_left_out_nothing_is_shared(store: Store) -> None:
    reader = written(store, ["a", "a"], None, DELETION, category="business", cleanup_policy="compact")
    asked, track = reading(reader, 0, 2)

    next_events(reader, asked, track)

    assert reader.shared(asked.feed, 0, 0, 2) is None


def test_only_what_is_kept_is_taken_and_the_rest_is_passed(store: Store) -> None:
    reader = written(store, ["a", "b", "c", "d"])
    found, track = reading(reader, 0, 4)
    chunk = reader.next_columns(found, track)
    assert chunk is not None

    read = take(chunk, Rows(chunk), track, [False, True, False, True], timed=True)

    assert read.events == [b"1", b"3"]
    assert read.offsets == [1, 3]
    assert (read.position, track.offsets) == (4, {0: 4})
    assert read.received == [START_AT / 1e6, START_AT / 1e6 + 1]
