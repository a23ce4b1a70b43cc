"""Spark Connect: each row of the table in the guide is a test here."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkAttributeError, PySparkNotImplementedError
from pyspark.sql import SparkSession

import penstock.spark
from penstock.client import Client
from penstock.errors import CheckpointMoved, RequirementMissing
from penstock.spark.pipelines import Files, HubFeed, Kafka, Nakadi, export, forward, import_, ingest, watch
from penstock.spark.projections.files import FilesTarget, read, switch
from penstock.spark.projections.folding import ROWS_SQL
from penstock.spark.projections.project import Round
from penstock.spark.source import PenstockDataSource
from penstock.testing.live_hub import live_hub
from penstock_demo.delays import NAMES
from tests.served import client_of
from tests.spark.categories import Categories
from tests.spark.connect import connect_server, session_on, start_query
from tests.spark.drivers import ROOT
from tests.spark.events import count_in
from tests.spark.republishing import EVENTS, Republished
from tests.spark.subscriptions import STRICT, Numbers

pytestmark = pytest.mark.exhaustive  # The server is a Java of its own.
Publish = Callable[[range], None]
FOLLOWING = """
import sys, penstock.spark
url, source, target, checkpoint = sys.argv[1:]
stream = penstock.spark.session().readStream.format("penstock").option("startingOffsets", "earliest")
rows = stream.options(url=url, eventType=source).load()
sink = rows.select("data").writeStream.format("penstock").options(url=url, eventType=target)
sink.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start().awaitTermination()
"""
"""A program that publishes from one feed to another without end."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture(scope="module")
def spark(server: str) -> Iterator[SparkSession]:
    """In the place of the classic session, so that what is made with that is made with this one here."""
    with session_on(server) as session:
        yield session


def numbers(rows: Any) -> Counter[int]:
    return Counter(json.loads(row["data"])["n"] for row in rows.select("data").collect())


def await_end(query: Any) -> None:
    try:
        assert query.awaitTermination(300), "it did not end"
    finally:
        query.stop()


def test_connect_reads_a_feed_as_json_and_typed(
    spark: SparkSession, client: Client, options: dict[str, str], publish: Publish
) -> None:
    publish(range(20))
    typed = f"{options['eventType']}.typed"
    client.create_event_type(typed, schema='{"properties": {"n": {"type": "integer"}}}')
    client.publish(typed, [{"n": 1}, {"n": 2, "stray": True}])

    assert numbers(spark.read.format("penstock").options(**options).load()) == Counter(range(20))
    rows = spark.read.format("penstock").options(url=options["url"], eventType=typed, payload="typed").load()
    assert rows.selectExpr("data.n", "rescued_data").orderBy("n").collect() == [(1, None), (2, '{"stray":true}')]


def test_connect_refuses_wrong_options_when_the_rows_are_first_used(
    spark: SparkSession, options: dict[str, str]
) -> None:
    rows = spark.read.format("penstock").options(**options, payload="yaml").load()

    with pytest.raises(AnalysisException, match="option payload is 'yaml'; allowed: json, typed, both"):
        _ = rows.schema


def test_connect_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    for numbers_now in (range(10), range(10, 16)):
        publish(numbers_now)
        rows = spark.readStream.format("penstock").options(startingOffsets="earliest", **options).load()
        writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        report = watch(writer.start(), lambda _: None)
        assert (report.events, report.gap) == (len(numbers_now), 0)

    assert numbers(spark.read.parquet(str(tmp_path / "rows"))) == Counter(range(16))


def test_connect_reads_remote_feeds_and_subscriptions(
    spark: SparkSession, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    publish(range(20))
    feed = {"url": f"{options['url']}/feeds/{options['eventType']}"}
    assert numbers(spark.read.format("zeroeventhub").options(**feed).load()) == Counter(range(20))
    with live_hub(f"sqlite:///{tmp_path}/nakadi.db", options=STRICT) as strict, client_of(strict) as http:
        subscribed = Numbers(http)
        subscribed.publish(range(20))
        for name, given in (("zeroeventhub", feed), ("nakadi", subscribed.options)):
            place = tmp_path / name
            for more in (range(20, 20), range(20, 26)):
                if more and name == "nakadi":
                    subscribed.publish(more)
                elif more:
                    publish(more)
                rows = spark.readStream.format(name).options(**given, landingLocation=f"{place}/landing").load()
                writer = rows.writeStream.format("parquet").option("path", f"{place}/rows")
                writer = writer.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True)
                await_end(writer.start())
            assert numbers(spark.read.parquet(f"{place}/rows")) == Counter(range(26))
        assert subscribed.committed == 26


def test_connect_runs_foreach_batch_functions_on_the_server(
    spark: SparkSession, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    publish(range(10))
    here: list[int] = []
    place = str(tmp_path / "rows")

    def keep(rows: Any, number: int) -> None:
        here.append(number)
        rows.write.parquet(f"{place}/{number}-{len(here)}")

    rows = spark.readStream.format("penstock").options(startingOffsets="earliest", **options).load()
    writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    await_end(start_query(writer.trigger(availableNow=True).start))

    assert numbers(spark.read.parquet(f"{place}/0-1")) == Counter(range(10))
    assert here == [], "it has a list of its own there"


def test_connect_has_no_context_and_no_rdds(spark: SparkSession) -> None:
    with pytest.raises(PySparkAttributeError, match="sparkContext"):
        _ = spark.sparkContext
    with pytest.raises(PySparkNotImplementedError, match="rdd is not implemented"):
        _ = spark.range(1).rdd


def test_connect_publishes_a_batch_once(spark: SparkSession, republished: Republished, options: dict[str, str]) -> None:
    rows = spark.range(50).selectExpr("named_struct('n', id) AS data")
    sink = {"url": options["url"], "eventType": republished.target, "producerGroup": "job", "batchId": "7"}
    for _ in range(2):
        rows.write.format("penstock").mode("append").options(**sink).save()

    assert republished.stored() == Counter(range(50))


def test_connect_reads_a_messagedb(spark: SparkSession, message_db_url: str, tmp_path: Path) -> None:
    categories = Categories(message_db_url)
    categories.fill("account", 20)
    source = {"url": message_db_url, "category": "account"}

    assert spark.read.format("messagedb").options(**source).load().count() == 20
    rows = spark.readStream.format("messagedb").options(**source).load()
    writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    await_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    found = spark.read.parquet(str(tmp_path / "rows"))
    assert sorted(map(tuple, found.select("category", "global_position").collect())) == categories.places()


def test_connect_traverses_rows_periodically(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "rows")

    def rows(session: SparkSession) -> Any:
        return session.range(10).selectExpr("id AS n")

    def write(numbered: Any, first: int) -> None:
        numbered.selectExpr("n", f"position - {first} AS position").write.parquet(place)

    checkpoint = str(tmp_path / "checkpoint")
    await_end(
        start_query(lambda: penstock.spark.periodic(spark, rows, write, checkpoint=checkpoint, available_now=True))
    )

    assert sorted(map(tuple, spark.read.parquet(place).collect())) == [(n, n) for n in range(10)]


def test_connect_ingests_and_exports_feeds(
    spark: SparkSession, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    publish(range(40))
    lake, out = str(tmp_path / "lake"), str(tmp_path / "out")
    report = watch(start_query(lambda: ingest(spark, lake, **options)), lambda _: None)

    assert (report.events, report.gap) == (40, 0)
    assert numbers(spark.read.parquet(lake)) == Counter(range(40))
    assert export(spark, out, format="json", **options) == 40
    with pytest.raises(AnalysisException, match="already exists"):
        export(spark, out, **options)


def test_connect_forwards_a_feed_raw_and_in_spans(
    spark: SparkSession, client: Client, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    publish(range(10))
    client.create_event_type(f"{options['eventType']}.there")
    there = HubFeed(options["url"], f"{options['eventType']}.there")
    stored = []
    for layout in ("raw", "stream-span"):
        checkpoint: Any = {"checkpoint": str(tmp_path / layout), "layout": layout}
        assert watch(forward(spark, there, **checkpoint, **options), lambda _: None).events == 10
        stored.append(count_in(client, there.event_type))

    assert stored == [10, 12], "without keys, a partition's events are one span"


def test_connect_forwards_a_feed_to_a_nakadi(
    spark: SparkSession, client: Client, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    publish(range(10))
    client.create_event_type(f"{options['eventType']}.there")
    there = Nakadi(options["url"], f"{options['eventType']}.there")

    await_end(start_query(lambda: forward(spark, there, checkpoint=str(tmp_path / "c"), **options)))

    assert count_in(client, there.event_type) == 10


def test_connect_names_a_connector_that_its_server_lacks(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(RequirementMissing, match=r"format\('kafka'\) is needed, none found"):
        forward(spark, Kafka("localhost:9092"), checkpoint=str(tmp_path / "c"), **options)
    with pytest.raises(RequirementMissing, match=r"format\('delta'\) is needed, none found"):
        ingest(spark, str(tmp_path / "lake"), format="delta", **options)


def test_connect_imports_files(spark: SparkSession, republished: Republished, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.json").write_text('{"n": 7}\n{"n": 8}\n')
    to = HubFeed(republished.options["url"], republished.target)

    report = watch(import_(spark, Files(str(tmp_path / "files")), to, checkpoint=str(tmp_path / "c")), lambda _: None)

    assert report.events == 2
    assert republished.stored() == Counter([7, 8])


def test_connect_session_registers_the_format(spark: SparkSession, options: dict[str, str], publish: Publish) -> None:
    publish(range(4))
    spark.dataSource.register(PenstockDataSource)

    assert numbers(spark.read.format("penstock").options(**options).load()) == Counter(range(4))


def test_connect_runs_the_command_line(
    server: str, client: Client, options: dict[str, str], publish: Publish, tmp_path: Path
) -> None:
    publish(range(10))
    copy = f"{options['eventType']}.copy"
    client.create_event_type(copy)
    words = ["--url", options["url"], "-o", "json"]
    there = ["--hub", options["url"], "--as", copy, "--checkpoint", str(tmp_path / "c"), "--master", server]

    forwarded = penstock_spark("forward", options["eventType"], *there, *words)
    exported = penstock_spark("export", copy, "--to", str(tmp_path / "out"), *words, SPARK_REMOTE=server)

    assert forwarded["events"] == exported["events"] == 10
    assert forwarded["gap"] == 0


def test_connect_refuses_the_second_writer_of_a_projection_in_files(spark: SparkSession, tmp_path: Path) -> None:
    def keep(target: FilesTarget, name: str, *, place: int) -> None:
        told = (f'["{name}"]', f'{{"name":"{name}"}}', f'{{"0":{place}}}', True, None, None)
        target.keep(spark, Round(spark.createDataFrame([told], ROWS_SQL), {"0": place}))

    one, other = (FilesTarget(NAMES, str(tmp_path)) for _ in range(2))
    assert one.positions(spark) == other.positions(spark) == {}
    keep(one, "A", place=1)
    with pytest.raises(
        CheckpointMoved, match="the checkpoint of '0' is at 1; this processor has left it at no position"
    ):
        keep(other, "B", place=2)
    folder = tmp_path / NAMES.processor
    (folder / "positions-2" / "_temporary").mkdir(parents=True)  # Somebody was killed before it said anything.
    assert other.positions(spark) == {"0": 1}
    keep(other, "C", place=3)
    assert other.positions(spark) == {"0": 3}
    switch(spark, NAMES, str(tmp_path))
    assert [row["name"] for row in read(spark, NAMES, str(tmp_path)).collect()] == ["C"]


def test_connect_stream_outlives_its_killed_program_and_is_restarted(
    server: str, republished: Republished, client: Client, publish: Publish
) -> None:
    source, target = republished.options["eventType"], republished.target
    command = [sys.executable, "-c", FOLLOWING, republished.options["url"], source, target, str(republished.checkpoint)]
    came: Counter[int] = Counter()
    pages = client.feed(target).follow()

    def wait_for(count: int) -> None:
        while came.total() < count:
            came.update(event.data["n"] for event in next(pages).events)

    with subprocess.Popen(command, cwd=ROOT, env=environment_with(SPARK_REMOTE=server)) as program:
        try:
            wait_for(EVENTS)
        finally:
            program.kill()
    publish(range(EVENTS, EVENTS + 10))
    wait_for(EVENTS + 10)
    publish(range(EVENTS + 10, EVENTS + 20))
    republished.run()

    assert republished.stored() == Counter(range(EVENTS + 20))


def penstock_spark(*words: str, **more: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "penstock", "spark", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=environment_with(**more), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def environment_with(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | more
