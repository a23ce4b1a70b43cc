import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import httpx2
import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.spark.conftest import Query

Send = Callable[[str, Sequence[int]], None]
BATCH = 300


@pytest.fixture
def compacted(client: Client) -> str:
    client.create_event_type("customer.state", category="business", cleanup_policy="compact")
    return "customer.state"


@pytest.fixture
def send(hub: LiveHub, compacted: str) -> Send:
    """Publishes events that are numbers, or marks them as deleted."""
    ids = count()

    def sending(what: str, numbers: Sequence[int]) -> None:
        events = [
            {
                "n": number,
                "metadata": {
                    "eid": f"00000000-0000-4000-8000-{next(ids):012}",
                    "occurred_at": "2026-11-20T10:00:00Z",
                    "partition_compaction_key": str(number),
                },
            }
            for number in numbers
        ]
        assert httpx2.post(f"{hub.url}/event-types/{compacted}/{what}", json=events).status_code == 200

    return sending


def test_a_batch_and_a_stream_read_around_them(
    spark: SparkSession, hub: LiveHub, compacted: str, send: Send, tmp_path: Path
) -> None:
    options = {"url": hub.url, "eventType": compacted}
    send("events", range(BATCH))
    send("deleted-events", range(0, BATCH, 2))
    query = Query(spark, options, tmp_path)
    query.run(maxEventsPerTrigger="100")
    send("deleted-events", range(BATCH))
    send("events", [BATCH])
    query.run(maxEventsPerTrigger="100")

    rows = spark.read.format("penstock").options(**options).load().select("data", "offset").collect()
    read = sorted((row["offset"], json.loads(row["data"])["n"]) for row in rows)

    assert [n for _, n in read] == list(range(BATCH + 1))
    assert [offset for _, offset in query.places] == [offset for offset, _ in read]
