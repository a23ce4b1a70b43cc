"""Landing: the driver writes what a server sends to files, and a micro-batch reads the files.

A micro-batch that is run again has to have the same rows. A server that knows cursors alone cannot promise them: what a
cursor gives depends on when it is asked. So an offset of Spark's names the pages that were written:

    LOCATION/<id of the query>/<lane>/000000000042.arrow

The pages of a lane have an order of their own, such as that of a partition, and are numbered from 0. Its name may be
several, as of directories in each other, and begins with that of a run: the time from one start of a query to its end.

Invariants:
    A page becomes part of an offset only once it has landed.
    A micro-batch that is planned again reads the same pages.
    A driver that was thought dead writes over no pages of the next run.
    Pages are deleted once Spark has committed a micro-batch that begins after them.
"""

import os
import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs

from penstock.errors import EventsLost
from penstock.spark.columns import QueryColumn
from penstock.spark.foreign.query import ForeignStream
from penstock.spark.options import bad_option, hide_key
from penstock.spark.shape import select_columns
from penstock.spark.tasks import cores

LOCATION: Final = (
    "a path that driver and executors reach, and that lasts as long as the checkpoint, such as /var/landing, hdfs://…, "
    "s3a://… or gs://…"
)

_SUFFIX: Final = ".arrow"
_PART: Final = ".part"
"""Of what is being written."""
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
"""Hadoop's names of schemes that have other names in Arrow."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Landing:
    """The pages of one query. Holds plain values: it can be sent to executors."""

    location: str
    """A path that driver and executors reach, with a scheme as Hadoop writes it, or on this machine."""
    id: str
    """The query's, so that two queries with one location never meet."""

    def write(self, lane: str, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Land a page, entirely or not at all. It replaces a page of the same number.

        Args:
            lane: The lane.
            number: The number of the page.
            batches: At least one, maybe empty.
        """
        path = self._path(lane, number)
        part = f"{path}.{uuid.uuid4().hex}{_PART}"
        self._begin(lane)
        with (
            self._files.open_output_stream(part) as stream,
            pa.ipc.new_file(stream, batches[0].schema, options=_OPTIONS) as file,
        ):
            for batch in batches:
                file.write_batch(batch)
        self._sync(part)
        self._files.move(part, path)
        self._sync(self._lane(lane))

    def read(self, lane: str, number: int) -> Iterator[pa.RecordBatch]:
        """Read a page.

        Raises:
            EventsLost: it is not there.
        """
        try:
            with self._files.open_input_file(self._path(lane, number)) as stream, pa.ipc.open_file(stream) as file:
                for place in range(file.num_record_batches):
                    yield file.get_batch(place)
        except FileNotFoundError as error:
            raise EventsLost.of(
                "landed-page-missing", page=f"{self.id}/{lane}/{number} in {hide_key(self.location)}"
            ) from error

    def forget(self, lane: str, below: int) -> None:
        """Delete the pages of a lane with smaller numbers, and their partially written files."""
        selector = pafs.FileSelector(self._lane(lane), allow_not_found=True)
        for found in self._files.get_file_info(selector):
            number = found.base_name.partition(".")[0]
            if number.isdecimal() and int(number) < below:
                with suppress(FileNotFoundError):  # Somebody else was quicker.
                    self._files.delete_file(found.path)

    def lanes(self) -> set[str]:
        """Return the lanes that there are, or the directories in which they are."""
        selector = pafs.FileSelector(self._home, allow_not_found=True)
        return {found.base_name for found in self._files.get_file_info(selector)}

    def forget_lanes(self, lanes: Collection[str]) -> None:
        """Delete *lanes*, with whatever pages they have."""
        for lane in lanes:
            with suppress(FileNotFoundError):
                self._files.delete_dir(self._lane(lane))

    def _begin(self, lane: str) -> None:
        """See that there is a lane, and that its directories outlast a loss of power, too."""
        if self._files.get_file_info(self._lane(lane)).type == pafs.FileType.Directory:
            return
        self._files.create_dir(self._lane(lane), recursive=True)
        for each in PurePosixPath(self.id, lane).parents:
            self._sync(f"{self._place[1].rstrip('/')}/{each}")

    def _sync(self, path: str) -> None:
        """Have what stands at *path* outlast a loss of power; other file systems than this machine's see to it."""
        if isinstance(self._files, pafs.LocalFileSystem):
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    @cached_property
    def _place(self) -> tuple[pafs.FileSystem, str]:
        return file_system(self.location)

    @property
    def _files(self) -> pafs.FileSystem:
        return self._place[0]

    @property
    def _home(self) -> str:
        return f"{self._place[1].rstrip('/')}/{self.id}"

    def _lane(self, lane: str) -> str:
        return f"{self._home}/{lane}"

    def _path(self, lane: str, number: int) -> str:
        return f"{self._lane(lane)}/{number:012}{_SUFFIX}"

    def __getstate__(self) -> dict[str, str]:
        return {"location": self.location, "id": self.id}


def new_landing(location: str) -> Landing:
    """Return a landing of its own for a new query."""
    return Landing(location, uuid.uuid4().hex)


def parse_location(name: str, text: str | None) -> str:
    """Return the option landingLocation.

    Raises:
        BadParameter: It is missing, or a relative path.
    """
    location = (text or "").strip()
    if not location or (":/" not in location and not location.startswith("/")):
        raise bad_option(name, text and hide_key(text), LOCATION)
    return location


def file_system(location: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system that a Hadoop-style path is on, and the path in it.

    Raises:
        BadParameter: Arrow does not know its scheme, or the path is relative.

    >>> file_system("file:///var/landing")[1]
    '/var/landing'
    """
    scheme, separator, rest = location.partition(":")
    known = f"{_SCHEMES.get(scheme, scheme)}:{rest}" if separator else location
    if known.startswith("file:/") and not known.startswith("file://"):  # As Hadoop writes it.
        known = f"file://{known.removeprefix('file:')}"
    try:
        files, path = pafs.FileSystem.from_uri(known)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise bad_option("landingLocation", hide_key(location), LOCATION) from None
    return files, str(path)


class Landed(msgspec.Struct, frozen=True):
    """An offset of Spark's: where a micro-batch of landed pages ends."""

    landing: str
    """The id of the query's landing."""
    run: str
    """The id of the run whose pages these are."""

    def lanes(self) -> Mapping[str, int]:
        """Return the lanes of the run, and of each the page that lands next."""
        raise NotImplementedError


class PageRange(NamedTuple):
    """A task: the pages of a lane from *start*, up to but without *end*."""

    landing: Landing
    lane: str
    start: int
    end: int

    def read(self, columns: Sequence[QueryColumn]) -> Iterator[pa.RecordBatch]:
        """Read the pages, on an executor.

        Raises:
            EventsLost: A page is not there.
        """
        for number in range(self.start, self.end):
            for rows in self.landing.read(self.lane, number):
                yield select_columns(rows, columns)


def pages_between(location: str, start: Landed, end: Landed) -> list[PageRange]:
    """Return what a micro-batch reads.

    The first micro-batch of a run begins with the run's first pages. So does that of a query, for which Spark has
    another beginning made up when it runs it again.
    """
    begins = start.lanes() if start.landing == end.landing else {}
    landing = Landing(location, end.landing)
    found = [PageRange(landing, lane, begins.get(lane, 0), stop) for lane, stop in end.lanes().items()]
    return [each for each in found if each.start < each.end]


def cut(ranges: Sequence[PageRange], pieces: int) -> list[PageRange]:
    """Cut *ranges* into about *pieces* pieces.

    >>> landing = Landing("/var/landing", "6f1c")
    >>> [each[1:] for each in cut([PageRange(landing, "r/0", 3, 9), PageRange(landing, "r/1", 0, 2)], 4)]
    [('r/0', 3, 5), ('r/0', 5, 7), ('r/0', 7, 9), ('r/1', 0, 2)]
    """
    pages = -(-sum(each.end - each.start for each in ranges) // pieces)
    return [
        each._replace(start=start, end=min(start + pages, each.end))
        for each in ranges
        for start in range(each.start, each.end, max(pages, 1))
    ]


Place = TypeVar("Place", bound=Landed)


class LandingStream(ForeignStream[Place]):
    """The driver's part of a stream whose pages land at *location*, for one run."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.run = uuid.uuid4().hex[:12]
        self._earlier: set[str] | None = None
        """The runs before this one that have pages; None until the landing is first needed."""

    def advance(self, start: Place, events_max: int | None) -> Place:
        """Land what follows *start*, and return where that ends; *start* if there is nothing new."""
        if self._earlier is None:
            self._earlier = self.landing_of(start).lanes()
        return self.land(start, events_max)

    @abstractmethod
    def land(self, start: Place, events_max: int | None) -> Place:
        """Land what follows *start*, about *events_max* events, and return where that ends."""

    def landing_of(self, landed: Place) -> Landing:
        """Return the landing whose pages *landed* names."""
        return Landing(self.location, landed.landing)

    def plan(self, start: Place, end: Place) -> Sequence[PageRange]:
        """Return the tasks of a micro-batch."""
        return cut(pages_between(self.location, start, end), cores())

    def commit(self, start: Place | None, end: Place) -> None:
        """Delete the pages before the micro-batch to *end*. Its own stay, in case Spark runs it again.

        The first one of this run also deletes the pages of all earlier runs, but not those of a run that has begun
        since: it has taken this one for dead, and goes on in its place.
        """
        landing = self.landing_of(end)
        if start is not None and (start.landing, start.run) == (end.landing, end.run):
            for lane, page in start.lanes().items():
                landing.forget(lane, page)
        if end.run == self.run and self._earlier:
            landing.forget_lanes(self._earlier)
            self._earlier = set()
