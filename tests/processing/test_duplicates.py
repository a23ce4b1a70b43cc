"""What a consumer has seen lies in its own database, as part of its own transactions."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from penstock.errors import EidMissing, OutsideTransaction
from penstock.processing import AsyncDuplicates, Duplicates
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_feed_event, an_event
from tests.processing.conftest import PLACED, Connect


def orders(*numbers: int, partition: int = 0) -> list[Any]:
    return [a_feed_event(a_business_event(number), partition=partition) for number in numbers]


def numbers(events: list[Any]) -> list[int]:
    return [event.data["order_id"] for event in events]


def eids(*numbers: int) -> set[str]:
    return {event.data["metadata"]["eid"] for event in orders(*numbers)}


def test_repeats_are_dropped_in_whichever_partition_they_come(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing")

    assert numbers(duplicates.fresh([*orders(3, 1, 3), *orders(2, 1, partition=1)])) == [3, 1, 2]
    assert numbers(duplicates.fresh([*orders(2, 4), *orders(3, 5, partition=1)])) == [4, 5]
    assert duplicates.fresh(orders(1)) == []


def test_what_was_seen_shares_the_fate_of_the_transaction(connect: Connect, connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing")
    assert numbers(duplicates.fresh(orders(1))) == [1]
    connection.commit()

    assert numbers(duplicates.fresh(orders(1, 2))) == [2]
    connection.rollback()

    assert numbers(duplicates.fresh(orders(1, 2))) == [2]
    connection.commit()
    with connect() as other:
        assert Duplicates(other, PLACED, "billing").fresh(orders(1, 2)) == []


def test_a_consumer_that_is_cut_off_is_given_the_event_again(connect: Connect, connection: Any) -> None:
    with connect() as killed:
        assert numbers(Duplicates(killed, PLACED, "billing").fresh(orders(1))) == [1]
        killed.close()

    assert numbers(Duplicates(connection, PLACED, "billing").fresh(orders(1))) == [1]


def test_an_event_without_an_id_is_refused_before_anything_is_remembered(connection: Any) -> None:
    duplicates = Duplicates(connection, "clicks", "billing")

    with pytest.raises(EidMissing, match="of 'clicks'"):
        duplicates.fresh([*orders(1), a_feed_event(an_event())])
    connection.commit()

    assert numbers(duplicates.fresh(orders(1))) == [1]


def test_the_window_is_kept(connection: Any) -> None:
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


def test_what_is_older_than_the_window_is_not_known_though_nothing_has_come_since(connection: Any) -> None:
    clock = VirtualClock()
    duplicates = Duplicates(connection, PLACED, "billing", window_seconds=60, clock=clock)
    duplicates.fresh([*orders(1, 2), *orders(3, partition=1)])
    clock.advance(seconds=61)

    assert duplicates.seen(eids(1, 2, 3)) == set()
    assert numbers(duplicates.fresh(orders(3, 1, 3))) == [3, 1]
    assert duplicates.seen(eids(1, 2, 3)) == eids(1, 3)
    assert duplicates.fresh(orders(1, 3)) == []


def test_workers_who_are_given_an_event_again_after_the_window_bring_about_one_effect(
    connect: Connect, connection: Any
) -> None:
    clock = VirtualClock()
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

    in_threads(work)

    assert sorted(effects) == list(range(100))


def test_repeats_shorten_no_window(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=3)
    for batch in ([1, 2], [1, 2], [1, 2, 3], [3, 2, 1]):
        duplicates.fresh(orders(*batch))

    assert numbers(duplicates.fresh(orders(1, 2, 3, 4))) == [4]


def test_a_repeat_that_comes_after_the_window_is_fresh(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing", window_events=2)
    duplicates.fresh(orders(1, 2, 3))

    assert numbers(duplicates.fresh(orders(2, 3, 1))) == [1]


def test_what_is_seen_is_known_across_feeds_and_forgotten_by_feed(connection: Any) -> None:
    placed, paid = (Duplicates(connection, name, "billing") for name in ("order.placed", "order.paid"))
    other = Duplicates(connection, "order.placed", "mail")
    placed.fresh(orders(1))
    paid.fresh(orders(2))
    other.fresh(orders(3))

    assert placed.seen(eids(1, 2, 3)) == paid.seen(eids(1, 2, 3)) == eids(1, 2)
    placed.forget()
    assert placed.seen(eids(1, 2, 3)) == eids(2)


def test_ten_thousand_events_are_one_batch(connection: Any) -> None:
    duplicates = Duplicates(connection, PLACED, "billing")
    events = [event for partition in range(4) for event in orders(*range(partition, 10_000, 4), partition=partition)]

    assert duplicates.fresh(events) == events
    assert duplicates.fresh(events[::-1]) == []


def test_workers_who_are_given_the_same_event_bring_about_one_effect(connect: Connect, connection: Any) -> None:
    effects: list[int] = []

    def work(partition: int) -> None:
        with connect() as mine:
            for start in range(0, 100, 10):
                batch = list(range(start, start + 10))
                events = orders(*(batch if partition else batch[::-1]), partition=partition)
                effects.extend(numbers(Duplicates(mine, PLACED, "billing").fresh(events)))
                mine.commit()

    in_threads(work)

    assert sorted(effects) == list(range(100))


def in_threads(work: Callable[[int], None]) -> None:
    """Have four workers do *work*, each for a partition of its own."""
    workers = [Thread(target=work, args=[partition]) for partition in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)


def test_the_table_can_be_created_again_and_bear_another_name(connection: Any) -> None:
    Duplicates(connection, PLACED, "billing").create()
    other = Duplicates(connection, PLACED, "billing", table="met")
    other.create()
    other.fresh(orders(1))

    assert other.fresh(orders(1)) == []
    assert numbers(Duplicates(connection, PLACED, "billing").fresh(orders(1))) == [1]


def test_kinds_of_cursors_and_rows_do_not_matter(tmp_path: Path, postgres_url: str) -> None:
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
def test_nothing_is_remembered_without_a_transaction(kind: str, request: pytest.FixtureRequest) -> None:
    with closing(
        sqlite3.connect(":memory:", isolation_level=None)
        if kind == "sqlite"
        else psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True)
    ) as connection:
        duplicates = Duplicates(connection, PLACED, "billing")
        duplicates.create()
        with pytest.raises(OutsideTransaction):
            duplicates.fresh(orders(1))

        assert duplicates.seen(eids(1)) == set()
        connection.execute("BEGIN")
        assert numbers(duplicates.fresh(orders(1))) == [1]
        connection.execute("ROLLBACK")


@pytest.mark.anyio
async def test_an_async_connection_of_psycopg_is_awaited(postgres_url: str) -> None:
    for cursor_factory in (psycopg.AsyncCursor, psycopg.AsyncRawCursor):
        async with await psycopg.AsyncConnection.connect(postgres_url, cursor_factory=cursor_factory) as connection:
            duplicates = AsyncDuplicates(connection, PLACED, "billing", window_events=2)
            await duplicates.create()

            assert numbers(await duplicates.fresh(orders(1, 2, 3))) == [1, 2, 3]
            assert await duplicates.fresh(orders(2, 3)) == []
            assert await duplicates.seen(eids(1, 2, 3)) == eids(2, 3)
            await duplicates.forget()
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        with pytest.raises(OutsideTransaction):
            await AsyncDuplicates(connection, PLACED, "billing").fresh(orders(1))
