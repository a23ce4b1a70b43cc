"""StreamSpans and summaries: the records in which Propulsion has events of a stream go through Kafka.

    {"s": stream, "i": index of the first, "e": [{"c": kind, "t": time, "d": the event, "m": its headers}]}
    {"s": stream, "i": index, "u": [{"c": kind, "t": time, "d": the event, "m": its headers}]}

A span holds events with consecutive indices; a summary holds the newest event of a stream. The events' own bytes are
not touched.

Source: Propulsion's Kafka codec, https://github.com/jet/propulsion.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa

from penstock.core.events.event import stream_name
from penstock.errors import BadParameter
from penstock.spark.pipelines.origin import ID_HEADER, origin_of, without_origin
from penstock.spark.pipelines.records import RECORD_TYPES

Layout = Literal["stream-span", "summary"]
SPAN_EVENTS_MAX: Final = 1_000
SPAN_BYTES_MAX: Final = 900_000
"""Of the events in a span, with what stands beside them: Kafka and hubs take a megabyte, unless told otherwise."""
ORIGIN_BYTES_MAX: Final = 40_000
"""Of what says where they are from: a hub takes 64 KiB of headers."""
TIME_HEADER: Final = "ce_time"
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
    """What is sent."""

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
    """Where in an event its index in the stream is, a whole number; without that it is the event's offset."""

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
        """Yield spans: of each stream the events whose indices follow each other."""
        runs: dict[str, _Run] = {}
        for item in items:
            name, index = self._stream(item), self._index(item)
            run = runs.get(name)
            part = _part(item)
            if run is not None and not run.takes(part, index):
                yield run.record()
                run = None
            if run is None:
                runs[name] = run = _Run(name, index)
            run.add(part)
        for run in runs.values():
            yield run.record()

    def summaries(self, items: Iterable[SpanEvent]) -> Iterator[Record]:
        """Yield summaries: of each stream the newest event."""
        for name, item in {self._stream(item): item for item in items}.items():
            run = _Run(name, self._index(item), member="u")
            run.add(_part(item))
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
    """What its place and its id take of the record's headers, at most."""


@dataclass
class _Run:
    """Events of a stream that follow each other."""

    stream: str
    first: int
    member: str = "e"
    parts: list[_Part] = field(default_factory=list)
    size: int = 0
    origin_size: int = 0

    def takes(self, part: _Part, index: int) -> bool:
        return (
            index == self.first + len(self.parts)
            and part.item.partition == self.parts[0].item.partition
            and len(self.parts) < SPAN_EVENTS_MAX
            and self.size + part.size <= SPAN_BYTES_MAX
            and self.origin_size + part.origin_size <= ORIGIN_BYTES_MAX
        )

    def add(self, part: _Part) -> None:
        self.parts.append(part)
        self.size += part.size
        self.origin_size += part.origin_size

    def record(self) -> Record:
        first, events = self.parts[0].item, ",".join(part.text for part in self.parts)
        value = f'{{"s":{_text(self.stream)},"i":{self.first},"{self.member}":[{events}]}}'
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
