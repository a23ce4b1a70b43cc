"""The folder of one version of a projection: rows of rounds, and notes that say which of them count, and how far."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.errors import BadParameter, CheckpointMoved, ProjectionNotFound, Unavailable
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_kind

_IS_CHECKED_AT_THE_END: Final = "fs.option.create.conditional.overwrite"
"""Has a store refuse what is complete if its name is taken by then; stores that do not know it pass it over."""


def create(spark: SparkSession, path: str, text: str) -> bool:
    """Create a file of one line in an existing folder; return False if a file of that name exists.

    Of several concurrent calls exactly one returns True on local disks, on HDFS, and on object stores that create a
    file only if there is none: those of Azure and Google, and S3 with Hadoop 3.4.2 or later. Elsewhere, and over Spark
    Connect, this function checks first and writes then: several calls within a moment may return True, and the file of
    the last one is there, or both are.
    """
    if not hasattr(spark, "_jvm"):
        return _create_by_spark(spark, path, text)
    files, place = _open(spark, path)
    if files.getUri().getScheme() == "file":
        java: Any = spark
        return _create_locally(java._jvm.java.io.File(files.makeQualified(place).toUri()).getPath(), text)
    return _create_by_hadoop(files, place, text)


def find_paths(spark: SparkSession, pattern: str) -> list[str]:
    """Return the paths that there are of a pattern, sorted; over Spark Connect the pattern, which Spark takes too."""
    if not hasattr(spark, "_jvm"):
        return [pattern]
    files, place = _open(spark, pattern)
    return sorted(each.getPath().toString() for each in files.globStatus(place) or ())


def remove(spark: SparkSession, path: str) -> None:
    """Remove a file or a folder if it is there and may be removed; it stays over Spark Connect."""
    if not hasattr(spark, "_jvm"):
        return
    from py4j.protocol import Py4JJavaError

    with suppress(Py4JJavaError):
        files, place = _open(spark, path)
        files.delete(place, True)


def _open(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path as it knows it."""
    java: Any = spark
    place = java._jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(java._jsc.hadoopConfiguration()), place


def _create_locally(path: str, text: str) -> bool:
    # Hadoop looks first and creates then, where the system could do both in one.
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        return False
    return True


def _create_by_hadoop(files: Any, place: Any, text: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        stream = files.createFile(place).recursive().overwrite(False).opt(_IS_CHECKED_AT_THE_END, True).build()
    except Py4JJavaError:
        if files.exists(place):
            return False
        raise
    try:
        stream.write(f"{text}\n".encode())
        stream.close()
    except Py4JJavaError:
        # There may be a file of ours without content: only what has some is another's.
        if files.exists(place) and files.getFileStatus(place).getLen() > 0:
            return False
        raise
    return True


def _create_by_spark(spark: SparkSession, path: str, text: str) -> bool:
    try:
        spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode("error").text(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        return False
    return True


class Note(NamedTuple):
    """A note."""

    number: int
    said: dict[str, Any]


class Notes:
    """Numbered notes in a folder: `{name}-1`, `{name}-2`, each created once.

    Args:
        folder: The folder.
        name: The common name, without a number.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = name

    def path(self, number: int) -> str:
        """Return where a note is."""
        return f"{self._folder}/{self._name}-{number}"

    def newest(self, spark: SparkSession) -> Note | None:
        """Return the newest one; None: there is none."""
        pattern = f"{self._folder}/{self._name}-*"
        while paths := find_paths(spark, pattern):
            try:
                read = spark.read.option("ignoreMissingFiles", "true").text(paths)
                lines = read.select(sf.input_file_name().alias("file"), "value").collect()
            except AnalysisException as error:
                if error.getCondition() != "PATH_NOT_FOUND":
                    raise
                if paths == [pattern]:
                    return None
                continue  # An older one was removed meanwhile.
            return newest_of(((row["file"], row["value"]) for row in lines), self._name)
        return None

    def add(self, spark: SparkSession, after: int, said: dict[str, Any]) -> Note | None:
        """Add the note after number *after*, and return it; None: another process has added one.

        See `create` for concurrent calls.

        Raises:
            Unavailable: the note was written, but is not found.
        """
        text, number = json.dumps(said, sort_keys=True), after + 1
        while True:
            is_made = create(spark, self.path(number), text)
            # Where two can make the same one, what is read decides.
            newest = self.newest(spark)
            if newest is not None and newest.number > after:
                return newest if newest.said == said else None
            if is_made:
                raise Unavailable(reason=f"{self.path(number)} was written, and is not found")
            # Whoever began that one was killed before it said anything: it never counts.
            number += 1


def newest_of(lines: Iterable[tuple[str, str]], name: str) -> Note | None:
    """Return the newest complete note among lines of files.

    Args:
        lines: The file, as Spark names it, and the line. A note is a file, or a folder with one in it; of two in a
            folder, written at the same time, every reader selects the same one.
        name: The common name of the notes.
    """
    told: dict[int, str] = {}
    for file, line in lines:
        match = re.search(rf"/{re.escape(name)}-([0-9]+)(?:/[^/]+)?$", unquote(file))
        if match and _read(line) is not None:
            number = int(match[1])
            told[number] = min(line, told.get(number, line))
    if not told:
        return None
    newest = max(told)
    return Note(newest, _read(told[newest]) or {})


def _read(line: str) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


class VersionInUse:
    """Says which version of a projection is in use.

    Args:
        path: A folder for all versions.
        name: Of the projection.
    """

    def __init__(self, path: str, name: str) -> None:
        self._notes = Notes(path, f"in-use-{name}")
        self._is_told = False

    def find(self, spark: SparkSession) -> str | None:
        """Return the processor of the version that is in use; None: there is none."""
        newest = self._notes.newest(spark)
        return None if newest is None else str(newest.said["projection"])

    def begin(self, spark: SparkSession, processor: str) -> None:
        """Have a version be in use if none is."""
        if not self._is_told and self.find(spark) is None:
            self._notes.add(spark, 0, _said(processor))
        self._is_told = True

    def switch(self, spark: SparkSession, processor: str) -> None:
        """Have a version be in use, whichever is."""
        while True:
            newest = self._notes.newest(spark)
            if newest is not None and newest.said == _said(processor):
                return
            number = 0 if newest is None else newest.number
            if self._notes.add(spark, number, _said(processor)) is not None:
                return


def _said(processor: str) -> dict[str, Any]:
    return {"projection": processor}


class RoundNote(NamedTuple):
    """A note about the rows of a round."""

    number: int
    """Of the note."""
    round: str
    """The unique name of the round."""
    rows: str
    """The folder with the rows: of that round, or of the last before it that has changed any."""
    positions: Mapping[str, Position]
    """How far they go, by tranche."""
    columns: Mapping[str, str]
    """Of the key and the state, as `typed_rows.declare_file_columns`."""


_OF_PATTERNS: Final = frozenset("*?[]{}\\")
NOTHING: Final = RoundNote(0, "", "", {}, {})
"""Before the first round."""


class VersionFolder:
    """The folder of one version: `{path}/{name}_v{version}`.

    Args:
        path: A folder for all versions, as of `path_of`.
        processor: Of the version, `{name}_v{version}`.
    """

    def __init__(self, path: str, processor: str) -> None:
        self._folder = f"{path}/{processor}"
        self._processor = processor
        self._notes = Notes(self._folder, "positions")

    def path(self, rows: str) -> str:
        """Return where rows are."""
        return f"{self._folder}/{rows}"

    def load_note(self, spark: SparkSession) -> RoundNote:
        """Return what is told of the newest round that counts; `NOTHING`: there is none.

        Raises:
            BadParameter: the folder holds the rows of another projection.
        """
        newest = self._notes.newest(spark)
        return NOTHING if newest is None else self._of(newest)

    def tell(self, spark: SparkSession, before: RoundNote, now: RoundNote) -> RoundNote | None:
        """Have rows count from now on, and return what is told of them, under the number that it has got.

        None: others do so meanwhile.
        """
        said = {"round": now.round, "rows": now.rows, "positions": dict(now.positions), "columns": dict(now.columns)}
        added = self._notes.add(spark, before.number, {"projection": self._processor, **said})
        return None if added is None else self._of(added)

    def check_unmoved(self, spark: SparkSession, before: RoundNote, round: str, cause: Exception | None) -> None:
        """Check that no other process has completed a round after *before*; otherwise remove our round.

        Raises:
            CheckpointMoved: another process has.
        """
        newest = self.load_note(spark)
        if newest.number <= before.number or newest.round == round:
            return
        self.remove(spark, round)
        tranche = _find_moved(before.positions, newest.positions)
        expected, found = before.positions.get(tranche), newest.positions.get(tranche)
        raise CheckpointMoved(group=self._processor, tranche=tranche, expected=expected, found=found) from cause

    def make_gone_error(self, told: RoundNote) -> ProjectionNotFound:
        """Return what is wrong where the rows that are told of are not there."""
        return ProjectionNotFound.of(
            "projection-gone", projection=self._processor, path=self.path(told.rows), positions=dict(told.positions)
        )

    def remove(self, spark: SparkSession, rows: str) -> None:
        """Remove rows that do not count; they stay over Spark Connect."""
        remove(spark, self.path(rows))

    def tidy(self, spark: SparkSession, before: RoundNote, now: RoundNote) -> None:
        """Remove what came before the last two rounds, and rows that never counted; it stays over Spark Connect."""
        for path in find_paths(spark, f"{self._folder}/*-*"):
            if is_over(path.rpartition("/")[2], before, now):
                remove(spark, path)

    def _of(self, note: Note) -> RoundNote:
        said = note.said
        if said["projection"] != self._processor:
            allowed = f"a folder that holds what its name says, and not {said['projection']}"
            raise BadParameter(parameter="path", value=self._folder, allowed=allowed)
        return RoundNote(note.number, said["round"], said["rows"], said["positions"], said["columns"])


def path_of(given: str | os.PathLike[str]) -> str:
    """Return the path of a folder as names are put behind it.

    Raises:
        BadParameter: it is none, or Spark would take it for a pattern.
    """
    check_kind("path", given, (str, os.PathLike), "the path of a folder")
    given = os.fspath(given)
    if set(given) & _OF_PATTERNS:
        allowed = f"a path without any of {' '.join(sorted(_OF_PATTERNS))}, which stand for other characters in Spark"
        raise BadParameter(parameter="path", value=given, allowed=allowed)
    return given.rstrip("/")


def name_round(before: RoundNote) -> str:
    """Return a unique name for the round after *before* and its rows."""
    return f"rows-{before.number + 1}-{uuid4().hex}"


def is_over(name: str, before: RoundNote, now: RoundNote) -> bool:
    """Return whether no reader needs a note or rows any longer: *before* and *now* are the newest two rounds."""
    kind, _, rest = name.partition("-")
    number = rest.partition("-")[0]
    if kind not in ("positions", "rows") or not number.isdecimal():
        return False
    if kind == "positions":
        return int(number) < before.number
    # Of the round before, too, there may be rows of somebody who came second, and was killed.
    return int(number) <= before.number and name not in (before.rows, now.rows)


def _find_moved(before: Mapping[str, Position], now: Mapping[str, Position]) -> str:
    """Return a tranche whose position is another now."""
    both = sorted({*before, *now})
    return next((each for each in both if before.get(each) != now.get(each)), both[0] if both else "")
