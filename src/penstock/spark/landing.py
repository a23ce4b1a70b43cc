"""Pages of servers that know cursors alone: landed on a durable path before they become Spark's offsets.

A micro-batch that is run again has to have the same rows. Such a server cannot promise them: what a cursor gives
depends on when it is asked. So the driver writes down what it was given, and an offset names what was written:

    LOCATION/<id of the query>/<lane>/000000000042.arrow

A lane is what is read in its own order, such as a partition: a name, or several as of directories in each other. Its
pages are numbered from 0.
"""

import os
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.errors import EventsLost
from penstock.spark.options import bad_option, shown_location

_SUFFIX: Final = ".arrow"
_PART: Final = ".part"
"""Of what is being written."""
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
"""Hadoop's names of what Arrow calls otherwise."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Landing:
    """Where the pages of one query land. Holds plain values: it can be sent to executors."""

    location: str
    """A path that driver and executors reach, with a scheme as Hadoop writes it, or on this machine."""
    id: str
    """Of the query, so that two with one location never meet."""

    def write(self, lane: str, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Land a page: whole, or not at all. It takes the place of one that has the number.

        Args:
            lane: Whose page.
            number: Which.
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
                "landed-page-missing", page=f"{self.id}/{lane}/{number} in {shown_location(self.location)}"
            ) from error

    def forget(self, lane: str, below: int) -> None:
        """Delete the pages of a lane with smaller numbers, and what was left half written among them."""
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


def file_system(location: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system that a Hadoop-style path is on, and the path in it.

    Raises:
        BadParameter: Arrow does not know its scheme, or the path is relative.

    >>> file_system("file:///var/landing")[1]
    '/var/landing'
    """
    allowed = "a path that driver and executors reach, such as /var/landing, hdfs://…, s3a://… or gs://…"
    scheme, separator, rest = location.partition(":")
    known = f"{_SCHEMES.get(scheme, scheme)}:{rest}" if separator else location
    if known.startswith("file:/") and not known.startswith("file://"):  # As Hadoop writes it.
        known = f"file://{known.removeprefix('file:')}"
    try:
        files, path = pafs.FileSystem.from_uri(known)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise bad_option("landingLocation", shown_location(location), allowed) from None
    return files, str(path)
