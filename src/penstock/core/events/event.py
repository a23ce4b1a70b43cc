"""Events: the rules for published events, and the headers that follow from an event.

Events of one feed that share a key form a stream, the unit of order; `stream_name` names it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from penstock.core.events.metadata import count_written_bytes
from penstock.errors import EventTooLarge, InvalidEvent, MalformedEvent
from penstock.schema.json_text import (
    CONTAINERS_MAX,
    DEPTH_MAX,
    check_containers,
    check_depth,
    decode,
    explain_malformed,
    json_type_name,
    refuse_duplicate_keys,
)


def stream_name(event_type: str, partition: int, key: str | None, *, is_hashed: bool) -> str:
    """Return the name of the stream that an event belongs to: `{event type}-{key}`.

    The name contains the partition unless the event type *is_hashed*: only then all events of a key are in one
    partition. Events without a key form one stream in each partition.

    >>> stream_name("order.placed", 3, "7", is_hashed=True)
    'order.placed-7'
    >>> stream_name("order.placed", 3, "7", is_hashed=False), stream_name("order.placed", 3, None, is_hashed=True)
    ('order.placed-3_7', 'order.placed-3_')
    """
    if is_hashed and key is not None:
        return f"{event_type}-{key}"
    return f"{event_type}-{partition}_{key or ''}"


def derive_headers(event: dict[str, Any], *, event_type: str, kind: str | None, key: str | None) -> dict[str, str]:
    """Return the `ce_*` headers that follow from an event, as CloudEvents defines them.

    >>> derive_headers({}, event_type="order.placed", kind=None, key="42")
    {'ce_type': 'order.placed', 'ce_source': '/event-types/order.placed', 'ce_partitionkey': '42'}
    """
    headers = {"ce_type": kind or event_type, "ce_source": f"/event-types/{event_type}"}
    if key is not None:
        headers["ce_partitionkey"] = key
    metadata = event.get("metadata")
    if type(metadata) is dict:
        context = metadata.get("span_ctx")
        found = {
            "ce_id": metadata.get("eid"),
            "ce_time": metadata.get("occurred_at"),
            "ce_traceparent": context.get("traceparent") if type(context) is dict else None,
        }
        headers |= {name: value for name, value in found.items() if type(value) is str}
    return headers


EVENT_BYTES_MAX: Final = 999_000
DECODED_BYTES_MAX: Final = 1 << 20
"""Larger events are refused without decoding them: they are too large even if a hub has written their metadata."""
PIECE_BYTES: Final = 512 << 10
"""Events are decoded in pieces of this size: no other thread runs while one is decoded."""
EVENTS_MAX: Final = 250_000
"""Upper bound of the events in one request: they are written in one transaction, and all other writers wait for it."""
KEY_CHARS_MAX: Final = 1_024
HEADERS_BYTES_MAX: Final = 64 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MISSING: Final = msgspec.Raw(b"")
_INTEGER_MIN: Final = -(1 << 63)
_INTEGER_MAX: Final = (1 << 63) - 1
_DIGITS: Final = bytes(ord("0") if chr(byte).isdecimal() and byte < 128 else ord(" ") for byte in range(256))
_LONG_NUMBER: Final = b"0" * len(str(_INTEGER_MAX))
"""An integer that can exceed 64 bits, after all digits are replaced by 0: far faster to search for than a pattern."""
_SPACES: Final = b" \t\r\n"

Row = tuple[str | None, str | None, str | None, bytes]
"""The log's fields of an event: key, kind (None: the event type's name), own headers as JSON (None: none), data."""


class NewEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An event to publish: its body, and the values that accompany it.

    Its members are those of a feed line, so a line is decoded straight into it, and it encodes to the shortest such
    line.
    """

    data: msgspec.Raw = _MISSING
    """The event: one JSON object, as the bytes that were received."""
    key: str | None = None
    """Replaces the texts of the partition key fields under `hash`."""
    headers: dict[str, str] | None = None
    partition: int | None = None
    """Used only under `user_defined`."""
    cursor: str | None = None
    """Set in a checkpoint line, which is not an event."""

    @classmethod
    def of(
        cls, data: bytes, *, key: str | None = None, headers: dict[str, str] | None = None, partition: int | None = None
    ) -> "NewEvent":
        """Wrap the bytes of one event."""
        return cls(data=msgspec.Raw(data), key=key, headers=headers, partition=partition)


_decode_lines: Final = msgspec.json.Decoder(float_hook=float).decode_lines
"""The decoder rounds infinite numbers silently; the comparison with the encoded text finds them. See
`penstock.schema.json_text`."""
_encode: Final = msgspec.json.Encoder().encode
_encode_lines: Final = msgspec.json.Encoder().encode_lines


def check_events(events: list[bytes], lines: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """Decode each event, or raise for the first that is not a valid event.

    An event is one JSON object in UTF-8. It has no duplicate keys: RFC 8259 leaves them open, and consumers read them
    differently. Its integers fit into signed 64 bits, as in Nakadi. `check_size` checks its size; only events that
    are too large to be decoded are refused here.

    Raises:
        MalformedEvent: names the number of the line, from *lines*, by default counted from 1.
        EventTooLarge: an event has more than 1 MiB.

    >>> check_events([b'{"a":1}', b'{"b":[true]}'])
    [{'a': 1}, {'b': [True]}]
    """
    lines = lines or range(1, len(events) + 1)
    if sum(map(len, events)) <= PIECE_BYTES:
        return _check_piece(events, lines)
    decoded: list[dict[str, Any]] = []
    for start, stop in _cut_pieces(events):
        if len(events[start]) > DECODED_BYTES_MAX:
            check_size(events[start], lines[start])
        decoded += _check_piece(events[start:stop], lines[start:stop])
    return decoded


def _cut_pieces(events: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the first index of each piece of *events*, and the one behind its last; a large event is one alone."""
    start = size = 0
    for at, raw in enumerate(events):
        if at > start and size + len(raw) > PIECE_BYTES:
            yield start, at
            start, size = at, 0
        size += len(raw)
    yield start, len(events)


def _check_piece(events: list[bytes], lines: Sequence[int]) -> list[dict[str, Any]]:
    largest = max(map(len, events), default=0)
    if largest > 2 * CONTAINERS_MAX:
        for line, raw in zip(lines, events, strict=True):
            check_containers(raw, line)
    # An event that encodes to the bytes it was decoded from, spaces aside, has not lost a duplicate key on the way.
    # Most events do, and one comparison shows it for the whole piece. Events with other spellings (escapes, other
    # forms of numbers) need the slow check.
    joined = b"\n".join(events) + b"\n"
    try:
        decoded: list[Any] = _decode_lines(joined)
        is_plain = len(decoded) == len(events) and _encode_lines(decoded) == joined
        if not is_plain:
            decoded = [decode(raw) for raw in events]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        _refuse_malformed(events, lines)
        raise
    if not is_plain or {*map(type, decoded)} - {dict} or largest > 2 * DEPTH_MAX:
        _check_one_by_one(events, decoded, lines, is_plain=is_plain)
    if _LONG_NUMBER in joined.translate(_DIGITS):
        _refuse_large_numbers(decoded, lines)
    return decoded


def _check_one_by_one(
    events: Iterable[bytes], decoded: Iterable[object], lines: Iterable[int], *, is_plain: bool
) -> None:
    for line, raw, event in zip(lines, events, decoded, strict=True):
        if type(event) is not dict:
            raise MalformedEvent(line=line, reason=f"an event is a JSON object, this is {json_type_name(event)}")
        if len(raw) > 2 * DEPTH_MAX and raw.count(b"{") + raw.count(b"[") > DEPTH_MAX:
            check_depth(raw, line)
        if not is_plain and _encode(event).translate(None, _SPACES) != raw.translate(None, _SPACES):
            refuse_duplicate_keys(raw, line)


def check_event(raw: bytes) -> bytes:
    """Return *raw* on one line; raise like `check_size` and `check_events` if it is not a valid event."""
    check_size(raw)
    check_events([raw])
    return remove_line_breaks(raw)


def check_size(raw: bytes, line: int = 1) -> None:
    """Raise EventTooLarge if *raw* has more than 999 000 bytes, not counting metadata that a hub has written.

    Therefore each event of a feed can be published to another one.
    """
    if (size := _own_size(raw)) > EVENT_BYTES_MAX:
        raise EventTooLarge(line=line, size=size, limit=EVENT_BYTES_MAX)


def _own_size(raw: bytes) -> int:
    """Return the size of *raw*, near the limit without the metadata that a hub has written."""
    return len(raw) - count_written_bytes(raw) if EVENT_BYTES_MAX < len(raw) <= DECODED_BYTES_MAX else len(raw)


def lower_kind(kind: str) -> str:
    """Return *kind* in the form in which kinds are compared: ASCII letters in lower case, as both databases compare.

    >>> lower_kind("Order.PLACED"), lower_kind("ÅPNET")
    ('order.placed', 'Åpnet')
    """
    return kind.encode().lower().decode()


def remove_line_breaks(raw: bytes) -> bytes:
    """Remove CR and LF, which valid JSON contains only between tokens, so that an event is always one line.

    Apply it to checked events only: within a token, the removal could turn an invalid event into a valid one.
    """
    if b"\n" in raw or b"\r" in raw:
        return raw.replace(b"\n", b"").replace(b"\r", b"")
    return raw


def remove_all_line_breaks(raws: list[bytes]) -> list[bytes]:
    """Apply `remove_line_breaks` to each of *raws*, and search for line ends only once."""
    joined = b"".join(raws)
    return [remove_line_breaks(raw) for raw in raws] if b"\n" in joined or b"\r" in joined else raws


def is_key(text: str) -> bool:
    """Return whether *text* is a valid key: at most 1024 characters, and no control characters."""
    if len(text) <= KEY_CHARS_MAX and text.isascii() and text.isprintable():
        return True
    return len(text) <= KEY_CHARS_MAX and not _CONTROL.search(text) and _is_unicode(text)


def check_key(key: str, line: int, code: str = InvalidEvent.code, *, where: str | None = None) -> None:
    """Raise InvalidEvent unless *key* has at most 1024 characters, none of them a control character.

    *where* is the place of the key in the event, if it was not given beside it. The error has this *code*.
    """
    if is_key(key):
        return
    reason = f"a key has no control characters and no lone surrogates, not {key[:KEY_CHARS_MAX]!r}"
    if len(key) > KEY_CHARS_MAX:
        reason = f"a key has at most {KEY_CHARS_MAX} characters, this one has {len(key)}"
    raise InvalidEvent.of(code, line=line, reason=reason if where is None else f"{where}: {reason}")


def check_kind(kind: str, line: int, where: str) -> None:
    """Raise InvalidEvent unless *kind* has 1 to 1024 characters, none of them a control character.

    *where* is the place of the kind in the event.
    """
    if kind and is_key(kind):
        return
    found = repr(kind) if len(kind) <= KEY_CHARS_MAX else f"{len(kind)}"
    reason = f"{where}: must be 1 to {KEY_CHARS_MAX} characters without control characters, not {found}"
    raise InvalidEvent(line=line, reason=reason)


def check_headers(headers: dict[str, str], line: int) -> str | None:
    """Return *headers* as one line of JSON, None if there are none; raise InvalidEvent if one is not valid."""
    for name, value in headers.items():
        if not name or _CONTROL.search(name) or not (_is_unicode(name) and _is_unicode(value)):
            raise InvalidEvent(line=line, reason=f"header {name!r}: a name is not empty and has no control characters")
    encoded = _encode(headers)
    if len(encoded) > HEADERS_BYTES_MAX:
        reason = f"its headers have {len(encoded)} bytes, more than the {HEADERS_BYTES_MAX} that they may have"
        raise InvalidEvent(line=line, reason=reason)
    return encoded.decode() if headers else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_first_large(events: Sequence[bytes]) -> int | None:
    """Return the index of the first of *events* that `check_size` refuses; None if there is none."""
    if not events or max(map(len, events)) <= EVENT_BYTES_MAX:
        return None
    return next((at for at, raw in enumerate(events) if _own_size(raw) > EVENT_BYTES_MAX), None)


def check_sizes(events: Sequence[bytes], lines: Sequence[int]) -> None:
    """Raise EventTooLarge for the first of *events* that is too large."""
    large = find_first_large(events)
    if large is not None:
        check_size(events[large], lines[large])


def _refuse_large_numbers(events: Iterable[object], lines: Iterable[int]) -> None:
    for line, event in zip(lines, events, strict=True):
        waiting = [event]
        while waiting:
            value = waiting.pop()
            if type(value) is dict:
                waiting += value.values()
            elif type(value) is list:
                waiting += value
            elif type(value) is int and not _INTEGER_MIN <= value <= _INTEGER_MAX:
                reason = f"the number {value} does not fit into 64 bits: write it as a string"
                raise MalformedEvent(line=line, reason=reason)


def _refuse_malformed(events: Iterable[bytes], lines: Iterable[int]) -> None:
    for line, raw in zip(lines, events, strict=True):
        try:
            decode(raw)
        except RecursionError:
            raise MalformedEvent(line=line, reason="the JSON is nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedEvent(line=line, reason=f"not valid JSON: {explain_malformed(raw, error)}") from None
