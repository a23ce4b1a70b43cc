"""Files of events, one on each line: each file is a tranche."""

import threading
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from glob import has_magic
from math import ceil
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from penstock.errors import BadParameter, EventsLost, InvalidRecord
from penstock.processing.engine.item import Batch, Position
from penstock.processing.fields import Fields
from penstock.processing.parameters import check_flag, check_kind
from penstock.processing.sources.closable import Closable
from penstock.processing.sources.file_names import FileNames, is_file
from penstock.processing.sources.line_events import LineEvents
from penstock.processing.sources.line_file import LineFile
from penstock.processing.sources.line_place import LinePlace
from penstock.processing.sources.source import Want
from penstock.processing.stream_event import StreamEvent

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

    def read(self, wants: Mapping[str, Want], timeout: float) -> Sequence[Batch]:
        """Return what has come of some of the files."""
        for turn in range(1 + ceil(timeout / LOOK_INTERVAL)):
            if turn and self._closed.wait(LOOK_INTERVAL):
                break
            with self._turn:
                if not self._closed.is_set() and (chosen := self._chosen(wants)):
                    return self._batches(chosen, wants)
        return []

    def reread(self, tranche: str, want: Want) -> Batch:
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

    def _chosen(self, wants: Mapping[str, Want]) -> list[str]:
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

    def _batches(self, paths: Sequence[str], wants: Mapping[str, Want]) -> list[Batch]:
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

    def _batch(self, file: LineFile, path: str, want: Want) -> Batch:
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
