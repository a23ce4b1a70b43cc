"""The delay of each carrier on each day: a feed derived from the flights' feed, with each change once.

Spark's state keeps the sums of a carrier's day, which grow with each micro-batch that has flights of it. The new sums
are published as a data change: no day needs to be closed, and flights may come in any order. The last change of a day
holds the sums of all of its flights.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.cli.failures import CommandFailure
from penstock_demo.dataset import DEPARTED, LATE_MINUTES, event_id

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

DAILY: Final = "delays.daily"
GROUP: Final = "delays:daily"
MICRO_BATCH: Final = 100_000
"""Flights at once; so there are several micro-batches in a year, and one sees how far it is."""
DAY: Final = ["carrier", "day"]
SUMS: Final = ["flights", "cancelled", "delay_minutes", "late"]
_STATE: Final = ", ".join(f"{name} BIGINT" for name in SUMS)
_CHANGE: Final = f"eid STRING, data_op STRING, carrier STRING, day DATE, {_STATE}"


class FeedSummary(NamedTuple):
    """Counts of the feed's changes and days."""

    changes: int
    days: int
    """Each of them of one carrier."""


def publish(spark: "SparkSession", checkpoint: str, **hub: str) -> "StreamingQuery":
    """Begin to publish what changes by the flights that are new in their feed, and return the query.

    Args:
        spark: The session.
        checkpoint: Where the query keeps how far it is, and its sums.
        hub: The options that say where the hub is, and with which token it is asked.
    """
    flights = (
        spark.readStream.format("penstock")
        .options(**hub, eventType=DEPARTED, payload="typed", startingOffsets="earliest")
        .options(consumerGroup=GROUP, maxEventsPerTrigger=MICRO_BATCH)
        .load()
    )
    return (
        changes(flights)
        .writeStream.format("penstock")
        .options(**hub, eventType=DAILY)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def changes(flights: "DataFrame") -> "DataFrame":
    """Return the data changes that a stream of *flights* leads to."""
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.state import GroupStateTimeout

    changed = _measured(flights).groupBy(*DAY).applyInPandasWithState(
        add_up, _CHANGE, _STATE, "append", GroupStateTimeout.NoTimeout
    )  # fmt: skip
    data = f.struct(f.lit("delays").alias("data_type"), "data_op", f.struct(*DAY, *SUMS).alias("data"))
    # In a stream this is the time of the micro-batch, also when that is run again.
    metadata = f.struct("eid", f.current_timestamp().alias("occurred_at"))
    return changed.select(data.alias("data"), metadata.alias("metadata"))


def add_up(key: tuple[Any, ...], flights: "Iterable[pd.DataFrame]", state: "GroupState") -> "Iterator[pd.DataFrame]":
    """Add the *flights* of a micro-batch to the sums of their carrier's day, and yield how it has changed."""
    import pandas as pd

    known = state.getOption
    sums = dict(zip(SUMS, known or [0] * len(SUMS), strict=True))
    for part in flights:
        for name in SUMS:
            sums[name] += int(part[name].sum())
    state.update(tuple(sums.values()))
    carrier, day = key
    eid = event_id(DAILY, f"{carrier} {day} {sums['flights']}")
    yield pd.DataFrame([{"eid": eid, "data_op": "U" if known else "C", "carrier": carrier, "day": day, **sums}])


def summed(flights: "DataFrame") -> "DataFrame":
    """Return what a table of *flights* adds up to, for each carrier and day."""
    from pyspark.sql import functions as f

    return _measured(flights).groupBy(*DAY).agg(*(f.sum(name).alias(name) for name in SUMS))


def told(spark: "SparkSession", url: str, **hub: str) -> "DataFrame":
    """Return what the feed has said of each carrier and day: how many changes, how many of them differ, the last."""
    from pyspark.sql import functions as f

    feed = spark.read.format("penstock").options(url=url, **hub, eventType=DAILY, payload="typed").load()
    by_day = feed.groupBy(*(f"data.data.{name}" for name in DAY))
    different = f.count_distinct("data.metadata.eid").alias("different")
    # Those of a carrier are in one partition, whose offsets tell their order.
    told = by_day.agg(f.count("*").alias("changes"), different, f.max_by("data.data", "offset").alias("last"))
    return told.select(*DAY, *(f"last.{name}" for name in SUMS), "changes", "different")


def check_daily(told: "DataFrame", flights: "DataFrame") -> FeedSummary:
    """Return what the feed has *told*, where that is true: what the *flights* add up to, each change once.

    Raises:
        CommandFailure: it is not.
    """
    days = {(row["carrier"], row["day"]): row for row in told.collect()}
    if twice := [day for day, row in days.items() if row["changes"] != row["different"]]:
        raise CommandFailure(f"the feed {DAILY} says changes of {len(twice)} carriers' days more than once")
    last = {day: tuple(row[name] for name in SUMS) for day, row in days.items()}
    true = {(carrier, day): tuple(sums) for carrier, day, *sums in summed(flights).collect()}
    if wrong := {day for day in last.keys() | true.keys() if last.get(day) != true.get(day)}:
        raise CommandFailure(
            f"what {DAILY} says of {len(wrong)} carriers' days is not what their flights in the lake add up to"
        )
    return FeedSummary(sum(row["changes"] for row in days.values()), len(days))


def _measured(flights: "DataFrame") -> "DataFrame":
    """Return of each flight what is added up."""
    return flights.selectExpr(
        "data.carrier",
        "make_date(data.year, data.month, data.day) AS day",
        "1 AS flights",
        "CAST(data.dep_delay IS NULL AS INT) AS cancelled",
        "coalesce(data.dep_delay, 0) AS delay_minutes",
        f"CAST(coalesce(data.dep_delay, 0) > {LATE_MINUTES} AS INT) AS late",
    )
