from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from pyspark.sql import SparkSession

from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import client_of
from tests.spark.subscriptions import STRICT, Numbers, SubscriptionQuery, offset_of


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
    return SubscriptionQuery(spark, numbers.options | {"landingLocation": f"{tmp_path}/landing"}, tmp_path)


def test_each_event_is_read_once_run_after_run(query: SubscriptionQuery, numbers: Numbers) -> None:
    numbers.publish(range(100))
    progress = query.run(maxEventsPerTrigger="30", batchLimit="7")
    assert all(each["numInputRows"] <= 30 for each in progress)
    assert numbers.committed == 100

    numbers.publish(range(100, 130))
    progress = query.run()
    query.run()

    assert query.numbers == list(range(130))
    assert numbers.committed == 130
    assert offset_of(progress[0])["cursors"] == {
        numbers.event_types[0].name: {"0": "001-0001-000000000000000064", "1": "001-0001-000000000000000064"}
    }
