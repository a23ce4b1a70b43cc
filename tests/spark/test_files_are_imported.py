"""Files go into a feed, each event once, also those that come later; as they are, where they are JSON."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.errors import BadParameter
from penstock.spark.pipelines import Feed, Files, export, import_
from penstock.spark.pipelines.watching import events_of
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive

Import = Callable[..., list[Any]]


@pytest.fixture
def there(client: Client, hub: LiveHub, event_type: str) -> Feed:
    client.create_event_type(f"{event_type}.there", partition_count=2)
    return Feed(hub.url, f"{event_type}.there")


@pytest.fixture
def imported(spark: SparkSession, there: Feed, tmp_path: Path) -> Import:
    """Imports what is in a directory now, from one checkpoint, and returns what is in the feed then.

    As many events are there as all runs have counted: blank lines are none.
    """
    counts: list[int] = []

    def importing(files: Files, **more: Any) -> list[Any]:
        query = import_(spark, files, there, checkpoint=str(tmp_path / "checkpoint"), **more)
        try:
            assert query.awaitTermination(300), "it did not end"
            counts.extend(map(events_of, query.recentProgress))
        finally:
            query.stop()
        options = {"url": there.url, "eventType": there.event_type, "includeHeaders": "true"}
        found = spark.read.format("penstock").options(**options).load().collect()
        assert len(found) == sum(counts), "it has counted other events than it has published"
        return found

    return importing


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_lines_are_events_byte_for_byte_each_once(imported: Import, place: Path) -> None:
    (place / "a.json").write_text('{"n":  1.50}\n\n \t\n{"text": "é"}\n')
    first = imported(Files(str(place)))
    (place / "b.json").write_text('{"n": 3}')
    os.utime(place / "b.json", (0, 0))  # As a file has it that is moved there.
    imported(Files(str(place)))
    found = imported(Files(str(place)))

    assert sorted(row.data for row in first) == ['{"n":  1.50}', '{"text": "é"}']
    assert sorted((row.data, row.headers["file-name"]) for row in found) == [
        ('{"n":  1.50}', "a.json"),
        ('{"n": 3}', "b.json"),
        ('{"text": "é"}', "a.json"),
    ]


@pytest.mark.parametrize("format", ["parquet", exhaustive("csv"), exhaustive("orc")])
def test_columns_are_the_members_of_events(spark: SparkSession, imported: Import, place: Path, format: str) -> None:
    rows = spark.range(20).selectExpr("CAST(id AS int) AS n", "concat('a \"b\", ', id) AS text")
    rows.write.format(format).options(**({"header": "true", "escape": '"'} if format == "csv" else {})).save(
        f"{place}/{format}"
    )
    found = imported(Files(f"{place}/{format}", format, {"schema": "n INT, text STRING"} if format == "csv" else {}))

    assert sorted((json.loads(row.data) for row in found), key=lambda each: each["n"]) == [
        {"n": n, "text": f'a "b", {n}'} for n in range(20)
    ]


def test_values_of_csv_are_texts_unless_somebody_says_what_they_are(imported: Import, place: Path) -> None:
    (place / "a.csv").write_text('id,zip,city\n1,00501,""\n2,AB1,\n')

    found = imported(Files(str(place), "csv"))

    assert sorted(row.data for row in found) == ['{"id":"1","zip":"00501","city":""}', '{"id":"2","zip":"AB1"}']


@pytest.mark.parametrize("name", ["a b+c.json", exhaustive("[x]{y}.json")])
def test_a_single_file_is_imported(imported: Import, place: Path, name: str) -> None:
    (place / name).write_text('{"n": 1}\n')
    (place / "other.json").write_text('{"n": 2}\n')

    [row] = imported(Files(str(place / name)))

    assert row.data == '{"n": 1}'
    assert row.headers["file-name"] == name


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
    "keys", [["k,1", ' "sp" ', "", None, "\\"], exhaustive(["007", "8"])], ids=["odd keys", "numbers"]
)
@pytest.mark.parametrize("format", [exhaustive("parquet"), "csv"])
def test_what_was_exported_comes_back_as_it_was(
    imported: Import, exported: Callable[..., Path], format: str, keys: list[str | None]
) -> None:
    place = exported(format, keys)

    found = imported(Files(str(place), format))

    expected = [(f'{{"n":  {n}.0}}', keys[n % len(keys)]) for n in range(20)]
    assert sorted(((row.data, row.key) for row in found), key=str) == sorted(expected, key=str)


def test_columns_are_known_by_their_names_not_by_their_places(imported: Import, place: Path) -> None:
    (place / "a.csv").write_text("n,text\n1,a\n")
    assert [row.data for row in imported(Files(str(place), "csv"))] == ['{"n":"1","text":"a"}']

    (place / "b.csv").write_text("text,n\nb,2\n")
    with pytest.raises(Exception, match=r"FAILED_READ_FILE.*b\.csv"):
        imported(Files(str(place), "csv"))


def test_a_lake_of_typed_columns_is_refused(spark: SparkSession, imported: Import, place: Path) -> None:
    rows = spark.range(1).selectExpr("struct(id AS n) AS data", "'{}' AS rescued_data")
    rows.write.parquet(f"{place}/lake")

    with pytest.raises(BadParameter, match="allowed: files with payload json: what did not fit"):
        imported(Files(f"{place}/lake", "parquet"))


def test_a_line_that_is_no_event_ends_the_import_and_nothing_of_it_is_published(
    spark: SparkSession, imported: Import, there: Feed, place: Path
) -> None:
    (place / "a.json").write_text('{"n": 1}\n{"n": \n')

    with pytest.raises(Exception, match=r'a row is no valid event of .*: its data is not JSON.* it begins \{"n":'):
        imported(Files(str(place)))

    assert spark.read.format("penstock").options(url=there.url, eventType=there.event_type).load().isEmpty()


def test_a_line_that_is_no_span_is_told_with_its_file(imported: Import, place: Path) -> None:
    (place / "a.json").write_text('{"n": 1}\n')

    with pytest.raises(Exception, match=r"it is no StreamSpan and no summary: .*file-name a\.json"):
        imported(Files(str(place)), layout="stream-span")


def test_wrong_options_are_told(imported: Import, place: Path, there: Feed) -> None:
    with pytest.raises(BadParameter, match="option format is 'avro'; allowed: json, parquet, csv, orc"):
        Files(str(place), "avro")
    with pytest.raises(BadParameter, match="option layout is 'span'; allowed: raw, stream-span, summary"):
        imported(Files(str(place)), layout="span")
    with pytest.raises(BadParameter, match="option format is 'csv'; allowed: json where the layout is not raw"):
        imported(Files(str(place), "csv"), layout="summary")
    with pytest.raises(BadParameter, match="there is no option 'colour'"):
        Feed(there.url, there.event_type, {"colour": "red"})
