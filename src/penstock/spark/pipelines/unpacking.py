"""Events out of StreamSpans and summaries, the records in which Propulsion has them go through Kafka: `spans.py`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from penstock.errors import InvalidRecord
from penstock.spark.pipelines.spans import TIME_HEADER

INDEX_HEADER: Final = "stream-index"
"""The header that keeps an event's index in its stream."""
EVENTS: Final = "data binary, key string, headers map<string,string>"
"""What comes out, in Spark's words."""
_TYPES: Final = pa.schema({"data": pa.binary(), "key": pa.string(), "headers": pa.map_(pa.string(), pa.string())})
_SHOWN_CHARS: Final = 200
_encode: Final = msgspec.json.encode


class Unpacked(NamedTuple):
    """An event out of a record."""

    data: bytes
    key: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Unpacking:
    """Takes events out of records. Holds plain values: it can be sent to executors."""

    event_type: str
    """The one that they are for."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the events of batches of records, whose headers go on with each. A record without a value has none.

        Raises:
            InvalidRecord: a record is neither a StreamSpan nor a summary.
        """
        for batch in batches:
            found: list[Unpacked] = []
            values = batch.column("value").cast(pa.large_binary()).to_pylist()
            for value, headers in zip(values, batch.column("headers").to_pylist(), strict=True):
                if value is None:  # A mark of deletion, which says nothing of any event.
                    continue
                found += [each._replace(headers=each.headers | dict(headers)) for each in self._events(value, headers)]
            datas, keys, headers = zip(*found, strict=True) if found else ((), (), ())
            columns = [pa.array(datas, pa.binary()), pa.array(keys, pa.string())]
            columns.append(pa.array([list(each.items()) for each in headers], _TYPES.field("headers").type))
            yield pa.RecordBatch.from_arrays(columns, schema=_TYPES)

    def _events(self, value: bytes, headers: Any) -> list[Unpacked]:
        try:
            return unpack(value, self.event_type)
        except ValueError as error:
            place = ", ".join(f"{name} {text}" for name, text in headers)
            shown = value.decode(errors="backslashreplace")[:_SHOWN_CHARS]
            raise InvalidRecord.of(
                "invalid-row", event_type=self.event_type, reason=f"{error} ({place})", row=shown
            ) from None


class _Given(msgspec.Struct):
    c: str
    d: msgspec.Raw = msgspec.Raw(b"null")
    t: str | None = None
    m: msgspec.Raw = msgspec.Raw(b"null")


class _GivenSpan(msgspec.Struct):
    s: str
    i: int
    e: list[_Given] = []
    u: list[_Given] = []


_read: Final = msgspec.json.Decoder(_GivenSpan).decode


def unpack(value: bytes, event_type: str) -> list[Unpacked]:
    r"""Return the events of a StreamSpan or a summary, in their order; their bytes are not touched.

    An event's key is the name of its stream, or what that has behind the name of the event type that it is for: so what
    was forwarded from a feed has its old keys in a feed of the same name.

    Raises:
        ValueError: it is neither.

    >>> [event] = unpack(b'{"s": "order-7", "i": 3, "e": [{"c": "Placed", "d": {"n": 1.0}}]}', "order")
    >>> event.data, event.key, event.headers
    (b'{"n": 1.0}', '7', {'ce_type': 'Placed', 'stream-index': '3'})
    """
    try:
        span = _read(value)
        if not (span.e or span.u):
            raise ValueError("it has no events")
        key = span.s.removeprefix(f"{event_type}-")
        return [
            Unpacked(bytes(each.d), key, _headers(each, span.i + (place if span.e else 0)))
            for place, each in enumerate(span.e or span.u)
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no StreamSpan and no summary: {error}") from None


def _headers(given: _Given, index: int) -> dict[str, str]:
    own = {"ce_type": given.c, INDEX_HEADER: str(index)} | ({TIME_HEADER: given.t} if given.t else {})
    said: Any = msgspec.json.decode(given.m)
    if not isinstance(said, Mapping):
        return own if said is None else own | {"meta": bytes(given.m).decode()}
    return {name: value if isinstance(value, str) else _encode(value).decode() for name, value in said.items()} | own
