"""format("messagedb"): the categories of a MessageDB, a store of events in PostgreSQL.

MessageDB's own words, and why a reader of a category misses none of its events, are in
`penstock.processing.sources.categories`. So there is an offset for each category, and nothing has to land. A
micro-batch that is planned again has the same ranges, whatever has happened to the store since.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType, TimestampType

from penstock.processing.sources.categories import (
    CATEGORY_ALLOWED,
    FIRST,
    PAGE_ROWS,
    CategoryDatabase,
    CategoryRange,
    Row,
    check_database_url,
    choose_rows,
    is_category,
)
from penstock.processing.sources.categories import SCHEMA as INSTALLED_SCHEMA
from penstock.spark.arrow_types import arrow_type
from penstock.spark.checkpoint import tell_beginning, tell_difference
from penstock.spark.columns import QueryColumn
from penstock.spark.foreign.query import ForeignQuery, ForeignStream, option
from penstock.spark.options import EARLIEST, LATEST, bad_option, is_whole, names_of, object_of, seconds_of, whole_number
from penstock.spark.patience import patiently
from penstock.spark.planning import Range, plan_tasks, share
from penstock.spark.tasks import cores

try:
    import psycopg  # noqa: F401 - Who lacks it is told so at once.
except ModuleNotFoundError as error:
    needed = "format('messagedb') needs psycopg: pip install 'penstock-hub[postgres,spark]'"
    raise ModuleNotFoundError(needed, name=error.name) from error

_log: Final = logging.getLogger("penstock.spark")

CATEGORY: Final = "category"
_COLUMNS: Final[dict[str, tuple[DataType, bool, str]]] = {
    CATEGORY: (StringType(), False, "NULL"),  # It is known without the table.
    "stream": (StringType(), False, "stream_name"),
    "position": (LongType(), False, "position"),
    "global_position": (LongType(), False, "global_position"),
    "kind": (StringType(), False, "type"),
    "id": (StringType(), False, "id::text"),
    "data": (StringType(), True, "data::text"),
    "metadata": (StringType(), True, "metadata::text"),
    "received_at": (TimestampType(), False, '"time"'),
}
"""By name: the type, whether it may be null, and the expression in SQL."""
SCHEMA: Final = StructType([StructField(name, kind, nullable) for name, (kind, nullable, _) in _COLUMNS.items()])

_URL: Final = "the address of a PostgreSQL database, such as postgresql://message_store@localhost:5432/message_store"
_POSITIONS: Final = (
    'JSON such as {"account": 17}, the global position wanted next, where -2 is the earliest and -1 the latest'
)
Asked: TypeAlias = Literal["earliest", "latest"] | dict[str, int]
"""By category: a global position, EARLIEST or LATEST."""


def _url(name: str, text: str | None) -> str:
    """Return the option url. No error shows it: the wrong part may be in the place of a password."""
    if not (text or "").strip():
        raise bad_option(name, text, _URL)
    assert text is not None
    try:
        return check_database_url(text)
    except ValueError:
        raise bad_option(name, "(not shown)", _URL) from None


def _categories(name: str, text: str | None) -> tuple[str, ...]:
    names = names_of(name, text, "the name of a category, or several separated by commas")
    if strays := [each for each in names if not is_category(each)]:
        raise bad_option(name, strays[0], CATEGORY_ALLOWED)
    return names


def _schema(name: str, text: str) -> str:
    if not text.strip() or "\0" in text:
        raise bad_option(name, text, "the name of the schema in which MessageDB is installed")
    return text.strip()


def _parse_positions(name: str, text: str) -> Asked:
    word, is_start = text.strip().lower(), name == "startingOffsets"
    if word == "latest":
        return "latest"
    if word == "earliest" and is_start:
        return "earliest"
    allowed = f"{'earliest, ' if is_start else ''}latest, {_POSITIONS}"
    given = object_of(name, text, allowed)
    # In a checkpoint and in a query's progress, a position may be an object with a member `next`.
    asked: dict[str, Any] = {name: at.get("next") if isinstance(at, dict) else at for name, at in given.items()}
    if not all(is_whole(position, EARLIEST if is_start else LATEST) for position in asked.values()):
        raise bad_option(name, text[:200], allowed)
    return asked


class FirstRange(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """The end of the first micro-batch of a category, with its beginning: Spark does not keep where a query began."""

    start: int
    next: int


Places: TypeAlias = Mapping[str, int | FirstRange]
"""An offset of Spark's: by category, the global position wanted next."""


def next_of(place: int | FirstRange) -> int:
    """Return the global position wanted next."""
    return place if isinstance(place, int) else place.next


def end_batch(before: int | FirstRange | None, end: int) -> int | FirstRange:
    """Return the place *end*, after a micro-batch that began at *before*; None: the category is new.

    >>> end_batch(FirstRange(3, 3), 17), end_batch(FirstRange(3, 17), 20)
    (FirstRange(start=3, next=17), 20)
    """
    if before is None:
        return FirstRange(FIRST, end)
    is_first = isinstance(before, FirstRange) and before.start == before.next
    return FirstRange(next_of(before), end) if is_first else end


def ranges_between(start: Places, end: Places) -> list[CategoryRange]:
    """Return the ranges of a micro-batch."""
    if start == end:
        return []
    found = []
    for category, place in end.items():
        begin = place.start if isinstance(place, FirstRange) else next_of(start.get(category, FIRST))
        found.append(CategoryRange(category, begin, next_of(place)))
    return [each for each in found if each.start < each.end]


def next_end(
    start: Places, heads: Mapping[str, int], events_max: int | None, store: "MessageDatabase"
) -> Places | None:
    """Return where the micro-batch that begins at *start* ends; None when there is nothing new.

    *events_max* are shared among the categories; None takes all there is. A category that *start* does not know begins
    at its first event.
    """
    begins = {category: next_of(start.get(category, FIRST)) for category in heads}
    news = [CategoryRange(name, begins[name], head) for name, head in heads.items() if begins[name] < head]
    ends = begins | {each.category: each.end for each in news}
    if events_max is not None:
        waiting = {each: store.count(each, events_max) for each in news}
        for each, events in share(events_max, waiting).items():
            if not events == waiting[each] < events_max:  # Else all of them fit.
                ends[each.category] = store.find_behind(each, events)
    if ends == begins and start.keys() >= heads.keys():
        return None
    return {category: end_batch(start.get(category), end) for category, end in ends.items()}


def plan_ranges(
    ranges: Sequence[CategoryRange], store: "MessageDatabase", *, min_tasks: int | None, cores: int
) -> list[tuple[CategoryRange, ...]]:
    """Return the ranges of each task: together every event of *ranges* once, in tasks of about equally many events.

    They are planned by their numbers, which have no holes, then cut at the global positions that have these numbers.
    """
    numbered = [Range(each.category, 0, 1, 0, 0, store.count(each)) for each in ranges]
    tasks = plan_tasks(numbered, min_tasks=min_tasks, cores=cores)
    cut: dict[Range, CategoryRange] = {}
    for each in ranges:
        pieces = sorted(piece for task in tasks for piece in task if piece.event_type == each.category)
        cut |= dict(zip(pieces, cut_at(each, [piece.events for piece in pieces], store), strict=True))
    return [tuple(cut[piece] for piece in task) for task in tasks]


def cut_at(whole: CategoryRange, sizes: Sequence[int], store: "MessageDatabase") -> list[CategoryRange]:
    """Cut *whole* into pieces of *sizes* events; the last one extends to its end."""
    pieces, left = [], whole
    for place, events in enumerate(sizes, start=1):
        end = store.find_behind(left, events) if place < len(sizes) else left.end
        pieces.append(left._replace(end=end))
        left = left._replace(start=end)
    return pieces


class MessageDatabase(CategoryDatabase):
    """The MessageDB that a *query* names. It is asked again while it does not answer.

    Raises:
        BadParameter: There is no MessageDB in that schema.
        DatabaseUnavailable: The database has not answered for too long.
    """

    def __init__(self, query: "CategoryQuery") -> None:
        super().__init__(query.url, query.schema, name="penstock-spark")
        self._retry_timeout = query.retry_timeout

    def read_page(self, stretch: CategoryRange, columns: Sequence[str], rows: int) -> list[Row]:
        """Return the first *rows* events of *stretch*: each one's global position, and then its *columns*."""
        return super().read_page(stretch, [_COLUMNS[name][2] for name in columns], rows)

    def query(self, statement: str, expressions: Sequence[str] = (), **given: Any) -> list[Row]:
        """Return what a statement returns."""
        return patiently(
            self._retry_timeout, lambda: super(MessageDatabase, self).query(statement, expressions, **given)
        )


def read_range(
    store: MessageDatabase, wanted: CategoryRange, columns: Sequence[QueryColumn]
) -> Iterator[pa.RecordBatch]:
    """Read the events of *wanted* in the order of their global positions, in pages of a few megabytes."""
    names, rows = [column.name for column in columns], PAGE_ROWS
    while wanted.start < wanted.end:
        found = store.read_page(wanted, names, rows)
        if not found:
            return
        batch = to_batch(found, wanted.category, columns)
        yield batch
        if len(found) < rows:
            return
        wanted = wanted._replace(start=found[-1][0] + 1)
        rows = choose_rows(rows, batch.nbytes)


def to_batch(rows: Sequence[Row], category: str, columns: Sequence[QueryColumn]) -> pa.RecordBatch:
    """Return *rows*, whose first value is not shown, as Spark takes them."""
    schema = pa.schema([field.with_nullable(each.nullable) for each in columns for field in [_TYPES.field(each.name)]])
    arrays = [
        pa.repeat(pa.scalar(category), len(rows)) if field.name == CATEGORY else pa.array(values, field.type)
        for field, values in zip(schema, list(zip(*rows, strict=True))[1:], strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_TYPES: Final = pa.schema(arrow_type(SCHEMA))


@dataclass(frozen=True, kw_only=True)
class CategoryQuery(ForeignQuery):
    """A query of categories. Its fields are the options of the format."""

    source = "messagedb"
    columns = SCHEMA
    offset_type = dict[str, int | FirstRange]
    offset_example = '{"account": 17}'

    url: str = option(_url, repr=False)
    """The database. It may hold a password."""
    category: tuple[str, ...] = option(_categories)
    """The categories in the order given, each once."""
    starting_offsets: Asked = option(_parse_positions, "earliest")
    """Where a batch or a new stream begins; categories that JSON leaves out begin at their first event."""
    ending_offsets: Asked | None = option(_parse_positions, None)
    """Where a batch ends; categories that JSON leaves out, or all with None, are read to their end."""
    max_events_per_trigger: int = option(whole_number, 100_000)
    """The most that a micro-batch takes, over all categories."""
    min_partitions: int | None = option(whole_number, None)
    """The minimum number of tasks, if there are as many events; None: as many as keep this machine's cores busy."""
    schema: str = option(_schema, INSTALLED_SCHEMA)
    """The schema of the database in which MessageDB is installed."""
    retry_timeout: float = option(seconds_of, 120.0)
    """How long a read waits for a database that does not answer; 0: not at all."""

    def __post_init__(self) -> None:
        starts, ends = self.starting_offsets, self.ending_offsets
        for name, asked in (("startingOffsets", starts), ("endingOffsets", ends)):
            if isinstance(asked, dict) and (strays := sorted(asked.keys() - set(self.category))):
                allowed = f"categories that category names; {', '.join(strays)} is none of them"
                raise bad_option(name, json.dumps(asked)[:200], allowed)
        if ends is not None and starts == "latest":
            given = ends if isinstance(ends, str) else json.dumps(ends)
            raise bad_option("endingOffsets", given, "in a batch only, which cannot begin at startingOffsets=latest")
        if isinstance(starts, dict) and isinstance(ends, dict):
            for category in starts.keys() & ends.keys():
                if 0 <= ends[category] < starts[category]:
                    allowed = f"for {category!r}, {starts[category]} or more: it begins there"
                    raise bad_option("endingOffsets", ends[category], allowed)

    def find_start(self, category: str, head: int) -> int:
        """Return the first global position of *category* to read, whose end is *head* now."""
        asked = self.starting_offsets
        wanted = asked.get(category, EARLIEST) if isinstance(asked, dict) else LATEST if asked == "latest" else EARLIEST
        return {EARLIEST: FIRST, LATEST: head}.get(wanted, wanted)

    def find_end(self, category: str, head: int) -> int:
        """Return the global position at which a batch of *category* ends: at most *head*, the end of it now."""
        asked = self.ending_offsets
        wanted = asked.get(category, LATEST) if isinstance(asked, dict) else LATEST
        return head if wanted == LATEST else min(wanted, head)

    def check(self, *, is_stream: bool) -> None:
        """Raise BadParameter if an option does not suit a batch, or a stream."""
        if is_stream and self.ending_offsets is not None:
            raise bad_option("endingOffsets", self.ending_offsets, "in a batch only; a stream has no end")
        if not is_stream and self.starting_offsets == "latest":
            raise bad_option("startingOffsets", "latest", "earliest or JSON in a batch, which would else be empty")

    def plan(self) -> Sequence[tuple[CategoryRange, ...]]:
        """Return the tasks of a batch."""
        with closing(MessageDatabase(self)) as database:
            heads = database.list_heads(self.category).items()
            ranges = [
                CategoryRange(name, self.find_start(name, head), self.find_end(name, head)) for name, head in heads
            ]
            return self.cut([each for each in ranges if each.start < each.end], database)

    def cut(self, ranges: Sequence[CategoryRange], store: MessageDatabase) -> list[tuple[CategoryRange, ...]]:
        """Return the ranges of each task."""
        return plan_ranges(ranges, store, min_tasks=self.min_partitions, cores=cores())

    def read(self, columns: Sequence[QueryColumn], task: Sequence[CategoryRange]) -> Iterator[pa.RecordBatch]:
        """Read *columns* of a task."""
        with closing(MessageDatabase(self)) as database:
            for each in task:
                yield from read_range(database, each, columns)

    def stream(self) -> "CategoryStream":
        """Return the driver's part of a stream."""
        return CategoryStream(self)


class CategoryStream(ForeignStream[Places]):
    """The driver's part of a stream."""

    def __init__(self, query: CategoryQuery) -> None:
        self._query = query
        self.database = MessageDatabase(query)
        self._target: dict[str, int] | None = None
        self._seen: dict[str, int] | None = None
        self._is_new = False
        """True if no micro-batch of the query has ended yet."""
        self._is_checked = False

    def begin(self) -> Places:
        """Return where a new query begins."""
        self._is_new = True
        starts = {name: self._query.find_start(name, head) for name, head in self._look().items()}
        return {name: FirstRange(start, start) for name, start in starts.items()}

    def advance(self, start: Places, events_max: int | None) -> Places:
        """Return where the next micro-batch ends."""
        heads = self._target or self._look()
        if not self._is_checked:
            self._is_checked = True
            self._check(start, heads)
        end = next_end(start, heads, events_max, self.database)
        return start if end is None else end

    def end_now(self) -> None:
        """End the query where the categories end now."""
        self._target = self._look()

    def newest(self) -> Places | None:
        """Return where the categories ended when that was last seen."""
        return self._seen

    def plan(self, start: Places, end: Places) -> Sequence[tuple[CategoryRange, ...]]:
        """Return the tasks of a micro-batch."""
        return self._query.cut(ranges_between(start, end), self.database)

    def close(self) -> None:
        """Close the connection."""
        self.database.close()

    def _look(self) -> dict[str, int]:
        self._seen = self.database.list_heads(self._query.category)
        return self._seen

    def _check(self, places: Places, heads: Mapping[str, int]) -> None:
        """Log where a checkpoint differs from the options and the database."""
        if self._query.starting_offsets != "earliest" and not self._is_new:
            tell_beginning()
        tell_difference(places, self._query.category, "category")
        for category, head in heads.items():
            if not self._is_new and category in places and head < next_of(places[category]):
                _log.warning(
                    "%r ends at global position %d, before %d, where the query is: events were deleted, or an older "
                    "database was put in place; what comes below it is not read",
                    category, head, next_of(places[category]),
                )  # fmt: skip


QUERY: Final = CategoryQuery
