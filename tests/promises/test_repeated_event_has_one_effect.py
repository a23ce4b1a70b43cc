"""An event has one effect, however often it comes and its consumer is cut off: `Duplicates`."""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.processing.duplicates import Duplicates
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_feed_event, an_event_type
from tests.exhaustive import examples
from tests.promises.consumer_database import connections

PLACED = an_event_type("order.placed", category="business")
_consumers = (f"consumer {number}" for number in count())

Delivery = tuple[list[tuple[int, int]], bool]
"""Events by number and partition; and whether the consumer is cut off before it commits, and given them again."""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A consumer's connection to its own database."""
    with connections(request, tmp_path_factory, 1) as [connection]:
        Duplicates(connection, PLACED, "any").create()
        connection.execute("CREATE TABLE effect (consumer text NOT NULL, number integer NOT NULL)")
        connection.commit()
        yield connection


deliveries = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 2)), max_size=8), st.booleans()), max_size=12
)


@settings(max_examples=examples(15, 150))
@given(deliveries)
def test_each_event_has_its_effect_once_after_repeats_and_rollbacks(
    connection: Any, deliveries: list[Delivery]
) -> None:
    consumer = next(_consumers)
    duplicates = Duplicates(connection, PLACED, consumer)

    for batch, is_cut_off in deliveries:
        events = [a_feed_event(a_business_event(number), partition=partition) for number, partition in batch]
        if is_cut_off:
            take_effect(connection, consumer, duplicates.fresh(events))
            connection.rollback()
        take_effect(connection, consumer, duplicates.fresh(events))
        connection.commit()

    assert effects(connection, consumer) == Counter({number for batch, _ in deliveries for number, _ in batch})


def take_effect(connection: Any, consumer: str, events: list[Any]) -> None:
    for event in events:
        connection.execute(f"INSERT INTO effect VALUES ('{consumer}', {event.data['order_id']})")


def effects(connection: Any, consumer: str) -> Counter[int]:
    rows = connection.execute(f"SELECT number FROM effect WHERE consumer = '{consumer}'").fetchall()
    return Counter(number for (number,) in rows)


@settings(max_examples=examples(10, 100))
@given(st.lists(st.integers(0, 11), min_size=1, max_size=40), st.integers(1, 5), st.integers(1, 6))
def test_repeat_within_the_window_is_recognised(connection: Any, numbers: list[int], window: int, size: int) -> None:
    duplicates = Duplicates(connection, PLACED, next(_consumers), window_events=window)
    fresh: list[int] = []
    seen_at: dict[int, int] = {}

    for start in range(0, len(numbers), size):
        batch = [a_feed_event(a_business_event(number)) for number in numbers[start : start + size]]
        found = [event.data["order_id"] for event in duplicates.fresh(batch)]
        for number in dict.fromkeys(numbers[start : start + size]):
            within = number in seen_at and len(fresh) - seen_at[number] <= window
            assert not (within and number in found), f"{number} was forgotten too early"
        for number in found:
            seen_at[number] = len(fresh)
            fresh.append(number)
        connection.commit()


@settings(max_examples=examples(15, 150))
@given(st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=4), st.integers(0, 2), st.integers(0, 7)), max_size=12))
def test_repeat_behind_the_window_is_not_recognised(
    connection: Any, deliveries: list[tuple[list[int], int, int]]
) -> None:
    clock = VirtualClock()
    duplicates = Duplicates(connection, PLACED, next(_consumers), window_seconds=10, clock=clock)
    seen_at: dict[int, int] = {}
    eids = {a_business_event(number)["metadata"]["eid"]: number for number in range(6)}

    for numbers, partition, seconds in deliveries:
        now = clock.advance(seconds=seconds)
        known = {number for number, at in seen_at.items() if now - at <= 10_000_000}
        assert {eids[eid] for eid in duplicates.seen(eids)} == known
        fresh = duplicates.fresh([a_feed_event(a_business_event(number), partition=partition) for number in numbers])
        found = [event.data["order_id"] for event in fresh]
        assert found == [number for number in dict.fromkeys(numbers) if number not in known]
        seen_at.update(dict.fromkeys(found, now))
        connection.commit()
