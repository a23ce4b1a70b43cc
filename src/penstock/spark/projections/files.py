"""Parquet or Delta as a target: a folder with the rows of each round that changes any, and a note of their positions.

    delays_v2/rows-3-5f0c...   the rows, with their positions; includes deleted ones
    delays_v2/positions-3      the positions, the name of the rows and their columns: written after the rows, so
                               it makes them valid
    in-use-delays-1            which version is in use

Any file system of Spark works. Rows carry their own positions, so a round that was killed between the two is folded
again, to the same. Two concurrent runs do not overwrite each other: on every file system, rows have their own
positions; and the second run gets an error, within the limits of `version_folder.create`.
"""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Final, Literal, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import BadParameter, ProjectionNotFound
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_kind
from penstock.processing.projections.columns import check_declared
from penstock.processing.projections.projection import Projection, check_built
from penstock.spark.projections.folding import KEYED_SQL
from penstock.spark.projections.project import Round, RoundResult
from penstock.spark.projections.typed_rows import (
    CHANGED,
    DELETED,
    ERROR,
    FAILED,
    KEY,
    OURS,
    POSITION,
    STATE,
    TypedRows,
    Unfit,
    as_standing,
    columns_sql,
    declare_file_columns,
)
from penstock.spark.projections.version_folder import (
    NOTHING,
    RoundNote,
    VersionFolder,
    VersionInUse,
    name_round,
    path_of,
)

__all__ = ["FilesTarget", "read", "switch"]

Format: TypeAlias = Literal["parquet", "delta"]
_GONE: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "DELTA_TABLE_NOT_FOUND")
"""Spark's error classes for a missing or empty folder."""


class FilesTarget:
    """Files that hold the rows of a projection; `read` returns them.

    Each version has a folder of its own, and is built from the beginning beside the others. The first version of a path
    is in use until `switch` selects another.

    Args:
        projection: The projection.
        path: A folder that Spark can write to. Several projections may share it.
        format: `parquet`, or `delta` where Spark has Delta.

    Raises:
        BadParameter: an argument has the wrong type or value, or Spark would take the path for a pattern.
    """

    def __init__(self, projection: Projection[Any], path: str | PathLike[str], *, format: Format = "parquet") -> None:
        check_kind("projection", projection, Projection, "a Projection; the path comes after it")
        if format not in ("parquet", "delta"):
            raise BadParameter(parameter="format", value=format, allowed="parquet or delta")
        self.projection = projection
        self.fold = replace(projection.fold, wrong=Unfit(projection.table.columns, projection.fold.wrong))
        self._version = VersionFolder(path_of(path), projection.processor)
        self._in_use = VersionInUse(path_of(path), projection.name)
        self._format = format
        self._told = NOTHING

    def positions(self, spark: SparkSession) -> Mapping[str, Position]:
        """Return how far it is, by tranche.

        Raises:
            BadParameter: the folder of this version holds the rows of another projection, or has other columns.
        """
        self._told = _check_note(self.projection, self._version.load_note(spark))
        if self._told != NOTHING:
            self._in_use.begin(spark, self.projection.processor)
        return self._told.positions

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """Return the stored rows in the shape of events, or None if there are none.

        Raises:
            ProjectionNotFound: the rows no longer exist, but their positions do.
        """
        if self._told == NOTHING:
            return None
        kept = _rows(spark, self._version, self._told, self._format)
        return kept.select(KEY, STATE, POSITION).mapInArrow(as_standing, KEYED_SQL)

    def keep(self, spark: SparkSession, found: Round) -> RoundResult:
        """Write all rows, and then their positions. If no row has changed, keep the stored rows.

        Raises:
            CheckpointMoved: another run has done so since `positions` was called; its rows stay.
        """
        before, name = self._told, name_round(self._told)
        try:
            kept = self._write(spark, name, found)
            rows = name if kept.changed or before == NOTHING else before.rows
            moved = {tranche: at for tranche, at in found.positions.items() if tranche not in kept.failures}
            positions, columns = {**before.positions, **moved}, declare_file_columns(self.projection.table)
            now = RoundNote(before.number + 1, name, rows, positions, columns)
            told = self._version.tell(spark, before, now)
        except Exception as error:
            # Whoever has gone on meanwhile has removed what this was reading.
            self._version.check_unmoved(spark, before, name, error)
            raise
        if told is None:
            self._version.check_unmoved(spark, before, name, None)
        else:
            self._told = told
            if rows != name:
                self._version.remove(spark, name)
            self._version.tidy(spark, before, told)
        self._in_use.begin(spark, self.projection.processor)
        return kept

    def _write(self, spark: SparkSession, name: str, found: Round) -> RoundResult:
        path = self._version.path(name)
        typed = found.rows.mapInArrow(TypedRows(self.projection), columns_sql(self.projection.table))
        typed.write.format(self._format).mode("error").save(path)
        rows = spark.read.format(self._format).load(path)
        wrong = rows.filter(f"{ERROR} IS NOT NULL").select(KEY, FAILED, ERROR).collect()
        failures = {row[FAILED]: f"row {row[KEY]}, {row[ERROR]}" for row in wrong}
        return RoundResult(rows.filter(CHANGED).count(), failures)


def read(
    spark: SparkSession,
    projection: Projection[Any],
    path: str | PathLike[str],
    *,
    format: Format = "parquet",
    version: int | None = None,
) -> DataFrame:
    """Return the rows of a projection that is kept in files: the key's columns and the state's.

    Args:
        spark: The session.
        projection: The projection, which determines the columns. Another *version* has its own columns.
        path: The folder.
        format: The format of the files.
        version: The version; by default the one in use.

    Raises:
        ProjectionNotFound: the projection has no rows there.
        ProjectionNotFound: its rows no longer exist, but their positions do.
        BadParameter: the version in use lacks columns of the projection, or is this version and has others.
    """
    root = path_of(path)
    in_use = VersionInUse(root, projection.name).find(spark) if version is None else f"{projection.name}_v{version}"
    processor = in_use or projection.processor
    folder = VersionFolder(root, processor)
    told = folder.load_note(spark) if in_use else NOTHING
    if told == NOTHING:
        raise ProjectionNotFound(projection=processor, path=root)
    if processor == projection.processor:
        _check_note(projection, told)
    rows = _rows(spark, folder, told, format).filter(f"NOT {DELETED}")
    if version not in (None, projection.version):
        return rows.drop(*(column for column in rows.columns if column.startswith(OURS)))
    columns = [column.name for column in (*projection.table.key, *projection.table.columns)]
    if missing := set(columns) - set(rows.columns):
        allowed = f"one whose columns {processor} has, unlike {', '.join(sorted(missing))}; or read a version"
        raise BadParameter(parameter="projection", value=projection.processor, allowed=allowed)
    return rows.select(*(f"`{column}`" for column in columns))


def switch(
    spark: SparkSession, projection: Projection[Any], path: str | PathLike[str], *, even_if_behind: bool = False
) -> None:
    """Have `read` return this version of a projection that is kept in files, from one moment to the next.

    Raises:
        ProjectionNotFound: it has no rows yet.
        ProjectionBehind: it is not as far as the version in use, unless it is to be in use *even_if_behind*.
        BadParameter: the folder of this version holds the rows of another projection, or has other columns.
    """
    root = path_of(path)
    own = _check_note(projection, VersionFolder(root, projection.processor).load_note(spark))
    in_use = VersionInUse(root, projection.name)
    if own == NOTHING:
        raise ProjectionNotFound(projection=projection.processor, path=root)
    shown = in_use.find(spark)
    if shown not in (None, projection.processor) and not even_if_behind:
        check_built(projection.processor, own.positions, shown, VersionFolder(root, shown).load_note(spark).positions)
    in_use.switch(spark, projection.processor)


def _rows(spark: SparkSession, folder: VersionFolder, told: RoundNote, format: str) -> DataFrame:
    """Return the rows that a note tells of.

    Raises:
        ProjectionNotFound: they are not there, and it is still the newest one.
    """
    try:
        found = spark.read.format(format).load(folder.path(told.rows))
        found.schema  # noqa: B018 - Over Spark Connect nobody looks for them before.
    except AnalysisException as error:
        if error.getCondition() in _GONE and folder.load_note(spark) == told:
            raise folder.make_gone_error(told) from error
        raise
    return found


def _check_note(projection: Projection[Any], told: RoundNote) -> RoundNote:
    """Return what is told of this version of a projection.

    Raises:
        BadParameter: it is built with other columns.
    """
    if told != NOTHING:
        check_declared(declare_file_columns(projection.table), told.columns, f"a folder {projection.processor}")
    return told
