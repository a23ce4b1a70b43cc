"""Event types to be consumed, and what a subscription of theirs has still to do."""

import threading
import uuid
from collections import defaultdict
from typing import Any

from penstock.client import Client

EVENTS = 200


def filled(client: Client, partitions: int = 4, events: int = EVENTS) -> str:
    """Create an event type with so many events, numbered from 0, whose keys lie in all of its partitions."""
    name = f"order.{uuid.uuid4().hex}"
    client.create_event_type(name, partition_count=partitions, partition_strategy="hash", partition_key_fields=["key"])
    put(client, name, range(events))
    return name


def put(client: Client, name: str, numbers: Any) -> None:
    """Publish events of these numbers."""
    client.publish(name, [{"key": f"key-{number % 20}", "n": number} for number in numbers])


def definition(name: str, **members: Any) -> dict[str, Any]:
    """Return what to subscribe to that nobody has subscribed to, from its beginning on."""
    traits = {"owning_application": "shop", "event_types": [name], "consumer_group": uuid.uuid4().hex}
    return {**traits, "read_from": "begin", **members}


def subscribe(client: Client, name: str, **members: Any) -> str:
    """Create such a subscription, and return its id."""
    return client.subscriptions.create("shop", [name], consumer_group=uuid.uuid4().hex, read_from="begin", **members)[
        0
    ].id


def unconsumed(client: Client, id: str) -> int:
    """Return how many events are not committed."""
    return sum(each.unconsumed_events or 0 for each in client.subscriptions.stats(id))


class Seen:
    """What handlers were called with, from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Condition()
        self.numbers: list[int] = []
        self.by_partition: dict[int, list[int]] = defaultdict(list)

    def __call__(self, batch: Any) -> None:
        with self._guard:
            found = [event.data["n"] for event in batch.events]
            self.numbers += found
            self.by_partition[batch.partition] += found
            self._guard.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until so many different events were seen."""
        with self._guard:
            assert self._guard.wait_for(lambda: len(set(self.numbers)) >= count, 30), len(set(self.numbers))

    @property
    def is_in_order(self) -> bool:
        """Whether the events of each partition came in their order, each once."""
        return all(numbers == sorted(set(numbers)) for numbers in self.by_partition.values())
