"""Rows fall in the partitions that the hub would choose."""

import json
from typing import Any

import pytest

from penstock.core.events.event import NewEvent
from penstock.core.log.acceptance import Partitioner
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import InvalidRecord
from penstock.spark.routing import Routing, routing_of
from tests.failing import has_code
from tests.unit.hub.feeds import a_feed

COUNT = 12


def routing(**told: Any) -> Routing:
    return routing_of("a", {"category": "business", "partition_strategy": "hash", **told})


@pytest.mark.parametrize(
    ("category", "fields", "event"),
    [
        ("business", ["order.id"], {"order": {"id": "\u6771\u4eac"}}),
        ("business", ["'a.b'", "c"], {"a.b": 7, "c": 1e10}),
        ("data", ["id"], {"data_type": "a", "data_op": "C", "data": {"id": 3.5}}),
        ("undefined", ["id"], {"id": None}),
    ],
)
def test_a_hashed_event_falls_where_the_hub_places_it(category: str, fields: list[str], event: Any) -> None:
    feed: StoredFeed = a_feed(COUNT, category=category, partition_strategy="hash", partition_key_fields=fields)
    new = NewEvent.of(json.dumps(event).encode())
    placed, _ = Partitioner(feed.event_type).place(None, new, event, 1)

    assert routing(category=category, partition_key_fields=fields)(new, COUNT) == placed


def test_a_key_takes_the_place_of_the_fields() -> None:
    by_key = NewEvent.of(b"{}", key="order-1")
    by_header = NewEvent.of(b"{}", headers={"ce_partitionkey": "order-1"})

    assert routing(partition_key_fields=["id"])(by_key, COUNT) == 10
    assert routing(partition_key_fields=["id"])(by_header, COUNT) == 10


def test_events_of_strategy_random_are_spread_by_their_content() -> None:
    free = routing(partition_strategy="random")
    events = [NewEvent.of(b'{"n":%d}' % number) for number in range(1_000)]
    found = [free(event, 4) for event in events]

    assert found == [free(event, 4) for event in events]
    assert all(200 < found.count(partition) < 300 for partition in range(4))


@pytest.mark.parametrize(
    "event",
    [
        NewEvent.of(b"{}", partition=7),
        NewEvent.of(b'{"metadata":{"partition":"7"}}'),
        NewEvent.of(b'{"metadata":{"partition":3}}', partition=7),
    ],
)
def test_an_event_may_say_where_it_goes(event: NewEvent) -> None:
    assert routing(partition_strategy="user_defined")(event, COUNT) == 7


@pytest.mark.parametrize(
    ("strategy", "data", "said"),
    [
        ("hash", b"{}", "partition key field 'id' is missing"),
        ("hash", b"[1]", "an event is a JSON object"),
        ("hash", b"{", "it is not JSON"),
        ("user_defined", b"{}", "it names no partition"),
        ("user_defined", b'{"metadata":{"partition":"x"}}', "it names no partition"),
    ],
)
def test_an_event_that_falls_nowhere_is_refused(strategy: str, data: bytes, said: str) -> None:
    with pytest.raises(InvalidRecord, check=has_code("invalid-row"), match=said):
        routing(partition_strategy=strategy, partition_key_fields=["id"])(NewEvent.of(data), COUNT)
