"""A projection on Spark comes to the same rows as in one process, which can go on from there."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.errors import FoldFailed, ProjectionNotFound
from penstock.processing import FeedSource, StreamEvent
from penstock.processing.projections.projection import Projection
from penstock.spark.projections.database import DatabaseTarget
from penstock.spark.projections.files import FilesTarget, read
from penstock.spark.projections.project import project
from penstock.testing.live_hub import LiveHub


class Sum(msgspec.Struct):
    total: int = 0
    events: int = 0
    streams: list[str] = []


class Day(NamedTuple):
    weekday: int
    is_odd: bool


def added(state: Sum, event: StreamEvent) -> Sum | None:
    if event.data["n"] == 666:
        state.total += 1_000_000
        raise ValueError("the number of the beast")
    if event.data["n"] % 100 == 99:
        return None
    streams = state.streams if event.stream in state.streams else sorted([*state.streams, event.stream])
    return Sum(state.total + event.data["n"], state.events + 1, streams)


def by_customer(event: StreamEvent) -> str | None:
    return event.key


def by_day(event: StreamEvent) -> Day | None:
    n = event.data["n"]
    return None if n % 10 == 0 or n % 100 == 99 else Day(n % 7, n % 2 == 1)


CUSTOMERS = Projection("customers", Sum, added, key=by_customer)
DAYS = Projection("days", Sum, added, key=by_day)


class Feed(NamedTuple):
    """A feed of numbers."""

    name: str
    client: Client

    def publish(self, numbers: range) -> None:
        """Publish numbers for ten customers."""
        self.client.publish(self.name, [{"customer": f"{number % 10}", "n": number} for number in numbers])


@pytest.fixture
def feed(client: Client) -> Feed:
    name = f"order.added-{time.monotonic_ns()}"
    client.create_event_type(name, partition_count=4, partition_strategy="hash", partition_key_fields=["customer"])
    return Feed(name, client)


def rows(url: str, table: str) -> list[tuple[Any, ...]]:
    opened: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(opened) as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=str)


def locally(projection: Projection[Any], hub: LiveHub, feed: Feed, database_url: str) -> None:
    with projection.local(FeedSource(hub.url, feed.name), database_url) as running:
        running.wait_until_caught_up(30)


@pytest.mark.parametrize("projection", [CUSTOMERS, DAYS], ids=["customers", "days"])
def test_rows_are_the_same_as_in_one_process_which_goes_on_from_there(
    spark: SparkSession, hub: LiveHub, feed: Feed, database_url: str, projection: Projection[Any]
) -> None:
    feed.publish(range(600))
    other = f"{database_url}.other"
    done = project(
        spark, projection, hub.url, feed.name, to=DatabaseTarget(projection, database_url), events_per_round=250
    )
    assert (done.events, done.rounds >= 3) == (600, True)
    table = projection.table.name
    if database_url.startswith("postgres"):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA other")
        other = f"{database_url}?options=-csearch_path%3Dother"
    locally(projection, hub, feed, other)
    assert rows(database_url, table) == rows(other, table)

    feed.publish(range(600, 650))
    locally(projection, hub, feed, database_url)
    locally(projection, hub, feed, other)
    assert rows(database_url, table) == rows(other, table)
    feed.publish(range(670, 800))
    project(spark, projection, hub.url, feed.name, to=DatabaseTarget(projection, database_url))
    locally(projection, hub, feed, other)
    assert rows(database_url, table) == rows(other, table)
    assert project(spark, projection, hub.url, feed.name, to=DatabaseTarget(projection, database_url)).events == 0


def test_files_hold_the_same_rows(
    spark: SparkSession, hub: LiveHub, feed: Feed, sqlite_url: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "customers")
    with pytest.raises(ProjectionNotFound, match="has no rows of customers_v1"):
        read(spark, CUSTOMERS, path)
    for numbers in (range(300), range(300, 500), range(500, 600)):
        feed.publish(numbers)
        project(spark, CUSTOMERS, hub.url, feed.name, to=FilesTarget(CUSTOMERS, path))
    locally(CUSTOMERS, hub, feed, sqlite_url)
    found = read(spark, CUSTOMERS, path).selectExpr("key", "total", "events", "streams").collect()
    assert sorted(map(tuple, found)) == rows(sqlite_url, "customers")
    kept = {each.name for each in Path(path).iterdir()}
    assert kept == {"rows-2", "rows-3", "positions-2", "positions-3"}, "older ones are gone"

    # Killed before it was said how far the rows go: the same is folded again, to the same.
    feed.publish(range(700, 800))
    project(spark, CUSTOMERS, hub.url, feed.name, to=FilesTarget(CUSTOMERS, path))
    for file in (Path(path) / "positions-4").iterdir():
        file.unlink()
    (Path(path) / "positions-4").rmdir()
    project(spark, CUSTOMERS, hub.url, feed.name, to=FilesTarget(CUSTOMERS, path))
    locally(CUSTOMERS, hub, feed, sqlite_url)
    found = read(spark, CUSTOMERS, path).selectExpr("key", "total", "events", "streams").collect()
    assert sorted(map(tuple, found)) == rows(sqlite_url, "customers")


def test_a_row_that_cannot_be_folded_holds_no_other_and_is_named(
    spark: SparkSession, hub: LiveHub, feed: Feed, sqlite_url: str
) -> None:
    feed.publish(range(600, 690))
    with pytest.raises(FoldFailed, match=r"customers_v1: .*ValueError: the number of the beast"):
        project(spark, CUSTOMERS, hub.url, feed.name, to=DatabaseTarget(CUSTOMERS, sqlite_url))
    found = {key: (total, events) for key, total, events, _ in rows(sqlite_url, "customers")}
    assert found["6"] == (sum(range(606, 666, 10)), 6), "up to the event before it"
    assert found["5"] == (sum(range(605, 690, 10)), 9)

    mended = Projection("customers", Sum, lambda state, event: state if event.data["n"] == 666 else added(state, event))
    assert project(spark, mended, hub.url, feed.name, to=DatabaseTarget(mended, sqlite_url)).events > 0
    found = {key: (total, events) for key, total, events, _ in rows(sqlite_url, "customers")}
    assert found["6"] == (sum(n for n in range(606, 690, 10) if n != 666), 8)
    assert found["5"] == (sum(range(605, 690, 10)), 9), "nothing is folded in twice"
