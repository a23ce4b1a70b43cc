"""Turns what a producer calls an event into the bytes that are published, its id and time filled in."""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from penstock.core.data_change import DataChange
from penstock.core.inexact import TIMES, has_inexact, in_utc, inexact, may_be_inexact
from penstock.core.json_text import DEPTH_MAX
from penstock.core.pydantic_model import dumped, is_pydantic, seen
from penstock.errors import InvalidEvent

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode
_NULL: Final = b"null"
_FILLED: Final = ("eid", "occurred_at")
_TOLD_CHARS: Final = 80


def document(event: Any) -> bytes:
    """Return *event* as JSON: bytes and text as they are; mappings, dataclasses, Structs and models encoded.

    Members have the names that a Struct's `rename` gives them, and pydantic's aliases (of serialization, if others are
    given for that). A datetime whose zone offset has seconds is written in UTC.

    Raises:
        InvalidEvent: it holds a number that is not finite, or half a surrogate pair, which JSON cannot say; or itself,
            or is nested too deeply; or a time whose zone offset has seconds, where it cannot be written in UTC: of a
            day without a date, in a pydantic model, beside raw JSON.
        TypeError: it is a class, or holds something that has no form in JSON.

    >>> document({"order_id": 1})
    b'{"order_id":1}'
    """
    if isinstance(event, bytes | bytearray | memoryview | msgspec.Raw):
        return bytes(event)
    try:
        return event.encode() if isinstance(event, str) else _encoded(event)
    except UnicodeEncodeError:
        raise InvalidEvent(reason="a text in it holds half of a surrogate pair, which is not Unicode") from None
    except RecursionError:
        reason = f"it holds itself, or is nested too deeply: {DEPTH_MAX} levels are allowed"
        raise InvalidEvent(reason=reason) from None


def is_one_event(value: Any) -> bool:
    """Tell whether *value*, which can be iterated over, is nevertheless a single event.

    >>> is_one_event({"order_id": 1}), is_one_event([{"order_id": 1}])
    (True, False)
    """
    single = isinstance(value, Mapping | bytes | bytearray | memoryview | msgspec.Raw | msgspec.Struct | str | type)
    return single or is_pydantic(type(value)) or is_dataclass(value)


def fill_metadata(raw: bytes, *, eid: Callable[[], UUID], occurred_at: Callable[[], datetime]) -> bytes:
    """Return the event *raw* with an id and a time where its metadata lacks them, all else byte for byte.

    What is null in the metadata, or all of it, is as if it were not there: models write null for what they do not hold.

    Raises:
        InvalidEvent: the metadata is not an object.

    >>> fill_metadata(b'{"n":1.50}', eid=lambda: UUID(int=7), occurred_at=lambda: datetime(2026, 11, 20, tzinfo=UTC))
    b'{"n":1.50,"metadata":{"eid":"00000000-0000-0000-0000-000000000007","occurred_at":"2026-11-20T00:00:00.000Z"}}'
    """
    try:
        event = _members(raw)
        given = _members(event["metadata"]) if bytes(event.get("metadata", _NULL)) != _NULL else {}
    except msgspec.DecodeError:
        raise InvalidEvent(reason="its metadata is not an object") from None
    nulls = [name for name, value in given.items() if bytes(value) == _NULL]
    if not nulls and "eid" in given and "occurred_at" in given:
        return raw
    metadata = {name: value for name, value in given.items() if name not in nulls or name in _FILLED}
    if "eid" in nulls or "eid" not in given:
        metadata["eid"] = msgspec.Raw(_encode(str(eid())))
    if "occurred_at" in nulls or "occurred_at" not in given:
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


def _encoded(event: Any) -> bytes:
    raw = _encode(event if type(event) is dict else _encodable(event), enc_hook=_plain)
    return _exact(event, raw) if may_be_inexact(raw) else raw


def _exact(event: Any, raw: bytes) -> bytes:
    """Return *raw* if it says what *event* holds; else *event* encoded with the times in UTC that it does not keep."""
    held = msgspec.to_builtins(event, builtin_types=TIMES, enc_hook=_seen)
    if not has_inexact(held, raw):
        return raw
    found = [*inexact(held)]
    lost = next((each for each in found if not isinstance(each.value, datetime)), None)
    if lost is None:
        try:
            plain = msgspec.to_builtins(_encodable(event), builtin_types=TIMES, enc_hook=_plain)
            kept = {each.path for each in inexact(plain)}
            lost = next((each for each in found if each.path not in kept), None)  # A model has written it itself.
            if lost is None:
                return _encode(in_utc(plain))
        except (TypeError, OverflowError):  # There is raw JSON in it; or UTC's year is 0, or 10 000.
            lost = found[0]
    raise InvalidEvent(reason=lost.reason)


def _encodable(event: Any) -> Any:
    """Return *event* as the encoder may have it: it would take a dataclass of pydantic's for any other."""
    if is_pydantic(type(event)):
        return dumped(event)
    if isinstance(event, DataChange) and is_pydantic(type(event.data)):
        return msgspec.structs.replace(event, data=dumped(event.data))
    return event


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if is_pydantic(type(value)):
        return dumped(value)
    if isinstance(value, type):
        raise TypeError(f"{value.__qualname__} is a class: publish an instance of it")
    raise TypeError(f"{type(value).__qualname__} has no form in JSON: convert it before publishing")


def _seen(value: Any) -> Any:
    """Return what there may be numbers and times in."""
    if isinstance(value, Mapping):
        return dict(value)
    return seen(value) if is_pydantic(type(value)) else None
