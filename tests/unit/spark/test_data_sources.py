"""Rules that all data sources share: names, options, columns, limits, and pickling for executors."""

import pickle
import subprocess
import sys
from types import ModuleType
from typing import Any, Final

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructType

import pyspark_messagedb
import pyspark_nakadi
import pyspark_penstock
import pyspark_zeroeventhub
from penstock.errors import BadParameter, RequirementMissing
from penstock.spark.foreign.source import CategorySource, NakadiSource, ZeroEventHubSource
from penstock.spark.foreign.zeroeventhub import SCHEMA as REMOTE_COLUMNS
from penstock.spark.planning import Range
from penstock.spark.source import PenstockDataSource, check_pyspark

EVENTS: Final = StructType().add("data", StringType())
UNKNOWN: Final = StructType().add("offset", LongType())
SOURCES: Final[dict[str, tuple[type[DataSource], dict[str, str]]]] = {
    "penstock": (PenstockDataSource, {"url": "http://localhost:1", "eventType": "order.placed"}),
    "messagedb": (CategorySource, {"url": "postgresql://reader@localhost:1/events", "category": "account"}),
    "zeroeventhub": (ZeroEventHubSource, {"url": "http://localhost:1/feed", "landingLocation": "/var/landing"}),
    "nakadi": (NakadiSource, {"url": "http://nakadi:1", "subscription": "s", "landingLocation": "/nowhere"}),
}
READS_BATCHES: Final = ("penstock", "messagedb", "zeroeventhub")
LOOKUP: Final = """
import sys
import pyspark.sql.datasource, pyspark_messagedb, pyspark_nakadi, pyspark_penstock, pyspark_zeroeventhub
print(*(name for name in ("pyarrow", "psycopg", "numpy", "pandas", "httpx2") if name in sys.modules))
"""
EXECUTOR: Final = """
import sys
import penstock.spark.foreign.stream, penstock.spark.foreign.nakadi, penstock.spark.foreign.zeroeventhub
print(*(name for name in ("psycopg", "starlette") if name in sys.modules))
"""


def source(name: str, /, **options: str) -> DataSource:
    """Return a data source with the options that it needs at least, and others; an empty one is left out."""
    kind, least = SOURCES[name]
    return kind(CaseInsensitiveDict({key: value for key, value in (least | options).items() if value}))


def open_as(name: str, use: str, options: dict[str, str], schema: StructType | None = None) -> Any:
    """Return the reader or writer that Spark asks a data source for."""
    made = source(name, **options)
    if use == "writer":
        return made.writer(schema or EVENTS, False)
    if use == "overwriter":
        return made.writer(schema or EVENTS, True)
    if use == "completer":
        return made.streamWriter(schema or EVENTS, True)
    if use == "streamWriter":
        return made.streamWriter(schema or EVENTS, False)
    return getattr(made, use)(schema or made.schema())


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (pyspark_penstock, "penstock"),
        (pyspark_messagedb, "messagedb"),
        (pyspark_zeroeventhub, "zeroeventhub"),
        (pyspark_nakadi, "nakadi"),
    ],
    ids=[*SOURCES],
)
def test_spark_finds_data_source_by_its_format_name(module: ModuleType, name: str) -> None:
    assert issubclass(module.DefaultSource, DataSource)
    assert module.DefaultSource.name() == name


def test_messagedb_without_psycopg_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "penstock.spark.foreign.messagedb", raising=False)

    with pytest.raises(ModuleNotFoundError, match=r"needs psycopg: pip install 'penstock-hub\[postgres,spark\]'"):
        source("messagedb")


@pytest.mark.parametrize("program", [LOOKUP, EXECUTOR], ids=["sessions", "executors"])
def test_data_source_lookup_loads_no_large_library(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("penstock", "minPartitions"),
        ("messagedb", "minPartitions"),
        ("zeroeventhub", "partitionCount"),
        ("nakadi", "batchLimit"),
    ],
)
def test_data_source_with_malformed_option_is_refused_when_built(name: str, option: str) -> None:
    with pytest.raises(BadParameter, match=f"option {option}"):
        source(name, **{option: "several"})


@pytest.mark.parametrize(
    ("name", "use", "options", "message"),
    [
        ("penstock", "reader", {"startingOffsets": "latest"}, "option startingOffsets is 'latest'"),
        ("penstock", "reader", {"consumerGroup": "lake"}, "consumerGroup is 'lake'; allowed: in a stream only"),
        ("penstock", "reader", {"producerGroup": "g"}, "there is no option 'producergroup'"),
        ("penstock", "streamReader", {"endingOffsets": "latest"}, "option endingOffsets"),
        ("penstock", "overwriter", {}, "overwrite.* is not offered: what is in a feed stays"),
        (
            "penstock",
            "completer",
            {},
            r'outputMode\("complete"\) is not offered.* right is outputMode\("append"\), or "update"',
        ),
        ("penstock", "writer", {"producerGroup": "g"}, "option batchId is missing"),
        (
            "penstock",
            "streamWriter",
            {"producerGroup": "g", "batchId": "1"},
            "option batchId is 1; allowed: in a batch write only",
        ),
        ("messagedb", "reader", {"startingOffsets": "latest"}, "option startingOffsets is 'latest'"),
        ("messagedb", "streamReader", {"endingOffsets": "latest"}, "option endingOffsets"),
        (
            "zeroeventhub",
            "reader",
            {"startingCursors": "_last"},
            "option startingCursors is '_last'; allowed: _first or JSON in a batch",
        ),
        (
            "zeroeventhub",
            "streamReader",
            {"landingLocation": ""},
            "option landingLocation is missing; allowed: a path that driver and executors reach, and that lasts",
        ),
        (
            "zeroeventhub",
            "streamReader",
            {"landingLocation": "landing"},
            "option landingLocation is 'landing'; allowed: a path that driver and",
        ),
        ("nakadi", "reader", {}, r"cannot be read as a batch; allowed: spark\.readStream, which with"),
    ],
)
def test_option_that_does_not_suit_its_use_is_refused_before_anything_runs(
    name: str, use: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(BadParameter, match=message):
        open_as(name, use, options)


@pytest.mark.parametrize(
    ("name", "use", "message"),
    [
        ("penstock", "writer", "column offset bigint is no part of an event"),
        *((name, "reader", "there is no column offset bigint") for name in ("messagedb", "zeroeventhub")),
        *((name, "streamReader", "there is no column offset bigint") for name in SOURCES if name != "penstock"),
    ],
)
def test_unknown_column_is_refused_before_anything_runs(name: str, use: str, message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        open_as(name, use, {}, UNKNOWN)


def test_zeroeventhub_columns_are_partition_number_headers_and_data() -> None:
    assert source("zeroeventhub").schema().names == ["partition", "number", "data"]
    assert source("zeroeventhub", includeHeaders="true").schema() == REMOTE_COLUMNS


@pytest.mark.parametrize("name", ["penstock", "zeroeventhub"])
def test_headers_are_a_column_only_when_included(name: str) -> None:
    without = source(name).schema().names
    assert "headers" not in without
    assert {*source(name, includeHeaders="true").schema().names} == {*without, "headers"}


@pytest.mark.parametrize(
    ("name", "events"),
    [("penstock", 1_000_000), ("messagedb", 100_000), ("zeroeventhub", 100_000), ("nakadi", 100_000)],
)
def test_micro_batch_limit_is_max_events_per_trigger_or_the_default(name: str, events: int) -> None:
    assert open_as(name, "streamReader", {}).getDefaultReadLimit() == ReadMaxRows(events)
    limited = {"maxEventsPerTrigger": "1000"}
    assert open_as(name, "streamReader", limited).getDefaultReadLimit() == ReadMaxRows(1_000)


@pytest.mark.parametrize("name", READS_BATCHES)
def test_stream_reports_no_latest_offset_before_its_first_micro_batch(name: str) -> None:
    assert open_as(name, "streamReader", {}).reportLatestOffset() is None


@pytest.mark.parametrize(
    ("name", "use", "options"),
    [
        *((name, "streamReader", {}) for name in SOURCES),
        *((name, "reader", {}) for name in READS_BATCHES),
        ("penstock", "streamReader", {"startingOffsets": '{"order.placed": {"0": 7}}'}),
        ("messagedb", "streamReader", {"startingOffsets": '{"account": 7}'}),
        ("zeroeventhub", "streamReader", {"startingCursors": '{"0": "a7"}', "includeHeaders": "true"}),
        ("penstock", "writer", {}),
        ("penstock", "streamWriter", {"onInvalid": "reject"}),
    ],
)
def test_readers_and_writers_survive_pickling(name: str, use: str, options: dict[str, str]) -> None:
    opened = open_as(name, use, options)
    copy = pickle.loads(pickle.dumps(opened))
    assert vars(copy).keys() == vars(opened).keys()
    if name in ("penstock", "nakadi") and use in ("reader", "streamReader"):
        assert vars(copy) == vars(opened)


@pytest.mark.parametrize("name", SOURCES)
def test_data_source_survives_pickling(name: str) -> None:
    made = source(name)

    assert pickle.loads(pickle.dumps(made)).schema() == made.schema()


def test_task_survives_pickling() -> None:
    task = InputPartition((Range("order.placed", 1, 4, 0, 0, 7),))

    assert pickle.loads(pickle.dumps(task)).value == task.value


@pytest.mark.parametrize("name", ["penstock", "messagedb"])
def test_task_without_ranges_reads_nothing_and_makes_no_request(name: str) -> None:
    assert list(open_as(name, "reader", {}).read(InputPartition(()))) == []


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0.dev1", "5.0.0"])
def test_pyspark_from_4_2_is_accepted(version: str) -> None:
    check_pyspark(version)


@pytest.mark.parametrize("version", ["3.5.4", "4.0.0", "4.1.2"])
def test_older_pyspark_is_refused_with_the_version_needed(version: str) -> None:
    with pytest.raises(RequirementMissing, match=rf"PySpark 4\.2 or newer is needed, {version} found; pip install"):
        check_pyspark(version)
