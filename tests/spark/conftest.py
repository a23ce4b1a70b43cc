"""A Spark session and a hub for all tests here, and for each test an event type of its own."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

import penstock.spark
from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.testing.live_hub import LiveHub, live_hub
from tests.jars import JarsMissing
from tests.kafka import broker, connector, kafka
from tests.spark.cluster import Cluster, build_wheel, slim_python, standalone
from tests.spark.forked_python import forked_python
from tests.spark.message_db import message_databases, message_db_url
from tests.spark.queries import Query
from tests.spark.recording import CustomerFeed, RecordingHandler
from tests.spark.republishing import EVENTS, Republished

__all__ = ["broker", "kafka", "message_databases", "message_db_url"]

STREAMS: Final = {
    # By default Spark starts fifty processes `readlink` for each stream whose checkpoint is in a directory.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager",
    # By default it looks for new events a hundred times a second.
    "spark.sql.streaming.pollingDelay": "50ms",
}

_numbers = itertools.count()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        jars = connector()
    except JarsMissing:  # Who needs it, says so.
        jars = ""
    with forked_python() as python, pytest.MonkeyPatch.context() as patch:
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            patch.setenv(name, str(python))
        session = penstock.spark.session("tests", master="local[2]", config={"spark.jars": jars, **STREAMS})
        yield session
        session.stop()


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/penstock.db") as running:
        yield running


@pytest.fixture(scope="package")
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as connected:
        yield connected


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose Pythons do not have Penstock."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(slim_python(folder), build_wheel(folder), folder) as running:
        yield running


@pytest.fixture
def event_type(client: Client) -> str:
    """An event type with two partitions, without events."""
    name = f"order.placed-{next(_numbers)}"
    client.create_event_type(name, partition_count=2, partition_strategy="user_defined")
    return name


@pytest.fixture
def options(hub: LiveHub, event_type: str) -> dict[str, str]:
    return {"url": hub.url, "eventType": event_type}


@pytest.fixture
def publish(client: Client, event_type: str) -> Callable[[range], None]:
    """Publishes events that are numbers: the even ones in partition 0, the odd ones in partition 1."""

    def publishing(numbers: range) -> None:
        client.publish(event_type, (NewEvent(b'{"n": %d}' % number, partition=number % 2) for number in numbers))

    return publishing


@pytest.fixture
def query(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> Query:
    return Query(spark, options, tmp_path)


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub that a test may kill."""
    with live_hub(f"sqlite:///{tmp_path}/penstock.db") as running:
        yield running


@pytest.fixture
def republished(
    spark: SparkSession, client: Client, options: dict[str, str], publish: Any, tmp_path: Path
) -> Republished:
    """A stream from a feed of numbers to another one."""
    target = f"{options['eventType']}.again"
    client.create_event_type(target, partition_count=4)
    publish(range(EVENTS))
    return Republished(spark, client, options, target, tmp_path)


@pytest.fixture
def feed(hub: LiveHub, client: Client, event_type: str, tmp_path: Path) -> CustomerFeed:
    """A feed of numbers for ten customers, in four partitions."""
    handler = RecordingHandler(tmp_path / "handled")
    return CustomerFeed(hub.url, client, event_type, handler, tmp_path).create("taken", partitions=4)
