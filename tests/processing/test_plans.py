"""On PostgreSQL each event is looked up by itself, however little the planner knows of the table."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec
import psycopg
import pytest

from penstock.outbox.dialects import pyformat
from penstock.processing import Duplicates, Latest
from penstock.testing.factories import a_business_event, a_data_event, a_feed_event
from tests.processing.conftest import CHANGES, PLACED

COUNT = 3_000
_COLUMN = re.compile(r"\(\"?(\w+)\"? [=<]")
READER = {"feed": "order.placed", "consumer": "billing", "now": 1}


@pytest.fixture(params=["unknown", "analyzed"])
def connection(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Any]:
    """A connection to a database whose tables are full, and known to the planner or not."""
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
        if request.param == "analyzed":
            connection.execute("ANALYZE penstock_seen, penstock_latest")
        connection.commit()
        yield connection


def scans(connection: Any, name: str, table: str, **parameters: Any) -> list[tuple[str, str]]:
    """Return by which index a statement reads the table, and by which of its columns; what it does is undone."""
    text = (files("penstock.processing") / "statements" / "postgresql" / f"{name}.sql").read_text()
    lines = [line for line in text.replace("{table}", table).splitlines() if not line.startswith("--")]
    explain = "EXPLAIN (FORMAT JSON) " + pyformat("\n".join(lines))
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


BY_ID = "penstock_seen_consumer_eid_feed_key"
BY_PLACE = "penstock_seen_pkey"


def test_ids_are_looked_up_one_by_one(connection: Any) -> None:
    batch = msgspec.json.encode([(0, eids(3 * COUNT))]).decode()

    found = scans(connection, "seen_add", "penstock_seen", batch=batch)

    assert found == [(BY_ID, "consumer, eid, feed"), (BY_PLACE, "partition, feed, consumer")]


def test_parents_are_looked_up_one_by_one(connection: Any) -> None:
    found = scans(connection, "seen_find", "penstock_seen", eids=msgspec.json.encode(eids(0)).decode(), since=0)

    assert found == [(BY_ID, "consumer, eid")]


def test_what_the_window_has_left_behind_is_looked_up_one_by_one(connection: Any) -> None:
    listed = msgspec.json.encode(eids(0)).decode()

    found = scans(connection, "seen_drop_expired", "penstock_seen", eids=listed, since=2**62)

    assert found == [(BY_ID, "consumer, eid, feed")]


@pytest.mark.parametrize("name", ["seen_drop_beyond", "seen_drop_before"])
def test_a_partitions_end_is_found_at_once(connection: Any, name: str) -> None:
    found = scans(connection, name, "penstock_seen", partition=0, events=3 * COUNT, since=0)

    assert found == [(BY_PLACE, "partition, feed, consumer"), (BY_PLACE, "partition, feed, consumer, place")]


def test_entities_are_looked_up_one_by_one(connection: Any) -> None:
    entities = msgspec.json.encode(sorted(f"[{number}]" for number in range(COUNT))).decode()

    found = scans(connection, "latest_find", "penstock_latest", entities=entities, feed="order.changed")

    assert found == [("penstock_latest_pkey", "feed, consumer, entity")]
