"""Files of events, one on each line: each file is a tranche."""

import gzip
import io
import os
import sys
import threading
import zlib
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from glob import glob, has_magic
from math import ceil
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import msgspec

from penstock.errors import BadParameter, EventsLost, EventUnusable, InvalidRecord
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.event import FieldReader, Fields
from penstock.processing.parameters import check_flag, check_kind
from penstock.processing.sources.source import Closable, ReadRequest
from penstock.processing.stream_event import StreamEvent
from penstock.schema.json_text import BOM


class FileNames:
    """The files that given paths and patterns name; a file with several names is listed under one.

    That is the name without links, if there is one, else the first; it stays the same while it exists.

    Args:
        given: Paths of files, or patterns.
    """

    def __init__(self, given: Sequence[str]) -> None:
        self._given = given
        self._real: dict[str, str] = {}
        """The real paths of names."""
        self._links: set[str] = set()
        """The names that are links."""
        self._chosen: dict[str, str] = {}
        """The listed names, by real path."""
        self._turn = threading.Lock()

    def list_now(self) -> list[str]:
        """Return the names of the present files, sorted.

        Raises:
            BadParameter: a name cannot be stored in a checkpoint.
        """
        found = dict.fromkeys(each for path in self._given for each in _list_files(path))
        with self._turn:
            for name in found.keys() - self._real.keys():
                self._learn(name)
            for name in sorted(found, key=self._links.__contains__):
                real = self._real[name]
                if self._chosen.get(real) not in found:
                    self._chosen[real] = name
            return sorted({self._chosen[self._real[name]] for name in found})

    def _learn(self, name: str) -> None:
        path = Path(name)
        try:
            name.encode()
        except UnicodeEncodeError:
            allowed = "files whose names are UTF-8, since checkpoints hold them: give it another"
            raise BadParameter(parameter="path", value=ascii(name), allowed=allowed) from None
        self._real[name] = str(path.resolve())
        if self._real[name] != str(path.absolute()):
            self._links.add(name)


def is_file(path: str) -> bool:
    """Return whether a file exists; False for an invalid path, such as one that is too long."""
    try:
        return Path(path).is_file()
    except OSError:
        return False


def _list_files(path: str) -> list[str]:
    """Return the files that a path or a pattern names; a file whose name looks like a pattern is that file."""
    if is_file(path):
        return [path]
    found = glob(path, recursive=True) if has_magic(path) else []  # noqa: PTH207 - It may be absolute.
    return sorted(each for each in found if is_file(each))


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


ZstdError = zstd.ZstdError
COMPRESSED: Final = (".gz", ".zst", ".zstd")
"""The suffixes of compressed files."""
_READ_BYTES: Final = 1 << 17


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed, by its name.

    >>> is_compressed(Path("events.ndjson.gz")), is_compressed(Path("events.ndjson"))
    (True, False)
    """
    return path.suffix in COMPRESSED


def open_file(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed if it is compressed.

    Raises:
        OSError: it cannot be opened; or (while reading) it is no gzip.
        EOFError: (while reading) it is truncated.
        zstd.ZstdError: (while reading) it is no zstd.
    """
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    file = path.open("rb")
    return io.BufferedReader(_Zstd(file), _READ_BYTES) if is_compressed(path) else file


class _Zstd(io.RawIOBase):
    """The decompressed bytes of zstd frames; detects truncation."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._frame: zstd.ZstdDecompressor | None = None
        self._left = b""
        self._out = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # The type in BufferedReader.
        while not self._out:
            given = self._left or self._file.read(_READ_BYTES)
            if not given:
                if self._frame is not None:
                    raise EOFError("it ends in the middle of a frame")
                return 0
            if self._frame is None:
                self._frame = zstd.ZstdDecompressor()
            self._left = b""
            self._out = self._frame.decompress(given)
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._out))
        buffer[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


MARKED_BYTES: Final = 1024
"""The number of bytes before a place that identify its file. Stored marks depend on it."""


class LinePlace(NamedTuple):
    """The place of the beginning of a line."""

    offset: int = 0
    """In bytes; in a compressed file, of the decompressed content."""
    lines: int = 0
    """The number of lines before it."""
    mark: int | None = None
    """The checksum of the bytes before it, at most `MARKED_BYTES`; None: unknown."""

    def move_past(self, line: bytes) -> "LinePlace":
        """Return the place behind a line.

        >>> LinePlace(10, 2).move_past(b"abc")
        LinePlace(offset=13, lines=3, mark=None)
        """
        return LinePlace(self.offset + len(line), self.lines + 1)

    def behind(self, before: bytes) -> "LinePlace":
        """Return the place with the mark of the bytes right before it."""
        return self._replace(mark=compute_mark(before))

    def encode(self) -> str:
        """Return the text that checkpoints store: `1024:17#907060870`.

        >>> LinePlace(5, 1).behind(b"hello").encode(), LinePlace().behind(b"").encode()
        ('5:1#907060870', '0:0#0')
        """
        return f"{self.offset}:{self.lines}#{'' if self.mark is None else self.mark}"

    @classmethod
    def decode(cls, text: str) -> "LinePlace":
        """Read a stored text; the mark may be missing: `1024:17`.

        Raises:
            BadParameter: it is no place of a line.

        >>> LinePlace.decode("1024:17#5"), LinePlace.decode("1024:17#").mark
        (LinePlace(offset=1024, lines=17, mark=5), None)
        """
        place, _, mark = text.partition("#")
        offset, _, lines = place.partition(":")
        if not (offset.isdecimal() and lines.isdecimal() and (not mark or mark.isdecimal())):
            allowed = "OFFSET:LINES#MARK of a file, such as 1024:17#907060870; 0:0#0 is its beginning"
            raise BadParameter(parameter="position", value=text, allowed=allowed)
        return cls(int(offset), int(lines), int(mark) if mark else None)


def compute_mark(before: bytes) -> int:
    """Return the checksum of the last `MARKED_BYTES` bytes before a place.

    >>> compute_mark(b"") == 0, compute_mark(b"x" * 2_000) == compute_mark(b"x" * 1_024)
    (True, True)
    """
    return zlib.crc32(before[-MARKED_BYTES:])


BYTES_AT_ONCE: Final = 4 << 20
"""The approximate limit of bytes of one read."""
LINE_BYTES_MAX: Final = 64 << 20
_SKIP_BYTES: Final = 1 << 20
_BROKEN: Final = (EOFError, zlib.error, ZstdError, OSError)


class Line(NamedTuple):
    """A line that is neither blank nor a comment."""

    place: LinePlace
    raw: bytes
    """The line without its end."""


class FileLines(NamedTuple):
    """The lines of one read."""

    lines: Sequence[Line]
    end: LinePlace
    is_last: bool
    """True if the file ends behind these lines."""


class LineFile:
    """Reads a file by lines. Blank lines, and those that begin with `#`, are skipped.

    Args:
        path: The file's path. A file with the suffix `.gz`, `.zst` or `.zstd` is decompressed.
        follow: True if the file may grow: then a line counts once its end is there. Compressed files do not grow.
    """

    def __init__(self, path: Path, *, follow: bool) -> None:
        self._path = path
        self._is_compressed = is_compressed(path)
        self._grows = follow and not self._is_compressed
        self._file: IO[bytes] | None = None
        self._at = LinePlace()
        self._before = b""
        """The bytes before that, as many as a mark needs."""
        self._size = 0
        """Its size when it was last opened."""
        self._end: tuple[int, int] | None = None
        """The offset behind its last line, and its size then; None: not read to the end yet."""

    @property
    def is_open(self) -> bool:
        """True if the file is open."""
        return self._file is not None

    def has_more(self, place: LinePlace) -> bool:
        """Return whether there are, or may be, lines behind *place*."""
        if self._end is None or self._end[0] != place.offset:
            return True
        return self._grows and self._find_size() != self._end[1]

    def read(self, place: LinePlace, lines_max: int) -> FileLines:
        """Return the lines behind *place*.

        Raises:
            EventsLost: it is another file than that of *place*.
            InvalidRecord: a line is too long, or the file cannot be decompressed.
        """
        file, at, found = self._open(place), place, list[Line]()
        try:
            while len(found) < lines_max and at.offset - place.offset < BYTES_AT_ONCE:
                raw = self._read_line(file, at)
                if not raw:
                    self._end = at.offset, self._size
                    self.close()
                    return FileLines(found, at.behind(self._before), is_last=True)
                text = (raw if at.offset else raw.removeprefix(BOM)).strip()
                if text and not text.startswith(b"#"):
                    found.append(Line(at, text))
                is_its_end = raw == b"\n" and self._before[-1:] not in (b"", b"\n")  # Written later.
                self._at = at = LinePlace(at.offset + 1, at.lines) if is_its_end else at.move_past(raw)
                self._before = (self._before + raw)[-MARKED_BYTES:]
        except InvalidRecord:
            self.close()
            if at.offset == place.offset:
                raise
        return FileLines(found, at.behind(self._before), is_last=False)  # The lines before an invalid one come first.

    def close(self) -> None:
        """Close the file; reading opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _find_size(self) -> int | None:
        """Return the file's size; if it is gone, the last known one, or None."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return None if self._end is None else self._end[1]

    def _read_line(self, file: IO[bytes], at: LinePlace) -> bytes:
        """Return the next line; empty if there is no complete one."""
        try:
            raw = file.readline(LINE_BYTES_MAX + 1)
        except _BROKEN as error:
            raise self._make_record_error(at, f"it cannot be read on: {error}") from error
        if raw.endswith(b"\n"):
            return raw
        if len(raw) > LINE_BYTES_MAX:
            raise self._make_record_error(at, f"it is longer than {LINE_BYTES_MAX} bytes")
        return b"" if self._grows else raw

    def _open(self, place: LinePlace) -> IO[bytes]:
        if self._file is not None and self._at.offset == place.offset:
            return self._file
        self.close()
        try:
            self._file, self._at = open_file(self._path), place
            self._size = os.fstat(self._file.fileno()).st_size if not self._is_compressed else 0
        except FileNotFoundError:
            raise self._make_loss_error("it is gone") from None
        self._before = self._skip(self._file, place)
        return self._file

    def _skip(self, file: IO[bytes], place: LinePlace) -> bytes:
        """Go to *place*, behind the end of a line; return the bytes before it."""
        before, left = b"", place.offset
        if not self._is_compressed:
            left = min(left, MARKED_BYTES)
            file.seek(place.offset - left)
        try:
            while left and (some := file.read(min(left, _SKIP_BYTES))):
                before = (before + some)[-MARKED_BYTES:]
                left -= len(some)
            follows = cast(io.BufferedReader, file).peek(1)[:1]
        except _BROKEN as error:
            if place.offset:
                raise self._make_loss_error(f"it cannot be read up to byte {place.offset}: {error}") from error
            self.close()
            raise self._make_record_error(place, f"it cannot be read: {error}") from error
        if left:
            raise self._make_loss_error(f"it is shorter than {place.offset} bytes, up to where it was read")
        self._check(place, before, follows)
        return before

    def _check(self, place: LinePlace, before: bytes, follows: bytes) -> None:
        where = f"byte {place.offset}, up to where it was read"
        if place.offset and not before.endswith(b"\n") and follows not in (b"", b"\n"):
            raise self._make_loss_error(f"no line begins at {where}")
        if place.mark is not None and place.mark != compute_mark(before):
            raise self._make_loss_error(f"it is another file: it has other lines before {where}")

    def _make_loss_error(self, reason: str) -> EventsLost:
        self.close()
        return EventsLost.of("file-changed", file=str(self._path), reason=reason)

    def _make_record_error(self, at: LinePlace, reason: str) -> InvalidRecord:
        return InvalidRecord.of("invalid-line", file=str(self._path), line=at.lines + 1, reason=reason)


KIND: Final = "event"
"""The kind of events without a given kind."""
_TEXTS: Final = ((str, int), "a text or a whole number")
_decode: Final = msgspec.json.Decoder().decode


class LineEvents:
    """Converts lines of files to events.

    Args:
        stream: The fields whose values, with dashes between them, are the stream's name; or a function of the decoded
            line.
        kind: Likewise, for the event's kind; None: all are of the kind `make`.

    Raises:
        BadParameter: the fields are invalid.
    """

    def __init__(self, stream: Fields, kind: Fields | None) -> None:
        self._stream = FieldReader(stream, _TEXTS, "stream")
        self._kind = None if kind is None else FieldReader(kind, _TEXTS, "kind")

    def make(self, line: Line, file: str) -> StreamEvent:
        """Return the event of a line. Its index is the byte at which the line begins.

        Raises:
            InvalidRecord: the line is no JSON, or its stream or kind is missing; names the file and the line.
        """
        try:
            data = _decode(line.raw)
            stream = _read_text(self._stream, data)
            kind = KIND if self._kind is None else _read_text(self._kind, data)
        except EventUnusable as error:
            reason = str(error.reason)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = f"not valid JSON: {error}"
        except Exception as error:
            raise InvalidRecord.of(
                "invalid-line", file=file, line=line.place.lines + 1, reason=f"{type(error).__name__}: {error}"
            ) from error
        else:
            return StreamEvent(stream, line.place.offset, kind, line.raw, tranche=file, numbering=file, _data=data)
        raise InvalidRecord.of("invalid-line", file=file, line=line.place.lines + 1, reason=reason)


def _read_text(reader: FieldReader, data: Any) -> str:
    return "-".join(map(str, reader.read(data, data, 0, None)))


BATCH_EVENTS: Final = 10_000
FILES_AT_ONCE: Final = 16
"""The maximum number of files that one `read` returns events of, and that are open."""
_PATHS: Final = "paths of files or patterns, one after the other: 'in/*.ndjson', 'out/*.ndjson'"
LOOK_INTERVAL: Final = 0.05
"""Seconds between two checks whether files have grown, during a wait."""


class FileSource(Closable):
    """The events in files of JSON lines. Blank lines, and lines that begin with `#`, are skipped.

    A file is a tranche, named by its given path, and read from its beginning. A processor resumes it at its position,
    on any machine: a position includes a checksum of the kibibyte before it, which detects a replaced file. The index
    of an event is the byte at which its line begins. Events of one stream in several files have no order. New files
    that match a pattern are read, too: move them there when they are complete, unless they are followed. A file with
    several names, by links or patterns, is read once, under the name without links, else the first.

    Files with the suffix `.gz`, `.zst` or `.zstd` are decompressed. Resuming such a file reads it from its beginning,
    and positions refer to its decompressed content.

    Args:
        paths: Files, or patterns such as `in/*.ndjson` or `in/**/*.ndjson.gz`.
        stream: The stream of a line's event: the paths of fields, such as `["data.order_id"]`, or a function from the
            decoded line to the name. Values of several fields are joined with dashes.
        kind: The kind of a line's event, likewise; without it all are of the kind `make`.
        follow: True if files may grow: then a line counts once it has its end. Else each file is read to its end once,
            with or without an end of its last line.

    Raises:
        BadParameter: there is no such file, or *stream* or *kind* is invalid; or (`read`) a name is not UTF-8.
        InvalidRecord: (`read`) a line is no JSON, or its stream or kind is missing; the lines before it are read.
        EventsLost: (`read`) a file is gone, or was replaced.
    """

    is_dense = False
    is_by_stream = False
    is_replayable = True

    def __init__(
        self, *paths: str | PathLike[str], stream: Fields, kind: Fields | None = None, follow: bool = False
    ) -> None:
        if not paths:
            raise BadParameter(parameter="paths", value=(), allowed="one file, or one pattern, at least")
        check_flag("follow", follow)
        given = [_to_path(path) for path in paths]
        for path in given:
            if not (follow or has_magic(path) or is_file(path)):
                raise BadParameter(parameter="paths", value=path, allowed="a file that is there, or a pattern")
        self._names = FileNames(given)
        self._follow = follow
        self._events = LineEvents(stream, kind)
        self._files: dict[str, LineFile] = {}
        self._last = ""
        """The last file that was read: the others come first."""
        self._closed = threading.Event()
        self._turn = threading.Lock()
        """Guards the files."""

    def tranches(self) -> Collection[str]:
        """Return the present files."""
        found = self._names.list_now()
        for path in set(found) - self._files.keys():
            self._files[path] = LineFile(Path(path), follow=self._follow)
        return found

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - The same for all.
        """Return the place of a file's first line."""
        return LinePlace().behind(b"").encode()

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return new events of some of the files."""
        for turn in range(1 + ceil(timeout / LOOK_INTERVAL)):
            if turn and self._closed.wait(LOOK_INTERVAL):
                break
            with self._turn:
                if not self._closed.is_set() and (chosen := self._choose(wants)):
                    return self._read_batches(chosen, wants)
        return []

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a file again from an earlier place.

        Raises:
            EventsLost, InvalidRecord: as `read`.
        """
        file = LineFile(Path(tranche), follow=self._follow)
        try:
            return self._read_batch(file, tranche, want)
        finally:
            file.close()

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return 0 for each file that is read to its end; None for the others, whose lines are not counted."""
        return {path: self._count_behind(path, positions.get(path)) for path in self._names.list_now()}

    def close(self) -> None:
        """End, and wake the reading thread."""
        self._closed.set()
        with self._turn:
            for file in self._files.values():
                file.close()

    def _count_behind(self, path: str, position: Position | None) -> int | None:
        file = self._files.get(path)
        if file is None or position is None or file.has_more(LinePlace.decode(str(position))):
            return None
        return 0

    def _choose(self, wants: Mapping[str, ReadRequest]) -> list[str]:
        """Return the files to read next, of those that have more; close others."""
        ready = sorted(
            path for path, want in wants.items() if self._files[path].has_more(LinePlace.decode(str(want.position)))
        )
        at = bisect_right(ready, self._last)
        chosen = [*ready[at:], *ready[:at]][:FILES_AT_ONCE]
        if chosen:
            self._last = chosen[-1]
            for path, file in self._files.items():
                if file.is_open and path not in chosen:
                    file.close()
        return chosen

    def _read_batches(self, paths: Sequence[str], wants: Mapping[str, ReadRequest]) -> list[Batch]:
        found: list[Batch] = []
        for path in paths:
            try:
                found.append(self._read_batch(self._files[path], path, wants[path]))
            except (EventsLost, InvalidRecord):
                if not found:
                    raise
                self._last = found[-1].tranche
                break  # Present lines come first.
        return found

    def _read_batch(self, file: LineFile, path: str, want: ReadRequest) -> Batch:
        place = LinePlace.decode(str(want.position))
        found = file.read(place, min(BATCH_EVENTS, want.events_max))
        events: list[StreamEvent] = []
        for line in found.lines:
            try:
                events.append(self._events.make(line, path))
            except InvalidRecord:
                if not events:
                    raise
                return self._read_batch(
                    file, path, want._replace(events_max=len(events))
                )  # The lines before it come first.
        size = found.end.offset - place.offset
        return Batch(path, found.end.encode(), events, is_tail=found.is_last, bytes=size)


def _to_path(given: str | PathLike[str]) -> str:
    check_kind("paths", given, str | PathLike, _PATHS)
    path = fspath(given)
    check_kind("paths", path, str, _PATHS)
    return path
