"""Feeds to other places: to Kafka, to another hub, to a Nakadi."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from penstock.spark.options import bad_option, parse_options
from penstock.spark.pipelines.feed import HubFeed
from penstock.spark.pipelines.records import LAYOUTS, SPARK_TYPES, Layout, raw_records
from penstock.spark.publishing import HubBatches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OURS = {"payload": "json", "includeHeaders": "true", "splitPartitions": "false"}
"""The options of the source that forwarding depends on: the order within a partition is that of one task."""


class RecordTarget(Protocol):
    """Where records go."""

    def write(self, records: "DataFrame") -> "DataStreamWriter":
        """Return what sends *records*, in the columns of `records.py`."""


def forward(
    spark: "SparkSession",
    to: RecordTarget,
    *,
    checkpoint: str,
    layout: Layout = "raw",
    index: str | None = None,
    trigger: dict[str, Any] | None = None,
    **source: str,
) -> "StreamingQuery":
    """Start forwarding feeds, byte for byte and in order within a partition, and return the query.

    Every record has its origin in headers: feed, partition, offset and id of its events.

    Args:
        spark: The session.
        to: The target: `Kafka` or `Nakadi`, which get each event at least once, or the `HubFeed` of another hub, once.
        checkpoint: The directory for the query's progress: without it, all is sent again.
        layout: The form of a record: `raw`, one event, unchanged; `stream-span`, events of a stream that follow each
            other; `summary`, the newest event of a stream in a part of a micro-batch.
        index: Of spans and summaries: the member of the events, such as `version` or `order.version`, that is their
            index in their stream. By default that is their offset; of the events of a span, the last one's is.
        trigger: Arguments of `DataStreamWriter.trigger`; by default `availableNow`: the query ends after the present
            events.
        source: The options of the source, such as `url` and `eventType`. Unless `startingOffsets` says otherwise, a
            new query starts at the earliest event.

    Raises:
        BadParameter: an option is missing, unknown or wrong.
        EventTypeNotFound: a feed does not exist.
        RequirementMissing: the session has no connector for Kafka.
    """
    if layout not in LAYOUTS:
        raise bad_option("layout", layout, ", ".join(LAYOUTS))
    if index is not None and layout == "raw":
        raise bad_option("index", index, "with layout stream-span or summary: a raw record has no index")
    given = {name.lower(): value for name, value in source.items()}
    for name, value in _OURS.items():
        if given.get(name.lower(), value).lower() != value:
            raise bad_option(name, given[name.lower()], f"{value}: forwarding depends on it")
    check_forwarding(to, source)
    events = spark.readStream.format("penstock").options(**{"startingOffsets": "earliest", **source, **_OURS}).load()
    records = raw_records(events) if layout == "raw" else _group_spans(events, layout, index, source)
    writer = to.write(records).option("checkpointLocation", checkpoint)
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def check_forwarding(to: RecordTarget, source: Mapping[str, str]) -> None:
    """Refuse to forward a feed to itself, which would never end.

    Raises:
        BadParameter: that is what is asked for.
    """
    options = parse_options(source)
    if isinstance(to, HubFeed) and to.url.rstrip("/") == options.url and to.event_type in options.event_types:
        raise bad_option("eventType", to.event_type, "another feed than the one that is read, which would never end")


def _group_spans(events: "DataFrame", layout: Any, index: str | None, source: dict[str, str]) -> "DataFrame":
    from penstock.spark.pipelines.spans import Spans

    options = parse_options(source)
    hub = HubBatches(options.url, options.retry_timeout, options.credential)
    strategies = {each: hub.event_type(each)["partition_strategy"] for each in options.event_types}
    hashed = frozenset(each for each, strategy in strategies.items() if strategy == "hash")
    spans = Spans(layout, hashed, tuple(index.split(".")) if index else ())
    return events.mapInArrow(spans, SPARK_TYPES)
