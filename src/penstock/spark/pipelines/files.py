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
_OPTIONS: Final = {
    "csv": {
        "header": "true", "inferSchema": "true", "escape": '"', "multiLine": "true",
        "enforceSchema": "false", "mode": "FAILFAST",
    },
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}  # fmt: skip
"""So that what does not fit the columns ends the import: Spark would go by the place of a column, and make nulls."""
_ANY_AGE: Final = "36500d"
"""Spark passes over files that are older than the newest by a week, unless told otherwise."""


@dataclass(frozen=True)
class Files:
    """Files of a format at a path.

    `json` has an event on each line, which goes on byte for byte. Of the others each row is an event, whose members are
    its columns; where there is a column `data`, as in what `export` and `ingest` write, that is the event, and `key`,
    `headers`, `partition` and `metadata` go with it.

    What is at the path is read once, by its name: a file is to be moved there when it is whole, and not to be added to.

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

        found = spark.readStream.format("text").options(**self._given()).load(self.path)
        key = lit(None).cast("string").alias("key")
        return found.where("trim(value) <> ''").select(key, col("value"), _named().alias("headers"))

    def events(self, spark: "SparkSession") -> "DataFrame":
        """Return the events of the files, in columns as `format("penstock")` takes them.

        Raises:
            AnalysisException: there is no such path, or Spark cannot say which columns the files have.
            BadParameter: the events are there in part only.
        """
        from pyspark.sql.functions import coalesce, col, create_map, map_concat, map_filter, struct

        if self.format == "json":
            return self.lines(spark).select(col("value").alias("data"), "headers")
        options = self._given()
        schema = spark.read.format(self.format).options(**options).load(self.path).schema
        found = spark.readStream.format(self.format).schema(schema).options(**options).load(self.path)
        if "rescued_data" in schema.names:
            allowed = "files with payload json: what did not fit the columns of data would be left out"
            raise bad_option("path", self.path, allowed)
        if "data" not in schema.names:
            return found.select(struct(*schema.names).alias("data"), _named().alias("headers"))
        there = [name for name in EVENT_COLUMNS if name in schema.names and name != "headers"]
        none = create_map().cast("map<string,string>")
        own = coalesce(col("headers"), none) if "headers" in schema.names else none
        headers = map_concat(map_filter(own, lambda name, _: name != NAME_HEADER), _named())
        return found.select(*there, headers.alias("headers"))

    def _given(self) -> dict[str, str]:
        return {"maxFileAge": _ANY_AGE, **_OPTIONS.get(self.format, {}), **self.options}


def _named() -> "Column":
    from pyspark.sql.functions import col, create_map, lit

    return create_map(lit(NAME_HEADER), col("_metadata.file_name"))
