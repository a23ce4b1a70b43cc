"""Encodes a producer's event as JSON, and refuses values that JSON would change silently.

The JSON encoder writes null for a float that is not finite. It also rounds the offset of a time zone to minutes; local
mean times, and zones before standard time was introduced, have seconds.
"""

import marshal
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import InvalidEvent
from penstock.schema.json_text import DEPTH_MAX
from penstock.schema.pydantic_models import dump_model, dump_python, is_pydantic

TIMES: Final = (datetime, time)
"""Types that `msgspec.to_builtins` leaves unchanged, so that their values can be checked."""
_NULL: Final = b"null"
_CLOCK: Final = re.compile(rb":[0-5]\d:[0-5]\d")
_MINUTE: Final = timedelta(minutes=1)
_PLAIN_KEY: Final = re.compile(r"\w+")


class InexactValue(NamedTuple):
    """A value that JSON cannot represent exactly, and its place."""

    path: str
    """For example `lines[0].price`."""
    value: float | datetime | time

    @property
    def reason(self) -> str:
        """Text for the error that refuses the event."""
        if isinstance(self.value, float):
            return f"{self.path} is {self.value}, which JSON has no number for"
        advice = "convert it with .astimezone(UTC)" if isinstance(self.value, datetime) else "give it another zone"
        zone = f"its zone offset {self.value.utcoffset()} has seconds, which JSON's times cannot say"
        return f"{self.path} is {self.value.isoformat()}: {zone}; {advice}"


def may_be_inexact(raw: bytes) -> bool:
    """Return whether *raw*, freshly encoded, can stem from inexact values: it contains null, or a time with seconds."""
    return _NULL in raw or _CLOCK.search(raw) is not None


def has_inexact(value: Any, raw: bytes) -> bool:
    """Return whether *value*, made of lists, dicts and scalars, holds inexact values; *raw* is its JSON."""
    if _NULL not in raw and _is_plain(value):  # There are no times in it.
        return False
    waiting = [value]
    for each in waiting:
        kind = type(each)
        if kind is dict:
            waiting += each.values()
            if {*map(type, each)} != _TEXTS:
                waiting += each
        elif kind in _LISTS:
            waiting += each
        elif kind in _CHECKED and not _is_exact(each):
            return True
    return False


def find_inexact_values(value: Any, path: str = "") -> Iterator[InexactValue]:
    """Yield the inexact values within *value*; those of a key have the path of its member."""
    if isinstance(value, dict):
        for name, each in value.items():
            place = _member_path(path, name)
            yield from find_inexact_values(name, place)
            yield from find_inexact_values(each, place)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, each in enumerate(value):
            yield from find_inexact_values(each, f"{path}[{number}]")
    elif type(value) in _CHECKED and not _is_exact(value):
        yield InexactValue(path or "it", value)


def to_utc(value: Any) -> Any:
    """Return *value* with its inexact datetimes converted to UTC.

    Raises:
        OverflowError: in UTC a datetime is before year 1, or after 9999.
    """
    if isinstance(value, dict):
        return {to_utc(name): to_utc(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_utc(each) for each in value]
    return value.astimezone(UTC) if isinstance(value, datetime) and not _is_exact(value) else value


def _is_exact(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    offset = value.utcoffset()
    return offset is None or not offset % _MINUTE


def _member_path(path: str, name: Any) -> str:
    text = name if isinstance(name, str) else str(name)
    if not _PLAIN_KEY.fullmatch(text):
        return f"{path}[{text!r}]"
    return f"{path}.{text}" if path else text


_TEXTS: Final = {str}
_DICTS: Final = {dict}
_LISTS: Final = frozenset([list, tuple, set, frozenset])
_CHECKED: Final = frozenset([float, *TIMES])


_encode: Final = msgspec.json.encode
_encode_lines: Final = msgspec.json.Encoder().encode_lines
_encode_binary: Final = msgspec.msgpack.Encoder().encode
_NOT_FINITE: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)
"""A double of MessagePack whose exponent is all ones. Other bytes may look like it; text never does."""
_SHOWN_CHARS: Final = 80


def encode_event(event: Any) -> bytes:
    """Encode *event* as JSON: bytes and text unchanged; mappings, dataclasses, Structs and models encoded.

    Members have the names that a Struct's `rename` gives them, or pydantic's (serialization) aliases. A datetime whose
    zone offset has seconds is written in UTC.

    Raises:
        InvalidEvent: it contains a number that is not finite, or a lone surrogate; or itself, or is nested too deeply;
            or a time whose zone offset has seconds, and that cannot be converted to UTC: a time without a date, a time
            in a pydantic model, or beside raw JSON.
        TypeError: it is a class, or contains a value that has no form in JSON.

    >>> encode_event({"order_id": 1})
    b'{"order_id":1}'
    """
    if isinstance(event, bytes | bytearray | memoryview | msgspec.Raw):
        return bytes(event)
    try:
        return event.encode() if isinstance(event, str) else _encode_value(event)
    except UnicodeEncodeError:
        raise InvalidEvent(reason="a text in it holds half of a surrogate pair, which is not Unicode") from None
    except RecursionError:
        reason = f"it holds itself, or is nested too deeply: {DEPTH_MAX} levels are allowed"
        raise InvalidEvent(reason=reason) from None


def encode_together(events: Sequence[Any]) -> list[bytes] | None:
    """Return each of *events* encoded as `encode_event` does, all in one pass, which is several times as fast.

    Return None unless all are dicts of plain values that JSON represents exactly: `encode_event` finds the event at
    fault.

    >>> encode_together([{"order_id": 1}, {"order_id": 2}])
    [b'{"order_id":1}', b'{"order_id":2}']
    """
    if {*map(type, events)} != _DICTS or not _is_plain(events):
        return None
    try:
        lines = _encode_lines(events)
        if _NULL in lines and _NOT_FINITE.search(_encode_binary(events)):
            return None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    # Raw JSON within an event can hold line breaks, which the caller checks event by event.
    encoded = lines.split(b"\n")[:-1]
    return encoded if len(encoded) == len(events) and b"\r" not in lines else None


def is_one_event(value: Any) -> bool:
    """Return whether *value*, which is iterable, is a single event.

    >>> is_one_event({"order_id": 1}), is_one_event([{"order_id": 1}])
    (True, False)
    """
    single = isinstance(value, Mapping | bytes | bytearray | memoryview | msgspec.Raw | msgspec.Struct | str | type)
    return single or is_pydantic(type(value)) or is_dataclass(value)


def describe_mismatch(value: Any, right: str) -> str:
    """Return the error text for the decoded JSON *value*, which should be *right*; None means that it is missing.

    >>> describe_mismatch(True, "a UUID"), describe_mismatch(None, "a UUID")
    ('must be a UUID, not true', 'is missing; it must be a UUID')
    """
    if value is None:
        return f"is missing; it must be {right}"
    try:
        shown = _encode(value).decode()
    except (TypeError, UnicodeEncodeError):  # A Python caller can pass values that JSON has no form for.
        shown = repr(value)
    return f"must be {right}, not {shown[:_SHOWN_CHARS]}"


def _encode_value(event: Any) -> bytes:
    raw = _encode(_make_encodable(event), enc_hook=_encode_hook)
    return _encode_exactly(event, raw) if may_be_inexact(raw) else raw


def _encode_exactly(event: Any, raw: bytes) -> bytes:
    """Return *raw* if it represents *event* exactly; otherwise encode *event* with its inexact datetimes in UTC."""
    held = msgspec.to_builtins(event, builtin_types=TIMES, enc_hook=_numbers_hook)
    if not has_inexact(held, raw):
        return raw
    found = [*find_inexact_values(held)]
    lost = next((each for each in found if not isinstance(each.value, datetime)), None)
    if lost is None:
        try:
            plain = msgspec.to_builtins(_make_encodable(event), builtin_types=TIMES, enc_hook=_encode_hook)
            kept = {each.path for each in find_inexact_values(plain)}
            lost = next((each for each in found if each.path not in kept), None)  # Encoded by the model.
            if lost is None:
                return _encode(to_utc(plain))
        except (TypeError, OverflowError):  # It contains raw JSON, or its year in UTC is 0 or 10 000.
            lost = found[0]
    raise InvalidEvent(reason=lost.reason)


def _make_encodable(event: Any) -> Any:
    """Return *event* in a form for the encoder, which would write a pydantic dataclass without its aliases."""
    if is_pydantic(type(event)):
        return dump_model(event)
    if "pydantic.dataclasses" not in sys.modules or _is_plain(event):
        return event
    return _dump_dataclasses(event)


def _dump_dataclasses(value: Any) -> Any:
    """Return *value* with the pydantic dataclasses in it as plain values; the encoder asks about models itself."""
    kind = type(value)
    if is_pydantic(kind):
        return dump_model(value) if is_dataclass(kind) else value
    if isinstance(value, Mapping):
        return {name: _dump_dataclasses(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_dump_dataclasses(each) for each in value]
    if isinstance(value, msgspec.Struct):
        return _dump_fields(value, value.__struct_fields__, msgspec.structs.force_setattr)
    if is_dataclass(kind):
        return _dump_fields(value, [field.name for field in fields(kind)], object.__setattr__)
    return value


def _dump_fields(value: Any, names: Sequence[str], put: Callable[[Any, str, Any], None]) -> Any:
    """Return a copy of the Struct or dataclass *value* with the pydantic dataclasses in its fields as plain values."""
    found = copy(value)
    for name in names:
        if hasattr(value, name):
            put(found, name, _dump_dataclasses(getattr(value, name)))
    return found


def _is_plain(value: Any) -> bool:
    """Return whether *value* holds nothing but what JSON has, and bytes: marshal finds that out faster than a loop."""
    try:
        marshal.dumps(value)
    except ValueError:
        return False
    return True


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if is_pydantic(type(value)):
        return dump_model(value)
    if isinstance(value, type):
        raise TypeError(f"{value.__qualname__} is a class: publish an instance of it")
    raise TypeError(f"{type(value).__qualname__} has no form in JSON: convert it before publishing")


def _numbers_hook(value: Any) -> Any:
    """Return the part of *value* that can hold numbers and times."""
    if isinstance(value, Mapping):
        return dict(value)
    return dump_python(value) if is_pydantic(type(value)) else None
