"""Events from other places into a feed: from Kafka and from files."""

from typing import TYPE_CHECKING, Any

from penstock.spark.options import bad_option
from penstock.spark.pipelines.feed import HubFeed
from penstock.spark.pipelines.files import Files
from penstock.spark.pipelines.kafka import Kafka
from penstock.spark.pipelines.records import LAYOUTS, Layout
from penstock.spark.pipelines.watching import PUBLISHED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def import_(
    spark: "SparkSession",
    origin: Kafka | Files,
    to: HubFeed,
    *,
    checkpoint: str,
    layout: Layout = "raw",
    trigger: dict[str, Any] | None = None,
) -> "StreamingQuery":
    """Begin to publish what comes from elsewhere, each event once, and return the query.

    Args:
        spark: The session.
        origin: Where from: `Kafka` or `Files`. Headers of each event say from which place it is.
        to: The feed.
        checkpoint: Where the query keeps how far it is: without it, all is published again.
        layout: What a record, or a line, is: `raw`, an event, byte for byte; `stream-span` or `summary`, which hold
            events of a stream.
        trigger: When, as `DataStreamWriter.trigger` takes it; by default what there is now, and then no more.

    Raises:
        BadParameter: something is missing, unknown or wrong.
        RequirementMissing: the session has no connector for Kafka.
    """
    if layout not in LAYOUTS:
        raise bad_option("layout", layout, ", ".join(LAYOUTS))
    if layout != "raw" and to.options.get("onInvalid", "fail") != "fail":
        raise bad_option("onInvalid", to.options["onInvalid"], "fail where the layout is not raw")
    from pyspark.sql.functions import count, lit

    events = _events(spark, origin) if layout == "raw" else _unpacked(spark, origin, to.event_type)
    counted = events.observe(PUBLISHED, count(lit(1)).alias("events"))
    writer = to.publish(counted).option("checkpointLocation", checkpoint)
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def _events(spark: "SparkSession", origin: Kafka | Files) -> "DataFrame":
    if isinstance(origin, Files):
        return origin.events(spark)
    return origin.read(spark).withColumnRenamed("value", "data")


def _unpacked(spark: "SparkSession", origin: Kafka | Files, event_type: str) -> "DataFrame":
    from penstock.spark.pipelines.unpacking import EVENTS, Unpacking

    if isinstance(origin, Files):
        if origin.format != "json":
            raise bad_option("format", origin.format, "json where the layout is not raw: each line is a record")
        records = origin.lines(spark)
    else:
        records = origin.read(spark)
    return records.mapInArrow(Unpacking(event_type), EVENTS)
