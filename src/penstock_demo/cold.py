"""The year's first eleven months in the cold tier: sealed while the hub runs, and read across by Spark and DuckDB."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.compute as pc

from penstock.cli.failures import CommandFailure
from penstock.hub.background import system_clock
from penstock.hub.cold.files import list_files
from penstock.hub.cold.sealing import SealingOptions
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock_demo.dataset import DEPARTED, Series

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAST_MONTH: Final = "2013-12"
"""Its flights are published once the others are sealed."""
_MONTH: Final = """
    SELECT strftime(typed.scheduled_departure AT TIME ZONE 'UTC', '%Y-%m') AS month, count(*)
    FROM read_parquet(?) GROUP BY ALL
"""


class ColdHistory(NamedTuple):
    """The content of the cold tier, and the number of events read across it."""

    events: int
    files: int
    data_bytes: int
    file_bytes: int
    read_by_spark: int
    """Events that Spark has read, from files and from the hub."""
    read_by_duckdb: int
    """Events that DuckDB has read from the files."""


def place_of(directory: Path) -> Path:
    """Return the directory of the cold tier."""
    return (directory / "cold").absolute()


def serve_options(directory: Path) -> Sequence[str]:
    """Return the options of a hub with the cold tier, which seals nothing by itself: that is done here."""
    return ["--cold", place_of(directory).as_uri(), "--cold-after", "never"]


def first_months(series: Sequence[Series]) -> list[Series]:
    """Return *series* without the flights of the last month; of a part of the year, without its last twelfth."""
    found = []
    for each in series:
        table = each.table
        if each.event_type == DEPARTED:
            times = sorted(table["scheduled_departure"].to_pylist())
            end = LAST_MONTH if times[-1] >= LAST_MONTH else times[len(times) * 11 // 12]
            table = table.filter(pc.less(table["scheduled_departure"], end))
        found.append(replace(each, table=table))
    return found


def seal_departures(database: str, directory: Path) -> int:
    """Seal the departures that have been published, beside the hub that runs; return how many there were."""
    hub = Hub(open_store(database, place_of(directory).as_uri()), clock=system_clock, sealing=SealingOptions(0.0))
    try:
        while hub.cold.sealer.run([DEPARTED]):
            pass
        return hub.cold.sealer.sealed.total()
    finally:
        hub.stop()


def read_across(
    spark: "SparkSession", database: str, directory: Path, flights: "DataFrame", **options: str
) -> ColdHistory:
    """Read the departures by month, with Spark across files and hub, and with DuckDB from the files.

    *flights* are those of the lake. *options* are those of `format("penstock")`.

    Raises:
        CommandFailure: they have not found the same.
    """
    import duckdb
    from pyspark.sql import functions as f

    place = place_of(directory)
    store = open_store(database)
    try:
        files = [each.file for each in list_files(store, DEPARTED)]
    finally:
        store.close()
    source = spark.read.format("penstock").schema("data struct<scheduled_departure: timestamp>")
    source = source.options(eventType=DEPARTED, coldTier=place.as_uri(), payload="typed", **options)
    month = f.substring("data.scheduled_departure", 1, 7).alias("month")
    across = _counts(source.load().groupBy(month).count())
    expected = _counts(flights.groupBy(month).count())
    with duckdb.connect() as connection:
        rows = connection.execute(_MONTH, [[str(place / each.path) for each in files]]).fetchall() if files else []
    sealed = dict(rows)
    if across != expected:
        raise CommandFailure(f"Spark has read other flights across the cold tier: {across} instead of {expected}")
    events = sum(each.content.events for each in files)
    if sum(sealed.values()) != events or any(count > expected.get(month, 0) for month, count in sealed.items()):
        raise CommandFailure(f"DuckDB has read other flights from the cold tier: {sealed}, of {expected}")
    return ColdHistory(
        events,
        len(files),
        sum(each.content.data_bytes for each in files),
        sum(each.file_bytes for each in files),
        sum(across.values()),
        sum(sealed.values()),
    )


def _counts(rows: "DataFrame") -> dict[str, int]:
    return {row[0]: row[1] for row in rows.collect()}
