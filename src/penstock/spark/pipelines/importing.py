"""Events from other places into a feed: from Kafka, and from files, each once, also those that come later."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.options import bad_option
from penstock.spark.pipelines.feed import HubFeed
from penstock.spark.pipelines.kafka import Kafka
from penstock.spark.pipelines.records import LAYOUTS, Layout
from penstock.spark.pipelines.watching import PUBLISHED
from penstock.spark.rows import EVENT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FILES: Final = ("json", "parquet", "csv", "orc")
NAME_HEADER: Final = "file-name"
"""The header that says out of which file an event is."""
_OPTIONS: Final = {
    "csv": {
        "header": "true", "escape": '"', "multiLine": "true", "enforceSchema": "false", "mode": "FAILFAST",
        "nullValue": "\ufffe",
    },
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}  # fmt: skip
"""So that what does not fit the columns ends the import: Spark would go by the place of a column, and make nulls.

Of CSV, what is nothing between two commas is null, and `""` is an empty text: Spark would take both for null, unless
null is said to be written as something else.
"""
SCHEMA: Final = "schema"
"""The option that says which columns files have, as Spark writes it: `id INT, zip STRING`."""
_PATTERN: Final = re.compile(r"[\[\]{}*?\\]")
_ESCAPED: Final = r"\\\g<0>"
_ANY_AGE: Final = "36500d"
"""Spark passes over files that are older than the newest by a week, unless told otherwise."""


@dataclass(frozen=True)
class Files:
    """Files of a format at a path.

    `json` has an event on each line, which is published byte for byte. In other formats each row is an event, with its
    columns as members. If there is a column `data`, as in files of `export` and `ingest`, it is the event, and the
    columns `key`, `headers`, `partition` and `metadata` accompany it. Values of CSV are strings, unless the option
    `schema` gives their types.

    Each file name is read once: move complete files to the path, and do not append to them.

    Raises:
        BadParameter: the format is unknown.
    """

    path: str
    format: str = "json"
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of Spark's, such as `maxFilesPerTrigger`; and `schema`: which columns there are."""

    def __post_init__(self) -> None:
        if self.format not in FILES:
            raise bad_option("format", self.format, ", ".join(FILES))

    def lines(self, spark: "SparkSession") -> "DataFrame":
        """Return the lines of the files: their values, and headers that say which file each is of."""
        from pyspark.sql.functions import col, lit

        found = spark.readStream.format("text").options(**self._make_options()).load(self._place)
        key = lit(None).cast("string").alias("key")
        return found.where(col("value").rlike(r"\S")).select(key, col("value"), _make_name_header().alias("headers"))

    def events(self, spark: "SparkSession") -> "DataFrame":
        """Return the events of the files, in columns as `format("penstock")` takes them.

        Raises:
            pyspark.errors.AnalysisException: there is no such path, or Spark cannot say which columns the files have.
            BadParameter: the events are there in part only.
        """
        from pyspark.sql.functions import coalesce, col, create_map, map_concat, map_filter, struct

        if self.format == "json":
            return self.lines(spark).select(col("value").alias("data"), "headers")
        options = self._make_options()
        given = options.pop(SCHEMA, None)
        schema = given or spark.read.format(self.format).options(**options).load(self._place).schema
        found = spark.readStream.format(self.format).schema(schema).options(**options).load(self._place)
        schema = found.schema
        if "rescued_data" in schema.names:
            allowed = "files with payload json: what did not fit the columns of data would be left out"
            raise bad_option("path", self.path, allowed)
        if "data" not in schema.names:
            return found.select(struct(*schema.names).alias("data"), _make_name_header().alias("headers"))
        names = [name for name in EVENT_COLUMNS if name in schema.names and name != "headers"]
        # CSV has no types of its own.
        there = [col(name).cast("int") if name == "partition" else col(name) for name in names]
        none = create_map().cast("map<string,string>")
        own = coalesce(col("headers"), none) if "headers" in schema.names else none
        headers = map_concat(map_filter(own, lambda name, _: name != NAME_HEADER), _make_name_header())
        return found.select(*there, headers.alias("headers"))

    @property
    def _place(self) -> str:
        """The path as Spark takes it: that of a single file as a pattern which it alone meets.

        Spark would take any other for a directory.
        """
        if not Path(self.path).is_file():
            return self.path
        return f"{_PATTERN.sub(_ESCAPED, self.path[:-1])}[{self.path[-1]}]"

    def _make_options(self) -> dict[str, str]:
        return {"maxFileAge": _ANY_AGE, **_OPTIONS.get(self.format, {}), **self.options}


def _make_name_header() -> "Column":
    from pyspark.sql.functions import col, create_map, lit, replace, url_decode

    # Spark writes it as in an address.
    name = url_decode(replace(col("_metadata.file_name"), lit("+"), lit("%2B")))
    return create_map(lit(NAME_HEADER), name)


def import_(
    spark: "SparkSession",
    origin: Kafka | Files,
    to: HubFeed,
    *,
    checkpoint: str,
    layout: Layout = "raw",
    trigger: dict[str, Any] | None = None,
) -> "StreamingQuery":
    """Start publishing events of Kafka or files, each event once, and return the query.

    Args:
        spark: The session.
        origin: `Kafka` or `Files`. Headers of each event have its place there.
        to: The target feed.
        checkpoint: The directory for the query's progress: without it, all is published again.
        layout: The form of a record or line: `raw`, an event, byte for byte; `stream-span` or `summary`, which hold
            events of a stream.
        trigger: Arguments of `DataStreamWriter.trigger`; by default `availableNow`: the query ends after the present
            events.

    Raises:
        BadParameter: an option is missing, unknown or wrong.
        RequirementMissing: the session has no connector for Kafka.
    """
    if layout not in LAYOUTS:
        raise bad_option("layout", layout, ", ".join(LAYOUTS))
    if layout != "raw" and to.options.get("onInvalid", "fail") != "fail":
        raise bad_option("onInvalid", to.options["onInvalid"], "fail where the layout is not raw")
    from pyspark.sql.functions import count, lit

    events = _events(spark, origin) if layout == "raw" else _unpack(spark, origin, to.event_type)
    counted = events.observe(PUBLISHED, count(lit(1)).alias("events"))
    writer = to.publish(counted).option("checkpointLocation", checkpoint)
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def _events(spark: "SparkSession", origin: Kafka | Files) -> "DataFrame":
    if isinstance(origin, Files):
        return origin.events(spark)
    return origin.read(spark).withColumnRenamed("value", "data")


def _unpack(spark: "SparkSession", origin: Kafka | Files, event_type: str) -> "DataFrame":
    from penstock.spark.pipelines.spans import EVENTS, Unpacking

    if isinstance(origin, Files):
        if origin.format != "json":
            raise bad_option("format", origin.format, "json where the layout is not raw: each line is a record")
        records = origin.lines(spark)
    else:
        records = origin.read(spark)
    return records.mapInArrow(Unpacking(event_type), EVENTS)
