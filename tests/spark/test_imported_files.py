"""Files are imported into a feed, each event once, also those that come later; JSON byte for byte."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client, FeedEvent
from penstock.core.events.event import NewEvent
from penstock.errors import BadParameter
from penstock.spark.pipelines import Files, HubFeed, export, import_
from penstock.spark.pipelines.watching import count_events
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.spark.events import events_in

Import = Callable[..., list[FeedEvent]]
ODD_KEYS: list[str | None] = ["k,1", ' "sp" ', "", None, "\\"]
NUMBERS: list[str | None] = ["007", "8"]


@pytest.fixture
def there(client: Client, hub: LiveHub, event_type: str) -> HubFeed:
    client.create_event_type(f"{event_type}.there", partition_count=2)
    return HubFeed(hub.url, f"{event_type}.there")


@pytest.fixture
def imported(spark: SparkSession, client: Client, there: HubFeed, tmp_path: Path) -> Import:
    """Imports what is in a directory now, from one checkpoint, and returns the events of the feed.

    It has as many events as all runs have counted: blank lines are none.
    """
    counts: list[int] = []

    def importing(files: Files, **more: Any) -> list[FeedEvent]:
        query = import_(spark, files, there, checkpoint=str(tmp_path / "checkpoint"), **more)
        try:
            assert query.awaitTermination(300), "it did not end"
            counts.extend(map(count_events, query.recentProgress))
        finally:
            query.stop()
        found = events_in(client, there.event_type)
        assert len(found) == sum(counts), "it has counted other events than it has published"
        return found

    return importing


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_lines_are_imported_byte_for_byte_once_also_of_files_that_come_later(imported: Import, place: Path) -> None:
    (place / "a b+c.json").write_text('{"n":  1.50}\n\n \t\n{"text": "é"}\n')
    first = imported(Files(str(place)))
    (place / "b.json").write_text('{"n": 3}')
    os.utime(place / "b.json", (0, 0))  # As a file has it that is moved there.
    imported(Files(str(place)))
    found = imported(Files(str(place)))

    assert sorted(event.raw.decode() for event in first) == ['{"n":  1.50}', '{"text": "é"}']
    assert sorted((event.raw.decode(), event.headers["file-name"]) for event in found) == [
        ('{"n":  1.50}', "a b+c.json"),
        ('{"n": 3}', "b.json"),
        ('{"text": "é"}', "a b+c.json"),
    ]


@pytest.mark.parametrize("format", ["parquet", exhaustive("csv"), exhaustive("orc")])
def test_columns_are_imported_as_members(spark: SparkSession, imported: Import, place: Path, format: str) -> None:
    rows = spark.range(20).selectExpr("CAST(id AS int) AS n", "concat('a \"b\", ', id) AS text")
    options = {"header": "true", "escape": '"'} if format == "csv" else {}
    rows.write.format(format).options(**options).save(f"{place}/{format}")
    found = imported(Files(f"{place}/{format}", format, {"schema": "n INT, text STRING"} if format == "csv" else {}))

    expected = [{"n": n, "text": f'a "b", {n}'} for n in range(20)]
    assert sorted((event.data for event in found), key=lambda each: each["n"]) == expected


def test_columns_of_csv_are_texts_known_by_their_names(imported: Import, place: Path) -> None:
    (place / "a.csv").write_text('id,zip,city\n1,00501,""\n2,AB1,\n')
    found = imported(Files(str(place), "csv"))
    assert sorted(event.raw for event in found) == [b'{"id":"1","zip":"00501","city":""}', b'{"id":"2","zip":"AB1"}']

    (place / "b.csv").write_text("zip,city,id\n1,b,2\n")
    (place / "c.csv").write_text("city,id,zip\nb,2,1\n")  # Spark takes the names of whichever file is listed first.
    with pytest.raises(Exception, match=r"FAILED_READ_FILE.*[bc]\.csv"):
        imported(Files(str(place), "csv"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["a b+c.json", "[x]{y}.json"])
def test_single_file_is_imported_alone(imported: Import, place: Path, name: str) -> None:
    (place / name).write_text('{"n": 1}\n')
    (place / "other.json").write_text('{"n": 2}\n')

    [event] = imported(Files(str(place / name)))

    assert (event.raw, event.headers["file-name"]) == (b'{"n": 1}', name)


@pytest.fixture
def exported(spark: SparkSession, client: Client, options: dict[str, str], place: Path) -> Callable[..., Path]:
    """Writes twenty events into files."""

    def exporting(format: str, keys: list[str | None]) -> Path:
        events = [NewEvent(b'{"n":  %d.0}' % n, key=keys[n % len(keys)], partition=0) for n in range(20)]
        client.publish(options["eventType"], events)
        export(spark, f"{place}/there", format=format, **options)
        return place / "there"

    return exporting


@pytest.mark.parametrize(
    ("keys", "format"),
    [(ODD_KEYS, "csv"), exhaustive(NUMBERS, "csv"), exhaustive(ODD_KEYS, "parquet"), exhaustive(NUMBERS, "parquet")],
)
def test_exported_feed_is_imported_as_it_was(
    imported: Import, exported: Callable[..., Path], keys: list[str | None], format: str
) -> None:
    found = imported(Files(str(exported(format, keys)), format))

    expected = [(b'{"n":  %d.0}' % n, keys[n % len(keys)]) for n in range(20)]
    assert sorted((event.raw, event.headers.get("ce_partitionkey")) for event in found) == sorted(expected)


def test_line_that_is_no_event_ends_the_import_and_nothing_of_it_is_published(
    imported: Import, client: Client, there: HubFeed, place: Path
) -> None:
    (place / "a.json").write_text('{"n": 1}\n{"n": \n')

    with pytest.raises(Exception, match=r'a row is no valid event of .*: its data is not JSON.* it begins \{"n":'):
        imported(Files(str(place)))

    assert events_in(client, there.event_type) == []


def test_lake_of_typed_columns_is_refused(spark: SparkSession, imported: Import, place: Path) -> None:
    rows = spark.range(1).selectExpr("struct(id AS n) AS data", "'{}' AS rescued_data")
    rows.write.parquet(f"{place}/lake")

    with pytest.raises(BadParameter, match="allowed: files with payload json: what did not fit"):
        imported(Files(f"{place}/lake", "parquet"))


def test_wrong_options_of_imports_are_refused(imported: Import, place: Path, there: HubFeed) -> None:
    with pytest.raises(BadParameter, match="option format is 'avro'; allowed: json, parquet, csv, orc"):
        Files(str(place), "avro")
    with pytest.raises(BadParameter, match="option layout is 'span'; allowed: raw, stream-span, summary"):
        imported(Files(str(place)), layout="span")
    with pytest.raises(BadParameter, match="option format is 'csv'; allowed: json where the layout is not raw"):
        imported(Files(str(place), "csv"), layout="summary")
    with pytest.raises(BadParameter, match="there is no option 'colour'"):
        HubFeed(there.url, there.event_type, {"colour": "red"})
