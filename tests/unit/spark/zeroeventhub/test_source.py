import pickle
import subprocess
import sys

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import LongType, StructType

import pyspark_zeroeventhub
from penstock.errors import BadParameter
from penstock.spark.zeroeventhub.source import RemoteFeedSource

LOOKUP = """
import sys
import pyspark.sql.datasource, pyspark_zeroeventhub
print(*(name for name in ("pyarrow", "numpy", "pandas") if name in sys.modules))
"""
LANDS = {"landingLocation": "/var/landing"}


def source(**options: str) -> RemoteFeedSource:
    return RemoteFeedSource(CaseInsensitiveDict({"url": "http://localhost:1/feed"} | options))


def test_spark_finds_the_source_under_its_name() -> None:
    assert issubclass(pyspark_zeroeventhub.DefaultSource, DataSource)
    assert pyspark_zeroeventhub.DefaultSource.name() == "zeroeventhub"


def test_sessions_that_read_no_such_feed_do_not_load_what_reads_it() -> None:
    done = subprocess.run([sys.executable, "-c", LOOKUP], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_a_wrong_option_is_refused_when_the_source_is_built() -> None:
    with pytest.raises(BadParameter, match="option partitionCount"):
        source(partitionCount="several")


def test_a_batch_that_would_be_empty_is_refused() -> None:
    with pytest.raises(BadParameter, match="option startingCursors is '_last'; allowed: _first or JSON in a batch"):
        source(startingCursors="_last").reader(source().schema())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option landingLocation is missing; allowed: a path that driver and executors reach, and that lasts"),
        ({"landingLocation": "landing"}, "option landingLocation is 'landing'; allowed: a path that driver and"),
    ],
)
def test_a_stream_needs_a_place_where_pages_land(options: dict[str, str], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        source(**options).streamReader(source().schema())


def test_columns_that_are_not_there_are_refused_before_anything_runs() -> None:
    for read in (source().reader, source(**LANDS).streamReader):
        with pytest.raises(BadParameter, match="there is no column offset bigint"):
            read(StructType().add("offset", LongType()))


def test_what_is_sent_to_executors_survives_pickling() -> None:
    built = source(startingCursors='{"0": "a7"}', includeHeaders="true", **LANDS)

    assert pickle.loads(pickle.dumps(built)).schema().names == ["partition", "number", "headers", "data"]
    for reader in (built.reader(built.schema()), built.streamReader(built.schema())):
        assert vars(pickle.loads(pickle.dumps(reader))).keys() == vars(reader).keys()
