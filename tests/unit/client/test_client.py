from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec
import pydantic
import pytest

from penstock.client import AsyncClient, AsyncFeed, Feed
from penstock.client.client import Client
from penstock.client.event_types import PartitionOffsets
from penstock.client.publishing import Published
from penstock.core.event import NewEvent
from penstock.errors import BadParameter, EventTypeExists
from penstock.wire.groups import ConsumerGroup, NewPosition, PositionReset
from tests.unit.client.handler import Handlers, json, lines


class Struct(msgspec.Struct):
    a: int


@dataclass
class Iterable:
    """One event, although one can iterate over it."""

    a: int

    def __iter__(self) -> Iterator[int]:
        return iter([self.a])


OFFSETS = [
    {
        "partition": "0",
        "oldest_available_offset": "001-0001-000000000000000000",
        "newest_available_offset": "001-0001-000000000000000041",
    }
]


def test_event_types_are_created_shown_and_deleted() -> None:
    handlers = Handlers(json({}, 201), json([{"name": "a"}]), json({"name": "a"}), json(OFFSETS), json({}))
    hub = Client("http://s", http=handlers.client())

    hub.create_event_type("a", partition_count=4)
    assert hub.event_types() == [{"name": "a"}]
    assert hub.event_type("a") == {"name": "a"}
    assert hub.partitions("a") == [PartitionOffsets(0, 1, 0, 41)]
    hub.delete_event_type("a")

    assert msgspec.json.decode(handlers.requests[0].content) == {
        "name": "a",
        "owning_application": "",
        "category": "undefined",
        "enrichment_strategies": [],
        "schema": {"type": "json_schema", "schema": "{}"},
        "partition_count": 4,
    }
    assert [request.method for request in handlers.requests] == ["POST", "GET", "GET", "GET", "DELETE"]


COMPATIBILITY = {
    "compatible": True,
    "compatibility_mode": "forward",
    "validated_against_version": "1.0.0",
    "version": "1.1.0",
    "producers": True,
    "consumers": True,
}


def test_event_types_are_changed() -> None:
    handlers = Handlers(json({}), json({}, 204), json(COMPATIBILITY), json({}, 204))
    hub = Client("http://s", http=handlers.client())

    hub.replace_event_type({"name": "a", "category": "business"})
    hub.grow_partitions("a", 8)
    assert hub.check_compatibility("a", {"type": "object"}).version == "1.1.0"
    hub.check_definition({"name": "a", "category": "business"})

    assert handlers.requests[3].content == handlers.requests[0].content
    assert msgspec.json.decode(handlers.requests[0].content) == {
        "name": "a",
        "category": "business",
        "owning_application": "",
        "enrichment_strategies": ["metadata_enrichment"],
        "schema": {"type": "json_schema", "schema": "{}"},
    }
    assert handlers.requests[2].content == b'{"schema":"{\\"type\\":\\"object\\"}"}'
    assert [request.method for request in handlers.requests] == ["PUT", "PUT", "POST", "POST"]


GROUP: Any = {"name": "g", "kind": "spark", "event_types": ["a"], "gap": 7, "lag_seconds": 0.5}
PAGE: Any = {"items": [], "_links": {}}


def test_consumer_groups_are_listed_shown_committed_reset_and_forgotten() -> None:
    answers = [PAGE | {"items": [GROUP]}, GROUP | {"positions": []}, PAGE, PAGE | {"dry_run": True}, PAGE]
    handlers = Handlers(*map(json, answers), json({}, 204))
    hub = Client("http://s", http=handlers.client())

    assert hub.consumer_groups("a", kind="spark") == [ConsumerGroup(**GROUP)]
    assert hub.consumer_group("g").positions == []
    assert hub.commit_positions("g", [NewPosition("a", 0, 7)], kind="spark") == []
    assert hub.reset_positions("g", [PositionReset("a", to="end")], reason="why", dry_run=True) == []
    assert hub.group_history("g", limit=1) == []
    hub.forget_group("g")

    assert [request.method for request in handlers.requests] == ["GET", "GET", "POST", "PATCH", "GET", "DELETE"]


def test_publishing_takes_one_event_or_many() -> None:
    handlers = Handlers(json({"category": "undefined"}), json({"count": 1, "cursors": {"0": "c"}}))
    hub = Client("http://s", http=handlers.client())

    one = {"a": 1}
    for events in (one, b'{"a":1}', NewEvent.of(b'{"a":1}'), [one], iter([b'{"a":1}']), Struct(1), Iterable(1)):
        assert hub.publish("a", events) == Published(1, 17, {0: "c"})

    assert {request.content for request in handlers.requests[1:]} == {b'{"data":{"a":1}}\n'}


def test_a_feed_can_have_a_type() -> None:
    event = ('{"partition":0,"data":{"a":1}}', '{"partition":0,"cursor":"c"}')
    hub = Client("http://s", http=Handlers(lines(*event)).client())

    [read] = hub.feed("a", partition_count=1, type=Struct).read({0: "_first"}).events

    assert read.data == Struct(1)


def test_a_feed_is_seen_as_it_is_or_with_a_count_of_the_readers_own() -> None:
    discovery = json({"token": "1-2", "partitions": [{"id": "0"}, {"id": "1"}]})
    handlers = Handlers(discovery, lines(), lines())
    hub = Client("http://s/", http=handlers.client())

    hub.feed("order.placed").read({0: "x", 1: "y"})
    hub.feed("order.placed", partition_count=4).read({3: "z"})

    assert handlers.urls == [
        "http://s/feeds/order.placed",
        "http://s/feeds/order.placed?n=2&cursor0=x&cursor1=y",
        "http://s/feeds/order.placed?n=4&cursor3=z",
    ]


def test_errors_come_back_as_what_they_were() -> None:
    body = {"type": "urn:penstock:problem:event-type-exists", "detail": "there is one", "event_type": "a"}
    problem = httpx2.Response(409, json=body, headers={"content-type": "application/problem+json"})

    with Client("http://s", http=Handlers(lambda _: problem).client()) as hub, pytest.raises(EventTypeExists) as caught:
        hub.create_event_type("a")

    assert caught.value.fields == {"event_type": "a"}


@pytest.mark.parametrize("made", [Client, AsyncClient, Feed, AsyncFeed])
def test_an_address_without_a_scheme_is_refused_at_once(made: Any) -> None:
    with pytest.raises(BadParameter, match=r"parameter url is 'localhost:1'; allowed: .* such as http://localhost:1"):
        made("localhost:1")
    with pytest.raises(BadParameter):
        made("localhost:1", http=object())


class Order(pydantic.BaseModel):
    order_id: int


def test_a_model_that_can_be_iterated_over_is_one_event() -> None:
    handlers = Handlers(json({"category": "undefined"}), json({"count": 1, "cursors": {"0": "c"}}))

    Client("http://s", http=handlers.client()).publish("a", Order(order_id=7))

    assert handlers.requests[1].content == b'{"data":{"order_id":7}}\n'


def test_a_client_can_have_its_own_base_address() -> None:
    handlers = Handlers(json([]))
    http = httpx2.Client(transport=httpx2.MockTransport(handlers), base_url="http://s/hub")

    Client("", http=http).event_types()

    assert handlers.urls == ["http://s/hub/event-types"]
