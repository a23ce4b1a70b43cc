"""Records: what a pipeline hands to where events go. A record has one event, or several of a stream.

| column | |
|---|---|
| `event_type`, `partition` | the feed and its partition, from where it comes |
| `key` | the event's key; of several events, the name of their stream |
| `value` | the event, byte for byte; or a StreamSpan or a summary: see `spans.py` |
| `headers` | those of the event, and its origin: see `origin.py` |
"""

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import pyarrow as pa

from penstock.spark.pipelines.origin import with_origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Layout: TypeAlias = Literal["raw", "stream-span", "summary"]
LAYOUTS: Final = ("raw", "stream-span", "summary")
RECORD_TYPES: Final = pa.schema(
    {
        "event_type": pa.string(),
        "partition": pa.int32(),
        "key": pa.string(),
        "value": pa.string(),
        "headers": pa.map_(pa.string(), pa.string()),
    }
)
SPARK_TYPES: Final = "event_type string, partition int, key string, value string, headers map<string,string>"
"""The same in Spark's words."""


def raw_records(events: "DataFrame") -> "DataFrame":
    """Return a record for each of *events*, which have the columns of a feed with its headers."""
    from pyspark.sql.functions import col

    value, headers = col("data").alias("value"), with_origin().alias("headers")
    return events.select("event_type", "partition", "key", value, headers)
