"""Rows that were moved stay in table and indexes as long as any transaction may see them; no look goes through them."""

from typing import Any

import psycopg

from penstock.hub.hub import Hub
from penstock.storage.statements import statement
from tests.promises.scene import NAME, Follower, commit_to_outbox, event, hub_on, rows_of, until

ROWS = 50_000
PACKAGE = "penstock.storage.postgres"
INSERT = f"""INSERT INTO penstock_outbox (event_type, data, "partition")
             SELECT '{NAME}', '{{"n":' || n || '}}', 0 FROM generate_series(1, {ROWS}) AS n"""


def test_a_look_reads_no_more_pages_after_many_moves_under_an_open_transaction(postgres_url: str) -> None:
    with hub_on(postgres_url, partitions=1) as hub, psycopg.connect(postgres_url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM penstock_outbox")  # From here on nothing that is deleted can be vacuumed.
        commit_to_outbox(postgres_url, {"n": 0})
        Follower(hub).page()
        look_before, take_before = _look(postgres_url, hub), _take(postgres_url, hub)

        rows_of(postgres_url, INSERT)
        until(lambda: hub.settle(NAME) is False, "the outbox is empty")
        look_after, take_after = _look(postgres_url, hub), _take(postgres_url, hub)

        assert [head.next_offset for head in hub.heads(NAME)[1].values()] == [ROWS + 1]
        for statistics in ("ANALYZE", "VACUUM"):  # To them the table is empty, and any plan as good as another.
            _maintain(postgres_url, statistics)
            assert _look(postgres_url, hub) <= look_before + 8
            assert _take(postgres_url, hub) <= take_before + 8
        dead = _pages(postgres_url, "SELECT count(*) FROM penstock_outbox WHERE id > 0", {})
        assert dead > 500, "the rows that were moved are not there to be stumbled over: this test would show nothing"
        assert look_after <= look_before + 8
        assert take_after <= take_before + 8


def test_a_look_stays_cheap_while_publishing_goes_on(postgres_url: str) -> None:
    """Every move leaves dead rows behind; the next look begins after them."""
    with hub_on(postgres_url, partitions=1) as hub, psycopg.connect(postgres_url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM penstock_outbox")
        costs = []
        for n in range(60):
            commit_to_outbox(postgres_url, *({"n": n, "i": i} for i in range(50)))
            hub.publish(NAME, [event({"n": n})])
            costs.append(_look(postgres_url, hub))

        assert max(costs[30:]) <= max(costs[:10]) + 8


def test_a_take_costs_so_much_a_row_even_if_the_planner_believes_the_table_empty(postgres_url: str) -> None:
    with hub_on(postgres_url, partitions=1) as hub, psycopg.connect(postgres_url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM penstock_outbox")
        rows_of(postgres_url, INSERT)
        until(lambda: hub.settle(NAME) is False, "the outbox is empty")
        _maintain(postgres_url, "ANALYZE")
        floor = hub.store._looks.seen._asdict()  # type: ignore[attr-defined]
    rows_of(postgres_url, INSERT)

    for limit in (10, 100, 1000):
        sql = statement(PACKAGE, "outbox_take")
        pages = _pages(postgres_url, sql, {"name": NAME, "rows": limit, "bytes": 1 << 24, **floor})
        assert pages <= 20 * limit + 4 * ROWS // 100  # The rows, and once the part of the index where they are.


def _maintain(url: str, how: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"{how} penstock_outbox".encode())


def _look(url: str, hub: Hub) -> int:
    hub.settle(NAME)
    return _pages(url, statement(PACKAGE, "outbox_look"), hub.store._looks.seen._asdict())  # type: ignore[attr-defined]


def _take(url: str, hub: Hub) -> int:
    looks = hub.store._looks  # type: ignore[attr-defined]
    seen = max((looks.drained[NAME], looks.seen), key=lambda each: int(each.xmax))
    return _pages(
        url, statement(PACKAGE, "outbox_take"), {"name": NAME, "rows": 100, "bytes": 1 << 24, **seen._asdict()}
    )


def _pages(url: str, sql: str, given: dict[str, Any]) -> int:
    """Return how many pages a statement touches; it is undone."""
    *settings, asked = sql.split(";\n")
    with psycopg.connect(url) as connection, psycopg.ClientCursor(connection) as cursor:
        for setting in settings:
            cursor.execute(setting.rpartition("\n")[2].encode())
        plan = cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {asked}".encode(), given or None).fetchone()
        connection.rollback()
    assert plan is not None
    top = plan[0][0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
