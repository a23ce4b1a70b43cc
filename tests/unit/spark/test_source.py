import pickle

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, InputPartition
from pyspark.sql.types import LongType, StringType, StructType

import pyspark_penstock
from penstock.errors import BadParameter, RequirementMissing
from penstock.spark.ranges import Range
from penstock.spark.source import PenstockDataSource, check_pyspark

EVENTS = StructType().add("data", StringType())
LEAST = {"url": "http://localhost:1", "eventType": "order.placed"}


def source(**options: str) -> PenstockDataSource:
    return PenstockDataSource(CaseInsensitiveDict(LEAST | options))


def test_spark_finds_the_source_under_its_name() -> None:
    assert issubclass(pyspark_penstock.DefaultSource, DataSource)
    assert pyspark_penstock.DefaultSource.name() == "penstock"


def test_a_wrong_option_is_refused_when_the_source_is_built() -> None:
    with pytest.raises(BadParameter, match="option minPartitions"):
        source(minPartitions="several")


def test_headers_are_a_column_where_they_are_wanted() -> None:
    assert "headers" not in source().schema().names
    assert "headers" in source(includeHeaders="true").schema().names


def test_a_batch_from_the_latest_offset_is_refused() -> None:
    with pytest.raises(BadParameter, match="option startingOffsets is 'latest'"):
        source(startingOffsets="latest").reader(source().schema())


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadParameter, match="option endingOffsets"):
        source(endingOffsets="latest").streamReader(source().schema())


def test_what_is_sent_to_executors_survives_pickling() -> None:
    built = source(startingOffsets='{"order.placed": {"0": 7}}')
    task = InputPartition((Range("order.placed", 1, 4, 0, 0, 7),))

    assert pickle.loads(pickle.dumps(built)).schema() == built.schema()
    for reader in (built.reader(built.schema()), built.streamReader(built.schema())):
        assert vars(pickle.loads(pickle.dumps(reader))) == vars(reader)
    assert pickle.loads(pickle.dumps(task)).value == task.value


def test_a_task_without_ranges_reads_nothing_and_asks_nobody() -> None:
    assert list(source().reader(source().schema()).read(InputPartition(()))) == []


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0.dev1", "5.0.0"])
def test_a_pyspark_that_is_new_enough_is_taken(version: str) -> None:
    check_pyspark(version)


@pytest.mark.parametrize("version", ["3.5.4", "4.0.0", "4.1.2"])
def test_an_older_pyspark_is_told_which_is_needed(version: str) -> None:
    with pytest.raises(RequirementMissing, match=rf"PySpark 4\.2 or newer is needed, {version} found; pip install"):
        check_pyspark(version)


def test_a_batch_has_no_progress_to_show() -> None:
    with pytest.raises(BadParameter, match="option consumerGroup is 'lake'; allowed: in a stream only"):
        source(consumerGroup="lake").reader(source().schema())


def test_an_option_of_writers_is_none_of_readers() -> None:
    with pytest.raises(BadParameter, match="there is no option 'producergroup'"):
        source(producerGroup="g").schema()


def test_a_feed_is_not_written_over() -> None:
    with pytest.raises(BadParameter, match=r"overwrite.* is not offered: what is in a feed stays"):
        source().writer(EVENTS, True)


def test_a_batch_write_names_its_group_and_its_batch_or_neither() -> None:
    with pytest.raises(BadParameter, match="option batchId is missing"):
        source(producerGroup="g").writer(EVENTS, False)
    with pytest.raises(BadParameter, match="option batchId is 1; allowed: in a batch write only"):
        source(producerGroup="g", batchId="1").streamWriter(EVENTS, False)


def test_what_writes_survives_pickling() -> None:
    for writer in (source().writer(EVENTS, False), source(onInvalid="reject").streamWriter(EVENTS, False)):
        assert vars(pickle.loads(pickle.dumps(writer))).keys() == vars(writer).keys()


def test_columns_that_are_none_of_an_event_are_refused_before_anything_runs() -> None:
    with pytest.raises(BadParameter, match="column offset bigint is no part of an event"):
        source().writer(StructType().add("offset", LongType()), False)
