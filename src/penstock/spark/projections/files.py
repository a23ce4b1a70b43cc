"""Parquet or Delta as a target: the rows of every round anew, in a folder of its own, and how far they go beside it.

    delays/rows-3        the rows, with their positions; deleted ones too
    delays/positions-3   how far they go: written when the rows are whole, so it is what makes them count

Any file system of Spark's will do. Rows carry their own positions, so a round that was killed between the two is
folded again, to the same.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.errors import BadParameter, ProjectionNotFound
from penstock.processing.engine.item import Position
from penstock.processing.projections.columns import Column, Kind, key_of_text
from penstock.processing.projections.projection import Projection
from penstock.spark.projections.folding import KEYED_SQL, as_events
from penstock.spark.projections.project import Kept, Round

Format: TypeAlias = Literal["parquet", "delta"]
KEY: Final = "penstock_key"
STATE: Final = "penstock_state"
POSITION: Final = "penstock_position"
DELETED: Final = "penstock_deleted"
ERROR: Final = "penstock_error"
FAILED: Final = "penstock_failed"
CHANGED: Final = "penstock_changed"
_TYPES: Final[Mapping[Kind, tuple[str, pa.DataType]]] = {
    "integer": ("bigint", pa.int64()),
    "real": ("double", pa.float64()),
    "text": ("string", pa.string()),
    "boolean": ("boolean", pa.bool_()),
    "bytes": ("binary", pa.binary()),
    "time": ("timestamp", pa.timestamp("us", tz="UTC")),
    "date": ("date", pa.date32()),
    "decimal": ("decimal(38,18)", pa.decimal128(38, 18)),
    "json": ("string", pa.string()),
}


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
        return kept.select(KEY, STATE, POSITION).mapInArrow(_standing, KEYED_SQL)

    def keep(self, spark: SparkSession, found: Round) -> Kept:
        """Write all rows, and then how far they go."""
        number, table = self._number + 1, self._projection.table
        columns = [*table.key, *table.columns]
        names = ", ".join(f"`{column.name}` {_TYPES[column.kind][0]}" for column in columns)
        own = f"{KEY} string, {STATE} string, {POSITION} string, {DELETED} boolean, {CHANGED} boolean"
        ddl = f"{names}, {own}, {FAILED} string, {ERROR} string"
        rows, path = f"{self._path}/rows-{number}", f"{self._path}/positions-{number}"
        typed = found.rows.mapInArrow(Typed(self._projection), ddl)
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


@dataclass(frozen=True)
class Typed:
    """Makes columns of rows on the executors."""

    projection: Projection[Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the key's and the state's columns, and what stands beside them."""
        table = self.projection.table
        for batch in batches:
            keys = [key_of_text(table.key, text) for text in batch.column("key").to_pylist()]
            texts = batch.column("state").to_pylist()
            states = [None if text is None else msgspec.json.decode(text, type=table.state) for text in texts]
            arrays = {column.name: _array(column, values) for column, values in _by_column(table.key, keys)}
            for column in table.columns:
                values = [None if state is None else getattr(state, column.name) for state in states]
                arrays[column.name] = _array(column, values)
            arrays |= {KEY: batch.column("key"), STATE: batch.column("state"), POSITION: batch.column("positions")}
            arrays |= {DELETED: batch.column("state").is_null(), CHANGED: batch.column("is_changed")}
            arrays |= {FAILED: batch.column("failed"), ERROR: batch.column("error")}
            yield pa.RecordBatch.from_pydict(arrays)


def _by_column(columns: Iterable[Column], keys: list[tuple[Any, ...]]) -> Iterator[tuple[Column, list[Any]]]:
    for at, column in enumerate(columns):
        yield column, [key[at] for key in keys]


def _array(column: Column, values: list[Any]) -> pa.Array:
    if column.kind == "json":
        values = [None if value is None else msgspec.json.encode(value).decode() for value in values]
    return pa.array(values, _TYPES[column.kind][1])


def _standing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        # A row whose first event could not be folded has no positions yet: it is none.
        kept = [row for row in rows if row[2] is not None]
        if kept:
            yield from as_events(kept).to_batches()


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
