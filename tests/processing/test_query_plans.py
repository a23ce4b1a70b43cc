"""On PostgreSQL each event is looked up by itself, however little the planner knows of the table."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from penstock.outbox.dialects import to_pyformat
from penstock.processing.database import load_statement
from penstock.processing.duplicates import Duplicates
from penstock.processing.latest import Latest
from penstock.testing.factories import a_business_event, a_data_event, a_feed_event
from tests.processing.conftest import CHANGES, PLACED

COUNT = 3_000
_COLUMN = re.compile(r"\(\"?(\w+)\"? [=<]")
READER = {"feed": "order.placed", "consumer": "billing", "now": 1}


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Any]:
    """A connection to a database whose tables are full."""
    with psycopg.connect(postgres_url) as connection:
        duplicates, latest = Duplicates(connection, PLACED, "billing"), Latest(connection, CHANGES, "billing")
        duplicates.create()
        latest.create()
        for table in ("penstock_seen", "penstock_latest"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        connection.commit()
        for batch in range(3):
            numbers = range(batch * COUNT, (batch + 1) * COUNT)
            duplicates.fresh([a_feed_event(a_business_event(number), partition=number % 4) for number in numbers])
            latest.newest([a_data_event(number, version=1) for number in numbers])
        yield connection


def scans(connection: Any, name: str, table: str, **parameters: Any) -> list[tuple[str, str]]:
    """Return by which index a statement reads the table, and by which of its columns; what it does is undone."""
    explain = "EXPLAIN (FORMAT JSON) " + to_pyformat(load_statement("postgresql", name, table))
    [plan] = connection.execute(explain, READER | parameters).fetchone()[0]
    connection.rollback()
    return sorted(
        (node.get("Index Name", node["Node Type"]), ", ".join(_COLUMN.findall(node.get("Index Cond", ""))))
        for node in nodes(plan["Plan"])
        if "Index Name" in node or node["Node Type"] == "Seq Scan"
    )


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


def eids(start: int) -> list[str]:
    return [a_business_event(number)["metadata"]["eid"] for number in range(start, start + COUNT)]


def encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


BY_ID = "penstock_seen_consumer_eid_feed_key"
BY_PLACE = "penstock_seen_pkey"


STATEMENTS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "seen_add": (
        {"batch": encode([(0, eids(3 * COUNT))])},
        [(BY_ID, "consumer, eid, feed"), (BY_PLACE, "partition, feed, consumer")],
    ),
    "seen_find": ({"eids": encode(eids(0)), "since": 0}, [(BY_ID, "consumer, eid")]),
    "seen_drop_expired": ({"eids": encode(eids(0)), "since": 2**62}, [(BY_ID, "consumer, eid, feed")]),
    **{
        name: (
            {"partition": 0, "events": 3 * COUNT, "since": 0},
            [(BY_PLACE, "partition, feed, consumer"), (BY_PLACE, "partition, feed, consumer, place")],
        )
        for name in ("seen_drop_beyond", "seen_drop_before")
    },
    "latest_find": (
        {"entities": encode(sorted(f"[{number}]" for number in range(COUNT))), "feed": "order.changed"},
        [("penstock_latest_pkey", "feed, consumer, entity")],
    ),
}


def test_statements_look_up_each_row_by_index_before_and_after_the_tables_are_analyzed(connection: Any) -> None:
    wanted = {name: scanned for name, (_, scanned) in STATEMENTS.items()}
    for preparation in ("SELECT 1", "ANALYZE penstock_seen, penstock_latest"):
        connection.execute(preparation)
        connection.commit()
        found = {
            name: scans(connection, name, f"penstock_{name.partition('_')[0]}", **parameters)
            for name, (parameters, _) in STATEMENTS.items()
        }
        assert found == wanted, preparation
