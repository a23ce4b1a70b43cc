import pickle
import subprocess
import sys

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, InputPartition
from pyspark.sql.types import LongType, StructType

import pyspark_messagedb
from penstock.errors import BadParameter
from penstock.spark.messagedb.source import CategoryDataSource

LEAST = {"url": "postgresql://reader@localhost:1/events", "category": "account"}
LOOKUP = """
import sys
import pyspark.sql.datasource, pyspark_messagedb
print(*(name for name in ("pyarrow", "psycopg", "numpy", "pandas") if name in sys.modules))
"""


def source(**options: str) -> CategoryDataSource:
    return CategoryDataSource(CaseInsensitiveDict(LEAST | options))


def test_spark_finds_the_source_under_its_name() -> None:
    assert issubclass(pyspark_messagedb.DefaultSource, DataSource)
    assert pyspark_messagedb.DefaultSource.name() == "messagedb"


def test_sessions_that_read_no_messagedb_do_not_load_what_reads_it() -> None:
    done = subprocess.run([sys.executable, "-c", LOOKUP], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_a_wrong_option_is_refused_when_the_source_is_built() -> None:
    with pytest.raises(BadParameter, match="option minPartitions"):
        source(minPartitions="several")


def test_a_batch_from_the_latest_position_is_refused() -> None:
    with pytest.raises(BadParameter, match="option startingOffsets is 'latest'"):
        source(startingOffsets="latest").reader(source().schema())


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadParameter, match="option endingOffsets"):
        source(endingOffsets="latest").streamReader(source().schema())


def test_columns_that_are_not_there_are_refused_before_anything_runs() -> None:
    for read in (source().reader, source().streamReader):
        with pytest.raises(BadParameter, match="there is no column offset bigint"):
            read(StructType().add("offset", LongType()))


def test_what_is_sent_to_executors_survives_pickling() -> None:
    built = source(startingOffsets='{"account": 7}')

    assert pickle.loads(pickle.dumps(built)).schema() == built.schema()
    for reader in (built.reader(built.schema()), built.streamReader(built.schema())):
        assert vars(pickle.loads(pickle.dumps(reader))).keys() == vars(reader).keys()


def test_a_task_without_stretches_reads_nothing_and_asks_nobody() -> None:
    assert list(source().reader(source().schema()).read(InputPartition(()))) == []
