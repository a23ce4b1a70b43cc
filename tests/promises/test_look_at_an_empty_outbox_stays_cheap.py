"""Moved rows stay in table and indexes while any transaction may see them; no look at the outbox goes through them."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.hub.hub import Hub
from penstock.storage.postgres import POSTGRES
from tests.exhaustive import examples
from tests.promises.scene import NAME, Follower, commit_to_outbox, event, fill_outbox, hub_on, until

ROWS = examples(10_000, 50_000)
SLACK = 8
"""Pages that a statement may touch in addition, whatever the planner chooses."""


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def old(hub: Hub, url: str) -> Iterator[psycopg.Connection]:
    """A transaction that keeps deleted rows from being vacuumed."""
    with psycopg.connect(url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM penstock_outbox")
        yield old


@pytest.mark.usefixtures("old")
def test_look_touches_no_more_pages_after_many_moves_under_an_open_transaction(hub: Hub, url: str) -> None:
    commit_to_outbox(url, {"n": "first"})
    Follower(hub).page()
    before = pages_of_look(url, hub), pages_of_take(url, hub)

    fill_outbox(url, ROWS)
    until(lambda: hub.log.settle(NAME) is False, "the outbox is empty")
    after = [(pages_of_look(url, hub), pages_of_take(url, hub))]

    assert [head.next_offset for head in hub.log.find_heads(NAME)[1].values()] == [ROWS + 1]
    for statistics in ("ANALYZE", "VACUUM"):  # By these the table is empty, and any plan as good as another.
        maintain(url, statistics)
        after.append((pages_of_look(url, hub), pages_of_take(url, hub)))
    dead = pages_of(url, "SELECT count(*) FROM penstock_outbox WHERE id > 0", {})
    assert dead > ROWS / 100, "the moved rows are not there any more: this test would show nothing"
    for look, take in after:
        assert look <= before[0] + SLACK
        assert take <= before[1] + SLACK


@pytest.mark.usefixtures("old")
def test_look_stays_cheap_while_publishing_goes_on(hub: Hub, url: str) -> None:
    """Every move leaves dead rows behind; the next look begins after them."""
    pages = []
    for n in range(examples(30, 60)):
        commit_to_outbox(url, *({"n": n, "i": i} for i in range(50)))
        hub.log.publish(NAME, [event({"n": n})])
        pages.append(pages_of_look(url, hub))

    assert max(pages[len(pages) // 2 :]) <= max(pages[:10]) + SLACK


def test_take_touches_so_many_pages_a_row_though_the_planner_believes_the_table_empty(url: str) -> None:
    with hub_on(url, partitions=1) as hub, psycopg.connect(url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM penstock_outbox")
        fill_outbox(url, ROWS)
        until(lambda: hub.log.settle(NAME) is False, "the outbox is empty")
        maintain(url, "ANALYZE")
        floor = hub.store._looks.seen._asdict()  # type: ignore[attr-defined]
    fill_outbox(url, ROWS)

    for limit in (10, 100, 1000):
        asked = {"name": NAME, "rows": limit, "bytes": 1 << 24, **floor}
        # The rows, and once the part of the index where they are.
        assert pages_of(url, POSTGRES.statements["outbox_take"], asked) <= 20 * limit + 4 * ROWS // 100


def maintain(url: str, command: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"{command} penstock_outbox".encode())


def pages_of_look(url: str, hub: Hub) -> int:
    hub.log.settle(NAME)
    asked = {**hub.store._looks.seen._asdict(), "ids": []}  # type: ignore[attr-defined]
    return pages_of(url, POSTGRES.statements["outbox_look"], asked, again=True)


def pages_of_take(url: str, hub: Hub) -> int:
    looks = hub.store._looks  # type: ignore[attr-defined]
    seen = max((looks.drained[NAME], looks.seen), key=lambda each: int(each.xmax))
    asked = {"name": NAME, "rows": 100, "bytes": 1 << 24, **seen._asdict()}
    return pages_of(url, POSTGRES.statements["outbox_take"], asked)


def pages_of(url: str, sql: str, given: dict[str, Any], *, again: bool = False) -> int:
    """Return how many pages a statement touches, the second time if *again*; it is rolled back."""
    *settings, asked = sql.split(";\n")
    with psycopg.connect(url) as connection, psycopg.ClientCursor(connection) as cursor:
        for setting in settings:
            cursor.execute(setting.rpartition("\n")[2].encode())
        if again:  # A function is planned the first time.
            cursor.execute(asked.encode(), given)
        plan = cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {asked}".encode(), given or None).fetchone()
        connection.rollback()
    assert plan is not None
    top = plan[0][0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
