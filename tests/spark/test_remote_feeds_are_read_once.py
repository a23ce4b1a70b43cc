"""format("zeroeventhub") in Spark, of servers that others have made and of our own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import zeroeventhub
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from starlette.responses import PlainTextResponse

from tests.client.loopback import served
from tests.client.reference_server import ListReader, reference_app
from tests.client.splitting_server import SplittingFeed, splitting_app
from tests.exhaustive import exhaustive
from tests.faults.processes import living
from tests.spark.land import land
from tests.spark.remote_feeds import RemoteQuery

ROOT = Path(__file__).parents[2]


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


def test_a_stream_has_each_event_once_over_several_runs_and_a_run_again_is_the_same(
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


@pytest.mark.exhaustive
def test_the_very_first_micro_batch_is_run_again_with_the_same_rows(
    spark: SparkSession, reference: str, lists: ListReader, add: Callable[[range], None], tmp_path: Path
) -> None:
    query = RemoteQuery(spark, reference, tmp_path, partitionCount="2")
    add(range(10))
    query.run()
    query.forget_commit(0)
    lists.partitions = [[], []]
    query.run()

    assert [places for _, places in query.batches] == [query.batches[0][1]] * 2
    assert len(query.batches[0][1]) == 10


@pytest.mark.parametrize("version", [exhaustive("1"), "2"])
def test_our_own_hub_is_read_by_either_version(
    spark: SparkSession, options: dict[str, str], publish: Callable[[range], None], tmp_path: Path, version: str
) -> None:
    publish(range(40))
    asked = {"version": version, "includeHeaders": "true"} | ({"partitionCount": "2"} if version == "1" else {})
    url = f"{options['url']}/feeds/{options['eventType']}"
    query = RemoteQuery(spark, url, tmp_path, **asked)
    query.run(startingCursors="_last")
    publish(range(40, 50))
    query.run(startingCursors="_last")

    assert [json.loads(data)["n"] for _, data in query.events] == [*range(40, 50, 2), *range(41, 50, 2)]
    table = spark.read.format("zeroeventhub").options(url=url, **asked).load()
    ours = spark.read.format("penstock").options(**options).load()
    shown = table.selectExpr("partition", "number AS offset", "data", "headers['ce_type'] AS kind")
    assert sorted(shown.collect()) == sorted(ours.select("partition", "offset", "data", "kind").collect())
    assert shown.count() == 50


@pytest.mark.exhaustive
def test_a_table_has_partitions_that_start_after_others(spark: SparkSession, tmp_path: Path) -> None:
    feed = SplittingFeed(0, 7)
    feed.add(0, *({"n": number} for number in range(5)))
    feed.add(7, {"n": 5})
    feed.continue_in(0, 1, 2)
    feed.add(2, {"n": 6})
    feed.failures.append(lambda _: PlainTextResponse("later", 503))
    with served(splitting_app(feed)) as url:
        table = spark.read.format("zeroeventhub").options(url=f"{url}/feed", pageSizeHint="2").load()
        rows = table.select("partition", "number", "data").collect()

    assert sorted(map(tuple, rows)) == [
        *((0, number, json.dumps({"n": number})) for number in range(5)), (2, 0, '{"n": 6}'), (7, 0, '{"n": 5}'),
    ]  # fmt: skip


def test_a_stream_waits_for_a_server_that_restarts_and_goes_on(
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
def test_a_driver_that_is_killed_goes_on_with_what_has_landed(spark: SparkSession, tmp_path: Path) -> None:
    lists = SignallingReader(10)
    for number in range(400):
        lists.add(number % 2, {"n": number})
    with served(reference_app(lists)) as url:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.land", f"{url}/feed", str(tmp_path)],
            cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert lists.reached.wait(200)
        finally:
            while alive := living(driver.pid):
                for pid in alive:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            driver.wait()
        assert not (tmp_path / "checkpoint" / "commits" / "39").exists(), "it was done before it was killed"

        land(spark, f"{url}/feed", tmp_path, events_max=100)

    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("partition", "number").collect()
    assert [(row["partition"], row["number"]) for row in rows] == [(p, n) for p in (0, 1) for n in range(200)]
    assert [(row["partition"], row["data"]) for row in rows] == expected(range(400))


def test_what_an_option_lacks_is_told_in_plain_words(spark: SparkSession, reference: str) -> None:
    with pytest.raises(PySparkException, match="option partitionCount is missing; allowed: the number of partitions"):
        spark.read.format("zeroeventhub").options(url=reference).load().count()
