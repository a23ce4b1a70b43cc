"""Where a forwarded record comes from: headers by which whoever reads it recognises a repeat.

| header | of one event | of several, in JSON |
|---|---|---|
| feed | `penstock-feed` | `penstock-feed` |
| partition | `penstock-partition` | `penstock-partition` |
| offset | `penstock-offset` | `penstock-offsets` |
| id, where the events have one | `penstock-id` | `penstock-ids` |

They take the place of those that an event brought along from where it was forwarded before.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import Column

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
