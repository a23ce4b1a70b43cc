"""Parquet or Delta as a target: the rows of every round anew, in a folder of its own, and how far they go beside it.

    delays/rows-3        the rows, with their positions; deleted ones too
    delays/positions-3   how far they go: written when the rows are whole, so it is what makes them count

Any file system of Spark's will do. Rows carry their own positions, so a round that was killed between the two is
folded again, to the same.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import BadParameter, ProjectionNotFound
from penstock.processing.engine.item import Position
from penstock.processing.projections.projection import Projection
from penstock.spark.projections.folding import KEYED_SQL
from penstock.spark.projections.project import Kept, Round
from penstock.spark.projections.typed_rows import (
    CHANGED,
    DELETED,
    ERROR,
    FAILED,
    KEY,
    POSITION,
    STATE,
    Typed,
    as_standing,
    columns_sql,
)

Format: TypeAlias = Literal["parquet", "delta"]


class FilesTarget:
    """Files that hold the rows of a projection; `read` returns them.

    Args:
        projection: Whose rows they are.
        path: A folder for them, wherever Spark can write.
        format: `parquet`, or `delta` where Spark has Delta.

    Raises:
        BadParameter: the format is another.
    """

    def __init__(self, projection: Projection[Any], path: str, *, format: Format = "parquet") -> None:
        if format not in ("parquet", "delta"):
            raise BadParameter(parameter="format", value=format, allowed="parquet or delta")
        self._projection = projection
        self._path = path.rstrip("/")
        self._format = format
        self._number = 0
        self._kept: Mapping[str, Position] = {}

    def positions(self, spark: SparkSession) -> Mapping[str, Position]:
        """Return how far it is, by tranche."""
        self._number, self._kept = _newest(spark, self._path) or (0, {})
        return self._kept

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """Return the rows that there are, in the shape of events; None: there are none."""
        if self._number == 0:
            return None
        kept = spark.read.format(self._format).load(f"{self._path}/rows-{self._number}")
        return kept.select(KEY, STATE, POSITION).mapInArrow(as_standing, KEYED_SQL)

    def keep(self, spark: SparkSession, found: Round) -> Kept:
        """Write all rows, and then how far they go."""
        number = self._number + 1
        rows, path = f"{self._path}/rows-{number}", f"{self._path}/positions-{number}"
        typed = found.rows.mapInArrow(Typed(self._projection), columns_sql(self._projection.table))
        typed.write.format(self._format).mode("overwrite").save(rows)
        kept = spark.read.format(self._format).load(rows)
        wrong = kept.filter(f"{ERROR} IS NOT NULL").select(KEY, FAILED, ERROR).collect()
        failures = {row[FAILED]: f"row {row[KEY]}, {row[ERROR]}" for row in wrong}
        moved = {tranche: at for tranche, at in found.positions.items() if tranche not in failures}
        told = json.dumps({"positions": {**self._kept, **moved}, "projection": self._projection.processor})
        spark.createDataFrame([(told,)], "value string").coalesce(1).write.mode("overwrite").text(path)
        self._forget(spark, number - 2)
        return Kept(kept.filter(CHANGED).count(), failures)

    def _forget(self, spark: SparkSession, number: int) -> None:
        """Delete the rows of an earlier round, which nobody begins to read any more; they stay over Spark Connect."""
        with suppress(Exception):
            java: Any = spark
            conf = java._jsc.hadoopConfiguration()
            for name in ("positions", "rows"):
                path = java._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}-{number}")
                path.getFileSystem(conf).delete(path, True)


def read(spark: SparkSession, projection: Projection[Any], path: str, *, format: Format = "parquet") -> DataFrame:
    """Return the rows of a projection that is kept in files: the key's columns and the state's.

    Raises:
        ProjectionNotFound: there is none.
    """
    newest = _newest(spark, path.rstrip("/"))
    if newest is None:
        raise ProjectionNotFound(projection=projection.processor, path=path)
    rows = spark.read.format(format).load(f"{path.rstrip('/')}/rows-{newest[0]}").filter(f"NOT {DELETED}")
    return rows.select(*(f"`{column.name}`" for column in (*projection.table.key, *projection.table.columns)))


def _newest(spark: SparkSession, path: str) -> tuple[int, Mapping[str, Position]] | None:
    try:
        found = spark.read.text(f"{path}/positions-*").select("value", sf.input_file_name().alias("file")).collect()
    except AnalysisException:  # There is none.
        return None
    told = {int(row["file"].rsplit("/positions-", 1)[1].split("/")[0]): row["value"] for row in found}
    if not told:
        return None
    number = max(told)
    return number, json.loads(told[number])["positions"]
