"""Spark's users read the message of an error of ours first; of a defect they get the traceback."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession

from penstock.testing.live_hub import LiveHub
from tests.faults.proxy import Line, refusing
from tests.spark.broken import BrokenSource

NOWHERE: Final = "http://localhost:1/feed"
NO_TYPE: Final = "EventTypeNotFound: there is no event type 'nowhere'. Create it with "
TRACEBACK: Final = re.compile(r'Traceback|File "')


class Failing:
    """Calls of Spark that fail."""

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        self._spark = spark
        self._options = options
        self._folder = folder

    def load(self, format: str = "penstock", **options: str) -> DataFrame:
        given = self._options | options if format == "penstock" else options
        return self._spark.read.format(format).options(**given).load()

    def stream(self, format: str = "penstock", **options: str) -> None:
        given = self._options | options if format == "penstock" else options
        stream = self._spark.readStream.format(format).options(**given).load()
        self._run(stream.writeStream.format("noop"))

    def write(self, rows: str, mode: str = "append", **options: str) -> None:
        written = self._spark.sql(rows).write.format("penstock").options(**self._options | options)
        written.mode(mode).save()

    def write_stream(self, data: str, **options: str) -> None:
        rows = self._spark.readStream.format("rate").load().selectExpr(f"{data} AS data")
        self._run(rows.writeStream.format("penstock").options(**self._options | options))

    def _run(self, writer: Any) -> None:
        query = writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()
        try:
            query.awaitTermination(300)
        finally:
            query.stop()


CASES: Final[dict[str, tuple[Callable[[Failing], Any], str]]] = {
    "an option": (
        lambda spark: spark.load(retryTimeout="soon"),
        "BadParameter: option retryTimeout is 'soon'; allowed",
    ),
    "a schema": (lambda spark: spark.load(eventType="nowhere", payload="typed"), NO_TYPE),
    "a batch reader": (
        lambda spark: spark.load(startingOffsets="latest").collect(),
        "BadParameter: option startingOffsets is 'latest'; allowed: earliest",
    ),
    "the plan of a batch": (lambda spark: spark.load(eventType="nowhere").collect(), NO_TYPE),
    "a stream reader": (
        lambda spark: spark.stream(endingOffsets="latest"),
        "BadParameter: option endingOffsets is 'latest'; allowed: in a batch only",
    ),
    "the start of a stream": (lambda spark: spark.stream(eventType="nowhere"), NO_TYPE),
    "a writer": (
        lambda spark: spark.write("SELECT '{}' AS data", mode="overwrite"),
        'BadParameter: df.write.mode("overwrite") is not offered',
    ),
    "a written row": (
        lambda spark: spark.write("SELECT '{' AS data"),
        "InvalidRecord: a row is no valid event of 'order.placed",
    ),
    "a commit": (lambda spark: spark.write("SELECT '{}' AS data LIMIT 0", eventType="nowhere"), NO_TYPE),
    "a written row of a stream": (
        lambda spark: spark.write_stream("'{'"),
        "InvalidRecord: a row is no valid event of 'order.placed",
    ),
    "the commit of a stream": (lambda spark: spark.write_stream("'{}'", eventType="nowhere"), NO_TYPE),
    "a remote feed": (
        lambda spark: spark.load("zeroeventhub", url=NOWHERE, partitionCount="2", retryTimeout="0").collect(),
        f"Unreachable: {NOWHERE} cannot be reached",
    ),
    "a subscription": (lambda spark: spark.stream("nakadi", url="here"), "BadParameter: option url is 'here'; allowed"),
    "a category": (
        lambda spark: spark.stream(
            "messagedb", url="postgresql://localhost:1/none", category="account", retryTimeout="0"
        ),
        "DatabaseUnavailable: the database cannot be used now: ",
    ),
}


@pytest.fixture
def failing(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> Failing:
    return Failing(spark, options, tmp_path)


@pytest.mark.parametrize(("fail", "message"), CASES.values(), ids=CASES)
def test_error_of_a_source_or_sink_shows_its_message_without_a_traceback(
    failing: Failing, fail: Callable[[Failing], Any], message: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        fail(failing)

    assert message in TRACEBACK.split(str(raised.value))[0]


def test_error_of_a_reading_task_shows_its_message_without_a_traceback(
    failing: Failing, hub: LiveHub, publish: Callable[[range], None]
) -> None:
    publish(range(2))
    with Line(hub.port) as line:
        line.does(*[refusing(503, "unavailable", detail="not now")] * 10, to=lambda visit: "/events?" in visit.path)
        with pytest.raises(PythonException) as raised:
            failing.load(url=line.url, retryTimeout="0").collect()

    assert "Unavailable: not now" in TRACEBACK.split(str(raised.value))[0]


def test_defect_of_a_source_shows_its_traceback(spark: SparkSession) -> None:
    spark.dataSource.register(BrokenSource)

    with pytest.raises(PythonException, match=r'(?s)Traceback.*File ".*in fail.*RuntimeError: a defect'):
        spark.read.format("broken").load().collect()
