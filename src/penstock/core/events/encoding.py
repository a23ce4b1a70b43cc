"""Finds values that the JSON encoder would change in silence.

It writes null for a float that is not finite, and rounds the offset of a time zone to minutes: local mean times, and
zones before standard time came, have seconds.

Turns what a producer calls an event into the bytes that are published, its id and time filled in.
"""

import marshal
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from penstock.errors import InvalidEvent
from penstock.schema.json_text import DEPTH_MAX
from penstock.schema.models import DataChange
from penstock.schema.pydantic_models import dump_model, dump_python, is_pydantic

TIMES: Final = (datetime, time)
"""Types that `msgspec.to_builtins` leaves as they are, so that their values can be checked."""
_NULL: Final = b"null"
_CLOCK: Final = re.compile(rb":[0-5]\d:[0-5]\d")
_MINUTE: Final = timedelta(minutes=1)
_PLAIN_KEY: Final = re.compile(r"\w+")


class InexactValue(NamedTuple):
    """A value that JSON would not keep, and where it is."""

    path: str
    """Such as `lines[0].price`."""
    value: float | datetime | time

    @property
    def reason(self) -> str:
        """The reason for the refusal."""
        if isinstance(self.value, float):
            return f"{self.path} is {self.value}, which JSON has no number for"
        advice = "convert it with .astimezone(UTC)" if isinstance(self.value, datetime) else "give it another zone"
        zone = f"its zone offset {self.value.utcoffset()} has seconds, which JSON's times cannot say"
        return f"{self.path} is {self.value.isoformat()}: {zone}; {advice}"


def may_be_inexact(raw: bytes) -> bool:
    """Return whether *raw*, which was just encoded, may have been made of such values: it has null, or a time."""
    return _NULL in raw or _CLOCK.search(raw) is not None


def has_inexact(value: Any, raw: bytes) -> bool:
    """Return whether there are such values in *value*, plain lists, dicts, and what these hold, whose JSON is *raw*."""
    if _NULL not in raw and _is_without_times(value):
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


def _is_without_times(value: Any) -> bool:
    # Far quicker than to look at each: marshal knows what is plain, and no times.
    try:
        marshal.dumps(value)
    except ValueError:
        return False
    return True


def inexact_values(value: Any, path: str = "") -> Iterator[InexactValue]:
    """Yield such values in *value*, likewise; those of a key stand at what it is the key of."""
    if isinstance(value, dict):
        for name, each in value.items():
            place = _member(path, name)
            yield from inexact_values(name, place)
            yield from inexact_values(each, place)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, each in enumerate(value):
            yield from inexact_values(each, f"{path}[{number}]")
    elif type(value) in _CHECKED and not _is_exact(value):
        yield InexactValue(path or "it", value)


def to_utc(value: Any) -> Any:
    """Return *value*, with such datetimes in UTC.

    Raises:
        OverflowError: one is before year 1, or after 9999, in UTC.
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


def _member(path: str, name: Any) -> str:
    text = name if isinstance(name, str) else str(name)
    if not _PLAIN_KEY.fullmatch(text):
        return f"{path}[{text!r}]"
    return f"{path}.{text}" if path else text


_TEXTS: Final = {str}
_LISTS: Final = frozenset([list, tuple, set, frozenset])
_CHECKED: Final = frozenset([float, *TIMES])


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode
_FILLED: Final = ("eid", "occurred_at")
_TOLD_CHARS: Final = 80


def encode_event(event: Any) -> bytes:
    """Return *event* as JSON: bytes and text as they are; mappings, dataclasses, Structs and models encoded.

    Members have the names that a Struct's `rename` gives them, and pydantic's aliases (of serialization, if others are
    given for that). A datetime whose zone offset has seconds is written in UTC.

    Raises:
        InvalidEvent: it holds a number that is not finite, or half a surrogate pair, which JSON cannot say; or itself,
            or is nested too deeply; or a time whose zone offset has seconds, where it cannot be written in UTC: of a
            day without a date, in a pydantic model, beside raw JSON.
        TypeError: it is a class, or holds something that has no form in JSON.

    >>> encode_event({"order_id": 1})
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


def describe_mismatch(value: Any, right: str) -> str:
    """Return what an error says of *value*, decoded JSON, which has to be *right* and is not; None: it is missing.

    >>> describe_mismatch(True, "a UUID"), describe_mismatch(None, "a UUID")
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
    found = [*inexact_values(held)]
    lost = next((each for each in found if not isinstance(each.value, datetime)), None)
    if lost is None:
        try:
            plain = msgspec.to_builtins(_encodable(event), builtin_types=TIMES, enc_hook=_plain)
            kept = {each.path for each in inexact_values(plain)}
            lost = next((each for each in found if each.path not in kept), None)  # A model has written it itself.
            if lost is None:
                return _encode(to_utc(plain))
        except (TypeError, OverflowError):  # There is raw JSON in it; or UTC's year is 0, or 10 000.
            lost = found[0]
    raise InvalidEvent(reason=lost.reason)


def _encodable(event: Any) -> Any:
    """Return *event* as the encoder may have it: it would take a dataclass of pydantic's for any other."""
    if is_pydantic(type(event)):
        return dump_model(event)
    if isinstance(event, DataChange) and is_pydantic(type(event.data)):
        return msgspec.structs.replace(event, data=dump_model(event.data))
    return event


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if is_pydantic(type(value)):
        return dump_model(value)
    if isinstance(value, type):
        raise TypeError(f"{value.__qualname__} is a class: publish an instance of it")
    raise TypeError(f"{type(value).__qualname__} has no form in JSON: convert it before publishing")


def _seen(value: Any) -> Any:
    """Return what there may be numbers and times in."""
    if isinstance(value, Mapping):
        return dict(value)
    return dump_python(value) if is_pydantic(type(value)) else None
