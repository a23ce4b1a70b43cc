"""Records: what a pipeline hands to where events go. A record has one event, or several of a stream.

| column | |
|---|---|
| `event_type`, `partition` | the feed and its partition, from where it comes |
| `key` | the event's key; of several events, the name of their stream |
| `value` | the event, byte for byte; or a StreamSpan or a summary: see `spans.py` |
| `headers` | those of the event, and its origin: see `origin.py` |
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Column
if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEED: Final = "penstock-feed"
PARTITION: Final = "penstock-partition"
OFFSET: Final = "penstock-offset"
OFFSETS: Final = "penstock-offsets"
ID: Final = "penstock-id"
IDS: Final = "penstock-ids"
NAMES: Final = (FEED, PARTITION, OFFSET, OFFSETS, ID, IDS)
ID_HEADER: Final = "ce_id"
"""The header of an event in which its id is."""


def with_origin() -> "Column":
    """Return the column of headers of one event each: its own, and its origin."""
    from pyspark.sql.functions import coalesce, col, create_map, lit, map_concat, map_filter

    origin = create_map(
        *(lit(FEED), col("event_type")),
        *(lit(PARTITION), col("partition").cast("string")),
        *(lit(OFFSET), col("offset").cast("string")),
        *(lit(ID), col("headers")[ID_HEADER]),
    )
    own = map_filter(
        coalesce(col("headers"), create_map().cast("map<string,string>")), lambda name, _: ~name.isin(*NAMES)
    )
    return map_concat(own, map_filter(origin, lambda _, value: value.isNotNull()))


def origin_of(feed: str, partition: int, offsets: Sequence[int], ids: Sequence[str | None]) -> dict[str, str]:
    """Return the origin of a record of several events.

    >>> origin_of("order.placed", 0, [7, 9], ["a", "b"])["penstock-offsets"]
    '[7,9]'
    """
    found = {FEED: feed, PARTITION: str(partition), OFFSETS: msgspec.json.encode(offsets).decode()}
    return found | ({IDS: msgspec.json.encode(ids).decode()} if any(ids) else {})


def without_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that an event has of its own."""
    return {name: value for name, value in headers.items() if name not in NAMES}


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
