import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.testing.live_hub import LiveHub, live_hub
from tests.spark.conftest import Query


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub that a test may kill."""
    with live_hub(f"sqlite:///{tmp_path}/penstock.db") as running:
        with Client(running.url) as client:
            client.create_event_type("order.placed", partition_count=2)
        yield running


@pytest.fixture
def own_query(spark: SparkSession, own_hub: LiveHub, tmp_path: Path) -> Query:
    return Query(spark, {"url": own_hub.url, "eventType": "order.placed"}, tmp_path)


def publish(hub: LiveHub, count: int) -> None:
    with Client(hub.url) as client:
        client.publish("order.placed", ({"n": number} for number in range(count)))


def test_a_stream_waits_for_a_hub_that_restarts_and_goes_on(own_query: Query, own_hub: LiveHub) -> None:
    publish(own_hub, 10)
    running = own_query.start()
    try:
        running.processAllAvailable()
        own_hub.kill()
        own_hub.start()
        publish(own_hub, 7)
        running.processAllAvailable()
    finally:
        running.stop()

    assert len(own_query.places) == len(set(own_query.places)) == 17


def test_a_batch_whose_hub_dies_while_it_is_read_has_every_event_once(spark: SparkSession, own_hub: LiveHub) -> None:
    publish(own_hub, 150_000)
    source = spark.read.format("penstock").options(url=own_hub.url, eventType="order.placed")
    read: list[object] = []
    reading = threading.Thread(
        target=lambda: read.append(source.load().selectExpr("count(*)", "count(DISTINCT partition, offset)").first())
    )

    reading.start()
    for _ in range(3):
        own_hub.kill()
        own_hub.start()
    reading.join(300)

    assert read == [(150_000, 150_000)]


@pytest.mark.exhaustive
def test_a_stream_whose_hub_stays_away_ends_with_a_clear_error(own_query: Query, own_hub: LiveHub) -> None:
    publish(own_hub, 10)
    own_query.run()
    own_hub.stop()

    with pytest.raises(StreamingQueryException, match=r"http://127\.0\.0\.1:.* cannot be reached: .*refused"):
        own_query.run(retrySeconds="0.5")
