"""Reads the members of an event that processing needs: its id, its parents, and its event type."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cmp_to_key, lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.core.events.encoding import describe_mismatch
from penstock.errors import BadParameter, EventUnusable
from penstock.schema.traversal import Path, key_path
from penstock.wire.log.reader.pages import FeedEvent

EID_CHARS_MAX: Final = 255
"""The hub's ids are UUIDs of 36 characters; other servers may have longer ones, and a database index takes no more."""
_decode: Final = msgspec.json.Decoder().decode
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class EventOrigin(NamedTuple):
    """The event type, or other server's feed, that events come from."""

    name: str
    """The event type's name, or that of another server's feed."""
    category: str | None
    """None: unknown."""
    definition: Mapping[str, Any]
    """As the hub shows it; empty if it is unknown."""


def to_origin(event_type: str | Mapping[str, Any]) -> EventOrigin:
    """Return the origin of events from *event_type*: its definition as `Client.event_type` returns it, or a name alone.

    Raises:
        TypeError: it is neither.

    >>> to_origin({"name": "order.placed", "category": "business"}).category
    'business'
    """
    given: Any = event_type
    if isinstance(given, str):
        return EventOrigin(given, None, {})
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return EventOrigin(given["name"], str(given.get("category")).lower(), given)
    raise TypeError(
        f"an event type is told by its definition, as Client.event_type gives it, or by name: {event_type!r}"
    )


def decode_body(event: Any) -> Any:
    """Return the event itself: the decoded JSON of an event from a feed; any other event unchanged."""
    if not isinstance(event, FeedEvent):
        return event
    return _decode(event.raw) if event.is_typed else event.data


def find_partition(event: Any) -> int:
    """Return the partition from which *event* was read; 0 if it is unknown."""
    return event.partition if isinstance(event, FeedEvent) else 0


def read_metadata(event: Any) -> Mapping[str, Any]:
    """Return the metadata of *event*; empty if it has none."""
    if isinstance(event, FeedEvent) and event.is_typed:
        return event.metadata
    whole = decode_body(event)
    found = whole.get("metadata") if isinstance(whole, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def read_eid(event: Any, index: int, event_type: str | None) -> str:
    """Return the id of *event*; a UUID in lower case, since UUIDs are case-insensitive.

    Raises:
        EventUnusable: it has no id, or an invalid one; names the event by its *index* in the batch.

    >>> read_eid({"metadata": {"eid": "0D3E36C0-0E5E-4A3B-9B4E-8F1A3F2B6C7D"}}, 0, None)
    '0d3e36c0-0e5e-4a3b-9b4e-8f1a3f2b6c7d'
    """
    eid = read_metadata(event).get("eid")
    if type(eid) is not str or not 0 < len(eid) <= EID_CHARS_MAX or "\0" in eid:
        reason = describe_mismatch(eid, f"a text of 1 to {EID_CHARS_MAX} characters")
        raise EventUnusable.of("eid-missing", **_describe_event(event, index, event_type), reason=reason)
    return normalize_eid(eid)


def read_parents(event: Any, index: int, event_type: str | None) -> tuple[str, ...]:
    """Return the ids in `metadata.parent_eids` of *event*; empty if there are none.

    Raises:
        EventUnusable: a value is no id.
    """
    parents = read_metadata(event).get("parent_eids")
    if parents is None:
        return ()
    if type(parents) is list and all(type(parent) is str for parent in parents):
        return tuple(dict.fromkeys(map(normalize_eid, parents)))
    raise make_order_error(
        event, index, event_type, f"metadata.parent_eids {describe_mismatch(parents, 'a list of ids')}"
    )


def make_order_error(event: Any, index: int | None, event_type: str | None, reason: str) -> EventUnusable:
    """Return the error that *event* cannot be put in order, with the *reason*."""
    return EventUnusable.of(
        "order-unknown", **_describe_event(event, index, event_type), eid=read_metadata(event).get("eid"), reason=reason
    )


def _describe_event(event: Any, index: int | None, event_type: str | None) -> dict[str, Any]:
    metadata = read_metadata(event)
    name = event_type if event_type is not None else metadata.get("event_type")
    said = {"of": name, "partition": find_partition(event), "eid": metadata.get("eid")}
    place = "an event" if index is None else f"event {index} of the batch"
    text = ", ".join([place, *(f"{what} {value!r}" for what, value in said.items() if value is not None)])
    return {"event_type": name, "partition": find_partition(event), "index": index, "event": text}


def normalize_eid(eid: str) -> str:
    """Return a UUID in lower case, since UUIDs are case-insensitive; any other id unchanged."""
    return eid if eid.islower() or not _UUID.fullmatch(eid) else eid.lower()


Fields = Sequence[str] | Callable[[Any], Any]
"""Paths through the whole event, such as `data.version`; or a function from an event to its value."""
Values = tuple[Any, ...]
_MISSING: Final = object()


class FieldReader:
    """Reads the values of fields out of events.

    Args:
        fields: The fields to read.
        allowed: The accepted types of values, and their name in error messages.
        parameter: The parameter that names the fields, for error messages.

    Raises:
        BadParameter: *fields* is empty.
    """

    def __init__(self, fields: Fields, allowed: tuple[tuple[type, ...], str], parameter: str) -> None:
        if not callable(fields) and not _are_paths(fields):
            right = "a list of paths such as 'data.version', or a function from an event to its value"
            raise BadParameter(parameter=parameter, value=fields or None, allowed=right)
        self._types, self._right = allowed
        self._call: Callable[[Any], Any] | None = fields if callable(fields) else None
        self._paths: list[tuple[str, Path]] = [] if callable(fields) else [(field, key_path(field)) for field in fields]

    def read(self, event: Any, whole: Any, index: int, event_type: str | None) -> Values:
        """Return the values of *event*, whose `decode_body` is *whole*, one for each field.

        Raises:
            EventUnusable: a value is missing or of another type; names the event and the field.
        """
        if self._call is not None:
            value = self._call(event)
            given = value if isinstance(value, tuple) else (value,)
            named = [("the function's value", each) for each in given]
        else:
            named = [(field, _follow_path(whole, path)) for field, path in self._paths]
        for field, value in named:
            if type(value) not in self._types:
                wrong = describe_mismatch(None if value is _MISSING else value, self._right)
                raise make_order_error(event, index, event_type, f"{field} {wrong}")
        return tuple([value for _, value in named])


def unwrap(values: Values) -> Any:
    """Return the value itself if there is one field, else the tuple of all values.

    >>> unwrap((7,)), unwrap(("de", 7))
    (7, ('de', 7))
    """
    return values[0] if len(values) == 1 else values


def wrap(value: Any) -> Values:
    """Return the values from which `unwrap` made *value*.

    >>> wrap(7), wrap(("de", 7)), wrap(["de", 7])
    ((7,), ('de', 7), ('de', 7))
    """
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _are_paths(fields: Any) -> bool:
    is_list = isinstance(fields, Sequence) and not isinstance(fields, str | bytes)
    return is_list and bool(fields) and all(isinstance(field, str) and field for field in fields)


def _follow_path(whole: Any, path: Path) -> Any:
    for step in path:
        if type(whole) is not dict or step not in whole:
            return _MISSING
        whole = whole[step]
    return whole


E = TypeVar("E")

_KEY: Final = ((int, float, str), "a number or a text")
_EXACT_MAX: Final = 2**53
"""Above it, JSON libraries may read different numbers with a point or an exponent as the same float."""
_RIGHT: Final = (
    "right would be all numbers, all digits, all times with a zone (2026-01-01T12:00:00Z), or all other texts"
)
_MOMENT: Final = re.compile(
    r"""
    (?P<year>\d{4}) (?P<dash>-?) (?P<month>\d\d) (?P=dash) (?P<day>\d\d) [Tt\ ]
    (?P<hour>[01]\d|2[0-3]) (?P<colon>:?) (?P<minute>[0-5]\d)
    (?: (?P=colon) (?P<second>[0-5]\d|60) (?:[.,](?P<fraction>\d+))? )?
    \ ? (?: [Zz] | (?P<sign>[+-]) (?P<hours>[01]\d|2[0-3]) (?: :?(?P<minutes>[0-5]\d) )? )
    """,
    re.ASCII | re.VERBOSE,
)


class Ordering:
    """The order of an event type's events.

    Args:
        fields: The fields of the ordering key, the most significant first.
        event_type: The event type's name, for errors.
    """

    def __init__(self, fields: Fields, event_type: str | None = None) -> None:
        self._reader = FieldReader(fields, _KEY, "order_by")
        self._event_type = event_type

    def read_key(self, event: Any, whole: Any, index: int) -> Values:
        """Return the ordering key of *event*, whose `decode_body` is *whole*.

        Raises:
            EventUnusable: it is missing, neither number nor text, or a number that is not exact.
        """
        key = self._reader.read(event, whole, index, self._event_type)
        for value in key:
            if type(value) is float and not abs(value) < _EXACT_MAX:  # NaN, too, is not less than anything.
                reason = f"{value!r} is not told exactly; a whole number without point or exponent would be"
                raise make_order_error(event, index, self._event_type, reason)
        return key

    def compare(self, event: Any, index: int | None, key: Values, other: Values) -> int:
        """Return whether *key*, that of *event*, is earlier than (-1), equal to (0) or later than (1) *other*.

        Raises:
            EventUnusable: they cannot be compared: their values differ in kind or number.
        """
        if len(key) != len(other):
            wrong = f"they have {len(key)} and {len(other)} values; right are equally many"
            raise self._make_error(event, index, key, other, wrong)
        for mine, its in zip(key, other, strict=True):
            found = compare(mine, its)
            if found is None:
                wrong = f"{mine!r} is {_classify(mine)[0]}, {its!r} {_classify(its)[0]}; {_RIGHT}"
                raise self._make_error(event, index, key, other, wrong)
            if found:
                return found
        return 0

    def _make_error(self, event: Any, index: int | None, key: Values, other: Values, wrong: str) -> EventUnusable:
        reason = f"its ordering key {list(key)!r} cannot be compared with {list(other)!r}: {wrong}"
        return make_order_error(event, index, self._event_type, reason)

    def sort(self, events: Iterable[tuple[int, E]]) -> list[E]:
        """Return *events*, with their places in the batch, sorted by ordering key; equal ones keep their order.

        Raises:
            EventUnusable: as `read_key` and `compare`.
        """
        keyed = [(self.read_key(event, decode_body(event), index), index, event) for index, event in events]

        def order(one: tuple[Values, int, E], other: tuple[Values, int, E]) -> int:
            return self.compare(one[2], one[1], one[0], other[0])

        return [event for _, _, event in sorted(keyed, key=cmp_to_key(order))]


def compare(one: Any, other: Any) -> int | None:
    """Compare two values: return -1, 0 or 1 if *one* is earlier, equal or later; None if their kinds differ.

    There are four kinds, and in each one order of all its values: numbers; texts of digits alone, which are compared as
    the numbers that they are; times with a zone, as the moments that they are; and all other texts, letter by letter,
    by code points. Between kinds there is no order: with any, "10", "1a" and "9" would each come before the next.

    A time is read as ISO 8601 writes it: with T, t or a space before the hour, with or without seconds and their
    fraction, and with Z, z, +02, +0200 or +02:00 for the zone.

    >>> compare(9, 10), compare("9", "10"), compare("a9", "a10"), compare("9", "a10")
    (-1, -1, 1, None)
    >>> compare("2024-05-01T10:00:00.5Z", "2024-05-01T10:00Z")
    1
    >>> compare("2024-05-01T10:00:00+0200", "2024-05-01T08:00:00Z")
    0
    """
    (kind, mine), (its_kind, its) = _classify(one), _classify(other)
    return int(mine > its) - int(mine < its) if kind == its_kind else None


def _classify(value: Any) -> tuple[str, Any]:
    """Return the kind of *value*, and its sort key within that kind."""
    if not isinstance(value, str):
        is_number = isinstance(value, int | float | Decimal)
        return "a number" if is_number else f"a {type(value).__name__}", value  # What a consumer keeps can be anything.
    if value.isascii() and value.isdecimal():
        plain = value.lstrip("0")
        return "digits", (len(plain), plain)
    if moment := _parse_moment(value):
        return "a time with a zone", moment
    return "another text", value


@lru_cache(maxsize=4_096)
def _parse_moment(text: str) -> tuple[int, int, str] | None:
    """Return the minute that a time is in, the second of it, and the digits of its fraction; None if *text* is no time.

    Zones are whole minutes off, so that each leap second, the 60th, stays a second of its own.
    """
    if not (found := _MOMENT.fullmatch(text)):
        return None
    part = found.groupdict(default="0")
    try:
        days = date(int(part["year"]), int(part["month"]), int(part["day"])).toordinal()
    except ValueError:
        return None
    east = int(part["hours"]) * 60 + int(part["minutes"])
    minute = days * 1_440 + int(part["hour"]) * 60 + int(part["minute"])
    minute += east if part["sign"] == "-" else -east
    return minute, int(part["second"]), part["fraction"].rstrip("0")
