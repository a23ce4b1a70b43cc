import pickle
import subprocess
import sys

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import LongType, StructType

import pyspark_nakadi
from penstock.errors import BadParameter
from penstock.spark.nakadi.source import SubscriptionDataSource

LEAST = {"url": "http://nakadi:1", "subscription": "s", "landingLocation": "/nowhere"}
LOOKUP = """
import sys
import pyspark.sql.datasource, pyspark_nakadi
print(*(name for name in ("pyarrow", "numpy", "pandas") if name in sys.modules))
"""
EXECUTOR = """
import sys
import penstock.spark.nakadi.stream, penstock.spark.nakadi.pages, penstock.spark.nakadi.intake
print(*(name for name in ("penstock.client.http.library", "httpx2", "psycopg", "starlette") if name in sys.modules))
"""


def source(**options: str) -> SubscriptionDataSource:
    return SubscriptionDataSource(CaseInsensitiveDict(LEAST | options))


def test_spark_finds_the_source_under_its_name() -> None:
    assert issubclass(pyspark_nakadi.DefaultSource, DataSource)
    assert pyspark_nakadi.DefaultSource.name() == "nakadi"


@pytest.mark.parametrize("program", [LOOKUP, EXECUTOR], ids=["sessions", "executors"])
def test_no_more_is_loaded_than_is_needed(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_a_wrong_option_is_refused_when_the_source_is_built() -> None:
    with pytest.raises(BadParameter, match="option batchLimit"):
        source(batchLimit="several")


def test_a_batch_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(BadParameter, match=r"cannot be read as a batch; allowed: spark\.readStream, which with"):
        source().reader(source().schema())


def test_columns_that_are_not_there_are_refused_before_anything_runs() -> None:
    with pytest.raises(BadParameter, match="there is no column offset bigint"):
        source().streamReader(StructType().add("offset", LongType()))


def test_what_is_sent_to_executors_survives_pickling() -> None:
    reader = source().streamReader(source().schema())

    assert vars(pickle.loads(pickle.dumps(reader))) == vars(reader)
