"""A table of Parquet that grows, written without Spark, which takes a job to write it and one to find its columns."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema


class GrowingTable:
    """Rows of *schema* in the files of a folder."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        folder.mkdir()
        self.folder = folder
        self.schema = schema

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add a file of rows."""
        pq.write_table(pa.Table.from_pylist([*rows], self.schema), self.folder / f"{uuid4()}.parquet")

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the rows that there are now."""
        return spark.read.schema(from_arrow_schema(self.schema)).parquet(str(self.folder))
