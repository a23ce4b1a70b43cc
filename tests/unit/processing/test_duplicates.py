"""Repeats are dropped within a window, and what has no id is refused before anything is remembered."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.errors import BadParameter, EventUnusable, WrongTransaction
from penstock.processing.duplicates import AsyncDuplicates, Duplicates
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_feed_event, an_event, an_event_type
from tests.failing import has_code

PLACED = an_event_type("order.placed", category="business")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        Duplicates(connection, PLACED, "billing").create()
        yield connection


def numbers(events: list[Any]) -> list[int]:
    return [event["order_id"] for event in events]


def orders(*numbers: int) -> list[dict[str, Any]]:
    return [a_business_event(number) for number in numbers]


def count_remembered(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT count(*) FROM penstock_seen").fetchone()[0]
    return count


def test_undefined_event_type_is_refused_by_name() -> None:
    with pytest.raises(EventUnusable, check=has_code("wrong-category")) as raised:
        Duplicates(None, an_event_type("clicks"), "billing")

    assert str(raised.value).startswith(
        "the category of 'clicks' is undefined, not business or data: its events have no"
    )
    assert raised.value.event_type == "clicks"
    with pytest.raises(EventUnusable, check=has_code("wrong-category"), match="clicks"):
        AsyncDuplicates(None, an_event_type("clicks"), "billing")


def test_first_event_without_an_id_is_refused_of_a_feed_known_by_name(connection: sqlite3.Connection) -> None:
    clicks = Duplicates(connection, "clicks", "billing")

    with pytest.raises(
        EventUnusable, check=has_code("eid-missing"), match="event 1 of the batch, of 'clicks', partition 2 has no id"
    ):
        clicks.fresh([a_feed_event(a_business_event()), a_feed_event(an_event(), partition=2)])

    assert count_remembered(connection) == 0


def test_events_are_fresh_once_each_in_their_order(connection: sqlite3.Connection) -> None:
    duplicates = Duplicates(connection, PLACED, "billing")

    assert numbers(duplicates.fresh(orders(3, 1, 3, 2, 1))) == [3, 1, 2]
    assert numbers(duplicates.fresh(orders(2, 5, 4, 3))) == [5, 4]
    assert duplicates.fresh(orders(1)) == duplicates.fresh([]) == []


def test_fresh_events_are_the_same_objects(connection: sqlite3.Connection) -> None:
    event = a_feed_event(a_business_event())

    assert Duplicates(connection, PLACED, "billing").fresh(iter([event])) == [event]


def test_event_is_remembered_for_a_number_of_later_events_of_its_partition(connection: sqlite3.Connection) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=3)
    for number in (1, 2, 3):
        duplicates.fresh(orders(number))
    duplicates.fresh([a_feed_event(a_business_event(number), partition=1) for number in (7, 8, 9, 10)])

    assert numbers(duplicates.fresh(orders(1, 2, 3))) == []
    duplicates.fresh(orders(4))
    assert count_remembered(connection) == 6
    assert numbers(duplicates.fresh(orders(2, 3, 4))) == []
    assert numbers(duplicates.fresh(orders(1))) == [1]


def test_repeats_shorten_no_window(connection: sqlite3.Connection) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=3)
    duplicates.fresh(orders(1, 2))
    for _ in range(5):
        duplicates.fresh(orders(1, 2))
    duplicates.fresh(orders(1, 2, 3))

    assert numbers(duplicates.fresh(orders(1, 2, 3, 4))) == [4]


def test_end_of_a_batch_larger_than_the_window_is_remembered(connection: sqlite3.Connection) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=2)

    assert numbers(duplicates.fresh(orders(1, 2, 3, 4, 1))) == [1, 2, 3, 4]
    assert numbers(duplicates.fresh(orders(3, 4))) == []


def test_event_is_remembered_for_a_number_of_seconds(connection: sqlite3.Connection) -> None:
    clock = VirtualClock()
    duplicates = Duplicates(connection, PLACED, "billing", window_events=None, window_seconds=1.5, clock=clock)
    duplicates.fresh(orders(1))
    clock.advance(seconds=1)
    duplicates.fresh(orders(2))
    clock.advance(seconds=0.5)
    assert numbers(duplicates.fresh(orders(1))) == []
    clock.advance(microseconds=1)

    duplicates.fresh(orders(3))
    assert count_remembered(connection) == 2
    assert numbers(duplicates.fresh(orders(1, 2))) == [1]


def test_event_older_than_the_window_is_forgotten_though_nothing_has_come_since(
    connection: sqlite3.Connection,
) -> None:
    clock = VirtualClock()
    duplicates = Duplicates(connection, PLACED, "billing", window_seconds=1.5, clock=clock)
    everything = Duplicates(connection, PLACED, "billing", clock=clock)
    eids = {event["metadata"]["eid"] for event in orders(1, 2)}
    duplicates.fresh(orders(1, 2))
    clock.advance(seconds=1.5)
    assert numbers(duplicates.fresh(orders(1))) == []
    assert duplicates.seen(eids) == eids
    clock.advance(microseconds=1)

    assert duplicates.seen(eids) == set()
    assert everything.seen(eids) == eids
    assert len(duplicates.fresh([a_feed_event(a_business_event(1), partition=1)])) == 1
    assert numbers(duplicates.fresh(orders(1, 2))) == [2]
    assert numbers(duplicates.fresh(orders(1, 2))) == []


def test_both_bounds_hold_together(connection: sqlite3.Connection) -> None:
    clock = VirtualClock()
    duplicates = Duplicates(connection, PLACED, "billing", window_events=2, window_seconds=10, clock=clock)
    duplicates.fresh(orders(1, 2, 3))
    assert count_remembered(connection) == 2
    clock.advance(seconds=11)
    duplicates.fresh(orders(4))

    assert count_remembered(connection) == 1


def test_consumers_and_feeds_remember_each_for_themselves(connection: sqlite3.Connection) -> None:
    Duplicates(connection, PLACED, "billing").fresh(orders(1))

    assert numbers(Duplicates(connection, PLACED, "mail").fresh(orders(1))) == [1]
    assert numbers(Duplicates(connection, "order.paid", "billing").fresh(orders(1, 2))) == [1, 2]
    seen = Duplicates(connection, PLACED, "billing").seen
    assert seen([event["metadata"]["eid"].upper() for event in orders(1, 2, 3)]) == {
        event["metadata"]["eid"] for event in orders(1, 2)
    }
    assert seen([]) == set()


def test_seen_events_can_be_forgotten(connection: sqlite3.Connection) -> None:
    duplicates, others = (Duplicates(connection, PLACED, consumer) for consumer in ("billing", "mail"))
    duplicates.fresh(orders(1))
    others.fresh(orders(1))

    duplicates.forget()

    assert numbers(duplicates.fresh(orders(1))) == [1]
    assert others.fresh(orders(1)) == []


def test_events_are_remembered_inside_a_transaction_alone(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None

    with pytest.raises(WrongTransaction, check=has_code("outside-transaction")):
        Duplicates(connection, PLACED, "billing").fresh(orders(1))

    assert count_remembered(connection) == 0


def test_window_can_be_longer_than_all_time(connection: sqlite3.Connection) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_seconds=1e300)

    assert numbers(duplicates.fresh(orders(1))) == [1]
    assert numbers(duplicates.fresh(orders(1))) == []
    assert len(duplicates.seen([orders(1)[0]["metadata"]["eid"]])) == 1


@pytest.mark.parametrize(
    "window",
    [
        {"window_events": None},
        {"window_events": 0},
        {"window_events": 1.5},
        {"window_events": True},
        {"window_seconds": 0},
        {"window_seconds": float("nan")},
        {"window_seconds": float("inf")},
    ],
    ids=str,
)
def test_window_has_a_bound(window: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match="window"):
        Duplicates(None, PLACED, "billing", **window)
