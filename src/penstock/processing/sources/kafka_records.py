"""Events from records of Kafka: from raw records, StreamSpans, and summaries."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from penstock.core.events.event import stream_name
from penstock.errors import InvalidRecord
from penstock.processing.sources.feed_position import encode_tranche
from penstock.processing.sources.spans import events_in_span
from penstock.processing.stream_event import StreamEvent

Layout: TypeAlias = Literal["raw", "stream-span", "summary"]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
_SHOWN_CHARS: Final = 200
_encode: Final = msgspec.json.encode


class RecordEvents:
    """Converts records to events.

    Args:
        layout: The format of a record.
        is_hashed: True if records of one key are always in the same partition.
    """

    def __init__(self, layout: Layout, *, is_hashed: bool) -> None:
        self._layout = layout
        self._is_hashed = is_hashed

    def make(self, record: Any) -> list[StreamEvent]:
        """Return the events of a record, as `confluent_kafka.Message`. With spans, a record without a value has none.

        Raises:
            InvalidRecord: it is not the StreamSpan or summary of the layout; names the record.
        """
        name, partition, offset = record.topic(), record.partition(), record.offset()
        headers = {
            name: value.decode(errors="replace") for name, value in record.headers() or () if value is not None
        } | {"kafka-topic": name, "kafka-partition": str(partition), "kafka-offset": str(offset)}
        tranche, received, value = encode_tranche(name, partition), _received(record), record.value()
        if self._layout == "raw":
            key = None if record.key() is None else record.key().decode(errors="replace")
            stream = stream_name(name, partition, key, is_hashed=self._is_hashed)
            kind, raw = headers.get("ce_type", name), b"null" if value is None else value
            return [StreamEvent(stream, offset, kind, raw, key, _text(headers), tranche, received, tranche)]
        if value is None:  # A deletion mark, which has no event.
            return []
        try:
            found = events_in_span(value)
        except ValueError as error:
            shown, reason = value.decode(errors="backslashreplace")[:_SHOWN_CHARS], f"{error} ({tranche}, {offset})"
            raise InvalidRecord.of("invalid-row", event_type=name, reason=reason, row=shown) from None
        return [
            StreamEvent(
                each.stream, each.index, each.kind, each.data, each.stream.partition("-")[2] or None,
                _text(each.headers | headers), tranche, received,
            )
            for each in found
        ]  # fmt: skip


def _text(headers: Mapping[str, str]) -> str:
    return _encode(headers).decode()


def _received(record: Any) -> int | None:
    """Return when a record was written, in microseconds since 1970; None: unknown."""
    kind, milliseconds = record.timestamp()
    return milliseconds * 1000 if kind else None
