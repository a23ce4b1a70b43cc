"""The categories of a MessageDB as a source on Spark: each a tranche, whose indices are global positions."""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame

from penstock.core.log.start import Word
from penstock.core.times import format_duration
from penstock.errors import Unavailable
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_kind, check_name, check_seconds, check_texts
from penstock.processing.sources.categories import FIRST, CategoryRange
from penstock.spark.foreign.messagedb import CategoryQuery, MessageDatabase
from penstock.spark.foreign.query import parse_query
from penstock.spark.processors.sources.frames import FrameSource, Head
from penstock.spark.processors.sources.source import TrancheRange

__all__ = ["SparkMessagedbSource"]

_ROWS: Final = (
    "category AS tranche",
    "stream",
    "global_position AS offset",
    "nullif(substr(stream, length(category) + 2), '') AS key",
    "kind",
    # Values that are no texts become their JSON.
    "to_json(map_filter(from_json(metadata, 'map<string,string>'), (_, text) -> text IS NOT NULL)) AS headers",
    "coalesce(data, 'null') AS data",
    "unix_micros(received_at) AS received",
)


class SparkMessagedbSource(FrameSource):
    """Categories of a MessageDB. A category is a tranche, and its streams are streams, by their own names.

    An event's index is its global position, which grows within a category and so within a stream, with holes; `key` is
    what stands behind the first dash of the stream's name, `headers` its metadata. No event is skipped: see
    `penstock.processing.sources.categories`.

    Args:
        url: Of the database, as the driver and executors reach it.
        categories: Which, at least one.
        start: Where a processor begins that has no position: at the `earliest` event, or behind the `latest` there is.
        schema: In which MessageDB is installed.
        retry_timeout: Seconds for which a database is asked again that does not answer.

    Raises:
        BadParameter: one of them is none; or (whatever reads) there is no MessageDB.
        DatabaseUnavailable: (whatever reads) it has not answered for too long.
        ModuleNotFoundError: psycopg is missing.
    """

    def __init__(
        self,
        url: str,
        *categories: str,
        start: Word = "earliest",
        schema: str = "message_store",
        retry_timeout: float = 60.0,
    ) -> None:
        super().__init__(start)
        check_kind("url", url, str, "postgresql://…")
        check_texts("categories", categories)
        check_name("schema", schema)
        check_seconds("retry_timeout", retry_timeout, zero=True)
        self._options = {"url": url, "schema": schema, "retryTimeout": format_duration(retry_timeout)}
        chosen = parse_query(CategoryQuery, {**self._options, "category": ",".join(categories)})
        self._categories = chosen.category
        self._database = MessageDatabase(chosen)
        self._turn = threading.Lock()
        """Guards the connection."""

    def heads(self) -> Mapping[str, Head]:
        """Look where the categories end now."""
        with self._turn:
            return {name: Head(FIRST, next_) for name, next_ in self._database.list_heads(self._categories).items()}

    def stretch(self, tranche: str, start: int, end: int, events_max: int) -> TrancheRange | None:
        """Return a range of at most *events_max* events of a category from a global position on."""
        whole = CategoryRange(tranche, start, end)
        with self._turn:
            events = self._database.count(whole, events_max + 1)
            cut = end if events <= events_max else self._database.find_behind(whole, events_max)
        return TrancheRange(tranche, start, cut, min(events, events_max), position=cut, is_tail=cut == end)

    def rows(self, stretches: Sequence[TrancheRange]) -> DataFrame:
        """Return the events of stretches."""
        options = {
            "category": ",".join(each.tranche for each in stretches),
            "startingOffsets": json.dumps({each.tranche: each.start for each in stretches}),
            "endingOffsets": json.dumps({each.tranche: each.end for each in stretches}),
        }
        return self.spark.read.format("messagedb").options(**self._options, **options).load().selectExpr(*_ROWS)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each category has behind its position now.

        Raises:
            Unavailable: the source is closed.
        """
        with self._turn:
            if self._closed.is_set():  # Else the connection would be opened again.
                raise Unavailable(reason="the source is closed")
            return {
                name: self._database.count(CategoryRange(name, int(positions.get(name, FIRST)), next_))
                for name, next_ in self._database.list_heads(self._categories).items()
            }

    def close(self) -> None:
        """End; who is reading is woken."""
        super().close()
        with self._turn:
            self._database.close()
