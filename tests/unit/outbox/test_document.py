"""What a service may call an event."""

import datetime as dt
import decimal
import types
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from penstock.errors import InvalidEvent
from penstock.outbox.document import document


@dataclass
class Order:
    order_id: int


class Struct(msgspec.Struct):
    order_id: int


class Model(pydantic.BaseModel):
    order_id: int


class Measured(pydantic.BaseModel):
    value: float


@pytest.mark.parametrize(
    "event",
    [
        {"order_id": 7},
        types.MappingProxyType({"order_id": 7}),
        Order(7),
        Struct(7),
        Model(order_id=7),
        '{"order_id":7}',
        b'{"order_id":7}',
        bytearray(b'{"order_id":7}'),
        memoryview(b'{"order_id":7}'),
        msgspec.Raw(b'{"order_id":7}'),
    ],
    ids=lambda event: type(event).__name__,
)
def test_every_shape_of_an_event_is_the_same_document(event: Any) -> None:
    assert document(event) == b'{"order_id":7}'


def test_bytes_and_text_are_not_touched() -> None:
    assert document('{ "a" : 1.50 }') == b'{ "a" : 1.50 }'


def test_times_ids_and_amounts_have_a_form() -> None:
    event = {
        "at": dt.datetime(2026, 11, 20, 10, tzinfo=dt.UTC),
        "id": uuid.UUID(int=7),
        "total": decimal.Decimal("19.90"),
        "orders": [Model(order_id=7), types.MappingProxyType({"order_id": 8})],
    }

    assert document(event) == (
        b'{"at":"2026-11-20T10:00:00Z","id":"00000000-0000-0000-0000-000000000007","total":"19.90",'
        b'"orders":[{"order_id":7},{"order_id":8}]}'
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_say_is_refused_and_not_lost(number: float) -> None:
    for event in ({"a": number}, {"a": [{"b": (number,)}]}, Measured(value=number)):
        with pytest.raises(InvalidEvent, match="NaN"):
            document(event)


def test_null_is_a_value() -> None:
    assert document({"a": None, "b": 1.5}) == b'{"a":null,"b":1.5}'


@pytest.mark.parametrize("event", ['{"a":"\ud800"}', {"a": "\ud800"}])
def test_half_a_surrogate_pair_is_refused(event: Any) -> None:
    with pytest.raises(InvalidEvent, match="surrogate"):
        document(event)


def test_what_has_no_form_in_json_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="object"):
        document({"a": object()})
