"""The feeds of a hub: each partition is a tranche, each key a stream, whose indices are offsets."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from penstock.client.concurrency import Closing
from penstock.client.credentials import make_auth
from penstock.client.http import adapter
from penstock.client.http.async_transport import AsyncTransport
from penstock.client.http.exchanges import JsonExchange
from penstock.client.log.starting import start_now
from penstock.client.registry import EventTypeProtocol, hub_address
from penstock.core.events.event import stream_name
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark, parse_cursor
from penstock.core.log.start import Start, Word, check_start
from penstock.errors import (
    BadCursor,
    BadParameter,
    BadPartitionCount,
    CursorExpired,
    EventsLost,
    MalformedAnswer,
    RequirementMissing,
    StaleSplit,
    Unavailable,
)
from penstock.processing.engine.tranche import Batch, Position, split_batch
from penstock.processing.parameters import check_flag
from penstock.processing.sources.feed_position import (
    FeedPosition,
    check_place,
    decode_tranche,
    encode_tranche,
    numbering_of,
)
from penstock.processing.sources.source import ReadRequest
from penstock.processing.stream_event import StreamEvent
from penstock.wire.http import Exchange, HttpRequest, Pause, check_address, is_transient, join_url, retry_until
from penstock.wire.log.feedapi import ARROW, CURSOR_HEADER, LEFT_OUT_HEADER
from penstock.wire.query import Query

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R")


class ExchangeRunner:
    """Runs exchanges for any threads concurrently, until `close`.

    An unavailable hub is logged once for all exchanges, until the announced pause is over.

    Args:
        http: The user's `httpx2.AsyncClient`, which the user closes; None: an own client.
        auth: The credential that the own client sends: see `Client`.

    Raises:
        BadParameter: both are given.
    """

    def __init__(self, http: Any = None, auth: Any = None) -> None:
        adapter.check_auth(http, auth)
        self._http = http
        self._auth = make_auth(auth)
        self._transport: AsyncTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()
        self._is_over = False
        self._told_until = 0.0

    @property
    def is_over(self) -> bool:
        """True if it is closed."""
        return self._is_over

    def begin(self, exchange: Exchange[R]) -> "Future[R]":
        """Start an exchange, and return the future of its result.

        Raises:
            Unavailable: it is closed.
        """
        with self._turn:
            if self._is_over:
                raise Unavailable(reason="the source is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-exchanges", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(self._run(exchange), self._loop)

    def carry_out(self, exchange: Exchange[R]) -> R:
        """Run an exchange, and return its result.

        Raises:
            Unavailable: it was closed meanwhile.
        """
        return await_result(self.begin(exchange))

    def close(self) -> None:
        """Cancel running exchanges, and end."""
        with self._turn:
            self._is_over, loop, self._loop = True, self._loop, None
        if loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    async def _run(self, exchange: Exchange[R]) -> R:
        if self._transport is None:
            self._transport = AsyncTransport(self._http, auth=self._auth, log=self._log)
        return await self._transport.carry_out(exchange)

    def _log(self, pause: Pause) -> None:
        now = time.monotonic()
        if pause.because is not None and now >= self._told_until:
            self._told_until = now + pause.seconds
            adapter.log_pause(pause)

    async def _end(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._transport is not None:
            await self._transport.aclose()


def await_result(future: "Future[R]") -> R:
    """Return the result of an exchange.

    Raises:
        Unavailable: its `ExchangeRunner` was closed meanwhile.
    """
    try:
        return future.result()
    except CancelledError:
        raise Unavailable(reason="the source is closed") from None


_FOR_EVER: Final = float("inf")


def import_pyarrow() -> Any:
    """Return the library PyArrow, which comes with the extra `arrow`.

    Raises:
        RequirementMissing: it is not installed.
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        install = "install it: pip install 'penstock-hub[arrow]'"
        raise RequirementMissing(needed="PyArrow, to read feeds by column,", found="none", install=install) from error
    return pa


class Partitions(NamedTuple):
    """The partitions of a feed, and their offsets."""

    epoch: int
    floors: tuple[int, ...]
    """By partition: the offset of the first retained event."""
    heads: tuple[int, ...]
    """By partition: the offset that the next event will have."""
    is_hashed: bool
    """True if a key always has the same partition, unless partitions are added."""


class Bounds(NamedTuple):
    """The first and next offsets of each partition of a feed, as in `Partitions`."""

    epoch: int
    floors: tuple[int, ...]
    heads: tuple[int, ...]


class FeedPage(NamedTuple):
    """A page of several partitions."""

    events: "pa.Table"
    ends: Mapping[int, int]
    """The offset after the page, by partition."""
    left_out: Mapping[int, int]
    """The number of offsets without an event before that end, by partition."""


class FeedPages:
    """The protocol for reading one event type; retries transient errors.

    Args:
        url: The hub's address.
        event_type: The event type.
        clock: Returns seconds that never decrease.
        retry_timeout: Seconds after which retries end; by default never.
    """

    def __init__(
        self, url: str, event_type: str, clock: Callable[[], float], *, retry_timeout: float = _FOR_EVER
    ) -> None:
        self._url = url
        self._event_type = event_type
        self._clock = clock
        self._retry_timeout = retry_timeout
        self._json = JsonExchange(retry_timeout, clock)
        self._event_types = EventTypeProtocol(url, retry_timeout=retry_timeout, clock=clock)

    def partitions(self) -> Exchange[Partitions]:
        """Return the feed's partitions, with their offsets.

        Raises:
            EventTypeNotFound: there is no such feed.
        """

        def attempt() -> Exchange[Partitions]:
            bounds = yield from self._bounds()
            shown = yield from self._event_types.show(self._event_type)
            return Partitions(*bounds, shown.get("partition_strategy", "random") == "hash")

        return (yield from retry_until(attempt, is_transient, self._retry_timeout, self._clock))

    def bounds(self) -> Exchange[Bounds]:
        """Return the offsets of each partition, with one request.

        Raises:
            EventTypeNotFound: there is no such feed.
        """
        return (yield from retry_until(self._bounds, is_transient, self._retry_timeout, self._clock))

    def _bounds(self) -> Exchange[Bounds]:
        found = yield from self._event_types.partitions(self._event_type)
        if [each.partition for each in found] != list(range(len(found))) or not found:
            raise Unavailable(reason=f"the partitions of {self._event_type!r} are changing")
        heads = tuple(each.head for each in found)
        return Bounds(found[0].epoch, tuple(each.oldest for each in found), heads)

    def find_offsets(self, time: datetime) -> Exchange[dict[int, int]]:
        """Return, by partition, the first offset received at *time* or later; its end if there is none."""
        found = yield from self._event_types.find_offsets_since(self._event_type, time)
        return {each.partition: each.offset for each in found}

    def page(
        self, epoch: int, count: int, offsets: Mapping[int, int], events: int, wait_seconds: float
    ) -> "Exchange[FeedPage | None]":
        """Return the next page, of up to *events* events, of the partitions that *offsets* names.

        None: the feed's number of partitions is no longer *count*.

        Raises:
            CursorExpired, BadCursor: the feed has no such offset.
            RequirementMissing: PyArrow is not installed.
        """
        pa = import_pyarrow()
        mark = feed_mark(self._event_type)
        cursors = (
            (f"cursor{partition}", FeedCursor(mark, epoch, FeedView(count, partition, count), (offset,)).encode())
            for partition, offset in offsets.items()
        )
        query: list[tuple[str, object]] = [("n", count), *cursors, ("pagesizehint", events)]
        query += [("wait", wait_seconds)] if wait_seconds else []
        url = join_url(hub_address(self._url, "feeds", self._event_type), query=query)
        request = HttpRequest(method="GET", url=url, headers={"accept": ARROW}, wait_seconds=wait_seconds)
        try:
            answer = yield from self._json.send(request, is_transient, 200)
        except (BadPartitionCount, StaleSplit):
            return None
        after = Query(answer.headers.get(CURSOR_HEADER.lower(), "").encode())
        left_out = Query(answer.headers.get(LEFT_OUT_HEADER.lower(), "").encode())
        ends: dict[int, int] = {}
        missing: dict[int, int] = {}
        for partition in offsets:
            cursors_after = after.find_texts(f"cursor{partition}")
            if not cursors_after:
                raise MalformedAnswer(url=url, reason=f"an answer without {CURSOR_HEADER}")
            cursor = parse_cursor(cursors_after[0], CURSOR_HEADER, self._event_type)
            if cursor.view.count != count:
                return None
            [ends[partition]] = cursor.offsets
            missing[partition] = int(next(iter(left_out.find_texts(f"partition{partition}")), "0"))
        try:
            with pa.ipc.open_stream(answer.body) as stream:
                return FeedPage(stream.read_all(), ends, missing)
        except pa.ArrowException as error:
            raise MalformedAnswer(url=url, reason=f"no Arrow stream: {error}") from error


PAGE_EVENTS: Final = 20_000
PART_EVENTS: Final = 250
"""The number of events of a part of a page, after which there is a position: a restart repeats fewer events."""
WAIT_SECONDS: Final = 20.0
"""Seconds that a request for all partitions waits at the hub."""
PARTIAL_WAIT_SECONDS: Final = 0.1
"""The same for a request for some partitions: there may soon be room for the others."""
LOOK_INTERVAL: Final = 5.0
"""Seconds between two checks for new partitions."""
_NAMES: Final = "the names of event types, one after the other, not in a list: 'order.placed', 'order.shipped'"
_log: Final = logging.getLogger("penstock.processing")


class FeedSource(Closing):
    """The events of one or several event types of a hub.

    A tranche is a partition, `order.placed/3`. A stream is the events of one key, `order.placed-7`, in the order of
    their offsets, which are its indices. Events without a key are one stream in each partition; so are those of each
    key, if the event type is not partitioned by a hash. Reading methods wait for a hub that does not answer.

    Args:
        url: The hub's address.
        event_types: The event types to read, at least one.
        start: Where a processor without a position begins: at the `earliest` retained event, behind the `latest`, or
            with the first one received at a time or later, a datetime with a time zone, or since a duration ago, a
            timedelta. Partitions that are added later are read whole.
        fail_on_loss: True: it is an error if unread events are removed. False: reading continues without them, and
            their number is logged.
        http: Your own `httpx2.AsyncClient`, with its authentication and proxies; you close it.
        auth: Instead of *http*, the credential to send: a token, `TokenFile(path)`, which follows a file, or an
            authentication of httpx: see `Client`.

    Raises:
        BadParameter: there is no event type, the name of one is no text, or *start* is invalid.
        RequirementMissing: PyArrow is not installed; the extra `arrow` brings it.
        EventTypeNotFound: (reading methods) there is no event type of that name.
        EventsLost: (`read`) unread events are removed, and *fail_on_loss* is True.
        EventsLost: (`read`) a position is of an earlier feed of the same name.
    """

    is_dense = False
    is_by_stream = False
    is_replayable = True

    def __init__(
        self,
        url: str,
        *event_types: str,
        start: Start = "earliest",
        fail_on_loss: bool = True,
        http: Any = None,
        auth: Any = None,
    ) -> None:
        if not event_types:
            raise BadParameter(parameter="event_types", value=(), allowed="the name of one event type at least")
        _check_names(event_types)
        begins = start_now(check_start(start))
        check_flag("fail_on_loss", fail_on_loss)
        import_pyarrow()
        address = check_address(url, relative=http is not None)
        self._exchanges = ExchangeRunner(http, auth)
        self._feeds = {
            name: _Feed(name, address, begins, fail_on_loss=fail_on_loss) for name in dict.fromkeys(event_types)
        }
        self._polls: dict[str, _Poll] = {}

    @property
    def is_closed(self) -> bool:
        """True if it is closed: no processor can start with it."""
        return self._exchanges.is_over

    def tranches(self) -> Collection[str]:
        """Return the partitions, as of the last check."""
        return [tranche for feed in self._feeds.values() for tranche in self._exchanges.carry_out(feed.tranches())]

    def is_hashed(self, event_type: str) -> bool:
        """Return whether a key of an event type always has the same partition, unless partitions are added."""
        return self._exchanges.carry_out(self._feeds[event_type].get_partitions()).is_hashed

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where to begin in a partition: at its start, if there are positions in others of its event type."""
        feed, partition = self._find_feed(tranche)
        event_type, _ = decode_tranche(tranche)
        is_new = any(each.rpartition("/")[0] == event_type for each in kept)
        return self._exchanges.carry_out(feed.beginning(partition, is_new=is_new))

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the events that have arrived of each wanted partition.

        A request that waits at the hub continues after the call, and a later call returns its answer. With *timeout* 0,
        return the events that are there now.
        """
        asked: dict[str, dict[int, ReadRequest]] = {}
        for tranche, want in wants.items():
            event_type, partition = decode_tranche(tranche)
            asked.setdefault(event_type, {})[partition] = want
        for event_type, partitions in asked.items():
            self._cancel_obsolete(event_type)
            if event_type not in self._polls:
                feed = self._feeds[event_type]
                exchange = feed.poll(partitions, wait_seconds=WAIT_SECONDS if timeout else 0.0)
                self._polls[event_type] = _Poll(partitions, self._exchanges.begin(exchange), feed.epoch)
                if not timeout:
                    wait([self._polls[event_type].answer])
        wait([poll.answer for poll in self._polls.values()], timeout=timeout, return_when=FIRST_COMPLETED)
        ended = [event_type for event_type, poll in self._polls.items() if poll.answer.done()]
        found = [(poll, batch) for poll in map(self._polls.pop, ended) for batch in await_result(poll.answer)]
        return [batch for poll, batch in found if poll.is_still_wanted(batch, wants)]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a partition again from an earlier offset."""
        feed, partition = self._find_feed(tranche)
        return self._exchanges.carry_out(feed.reread(partition, want))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each partition has behind its position now. An unavailable hub is not waited for.

        Raises:
            Unavailable: the hub is unavailable; says which, and why.
        """
        return {
            encode_tranche(name, partition): gap
            for name, feed in self._feeds.items()
            for partition, gap in self._exchanges.carry_out(feed.behind(positions)).items()
        }

    def close(self) -> None:
        """End, and cancel requests that wait at the hub."""
        self._exchanges.close()

    def _cancel_obsolete(self, event_type: str) -> None:
        """Cancel a request that waits for events of a former feed of the same name: they never come."""
        poll = self._polls.get(event_type)
        if poll is not None and poll.epoch not in (None, self._feeds[event_type].epoch):
            poll.answer.cancel()
            del self._polls[event_type]

    def _find_feed(self, tranche: str) -> "tuple[_Feed, int]":
        event_type, partition = decode_tranche(tranche)
        return self._feeds[event_type], partition


def _split(batch: Batch) -> list[Batch]:
    epoch = FeedPosition.decode(str(batch.end)).epoch
    return split_batch(batch, PART_EVENTS, lambda event: FeedPosition(epoch, event.next).encode())


def _check_names(event_types: Sequence[Any]) -> None:
    for each in event_types:
        if not isinstance(each, str) or not each:
            raise BadParameter(parameter="event_types", value=str(each), allowed=_NAMES)


class _Poll(NamedTuple):
    """A running request."""

    asked: Mapping[int, ReadRequest]
    """By partition."""
    answer: "Future[list[Batch]]"
    epoch: int | None
    """The known epoch of the feed when the request began."""

    def is_still_wanted(self, batch: Batch, wants: Mapping[str, ReadRequest]) -> bool:
        """Return whether *batch* follows the wanted position: another may have owned the tranche meanwhile."""
        want = wants.get(batch.tranche)
        return want is not None and want.position == self.asked[decode_tranche(batch.tranche)[1]].position


class _Feed:
    """One event type."""

    def __init__(self, name: str, url: str, start: Word | datetime, *, fail_on_loss: bool) -> None:
        self._name = name
        self._pages = FeedPages(url, name, time.monotonic)
        self._impatient = FeedPages(url, name, time.monotonic, retry_timeout=0.0)
        self._start = start
        self._fail_on_loss = fail_on_loss
        self._found: Partitions | None = None
        self._first: Partitions | None = None
        self._begun: Mapping[int, int] | None = None
        self._looked_at = float("-inf")

    def tranches(self) -> Exchange[list[str]]:
        now = time.monotonic()
        if now - self._looked_at > LOOK_INTERVAL:
            self._looked_at = now
            yield from self._refresh()
        known = yield from self.get_partitions()
        return [encode_tranche(self._name, partition) for partition in range(len(known.heads))]

    def beginning(self, partition: int, *, is_new: bool) -> Exchange[str]:
        if self._begun is None:
            self._begun = yield from self._find_beginnings()
        offset = None if is_new and self._start == "latest" else self._begun.get(partition)
        known = yield from self.get_partitions()
        return FeedPosition(known.epoch, known.floors[partition] if offset is None else offset).encode()

    def poll(self, wants: Mapping[int, ReadRequest], wait_seconds: float) -> Exchange[list[Batch]]:
        """Return the next page of some partitions, in parts; empty batches if none arrived within the wait."""
        # A partition with little room is left out for a while: a page is as small as the least room of its partitions.
        most = max(want.events_max for want in wants.values())
        chosen = {partition: want for partition, want in wants.items() if want.events_max * 4 >= most}
        places = {partition: FeedPosition.decode(str(want.position)) for partition, want in chosen.items()}
        events = min([PAGE_EVENTS, *(want.events_max for want in chosen.values())])
        known = yield from self.get_partitions()
        if len(chosen) < len(known.heads):
            wait_seconds = min(wait_seconds, PARTIAL_WAIT_SECONDS)
        found = yield from self._read(places, events, wait_seconds)
        return [part for batch in found for part in _split(batch)]

    def reread(self, partition: int, want: ReadRequest) -> Exchange[Batch]:
        place = FeedPosition.decode(str(want.position))
        found = yield from self._read({partition: place}, min(PAGE_EVENTS, want.events_max), 0.0)
        return found[0] if found else Batch(encode_tranche(self._name, partition), want.position, [], is_tail=False)

    def behind(self, positions: Mapping[str, Position]) -> Exchange[dict[int, int]]:
        found = yield from self._impatient.bounds()
        gaps = {}
        for partition, (floor, head) in enumerate(zip(found.floors, found.heads, strict=True)):
            at = positions.get(encode_tranche(self._name, partition))
            place = None if at is None else FeedPosition.decode(str(at))
            known = place is not None and place.epoch == found.epoch
            gaps[partition] = head - max(floor, place.offset if place is not None and known else 0)
        return gaps

    def _read(self, places: Mapping[int, FeedPosition], events: int, wait_seconds: float) -> Exchange[list[Batch]]:
        known = yield from self.get_partitions()
        if any(place.epoch != known.epoch for place in places.values()):
            known = yield from self._refresh()
            places = {partition: self._resolve(partition, place, known) for partition, place in places.items()}
        offsets = {partition: place.offset for partition, place in places.items()}
        try:
            page = yield from self._pages.page(known.epoch, len(known.heads), offsets, events, wait_seconds)
        except (CursorExpired, BadCursor):
            known = yield from self._refresh()
            resolved = {partition: self._resolve(partition, place, known) for partition, place in places.items()}
            if resolved == places:
                raise
            return (yield from self._read(resolved, events, wait_seconds))
        if page is None:  # The feed's number of partitions has changed.
            yield from self._refresh()
            return []
        return self._make_batches(page, places, is_hashed=known.is_hashed)

    def _make_batches(self, page: FeedPage, places: Mapping[int, FeedPosition], *, is_hashed: bool) -> list[Batch]:
        found: dict[int, list[StreamEvent]] = {partition: [] for partition in places}
        sizes: Counter[int] = Counter()
        is_tail = all(page.ends[partition] == place.offset for partition, place in places.items())
        for batch in page.events.to_batches():
            if batch.num_rows:
                partition = batch.column("partition")[0].as_py()
                found[partition] += self._make_events(batch, partition, places[partition].epoch, is_hashed=is_hashed)
                sizes[partition] += batch.nbytes
        made = []
        for partition, events in found.items():
            place, end = places[partition], page.ends[partition]
            is_whole = end - place.offset == len(events) + page.left_out[partition]
            if not is_whole or (events and not place.offset <= events[0].index <= events[-1].index < end):
                found_there = f"{len(events)} rows"
                if events:
                    found_there = f"offsets {events[0].index} to {events[-1].index} in {found_there}"
                reason = f"{found_there}, where {place.offset} and those after it, before {end}, were asked for"
                raise MalformedAnswer(url=f"{self._name!r}, partition {partition},", reason=reason)
            if end > place.offset or is_tail:
                position = FeedPosition(place.epoch, end).encode()
                tranche = encode_tranche(self._name, partition)
                made.append(Batch(tranche, position, events, is_tail=is_tail, bytes=sizes[partition]))
        return made

    def _make_events(
        self, batch: "pa.RecordBatch", partition: int, epoch: int, *, is_hashed: bool
    ) -> list[StreamEvent]:
        pa = import_pyarrow()
        name, tranche, rows = self._name, encode_tranche(self._name, partition), batch.num_rows
        keys = batch.column("key").to_pylist()
        return list(
            map(
                StreamEvent,
                [stream_name(name, partition, key, is_hashed=is_hashed) for key in keys],
                batch.column("offset").to_pylist(),
                [kind or name for kind in batch.column("kind").to_pylist()],
                batch.column("data").cast(pa.binary()).to_pylist(),
                keys,
                batch.column("headers").to_pylist(),
                [tranche] * rows,
                batch.column("received_at").cast(pa.int64()).to_pylist(),
                [numbering_of(tranche, epoch)] * rows,
            )
        )

    def _resolve(self, partition: int, place: FeedPosition, known: Partitions) -> FeedPosition:
        """Return the position to continue from in a feed that does not have *place*.

        Raises:
            EventsLost: unread events are removed, and the source fails on loss.
            EventsLost: the feed was created again.
            BadParameter: the feed ends before *place*.
        """
        check_place(encode_tranche(self._name, partition), place, known.epoch, known.heads)
        floor = known.floors[partition]
        if place.offset >= floor:
            return place
        lost, reason = floor - place.offset, "retention has overtaken the processor"
        if self._fail_on_loss:
            raise EventsLost(event_type=self._name, partition=partition, lost=lost, reason=reason)
        _log.warning("%s events of %r, partition %d, are lost: %s", lost, self._name, partition, reason)
        return FeedPosition(known.epoch, floor)

    def _find_beginnings(self) -> Exchange[Mapping[int, int]]:
        """Return a new processor's first offset by partition; other partitions are read from their start."""
        if isinstance(self._start, datetime):
            return (yield from self._pages.find_offsets(self._start))
        if self._start == "latest" and self._first is not None:
            return dict(enumerate(self._first.heads))
        return {}

    @property
    def epoch(self) -> int | None:
        """The feed's epoch, as of the last check; None: there was no check."""
        return None if self._found is None else self._found.epoch

    def get_partitions(self) -> Exchange[Partitions]:
        return self._found if self._found is not None else (yield from self._refresh())

    def _refresh(self) -> Exchange[Partitions]:
        self._found = yield from self._pages.partitions()
        self._first = self._first or self._found
        return self._found
