"""StreamSpans and summaries: Propulsion's records for events of a stream in Kafka.

`penstock.processing.sources.spans` describes and reads them. The bytes of the events stay unchanged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa

from penstock.core.events.event import stream_name
from penstock.errors import BadParameter, InvalidRecord
from penstock.processing.sources.spans import TIME_HEADER, events_in_span
from penstock.spark.pipelines.records import ID_HEADER, RECORD_TYPES, origin_of, without_origin

Layout = Literal["stream-span", "summary"]
SPAN_EVENTS_MAX: Final = 1_000
SPAN_BYTES_MAX: Final = 900_000
"""Maximum size of the events in a span, with their metadata: Kafka and hubs take a megabyte, unless told otherwise."""
ORIGIN_BYTES_MAX: Final = 40_000
"""Of what says where they are from: a hub takes 64 KiB of headers."""
_encode: Final = msgspec.json.encode
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_number: Final = msgspec.json.Decoder(int).decode


class SpanEvent(NamedTuple):
    """An event on its way into a record."""

    event_type: str
    partition: int
    offset: int
    key: str | None
    headers: dict[str, str]
    data: str
    received_at: datetime
    kind: str


class Record(NamedTuple):
    """A record to send."""

    event_type: str
    partition: int
    key: str
    value: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Spans:
    """Makes records of events. Holds plain values: it can be sent to executors."""

    layout: Layout
    hashed: frozenset[str]
    """The event types in which a key always falls in the same partition."""
    index: tuple[str, ...] = ()
    """Where in an event its index in the stream is, a whole number; without that indices are made of offsets."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of batches of events, each partition's in its order.

        Raises:
            BadParameter: an event has no index.
        """
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in SpanEvent._fields]
            items = [SpanEvent(*row)._replace(headers=dict(row[4] or ())) for row in zip(*columns, strict=True)]
            records = list(self.spans(items) if self.layout == "stream-span" else self.summaries(items))
            values = zip(*records, strict=True) if records else ((),) * len(RECORD_TYPES)
            yield pa.RecordBatch.from_arrays(
                [_array(column, kind) for column, kind in zip(values, RECORD_TYPES.types, strict=True)],
                schema=RECORD_TYPES,
            )

    def spans(self, items: Iterable[SpanEvent]) -> Iterator[Record]:
        """Yield spans: of each stream the events that follow each other.

        Where events say their indices, a gap ends a span. Offsets of a stream always have gaps, so a span ends with the
        offset of its last event, and those before it have the indices right below. They are unique and grow. Whatever a
        consumer has handled ends at the offset of an event, and later events have indices above: also where events are
        sent again in other spans, none is taken for a repeat that is none.
        """
        runs: dict[str, _Run] = {}
        for item in items:
            name, index = self._stream(item), self._index(item)
            run = runs.get(name)
            part = _part(item)
            if run is not None and not run.takes(part, index, has_gaps=not self.index):
                yield run.record()
                run = None
            if run is None:
                runs[name] = run = _Run(name)
            run.add(part, index)
        for run in runs.values():
            yield run.record()

    def summaries(self, items: Iterable[SpanEvent]) -> Iterator[Record]:
        """Yield summaries: of each stream the newest event."""
        for name, item in {self._stream(item): item for item in items}.items():
            run = _Run(name, member="u")
            run.add(_part(item), self._index(item))
            yield run.record()

    def _stream(self, item: SpanEvent) -> str:
        return stream_name(item.event_type, item.partition, item.key, is_hashed=item.event_type in self.hashed)

    def _index(self, item: SpanEvent) -> int:
        if not self.index:
            return item.offset
        try:
            found = item.data.encode()
            for name in self.index:
                found = bytes(_members(found)[name])
            return _number(found)
        except (KeyError, msgspec.DecodeError):
            at, where = ".".join(self.index), f"{item.event_type} {item.partition}:{item.offset}"
            detail = (
                f"index is {at}, but the event at {where} has no whole number there; allowed: a member that all have"
            )
            raise BadParameter(detail, parameter="index", value=at, allowed="a whole number in every event") from None


class _Part(NamedTuple):
    """An event as it stands in a record."""

    item: SpanEvent
    text: str
    size: int
    """Of that, in bytes."""
    origin_size: int
    """The maximum size of its place and its id in the record's headers."""


@dataclass
class _Run:
    """Events of a stream that follow each other."""

    stream: str
    last: int = -1
    """The index of the last one."""
    member: str = "e"
    parts: list[_Part] = field(default_factory=list)
    size: int = 0
    origin_size: int = 0

    def takes(self, part: _Part, index: int, *, has_gaps: bool) -> bool:
        return (
            (index == self.last + 1 or (has_gaps and index > self.last))
            and part.item.partition == self.parts[0].item.partition
            and len(self.parts) < SPAN_EVENTS_MAX
            and self.size + part.size <= SPAN_BYTES_MAX
            and self.origin_size + part.origin_size <= ORIGIN_BYTES_MAX
        )

    def add(self, part: _Part, index: int) -> None:
        self.parts.append(part)
        self.last = index
        self.size += part.size
        self.origin_size += part.origin_size

    def record(self) -> Record:
        first, events = self.parts[0].item, ",".join(part.text for part in self.parts)
        index = self.last - len(self.parts) + 1
        value = f'{{"s":{_text(self.stream)},"i":{index},"{self.member}":[{events}]}}'
        offsets = [part.item.offset for part in self.parts]
        ids = [part.item.headers.get(ID_HEADER) for part in self.parts]
        origin = origin_of(first.event_type, first.partition, offsets, ids)
        return Record(first.event_type, first.partition, self.stream, value, origin)


def _part(item: SpanEvent) -> _Part:
    text, origin = _item(item), f"{item.offset},{_text(item.headers.get(ID_HEADER))},"
    return _Part(item, text, len(text.encode()), len(origin.encode()))


def _item(item: SpanEvent) -> str:
    time = item.headers.get(TIME_HEADER) or _time(item.received_at)
    own = without_origin(item.headers)
    more = f',"m":{_text(own)}' if own else ""
    return f'{{"c":{_text(item.kind)},"t":{_text(time)},"d":{item.data}{more}}}'


def _text(value: object) -> str:
    return _encode(value).decode()


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([list(each.items()) for each in values] if pa.types.is_map(kind) else list(values), kind)


EVENTS: Final = "data binary, key string, headers map<string,string>"
"""The resulting columns, as a schema of Spark."""
_TYPES: Final = pa.schema({"data": pa.binary(), "key": pa.string(), "headers": pa.map_(pa.string(), pa.string())})
_SHOWN_CHARS: Final = 200


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
    return [
        Unpacked(each.data, each.stream.removeprefix(f"{event_type}-"), each.headers) for each in events_in_span(value)
    ]
