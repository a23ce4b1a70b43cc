"""format("nakadi"): a subscription of any Nakadi server.

Nakadi keeps how far a subscription has come, Spark how far a query has. A batch that Nakadi sends has a cursor, its
events have none: who asks again from anywhere but a cursor that is committed gets them again, cut into other batches.
So the driver takes batches from an open stream and lands them.

Invariants:
    A cursor is committed only after Spark has committed the micro-batch whose events are before it.
    No stream is opened while a micro-batch is under way, nor before Nakadi stands where Spark does: what is sent then
    follows what has landed, and none of it had landed before.
"""

import logging
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.client.http.reading import ExchangeReader
from penstock.client.subscriptions.stream_protocol import StreamBegan, StreamEnded
from penstock.errors import BadParameter, Conflict, Forbidden, Invalid, MalformedAnswer, PenstockError, Unavailable
from penstock.spark import options
from penstock.spark.arrow_types import arrow_type
from penstock.spark.authorization import authorization
from penstock.spark.foreign.landing import Landed, Landing, LandingStream, file_system, new_landing, parse_location
from penstock.spark.foreign.query import BATCH_BYTES, ForeignQuery, option
from penstock.spark.heads import report_loss
from penstock.spark.http import QueryHttp, check_head, send_request
from penstock.spark.options import bad_option, event_types_of
from penstock.spark.patience import DELAY_SECONDS_MAX, Patience, patiently
from penstock.wire.http import (
    MORE,
    Exchange,
    HttpRequest,
    ReaderItem,
    ResponseHead,
    RetryBackoff,
    is_transient,
    join_url,
)
from penstock.wire.log.nakadi import MEDIA_TYPE, NUMBER_MAX, parse_offset
from penstock.wire.log.reader.pages import LineReader
from penstock.wire.subscriptions import BATCHES, STREAM_ID, BatchCursor, BatchLine

Result = TypeVar("Result")
NAKADI: Final = "Nakadi server"
FLUSH_SECONDS: Final = 1
"""A batch that is not full is sent after so long; after as long, that there is nothing."""
MICRO_BATCHES_AHEAD: Final = 2
"""Maximum number of micro-batches sent before they are committed: one is being processed while the next comes."""
CHUNKS_AHEAD: Final = 512
"""Maximum number of chunks, of up to 64 KiB each, that are read ahead of landed pages: 32 MiB."""
CLOSE_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 2.0
"""Seconds for which a micro-batch is gathered. A batch of Nakadi's that is not full comes after one second."""
LINGER_SECONDS: Final = 0.2
"""Seconds for which a micro-batch with events waits for more."""
UNSAID: Final = "the server did not say why"
_SKIPPED: Final = re.compile(r"skipped events due to retention time passed, count: (\d+)", re.ASCII)
_log: Final = logging.getLogger("penstock.spark")

SCHEMA: Final = StructType(
    [
        StructField("event_type", StringType(), False),
        StructField("partition", StringType(), False),
        StructField("cursor", StringType(), False),
        StructField("place", LongType(), False),
        StructField("id", StringType(), True),
        StructField("data", StringType(), False),
        StructField("received_at", TimestampType(), True),
    ]
)
_ROWS: Final = pa.schema(arrow_type(SCHEMA))


class NakadiPartition(NamedTuple):
    """A partition of a subscription."""

    event_type: str
    partition: str
    """As Nakadi names it."""

    def __str__(self) -> str:
        return f"partition {self.partition} of {self.event_type!r}"


Cursors: TypeAlias = Mapping[NakadiPartition, str]
"""The offset of the last event consumed in each partition, as Nakadi writes it."""


def is_before(one: str | None, other: str) -> bool:
    """Return whether *one* is before *other*; None stands for a partition of which nothing is known.

    >>> is_before("001-0001-000000000000000009", "001-0001-000000000000000010"), is_before("001-0001--1", "001-0001--1")
    (True, False)
    """
    return one is None or parse_offset(one) < parse_offset(other)


def behind(these: Cursors, wanted: Cursors) -> dict[NakadiPartition, str]:
    """Return those of *wanted* that *these* have not come to."""
    return {place: offset for place, offset in wanted.items() if is_before(these.get(place), offset)}


def beyond(these: Cursors, known: Cursors) -> dict[NakadiPartition, str]:
    """Return those of *these* that have gone on from where they are *known*.

    Where Nakadi goes over to another timeline, it writes the end of the old one as the offset before the first event of
    the new one: nothing lies between the two.
    """
    return {
        place: offset
        for place, offset in these.items()
        if place in known and is_before(known[place], offset) and parse_offset(offset)[1] >= 0
    }


def advance_cursors(these: Cursors, news: Cursors) -> dict[NakadiPartition, str]:
    """Return *these* with *news*, where that is further on."""
    return {**these, **behind(these, news)}


class LandedCursors(Landed, frozen=True):
    """An offset of Spark's: which pages have landed, and up to which cursors."""

    subscription: str
    """Its id."""
    page: int
    """The page that lands next."""
    cursors: dict[str, dict[str, str]]
    """By event type and partition: the offset of the last event that has landed, in this run or before."""

    def lanes(self) -> Mapping[str, int]:
        """Return the one lane of the run, and the page that lands next."""
        return {self.run: self.page}

    def places(self) -> dict[NakadiPartition, str]:
        """Return the cursors by partition."""
        return {NakadiPartition(name, each): to for name, ends in self.cursors.items() for each, to in ends.items()}


_SUBSCRIPTION: Final = "the id of a subscription; or owningApplication and eventType, by which one is found or created"
_OWNER: Final = "the application that owns the subscription"


def _url(_: str, text: str | None) -> str:
    return options.hub_url({} if text is None else {"url": text}, "the address of a Nakadi server")


def _make_name_parser(allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if not text.strip():
            raise bad_option(name, text, allowed)
        return text.strip()

    return parse


def _event_types(name: str, text: str) -> tuple[str, ...]:
    return event_types_of({name: text})


def _read_from(name: str, text: str) -> str:
    return options.one_of(name, text, {"begin": "begin", "end": "end"})


@dataclass(frozen=True, kw_only=True)
class SubscriptionQuery(ForeignQuery):
    """A query of a subscription. Its fields are the options of the format."""

    source = "nakadi"
    columns = SCHEMA
    offset_type = LandedCursors
    offset_example = '{"page": 17, "cursors": {"order.placed": {"0": "001-0001-000000000000000042"}}, …}'

    url: str = option(_url)
    """The server, without a slash at the end."""
    subscription: str | None = option(_make_name_parser(_SUBSCRIPTION), None)
    """Its id; None: it is found, or created, by the next four."""
    owning_application: str | None = option(_make_name_parser(_OWNER), None)
    event_type: tuple[str, ...] = option(_event_types, ())
    consumer_group: str | None = option(_make_name_parser("the consumer group of the subscription"), None)
    read_from: str | None = option(_read_from, None)
    """Where a subscription that is created begins: begin or end."""
    landing_location: str = option(parse_location)
    """The directory in which batches land."""
    max_events_per_trigger: int = option(options.whole_number, 100_000)
    """The most that a micro-batch takes."""
    batch_limit: int = option(options.whole_number, 500)
    """The most events that Nakadi sends as one batch."""
    commit_timeout: int = option(options.whole_seconds, 60)
    """Seconds after the last commit until Nakadi ends a stream of which anything is uncommitted."""
    token_file: str | None = option(options.token_file, None)
    """The file with the bearer token, which the driver reads for each request."""
    fail_on_data_loss: bool = option(options.flag_of, True)
    """True if events that are gone before they were read end the query."""
    retry_timeout: float = option(options.seconds_of, 120.0)
    """How long the driver waits for a server that does not answer, or for room for its stream; 0: not at all."""

    def __post_init__(self) -> None:
        definition = {
            "owningApplication": self.owning_application,
            "eventType": ",".join(self.event_type),
            "consumerGroup": self.consumer_group,
            "readFrom": self.read_from,
        }
        given = [name for name, value in definition.items() if value]
        if not given and (self.subscription is None or "/" in self.subscription or self.subscription in (".", "..")):
            raise bad_option("subscription", self.subscription, _SUBSCRIPTION)
        if given and self.subscription is not None:
            raise bad_option(given[0], definition[given[0]], "without subscription, which says all of it")
        if given and self.owning_application is None:
            raise bad_option("owningApplication", None, _OWNER)
        if given and not self.event_type:
            event_types_of({})
        if self.batch_limit > self.max_events_per_trigger:
            allowed = f"up to {self.max_events_per_trigger}, which is maxEventsPerTrigger"
            raise bad_option("batchLimit", self.batch_limit, allowed)

    def definition(self) -> dict[str, Any]:
        """Return the definition of the subscription, as Nakadi takes it."""
        return {
            "owning_application": self.owning_application,
            "event_types": list(self.event_type),
            "consumer_group": self.consumer_group or "default",
            "read_from": self.read_from or "begin",
        }

    def check(self, *, is_stream: bool) -> None:
        """Refuse to read a batch: a subscription has no beginning and no end to read between."""
        if not is_stream:
            allowed = "spark.readStream, which with .trigger(availableNow=True) reads what there is and ends"
            detail = f"format('nakadi') cannot be read as a batch; allowed: {allowed}"
            raise BadParameter(detail, parameter="format", value="nakadi", allowed=allowed)
        file_system(self.landing_location)

    def stream(self) -> "NakadiStream":
        """Return the driver's part of a stream."""
        return NakadiStream(self)


QUERY: Final = SubscriptionQuery


class _Event(msgspec.Struct, gc=False):
    # Any: events of category undefined may have whatever they like under this name.
    metadata: Any = None


_events: Final = msgspec.json.Decoder(_Event)


def to_rows(line: BatchLine) -> pa.RecordBatch:
    """Return the events of *line* as they land, in all columns.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: An event is no JSON object.
    """
    raws = [bytes(event) for event in line.events or ()]
    metadata = [_metadata(raw) for raw in raws]
    cursor = line.cursor
    arrays = [
        *(pa.repeat(pa.scalar(text), len(raws)) for text in (cursor.event_type, cursor.partition, cursor.offset)),
        pa.array(range(len(raws)), pa.int64()),
        pa.array([each["eid"] if isinstance(each.get("eid"), str) else None for each in metadata], pa.string()),
        pa.array([raw.decode() for raw in raws], pa.string()),
        pa.array([_time(each.get("received_at")) for each in metadata], pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)


def _metadata(raw: bytes) -> dict[str, Any]:
    found = _events.decode(raw).metadata
    return found if isinstance(found, dict) else {}


def _time(value: object) -> datetime | None:
    """Return the time that *value* is; None where it is none, or has no zone.

    >>> _time("2026-11-20T10:00:00.5+01:00")
    datetime.datetime(2026, 11, 20, 9, 0, 0, 500000, tzinfo=datetime.timezone.utc)
    """
    try:
        found = msgspec.convert(value, datetime)
    except (msgspec.ValidationError, OverflowError):
        return None
    return None if found.tzinfo is None else found.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class _Lines(ReaderItem):
    lines: list[BatchLine]
    """The lines that one chunk has completed."""


def _read_lines(request: HttpRequest) -> Exchange[None]:
    head: ResponseHead = yield request
    yield from check_head(request, head, NAKADI)
    if STREAM_ID.lower() not in head.headers:
        raise MalformedAnswer(url=request.url, reason=f"it has no {STREAM_ID}")
    yield StreamBegan(head.headers[STREAM_ID.lower()])
    reader = LineReader(request.url, BATCHES)
    while chunk := (yield MORE):
        yield _Lines(reader.feed(chunk))
    yield _Lines(reader.finish())


class OpenStream:
    """An open stream, which a thread reads until it ends or is closed: its lines, then its end.

    Raises:
        PenstockError: The server does not open it.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        request = HttpRequest(method="GET", url=url, headers={"accept": MEDIA_TYPE})
        self._reader = ExchangeReader(QueryHttp(headers), _read_lines(request))
        self.id: str = self._reader.advance().stream_id
        self._inbox: queue.Queue[_Lines | StreamEnded | Exception] = queue.Queue(CHUNKS_AHEAD)
        self._lines: deque[BatchLine] = deque()
        self._thread = threading.Thread(target=self._read, name="penstock-nakadi-stream", daemon=True)
        self._thread.start()

    def take(self, timeout: float) -> BatchLine | StreamEnded | None:
        """Return the next line, or the end; None if nothing has come for *timeout* seconds."""
        deadline = time.monotonic() + timeout
        while not self._lines:
            try:
                item = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if isinstance(item, Exception):
                raise item
            if isinstance(item, StreamEnded):
                return item
            self._lines.extend(item.lines)
        return self._lines.popleft()

    def close(self) -> None:
        """Close the connection, and wait for the thread."""
        self._reader.stop()
        deadline = time.monotonic() + CLOSE_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            while not self._inbox.empty():  # The thread may wait for room.
                self._inbox.get()
            self._thread.join(0.05)

    def _read(self) -> None:
        reason = UNSAID
        ended: StreamEnded | Exception
        try:
            while (item := self._reader.advance()) is not None:
                reason = next((each.reason for each in reversed(item.lines) if each.reason), reason)
                self._inbox.put(item)
            ended = StreamEnded(self.id, reason)
        except PenstockError as error:
            ended = StreamEnded(self.id, error.detail, error)
        except Exception as error:  # noqa: BLE001 - A defect of ours: it is raised where the stream is read.
            ended = error
        self._reader.close()
        self._inbox.put(ended)


class SubscriptionReader:
    """The subscription of a *query*, as its one reader has it, and the stream of it that is open, if one is.

    Each request but a commit is repeated while the server does not answer.

    Raises:
        NotFound: The subscription does not exist, or no longer.
        BadParameter: The token file has no token.
        PenstockError: The server's refusal, or it has not answered for too long.
    """

    def __init__(self, query: SubscriptionQuery, sleep: Callable[[float], object] = time.sleep) -> None:
        self._query = query
        self._stream: OpenStream | None = None
        self.held: BatchLine | None = None
        """A line that was taken, and that comes again before any other of this stream."""
        self._tokens: dict[tuple[NakadiPartition, str], str] = {}
        """With which the cursors that the stream was sent are committed."""
        self._committed: dict[NakadiPartition, str] = {}
        """As far as it is known here."""
        self._backoff = RetryBackoff(DELAY_SECONDS_MAX)
        self._ended: StreamEnded | None = None
        """Why the last stream has ended, if it has brought nothing since."""
        self._sleep = sleep

    @cached_property
    def id(self) -> str:
        """Its id. It is created if it does not exist and the options define it."""
        if self._query.subscription is not None:
            return self._query.subscription
        return self._read(lambda said: str(said["id"]), "subscriptions", body=self._query.definition())

    @property
    def _cursors(self) -> tuple[str, str, str]:
        return "subscriptions", self.id, "cursors"

    @property
    def is_open(self) -> bool:
        """Return whether an open stream may deliver events."""
        return self._stream is not None and self._ended is None

    def ends(self) -> dict[NakadiPartition, str]:
        """Return the newest event of each partition that has events."""
        found: dict[NakadiPartition, str] = {}
        for name in self._read(lambda said: [str(each) for each in said["event_types"]], "subscriptions", self.id):
            found |= self._read(partial(_ends, name), "event-types", name, "partitions")
        return found

    def load_committed(self) -> dict[NakadiPartition, str]:
        """Return the committed cursors; empty until the first stream is opened."""
        return self._read(_read_committed, *self._cursors)

    def open(self, wanted: Cursors) -> Cursors:
        """Open a stream of the events after *wanted*; return its first cursors.

        Raises:
            EventsLost: The subscription is further, or events after *wanted* are missing, and failOnDataLoss is set.
            Forbidden: The subscription must be moved, and the caller may not do that.
        """
        if self._ended is not None:
            self._sleep(self._backoff.delay(self._ended.error or Unavailable(self._ended.reason)))
        self.close()
        before = self.load_committed()
        self._settle(before, wanted)
        self._stream = self._patiently(self._connect)
        self._committed = advance_cursors(before or self.load_committed(), wanted)
        return self._committed

    def take(self, timeout: float) -> BatchLine | None:
        """Return the next line; None if none has come for *timeout* seconds, or the stream has ended."""
        if self.held is not None:
            line, self.held = self.held, None
            return line
        assert self._stream is not None, "a stream was opened"
        item = self._stream.take(timeout)
        if isinstance(item, StreamEnded):
            _log.warning("a stream of subscription %s has ended: %s", self.id, item.reason)
            self._ended = item
            return None
        if item is not None:
            self._backoff.reset()
        return item

    def note(self, cursor: BatchCursor) -> None:
        """Note a cursor that may be committed later."""
        place = NakadiPartition(cursor.event_type, cursor.partition)
        if is_before(self._committed.get(place), cursor.offset):
            self._tokens[place, cursor.offset] = cursor.cursor_token

    def commit(self, cursors: Cursors) -> None:
        """Commit those of *cursors* that the stream has delivered. Close the stream if the server refuses them."""
        sent = {place: offset for place, offset in cursors.items() if (place, offset) in self._tokens}
        if self._stream is None or not sent:
            return
        items = [{**_cursor(*each), "cursor_token": self._tokens[each]} for each in sent.items()]
        try:
            self._ask(*self._cursors, body={"items": items}, headers={STREAM_ID: self._stream.id})
        except Invalid as error:
            _log.warning("a stream of subscription %s cannot commit: %s", self.id, error.detail)
            self.close()
        except PenstockError as error:
            if not is_transient(error):
                raise
            _log.warning("subscription %s: %s; it is committed later", self.id, error.detail)
        else:
            self._committed |= sent
            self._tokens = {
                (place, offset): token
                for (place, offset), token in self._tokens.items()
                if is_before(self._committed.get(place), offset)
            }

    def close(self) -> None:
        """Close the stream, if there is one; what it was sent and was not taken is forgotten."""
        if self._stream is not None:
            self._stream.close()
        self._stream = self._ended = self.held = None
        self._tokens = {}

    def report_loss(self, place: NakadiPartition, lost: int | None, reason: str) -> None:
        """Report events that are gone.

        Raises:
            EventsLost: failOnDataLoss says that the query fails.
        """
        partition = int(place.partition) if place.partition.isdigit() else None
        report_loss(
            self._query.fail_on_data_loss, event_type=place.event_type, partition=partition, lost=lost, reason=reason
        )

    def _connect(self) -> OpenStream:
        window = max(self._query.max_events_per_trigger * MICRO_BATCHES_AHEAD, self._query.batch_limit)
        wish = {
            "batch_limit": self._query.batch_limit,
            "batch_flush_timeout": FLUSH_SECONDS,
            "max_uncommitted_events": min(window, NUMBER_MAX),
            "commit_timeout": self._query.commit_timeout,
        }
        url = join_url(self._query.url, "subscriptions", self.id, "events", query=wish.items())
        return OpenStream(url, authorization(self._query.token_file))

    def _settle(self, committed: Cursors, wanted: Cursors) -> None:
        """Have Nakadi stand where the query does."""
        for place, offset in beyond(committed, wanted).items():
            reason = (
                f"the query has come to {wanted[place]}, while {offset} is committed: by another consumer, by who has "
                "moved the subscription, or by Nakadi itself, of events that it does not deliver"
            )
            self.report_loss(place, None, reason)
        late = behind(committed, wanted)
        try:
            self._move(late)
        except Invalid:
            for place, offset in late.items():
                try:
                    self._move({place: offset})
                except Invalid as error:
                    reason = f"the query has come to {offset}, which Nakadi does not go on from: {error.detail}"
                    self.report_loss(place, None, reason)

    def _move(self, cursors: Cursors) -> None:
        """Move the subscription to *cursors*, which closes its streams."""
        items = [_cursor(place, offset) for place, offset in cursors.items()]
        try:
            if items:
                self._patiently(partial(self._ask, *self._cursors, body={"items": items}, method="PATCH"))
        except Forbidden as error:
            advice = "the query moves the subscription to where its checkpoint is; that takes its admin right"
            raise Forbidden(f"{error.detail}: {advice}", **error.fields) from error

    def _read(self, read: Callable[[Any], Result], *path: str, body: Any = None) -> Result:
        found: Result = self._patiently(partial(self._ask, *path, body=body, read=read))
        return found

    def _patiently(self, attempt: Callable[[], Result]) -> Result:
        def once() -> Result:
            try:
                return attempt()
            except Conflict as error:  # It will pass.
                raise Unavailable(f"others are in the way: {error.detail}", **error.fields) from error

        return patiently(self._query.retry_timeout, once)

    def _ask(self, *path: str, headers: Mapping[str, str] | None = None, **how: Any) -> Any:
        sent = {**(headers or {}), **authorization(self._query.token_file)}
        return send_request(join_url(self._query.url, *path), headers=sent, wanted=NAKADI, **how)


def _read_committed(said: Any) -> dict[NakadiPartition, str]:
    return {NakadiPartition(each["event_type"], each["partition"]): str(each["offset"]) for each in said["items"] or ()}


def _ends(event_type: str, said: Any) -> dict[NakadiPartition, str]:
    """Return where partitions end; one that is empty ends before its oldest event."""
    return {
        NakadiPartition(event_type, str(each["partition"])): str(each["newest_available_offset"])
        for each in said
        if not is_before(each["newest_available_offset"], each["oldest_available_offset"])
    }


def _cursor(place: NakadiPartition, offset: str) -> dict[str, str]:
    return {"partition": place.partition, "offset": offset, "event_type": place.event_type}


class _MicroBatch:
    """A micro-batch while its pages land. It holds one page in memory."""

    def __init__(self, start: LandedCursors, run: str, landing: Landing) -> None:
        self.start = start
        self.events = 0
        self.cursors: Cursors = start.places()
        """The offsets up to which the stream has nothing more."""
        self._run = run
        self._landing = landing
        self._page = start.page if start.run == run else 0
        self._rows: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows.append(rows)
        self._size += rows.nbytes
        self.events += rows.num_rows
        if self._size >= BATCH_BYTES:
            self._land()

    def end(self) -> LandedCursors:
        """Land what is left, and return where the micro-batch ends: at its start, if nothing has come."""
        if not self.events:
            return self.start
        self._land()
        cursors: dict[str, dict[str, str]] = {}
        for place, offset in sorted(self.cursors.items()):
            cursors.setdefault(place.event_type, {})[place.partition] = offset
        return msgspec.structs.replace(self.start, run=self._run, page=self._page, cursors=cursors)

    def _land(self) -> None:
        if self._rows:
            page = pa.Table.from_batches(self._rows, _ROWS).combine_chunks().to_batches()
            self._landing.write(self._run, self._page, page)
            self._page += 1
            self._rows, self._size = [], 0


class NakadiStream(LandingStream[LandedCursors]):
    """The driver's part of a stream."""

    def __init__(self, query: SubscriptionQuery, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(query.landing_location)
        self._query = query
        self._subscription = SubscriptionReader(query)
        self._clock = clock
        self._goal: dict[NakadiPartition, str] | None = None
        """The ends that a query has to come to which reads what there is; those that it has come to are removed."""
        self._offered: tuple[LandedCursors, LandedCursors] | None = None

    def begin(self) -> LandedCursors:
        """Return the offset that a new query begins with: a landing of its own, without pages."""
        return LandedCursors(new_landing(self.location).id, self.run, self._subscription.id, 0, {})

    def end_now(self) -> None:
        """Note where partitions end now: the query ends there, whatever else comes."""
        self._goal = self._subscription.ends()

    def land(self, start: LandedCursors, events_max: int | None) -> LandedCursors:
        """Land what follows *start*, up to *events_max* events, and return where that ends.

        Spark has committed all up to *start*, or it would not ask: so it is committed now.

        Raises:
            BadParameter: *start* is of another subscription.
            EventsLost: Events are gone, and failOnDataLoss says that it fails.
            PenstockError: The server's refusal, or it has not answered for too long.
        """
        if start.subscription != self._subscription.id:
            allowed = f"{start.subscription}, whose cursors the checkpoint has; for another one, another checkpoint"
            raise bad_option("subscription", self._subscription.id, allowed)
        self._subscription.commit(start.places())
        if self._offered is not None and self._offered[0] == start:
            return self._offered[1]
        batch = _MicroBatch(start, self.run, self.landing_of(start))
        if events_max is None and self._goal is None:  # Spark runs one micro-batch alone: `trigger(once=True)`.
            self.end_now()
        self._gather(batch, events_max)
        end = batch.end()
        self._offered = None if end == start else (start, end)
        return end

    def commit(self, start: LandedCursors | None, end: LandedCursors) -> None:
        """Tell Nakadi how far Spark has come, and delete the pages before the micro-batch."""
        self._subscription.commit(end.places())
        super().commit(start, end)

    def close(self) -> None:
        """Close the stream. Events that Spark has not committed stay uncommitted."""
        self._subscription.close()

    def _gather(self, batch: _MicroBatch, events_max: int | None) -> None:
        """Land what comes, until there is nothing more for now; with a goal, until that is come to."""
        if not self._subscription.is_open:
            self._look(batch)
        patience, deadline = Patience(self._query.retry_timeout), self._clock() + WAIT_SECONDS
        while self._goal is None or self._goal:
            left = deadline - self._clock()
            lingers = self._goal is None and batch.events
            is_over = left <= 0 or not self._subscription.is_open
            line = None if is_over else self._subscription.take(min(LINGER_SECONDS, left) if lingers else left)
            if line is not None:
                if events_max is not None and batch.events > 0 and batch.events + len(line.events or ()) > events_max:
                    self._subscription.held = line
                    return
                self._take(batch, line)
            if line is not None and line.events:
                patience.reset()
                deadline = deadline if self._goal is None else self._clock() + WAIT_SECONDS
            elif line is None or self._clock() >= deadline:  # Signs of life do not count.
                if self._goal is None or batch.events:
                    return
                self._look(batch)
                if self._goal:
                    missing = ", ".join(f"{offset} in {place}" for place, offset in self._goal.items())
                    reason = f"subscription {self._subscription.id}: nothing comes, up to {missing}"
                    patience.endure(Unavailable(reason))
                deadline = self._clock() + WAIT_SECONDS

    def _look(self, batch: _MicroBatch) -> None:
        """Have a stream open, and see whether others have come to the goal.

        Others are consumers, or Nakadi itself, where there is nothing to deliver.
        """
        start = batch.start.places()
        committed = (
            self._subscription.load_committed() if self._subscription.is_open else self._subscription.open(start)
        )
        self._reach(start)
        self._reach(committed)

    def _reach(self, cursors: Cursors) -> None:
        """Remove from the goal those ends that *cursors* have come to."""
        if self._goal is not None:
            self._goal = behind(cursors, self._goal)

    def _take(self, batch: _MicroBatch, line: BatchLine) -> None:
        cursor = line.cursor
        place = NakadiPartition(cursor.event_type, cursor.partition)
        if skipped := _SKIPPED.search(line.debug or ""):
            self._subscription.report_loss(place, int(skipped[1]), "retention has removed them")
        if self._goal is not None and place not in self._goal:
            return
        if line.events and not is_before(batch.cursors.get(place), cursor.offset):
            _log.warning("%s: what ends with %s has come again, and is passed over", place, cursor.offset)
            return
        if line.events:
            try:
                batch.add(to_rows(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                reason = f"an event is no JSON object: {error}"
                raise MalformedAnswer(url=self._query.url, reason=reason) from error
        batch.cursors = advance_cursors(batch.cursors, {place: cursor.offset})
        self._subscription.note(cursor)
        self._reach({place: cursor.offset})
