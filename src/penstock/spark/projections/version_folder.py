"""The folder of one version of a projection: rows of rounds, and notes that say which of them count, and how far."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import uuid4

from pyspark.sql import SparkSession

from penstock.errors import BadParameter, CheckpointMoved, ProjectionNotFound
from penstock.processing.engine.item import Position
from penstock.processing.parameters import check_kind
from penstock.spark.projections.hadoop import found, remove
from penstock.spark.projections.notes import Note, Notes


class RoundNote(NamedTuple):
    """What a note says of the rows of a round."""

    number: int
    """Of the note."""
    round: str
    """Which round it was, as nobody else calls one."""
    rows: str
    """The folder with the rows: of that round, or of the last before it that has changed any."""
    positions: Mapping[str, Position]
    """How far they go, by tranche."""
    columns: Mapping[str, str]
    """Of the key and the state, as `typed_rows.declared_in_files`."""


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

    def told(self, spark: SparkSession) -> RoundNote:
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
        """Check that nobody else has had a round count after that of *before*; else ours goes, since it never will.

        Raises:
            CheckpointMoved: somebody has.
        """
        newest = self.told(spark)
        if newest.number <= before.number or newest.round == round:
            return
        self.remove(spark, round)
        tranche = _moved(before.positions, newest.positions)
        expected, found = before.positions.get(tranche), newest.positions.get(tranche)
        raise CheckpointMoved(group=self._processor, tranche=tranche, expected=expected, found=found) from cause

    def gone(self, told: RoundNote) -> ProjectionNotFound:
        """Return what is wrong where the rows that are told of are not there."""
        return ProjectionNotFound.of(
            "projection-gone", projection=self._processor, path=self.path(told.rows), positions=dict(told.positions)
        )

    def remove(self, spark: SparkSession, rows: str) -> None:
        """Remove rows that do not count; they stay over Spark Connect."""
        remove(spark, self.path(rows))

    def tidy(self, spark: SparkSession, before: RoundNote, now: RoundNote) -> None:
        """Remove what came before the last two rounds, and rows that never counted; it stays over Spark Connect."""
        for path in found(spark, f"{self._folder}/*-*"):
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
    """Return a name that nobody else gives, for the round after *before* and its rows."""
    return f"rows-{before.number + 1}-{uuid4().hex}"


def is_over(name: str, before: RoundNote, now: RoundNote) -> bool:
    """Tell whether nobody begins to read a note, or rows, any more: *before* and *now* are the newest two rounds."""
    kind, _, rest = name.partition("-")
    number = rest.partition("-")[0]
    if kind not in ("positions", "rows") or not number.isdecimal():
        return False
    if kind == "positions":
        return int(number) < before.number
    # Of the round before, too, there may be rows of somebody who came second, and was killed.
    return int(number) <= before.number and name not in (before.rows, now.rows)


def _moved(before: Mapping[str, Position], now: Mapping[str, Position]) -> str:
    """Return a tranche whose position is another now."""
    both = sorted({*before, *now})
    return next((each for each in both if before.get(each) != now.get(each)), both[0] if both else "")
