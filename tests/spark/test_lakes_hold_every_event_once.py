"""Feeds become files: each event once, whatever ends the pipeline, and few files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.errors import BadParameter
from penstock.spark.pipelines import export, ingest
from tests.exhaustive import exhaustive
from tests.faults.processes import living
from tests.spark.republishing import ROOT

Lake = Callable[..., None]
EVENTS = Counter(range(40))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def ingested(spark: SparkSession, options: dict[str, str], lake: Path) -> Lake:
    """Takes what there is into the lake."""

    def ingesting(**more: Any) -> None:
        query = ingest(spark, str(lake), **(options | more))
        try:
            assert query.awaitTermination(300), "it did not end"
        finally:
            query.stop()

    return ingesting


def numbers(spark: SparkSession, path: Path) -> Counter[int]:
    return Counter(json.loads(row["data"])["n"] for row in spark.read.parquet(str(path)).select("data").collect())


def files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet"))


def forget_commit(lake: Path, number: int) -> None:
    """Have the checkpoint look as if Spark had died at the end of a micro-batch, before noting that it is done."""
    for name in (str(number), f".{number}.crc"):
        (lake / "_checkpoint" / "commits" / name).unlink(missing_ok=True)


def test_a_lake_has_each_event_once_by_type_and_day(
    spark: SparkSession, publish: Callable[[range], None], ingested: Lake, lake: Path, event_type: str
) -> None:
    publish(range(25))
    ingested()
    publish(range(25, 40))
    ingested()
    ingested()

    assert numbers(spark, lake) == EVENTS
    rows = spark.read.parquet(str(lake))
    assert rows.where("to_date(received_at) != date").isEmpty()
    assert {row["event_type"] for row in rows.select("event_type").distinct().collect()} == {event_type}
    assert rows.select("batch").distinct().count() == 2


@pytest.mark.exhaustive
def test_files_are_not_small(spark: SparkSession, publish: Callable[[range], None], ingested: Lake, lake: Path) -> None:
    publish(range(40))
    ingested(maxEventsPerTrigger="20")

    assert len(files(lake)) == 2
    assert numbers(spark, lake) == EVENTS


def test_a_micro_batch_that_is_run_again_takes_the_place_of_what_it_has_written(
    spark: SparkSession, publish: Callable[[range], None], ingested: Lake, lake: Path
) -> None:
    publish(range(40))
    ingested(maxEventsPerTrigger="20")
    before = files(lake)

    forget_commit(lake, 1)
    ingested(maxEventsPerTrigger="20")

    assert numbers(spark, lake) == EVENTS
    assert len(set(before) & set(files(lake))) == 1, "one of two files was written again"


@pytest.mark.exhaustive
def test_two_pipelines_may_write_into_one_lake(
    spark: SparkSession, client: Client, options: dict[str, str], publish: Callable[[range], None], lake: Path
) -> None:
    publish(range(20))
    other = f"{options['eventType']}.other"
    client.create_event_type(other)
    client.publish(other, [{"n": number} for number in range(20, 40)])

    for name in (options["eventType"], other):
        source = options | {"eventType": name}
        ingest(spark, str(lake), checkpoint=f"{lake}/_{name}", **source).awaitTermination(300)

    assert numbers(spark, lake) == EVENTS


def test_several_event_types_and_typed_columns(
    spark: SparkSession, client: Client, options: dict[str, str], lake: Path, ingested: Lake
) -> None:
    names = [f"{options['eventType']}.{part}" for part in ("a", "b")]
    for number, name in enumerate(names):
        schema = {"properties": {"n": {"type": "integer"}, "more": {"type": "array", "items": {"type": "string"}}}}
        client.create_event_type(name, schema=json.dumps(schema))
        client.publish(name, [{"n": number, "more": ["x"]}, {"n": 7, "stray": number}])

    ingested(eventType=",".join(names), payload="typed")

    rows = spark.read.parquet(str(lake))
    told = sorted((row["event_type"], row["data"]["n"], row["rescued_data"]) for row in rows.collect())
    assert told == [
        (names[0], 0, None), (names[0], 7, '{"stray":0}'), (names[1], 1, None), (names[1], 7, '{"stray":1}'),
    ]  # fmt: skip


@pytest.mark.exhaustive
def test_a_pipeline_that_is_killed_goes_on_where_it_was(
    spark: SparkSession, publish: Callable[[range], None], options: dict[str, str], ingested: Lake, lake: Path
) -> None:
    publish(range(2_000))
    code = (
        "import penstock.spark, penstock.spark.pipelines as p, sys\n"
        "p.ingest(penstock.spark.session('killed', master='local[1]'), sys.argv[1], url=sys.argv[2], "
        "eventType=sys.argv[3], maxEventsPerTrigger='50').awaitTermination()"
    )
    arguments = [str(lake), options["url"], options["eventType"]]
    driver = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT, start_new_session=True)
    try:
        deadline = time.monotonic() + 300
        while not (lake / "_checkpoint/offsets/3").exists():
            assert driver.poll() is None, "it has ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        while alive := living(driver.pid):
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        driver.wait()
    assert not (lake / "_checkpoint/commits/39").exists(), "it was done before it was killed"

    ingested(maxEventsPerTrigger="50")

    assert numbers(spark, lake) == Counter(range(2_000))


def test_a_format_that_there_is_not_is_refused(spark: SparkSession, options: dict[str, str], lake: Path) -> None:
    with pytest.raises(BadParameter, match=r"format is 'avro'; allowed: parquet, delta"):
        ingest(spark, str(lake), format="avro", **options)


@pytest.mark.parametrize("kind", ["parquet", *map(exhaustive, ["json", "csv", "orc"])])
def test_a_part_of_a_feed_becomes_files(
    spark: SparkSession, publish: Callable[[range], None], options: dict[str, str], tmp_path: Path, kind: str
) -> None:
    publish(range(40))
    wanted = {options["eventType"]: {"0": 5, "1": 20}}

    count = export(
        spark, str(tmp_path / "out"), format=kind, **options, startingOffsets=json.dumps(wanted), endingOffsets="latest"
    )

    written = spark.read.options(header="true", escape='"').format(kind).load(str(tmp_path / "out"))
    assert count == written.count() == 15
    assert {json.loads(row["data"])["n"] for row in written.collect()} == set(range(10, 40, 2))


def test_what_is_there_is_replaced_only_where_that_is_said(
    spark: SparkSession, publish: Callable[[range], None], options: dict[str, str], tmp_path: Path
) -> None:
    publish(range(10))
    assert export(spark, str(tmp_path / "out"), **options) == 10
    publish(range(10, 20))

    with pytest.raises(AnalysisException, match="already exists"):
        export(spark, str(tmp_path / "out"), **options)
    assert export(spark, str(tmp_path / "out"), overwrite=True, **options) == 20


def test_tables_of_text_have_no_columns_in_columns(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(BadParameter, match="payload is 'typed'; allowed: json for files of format csv"):
        export(spark, str(tmp_path / "out"), format="csv", payload="typed", **options)
