"""Any data frame that can be read again as a source on Spark: a table, files, a lake."""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)  # fmt: skip

from penstock.core.log.start import Word
from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_flag, check_function, check_kind
from penstock.spark.processors.sources.frames import COLUMNS, LOOK_INTERVAL, FrameSource, Head
from penstock.spark.processors.sources.source import TrancheRange

__all__ = ["TableSource"]

BUCKETS = 4096
"""The approximate number of parts into which a range of indices is divided."""


class IndexHistogram:
    """Counts of events in ranges of indices.

    Args:
        start: From where on they are counted.
        end: Up to where.
        counts: By the index at which a range begins; ranges without events may be left out.
    """

    def __init__(self, start: int, end: int, counts: Mapping[int, int]) -> None:
        self.start = start
        self.end = end
        self._firsts = sorted(counts)
        self._counts = [counts[first] for first in self._firsts]

    def cut(self, start: int, most: int) -> tuple[int, int]:
        """Return up to where there are at most *most* events from *start* on, and how many these are.

        *start* is where a range begins, or where it is counted from on. Where the first range alone has too many, that
        is where it begins, so there are none.

        >>> found = IndexHistogram(0, 30, {0: 4, 10: 5, 20: 2})
        >>> found.cut(0, 9), found.cut(20, 9), found.cut(0, 3)
        ((20, 9), (30, 2), (0, 0))
        """
        at, events = bisect_left(self._firsts, start), 0
        while at < len(self._firsts):
            if events + self._counts[at] > most:
                return self._firsts[at], events
            events += self._counts[at]
            at += 1
        return self.end, events

    def knows(self, start: int) -> bool:
        """Tell whether it can be cut from *start* on."""
        at = bisect_left(self._firsts, start)
        return start == self.start or (at < len(self._firsts) and self._firsts[at] == start)

    def range_at(self, start: int) -> tuple[int, int]:
        """Return the range with events that begins at *start* or behind it: where, and where the next one does."""
        at = bisect_left(self._firsts, start)
        following = self._firsts[at + 1] if at + 1 < len(self._firsts) else self.end
        return self._firsts[at], following


def width_of(start: int, end: int) -> int:
    """Return how wide the ranges are in which events are counted.

    >>> width_of(0, 10), width_of(0, 4097)
    (1, 2)
    """
    return -(-(end - start) // BUCKETS)


Given: TypeAlias = str | Column
KIND: Final = "event"
"""The default kind of events."""
WHOLE: Final = "struct(*)"
"""The row itself."""


def column(frame: DataFrame, given: Given) -> Column:
    """Return a column of *frame*, or what an expression makes of its columns."""
    if isinstance(given, str):
        return frame[f"`{given}`"] if given in frame.columns else sf.expr(given)
    return given


def index_column(frame: DataFrame, given: Given) -> Column:
    """Return the index.

    Raises:
        BadParameter: it is no whole number.
    """
    found = column(frame, given)
    kind = frame.select(found).schema[0].dataType
    if not isinstance(kind, IntegralType):
        allowed = "whole numbers from 0, such as bigint; of a time from 1970 on, unix_micros(…)"
        raise BadParameter(parameter="index", value=kind.simpleString(), allowed=allowed)
    return found


def tranche_name(columns: Sequence[Column]) -> Column:
    """Return what a tranche is called: the values of its columns, `order.placed/3`."""
    if not columns:
        return sf.lit("0")
    return sf.concat_ws("/", *(sf.coalesce(each.cast("string"), sf.lit("null")) for each in columns))


def stream_column(found: Column, tranche: Column, *, is_hashed: bool) -> Column:
    """Return what a stream is called: itself, or with its tranche where it can lie in several."""
    own = sf.concat(tranche, sf.lit("_"), sf.coalesce(found.cast("string"), sf.lit("")))
    return sf.coalesce(found.cast("string"), own) if is_hashed else own


def data_column(frame: DataFrame, given: Given) -> Column:
    """Return the event's JSON: texts and bytes as they are, structs, maps and arrays as Spark makes JSON of them.

    Raises:
        BadParameter: it is a value alone.
    """
    found = column(frame, given)
    kind = frame.select(found.alias("data")).schema[0].dataType
    if isinstance(kind, StringType | BinaryType):
        made = found.cast("string")
    elif isinstance(kind, StructType | MapType | ArrayType):
        made = sf.to_json(found)
    else:
        allowed = "JSON as a text or bytes, or a struct, a map or an array, such as struct(*)"
        raise BadParameter(parameter="data", value=kind.simpleString(), allowed=allowed)
    return sf.coalesce(made, sf.lit("null"))


def headers_column(frame: DataFrame, given: Given | None) -> Column:
    """Return the headers as a JSON object, from a map, a struct or a JSON text.

    Raises:
        BadParameter: they have another type.
    """
    if given is None:
        return sf.lit(None).cast("string")
    found = column(frame, given)
    kind = frame.select(found.alias("headers")).schema[0].dataType
    if isinstance(kind, MapType):
        return sf.to_json(sf.map_filter(found.cast("map<string,string>"), lambda _, text: text.isNotNull()))
    if isinstance(kind, StringType):
        return found
    raise BadParameter(parameter="headers", value=kind.simpleString(), allowed="a map, or a JSON object of texts")


def choose_received(frame: DataFrame, given: Given | None) -> Column:
    """Return when the event was received, in microseconds since 1970.

    Raises:
        BadParameter: it is no time, and no such number.
    """
    if given is None:
        return sf.lit(None).cast("bigint")
    found = column(frame, given)
    kind = frame.select(found.alias("received")).schema[0].dataType
    if isinstance(kind, TimestampType | TimestampNTZType):
        return sf.unix_micros(found.cast("timestamp"))
    if isinstance(kind, LongType):
        return found
    raise BadParameter(
        parameter="received", value=kind.simpleString(), allowed="a timestamp, or microseconds as bigint"
    )


COLUMN: Final = "a column's name, an expression of Spark's, or a Column"
Frame: TypeAlias = DataFrame | Callable[[SparkSession], DataFrame]


class _Counted(NamedTuple):
    first: int
    next: int
    events: int

    @property
    def is_full(self) -> bool:
        """Return whether every index is present."""
        return self.events == self.next - self.first


class _Behind(NamedTuple):
    at: float
    positions: Mapping[str, Position]
    gaps: Mapping[str, int | None]

    def holds(self, positions: Mapping[str, Position], now: float) -> bool:
        """Return whether it is recent enough for *positions*. Waits look often, and an empty result must be fresh."""
        return positions == self.positions and any(self.gaps.values()) and now - self.at < LOOK_INTERVAL


class TableSource(FrameSource):
    """The rows of a data frame: of a lake, of files, of any batch source of Spark that can be read again.

    Rows are events. Those of a stream are handled in the order of their index within a tranche.

    **Later rows must have a larger index** than all rows that were visible before in their tranche. Rows that are added
    below are never read, without an error. Tables to which one writer appends are so, and those whose commits become
    visible as a whole, such as Delta's, written in order. A table whose indices are drawn before a transaction commits,
    as by a sequence of a database, is not; nor are files that several write at once. Where indices have no holes
    (`has_holes=False`) it does not matter: at a hole a tranche is read no further until it is filled. A row that is
    there twice, of the same index, kind and data, is one event; an index that is of two events of a stream is an error.
    Rows without an index are not read. Rows that are deleted or changed before they are read are read in their new
    state.

    Each round asks Spark for the ends of tranches, by a query of tranches and indices alone, and filters its reads by
    these columns. So a table is cheap to follow if Spark can skip files by them: partitioned by the tranche, or with
    files in the order of the index. Sources that only stream, such as sockets, cannot be read again: bring them into a
    feed first.

    Args:
        frame: A function that makes the data frame, called in each round, so that new rows are seen; or a data frame,
            which keeps its list of files.
        index: The column, or expression of Spark's, with a row's place in its tranche: a whole number from 0.
        stream: A row's stream. Rows without one form a stream in each tranche.
        tranche: A row's tranche, as a column or several: `["event_type", "partition"]` are `order.placed/3`. Columns of
            their own are filtered by faster than expressions. Without it the table is one tranche, `0`.
        is_hashed: True if all rows of a stream are in the same tranche. Otherwise its rows in each tranche form a
            stream, `3_Ada`. With one tranche it does not matter.
        key: The event's key; by default its stream.
        kind: The event's kind; by default `event`.
        data: The event's JSON, as a text or bytes, or a struct, map or array; by default the whole row, as a struct.
        headers: The event's headers: a map, or a JSON object of texts.
        received: The time of receipt: a timestamp, or microseconds since 1970.
        start: Where a processor without a position begins: at the `earliest` row, or after the `latest` one. Tranches
            that appear later are read from their beginning.
        has_holes: True if indices can be missing permanently within a tranche.

    Raises:
        BadParameter: an argument has the wrong type; or (on reading) the frame is a stream, a column has an unsuitable
            type, or an index is below 0.
    """

    def __init__(
        self,
        frame: Frame,
        *,
        index: Given,
        stream: Given,
        tranche: Given | Sequence[Given] = (),
        is_hashed: bool = False,
        key: Given | None = None,
        kind: Given | None = None,
        data: Given = WHOLE,
        headers: Given | None = None,
        received: Given | None = None,
        start: Word = "earliest",
        has_holes: bool = True,
    ) -> None:
        super().__init__(start)
        if not isinstance(frame, DataFrame):
            check_function("frame", frame, "spark")
        chosen = [tranche] if isinstance(tranche, str | Column) else tranche
        check_kind("tranche", chosen, Sequence, f"{COLUMN}, or a list of such")
        for name, given in (
            ("index", index),
            ("stream", stream),
            ("data", data),
            *(("tranche", each) for each in chosen),
        ):
            check_kind(name, given, str | Column, COLUMN)
        for name, perhaps in (("key", key), ("kind", kind), ("headers", headers), ("received", received)):
            check_kind(name, perhaps, str | Column | None, f"{COLUMN}, or None")
        check_flag("is_hashed", is_hashed)
        check_flag("has_holes", has_holes)
        self._frame = frame
        self._index = index
        self._tranche = list(chosen)
        self._stream, self._key, self._kind, self._data = stream, key, kind, data
        self._headers, self._received = headers, received
        self._is_hashed = is_hashed or not self._tranche
        self._has_holes = has_holes
        self._values: dict[str, tuple[Any, ...]] = {}
        """By tranche, what its columns say."""
        self._floors: dict[str, int] = {}
        """By tranche, from where on it was read last: what is before that is not looked at."""
        self._last: Mapping[str, _Counted] = {}
        """The result of the last look."""
        self._behind: _Behind | None = None
        self._histograms: dict[str, IndexHistogram] = {}

    def heads(self) -> Mapping[str, Head]:
        """Look where tranches begin and end now, those that were read from where they were read last."""
        floors = dict(self._floors)
        found = self._last = self._count_events(floors)
        return {name: Head(floor, floor) for name, floor in floors.items()} | {
            name: Head(each.first, each.next) for name, each in found.items()
        }

    def stretch(self, tranche: str, start: int, end: int, events_max: int) -> TrancheRange | None:
        """Return a range of at most *events_max* rows of a tranche from an index on."""
        self._floors[tranche] = start
        if not (self._has_holes or self._is_full(tranche, start, end)):
            return None
        cut, events = (end, end - start) if end - start <= events_max else self._cut(tranche, start, end, events_max)
        return TrancheRange(tranche, start, cut, events, position=cut, is_tail=cut == end)

    def rows(self, stretches: Sequence[TrancheRange]) -> DataFrame:
        """Return the events of stretches."""
        frame = self._make_frame()
        index, columns = index_column(frame, self._index), self._tranches(frame)
        wanted = (
            reduce(and_, [self._is(columns, each.tranche), index >= each.start, index < each.end]) for each in stretches
        )
        tranche = tranche_name(columns)
        stream = column(frame, self._stream)
        made = {
            "tranche": tranche,
            "stream": stream_column(stream, tranche, is_hashed=self._is_hashed),
            "offset": index.cast("bigint"),
            "key": column(frame, self._stream if self._key is None else self._key).cast("string"),
            "kind": sf.coalesce(column(frame, self._kind), sf.lit(KIND)) if self._kind is not None else sf.lit(KIND),
            "headers": headers_column(frame, self._headers),
            "data": data_column(frame, self._data),
            "received": choose_received(frame, self._received),
        }
        return frame.filter(reduce(or_, wanted)).select(*(made[name].alias(name) for name in COLUMNS))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many rows each tranche has behind its position now."""
        if self._behind is None or not self._behind.holds(positions, time.monotonic()):
            found = self._count_events({name: int(at) for name, at in positions.items() if name in self._values})
            counts = {name: each.events for name, each in found.items()}
            gaps = {name: counts.get(name, 0) for name in {**self._values, **counts}}
            self._behind = _Behind(time.monotonic(), dict(positions), gaps)
        return self._behind.gaps

    def _make_frame(self) -> DataFrame:
        frame = self._frame if isinstance(self._frame, DataFrame) else self._frame(self.spark)
        if frame.isStreaming:
            allowed = (
                "a data frame of spark.read, of a table …: a stream cannot be read again, bring it into a feed first"
            )
            raise BadParameter(parameter="frame", value="a stream", allowed=allowed)
        return frame

    def _tranches(self, frame: DataFrame) -> list[Column]:
        return [column(frame, each) for each in self._tranche]

    def _is(self, columns: Sequence[Column], tranche: str) -> Column:
        equal = (each.eqNullSafe(value) for each, value in zip(columns, self._values[tranche], strict=True))
        return reduce(and_, equal, sf.lit(True))

    def _count_events(self, floors: Mapping[str, int]) -> Mapping[str, _Counted]:
        """Return what each tranche has from its floor on.

        Tranches that have none from there on are left out; those that have no floor are counted whole.

        Raises:
            BadParameter: two tranches have one name; or an index is below 0.
        """
        frame = self._make_frame()
        index, columns = index_column(frame, self._index), self._tranches(frame)
        if floors:
            known = [(self._is(columns, name), floor) for name, floor in floors.items()]
            others = ~reduce(or_, (each for each, _ in known))
            frame = frame.filter(reduce(or_, (each & (index >= floor) for each, floor in known), others))
        counted = sf.count if self._has_holes else sf.count_distinct  # A row that is there twice fills no hole.
        told = [sf.min(index), sf.max(index) + 1, counted(index)]
        keys = [each.alias(f"tranche_{at}") for at, each in enumerate(columns)]
        grouped = frame.filter(index.isNotNull()).groupBy(*keys)
        name = tranche_name([sf.col(f"tranche_{at}") for at in range(len(keys))])
        found: dict[str, _Counted] = {}
        for row in grouped.agg(*told).withColumn("penstock_name", name).collect():
            values, (first, next_, events, called) = tuple(row[: len(keys)]), tuple(row[len(keys) :])
            if first is None:
                continue  # Of no rows there is one group, where there are no tranches.
            if first < 0:
                allowed = "whole numbers from 0; of a time before 1970, what it is after an earlier one"
                raise BadParameter(parameter="index", value=f"{first} in the tranche {called}", allowed=allowed)
            if called in found or self._values.setdefault(called, values) != values:
                raise BadParameter(parameter="tranche", value=called, allowed="columns by which no two have one name")
            found[called] = _Counted(first, next_, events)
        return found

    def _is_full(self, tranche: str, start: int, end: int) -> bool:
        """Tell whether no index is missing."""
        last = self._last.get(tranche)
        if last is not None and last.is_full and last.first <= start and end <= last.next:
            return True
        frame = self._make_frame()
        index, columns = index_column(frame, self._index), self._tranches(frame)
        wanted = frame.filter(self._is(columns, tranche) & (index >= start) & (index < end))
        return wanted.select(index).distinct().count() == end - start

    def _cut(self, tranche: str, start: int, end: int, most: int) -> tuple[int, int]:
        """Return up to where there are at most *most* rows from *start* on, some at least, and how many these are."""
        last = self._last.get(tranche)
        if not self._has_holes or (last is not None and last.is_full and last.first <= start):
            return start + most, most
        if last is not None and start <= last.first and end == last.next and last.events <= most:
            return end, last.events
        histogram = self._histograms.get(tranche)
        if histogram is None or not histogram.knows(start):
            histogram = self._histograms[tranche] = self._histogram(tranche, start, end)
        cut, events = histogram.cut(start, most)
        while not events:
            first, following = histogram.range_at(start)
            if following - first <= most:
                return following, most
            histogram = self._histograms[tranche] = self._histogram(tranche, first, following)
            cut, events = histogram.cut(first, most)
        return cut, events

    def _histogram(self, tranche: str, start: int, end: int) -> IndexHistogram:
        frame = self._make_frame()
        index = index_column(frame, self._index)
        place = index - sf.lit(start)
        at = (index - sf.pmod(place, sf.lit(width_of(start, end)))).alias("first")
        is_wanted = self._is(self._tranches(frame), tranche) & (index >= start) & (index < end)
        counts = frame.filter(is_wanted).groupBy(at).count().collect()
        return IndexHistogram(start, end, {row[0]: row[1] for row in counts})
