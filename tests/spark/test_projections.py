"""A projection on Spark has the same rows as one in a process, and either goes on where the other has stopped."""

import datetime as dt
import shutil
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.errors import (
    BadParameter,
    CheckpointMoved,
    HandlerFailed,
    ProjectionBehind,
    ProjectionNotFound,
)
from penstock.processing import DatabaseCheckpoints, FeedSource, Rules, StreamEvent
from penstock.processing.projections.projection import Projection
from penstock.spark.processors.sources.feeds import SparkFeedSource
from penstock.spark.projections.database import DatabaseTarget
from penstock.spark.projections.files import FilesTarget, read, switch
from penstock.spark.projections.folding import ROWS_SQL
from penstock.spark.projections.project import Round, RoundResult, project
from penstock.spark.projections.version_folder import Note, Notes, VersionFolder, create
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.failing import has_code
from tests.spark.recording import CustomerFeed
from tests.spark.tables import rows_of


class Sum(msgspec.Struct):
    total: int = 0
    events: int = 0
    streams: list[str] = []


class Turned(msgspec.Struct):
    """The same, in another order."""

    streams: list[str] = []
    events: int = 0
    total: int = 0


class Total(msgspec.Struct):
    total: int = 0


class Called(msgspec.Struct, rename="camel", tag=True):
    call_count: int = 0


class Mailed(msgspec.Struct, tag="mail"):
    mail_count: int = 0


class Contacts(msgspec.Struct, rename="camel", forbid_unknown_fields=True, tag="contacts"):
    """A state with other names in JSON."""

    contact_count: int = 0
    last_contact: Called | Mailed | None = None


class Average(msgspec.Struct):
    average: float = 0.0


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


def rows(url: str, table: str) -> list[tuple[Any, ...]]:
    return sorted(rows_of(url, f"SELECT * FROM {table}"), key=str)


def locally(projection: Projection[Any], hub: LiveHub, feed: CustomerFeed, database_url: str) -> None:
    with projection.local(FeedSource(hub.url, feed.name), database_url) as running:
        running.wait_until_caught_up(300)


def contacted(state: Contacts, event: StreamEvent) -> Contacts:
    count = state.contact_count + 1
    assert state.last_contact == (None if count == 1 else Mailed(count - 1) if count % 2 else Called(count - 1)), event
    return Contacts(count, Called(count) if count % 2 else Mailed(count))


@pytest.mark.exhaustive
def test_state_with_renamed_and_tagged_fields_is_resumed(
    spark: SparkSession, hub: LiveHub, feed: CustomerFeed, sqlite_url: str, tmp_path: Path
) -> None:
    projection = Projection("contacts", Contacts, contacted, key=by_customer)
    for start in range(0, 30, 10):
        feed.publish(range(start, start + 10))
        project(spark, DatabaseTarget(projection, sqlite_url), hub.url, feed.name)
        project(spark, FilesTarget(projection, tmp_path / "files"), hub.url, feed.name)

    called = '{"type":"Called","callCount":3}'
    assert rows(sqlite_url, "contacts") == [(f"{number}", 3, called) for number in range(10)]
    found = read(spark, projection, tmp_path / "files").sort("key").collect()
    assert [tuple(row) for row in found] == rows(sqlite_url, "contacts")
    feed.publish(range(30, 40))
    locally(projection, hub, feed, sqlite_url)
    assert {count for _, count, _ in rows(sqlite_url, "contacts")} == {4}


@pytest.mark.parametrize("projection", [CUSTOMERS, exhaustive(DAYS)], ids=["customers", "days"])
def test_spark_and_a_process_take_turns_and_have_the_same_rows(
    spark: SparkSession, hub: LiveHub, feed: CustomerFeed, database_url: str, projection: Projection[Any]
) -> None:
    feed.publish(range(200))
    other = f"{database_url}.other"
    done = project(spark, DatabaseTarget(projection, database_url), hub.url, feed.name, events_per_round=110)
    assert (done.events, done.rounds >= 2) == (200, True)
    table = projection.table.name
    if database_url.startswith("postgres"):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA other")
        other = f"{database_url}?options=-csearch_path%3Dother"
    locally(projection, hub, feed, other)
    assert rows(database_url, table) == rows(other, table)

    feed.publish(range(200, 250))
    locally(projection, hub, feed, database_url)
    feed.publish(range(270, 320))
    project(spark, DatabaseTarget(projection, database_url), hub.url, feed.name)
    locally(projection, hub, feed, other)
    assert rows(database_url, table) == rows(other, table)
    assert project(spark, DatabaseTarget(projection, database_url), hub.url, feed.name).events == 0


@pytest.mark.exhaustive
def test_files_have_the_same_rows_as_a_database(
    spark: SparkSession, hub: LiveHub, feed: CustomerFeed, sqlite_url: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "customers")
    with pytest.raises(ProjectionNotFound, match="has no rows of customers_v1"):
        read(spark, CUSTOMERS, path)
    for numbers in (range(300), range(300, 500), range(500, 600)):
        feed.publish(numbers)
        project(spark, FilesTarget(CUSTOMERS, path), hub.url, feed.name)
    locally(CUSTOMERS, hub, feed, sqlite_url)
    found = read(spark, CUSTOMERS, path).selectExpr("key", "total", "events", "streams").collect()
    assert sorted(map(tuple, found)) == rows(sqlite_url, "customers")
    folder = Path(path) / "customers_v1"
    kept = sorted(each.name.rpartition("-")[0] if "rows" in each.name else each.name for each in folder.iterdir())
    assert kept == ["positions-3", "positions-4", "rows-3", "rows-4"], "older ones are gone"

    # Killed before it was said how far the rows go: the same is folded again, to the same.
    feed.publish(range(700, 800))
    project(spark, FilesTarget(CUSTOMERS, path), hub.url, feed.name)
    (folder / "positions-5").unlink()
    project(spark, FilesTarget(CUSTOMERS, path), hub.url, feed.name)
    locally(CUSTOMERS, hub, feed, sqlite_url)
    found = read(spark, CUSTOMERS, path).selectExpr("key", "total", "events", "streams").collect()
    assert sorted(map(tuple, found)) == rows(sqlite_url, "customers")


@pytest.mark.parametrize("kept_in", ["a database", exhaustive("files")])
def test_projection_from_the_latest_position_has_all_later_events(
    spark: SparkSession, feed: CustomerFeed, tmp_path: Path, kept_in: str, request: pytest.FixtureRequest
) -> None:
    hub: LiveHub = request.getfixturevalue("hub")
    database = f"sqlite:///{tmp_path}/customers.db"

    def projected() -> int:
        files = kept_in == "files"
        target: Any = FilesTarget(CUSTOMERS, tmp_path) if files else DatabaseTarget(CUSTOMERS, database)
        done = project(spark, target, SparkFeedSource(hub.url, feed.name, start="latest"))
        found = totals(read(spark, CUSTOMERS, tmp_path)) if files else rows(database, "customers")
        assert sum(row[2] for row in found) == done.events
        return done.events

    feed.publish(range(10))
    assert projected() == 0
    feed.client.grow_partitions(feed.name, 8)
    feed.publish(range(10, 40))
    assert projected() == 30


@pytest.mark.exhaustive
def test_replay_changes_no_file(spark: SparkSession, hub: LiveHub, feed: CustomerFeed, tmp_path: Path) -> None:
    path, folder = str(tmp_path), tmp_path / "days_v1"
    target = FilesTarget(DAYS, path)
    feed.publish(range(200))
    project(spark, target, hub.url, feed.name)
    before = {each: each.stat().st_mtime_ns for each in folder.glob("rows-2-*/*")}
    feed.publish(range(200, 300, 10))
    of_none = project(spark, target, hub.url, feed.name)
    assert (of_none.events, of_none.changed) == (10, 0), "they belong to no row"

    told = VersionFolder(path, "days_v1")
    now = told.load_note(spark)
    told.tell(spark, now, now._replace(round="by-hand", positions={}))
    again = project(spark, target, hub.url, feed.name)
    assert (again.events, again.changed) == (210, 0)
    assert target.positions(spark) == now.positions
    assert {each: each.stat().st_mtime_ns for each in folder.glob("rows-2-*/*")} == before


def summed(spark: SparkSession, total: int, events: int, *, failed: str | None = None) -> Round:
    """Return a round in which the customer a has got that total, by so many events of tranche 0; b may have failed."""
    told: list[Any] = [
        ('["a"]', f'{{"total":{total},"events":{events},"streams":[]}}', f'{{"0":{events}}}', True, None, None)
    ]
    if failed is not None:
        told.append(('["b"]', None, None, False, failed, "ValueError: no"))
    return Round(spark.createDataFrame(told, ROWS_SQL), {"0": events})


def totals(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select("key", "total", "events").collect()]


def test_version_in_files_is_built_beside_the_other_until_it_is_switched_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, second = f"{tmp_path}/größe 1/", Projection("customers", Sum, added, key=by_customer, version=2)
    first_target, second_target = FilesTarget(CUSTOMERS, path), FilesTarget(second, path)
    assert first_target.positions(spark) == {}
    first_target.keep(spark, summed(spark, 10, 4))
    with pytest.raises(ProjectionNotFound, match="has no rows of customers_v2"):
        switch(spark, second, path)
    assert (second_target.positions(spark), second_target.rows(spark)) == ({}, None), "it begins from the beginning"
    second_target.keep(spark, summed(spark, 11, 5))
    assert totals(read(spark, second, path)) == [("a", 10, 4)], "nobody has switched"
    assert totals(read(spark, CUSTOMERS, path, version=2)) == [("a", 11, 5)]
    switch(spark, second, path)
    assert totals(read(spark, CUSTOMERS, path)) == [("a", 11, 5)]
    assert totals(read(spark, CUSTOMERS, path, version=1)) == [("a", 10, 4)]
    assert first_target.positions(spark) == {"0": 4}, "the first goes on, and is not in use"
    assert totals(read(spark, CUSTOMERS, path)) == [("a", 11, 5)]
    told = r"customers_v1 is behind customers_v2, which is in use: \{'0': 'at 4 of 5'\}"
    with pytest.raises(ProjectionBehind, match=told):
        switch(spark, CUSTOMERS, path)
    switch(spark, CUSTOMERS, path, even_if_behind=True)
    assert totals(read(spark, second, path)) == [("a", 10, 4)], "and back again"
    other = Projection("customers", Average, lambda state, _: state, version=4)
    with pytest.raises(BadParameter, match=r"one whose columns customers_v1 has, unlike average; or read a version"):
        read(spark, other, path)
    first = read(spark, other, path, version=1)
    assert (first.columns, totals(first)) == (["key", "total", "events", "streams"], [("a", 10, 4)])

    Path(path, "customers_v2").rename(Path(path, "customers_v3"))
    third = Projection("customers", Sum, added, key=by_customer, version=3)
    with pytest.raises(BadParameter, match="a folder that holds what its name says, and not customers_v2"):
        FilesTarget(third, path).positions(spark)


@pytest.mark.exhaustive
def test_version_in_files_refuses_other_columns(
    spark: SparkSession, hub: LiveHub, feed: CustomerFeed, tmp_path: Path
) -> None:
    path, fewer = str(tmp_path), Projection("customers", Total, lambda state, _: state, key=by_customer)
    begun = FilesTarget(CUSTOMERS, path)
    assert begun.positions(spark) == {}
    begun.keep(spark, summed(spark, 10, 4))
    feed.publish(range(10))
    told = (
        r"'key string, total bigint, PRIMARY KEY \(key\)'; allowed: another version: this one has a folder "
        r"customers_v1 with the columns PRIMARY KEY \(key\), events bigint, key string, streams string COMMENT 'JSON', "
        r"total bigint$"
    )
    with pytest.raises(BadParameter, match=told):
        project(spark, FilesTarget(fewer, path), hub.url, feed.name)
    for version in (None, 1):
        with pytest.raises(BadParameter, match=told):
            read(spark, fewer, path, version=version)
    with pytest.raises(BadParameter, match=told):
        switch(spark, fewer, path)
    assert totals(read(spark, CUSTOMERS, path)) == [("a", 10, 4)]

    turned = Projection("customers", Turned, lambda state, _: state, key=by_customer)
    target = FilesTarget(turned, path)
    assert target.positions(spark) == {"0": 4}
    target.keep(spark, summed(spark, 20, 8))
    assert read(spark, turned, path).collect() == [("a", "[]", 8, 20)]
    assert totals(read(spark, CUSTOMERS, path)) == [("a", 20, 8)], "whichever comes first of them"


def test_second_writer_of_files_is_refused_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path)
    one, other = FilesTarget(CUSTOMERS, path), FilesTarget(CUSTOMERS, path)
    assert one.positions(spark) == other.positions(spark) == {}
    assert one.keep(spark, summed(spark, 10, 4)) == RoundResult(1, {})
    with pytest.raises(
        CheckpointMoved,
        match="customers_v1: the checkpoint of '0' is at 4; this processor has left it at no position",
    ):
        other.keep(spark, summed(spark, 3, 2))
    assert totals(read(spark, CUSTOMERS, path)) == [("a", 10, 4)]
    assert len(list((tmp_path / "customers_v1").glob("rows-*"))) == 1, "the rows of the second are gone"

    # It goes on from what the first has kept, which is overtaken now by two rounds: what it reads is removed.
    assert other.positions(spark) == {"0": 4}
    standing = other.rows(spark)
    assert standing is not None
    assert standing.count() == 1
    for total, events in ((20, 8), (30, 12)):
        one.positions(spark)
        one.keep(spark, summed(spark, total, events))
    late = standing.selectExpr("row AS key", "data AS state", "headers AS positions")
    late = late.selectExpr("*", "true AS is_changed", "string(null) AS failed", "string(null) AS error")
    with pytest.raises(
        CheckpointMoved, match="customers_v1: the checkpoint of '0' is at 12; this processor has left it at 4"
    ):
        other.keep(spark, Round(late, {"0": 5}))
    assert totals(read(spark, CUSTOMERS, path)) == [("a", 30, 12)]


@pytest.mark.parametrize("is_folder_left", [False, exhaustive(True)], ids=["no folder", "an empty folder"])
def test_missing_files_are_an_error_until_the_version_is_removed(
    spark: SparkSession, tmp_path: Path, *, is_folder_left: bool
) -> None:
    path, target = str(tmp_path), FilesTarget(CUSTOMERS, tmp_path)
    target.positions(spark)
    target.keep(spark, summed(spark, 10, 4))
    for each in (tmp_path / "customers_v1").glob("rows-*"):
        shutil.rmtree(each)
        if is_folder_left:
            each.mkdir()

    gone = r"customers_v1/rows-.* has no rows of customers_v1 any more, but its positions: .*the folder of the version"
    target.positions(spark)
    with pytest.raises(ProjectionNotFound, check=has_code("projection-gone"), match=gone):
        target.rows(spark)
    with pytest.raises(ProjectionNotFound, check=has_code("projection-gone"), match=gone):
        read(spark, CUSTOMERS, path)
    shutil.rmtree(tmp_path / "customers_v1")
    assert target.positions(spark) == {}
    target.keep(spark, summed(spark, 20, 8))
    assert totals(read(spark, CUSTOMERS, path)) == [("a", 20, 8)]


def test_older_writer_of_a_database_is_refused_though_no_position_has_moved(
    spark: SparkSession, database_url: str
) -> None:
    one, other = DatabaseTarget(CUSTOMERS, database_url), DatabaseTarget(CUSTOMERS, database_url)
    one.positions(spark)
    one.keep(spark, summed(spark, 10, 4))
    assert one.positions(spark) == other.positions(spark) == {"0": 4}

    assert other.keep(spark, summed(spark, 20, 8, failed="0")).failures
    with pytest.raises(CheckpointMoved, match="the checkpoint of '0' is at 4, but another's"):
        one.keep(spark, summed(spark, 15, 6, failed="0"))
    assert other.positions(spark) == {"0": 4}
    assert [each[:3] for each in rows(database_url, "customers")] == [("a", 20, 8)]


@pytest.mark.exhaustive
def test_one_of_many_concurrent_writers_adds_a_note(spark: SparkSession, tmp_path: Path) -> None:
    def add(said: int) -> Note | None:
        return Notes(str(tmp_path), "positions").add(spark, 0, {"said": said})

    (tmp_path / "positions-1").touch()  # Somebody was killed before it said anything.
    with ThreadPoolExecutor(8) as pool:
        [made] = [note for note in pool.map(add, range(8)) if note is not None]
    assert made == Notes(str(tmp_path), "positions").newest(spark)
    assert made.number == 2


def test_hadoop_creates_a_file_once(spark: SparkSession, tmp_path: Path) -> None:
    java: Any = spark
    java._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.seen.link./made", tmp_path.as_uri())
    assert create(spark, "viewfs://seen/made/positions-1", "mine")
    assert not create(spark, "viewfs://seen/made/positions-1", "another's")
    assert (tmp_path / "positions-1").read_text() == "mine\n"
    with pytest.raises(Exception, match="no-such-mount"):
        create(spark, "viewfs://seen/no-such-mount/positions-1", "mine")


def test_row_that_cannot_be_folded_fails_alone_and_is_folded_once_it_can_be(
    spark: SparkSession, hub: LiveHub, feed: CustomerFeed, sqlite_url: str
) -> None:
    def keyed(event: StreamEvent) -> str | None:
        return 7 if event.data["n"] == 607 else event.key  # type: ignore[return-value]

    def folded(state: Sum, event: StreamEvent) -> Sum | None:
        return Sum("8") if event.data["n"] == 608 else added(state, event)  # type: ignore[arg-type]

    feed.publish(range(600, 690))
    target = DatabaseTarget(Projection("customers", Sum, folded, key=keyed), sqlite_url)
    with pytest.raises(HandlerFailed, match=r"customers_v1: .*ValueError: the number of the beast") as failure:
        project(spark, target, hub.url, feed.name)
    assert "key is '(7,)'; allowed: a key as it is annotated: Expected `str`, got `int`" in str(failure.value)
    assert "fields as Sum declares them: Expected `int`, got `str` - at `$.total`" in str(failure.value)
    found = {key: (total, events) for key, total, events, _ in rows(sqlite_url, "customers")}
    assert found["6"] == (sum(range(606, 666, 10)), 6), "up to the event before it"
    assert found["5"] == (sum(range(605, 690, 10)), 9)
    assert found["7"] == (sum(range(617, 690, 10)), 8), "the key of one event is unknown"
    assert "8" not in found

    mended = Projection(
        "customers", Sum, lambda state, event: state if event.data["n"] == 666 else added(state, event), key=by_customer
    )
    assert project(spark, DatabaseTarget(mended, sqlite_url), hub.url, feed.name).events > 0
    found = {key: (total, events) for key, total, events, _ in rows(sqlite_url, "customers")}
    assert found["6"] == (sum(n for n in range(606, 690, 10) if n != 666), 8)
    assert found["5"] == (sum(range(605, 690, 10)), 9), "nothing is folded in twice"
    assert found["8"] == (sum(range(608, 690, 10)), 9)


class Holding(msgspec.Struct):
    count: int = 0
    note: str = ""
    price: Decimal = Decimal(1)
    names: list[str] = []
    at: dt.datetime | None = None


UNFIT: dict[int, dict[str, Any]] = {
    1: {"count": 2**63},
    2: {"note": "a\0"},
    3: {"names": ["\ud800"]},
    4: {"names": ["\0"]},
    5: {"price": Decimal("nan")},
    6: {"price": Decimal("1e-20")},
    7: {"price": Decimal("1e20")},
    10: {"at": dt.datetime(2026, 11, 26)},  # noqa: DTZ001 - That is what is tested.
    11: {"at": dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=12)))},
}


def test_projection_with_parked_events_is_refused_until_they_are_handled(
    spark: SparkSession, client: Client, hub: LiveHub, event_type: str, sqlite_url: str
) -> None:
    name = f"{event_type}.parked"
    client.create_event_type(name, partition_strategy="hash", partition_key_fields=["key"])
    client.publish(name, [{"key": "Ada", "n": n} for n in (1, 666, 2)])
    rules = Rules(attempts_max=1, exhausted="park")
    with CUSTOMERS.local(FeedSource(hub.url, name), sqlite_url, rules=rules) as processor:
        processor.wait_until_caught_up(300)
    client.publish(name, [{"key": "Ada", "n": n} for n in (3, 4)])
    mended = Projection("customers", Sum, lambda state, event: Sum(state.total + event.data["n"]), key=by_customer)

    parked = (
        r"'customers_v1, of which is parked: .*Ada.*; allowed: one of which nothing is parked: .* customers_v1 --all"
    )
    with pytest.raises(BadParameter, match=parked):
        project(spark, DatabaseTarget(mended, sqlite_url), hub.url, name)
    checkpoints = DatabaseCheckpoints(sqlite_url, "customers_v1")
    checkpoints.ask(checkpoints.parked()[0].stream, "retry")
    with mended.local(FeedSource(hub.url, name), sqlite_url, rules=rules) as processor:
        processor.wait_until_caught_up(300)
    assert project(spark, DatabaseTarget(mended, sqlite_url), hub.url, name).events == 0
    assert rows_of(sqlite_url, "SELECT total FROM customers") == [(676,)]


@pytest.mark.parametrize("kept_in", ["a database", exhaustive("files")])
def test_row_that_cannot_be_stored_fails_alone(
    spark: SparkSession, feed: CustomerFeed, tmp_path: Path, kept_in: str, request: pytest.FixtureRequest
) -> None:
    def held(_: Holding, event: StreamEvent) -> Holding:
        return Holding(**UNFIT.get(event.data["n"], {}))

    def keyed(event: StreamEvent) -> str | None:
        return {8: "\0", 9: "é" * 1_001, 10: "10", 11: "11"}.get(event.data["n"], event.key)

    hub: LiveHub = request.getfixturevalue("hub")
    projection = Projection("holdings", Holding, held, key=keyed)
    feed.publish(range(12))
    if kept_in == "files":
        with pytest.raises(HandlerFailed, match=r"BadParameter: parameter (state|key) is"):
            project(spark, FilesTarget(projection, tmp_path), hub.url, feed.name)
        assert sorted(row["key"] for row in read(spark, projection, tmp_path).collect()) == ["0"]
        return
    urls = request.getfixturevalue("postgres_url"), request.getfixturevalue("sqlite_url")
    with pytest.raises(HandlerFailed, match=r"BadParameter: parameter (state|key) is"):
        project(spark, DatabaseTarget(projection, urls[0]), hub.url, feed.name)
    projection.inline(FeedSource(hub.url, feed.name), urls[1]).drain()
    assert [[row[0] for row in rows(url, "holdings")] for url in urls] == [["0", "6", "7"]] * 2


@pytest.mark.parametrize("kept_in", ["a database", exhaustive("files")])
def test_failing_key_function_holds_no_other_row(
    spark: SparkSession, hub: LiveHub, feed: CustomerFeed, tmp_path: Path, kept_in: str
) -> None:
    database = f"sqlite:///{tmp_path}/totals.db"

    def keyed(event: StreamEvent) -> str | None:
        if event.data["n"] in (1, 2, 3, 4):
            raise KeyError("customer")
        return event.key

    def projected(key: Any) -> list[str]:
        projection = Projection("totals", Total, lambda state, _: Total(state.total + 1), key=key)
        files = kept_in == "files"
        target: Any = FilesTarget(projection, tmp_path / "rows") if files else DatabaseTarget(projection, database)
        try:
            project(spark, target, hub.url, feed.name)
        except HandlerFailed as failure:
            told.append(str(failure))
        found = read(spark, projection, tmp_path / "rows").collect() if files else rows(database, "totals")
        return sorted(key for key, _ in found)

    told: list[str] = []
    feed.publish(range(10))
    assert projected(keyed) == ["0", "5", "6", "7", "8", "9"]
    assert told[0].count("row [], ") == told[0].count("KeyError: 'customer'") > 1, "it is told of each partition"
    assert projected(by_customer) == [str(number) for number in range(10)], "none of them has moved on"
