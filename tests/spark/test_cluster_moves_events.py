"""What a cluster reads and writes with nothing but the wheel that the driver brings."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.testing.live_hub import LiveHub
from tests.spark.cluster import WORKERS, Cluster
from tests.spark.events import numbers_in

EVENTS = 5000
PARTITIONS = 4
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def counted(hub: LiveHub) -> Iterator[str]:
    with Client(hub.url) as client:
        client.create_event_type("counted", partition_count=PARTITIONS, partition_strategy="user_defined")
        client.publish("counted", (NewEvent(b'{"n": %d}' % n, partition=n % PARTITIONS) for n in range(EVENTS)))
        yield "counted"


def test_cluster_reads_every_event_once(hub: LiveHub, cluster: Cluster, counted: str, tmp_path: Path) -> None:
    with cluster.driver("read", tmp_path, url=hub.url, event_type=counted) as driver:
        rows = driver.result()

    partitions, offsets, data, directories, origins = zip(*rows, strict=True)
    assert sorted(json.loads(event)["n"] for event in data) == list(range(EVENTS))
    assert len(set(zip(partitions, offsets, strict=True))) == EVENTS
    assert len(set(directories)) == WORKERS  # Each executor has one of its own.
    assert all(cluster.wheel.name in origin for origin in origins)


def test_streams_of_a_cluster_move_every_event_once(
    hub: LiveHub, client: Client, cluster: Cluster, counted: str, tmp_path: Path
) -> None:
    copies = [f"{counted}.{name}" for name in ("published", "forwarded")]
    for name in copies:
        client.create_event_type(name, partition_count=PARTITIONS)

    given = {"url": hub.url, "event_type": counted, "copies": copies, "lake": str(tmp_path / "lake")}
    with cluster.driver("move", tmp_path, **given) as driver:
        moved = driver.result()

    assert moved == dict.fromkeys(["lake", "published", "forwarded", "exported", "in the lake"], EVENTS)
    for name in copies:
        assert numbers_in(client, name) == Counter(range(EVENTS))
