"""What of a batch is stored is found out by its numbers, of whatever epoch it is."""

import pytest

from penstock.core.event_type import Feed
from penstock.core.producer import MODULUS, Ending, Range, Stamp, State, digests_of
from penstock.hub.committed import Committed, find_committed, ranges_told
from penstock.hub.stamped import handed_bytes
from penstock.storage import Store
from tests.unit.hub.feeds import created
from tests.unit.hub.numbering import (
    change,
    expire,
    fill,
    forget_batches,
    known,
    lettered,
    numbered,
    settle,
)


@pytest.fixture
def feed(store: Store) -> Feed:
    """An event type with a log, see `fill`: epoch 2 is at 1 and 2, epoch 3 at 3 to 5 and 7 to 8."""
    feed = created(store)
    fill(store, feed)
    return feed


def ask(store: Store, feed: Feed, stamp: tuple[int, int], events: str | int, modulus: int = MODULUS) -> Committed:
    producer = known(store, feed)
    assert producer is not None
    given = events if isinstance(events, int) else digests_of(map(handed_bytes, lettered(events)))
    with store.read() as tx:
        return find_committed(tx, producer, Stamp(*stamp), given, modulus)


NOTHING, UNKNOWN = Committed(False), Committed(None)
Case = tuple[tuple[int, int], str, Committed, Committed]
"""Of which stamp, which events; what is found by their digests, and by how many they are."""
FOUND: dict[str, Case] = {
    "the last batch": ((3, 3), "de", Committed(True, [Range(7, 8)]), Committed(True, [Range(7, 8)])),
    "an event": ((3, 1), "b", Committed(True, [Range(4, 4)]), Committed(True, [Range(4, 4)])),
    "all": ((3, 0), "abcde", *[Committed(True, [Range(3, 5), Range(7, 8)])] * 2),
    "half": ((3, 4), "ef", Committed(False, [Range(8, 8)]), Committed(False, [Range(8, 8)])),
    "the next": ((3, 5), "f", NOTHING, NOTHING),
    "one far ahead": ((3, 99), "f", NOTHING, NOTHING),
    "before the first": ((3, MODULUS - 1), "f", NOTHING, NOTHING),
    "another one": ((3, 3), "d!", NOTHING, Committed(True, [Range(7, 8)])),
    "half of another one": ((3, 4), "!f", NOTHING, Committed(False, [Range(8, 8)])),
    "the epoch before": ((2, 0), "uv", Committed(True, [Range(1, 2)]), Committed(True, [Range(1, 2)])),
    "the end of the epoch before": ((2, 1), "vw", Committed(False, [Range(2, 2)]), Committed(False, [Range(2, 2)])),
    "after the epoch before": ((2, 2), "w", NOTHING, NOTHING),
    "an epoch to come": ((4, 0), "a", NOTHING, NOTHING),
    "an epoch that nobody knows": ((1, 0), "a", UNKNOWN, UNKNOWN),
}


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
def test_a_batch_is_found(store: Store, feed: Feed, case: Case) -> None:
    stamp, events, by_digests, by_count = case

    assert ask(store, feed, stamp, events) == by_digests
    assert ask(store, feed, stamp, len(events)) == by_count


def test_an_epoch_between_the_current_one_and_that_before_there_never_was(store: Store, feed: Feed) -> None:
    settle(store, numbered(feed, 9, 0, "a"))

    assert [ask(store, feed, (epoch, 0), 1) for epoch in (9, 8, 4, 3, 2, 1)] == [
        Committed(True, [Range(9, 9)]),
        NOTHING,
        NOTHING,
        Committed(True, [Range(3, 3)]),
        Committed(True, [Range(1, 1)]),
        UNKNOWN,
    ]


def test_an_epoch_that_was_claimed_and_not_used_has_nothing(store: Store, feed: Feed) -> None:
    change(store, feed, state=State(5, 7, 7, previous=Ending(4, 0, None)))

    asked = [(5, 7), (5, 8), (4, 0), (4, 5), (3, 5)]
    assert [ask(store, feed, stamp, 1) for stamp in asked] == [NOTHING] * 5


@pytest.mark.parametrize("events", [2, "de"], ids=["by count", "by digests"])
def test_what_is_forgotten_is_not_known_unless_some_of_it_is_surely_new(
    store: Store, feed: Feed, events: str | int
) -> None:
    forget_batches(store, feed, 3, 0)
    assert ask(store, feed, (3, 0), 3) == UNKNOWN
    assert ask(store, feed, (3, 2), 2) == UNKNOWN
    assert ask(store, feed, (3, 3), events) == Committed(True, [Range(7, 8)])

    forget_batches(store, feed, 2, 0)

    assert ask(store, feed, (2, 0), 2) == UNKNOWN
    assert ask(store, feed, (2, 1), 2) == NOTHING


def test_of_one_that_has_expired_what_is_left_of_its_batches_tells(store: Store, feed: Feed) -> None:
    expire(store, feed)
    assert ask(store, feed, (3, 3), "de") == Committed(True, [Range(7, 8)])
    assert ask(store, feed, (3, 5), 1) == ask(store, feed, (4, 0), 1) == NOTHING
    assert ask(store, feed, (2, 0), "uv") == Committed(True, [Range(1, 2)])

    forget_batches(store, feed, 3, 0, 3)
    forget_batches(store, feed, 2, 0)

    assert [ask(store, feed, (epoch, 0), 1) for epoch in (2, 3, 4)] == [UNKNOWN, UNKNOWN, NOTHING]


def test_after_numbers_have_gone_round_the_latest_are_meant(store: Store) -> None:
    feed = created(store)
    for number in range(0, 18, 3):
        settle(store, numbered(feed, 0, number % 8, "abc"), modulus=8)

    asked = [(7, 3), (1, 1), (1, 2), (2, 1), (5, 1), (7, 1)]
    assert [ask(store, feed, (0, sequence), count, 8) for sequence, count in asked] == [
        Committed(True, [Range(15, 17)]),
        Committed(True, [Range(17, 17)]),
        Committed(False, [Range(17, 17)]),
        NOTHING,
        NOTHING,
        Committed(True, [Range(15, 15)]),
    ]


def test_what_is_known_is_told_in_an_errors_fields() -> None:
    assert Committed(None).fields == {"committed": None, "ranges": []}
    assert Committed(True, [Range(1, 2), Range(5, 5)]).fields == {
        "committed": True,
        "ranges": [{"first": 1, "last": 2}, {"first": 5, "last": 5}],
    }
    assert ranges_told([]) == []
