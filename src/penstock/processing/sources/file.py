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
from penstock.processing.engine.item import Batch, Position
from penstock.processing.event import FieldReader, Fields
from penstock.processing.parameters import check_flag, check_kind
from penstock.processing.sources.source import Closable, ReadRequest
from penstock.processing.stream_event import StreamEvent
from penstock.schema.json_text import BOM


class FileNames:
    """What is there of given paths and patterns. A file that has several names in them goes by one.

    That is the one without links, if there is such, else the first; and it stays the same as long as it is there.

    Args:
        given: Paths of files, or patterns.
    """

    def __init__(self, given: Sequence[str]) -> None:
        self._given = given
        self._real: dict[str, str] = {}
        """Where names lead to."""
        self._links: set[str] = set()
        """The names that lead elsewhere."""
        self._chosen: dict[str, str] = {}
        """By where they lead to, the names that files go by."""
        self._turn = threading.Lock()

    def now(self) -> list[str]:
        """Return the names of the files that there are now, sorted.

        Raises:
            BadParameter: one cannot stand in a checkpoint.
        """
        found = dict.fromkeys(each for path in self._given for each in _files_at(path))
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
    """Tell whether a file is there; what can be no path, such as one that is too long, is none."""
    try:
        return Path(path).is_file()
    except OSError:
        return False


def _files_at(path: str) -> list[str]:
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
"""What the names of compressed files end in."""
_READ_BYTES: Final = 1 << 17


def is_compressed(path: Path) -> bool:
    """Tell by the name of a file whether it is compressed.

    >>> is_compressed(Path("events.ndjson.gz")), is_compressed(Path("events.ndjson"))
    (True, False)
    """
    return path.suffix in COMPRESSED


def open_file(path: Path) -> IO[bytes]:
    """Open a file, and have what was compressed decompressed.

    Raises:
        OSError: it cannot be opened; or, as it is read, it is no gzip.
        EOFError: (as it is read) it ends in the middle.
        zstd.ZstdError: (as it is read) it is no zstd.
    """
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    file = path.open("rb")
    return io.BufferedReader(_Zstd(file), _READ_BYTES) if is_compressed(path) else file


class _Zstd(io.RawIOBase):
    """What comes out of frames of zstd; it is noticed where they end in the middle."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._frame: zstd.ZstdDecompressor | None = None
        self._left = b""
        self._out = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # It is what a BufferedReader has.
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
"""So many bytes before a place tell whether it is still in the file in which it was. Marks that are kept hang on it."""


class LinePlace(NamedTuple):
    """Where a line begins."""

    offset: int = 0
    """In bytes; of what is compressed, in those that come out of it."""
    lines: int = 0
    """How many lines are before it."""
    mark: int | None = None
    """What the bytes right before it come to, at most `MARKED_BYTES`; None: that is not known."""

    def after(self, line: bytes) -> "LinePlace":
        """Return the place behind a line.

        >>> LinePlace(10, 2).after(b"abc")
        LinePlace(offset=13, lines=3, mark=None)
        """
        return LinePlace(self.offset + len(line), self.lines + 1)

    def behind(self, before: bytes) -> "LinePlace":
        """Return the place with the mark of the bytes right before it."""
        return self._replace(mark=mark_of(before))

    def encode(self) -> str:
        """Return the text that is kept: `1024:17#907060870`.

        >>> LinePlace(5, 1).behind(b"hello").encode(), LinePlace().behind(b"").encode()
        ('5:1#907060870', '0:0#0')
        """
        return f"{self.offset}:{self.lines}#{'' if self.mark is None else self.mark}"

    @classmethod
    def decode(cls, text: str) -> "LinePlace":
        """Read what was kept. One without a mark is taken as it is: `1024:17`.

        Raises:
            BadParameter: it is not one of ours.

        >>> LinePlace.decode("1024:17#5"), LinePlace.decode("1024:17#").mark
        (LinePlace(offset=1024, lines=17, mark=5), None)
        """
        place, _, mark = text.partition("#")
        offset, _, lines = place.partition(":")
        if not (offset.isdecimal() and lines.isdecimal() and (not mark or mark.isdecimal())):
            allowed = "OFFSET:LINES#MARK of a file, such as 1024:17#907060870; 0:0#0 is its beginning"
            raise BadParameter(parameter="position", value=text, allowed=allowed)
        return cls(int(offset), int(lines), int(mark) if mark else None)


def mark_of(before: bytes) -> int:
    """Return what the last of the bytes before a place come to.

    >>> mark_of(b"") == 0, mark_of(b"x" * 2_000) == mark_of(b"x" * 1_024)
    (True, True)
    """
    return zlib.crc32(before[-MARKED_BYTES:])


BYTES_AT_ONCE: Final = 4 << 20
"""Not much more is read at once."""
LINE_BYTES_MAX: Final = 64 << 20
_SKIP_BYTES: Final = 1 << 20
_BROKEN: Final = (EOFError, zlib.error, ZstdError, OSError)


class Line(NamedTuple):
    """A line that is neither blank nor a comment."""

    place: LinePlace
    raw: bytes
    """Without its end."""


class FileLines(NamedTuple):
    """What was read at once."""

    lines: Sequence[Line]
    end: LinePlace
    is_last: bool
    """Whether the file has nothing more behind it."""


class LineFile:
    """A file that is read by lines. Blank lines, and those that begin with `#`, are passed over.

    Args:
        path: Where it is. What ends in `.gz`, `.zst` or `.zstd` is decompressed.
        follow: Whether it may grow: a line counts when its end is there. What is compressed does not grow.
    """

    def __init__(self, path: Path, *, follow: bool) -> None:
        self._path = path
        self._is_compressed = is_compressed(path)
        self._grows = follow and not self._is_compressed
        self._file: IO[bytes] | None = None
        self._at = LinePlace()
        self._before = b""
        """What is right before that: as much as marks a place."""
        self._size = 0
        """How long it was when it was opened last."""
        self._end: tuple[int, int] | None = None
        """Behind its last line, and how long it was then; None: that was not seen yet."""

    @property
    def is_open(self) -> bool:
        """Whether it holds a file open."""
        return self._file is not None

    def has_more(self, place: LinePlace) -> bool:
        """Tell whether there is, or may be, anything behind *place*."""
        if self._end is None or self._end[0] != place.offset:
            return True
        return self._grows and self._size_now() != self._end[1]

    def read(self, place: LinePlace, lines_max: int) -> FileLines:
        """Return what follows *place*.

        Raises:
            EventsLost: it is not the file in which that place was.
            InvalidRecord: a line is too long, or the file cannot be decompressed.
        """
        file, at, found = self._opened(place), place, list[Line]()
        try:
            while len(found) < lines_max and at.offset - place.offset < BYTES_AT_ONCE:
                raw = self._line(file, at)
                if not raw:
                    self._end = at.offset, self._size
                    self.close()
                    return FileLines(found, at.behind(self._before), is_last=True)
                text = (raw if at.offset else raw.removeprefix(BOM)).strip()
                if text and not text.startswith(b"#"):
                    found.append(Line(at, text))
                is_its_end = raw == b"\n" and self._before[-1:] not in (b"", b"\n")  # Of the line before, come later.
                self._at = at = LinePlace(at.offset + 1, at.lines) if is_its_end else at.after(raw)
                self._before = (self._before + raw)[-MARKED_BYTES:]
        except InvalidRecord:
            self.close()
            if at.offset == place.offset:
                raise
        return FileLines(
            found, at.behind(self._before), is_last=False
        )  # What is before a line that is none comes first.

    def close(self) -> None:
        """Let go of the file; it is opened again when it is read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _size_now(self) -> int | None:
        """Return how long it is; what is gone grows no more."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return None if self._end is None else self._end[1]

    def _line(self, file: IO[bytes], at: LinePlace) -> bytes:
        """Return the next line; nothing where none is, or none that is whole."""
        try:
            raw = file.readline(LINE_BYTES_MAX + 1)
        except _BROKEN as error:
            raise self._invalid(at, f"it cannot be read on: {error}") from error
        if raw.endswith(b"\n"):
            return raw
        if len(raw) > LINE_BYTES_MAX:
            raise self._invalid(at, f"it is longer than {LINE_BYTES_MAX} bytes")
        return b"" if self._grows else raw

    def _opened(self, place: LinePlace) -> IO[bytes]:
        if self._file is not None and self._at.offset == place.offset:
            return self._file
        self.close()
        try:
            self._file, self._at = open_file(self._path), place
            self._size = os.fstat(self._file.fileno()).st_size if not self._is_compressed else 0
        except FileNotFoundError:
            raise self._changed("it is gone") from None
        self._before = self._skipped(self._file, place)
        return self._file

    def _skipped(self, file: IO[bytes], place: LinePlace) -> bytes:
        """Go to *place*, behind the end of a line; return what is right before it."""
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
                raise self._changed(f"it cannot be read up to byte {place.offset}: {error}") from error
            self.close()
            raise self._invalid(place, f"it cannot be read: {error}") from error
        if left:
            raise self._changed(f"it is shorter than {place.offset} bytes, up to where it was read")
        self._check(place, before, follows)
        return before

    def _check(self, place: LinePlace, before: bytes, follows: bytes) -> None:
        where = f"byte {place.offset}, up to where it was read"
        if place.offset and not before.endswith(b"\n") and follows not in (b"", b"\n"):
            raise self._changed(f"no line begins at {where}")
        if place.mark is not None and place.mark != mark_of(before):
            raise self._changed(f"it is another file: it has other lines before {where}")

    def _changed(self, reason: str) -> EventsLost:
        self.close()
        return EventsLost.of("file-changed", file=str(self._path), reason=reason)

    def _invalid(self, at: LinePlace, reason: str) -> InvalidRecord:
        return InvalidRecord.of("invalid-line", file=str(self._path), line=at.lines + 1, reason=reason)


KIND: Final = "event"
"""What happened, where nobody says it."""
_TEXTS: Final = ((str, int), "a text or a whole number")
_decode: Final = msgspec.json.Decoder().decode


class LineEvents:
    """Makes events of the lines of files.

    Args:
        stream: The fields whose values, with dashes between them, are the stream's name; or a function of the decoded
            line.
        kind: Likewise, for the event's kind; None: all are of the kind `event`.

    Raises:
        BadParameter: there are no such fields.
    """

    def __init__(self, stream: Fields, kind: Fields | None) -> None:
        self._stream = FieldReader(stream, _TEXTS, "stream")
        self._kind = None if kind is None else FieldReader(kind, _TEXTS, "kind")

    def event(self, line: Line, file: str) -> StreamEvent:
        """Return the event of a line. Its index is the byte at which the line begins.

        Raises:
            InvalidRecord: it is no JSON, or nobody can tell its stream or its kind; names the file and the line.
        """
        try:
            data = _decode(line.raw)
            stream = _text(self._stream, data)
            kind = KIND if self._kind is None else _text(self._kind, data)
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


def _text(reader: FieldReader, data: Any) -> str:
    return "-".join(map(str, reader.read(data, data, 0, None)))


BATCH_EVENTS: Final = 10_000
FILES_AT_ONCE: Final = 16
"""Of so many files one call of `read` has something, and as many are held open."""
_PATHS: Final = "paths of files or patterns, one after the other: 'in/*.ndjson', 'out/*.ndjson'"
LOOK_INTERVAL: Final = 0.05
"""How often it is looked whether files have grown, while it is waited for that."""


class FileSource(Closable):
    """The events in files of JSON lines. Blank lines, and lines that begin with `#`, are passed over.

    A file is a tranche, by its path as it was given, and read from its beginning; it is resumed where a processor has
    left it, on whichever machine, and read again where it is wanted: a position knows the kibibyte before it, so that
    another file in its place is noticed. The index of an event is the byte at which its line begins. Files stand
    beside each other: nothing says in which order events of one stream are that lie in several. Files that appear where
    a pattern is looking are read, too: move them there when they are whole, unless they are followed. A file that has
    several names, by links, or in several patterns, is read once, under the one without links, else the first.

    What ends in `.gz`, `.zst` or `.zstd` is decompressed. Such a file has to be read from its beginning each time that
    it is resumed, and positions are places in what comes out of it.

    Args:
        paths: Files, or patterns such as `in/*.ndjson` or `in/**/*.ndjson.gz`.
        stream: What stream the event of a line is in: the paths of fields, such as `["data.order_id"]`, or a function
            from the decoded line to the name. Values of several fields are put together with dashes.
        kind: What kind the event is of, likewise; without it all are of the kind `event`.
        follow: Whether files may grow. Then a line counts when it has its end; else each file is read to its end once,
            whether its last line has one or not.

    Raises:
        BadParameter: there is no such file, or *stream* or *kind* are none of these; or (`read`) a name is not UTF-8.
        InvalidRecord: (`read`) a line is no JSON, or nobody can tell its stream or its kind; what is before it is read.
        EventsLost: (`read`) a file is gone, or another stands in its place.
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
        given = [_path(path) for path in paths]
        for path in given:
            if not (follow or has_magic(path) or is_file(path)):
                raise BadParameter(parameter="paths", value=path, allowed="a file that is there, or a pattern")
        self._names = FileNames(given)
        self._follow = follow
        self._events = LineEvents(stream, kind)
        self._files: dict[str, LineFile] = {}
        self._last = ""
        """The last file of which anything was read: the others come first."""
        self._closed = threading.Event()
        self._turn = threading.Lock()
        """Whoever has it uses the files."""

    def tranches(self) -> Collection[str]:
        """Return the files that there are now."""
        found = self._names.now()
        for path in set(found) - self._files.keys():
            self._files[path] = LineFile(Path(path), follow=self._follow)
        return found

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - It is the same of all.
        """Return the place of a file's first line."""
        return LinePlace().behind(b"").encode()

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what has come of some of the files."""
        for turn in range(1 + ceil(timeout / LOOK_INTERVAL)):
            if turn and self._closed.wait(LOOK_INTERVAL):
                break
            with self._turn:
                if not self._closed.is_set() and (chosen := self._chosen(wants)):
                    return self._batches(chosen, wants)
        return []

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return what a file has from an earlier place on.

        Raises:
            EventsLost, InvalidRecord: as `read`.
        """
        file = LineFile(Path(tranche), follow=self._follow)
        try:
            return self._batch(file, tranche, want)
        finally:
            file.close()

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return 0 of each file that is read to its end; of the others nobody has counted the lines."""
        return {path: self._behind(path, positions.get(path)) for path in self._names.now()}

    def close(self) -> None:
        """End; who is reading is woken."""
        self._closed.set()
        with self._turn:
            for file in self._files.values():
                file.close()

    def _behind(self, path: str, position: Position | None) -> int | None:
        file = self._files.get(path)
        if file is None or position is None or file.has_more(LinePlace.decode(str(position))):
            return None
        return 0

    def _chosen(self, wants: Mapping[str, ReadRequest]) -> list[str]:
        """Return the files whose turn it is, of those that have more; close others."""
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

    def _batches(self, paths: Sequence[str], wants: Mapping[str, ReadRequest]) -> list[Batch]:
        found: list[Batch] = []
        for path in paths:
            try:
                found.append(self._batch(self._files[path], path, wants[path]))
            except (EventsLost, InvalidRecord):
                if not found:
                    raise
                self._last = found[-1].tranche
                break  # What there is comes first.
        return found

    def _batch(self, file: LineFile, path: str, want: ReadRequest) -> Batch:
        place = LinePlace.decode(str(want.position))
        found = file.read(place, min(BATCH_EVENTS, want.events_max))
        events: list[StreamEvent] = []
        for line in found.lines:
            try:
                events.append(self._events.event(line, path))
            except InvalidRecord:
                if not events:
                    raise
                return self._batch(file, path, want._replace(events_max=len(events)))  # What is before it comes first.
        size = found.end.offset - place.offset
        return Batch(path, found.end.encode(), events, is_tail=found.is_last, bytes=size)


def _path(given: str | PathLike[str]) -> str:
    check_kind("paths", given, str | PathLike, _PATHS)
    path = fspath(given)
    check_kind("paths", path, str, _PATHS)
    return path
