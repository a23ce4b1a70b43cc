"""Places that processors read from, held to one contract: a hub's feed, categories of a MessageDB, a topic of Kafka."""

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, Final, Protocol
from uuid import uuid4

import psycopg

from penstock.client import Client
from penstock.processing import FeedSource
from penstock.processing.sources import KafkaSource, MessagedbSource, Source

KEYS: Final = 12
"""So many streams a place has. The event *n* is in that of the key `n % KEYS`."""
TRANCHES: Final = 3


def source_of(kind: str, address: str, name: str, **options: Any) -> Source:
    """Return a source that reads a place."""
    if kind == "feed":
        return FeedSource(address, name, **options)
    if kind == "kafka":
        return KafkaSource(address, name, **options)
    return MessagedbSource(address, *(f"{name}{number}" for number in range(TRANCHES)), **options)


class Place(Protocol):
    """Somewhere events are written to."""

    kind: str
    address: str
    name: str

    def publish(self, numbers: Iterable[int]) -> None:
        """Write the events of these numbers, in this order."""

    def stream(self, key: int) -> str:
        """Return what the stream of a key is called."""


class FeedPlace:
    """A feed of a hub."""

    kind = "feed"

    def __init__(self, url: str) -> None:
        self.address, self.name = url, f"number.added-{time.monotonic_ns()}"
        with Client(url) as client:
            client.create_event_type(
                self.name, partition_count=TRANCHES, partition_strategy="hash", partition_key_fields=["k"]
            )

    def publish(self, numbers: Iterable[int]) -> None:
        with Client(self.address) as client:
            client.publish(self.name, [{"n": n, "k": str(n % KEYS)} for n in numbers])

    def stream(self, key: int) -> str:
        return f"{self.name}-{key}"


class CategoriesPlace:
    """Categories of a MessageDB."""

    kind = "messagedb"

    def __init__(self, url: str) -> None:
        self.address, self.name = url, "number"

    def publish(self, numbers: Iterable[int]) -> None:
        with psycopg.connect(self.address, options="-c search_path=message_store") as connection:
            for n in numbers:
                write(connection, self.stream(n % KEYS), {"n": n})

    def stream(self, key: int) -> str:
        return f"{self.name}{key % TRANCHES}-{key}"


def write(connection: Any, stream: str, data: object, metadata: object = None) -> None:
    """Write an event to a stream of a MessageDB."""
    given = [str(uuid4()), stream, "Added", json.dumps(data), None if metadata is None else json.dumps(metadata)]
    connection.execute("SELECT write_message(%s, %s, %s, %s, %s)", given)


class KafkaPlace:
    """A topic of Kafka."""

    kind = "kafka"

    def __init__(self, brokers: str, name: str = "") -> None:
        self.address, self.name = brokers, name or f"numbers-{time.monotonic_ns()}"
        create(brokers, self.name)

    def publish(self, numbers: Iterable[int]) -> None:
        send(self.address, self.name, ((f"{n % KEYS}", json.dumps({"n": n})) for n in numbers))

    def stream(self, key: int) -> str:
        return f"{self.name}-{key}"


def create(brokers: str, name: str, partitions: int = TRANCHES) -> None:
    """Create a topic, and wait until the broker knows it."""
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(300)
    with closing(Consumer({"bootstrap.servers": brokers, "group.id": "tests"})) as consumer:
        deadline = time.monotonic() + 300
        while consumer.list_topics(name, timeout=300).topics[name].error is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def send(
    brokers: str,
    name: str,
    records: Iterable[tuple[str | None, str | None]],
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Write records to a topic: keys and values."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 0, **(options or {})})
    for key, value in records:
        producer.produce(name, value, key, **more)
    assert producer.flush(300) == 0
