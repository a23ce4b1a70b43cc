"""format("nakadi") reads the events of a subscription, each once, and commits what Spark has committed."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import client_of
from tests.spark.drivers import ModuleDriver
from tests.spark.landing import land_subscription
from tests.spark.queries import offsets_in
from tests.spark.recording import wait_for
from tests.spark.subscriptions import STRICT, Numbers, SubscriptionQuery


@pytest.fixture(scope="module")
def strict_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('nakadi')}/hub.db", options=STRICT) as running:
        yield running


@pytest.fixture(scope="module")
def http(strict_hub: LiveHub) -> Iterator[httpx2.Client]:
    with client_of(strict_hub) as client:
        yield client


@pytest.fixture
def numbers(http: httpx2.Client) -> Numbers:
    return Numbers(http)


@pytest.fixture
def query(spark: SparkSession, numbers: Numbers, tmp_path: Path) -> SubscriptionQuery:
    return query_of(spark, numbers, tmp_path)


def query_of(spark: SparkSession, numbers: Numbers, folder: Path) -> SubscriptionQuery:
    options = {"landingLocation": f"{folder}/landing", "commitTimeout": "5 seconds"}
    return SubscriptionQuery(spark, numbers.options | options, folder)


class Watched(list[Any]):
    """Micro-batches, at each of which something is done while it is under way."""

    def __init__(self, look: Any) -> None:
        self.look = look

    def append(self, batch: Any) -> None:
        super().append(batch)
        self.look()


def test_events_are_read_once_over_runs_and_committed_after_spark_has_committed_them(
    query: SubscriptionQuery, numbers: Numbers
) -> None:
    numbers.publish(range(100))
    committed: list[int] = []
    query.batches = Watched(lambda: committed.append(numbers.committed))
    progress = query.run(maxEventsPerTrigger="30", batchLimit="7")
    assert all(each["numInputRows"] <= 30 for each in progress)
    before = [sum(len(rows) for _, rows in query.batches[:number]) for number in range(len(query.batches))]
    assert committed == before
    assert len(before) >= 4
    assert numbers.committed == 100

    numbers.publish(range(100, 130))
    progress = query.run()
    assert query.numbers == list(range(130))
    assert numbers.committed == 130
    assert offsets_in(progress[-1])["cursors"] == {
        numbers.event_types[0].name: {"0": "001-0001-000000000000000064", "1": "001-0001-000000000000000064"}
    }

    number, last = query.batches[-1]
    numbers.publish(range(130, 140))
    query.forget_commit(number)
    query.run(batchLimit="7")
    assert [rows for batch, rows in query.batches if batch == number] == [last, last]
    after = [rows for batch, rows in query.batches if batch > number]
    assert sum(map(len, after)) == 10, "and then it goes on"
    query.run()
    assert numbers.committed == 140


def test_rows_have_the_event_with_its_cursor_and_metadata(
    spark: SparkSession, numbers: Numbers, tmp_path: Path
) -> None:
    event = '{"n" : 1.50, "t":"\\u00e4", "metadata":{"eid":"5b6f9a3c-9d0b-4f0e-9a37-0a7d3f3b2c11",'
    event += '"occurred_at":"2026-01-02T03:04:05.678Z","partition":"1"}}'
    numbers.event_types[0].publish(f"[{event}]".encode())
    rows: list[Any] = []
    query = query_of(spark, numbers, tmp_path)
    stream = spark.readStream.format("nakadi").options(**query.options).load()
    writer = stream.writeStream.foreachBatch(lambda frame, _: rows.extend(frame.collect()))
    writer.option("checkpointLocation", str(query.checkpoint)).trigger(availableNow=True).start().awaitTermination()

    [row] = rows
    assert (row.event_type, row.partition, row.place) == (numbers.event_types[0].name, "1", 0)
    assert row.cursor == "001-0001-000000000000000000"
    assert row.id == "5b6f9a3c-9d0b-4f0e-9a37-0a7d3f3b2c11"
    assert row.data.startswith('{"n" : 1.50, "t":"\\u00e4", "metadata":{')
    received = json.loads(row.data)["metadata"]["received_at"]
    assert row.received_at.isoformat(timespec="milliseconds") in (received.rstrip("Z"), received[:23])


@pytest.mark.exhaustive
def test_micro_batch_slower_than_the_commit_timeout_brings_no_event_twice(
    query: SubscriptionQuery, numbers: Numbers
) -> None:
    numbers.publish(range(40))

    def outlast() -> None:
        """Wait, in the first micro-batch, until its stream is over."""
        while len(query.batches) == 1 and set(numbers.subscription.owners()) != {""}:
            pass

    query.batches = Watched(outlast)
    query.run(maxEventsPerTrigger="30", batchLimit="10", commitTimeout="1 second")

    assert len(query.batches) > 1
    assert query.numbers == list(range(40))
    assert numbers.committed == 40


@pytest.mark.exhaustive
def test_missing_subscription_is_created_and_found_again_with_all_its_event_types(
    spark: SparkSession, http: httpx2.Client, tmp_path: Path
) -> None:
    numbers = Numbers(http, event_types=2)
    numbers.publish(range(10))
    names = [each.name for each in numbers.event_types]
    query = query_of(spark, numbers, tmp_path)
    del query.options["subscription"]
    query.options |= {"owningApplication": "lake", "eventType": ",".join(names), "consumerGroup": "x"}

    query.run()
    numbers.publish(range(10, 25), event_type=1)
    query.run()

    assert query.numbers == list(range(25))
    assert {row[0] for _, rows in query.batches for row in rows} == set(names)
    found = http.get("/subscriptions", params={"owning_application": "lake", "event_type": names[0]}).json()["items"]
    assert [each["consumer_group"] for each in found] == ["x"]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("short_lease")
def test_running_stream_waits_for_a_server_that_restarts_and_fails_without_its_subscription(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = threading.Semaphore(0)
    with live_hub(f"sqlite:///{tmp_path}/hub.db", options=STRICT) as hub, client_of(hub) as http:
        numbers = Numbers(http)
        query = query_of(spark, numbers, tmp_path)
        query.batches = Watched(lambda: rows.release(len(query.batches[-1][1])))
        running = query.start()
        try:
            numbers.publish(range(10))
            await_rows(rows, 10)
            hub.kill()
            hub.start()
            numbers.publish(range(10, 17))
            await_rows(rows, 7)
            assert query.numbers == list(range(17))
            numbers.subscription.drop()
            gone = f'Subscription with id "{numbers.subscription.id}" does not'
            with pytest.raises(StreamingQueryException, match=gone):
                running.awaitTermination(300)
        finally:
            running.stop()


def await_rows(rows: threading.Semaphore, count: int) -> None:
    for _ in range(count):
        assert rows.acquire(timeout=300), "rows are missing"


@pytest.mark.exhaustive
def test_query_waits_for_a_free_slot_of_its_subscription(query: SubscriptionQuery, numbers: Numbers) -> None:
    numbers.publish(range(10))
    leaving = numbers.subscription.stream([0, 1], batch_flush_timeout=1, commit_timeout=1)
    leaving.__enter__()
    threading.Timer(1.0, leaving.__exit__, [None, None, None]).start()

    query.run()

    assert query.numbers == list(range(10))


@pytest.mark.exhaustive
@pytest.mark.timeout(600)  # Two drivers start, on a machine that may be busy.
def test_killed_driver_brings_each_event_once(spark: SparkSession, numbers: Numbers, tmp_path: Path) -> None:
    numbers.publish(range(100))
    landing, lake, held = tmp_path / "landing", tmp_path / "lake", tmp_path / "held"
    options = numbers.options | {
        "landingLocation": str(landing), "maxEventsPerTrigger": "30", "batchLimit": "7", "commitTimeout": "2 seconds",
    }  # fmt: skip
    given = [str(lake), str(tmp_path / "checkpoint"), str(held)]

    def kill_when(is_reached: Callable[[], bool]) -> None:
        with ModuleDriver(
            "tests.spark.landing", "subscription", json.dumps(options), *given, folder=tmp_path
        ) as driver:
            wait_for(lambda: is_reached() or not driver.is_running)
            assert driver.is_running, driver.output[-3_000:]

    # The second page is landed, and Spark may not know of it yet. (A kill while it notes its first makes it give up.)
    kill_when(lambda: len(list(landing.glob("*/*/*.arrow"))) > 1)
    numbers.publish(range(100, 120))
    held.touch()
    kill_when(Path(f"{held}.reached").exists)  # Landed and logged, and under way.
    held.unlink()
    land_subscription(spark, json.dumps(options), *given)

    kept = [json.loads(row.data)["n"] for row in spark.read.parquet(str(lake)).collect()]
    assert sorted(kept) == list(range(120))
    assert numbers.committed == 120
    assert len(list(landing.glob("*/*"))) <= 3, "pages that dead drivers have landed are deleted"
