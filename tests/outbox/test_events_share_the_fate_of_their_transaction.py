"""An event is in the outbox if and only if the service's own transaction commits, on every kind of connection."""

import contextlib
import json
import sqlite3
from contextlib import closing
from typing import Any

import pydantic
import pytest

from penstock.errors import EventTypeNotFound, InvalidEvent
from penstock.outbox import create, publish, publish_many
from tests.outbox.kinds import Service, fetch, path_of


class Regret(Exception):
    """The error of a service that rolls its transaction back."""


def test_committed_event_is_in_the_outbox(service: Service) -> None:
    event = '{"order_id": 7,  "price":1.50, "city":"Zürich \\u0000 \'%s\' :name $1"}'

    service.transact(
        lambda connection: publish(
            connection, "undefined", event, key="ключ", headers={"ce_type": "order.placed"}, partition=3
        )
    )

    columns = 'event_type, data, key, headers, "partition"'
    assert service.outbox(columns) == [("undefined", event, "ключ", '{"ce_type":"order.placed"}', 3)]


def test_key_headers_and_partition_are_null_unless_given(plain_service: Service) -> None:
    service = plain_service
    service.transact(lambda connection: publish(connection, "undefined", {"order_id": 7}))

    [(data, *others, created_at)] = service.outbox('data, key, headers, "partition", created_at')
    assert (data, others) == ('{"order_id":7}', [None, None, None])
    assert created_at is not None


def test_rolled_back_event_is_not_in_the_outbox(service: Service) -> None:
    def work(connection: Any) -> Any:
        done = publish(connection, "undefined", {"order_id": 7})
        if done is None:
            raise Regret
        return regret(done)

    async def regret(done: Any) -> None:
        await done
        raise Regret

    with pytest.raises(Regret):
        service.transact(work)

    assert service.outbox() == []


def test_many_events_keep_their_order(plain_service: Service) -> None:
    service = plain_service
    orders = [{"order_id": number, "fill": "x" * 50} for number in range(10_001)]
    service.transact(lambda connection: publish_many(connection, "undefined", []))

    service.transact(
        lambda connection: publish_many(
            connection, "undefined", iter(orders), key=lambda order: f"order {order['order_id']}"
        )
    )

    rows = service.outbox("data, key")
    assert [json.loads(data) for data, _ in rows] == orders
    assert [key for _, key in rows] == [f"order {number}" for number in range(10_001)]


class Order(pydantic.BaseModel):
    order_id: int


@pytest.mark.parametrize(
    "event",
    [{"order_id": 1}, b'{"order_id":1}', '{"order_id":1}', Order(order_id=1)],
    ids=lambda event: type(event).__name__,
)
def test_one_event_is_not_taken_for_many(sqlite_hub: str, event: Any) -> None:
    with closing(sqlite3.connect(path_of(sqlite_hub))) as connection:
        with pytest.raises(TypeError, match="this is one event: use publish, or give a list"):
            publish_many(connection, "undefined", event)
        publish_many(connection, "undefined", [event])

        assert connection.execute("SELECT data FROM penstock_outbox").fetchall() == [('{"order_id":1}',)]


def test_one_bad_event_keeps_all_out(service: Service) -> None:
    events = [b'{"order_id":1}', b'{"order_id":2', b'{"order_id":3}']

    def work(connection: Any) -> Any:
        with contextlib.suppress(InvalidEvent):
            return publish_many(connection, "undefined", events)
        return publish(connection, "undefined", b'{"order_id":4}')

    service.transact(work)

    assert service.outbox() == [("undefined", '{"order_id":4}')]


def test_an_unknown_event_type_is_refused_with_the_way_to_create_it(plain_service: Service) -> None:
    with pytest.raises(EventTypeNotFound, match="penstock event-type create"):
        plain_service.transact(lambda connection: publish(connection, "order.placed", {"order_id": 7}))

    assert plain_service.outbox() == []


def test_business_and_data_events_get_an_id_and_a_time(plain_service: Service) -> None:
    def work(connection: Any) -> Any:
        change = b'{"data_type":"order","data_op":"C","data":{}}'
        done = [publish(connection, "business", b'{"n":1.0}'), publish(connection, "data", change)]
        return None if done == [None, None] else in_turn(done)

    async def in_turn(done: list[Any]) -> None:
        for each in done:
            await each

    plain_service.transact(work)

    events = [json.loads(data) for _, data in plain_service.outbox()]
    assert [set(event["metadata"]) for event in events] == [{"eid", "occurred_at"}] * 2
    assert events[0]["metadata"]["eid"] != events[1]["metadata"]["eid"]


def test_the_outbox_is_created_within_the_transaction_and_found_when_it_is_there(bare_service: Service) -> None:
    bare_service.transact(create)
    bare_service.transact(create)

    assert fetch(bare_service.url, "SELECT count(*) FROM penstock_outbox") == [(0,)]
