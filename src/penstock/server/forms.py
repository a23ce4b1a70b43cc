"""The forms in which a page can be sent: lines of v1, lines of v2, Arrow."""

from collections.abc import Iterator
from itertools import compress
from typing import Any, Final, Protocol

import msgspec

from penstock.core.events.event import derived_headers
from penstock.hub.hub import Hub
from penstock.hub.read import ColumnChunk, Reading, Track
from penstock.hub.rows import Rows
from penstock.schema.json_text import decode
from penstock.storage.store import NONE, Frame
from penstock.wire import arrow, feedapi, zeroeventhub
from penstock.wire.query import HeaderChoice

SIFTED_BYTES: Final = 1 << 20
"""A sifted Arrow page ends after about so much: it is held whole, since its cursor stands in a header."""
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


class Form(Protocol):
    """Turns a page into bytes, chunk by chunk; run in a worker thread."""

    media_type: str

    def pieces(self, hub: Hub, reading: Reading) -> Iterator[bytes]:
        """Read the page to its end and return its bytes, each piece no larger than a chunk."""

    def gathers(self, reading: Reading) -> bool:
        """Tell whether the page has to be known to its end before its headers are sent; it is short then."""


class LineForm:
    """NDJSON: the lines of ZeroEventHub v1 or FeedAPI v2."""

    media_type = zeroeventhub.NDJSON

    def __init__(self, *, version: int, headers: HeaderChoice | None) -> None:
        self._v1 = version == 1
        self._headers = headers

    def pieces(self, hub: Hub, reading: Reading) -> Iterator[bytes]:
        """See `Form.pieces`. A filtered read tells its progress after each chunk."""
        for track in reading.tracks:
            if self._headers is not None or track.view.slices > 1:
                yield from self._by_column(hub, reading, track)
            else:
                yield from self._by_line(hub, reading, track)
            yield self._checkpoint(track)

    def gathers(self, reading: Reading) -> bool:  # noqa: ARG002 - lines tell their cursors themselves
        """See `Form.gathers`."""
        return False

    def _by_line(self, hub: Hub, reading: Reading, track: Track) -> Iterator[bytes]:
        frame = Frame(*(zeroeventhub.line_frame(track.view.partition) if self._v1 else feedapi.LINE_FRAME))
        while chunk := hub.next_lines(reading, track, frame):
            if chunk.body:
                yield chunk.body
            if reading.sifted:
                yield self._checkpoint(track)

    def _by_column(self, hub: Hub, reading: Reading, track: Track) -> Iterator[bytes]:
        while chunk := hub.next_columns(reading, track):
            lines = list(self._lines(reading, track, chunk))
            track.advance(chunk.range, len(lines))
            yield b"".join(lines)
            if reading.sifted:
                yield self._checkpoint(track)

    def _lines(self, reading: Reading, track: Track, chunk: ColumnChunk) -> Iterator[bytes]:
        rows = Rows(chunk)
        for key, kind, own, data in compress(rows.tuples(), rows.kept(reading, track)):
            headers = self._headers.of(all_headers(reading.feed.name, key, kind, own, data)) if self._headers else {}
            if self._v1:
                yield zeroeventhub.event_line(track.view.partition, headers, data)
            else:
                yield feedapi.event_line(headers, data)

    def _checkpoint(self, track: Track) -> bytes:
        if self._v1:
            return zeroeventhub.checkpoint_line(track.view.partition, track.cursor)
        return feedapi.checkpoint_line(track.cursor)


class ArrowForm:
    """An Arrow IPC stream: a batch for every chunk."""

    media_type = arrow.MEDIA_TYPE

    def __init__(self, headers: HeaderChoice | None) -> None:
        self._headers = headers

    def pieces(self, hub: Hub, reading: Reading) -> Iterator[bytes]:
        """See `Form.pieces`."""
        stream, size = arrow.Stream(), 0
        for parts in self._batches(hub, reading, stream):
            yield from parts
            size += sum(map(len, parts))
            if reading.sifted and size > SIFTED_BYTES:
                break
        yield from stream.end()

    def gathers(self, reading: Reading) -> bool:
        """See `Form.gathers`: where events are left out, the cursor after the page cannot be told from its rows."""
        return reading.sifted

    def _batches(self, hub: Hub, reading: Reading, stream: arrow.Stream) -> Iterator[list[arrow.Part]]:
        for track in reading.tracks:
            while chunk := hub.next_columns(reading, track):
                kept = Rows(chunk).kept(reading, track) if reading.sifted else None
                track.advance(chunk.range, chunk.columns.rows if kept is None else sum(kept))
                headers = self._joined_headers(reading, chunk) if self._headers else chunk.columns.headers
                columns = chunk.columns._replace(headers=headers)
                yield stream.add(arrow.record_batch(track.view.partition, chunk.range.start, columns, NONE, kept))

    def _joined_headers(self, reading: Reading, chunk: ColumnChunk) -> bytes:
        assert self._headers is not None
        choice, name = self._headers, reading.feed.name
        found = (choice.of(all_headers(name, *row)) for row in Rows(chunk).tuples())
        return b"\n".join([msgspec.json.encode(headers) if headers else NONE for headers in found])


def all_headers(
    event_type: str, key: bytes | None, kind: bytes | None, own: bytes | None, data: bytes
) -> dict[str, str]:
    """Return an event's headers: those derived from it, and its own, which win."""
    event: dict[str, Any] = decode(data)
    derived = derived_headers(
        event, event_type=event_type, kind=kind.decode() if kind else None, key=None if key is None else key.decode()
    )
    return derived | _decode_headers(own) if own else derived
