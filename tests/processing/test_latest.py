"""`Latest` keeps the change applied last to each entity in the consumer's own database and transactions.

Changes in any order end in one state: that is a promise, of `test_changes_in_any_order_end_in_the_same_state`.
"""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from penstock.errors import EventUnusable, WrongTransaction
from penstock.processing.changes import Changes
from penstock.processing.latest import AsyncLatest, Latest
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_data_event, a_feed_event
from tests.failing import has_code
from tests.processing.conftest import CHANGES, Connect


def change(order: Any, version: Any, data_op: str = "U") -> Any:
    event = a_data_event(data_op=data_op, version=version)
    return a_feed_event(event | {"data": {"order_id": order, "version": version}})


def summary(changes: list[Any]) -> list[tuple[Any, Any, bool]]:
    return [(each.entity, each.order, each.deletes) for each in changes]


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


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (2**63, 2**63 + 1), ("9", "10"), (0.1, 0.2), ("ø", "ø "), (-1, 0),
        ("2026-10-25T02:30:00+0200", "2026-10-25T02:10:00+0100"),
    ],
    ids=["large", "digits", "fractions", "text", "negative", "moments"],
)  # fmt: skip
def test_keys_are_kept_with_their_types(connection: Any, earlier: Any, later: Any) -> None:
    latest = Latest(connection, CHANGES, "search")
    assert summary(latest.newest([change(1, earlier)])) == [(1, earlier, False)]
    assert summary(latest.newest([change(1, later)])) == [(1, later, False)]
    assert latest.newest([change(1, later), change(1, earlier)]) == []


def test_entities_are_kept_with_their_types_up_to_their_maximum_length(connection: Any) -> None:
    latest, entities = Latest(connection, CHANGES, "search"), [7, "7", '["7"]', "\0", "x" * 1_020]
    assert len(latest.newest([change(entity, 1) for entity in entities])) == 5
    assert latest.newest([change(entity, 1) for entity in entities]) == []
    with pytest.raises(EventUnusable, check=has_code("order-unknown"), match="has 1025 bytes, more than the 1024"):
        latest.newest([change("x" * 1_021, 1)])


def test_consumers_and_feeds_remember_each_for_themselves(connection: Any) -> None:
    other = Changes("parcel.changed", entity=["data.order_id"], order_by=["data.version"])
    makes = [(CHANGES, "search"), (CHANGES, "mail"), (other, "search")]
    for changes, consumer in makes:
        assert len(Latest(connection, changes, consumer).newest([change(1, 1)])) == 1
    Latest(connection, CHANGES, "search").forget()
    found = [len(Latest(connection, changes, consumer).newest([change(1, 1)])) for changes, consumer in makes]
    assert found == [1, 0, 0]


def test_old_deletions_are_forgotten_on_demand(connection: Any) -> None:
    clock = VirtualClock()
    latest = Latest(connection, CHANGES, "search", clock=clock)
    latest.newest([change(1, 5, "D"), change(2, 5)])
    clock.advance(seconds=60)
    latest.newest([change(3, 5, "D")])
    latest.forget_deleted(60)
    assert latest.newest([change(1, 4)]) == []
    clock.advance(microseconds=1)

    latest.forget_deleted(60)
    assert summary(latest.newest([change(1, 4), change(2, 4), change(3, 4)])) == [(1, 4, False)]


def test_malformed_event_is_refused_before_anything_is_written(connection: Any) -> None:
    with pytest.raises(EventUnusable, check=has_code("order-unknown"), match="event 1 of the batch"):
        Latest(connection, CHANGES, "search").newest([change(1, 1), change(2, None)])
    assert len(Latest(connection, CHANGES, "search").newest([change(1, 1)])) == 1


def test_key_that_cannot_be_compared_with_the_last_is_named(connection: Any) -> None:
    latest = Latest(connection, CHANGES, "search")
    latest.newest([change(1, "5")])
    for other in (6, "6a", "2026-01-01T12:00Z"):
        told = rf"event 1 of the batch.*\[{other!r}\] cannot be compared with \['5'\]"
        with pytest.raises(EventUnusable, check=has_code("order-unknown"), match=told):
            latest.newest([change(2, 1), change(1, other)])


def test_nothing_is_remembered_outside_a_transaction(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "consumer.db", isolation_level=None)) as connection:
        Latest(connection, CHANGES, "search").create()
        with pytest.raises(WrongTransaction, check=has_code("outside-transaction")):
            Latest(connection, CHANGES, "search").newest([change(1, 1)])


def test_batch_of_ten_thousand_changes_is_accepted(connection: Any) -> None:
    latest = Latest(connection, CHANGES, "search")
    changes = [change(number % 5_000, number) for number in range(10_000)]

    assert [each.event for each in latest.newest(changes)] == changes[5_000:]
    assert latest.newest(changes) == latest.newest([]) == []


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
