"""A feed is ingested into a lake and exported into files, each event once."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.errors import BadParameter
from penstock.hub.cold.tables import update_tables
from penstock.spark.pipelines import export, ingest
from penstock.testing.clock import VirtualClock
from penstock.testing.live_hub import LiveHub
from tests.conftest import BUILD
from tests.exhaustive import exhaustive
from tests.jars import JarsMissing, jars
from tests.promises.scene import create, event
from tests.sealing import seal, sealing_hub
from tests.spark.drivers import ROOT, ModuleDriver, own_workers
from tests.spark.events import count_in
from tests.spark.recording import wait_for

Ingest = Callable[..., None]
Publish = Callable[[range], None]
OLDEST = BUILD / "pyspark-oldest"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def ingested(spark: SparkSession, options: dict[str, str], lake: Path) -> Ingest:
    """Ingests the events that are there."""

    def ingesting(**more: Any) -> None:
        query = ingest(spark, str(lake), **(options | more))
        try:
            assert query.awaitTermination(300), "it did not end"
        finally:
            query.stop()

    return ingesting


def numbers(spark: SparkSession, path: Path) -> Counter[int]:
    return Counter(json.loads(row["data"])["n"] for row in spark.read.parquet(str(path)).select("data").collect())


def test_lake_has_each_event_once_by_type_and_day_after_runs_and_replays(
    spark: SparkSession, publish: Publish, ingested: Ingest, lake: Path, event_type: str
) -> None:
    publish(range(25))
    ingested(maxEventsPerTrigger="20")
    before = {*lake.rglob("*.parquet")}
    assert len(before) == 2, "a file for each micro-batch"
    for name in ("1", ".1.crc"):  # As if Spark had died before noting the second one.
        (lake / "_checkpoint" / "commits" / name).unlink(missing_ok=True)
    publish(range(25, 40))

    ingested()

    after = {*lake.rglob("*.parquet")}
    assert (len(before & after), len(after)) == (1, 3), "the second file was replaced"
    rows = spark.read.parquet(str(lake)).selectExpr("*", "to_date(received_at) AS day").toPandas()
    assert sorted(json.loads(data)["n"] for data in rows["data"]) == [*range(40)]
    assert (rows["day"] == rows["date"]).all()
    assert {*rows["event_type"]} == {event_type}
    assert rows["batch"].nunique() == 3


@pytest.mark.exhaustive
def test_two_pipelines_write_into_one_lake(
    spark: SparkSession, client: Client, options: dict[str, str], publish: Publish, lake: Path
) -> None:
    publish(range(20))
    other = f"{options['eventType']}.other"
    client.create_event_type(other)
    client.publish(other, [{"n": number} for number in range(20, 40)])

    for name in (options["eventType"], other):
        source = options | {"eventType": name}
        ingest(spark, str(lake), checkpoint=f"{lake}/_{name}", **source).awaitTermination(300)

    assert numbers(spark, lake) == Counter(range(40))


def test_lake_has_typed_columns_of_several_event_types(
    spark: SparkSession, client: Client, options: dict[str, str], lake: Path, ingested: Ingest
) -> None:
    names = [f"{options['eventType']}.{part}" for part in ("a", "b")]
    for number, (name, kind) in enumerate(zip(names, ("integer", "number"), strict=True)):
        schema = {"properties": {"n": {"type": kind}, "more": {"type": "array", "items": {"type": "string"}}}}
        client.create_event_type(name, schema=json.dumps(schema))
        client.publish(name, [{"n": number, "more": ["x"]}, {"n": 7, "stray": number}])

    ingested(eventType=",".join(names), payload="typed")

    rows = spark.read.parquet(str(lake)).select("event_type", "data.n", "rescued_data")
    assert dict(rows.dtypes)["n"] == "double"
    assert sorted(map(tuple, rows.collect())) == [
        (names[0], 0, None), (names[0], 7, '{"stray":0}'), (names[1], 1, None), (names[1], 7, '{"stray":1}'),
    ]  # fmt: skip


@pytest.mark.exhaustive
def test_killed_pipeline_goes_on_where_it_was(
    spark: SparkSession, publish: Publish, options: dict[str, str], ingested: Ingest, *, lake: Path, tmp_path: Path
) -> None:
    publish(range(2_000))
    words = ["tests.spark.landing", "feed", options["url"], options["eventType"], str(lake)]
    with ModuleDriver(*words, folder=tmp_path) as driver:
        wait_for(lambda: (lake / "_checkpoint/offsets/3").exists() or not driver.is_running)
        assert driver.is_running, driver.output[-3_000:]
    assert not (lake / "_checkpoint/commits/39").exists(), "it was done before it was killed"

    ingested(maxEventsPerTrigger="50")

    assert numbers(spark, lake) == Counter(range(2_000))


@pytest.mark.parametrize("kind", ["parquet", *map(exhaustive, ["json", "csv", "orc"])])
def test_part_of_a_feed_is_exported_and_replaced_on_demand(
    spark: SparkSession, publish: Publish, options: dict[str, str], tmp_path: Path, kind: str
) -> None:
    publish(range(40))
    place = str(tmp_path / "out")
    start = json.dumps({options["eventType"]: {"0": 5, "1": 20}})
    part: dict[str, Any] = options | {"startingOffsets": start, "endingOffsets": "latest"}

    assert export(spark, place, format=kind, **part) == 15

    written = spark.read.options(header="true", escape='"').format(kind).load(place).collect()
    assert sorted(json.loads(row["data"])["n"] for row in written) == [*range(10, 40, 2)]
    with pytest.raises(AnalysisException, match="already exists"):
        export(spark, place, format=kind, **options)
    assert export(spark, place, format=kind, overwrite=True, **options) == 40


def test_unknown_formats_and_typed_columns_in_csv_are_refused(
    spark: SparkSession, options: dict[str, str], lake: Path
) -> None:
    with pytest.raises(BadParameter, match=r"format is 'avro'; allowed: parquet, delta"):
        ingest(spark, str(lake), format="avro", **options)
    with pytest.raises(BadParameter, match="payload is 'typed'; allowed: json for files of format csv"):
        export(spark, str(lake), format="csv", payload="typed", **options)


@pytest.fixture
def delta() -> str:
    """The jars of Delta, as `spark.jars` takes them."""
    if not (OLDEST / "installed").exists():
        pytest.skip("the oldest PySpark is not in build/: run `make test-all`")
    try:
        return ",".join(map(str, jars("delta")))
    except JarsMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.exhaustive
def test_lake_of_delta_has_each_event_once_on_the_oldest_pyspark(
    client: Client, hub: LiveHub, event_type: str, delta: str, tmp_path: Path
) -> None:
    """Delta works with the oldest PySpark that Penstock does."""
    name = f"{event_type}-typed"
    schema = {"properties": {"n": {"type": "integer"}}}
    client.create_event_type(name, partition_count=2, schema=schema)
    client.create_event_type(f"{name}.again", schema=schema)
    client.publish(name, [{"n": n} for n in range(100)])

    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.fill_delta", delta, str(tmp_path / "lake"), hub.url, name],
        cwd=ROOT,
        env=own_workers() | {"PYTHONPATH": str(OLDEST)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["pyspark"].startswith("4.2.")
    assert found["events"] == 100
    assert sorted(found["numbers"]) == [*range(100)]
    assert count_in(client, f"{name}.again") == 100
    heads = {str(each.partition): each.head for each in client.partitions(name)}
    assert {tranche: events for tranche, _, events in found["sums"]} == heads
    assert sum(total for _, total, _ in found["sums"]) == sum(range(100))
    assert found["rounds"] >= 3, "the last round was folded again, to the same"


READ_TABLE = """
import sys
from pyspark.sql import SparkSession
from tests.spark.fill_delta import DELTA

jars, table = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
for name, value in DELTA.items():
    builder = builder.config(name, value)
events = builder.getOrCreate().read.format("delta").load(table)
rows = events.where("key = 'Ada'").orderBy("offset").selectExpr("offset", "typed.n", "typed.buyer.zip")
print([tuple(row) for row in rows.collect()], events.count())
"""


@pytest.mark.exhaustive
def test_delta_reads_the_table_of_sealed_events_on_the_oldest_pyspark(delta: str, tmp_path: Path) -> None:
    """Its files have members that others lack, and some were replaced since events of them were erased."""
    clock, name = VirtualClock(), "order.placed"
    buyers = {"name": {"type": "string"}}, {"zip": {"type": "string"}, "name": {"type": "string"}}
    with sealing_hub(f"sqlite:///{tmp_path}/hub.db", (tmp_path / "cold").as_uri(), clock=clock, has_tables=True) as hub:
        for number, own in enumerate(buyers):
            properties = {"n": {"type": "integer"}, "buyer": {"type": "object", "properties": own}}
            schema = {"type": "json_schema", "schema": json.dumps({"type": "object", "properties": properties})}
            if number:
                hub.registry.replace(name, hub.registry.load(name).event_type.whole | {"schema": schema})
            else:
                create(hub, name, schema=schema, compatibility_mode="none")
            data = [{"n": 10 * number + n, "buyer": {"name": "A", "zip": f"{n}"}} for n in range(4)]
            hub.log.publish(name, [event(each, key=("Ada", "Bob")[each["n"] % 2]) for each in data])
            clock.advance(seconds=1)
            seal(hub)
            assert update_tables(hub.store)
        hub.erasures.request(name, "Bob")
        hub.erasures.run()

    done = subprocess.run(
        [sys.executable, "-c", READ_TABLE, delta, str(tmp_path / "cold" / name)],
        cwd=ROOT,
        env=own_workers() | {"PYTHONPATH": f"{OLDEST}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip() == "[(0, 0, None), (2, 2, None), (4, 10, '0'), (6, 12, '2')] 4"
