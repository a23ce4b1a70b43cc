"""`Duplicates` keeps the events that a consumer has seen in its own database, in its own transactions.

A repeated event has one effect: that is a promise, of `test_repeated_event_has_one_effect`.
"""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from penstock.errors import BadParameter, EventUnusable, WrongTransaction
from penstock.processing.duplicates import AsyncDuplicates, Duplicates
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_feed_event, an_event, an_event_type
from tests.failing import has_code
from tests.processing.conftest import PLACED, Connect


def orders(*numbers: int, partition: int = 0) -> list[Any]:
    return [a_feed_event(a_business_event(number), partition=partition) for number in numbers]


def numbers(events: list[Any]) -> list[int]:
    return [event.data["order_id"] for event in events]


def eids(*numbers: int) -> set[str]:
    return {event.data["metadata"]["eid"] for event in orders(*numbers)}


def test_window_can_be_longer_than_all_time(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=None, window_seconds=1e300)

    assert numbers(duplicates.fresh(iter(orders(1)))) == [1]
    assert duplicates.fresh(orders(1)) == duplicates.fresh([]) == []
    assert duplicates.seen(eids(1)) == eids(1)


def test_event_is_fresh_again_after_the_connection_broke_off(connect: Connect, connection: Any) -> None:
    with connect() as killed:
        assert numbers(Duplicates(killed, PLACED, "billing").fresh(orders(1))) == [1]
        killed.close()

    assert numbers(Duplicates(connection, PLACED, "billing").fresh(orders(1))) == [1]


def test_event_without_an_eid_is_refused_and_nothing_is_stored(connection: Any) -> None:
    duplicates = Duplicates(connection, "clicks", "billing")

    told = "event 1 of the batch, of 'clicks', partition 2 has no id"
    with pytest.raises(EventUnusable, check=has_code("eid-missing"), match=told):
        duplicates.fresh([*orders(1), a_feed_event(an_event(), partition=2)])
    connection.commit()

    assert numbers(duplicates.fresh(orders(1))) == [1]


@pytest.mark.parametrize("kind", [Duplicates, AsyncDuplicates])
def test_undefined_event_type_is_refused_by_name(kind: Any) -> None:
    told = "the category of 'clicks' is undefined, not business or data: its events have no"
    with pytest.raises(EventUnusable, check=has_code("wrong-category"), match=told) as raised:
        kind(None, an_event_type("clicks"), "billing")
    assert raised.value.event_type == "clicks"


def test_window_without_a_bound_is_refused() -> None:
    with pytest.raises(BadParameter, match="window_events is missing; allowed: a number of events or of seconds"):
        Duplicates(None, PLACED, "billing", window_events=None)


def test_window_forgets_by_events_of_a_partition_and_by_seconds(connection: Any) -> None:
    clock = VirtualClock()
    duplicates = Duplicates(connection, PLACED, "billing", window_events=3, window_seconds=60, clock=clock)
    duplicates.fresh(orders(1, 2, 3))
    duplicates.fresh(orders(7, 8, 9, partition=1))
    assert duplicates.seen(eids(*range(10))) == eids(1, 2, 3, 7, 8, 9)

    duplicates.fresh(orders(4))
    assert duplicates.seen(eids(*range(10))) == eids(2, 3, 4, 7, 8, 9)
    clock.advance(seconds=61)
    duplicates.fresh([*orders(5), *orders(10, partition=1)])
    assert duplicates.seen(eids(*range(11))) == eids(5, 10)


@pytest.mark.parametrize("is_expired", [False, True], ids=["at first", "after the window"])
def test_concurrent_workers_have_one_effect_for_each_event(
    connect: Connect, connection: Any, *, is_expired: bool
) -> None:
    clock = VirtualClock()
    if is_expired:
        Duplicates(connection, PLACED, "billing", window_seconds=60, clock=clock).fresh(orders(*range(100)))
        connection.commit()
        clock.advance(seconds=61)
    effects: list[int] = []

    def work(partition: int) -> None:
        with connect() as mine:
            duplicates = Duplicates(mine, PLACED, "billing", window_seconds=60, clock=clock)
            for start in range(0, 100, 10):
                batch = list(range(start, start + 10))
                events = orders(*(batch if partition else batch[::-1]), partition=partition)
                effects.extend(numbers(duplicates.fresh(events)))
                mine.commit()

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(work, range(4)))

    assert sorted(effects) == list(range(100))


def test_repeat_after_the_window_is_fresh(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=2)

    assert numbers(duplicates.fresh(orders(1, 2, 3, 1))) == [1, 2, 3]
    assert numbers(duplicates.fresh(orders(2, 3, 1))) == [1]


def test_seen_events_are_shared_across_feeds_and_forgotten_by_feed(connection: Any) -> None:
    placed, paid = (Duplicates(connection, name, "billing") for name in ("order.placed", "order.paid"))
    other = Duplicates(connection, "order.placed", "mail")
    placed.fresh(orders(1))
    assert numbers(paid.fresh(orders(1, 2))) == [1, 2], "each feed has its own"
    assert numbers(other.fresh(orders(1, 3))) == [1, 3]

    assert placed.seen([eid.upper() for eid in eids(1, 2, 3)]) == paid.seen(eids(1, 2, 3)) == eids(1, 2)
    paid.forget()
    assert placed.seen(eids(1, 2, 3)) == eids(1)
    assert (placed.seen([]), other.seen(eids(1, 2, 3))) == (set(), eids(1, 3))
    placed.forget()
    assert numbers(placed.fresh(orders(1))) == [1]


def test_batch_of_ten_thousand_events_is_accepted(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing")
    events = [event for partition in range(4) for event in orders(*range(partition, 10_000, 4), partition=partition)]

    assert duplicates.fresh(events) == events
    assert duplicates.fresh(events[::-1]) == []


def test_create_is_repeatable_and_takes_another_table_name(connection: Any) -> None:
    Duplicates(connection, PLACED, "billing").create()
    other = Duplicates(connection, PLACED, "billing", table="met")
    other.create()
    other.fresh(orders(1))

    assert other.fresh(orders(1)) == []
    assert numbers(Duplicates(connection, PLACED, "billing").fresh(orders(1))) == [1]


def test_any_cursor_and_row_factory_is_accepted(tmp_path: Path, postgres_url: str) -> None:
    with closing(sqlite3.connect(tmp_path / "consumer.db")) as lite:
        lite.row_factory = sqlite3.Row
        lite.text_factory = bytes
        use(lite)
    for cursor_factory in (psycopg.RawCursor, psycopg.ClientCursor, psycopg.Cursor):
        with psycopg.connect(postgres_url, cursor_factory=cursor_factory, row_factory=dict_row) as connection:
            use(connection)
            connection.rollback()
    with psycopg.connect(postgres_url) as connection, connection.pipeline():
        use(connection)


def use(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=2, window_seconds=60)
    duplicates.create()
    assert numbers(duplicates.fresh(orders(1, 2, 3))) == [1, 2, 3]
    assert numbers(duplicates.fresh(orders(1, 3))) == [1]
    assert duplicates.seen(eids(1, 2, 3)) == eids(1, 3)
    duplicates.forget()


@pytest.mark.parametrize("kind", ["sqlite", "psycopg"])
def test_fresh_outside_a_transaction_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    with closing(
        sqlite3.connect(":memory:", isolation_level=None)
        if kind == "sqlite"
        else psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True)
    ) as connection:
        duplicates = Duplicates(connection, PLACED, "billing")
        duplicates.create()
        with pytest.raises(WrongTransaction, check=has_code("outside-transaction")):
            duplicates.fresh(orders(1))

        assert duplicates.seen(eids(1)) == set()
        connection.execute("BEGIN")
        assert numbers(duplicates.fresh(orders(1))) == [1]
        connection.execute("ROLLBACK")


@pytest.mark.anyio
async def test_async_psycopg_connection_is_supported(postgres_url: str) -> None:
    for cursor_factory in (psycopg.AsyncCursor, psycopg.AsyncRawCursor):
        async with await psycopg.AsyncConnection.connect(postgres_url, cursor_factory=cursor_factory) as connection:
            duplicates = AsyncDuplicates(connection, PLACED, "billing", window_events=2)
            await duplicates.create()

            assert numbers(await duplicates.fresh(orders(1, 2, 3))) == [1, 2, 3]
            assert await duplicates.fresh(orders(2, 3)) == []
            assert await duplicates.seen(eids(1, 2, 3)) == eids(2, 3)
            await duplicates.forget()
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        with pytest.raises(WrongTransaction, check=has_code("outside-transaction")):
            await AsyncDuplicates(connection, PLACED, "billing").fresh(orders(1))
