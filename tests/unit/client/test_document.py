from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest

from penstock.client.document import document, fill_metadata
from penstock.errors import InvalidEvent


@dataclass
class Placed:
    order_id: int


class PlacedStruct(msgspec.Struct):
    order_id: int


class Model:
    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"order_id": 1, "mode": mode}


def fill(raw: bytes, moment: datetime | None = None) -> bytes:
    return fill_metadata(raw, eid=lambda: UUID(int=7), occurred_at=lambda: moment or datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("event", [Placed(1), PlacedStruct(1), MappingProxyType({"order_id": 1}), b'{"order_id":1}'])
def test_an_event_can_be_had_in_many_forms(event: Any) -> None:
    assert document(event) == b'{"order_id":1}'


def test_models_are_asked_for_what_json_can_say() -> None:
    assert document(Model()) == b'{"order_id":1,"mode":"json"}'


def test_a_null_is_no_infinity() -> None:
    assert document({"a": None, "b": [1.5, (2.0, None)]}) == b'{"a":null,"b":[1.5,[2.0,null]]}'


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"x": (-float("inf"),)}])
def test_what_is_not_finite_is_not_lost_in_silence(value: Any) -> None:
    with pytest.raises(InvalidEvent, match="NaN or an infinity"):
        document({"a": value})


def test_what_has_no_form_in_json_is_named_by_its_type() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        document({"a": object()})


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
    moment = datetime(2024, 1, 1, 2, 0, 0, 123_999, tzinfo=timezone(timedelta(hours=2)))

    assert b'"2024-01-01T00:00:00.123Z"' in fill(b"{}", moment)


@pytest.mark.parametrize("raw", [b'{"metadata":3}', b'{"metadata":null}', b'{"metadata":[]}', b"[]"])
def test_metadata_is_an_object(raw: bytes) -> None:
    with pytest.raises(InvalidEvent, match="not an object"):
        fill(raw)
