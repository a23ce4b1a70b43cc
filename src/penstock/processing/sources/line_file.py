"""The lines of one file, from any place on."""

import io
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

from penstock.errors import EventsLost, InvalidRecord
from penstock.processing.sources.decompressed import ZstdError, is_compressed, open_file
from penstock.processing.sources.line_place import MARKED_BYTES, LinePlace, mark_of
from penstock.schema.json_text import BOM

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
