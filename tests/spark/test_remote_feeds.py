"""format("zeroeventhub") reads feeds of the reference server and of our own hub, each event once."""

import json
import pickle
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
import zeroeventhub
from pyspark.sql import SparkSession

from penstock.errors import EventsLost
from penstock.spark.foreign.landing import Landing, new_landing
from tests.client.loopback import served
from tests.client.reference_server import ListReader, reference_app
from tests.exhaustive import exhaustive
from tests.failing import has_code
from tests.spark.drivers import ModuleDriver
from tests.spark.landing import land_remote_feed
from tests.spark.remote_feeds import RemoteQuery

BATCH = pa.RecordBatch.from_pydict({"data": ["a", "b"]})


@pytest.fixture
def lists() -> ListReader:
    return ListReader(2)


@pytest.fixture
def reference(lists: ListReader) -> Iterator[str]:
    """The URL of the reference server of ZeroEventHub, whose feed is *lists*."""
    with served(reference_app(lists)) as url:
        yield f"{url}/feed"


@pytest.fixture
def add(lists: ListReader) -> Callable[[range], None]:
    """Adds numbers to the reference server's feed: the even ones to partition 0, the odd ones to partition 1."""

    def adding(numbers: range) -> None:
        for number in numbers:
            lists.add(number % 2, {"n": number})

    return adding


def expected(numbers: range) -> list[tuple[int, str]]:
    return sorted(((number % 2, json.dumps({"n": number})) for number in numbers), key=lambda each: each[0])


def test_stream_has_each_event_once_over_runs_and_replays_a_micro_batch(
    spark: SparkSession, reference: str, lists: ListReader, add: Callable[[range], None], tmp_path: Path
) -> None:
    query = RemoteQuery(spark, reference, tmp_path, partitionCount="2", pageSizeHint="7")
    add(range(50))
    progress = query.run(maxEventsPerTrigger="30")
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [30, 20]
    assert query.events == expected(range(50))
    add(range(50, 60))
    query.run()
    assert query.events == expected(range(60))

    before = query.batches[-1]
    query.forget_commit(before[0])
    lists.partitions = [[{"n": 1000}] * 31, [{"n": 1001}] * 30]
    query.run(pageSizeHint="1000")

    assert query.batches[-2] == before, "the batch that is run again, though its events are gone"
    assert query.batches[-1][1] == [(0, 30, '{"n": 1000}')], "and then it goes on"


@pytest.fixture
def own_query(spark: SparkSession, options: dict[str, str], bucket: str, tmp_path: Path) -> RemoteQuery:
    """A stream of a feed of our own hub, which lands on an object store."""
    url = f"{options['url']}/feeds/{options['eventType']}"
    return RemoteQuery(spark, url, tmp_path, includeHeaders="true", landingLocation=bucket)


@pytest.mark.parametrize("version", [exhaustive("1"), "2"])
def test_own_hub_is_read_by_either_version_and_lands_on_an_object_store(
    own_query: RemoteQuery, options: dict[str, str], publish: Callable[[range], None], version: str
) -> None:
    spark, query = own_query.spark, own_query
    publish(range(40))
    query.options |= {"version": version} | ({"partitionCount": "2"} if version == "1" else {})
    query.run(startingCursors="_last")
    publish(range(40, 50))
    query.run(startingCursors="_last")

    assert [json.loads(data)["n"] for _, data in query.events] == [*range(40, 50, 2), *range(41, 50, 2)]
    last = query.batches[-1]
    query.forget_commit(last[0])
    query.run()
    assert query.batches[-1] == last, "the batch that is run again"
    asked = {name: value for name, value in query.options.items() if name != "landingLocation"}
    table = spark.read.format("zeroeventhub").options(**asked).load()
    ours = spark.read.format("penstock").options(**options).load()
    shown = table.selectExpr("partition", "number AS offset", "data", "headers['ce_type'] AS kind").collect()
    assert sorted(shown) == sorted(ours.select("partition", "offset", "data", "kind").collect())
    assert len(shown) == 50


def test_landed_pages_are_read_again_and_deleted_on_an_object_store(bucket: str) -> None:
    landing = new_landing(bucket)
    for lane in ("r/0", "r/1", "q/0"):
        for number in range(3):
            landing.write(lane, number, [BATCH])

    assert list(pickle.loads(pickle.dumps(landing)).read("r/0", 1)) == [BATCH]
    landing.forget("r/0", 2)
    landing.forget("nowhere", 2)
    with pytest.raises(
        EventsLost,
        check=has_code("landed-page-missing"),
        match=rf"the page {landing.id}/r/0/1 in s3a://…@lake-\d+/landing",
    ):
        list(landing.read("r/0", 1))
    assert list(landing.read("r/0", 2)) == list(landing.read("r/1", 0)) == [BATCH]
    assert landing.lanes() == {"r", "q"}
    landing.forget_lanes({"q", "of somebody who was quicker"})
    assert landing.lanes() == {"r"}
    assert Landing(bucket, "other").lanes() == set()


@pytest.mark.exhaustive
def test_stream_waits_for_a_server_that_restarts(
    spark: SparkSession, lists: ListReader, add: Callable[[range], None], tmp_path: Path
) -> None:
    add(range(10))
    app = reference_app(lists)
    with served(app) as url:
        query = RemoteQuery(spark, f"{url}/feed", tmp_path, partitionCount="2")
        query.run()
    running = query.start()
    try:
        add(range(10, 20))
        with served(app, urlsplit(url).port or 0):
            running.processAllAvailable()
            running.stop()
    finally:
        running.stop()

    assert query.events == expected(range(20))


class SignallingReader(ListReader):
    """Says when somebody has come to the cursor *awaited*."""

    def __init__(self, awaited: int) -> None:
        super().__init__(2)
        self.awaited = awaited
        self.reached = threading.Event()

    async def get_data(
        self, cursors: Sequence[zeroeventhub.Cursor], headers: Sequence[str] | None, page_size: int | None
    ) -> AsyncGenerator[dict[str, Any], Any]:
        if any(asked.cursor.isdecimal() and int(asked.cursor) >= self.awaited for asked in cursors):
            self.reached.set()
        async for line in super().get_data(cursors, headers, page_size):
            yield line


@pytest.mark.exhaustive
def test_killed_driver_goes_on_with_its_landed_pages(spark: SparkSession, tmp_path: Path) -> None:
    lists = SignallingReader(10)
    for number in range(400):
        lists.add(number % 2, {"n": number})
    with served(reference_app(lists)) as url:
        with ModuleDriver("tests.spark.landing", "remote", f"{url}/feed", str(tmp_path), folder=tmp_path):
            assert lists.reached.wait(300)
        assert not (tmp_path / "checkpoint" / "commits" / "39").exists(), "it was done before it was killed"

        land_remote_feed(spark, f"{url}/feed", str(tmp_path), "100")

    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("partition", "number").collect()
    assert [(row["partition"], row["number"]) for row in rows] == [(p, n) for p in (0, 1) for n in range(200)]
    assert [(row["partition"], row["data"]) for row in rows] == expected(range(400))
