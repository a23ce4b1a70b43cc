"""Readers of StreamSpans and summaries, the records in which Propulsion sends events of a stream through Kafka.

    {"s": stream, "i": index of the first, "e": [{"c": kind, "t": time, "d": the event, "m": its headers}]}
    {"s": stream, "i": index, "u": [{"c": kind, "t": time, "d": the event, "m": its headers}]}

A span holds events with consecutive indices; a summary holds the newest event of a stream. `t` and `m` may be missing.
The events' own bytes are not changed.

Source: Propulsion's Kafka codec, https://github.com/jet/propulsion.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

INDEX_HEADER: Final = "stream-index"
"""The header with an event's index in its stream."""
TIME_HEADER: Final = "ce_time"
_encode: Final = msgspec.json.encode


class SpannedEvent(msgspec.Struct, frozen=True):
    """An event from a record."""

    stream: str
    index: int
    kind: str
    data: bytes
    headers: dict[str, str]
    """Its headers in the record, with its kind, its time and its index."""


class _Item(msgspec.Struct):
    c: str
    d: msgspec.Raw = msgspec.Raw(b"null")
    t: str | None = None
    m: msgspec.Raw = msgspec.Raw(b"null")


class _Span(msgspec.Struct):
    s: str
    i: int
    e: list[_Item] = []
    u: list[_Item] = []


_read: Final = msgspec.json.Decoder(_Span).decode


def events_in_span(value: bytes) -> list[SpannedEvent]:
    r"""Return the events of a StreamSpan or a summary, in their order; their bytes are not changed.

    Raises:
        ValueError: it is neither.

    >>> [event] = events_in_span(b'{"s": "order-7", "i": 3, "e": [{"c": "Placed", "d": {"n": 1.0}}]}')
    >>> event.stream, event.index, event.data, event.headers
    ('order-7', 3, b'{"n": 1.0}', {'ce_type': 'Placed', 'stream-index': '3'})
    """
    try:
        span = _read(value)
        if not (span.e or span.u):
            raise ValueError("it has no events")
        indices = [span.i + (place if span.e else 0) for place, _ in enumerate(span.e or span.u)]
        return [
            SpannedEvent(span.s, index, each.c, bytes(each.d), _headers(each, index))
            for index, each in zip(indices, span.e or span.u, strict=True)
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no StreamSpan and no summary: {error}") from None


def _headers(item: _Item, index: int) -> dict[str, str]:
    own = {"ce_type": item.c, INDEX_HEADER: str(index)} | ({TIME_HEADER: item.t} if item.t else {})
    meta: Any = msgspec.json.decode(item.m)
    if not isinstance(meta, Mapping):
        return own if meta is None else own | {"meta": bytes(item.m).decode()}
    return {name: value if isinstance(value, str) else _encode(value).decode() for name, value in meta.items()} | own
