"""Files of events, read as a stream: each once, also those that come later."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.spark.options import bad_option
from penstock.spark.rows import EVENT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FILES: Final = ("json", "parquet", "csv", "orc")
NAME_HEADER: Final = "file-name"
"""The header that says out of which file an event is."""
_CSV: Final = {"header": "true", "inferSchema": "true", "escape": '"'}


@dataclass(frozen=True)
class Files:
    """Files of a format at a path.

    `json` has an event on each line, which goes on byte for byte. Of the others each row is an event, whose members are
    its columns; where there is a column `data`, as in what `export` and `ingest` write, that is the event, and `key`,
    `headers`, `partition` and `metadata` go with it.

    Raises:
        BadParameter: there is no such format.
    """

    path: str
    format: str = "json"
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of Spark's, such as `maxFilesPerTrigger`."""

    def __post_init__(self) -> None:
        if self.format not in FILES:
            raise bad_option("format", self.format, ", ".join(FILES))

    def lines(self, spark: "SparkSession") -> "DataFrame":
        """Return the lines of the files: their values, and headers that say which file each is of."""
        from pyspark.sql.functions import col, lit

        found = spark.readStream.format("text").options(**self.options).load(self.path)
        key = lit(None).cast("string").alias("key")
        return found.where("trim(value) <> ''").select(key, col("value"), _named().alias("headers"))

    def events(self, spark: "SparkSession") -> "DataFrame":
        """Return the events of the files, in columns as `format("penstock")` takes them.

        Raises:
            AnalysisException: there is no such path, or Spark cannot say which columns the files have.
        """
        from pyspark.sql.functions import coalesce, col, create_map, map_concat, map_filter, struct

        if self.format == "json":
            return self.lines(spark).select(col("value").alias("data"), "headers")
        options = {**(_CSV if self.format == "csv" else {}), **self.options}
        schema = spark.read.format(self.format).options(**options).load(self.path).schema
        found = spark.readStream.format(self.format).schema(schema).options(**options).load(self.path)
        if "data" not in schema.names:
            return found.select(struct(*schema.names).alias("data"), _named().alias("headers"))
        there = [name for name in EVENT_COLUMNS if name in schema.names and name != "headers"]
        none = create_map().cast("map<string,string>")
        own = coalesce(col("headers"), none) if "headers" in schema.names else none
        headers = map_concat(map_filter(own, lambda name, _: name != NAME_HEADER), _named())
        return found.select(*there, headers.alias("headers"))


def _named() -> "Column":
    from pyspark.sql.functions import col, create_map, lit

    return create_map(lit(NAME_HEADER), col("_metadata.file_name"))
