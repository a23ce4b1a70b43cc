"""format("zeroeventhub"): a feed of any ZeroEventHub (version 1) or FeedAPI (version 2) server.

Such a server knows cursors alone, and cannot say where a feed ends. So the driver of a stream asks for pages and lands
them.

Invariants:
    The events of a partition are numbered from 0 in the order in which they came: no number is given twice.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructField, StructType

from penstock.core.log.cursor import FIRST, LAST
from penstock.errors import (
    BadCursor,
    BadParameter,
    BadPartitionCount,
    CursorExpired,
    MalformedAnswer,
    PenstockError,
    ServerError,
    StaleToken,
    Unavailable,
)
from penstock.spark.arrow_types import arrow_type
from penstock.spark.authorization import authorization
from penstock.spark.checkpoint import tell_beginning
from penstock.spark.columns import DATA, HEADERS, QueryColumn
from penstock.spark.foreign.landing import (
    LOCATION,
    Landed,
    LandingStream,
    PageRange,
    file_system,
    new_landing,
    parse_location,
)
from penstock.spark.foreign.query import BATCH_BYTES, ForeignQuery, option
from penstock.spark.heads import report_loss
from penstock.spark.http import carry_out
from penstock.spark.options import bad_option, flag_of, names_of, object_of, seconds_of, whole_number
from penstock.spark.options import token_file as parse_token_file
from penstock.spark.patience import Patience, patiently
from penstock.spark.shape import select_columns
from penstock.wire.http import Exchange, is_address, suggest_address
from penstock.wire.log.reader.pages import FeedEvent, Page
from penstock.wire.log.reader.partitions import PARTITION_MAX, Discovery, ReadState
from penstock.wire.log.reader.protocol import ALL_HEADERS, STALE_MAX, FeedProtocol, ReadParameters

Result = TypeVar("Result")
Asked: TypeAlias = Literal["_first", "_last"] | dict[int, str]
"""Of all partitions, or by partition."""
_PARTITIONS: Final = frozenset(map(str, range(PARTITION_MAX + 1)))
_CURSORS: Final = f'{FIRST}, {LAST}, or JSON such as {{"0": "a cursor", "1": "{LAST}"}}'
EMPTY_PAGES_MAX: Final = 3
"""This many pages without events in a row are the end even if the cursor moves on: some move with the time."""
THREADS: Final = 8
"""Maximum number of partitions that are read at once."""
GATHER_SECONDS: Final = 5.0
"""Seconds for which pages are gathered while they arrive without a pause; then Spark gets them."""
POLL_INTERVAL: Final = 1.0
"""The least time between two requests that bring nothing. A server that can is asked to wait as long."""

PARTITION: Final = "partition"
NUMBER: Final = "number"
SCHEMA: Final = StructType(
    [
        StructField(PARTITION, IntegerType(), False),
        StructField(NUMBER, LongType(), False),
        StructField(HEADERS, MapType(StringType(), StringType()), True),
        StructField(DATA, StringType(), False),
    ]
)
_ROWS: Final = pa.schema(arrow_type(SCHEMA))


def _url(name: str, text: str | None) -> str:
    """Return the option url. One that holds a password is not shown."""
    given = (text or "").strip()
    allowed = f"the feed's address, such as {suggest_address(given)}/feed, without a user name or a password"
    if "@" in given:
        raise bad_option(name, "(not shown)", allowed)
    if not is_address(given) or "#" in given:
        raise bad_option(name, given or text, allowed)
    return given


def _partition_count(name: str, text: str) -> int:
    count = whole_number(name, text)
    if count > PARTITION_MAX + 1:
        raise bad_option(name, text, f"a whole number, 1 to {PARTITION_MAX + 1}")
    return count


def _version(name: str, text: str) -> int:
    if text.strip() not in ("1", "2"):
        raise bad_option(name, text, "1 (ZeroEventHub) or 2 (FeedAPI)")
    return int(text)


def _cursors(name: str, text: str) -> Asked:
    if text.strip() == FIRST:
        return "_first"
    if text.strip() == LAST:
        return "_last"
    # In a checkpoint and in a query's progress, there is more beside the cursor.
    cursors: dict[str, Any] = {
        number: each.get("cursor") if isinstance(each, dict) else each
        for number, each in object_of(name, text, _CURSORS).items()
    }
    is_each_known = cursors.keys() <= _PARTITIONS and all(isinstance(each, str) and each for each in cursors.values())
    if not cursors or not is_each_known:
        raise bad_option(name, text[:200], _CURSORS)
    return {int(number): cursor for number, cursor in cursors.items()}


def _names(name: str, text: str) -> tuple[str, ...]:
    allowed = "a name, or several separated by commas"
    names = names_of(name, text, allowed)
    if any(";" in each for each in names):
        raise bad_option(name, text, allowed)
    return names


class PartitionPlace(msgspec.Struct, frozen=True):
    """A place in one partition."""

    page: int
    """The page of the run that lands next; those below it have landed."""
    number: int
    """The number of the next event, which is the number of events before it."""
    cursor: str
    """The cursor to ask for."""


class LandedPlaces(Landed, frozen=True):
    """Where a micro-batch ends: of each partition the next page, the number of its first event, and its cursor."""

    partitions: dict[int, PartitionPlace]

    def lanes(self) -> Mapping[str, int]:
        """Return the lanes of the run, one for each partition, and of each the page that lands next."""
        return {f"{self.run}/{number}": place.page for number, place in self.partitions.items()}

    def of_run(self, run: str) -> "LandedPlaces":
        """Return the same place for a *run* that goes on there: another run has no pages yet."""
        if run == self.run:
            return self
        places = {number: msgspec.structs.replace(at, page=0) for number, at in self.partitions.items()}
        return LandedPlaces(self.landing, run, places)


@dataclass(frozen=True, kw_only=True)
class FeedQuery(ForeignQuery):
    """A query of a feed. Its fields are the options of the format."""

    source = "zeroeventhub"
    columns = SCHEMA
    offset_type = LandedPlaces
    offset_example = '{"landing": "6f1c…", "run": "a40b…", "partitions": {"0": {"page": 17, "number": 48213, …}}}'

    url: str = option(_url)
    """The feed's address."""
    partition_count: int | None = option(_partition_count, None)
    """The n that a ZeroEventHub publisher documents; FeedAPI tells its partitions itself."""
    version: int | None = option(_version, None)
    """1: ZeroEventHub, 2: FeedAPI; None: it is found out."""
    starting_cursors: Asked = option(_cursors, "_first")
    """Where a batch or a new stream begins; partitions that JSON leaves out begin at their first event."""
    landing_location: str | None = option(parse_location, None)
    """Where a stream's pages land."""
    max_events_per_trigger: int = option(whole_number, 100_000)
    """The most that a micro-batch takes, over all partitions, if the server keeps to the size of pages asked for."""
    page_size_hint: int = option(whole_number, 10_000)
    """The number of events of a page; servers may send more, or fewer."""
    event_types: tuple[str, ...] = option(_names, ())
    """The kinds of events wanted; empty: all."""
    include_headers: bool = option(flag_of, False)
    """True if there is a column `headers`."""
    headers: tuple[str, ...] | None = option(_names, None)
    """The names of the headers to include; None: all."""
    token_file: str | None = option(parse_token_file, None)
    """The file with the bearer token, read for each request."""
    fail_on_data_loss: bool = option(flag_of, True)
    """True if a cursor that the server refuses ends the query."""
    retry_timeout: float = option(seconds_of, 120.0)
    """How long a read waits for a server that does not answer; 0: not at all."""

    def __post_init__(self) -> None:
        if self.headers is not None and not self.include_headers:
            allowed = "beside includeHeaders=true alone, of whose headers it names some"
            raise bad_option("headers", ",".join(self.headers), allowed)
        if self.version == 1 and self.partition_count is None:
            raise self.no_partition_count()

    def no_partition_count(self) -> BadParameter:
        """Return the error that asks for the option partitionCount."""
        allowed = f"the number of partitions that the publisher of {self.url} documents: ZeroEventHub does not tell it"
        return bad_option("partitionCount", None, allowed)

    def wish(self, page_size: int) -> ReadParameters:
        """Return the parameters of the request for a page of *page_size* events."""
        headers = (self.headers or (ALL_HEADERS,)) if self.include_headers else ()
        return ReadParameters(page_size_hint=page_size, headers=headers, event_types=self.event_types)

    @property
    def all_columns(self) -> StructType:
        """The columns that the query can have."""
        return StructType([each for each in SCHEMA.fields if self.include_headers or each.name != HEADERS])

    def check(self, *, is_stream: bool) -> None:
        """Raise BadParameter if an option does not suit a batch, or a stream."""
        if not is_stream and self.starting_cursors == LAST:
            raise bad_option("startingCursors", LAST, "_first or JSON in a batch, which would else be empty")
        if is_stream:
            if self.landing_location is None:
                raise bad_option("landingLocation", None, LOCATION)
            file_system(self.landing_location)

    def plan(self) -> list[dict[int, str]]:
        """Return the tasks of a batch: the cursors of a partition, and of those that start after it.

        Raises:
            BadParameter: startingCursors names others than the feed has.
            PenstockError: The server's refusal, or it has not answered for too long.
        """
        course = RemoteFeed(self).course({})
        parents = {each.id: each.starts_after for each in course.discovery.partitions}
        found: dict[int, dict[int, str]] = {}
        for number, cursor in course.cursors.items():
            first = number
            while (parent := parents[first]) is not None and parent in parents:
                first = parent
            found.setdefault(first, {})[number] = cursor
        return list(found.values())

    def read(self, columns: Sequence[QueryColumn], task: PageRange | dict[int, str]) -> Iterator[pa.RecordBatch]:
        """Read *columns* of a task: landed pages of a stream, or in a batch partitions from their cursors on.

        Raises:
            EventsLost: A page is not there, or the server refuses a cursor and failOnDataLoss says that it fails.
            PenstockError: The server's refusal, or it has not answered for too long.
        """
        if isinstance(task, PageRange):
            return super().read(columns, task)
        return (select_columns(rows, columns) for rows in read_partitions(self, task))

    def stream(self) -> "FeedStream":
        """Return the driver's part of a stream."""
        return FeedStream(self)


QUERY: Final = FeedQuery


def to_batches(events: Sequence[FeedEvent], partition: int, first: int, url: str) -> Iterator[pa.RecordBatch]:
    """Yield *events* of a partition in all columns; they are numbered from *first* on.

    Raises:
        MalformedAnswer: An event is not text, or has headers that are not texts; *url* has sent it.
    """
    start, size = 0, 0
    for end, event in enumerate(events, start=1):
        size += len(event.raw)
        if size < BATCH_BYTES and end < len(events):
            continue
        taken = events[start:end]
        try:
            data = pa.array([each.raw for each in taken], pa.binary()).cast(pa.string())
            headers = pa.array([list(each.headers.items()) or None for each in taken], _ROWS.field(HEADERS).type)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            reason = f"an event of partition {partition} is no text, or its headers are none: {error}"
            raise MalformedAnswer(url=url, reason=reason) from error
        partitions = pa.repeat(pa.scalar(partition, pa.int32()), len(taken))
        numbers = pa.array(range(first + start, first + end), pa.int64())
        yield pa.RecordBatch.from_arrays([partitions, numbers, headers, data], schema=_ROWS)
        start, size = end, 0


class RemoteFeed:
    """The feed of a *query*. Each request is repeated while the server does not answer.

    Raises:
        BadParameter: Neither the server nor the options tell the number of partitions; or the token file has no token.
        PenstockError: The server's refusal, or it has not answered for too long.
    """

    def __init__(self, query: FeedQuery) -> None:
        self._query = query
        self._protocol = FeedProtocol(
            query.url,
            partition_count=query.partition_count,
            version=query.version,
            merged=False,
            retry_timeout=0.0,  # Ours counts.
            clock=time.monotonic,
        )
        self._churn = Patience(query.retry_timeout)

    def course(self, cursors: Mapping[int, str], chosen: Collection[int] | None = None) -> ReadState:
        """Return the state of a reader that has come to *cursors*; without any, it begins where the options say.

        It reads the partitions *chosen*, and those that follow from them; None reads all.
        """
        asked = self._query.starting_cursors
        if not cursors and isinstance(asked, dict):
            self._check(asked)
            cursors = asked
        start = asked if isinstance(asked, str) else FIRST
        return self._ask(lambda: self._protocol.read_state(cursors, chosen, start))

    def meet_again(self, course: ReadState) -> None:
        """Have *course* meet the partitions as they are now: they have changed."""
        course.stale_count += 1
        if course.stale_count > STALE_MAX:
            self._churn.endure(Unavailable(reason=f"the partitions of {self._query.url} change all the time"))
        course.update_partitions(self._ask(lambda: self._protocol.discovery(afresh=True)))

    def page(self, course: ReadState, partition: int, *, size: int, wait_seconds: float = 0.0) -> Page | None:
        """Read a page of about *size* events of *partition*; None: the partitions have changed.

        If there are no events, the server may wait for one for *wait_seconds*. The page is not recorded in *course*.
        Several threads may call it at once.

        Raises:
            EventsLost: The server refuses the cursor, and failOnDataLoss says that it fails.
        """
        cursor = course.cursors[partition]
        try:
            page = self._page(course.discovery, partition, cursor, size, wait_seconds)
        except PenstockError as error:
            if cursor == FIRST or not _refuses_cursor(error):
                raise
            report_loss(
                self._query.fail_on_data_loss,
                event_type=self._query.url,
                partition=partition,
                lost=None,
                reason=f"the server refuses the cursor {cursor!r}: {error.detail}",
            )
            page = self._page(course.discovery, partition, FIRST, size, 0.0)
        if page is not None:
            course.stale_count = 0
            self._churn.reset()
        return page

    def _page(self, discovery: Discovery, partition: int, cursor: str, size: int, wait_seconds: float) -> Page | None:
        wish = self._query.wish(size)
        try:
            return self._ask(lambda: self._protocol.page(discovery, {partition: cursor}, wish, wait_seconds))
        except (StaleToken, BadPartitionCount):
            if discovery.version == 1:
                raise
            return None

    def _ask(self, exchange: Callable[[], Exchange[Result]]) -> Result:
        def attempt() -> Result:
            return carry_out(exchange(), headers=authorization(self._query.token_file))

        try:
            return patiently(self._query.retry_timeout, attempt)
        except BadParameter as error:
            if error.parameter == "partition_count":
                raise self._query.no_partition_count() from None
            raise

    def _check(self, asked: Mapping[int, str]) -> None:
        """Refuse cursors that belong to no partition of the feed, and that none could take over."""
        discovery = self._ask(self._protocol.discovery)
        known = {*discovery.ids, *(number for each in discovery.partitions for number in each.cursor_from)}
        if strays := sorted(set(asked) - known):
            allowed = f"cursors of the feed's partitions, {', '.join(map(str, discovery.ids))}"
            raise bad_option("startingCursors", f"that of partition {strays[0]}", allowed)


def _refuses_cursor(error: PenstockError) -> bool:
    """Return whether *error* means that the server can no longer read from a cursor."""
    if isinstance(error, ServerError):
        return bool(error.status == 410)
    return isinstance(error, CursorExpired | BadCursor)


class Ends:
    """Finds the ends of partitions in the pages of one traversal: the server does not tell them.

    A page without events that leaves the cursor where it is ends a partition. Where kinds of events are filtered,
    nothing else does: any number of pages may hold none of those.
    """

    def __init__(self, query: FeedQuery) -> None:
        self._empty_max = None if query.event_types else EMPTY_PAGES_MAX
        self._empty: Counter[int] = Counter()

    def is_end(self, partition: int, page: Page) -> bool:
        """Return whether *partition* ends with *page*."""
        if page.events:
            self._empty[partition] = 0
            return False
        self._empty[partition] += 1
        return page.cursors[partition] == page.since[partition] or self._empty[partition] == self._empty_max


def read_partitions(query: FeedQuery, cursors: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
    """Read partitions from *cursors*, and those that follow from them, each to its end."""
    feed, ends = RemoteFeed(query), Ends(query)
    course = feed.course(cursors, cursors.keys())
    numbers: Counter[int] = Counter()
    done: set[int] = set()
    while left := [number for number in course.list_readable() if number not in done]:
        number = left[0]
        page = feed.page(course, number, size=query.page_size_hint)
        if page is None:
            feed.meet_again(course)
            continue
        course.record(page.since, page)
        yield from to_batches(page.events, number, numbers[number], query.url)
        numbers[number] += len(page.events)
        if ends.is_end(number, page):
            done.add(number)


class FeedMicroBatch:
    """A micro-batch while its pages land: what follows *start*, up to *events_max* events, or all that there are.

    Args:
        start: Where the micro-batch before has ended.
        course: The reader's state. Partitions that take over from others begin with the next micro-batch.
        done: Partitions that are not to be read.
        events_max: None for no limit.
    """

    def __init__(self, start: LandedPlaces, course: ReadState, done: Iterable[int], events_max: int | None) -> None:
        self.course = course
        self.events = 0
        self.events_max = events_max
        self._start = start
        self._unplaced = [number for number, cursor in course.cursors.items() if cursor == LAST]
        skipped = set(done)
        self.places = {number: self._at(number) for number in course.list_readable() if number not in skipped}
        """By partition that is read: the place after the landed events."""
        self.hungry = list(self.places)
        """The partitions that may have more, in the order in which they are to be asked."""

    def turn(self, size: int) -> tuple[list[int], int]:
        """Return the partitions to ask now, unless there is enough, and for how many events each: up to *size*."""
        if self.events_max is None:
            return list(self.hungry), size
        left = self.events_max - self.events
        asked = self.hungry[:left]
        return asked, min(size, -(-left // len(asked)))

    def take(self, partition: int, place: PartitionPlace) -> None:
        """Note that a page has landed and leads to *place*; others are asked before this partition is again."""
        self.events += place.number - self.places[partition].number
        self.places[partition] = place
        self.hungry.remove(partition)
        self.hungry.append(partition)

    @property
    def is_enough(self) -> bool:
        """Return whether the look is complete: no partition needs another request."""
        return not self.hungry or (self.events_max is not None and self.events >= self.events_max)

    @property
    def is_news(self) -> bool:
        """Return whether there is progress for Spark to store: events, or the end from which to read a partition."""
        cursors = self.course.cursors
        return self.events > 0 or any(cursors.get(number, LAST) != LAST for number in self._unplaced)

    @property
    def has_moved(self) -> bool:
        """Return whether pages without events have moved a cursor."""
        cursors = self.course.cursors
        return any(cursors.get(number, place.cursor) != place.cursor for number, place in self.places.items())

    def end(self) -> LandedPlaces:
        """Return where it ends. Partitions that are gone are in it if they have brought something."""
        places = {
            number: msgspec.structs.replace(self.places.get(number) or self._at(number), cursor=cursor)
            for number, cursor in self.course.cursors.items()
        }
        brought = {number: at for number, at in self.places.items() if at != self._start.partitions.get(number)}
        return msgspec.structs.replace(self._start, partitions={**brought, **places})

    def _at(self, partition: int) -> PartitionPlace:
        known = self._start.partitions.get(partition)
        return PartitionPlace(0, 0, self.course.cursors[partition]) if known is None else known


class FeedStream(LandingStream[LandedPlaces]):
    """The driver's part of a stream."""

    def __init__(
        self,
        query: FeedQuery,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        assert query.landing_location is not None
        super().__init__(query.landing_location)
        self._query = query
        self._clock = clock
        self._sleep = sleep
        self._feed = RemoteFeed(query)
        self._ended: set[int] | None = None
        """The partitions that have been read to their end, if the query ends there; else None."""
        self._beyond: tuple[LandedPlaces, dict[int, str]] | None = None
        """An offset, and the cursors to which pages without events have led from there."""
        self._looked = -POLL_INTERVAL
        """When it last began to ask."""
        self._is_checked = False

    def begin(self) -> LandedPlaces:
        """Return the offset that a new query begins with: a landing of its own, without pages."""
        return LandedPlaces(new_landing(self.location).id, self.run, {})

    def end_now(self) -> None:
        """Read each partition until it has nothing new, and then no more."""
        self._ended = set()

    def land(self, start: LandedPlaces, events_max: int | None) -> LandedPlaces:
        """Land what follows *start*, about *events_max* events, and return where that ends.

        Raises:
            BadParameter: The options do not fit the feed, or *start*.
            EventsLost: The server refuses a cursor, and failOnDataLoss says that it fails.
            PenstockError: The server's refusal, or it has not answered for too long.
        """
        wait_seconds = self._rest(start)
        course = self._course(start)
        while True:
            batch = FeedMicroBatch(start.of_run(self.run), course, self._ended or (), events_max)
            is_over = self._gather(start, batch, wait_seconds)
            # Where a query ends soon, the next one is not to begin before pages that have led on for long.
            if batch.is_news or (self._ended is not None and batch.has_moved):
                self._beyond = None
                return batch.end()
            self._beyond = (start, dict(course.cursors))
            if is_over and not set(course.list_readable()) - batch.places.keys() - (self._ended or set()):
                return start

    def _gather(self, start: LandedPlaces, batch: FeedMicroBatch, wait_seconds: float) -> bool:
        """Land pages of a micro-batch: ask its partitions in rounds, until there is enough or nothing more.

        A partition without events may wait for one for *wait_seconds*. Returns False if the partitions have changed.
        """
        ends, deadline = Ends(self._query), self._clock() + GATHER_SECONDS
        with ThreadPoolExecutor(THREADS) as pool:
            while not batch.is_enough:
                is_bounded = batch.events_max is not None and (batch.events or self._ended is None)
                if is_bounded and self._clock() > deadline:
                    return True
                asked, size = batch.turn(self._query.page_size_hint)
                ask = partial(self._ask, start, batch, size, wait_seconds if len(asked) <= THREADS else 0.0)
                answers = dict(zip(asked, pool.map(ask, asked), strict=True))
                for partition, answer in answers.items():
                    if answer is None:
                        continue
                    place, page = answer
                    batch.take(partition, place)
                    batch.course.record(page.since, page)
                    if ends.is_end(partition, page):
                        batch.hungry.remove(partition)
                        if self._ended is not None:
                            self._ended.add(partition)
                if None in answers.values():
                    self._feed.meet_again(batch.course)
                    return False
        return True

    def _ask(
        self, start: LandedPlaces, batch: FeedMicroBatch, size: int, wait_seconds: float, partition: int
    ) -> tuple[PartitionPlace, Page] | None:
        """Land the next page of a partition, in a thread; return the place after it.

        None: the partitions have changed.
        """
        course, place = batch.course, batch.places[partition]
        # A place comes before a wait: were the connection to break in the wait, `_last` would mean a later end.
        wait_seconds = 0.0 if course.cursors[partition] == LAST else wait_seconds
        page = self._feed.page(course, partition, size=size, wait_seconds=wait_seconds)
        if page is None:
            return None
        if page.events:
            batches = list(to_batches(page.events, partition, place.number, self._query.url))
            self.landing_of(start).write(f"{self.run}/{partition}", place.page, batches)
            place = PartitionPlace(place.page + 1, place.number + len(page.events), page.cursors[partition])
        return place, page

    def _rest(self, start: LandedPlaces) -> float:
        """Let time pass if the last requests from *start* brought nothing; return how long the server may wait."""
        is_idle = self._beyond is not None and self._beyond[0] == start and self._ended is None
        if is_idle:
            self._sleep(max(0.0, self._looked + POLL_INTERVAL - self._clock()))
        self._looked = self._clock()
        return POLL_INTERVAL if is_idle else 0.0

    def _course(self, start: LandedPlaces) -> ReadState:
        cursors = {number: place.cursor for number, place in start.partitions.items()}
        if self._beyond is not None and self._beyond[0] == start:
            cursors = self._beyond[1]
        course = self._feed.course(cursors)
        if not self._is_checked:
            self._check(start, course)
            self._is_checked = True
        return course

    def _check(self, start: LandedPlaces, course: ReadState) -> None:
        """Check a checkpoint against the options; a new query has none."""
        count = len(start.partitions)
        if count and course.discovery.version == 1 and course.discovery.partition_count != count:
            allowed = f"{count}, as in the checkpoint; for another number of partitions, another checkpoint"
            raise bad_option("partitionCount", course.discovery.partition_count, allowed)
        if count and self._query.starting_cursors != FIRST:
            tell_beginning("startingCursors")
