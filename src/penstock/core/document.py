"""Turns what a producer calls an event into the bytes that are published, its id and time filled in."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from penstock.errors import InvalidEvent

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode
_NULL: Final = b"null"
_TOLD_CHARS: Final = 80


def document(event: Any) -> bytes:
    """Return *event* as JSON: bytes and text as they are; mappings, dataclasses, Structs and models encoded.

    Raises:
        InvalidEvent: it holds a number that is not finite, or half a surrogate pair, which JSON cannot say.
        TypeError: it holds something that has no form in JSON.

    >>> document({"order_id": 1})
    b'{"order_id":1}'
    """
    if isinstance(event, bytes | bytearray | memoryview | msgspec.Raw):
        return bytes(event)
    try:
        if isinstance(event, str):
            return event.encode()
        raw = _encode(event, enc_hook=_plain)
    except UnicodeEncodeError:
        raise InvalidEvent(reason="a text in it holds half of a surrogate pair, which is not Unicode") from None
    # The encoder writes null for what is not finite, which would lose it in silence.
    if _NULL in raw and not _is_finite(msgspec.to_builtins(event, enc_hook=_plain)):
        raise InvalidEvent(reason="it holds NaN or an infinity, which JSON cannot say")
    return raw


def is_one_event(value: Any) -> bool:
    """Tell whether *value*, which can be iterated over, is nevertheless a single event.

    >>> is_one_event({"order_id": 1}), is_one_event([{"order_id": 1}])
    (True, False)
    """
    single = isinstance(value, Mapping | bytes | bytearray | memoryview | msgspec.Raw | msgspec.Struct | str)
    return single or hasattr(value, "model_dump")


def fill_metadata(raw: bytes, *, eid: Callable[[], UUID], occurred_at: Callable[[], datetime]) -> bytes:
    """Return the event *raw* with an id and a time where its metadata lacks them, all else byte for byte.

    Raises:
        InvalidEvent: the metadata is not an object.

    >>> fill_metadata(b'{"n":1.50}', eid=lambda: UUID(int=7), occurred_at=lambda: datetime(2026, 11, 20, tzinfo=UTC))
    b'{"n":1.50,"metadata":{"eid":"00000000-0000-0000-0000-000000000007","occurred_at":"2026-11-20T00:00:00.000Z"}}'
    """
    try:
        event = _members(raw)
        metadata = _members(event["metadata"]) if "metadata" in event else {}
    except msgspec.DecodeError:
        raise InvalidEvent(reason="its metadata is not an object") from None
    lacking = [name for name in ("eid", "occurred_at") if bytes(metadata.get(name, _NULL)) == _NULL]
    if not lacking:
        return raw
    if "eid" in lacking:
        metadata["eid"] = msgspec.Raw(_encode(str(eid())))
    if "occurred_at" in lacking:
        moment = occurred_at().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        metadata["occurred_at"] = msgspec.Raw(_encode(moment))
    event["metadata"] = msgspec.Raw(_encode(metadata))
    return _encode(event)


def unlike(value: Any, right: str) -> str:
    """Return what an error says of *value*, decoded JSON, which has to be *right* and is not; None: it is missing.

    >>> unlike(True, "a UUID"), unlike(None, "a UUID")
    ('must be a UUID, not true', 'is missing; it must be a UUID')
    """
    if value is None:
        return f"is missing; it must be {right}"
    try:
        told = _encode(value).decode()
    except (TypeError, UnicodeEncodeError):  # Python can hand in what JSON cannot say.
        told = repr(value)
    return f"must be {right}, not {told[:_TOLD_CHARS]}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__qualname__} has no form in JSON: convert it before publishing")


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return True
