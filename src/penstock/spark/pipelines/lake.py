"""Exports feeds to a lake: a small number of partitioned files, with each event once.

A micro-batch has folders of its own, which a repeated micro-batch overwrites:

    LAKE/event_type=order.placed/date=2026-11-20/batch=7d3f21c0-000000000042/part-….parquet

So all readers of the lake see each event once, without reading Spark's log of written files. A table of Delta has a
log, which keeps the query and the number of its last micro-batch.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import BadParameter
from penstock.spark.laptop import check_format
from penstock.spark.options import bad_option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMATS: Final = ("parquet", "delta")
EXPORTS: Final = ("parquet", "json", "csv", "orc")
CSV: Final = {
    "header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false",
}  # fmt: skip
DELTA: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
"""The package that adds Delta Lake to a session, in the version that is tested."""
PLACED_BY: Final = ("event_type", "date")
"""The columns by which a lake is partitioned, before the batch."""
BATCH: Final = "batch"
CHECKPOINT: Final = "_checkpoint"
"""Within the lake: what reads it passes over names with an underline."""
EVENTS_MIN: Final = "100000"
"""Of a micro-batch, unless that would take longer than `maxTriggerDelay`: files are worth their name then."""


def ingest(
    spark: "SparkSession",
    path: str,
    *,
    format: str = "parquet",
    checkpoint: str | None = None,
    trigger: dict[str, Any] | None = None,
    **source: str,
) -> "StreamingQuery":
    """Begin to write feeds into a lake, each event once, and return the query.

    Args:
        spark: The session.
        path: Of the lake: any that Spark can write to. It need not be there yet.
        format: `parquet`, or `delta` where the session has it.
        checkpoint: Where the query keeps how far it is; by default in the lake, which it belongs to: without it, all is
            written again.
        trigger: When, as `DataStreamWriter.trigger` takes it; by default what there is now, and then no more.
        source: The options of the source, such as `url` and `eventType`. Unless `startingOffsets` says otherwise, a
            new query starts at the earliest event. Unless `minEventsPerTrigger` says otherwise, a micro-batch waits for
            100 000 events, up to `maxTriggerDelay`.

    Raises:
        BadParameter: an option is missing, unknown or wrong.
        RequirementMissing: the session has no Delta.
    """
    if format not in FORMATS:
        raise bad_option("format", format, ", ".join(FORMATS))
    if format == "delta":
        check_format(spark, format, f"PySpark 4.2, the newest that it has come to, and spark.jars.packages={DELTA}")
    kept = checkpoint or f"{path.rstrip('/')}/{CHECKPOINT}"
    options = {"startingOffsets": "earliest", "minEventsPerTrigger": EVENTS_MIN, **source}
    events = add_day(spark.readStream.format("penstock").options(**options).load())
    write = _into_delta(path, kept) if format == "delta" else _into_files(path, kept, format)
    writer = events.writeStream.foreachBatch(write).option("checkpointLocation", kept)
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def export(spark: "SparkSession", path: str, *, format: str = "parquet", overwrite: bool = False, **source: str) -> int:
    """Write a feed's events between two places to files, and return their number.

    Args:
        spark: The session.
        path: The path of the files: any that Spark can write to.
        format: `parquet`, `json`, `csv` or `orc`.
        overwrite: Replace existing files; otherwise *path* must not exist.
        source: The options of the source, such as `url`, `eventType`, `startingOffsets` and `endingOffsets`.

    Raises:
        BadParameter: an option is missing, unknown or wrong.
        pyspark.errors.AnalysisException: *path* exists.
    """
    if format not in EXPORTS:
        raise bad_option("format", format, ", ".join(EXPORTS))
    payload = {name.lower(): value for name, value in source.items()}.get("payload", "json")
    if format == "csv" and payload.strip().lower() != "json":
        raise bad_option("payload", payload, "json for files of format csv, which has no columns in columns")
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    events = spark.read.format("penstock").options(**source).load()
    seen = Observation()
    counted = events.observe(seen, count(lit(1)).alias("events"))
    writer = counted.write.format(format).mode("overwrite" if overwrite else "error")
    writer.options(**(CSV if format == "csv" else {})).save(path)
    return int(seen.get["events"])


def add_day(events: "DataFrame") -> "DataFrame":
    """Return *events* with the day, in the session's time zone, on which each was received."""
    from pyspark.sql.functions import col, to_date

    return events.withColumn("date", to_date(col("received_at")))


Write = Callable[["DataFrame", int], None]


def _into_files(path: str, checkpoint: str, format: str) -> Write:
    query = _query(checkpoint)

    def write(events: "DataFrame", number: int) -> None:
        from pyspark.sql.functions import lit

        batch = lit(f"{query(events.sparkSession)[:8]}-{number:012}")
        writer = events.withColumn(BATCH, batch).write.format(format).partitionBy(*PLACED_BY, BATCH)
        writer.mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)

    return write


def _into_delta(path: str, checkpoint: str) -> Write:
    query = _query(checkpoint)

    def write(events: "DataFrame", number: int) -> None:
        named = {"txnAppId": query(events.sparkSession), "txnVersion": str(number)}
        events.write.format("delta").partitionBy(*PLACED_BY).mode("append").options(**named).save(path)

    return write


def _query(checkpoint: str) -> "Callable[[SparkSession], str]":
    """Return what tells the id of the query whose *checkpoint* this is; it is looked up once."""
    known: list[str] = []

    def query(spark: "SparkSession") -> str:
        if not known:
            known.append(query_of(spark, checkpoint))
        return known[0]

    return query


def query_of(spark: "SparkSession", checkpoint: str) -> str:
    """Return the id of the query whose *checkpoint* this is: that of all its runs."""
    told = spark.read.text(f"{checkpoint}/metadata").first()
    if told is None:
        raise BadParameter(f"there is no query's id in {checkpoint}/metadata", parameter="checkpoint", value=checkpoint)
    return str(json.loads(told[0])["id"])
