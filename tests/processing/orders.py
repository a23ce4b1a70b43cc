"""Orders of customers in a feed, each customer a stream, and a handler that keeps the events it is called with."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from penstock.client import Client

ORDERS = "order.placed"
CUSTOMERS = 10


def create_orders(client: Client, name: str = ORDERS, partitions: int = 4) -> None:
    client.create_event_type(
        name, partition_count=partitions, partition_strategy="hash", partition_key_fields=["customer"]
    )


def publish(client: Client, numbers: range, customers: int = CUSTOMERS, name: str = ORDERS) -> None:
    client.publish(name, [{"customer": f"{number % customers}", "n": number} for number in numbers])


def numbers_of(numbers: range, customers: int = CUSTOMERS) -> dict[str, list[int]]:
    """Return the numbers of each stream."""
    return {f"{ORDERS}-{key}": [n for n in numbers if n % customers == key] for key in range(customers)}


class Seen:
    """A handler that keeps the numbers of each stream, and the places of each number; broken streams fail."""

    def __init__(self, *broken: str) -> None:
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.places: dict[int, set[tuple[str, int]]] = defaultdict(set)
        self.broken = {*broken}
        self.tried = threading.Event()

    def __call__(self, stream: str, events: Sequence[Any]) -> None:
        if stream in self.broken:
            self.tried.set()
            raise ValueError("broken")
        self.numbers[stream] += [event.data["n"] for event in events]
        for event in events:
            self.places[event.data["n"]].add((event.tranche, event.index))

    @property
    def count(self) -> int:
        return sum(map(len, self.numbers.values()))

    @property
    def sorted(self) -> dict[str, list[int]]:
        """The numbers of each stream, in order, however they came."""
        return {stream: sorted(numbers) for stream, numbers in self.numbers.items()}
