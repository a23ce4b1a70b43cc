"""Rows that are to be published in mode direct, laid out for that by the driver."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from penstock.spark.layout import PARTITION, Layout, laid_schema
from penstock.spark.naming import named
from penstock.spark.publishing import HubBatches
from penstock.spark.registry import decimals_as_text
from penstock.spark.routing import routing_of
from penstock.spark.rows import EVENT_COLUMNS, EventRows
from penstock.spark.sink_options import as_given, parse_sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def direct(
    rows: "DataFrame", *, orderBy: str | Sequence[str] = (), **options: str
) -> "DataStreamWriter | DataFrameWriter":
    """Return Spark's writer of *rows*, a stream's or a batch's, that publishes them in mode direct.

    Rows are laid out by the partition of the feed that they fall in, with one task for each at most.

    Args:
        rows: With the columns of an event, and those to sort by.
        orderBy: Columns by which the events of a partition are sorted within a batch, separated by commas; events that
            have the same values there are sorted by their bytes.
        options: Those of the format, such as `url` and `eventType`.

    Raises:
        BadParameter: an option is missing, unknown or wrong, or there is no such column.
        EventTypeNotFound: there is none of that name.
        Unreachable, Unavailable: the hub has not answered for too long.
    """
    chosen = parse_sink_options({**options, "mode": "direct"})
    chosen = chosen if rows.isStreaming else named(chosen)
    orders = [name.strip() for name in orderBy.split(",")] if isinstance(orderBy, str) and orderBy else list(orderBy)
    laid = laid_schema(rows.schema, orders)
    ours = [field for field in rows.schema.fields if field.name in EVENT_COLUMNS or field.name not in orders]
    hub = HubBatches(chosen.url, chosen.retry_timeout, chosen.credential)
    event_type = hub.event_type(chosen.event_type)
    as_text = decimals_as_text(StructType(ours), lambda: event_type)
    events = EventRows(StructType(ours), chosen.event_type, rejects=False, as_text=as_text)
    layout = Layout(chosen, events, routing_of(chosen.event_type, event_type), orders)
    tasks = min(
        int(event_type["partition_count"]), int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    )
    lines = rows.mapInArrow(layout, laid).repartitionById(tasks, PARTITION)
    writer = lines.writeStream if rows.isStreaming else lines.write.mode("append")
    return writer.format("penstock").options(**as_given(chosen))
