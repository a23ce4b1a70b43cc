"""A producer finds out how much of a batch is stored, by its numbers and its digests."""

from typing import Any

import pytest

from penstock.core.producers import MODULUS, EpochEnd, OffsetRange, ProducerStamp, ProducerState, digests_of
from penstock.core.registry.event_type import StoredFeed
from penstock.hub.log.publish import digest_input
from penstock.hub.producers.sequencing import BatchPresence, find_committed, ranges_as_json
from penstock.storage import Store
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import create_feed
from tests.unit.hub.numbering import (
    a_batch,
    change,
    expire,
    find_producer,
    forget_batches,
    make_events,
    settle,
)


def ask(
    store: Store, feed: StoredFeed, stamp: tuple[int, int], events: str | int, modulus: int = MODULUS
) -> BatchPresence:
    """Return how much is stored of a batch, by its letters or by how many events it has."""
    producer = find_producer(store, feed)
    assert producer is not None
    given = events if isinstance(events, int) else digests_of(map(digest_input, make_events(events)))
    with store.read() as tx:
        return find_committed(tx, producer, ProducerStamp(*stamp), given, modulus)


def in_full(*ranges: tuple[int, int]) -> BatchPresence:
    return BatchPresence(True, [OffsetRange(*each) for each in ranges])


def in_part(*ranges: tuple[int, int]) -> BatchPresence:
    return BatchPresence(False, [OffsetRange(*each) for each in ranges])


NOTHING, UNKNOWN = BatchPresence(False), BatchPresence(None)
FOUND: dict[str, tuple[tuple[int, int], str, BatchPresence, BatchPresence | None]] = {
    "the last batch": ((3, 3), "de", in_full((7, 8)), None),
    "an event": ((3, 1), "b", in_full((4, 4)), None),
    "all": ((3, 0), "abcde", in_full((3, 5), (7, 8)), None),
    "half": ((3, 4), "ef", in_part((8, 8)), None),
    "the next": ((3, 5), "f", NOTHING, None),
    "one far ahead": ((3, 99), "f", NOTHING, None),
    "before the first": ((3, MODULUS - 1), "f", NOTHING, None),
    "another one": ((3, 3), "d!", NOTHING, in_full((7, 8))),
    "half of another one": ((3, 4), "!f", NOTHING, in_part((8, 8))),
    "the epoch before": ((2, 0), "uv", in_full((1, 2)), None),
    "the end of the epoch before": ((2, 1), "vw", in_part((2, 2)), None),
    "after the epoch before": ((2, 2), "w", NOTHING, None),
    "an epoch to come": ((4, 0), "a", NOTHING, None),
    "an unknown epoch": ((1, 0), "a", UNKNOWN, None),
}
"""Stamp, events; what is found by their digests; and by how many they are, where that is something else."""


@pytest.mark.parametrize(("stamp", "letters", "by_digests", "by_count"), FOUND.values(), ids=FOUND)
def test_batch_is_found_by_its_digests_or_by_its_count(
    store: Store,
    feed: StoredFeed,
    *,
    stamp: tuple[int, int],
    letters: str,
    by_digests: BatchPresence,
    by_count: BatchPresence | None,
) -> None:
    assert ask(store, feed, stamp, letters) == by_digests
    assert ask(store, feed, stamp, len(letters)) == (by_count or by_digests)


def test_epochs_that_were_skipped_or_never_used_have_no_batch(store: Store, feed: StoredFeed) -> None:
    settle(store, a_batch(feed, 9, 0, "a"))
    found = [ask(store, feed, (epoch, 0), 1) for epoch in (9, 8, 4, 3, 2, 1)]
    assert found == [in_full((9, 9)), NOTHING, NOTHING, in_full((3, 3)), in_full((1, 1)), UNKNOWN]

    change(store, feed, state=ProducerState(5, 7, 7, previous=EpochEnd(4, 0, None)))
    assert [ask(store, feed, stamp, 1) for stamp in [(5, 7), (5, 8), (4, 0), (4, 5), (3, 5)]] == [NOTHING] * 5


@pytest.mark.parametrize("events", [2, "de"], ids=["by count", "by digests"])
def test_forgotten_batch_is_unknown_unless_some_of_it_is_surely_new(
    store: Store, feed: StoredFeed, events: str | int
) -> None:
    forget_batches(store, feed, 3, 0)
    assert [ask(store, feed, (3, 0), 3), ask(store, feed, (3, 2), 2)] == [UNKNOWN, UNKNOWN]
    assert ask(store, feed, (3, 3), events) == in_full((7, 8))

    forget_batches(store, feed, 2, 0)
    assert [ask(store, feed, (2, 0), 2), ask(store, feed, (2, 1), 2)] == [UNKNOWN, NOTHING]


def test_batches_of_an_expired_producer_are_found_until_they_are_forgotten(store: Store, feed: StoredFeed) -> None:
    expire(store, feed)
    assert ask(store, feed, (3, 3), "de") == in_full((7, 8))
    assert ask(store, feed, (3, 5), 1) == ask(store, feed, (4, 0), 1) == NOTHING
    assert ask(store, feed, (2, 0), "uv") == in_full((1, 2))

    forget_batches(store, feed, 3, 0, 3)
    forget_batches(store, feed, 2, 0)
    assert [ask(store, feed, (epoch, 0), 1) for epoch in (2, 3, 4)] == [UNKNOWN, UNKNOWN, NOTHING]


def test_latest_batch_of_a_number_is_found_after_numbers_have_wrapped_around(store: Store) -> None:
    feed = create_feed(store)
    for number in range(0, 18, 3):
        settle(store, a_batch(feed, 0, number % 8, "abc"), modulus=8)

    asked = [(7, 3), (1, 1), (1, 2), (2, 1), (5, 1), (7, 1)]
    found = [ask(store, feed, (0, sequence), count, 8) for sequence, count in asked]
    assert found == [in_full((15, 17)), in_full((17, 17)), in_part((17, 17)), NOTHING, NOTHING, in_full((15, 15))]


def test_stored_ranges_are_told_in_the_fields_of_an_error() -> None:
    assert UNKNOWN.fields == {"committed": None, "ranges": []}
    ranges = [{"first": 1, "last": 2}, {"first": 5, "last": 5}]
    assert in_full((1, 2), (5, 5)).fields == {"committed": True, "ranges": ranges}
    assert ranges_as_json([]) == []


# The bytes that digests are made of

DISTINCT: list[dict[str, Any]] = [
    {},
    {"event": b'{"n":2}'},
    {"event": b'{"n": 1}'},
    {"key": "k"},
    {"key": "l"},
    {"key": ""},
    {"headers": {"a": "1"}},
    {"headers": {"a": "2"}},
    {"headers": {"b": "1"}},
    {"headers": {"a": "1", "b": "1"}},
    {"key": "k", "headers": {"a": "1"}},
    {"key": '{"a":"1"}'},
    {"key": 'k",{"a":"1'},
]


def make_bytes(event: bytes = b'{"n":1}', **others: Any) -> bytes:
    return digest_input(a_new_event(event, **others))


def test_digested_bytes_differ_where_a_reader_sees_a_difference() -> None:
    assert len({make_bytes(**others) for others in DISTINCT}) == len(DISTINCT)


def test_digested_bytes_are_the_same_where_a_reader_sees_none() -> None:
    assert make_bytes(b' {"n":1}\t') == b' {"n":1}\t'
    assert make_bytes(headers={"a": "1", "b": "2"}) == make_bytes(headers={"b": "2", "a": "1"})
    assert make_bytes(partition=3) == make_bytes()
