"""A chunk's events one by one, for those who must look at each."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, compress, pairwise, repeat
from typing import Protocol
from zlib import crc32

from penstock.core.subscriptions.delivery import Joined, Read
from penstock.hub.read import EVENTS, ColumnChunk, LineChunk, Reading, Track
from penstock.storage.store import NONE, Frame


class Reads(Protocol):
    """What reads a page chunk by chunk."""

    def next_lines(self, reading: Reading, track: Track, frame: Frame) -> LineChunk | None:
        """See `Reader.next_lines`."""

    def next_columns(self, reading: Reading, track: Track) -> ColumnChunk | None:
        """See `Reader.next_columns`."""


class Rows:
    """A chunk's rows one by one, for reads that must look at each."""

    def __init__(self, chunk: ColumnChunk) -> None:
        count, columns = chunk.columns.rows, chunk.columns
        self._start = chunk.range.start
        self._keys, self._kinds, self._headers = (
            _split(column, count) for column in (columns.keys, columns.kinds, columns.headers)
        )
        ends = accumulate(array("i", columns.sizes), initial=0)
        self._data = [columns.data[start:end] for start, end in pairwise(ends)]
        self._runs = columns.received

    def tuples(self) -> Iterator[tuple[bytes | None, bytes | None, bytes | None, bytes]]:
        """Return key, kind, own headers and data of each."""
        return zip(self._keys, self._kinds, self._headers, self._data, strict=True)

    def kept(self, reading: Reading, track: Track) -> list[bool]:
        """Tell of each row whether it belongs to the track's slice and is of a kind that the reader takes."""
        slices, own = track.view.slices, track.view.slice
        kept = [True] * len(self._data)
        if slices > 1:
            places = enumerate(self._keys, self._start)
            kept = [(offset if key is None else crc32(key)) % slices == own for offset, key in places]
        if (kinds := reading.kinds) is not None:
            default = kinds.default.lower()
            names = (default if kind is None else kind.lower().decode() for kind in self._kinds)
            kept = [keep and (name in kinds.kinds) != kinds.skip for keep, name in zip(kept, names, strict=True)]
        return kept

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each."""
        return self._keys

    @property
    def data(self) -> Sequence[bytes]:
        """The data of each."""
        return self._data

    @property
    def received(self) -> Sequence[float]:
        """When each was received, in seconds since 1970."""
        ends = [0, *map(int, self._runs.ends.split(b"\n"))]
        times = [int(each) / 1e6 for each in self._runs.times.split(b"\n")]
        runs = zip(times, pairwise(ends), strict=True)
        return list(chain.from_iterable(repeat(at, end - start) for at, (start, end) in runs))


def next_events(reads: Reads, reading: Reading, track: Track) -> Read | None:
    """Read the next chunk as events, those that are not shown left out; None at the end."""
    (physical,) = track.view.physical
    start = track.offsets[physical]
    if not reading.sifted:
        lines = reads.next_lines(reading, track, EVENTS)
        stop = track.offsets[physical]
        return Read(Joined(lines.body, lines.kept), range(start, stop), stop) if lines else None
    chunk = reads.next_columns(reading, track)
    if chunk is None:
        return None
    rows = Rows(chunk)
    kept = rows.kept(reading, track)
    return take(chunk, rows, track, kept)


def take(chunk: ColumnChunk, rows: Rows, track: Track, kept: Sequence[bool], *, timed: bool = False) -> Read:
    """Return those events of a chunk that are *kept*, and let the track go on behind it."""
    events = list(compress(rows.data, kept))
    offsets = list(compress(range(chunk.range.start, chunk.range.stop), kept))
    received = list(compress(rows.received, kept)) if timed else ()
    track.advance(chunk.range, len(events))
    return Read(events, offsets, chunk.range.stop, received)


def _split(column: bytes | None, count: int) -> list[bytes | None]:
    if column is None:
        return [None] * count
    return [None if value == NONE else value for value in column.split(b"\n")]
