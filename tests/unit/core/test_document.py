"""What a producer may call an event, and what is filled in for it."""

import datetime as dt
import decimal
import types
import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from penstock.core.document import document, fill_metadata
from penstock.errors import InvalidEvent


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


def fill(raw: bytes, moment: dt.datetime | None = None) -> bytes:
    at = moment or dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return fill_metadata(raw, eid=lambda: uuid.UUID(int=7), occurred_at=lambda: at)


def test_complete_metadata_leaves_the_bytes_alone() -> None:
    raw = b'{"n": 1.50, "metadata" : {"occurred_at":"t", "eid":"e"} }'

    assert fill(raw) == raw


def test_what_is_missing_or_null_is_filled_in_and_all_else_stays() -> None:
    filled = fill(b'{"n":1.50,"metadata":{"eid":null,"flow_id":"\\u0041"}}')

    assert filled == (
        b'{"n":1.50,"metadata":{"eid":"00000000-0000-0000-0000-000000000007","flow_id":"\\u0041",'
        b'"occurred_at":"2024-01-01T00:00:00.000Z"}}'
    )


def test_times_are_utc_to_the_millisecond() -> None:
    moment = dt.datetime(2024, 1, 1, 2, 0, 0, 123_999, tzinfo=dt.timezone(dt.timedelta(hours=2)))

    assert b'"2024-01-01T00:00:00.123Z"' in fill(b"{}", moment)


@pytest.mark.parametrize("raw", [b'{"metadata":3}', b'{"metadata":null}', b'{"metadata":[]}', b"[]"])
def test_metadata_is_an_object(raw: bytes) -> None:
    with pytest.raises(InvalidEvent, match="not an object"):
        fill(raw)
