"""`Latest` keeps the change applied last to each entity in the consumer's own database and transactions."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from penstock.processing import AsyncLatest, Changes, Latest
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_data_event, a_feed_event
from tests.processing.conftest import CHANGES, Connect


def change(order: int, version: Any, data_op: str = "U") -> Any:
    return a_feed_event(a_data_event(order, data_op=data_op, version=version))


def summary(changes: list[Any]) -> list[tuple[Any, Any, bool]]:
    return [(each.entity, each.order, each.deletes) for each in changes]


def test_newest_change_of_each_entity_takes_effect_once(connection: Any) -> None:
    latest = Latest(connection, CHANGES, "search")

    assert summary(latest.newest([change(1, 9), change(2, 1), change(1, 10)])) == [(1, 10, False), (2, 1, False)]
    assert summary(latest.newest([change(1, 9), change(2, 2, "D"), change(1, 10)])) == [(2, 2, True)]
    assert summary(latest.newest([change(2, 1), change(2, 2), change(1, 11, "S")])) == [(1, 11, False)]
    assert latest.newest([]) == []


def test_applied_changes_are_rolled_back_with_the_transaction(connect: Connect, connection: Any) -> None:
    latest = Latest(connection, CHANGES, "search")
    latest.newest([change(1, 1)])
    connection.commit()

    assert summary(latest.newest([change(1, 2), change(2, 1)])) == [(1, 2, False), (2, 1, False)]
    connection.rollback()

    assert summary(latest.newest([change(1, 2), change(2, 1)])) == [(1, 2, False), (2, 1, False)]
    connection.commit()
    with connect() as other:
        assert Latest(other, CHANGES, "search").newest([change(1, 2), change(2, 1)]) == []


def test_keys_of_several_fields_are_compared_by_value(connection: Any) -> None:
    changes = Changes("order.changed", entity=["data.shop", "data.order_id"], order_by=["data.epoch", "data.at"])
    latest = Latest(connection, changes, "search")

    def each(epoch: int, at: str) -> Any:
        return a_data_event(7, shop='ø"\\\n', epoch=epoch, at=at)

    assert summary(latest.newest([each(9, "2024-05-01T10:00:00Z")])) == [
        (('ø"\\\n', 7), (9, "2024-05-01T10:00:00Z"), False)
    ]
    assert len(latest.newest([each(9, "2024-05-01T10:00:00.5Z")])) == 1
    assert latest.newest([each(9, "2024-05-01T10:00:00.25Z")]) == []
    assert len(latest.newest([each(10, "2020-05-01T10:00:00.25Z")])) == 1


def test_old_deletions_are_forgotten_on_demand(connection: Any) -> None:
    clock = VirtualClock()
    latest = Latest(connection, CHANGES, "search", clock=clock)
    latest.newest([change(1, 5, "D"), change(2, 5)])
    clock.advance(seconds=61)

    latest.forget_deleted(60)
    assert summary(latest.newest([change(1, 4), change(2, 4)])) == [(1, 4, False)]
    latest.forget()
    assert len(latest.newest([change(1, 4), change(2, 4)])) == 2


def test_batch_of_ten_thousand_changes_is_accepted(connection: Any) -> None:
    latest = Latest(connection, CHANGES, "search")
    changes = [change(number % 5_000, number) for number in range(10_000)]

    assert [each.event for each in latest.newest(changes)] == changes[5_000:]
    assert latest.newest(changes) == []


def test_concurrent_workers_end_with_the_newest_change_of_an_entity(connect: Connect, connection: Any) -> None:
    connection.execute("CREATE TABLE copy (id integer PRIMARY KEY, version integer NOT NULL)")
    connection.commit()
    start = Barrier(4)

    def work(remainder: int) -> None:
        with connect() as mine:
            start.wait(300)
            for version in range(remainder, 80, 4):
                for each in Latest(mine, CHANGES, "search").newest([change(7, version), change(8, 80 - version)]):
                    mine.execute(
                        f"INSERT INTO copy VALUES ({each.entity}, {each.order}) "
                        "ON CONFLICT (id) DO UPDATE SET version = excluded.version"
                    )
                mine.commit()

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(work, range(4)))

    assert connection.execute("SELECT id, version FROM copy ORDER BY id").fetchall() == [(7, 79), (8, 80)]


def test_any_cursor_and_row_factory_is_accepted(postgres_url: str) -> None:
    for cursor_factory in (psycopg.RawCursor, psycopg.ClientCursor, psycopg.Cursor):
        with psycopg.connect(postgres_url, cursor_factory=cursor_factory, row_factory=dict_row) as connection:
            use(connection)
            connection.rollback()
    with psycopg.connect(postgres_url) as connection, connection.pipeline():
        use(connection)


def use(connection: Any) -> None:
    latest = Latest(connection, CHANGES, "search")
    latest.create()
    assert summary(latest.newest([change(1, 1), change(2, 1, "D")])) == [(1, 1, False), (2, 1, True)]
    assert summary(latest.newest([change(1, 2), change(2, 1)])) == [(1, 2, False)]
    latest.forget_deleted(0.001)
    latest.forget()


@pytest.mark.anyio
async def test_async_psycopg_connection_is_supported(postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        clock = VirtualClock()
        latest = AsyncLatest(connection, CHANGES, "search", clock=clock)
        await latest.create()

        assert summary(await latest.newest([change(1, 1), change(2, 1, "D")])) == [(1, 1, False), (2, 1, True)]
        assert await latest.newest([change(1, 1), change(2, 1)]) == []
        clock.advance(seconds=1)
        await latest.forget_deleted(0)
        assert summary(await latest.newest([change(1, 1), change(2, 1)])) == [(2, 1, False)]
        await latest.forget()
        assert len(await latest.newest([change(1, 1), change(2, 1)])) == 2
