"""A subscription of a hub that does as Nakadi does, and streams of Spark's that read it."""

import json

import httpx2

from penstock.wire.log.nakadi import parse_offset
from tests.nakadi import Nakadi
from tests.spark.queries import Query
from tests.subscribing import numbered, put, subscribe

STRICT = ("--nakadi-strict",)


class Numbers:
    """A subscription of event types of two partitions each, whose events are numbers."""

    def __init__(self, http: httpx2.Client, *, event_types: int = 1) -> None:
        self.event_types = [numbered(Nakadi(http), 2) for _ in range(event_types)]
        self.subscription = subscribe(*self.event_types)

    @property
    def options(self) -> dict[str, str]:
        return {"url": str(self.subscription.http.base_url).rstrip("/"), "subscription": self.subscription.id}

    def publish(self, numbers: range, event_type: int = 0) -> None:
        """Publish numbers: the even ones to partition 0, the odd ones to partition 1."""
        for partition in (0, 1):
            if found := [number for number in numbers if number % 2 == partition]:
                put(self.event_types[event_type], *found, partition=partition)

    @property
    def committed(self) -> int:
        """How many events are committed, in all partitions."""
        return sum(parse_offset(offset)[1] + 1 for offset in self.subscription.cursors().values())


class SubscriptionQuery(Query):
    """A stream of a subscription; run after run from one checkpoint."""

    format = "nakadi"
    place = ("event_type", "partition", "cursor", "place", "data")

    @property
    def numbers(self) -> list[int]:
        """What was read, repeats included."""
        return sorted(json.loads(row[-1])["n"] for _, rows in self.batches for row in rows)
