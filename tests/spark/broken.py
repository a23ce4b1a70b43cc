"""format("broken"): a source with a defect."""

from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.tracebacks import hide_tracebacks


@hide_tracebacks
class BrokenSource(DataSource):
    """Finds out in the middle of a task that it is wrong."""

    @classmethod
    def name(cls) -> str:
        return "broken"

    def schema(self) -> str:
        return "n bigint"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - there is only one
        return BrokenReader()


@hide_tracebacks
class BrokenReader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002 - there is only one
        yield (1,)
        fail()


def fail() -> NoReturn:
    raise RuntimeError("a defect")
