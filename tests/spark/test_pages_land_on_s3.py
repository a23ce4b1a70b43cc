"""Landing on an object store, whose paths are not this machine's, and which has neither directories nor renames."""

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.errors import LandedPageMissing
from penstock.spark.landing import Landing, new_landing
from tests.s3 import s3_server
from tests.spark.remote_feeds import RemoteQuery, Steps

BATCH = pa.RecordBatch.from_pydict({"data": ["a", "b"]})


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        yield address


def test_pages_are_written_read_and_forgotten(bucket: str) -> None:
    landing = new_landing(bucket)
    for lane in ("r/0", "r/1", "q/0"):
        for number in range(3):
            landing.write(lane, number, [BATCH])

    assert list(pickle.loads(pickle.dumps(landing)).read("r/0", 1)) == [BATCH]
    landing.forget("r/0", 2)
    landing.forget("nowhere", 2)
    with pytest.raises(LandedPageMissing, match=rf"the page {landing.id}/r/0/1 in s3a://…@lake/landing"):
        list(landing.read("r/0", 1))
    assert list(landing.read("r/0", 2)) == list(landing.read("r/1", 0)) == [BATCH]
    assert landing.lanes() == {"r", "q"}
    landing.forget_lanes({"q", "of somebody who was quicker"})
    assert landing.lanes() == {"r"}
    assert Landing(bucket, "other").lanes() == set()


def test_a_feed_from_afar_lands_there_and_its_old_pages_are_deleted(
    bucket: str, options: dict[str, str], publish: Callable[[range], None], tmp_path: Path
) -> None:
    steps = Steps(f"{options['url']}/feeds/{options['eventType']}", tmp_path, landingLocation=bucket)
    start: Any = None
    for numbers in (range(10), range(10, 16)):
        publish(numbers)
        start, [rows] = steps.run(start)
        assert sorted(json.loads(data)["n"] for _, _, data in rows) == [*numbers]

    assert Landing(bucket, start["landing"]).lanes() == {start["run"]}


def test_spark_reads_what_has_landed_there(
    spark: SparkSession, bucket: str, options: dict[str, str], publish: Callable[[range], None], tmp_path: Path
) -> None:
    url = f"{options['url']}/feeds/{options['eventType']}"
    query = RemoteQuery(spark, url, tmp_path, landingLocation=bucket)
    publish(range(10))
    query.run()
    query.forget_commit(0)
    query.run()

    assert [len(places) for _, places in query.batches] == [10, 10]
    assert query.batches[0] == query.batches[1]
