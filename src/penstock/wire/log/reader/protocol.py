"""Protocol of reading a feed, for ZeroEventHub and FeedAPI servers.

ZeroEventHub (version 1) returns any number of partitions in one response. FeedAPI (version 2) returns one partition,
and responds 409 if the partitions have changed. A Penstock hub speaks both at one address: a single partition is read
with version 2, several with version 1.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.core.events.decoding import EventDecoder
from penstock.core.log.cursor import FIRST
from penstock.errors import (
    BadParameter,
    BadPartitionCount,
    Conflict,
    ConnectionLost,
    MalformedAnswer,
    ServerError,
    StaleToken,
    Unavailable,
)
from penstock.wire.arguments import check_count, check_cursors, check_names, check_seconds, check_type
from penstock.wire.http import (
    ERROR_BYTES_MAX,
    FEED,
    MORE,
    Exchange,
    HttpRequest,
    HttpResponse,
    Pause,
    ResponseHead,
    T,
    error_of,
    is_transient,
    join_url,
    read_body,
    retry_until,
)
from penstock.wire.log.reader.pages import FeedEvent, Page, PageReader
from penstock.wire.log.reader.partitions import Discovery, ReadState, discover, zeroeventhub_discovery
from penstock.wire.log.zeroeventhub import CURSORSET_CHARS_MAX, NDJSON, PAGE_SIZE

ALL_HEADERS: Final = "_all"
"""Value of a `headers` parameter: return all headers of the events."""

QueryPairs = list[tuple[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadParameters:
    """Parameters of a read, other than its cursors."""

    page_size_hint: int | None = None
    """Number of events; the server may return more or fewer. 0 returns cursors only.

    None is the server's default. Of a Penstock hub (`merged`) it is up to `PAGE_EVENTS` if the events are small, unless
    there is a cursor set.
    """
    wait_seconds: float = 0.0
    """Seconds that the server waits for an event if there is none, if it supports that."""
    headers: str | Sequence[str] = ()
    """Names of headers to return with the events; ALL_HEADERS returns all."""
    event_types: Sequence[str] = ()
    """Kinds of events to return; empty returns all. A server may ignore it."""
    skip_event_types: Sequence[str] = ()
    """Kinds of events to omit."""
    cursor_set: str | None = None
    """The name under which the server stores the cursors of the request."""
    until: Mapping[int, str] | None = None
    """Cursors to stop at, by partition. Only supported by a Penstock hub, which does not wait then."""

    def __post_init__(self) -> None:
        if self.page_size_hint is not None:
            check_count("page_size_hint", self.page_size_hint, 0)
        check_seconds("wait_seconds", self.wait_seconds, is_finite=True)
        check_names("event_types", self.event_types)
        check_names("skip_event_types", self.skip_event_types)
        if not isinstance(self.headers, str):
            check_names("headers", self.headers)
        if self.event_types and self.skip_event_types:
            raise BadParameter(
                parameter="skip_event_types", value=self.skip_event_types, allowed="no event_types beside"
            )
        if self.cursor_set is not None and not _is_name(self.cursor_set):
            allowed = f"1 to {CURSORSET_CHARS_MAX} printable ASCII characters"
            raise BadParameter(parameter="cursor_set", value=self.cursor_set, allowed=allowed)


def make_version_one_query(
    parameters: ReadParameters, n: int, cursors: Mapping[int, str], wait_seconds: float
) -> QueryPairs:
    """Return ZeroEventHub's query of one read.

    >>> make_version_one_query(ReadParameters(page_size_hint=10), 4, {2: "_first"}, 0)
    [('n', 4), ('cursor2', '_first'), ('pagesizehint', 10)]
    """
    query: QueryPairs = [("n", n), *((f"cursor{number}", cursor) for number, cursor in cursors.items())]
    if parameters.cursor_set is not None:
        query.append(("cursorset", parameters.cursor_set))
    query += [
        (f"until{number}", parameters.until[number])
        for number in cursors
        if parameters.until and number in parameters.until
    ]
    return query + _make_shared_query(parameters, wait_seconds)


def resume_query(parameters: ReadParameters, n: int, partitions: Sequence[int]) -> QueryPairs:
    """Return ZeroEventHub's query for reading from the cursors that the server stores."""
    numbers = ",".join(map(str, partitions))
    return [
        ("n", n),
        ("cursorset", parameters.cursor_set),
        ("resume", numbers),
        *_make_shared_query(parameters, parameters.wait_seconds),
    ]


def store_query(cursor_set: str, n: int, cursors: Mapping[int, str]) -> QueryPairs:
    """Return ZeroEventHub's query for storing cursors without reading."""
    query = make_version_one_query(ReadParameters(cursor_set=cursor_set, page_size_hint=0), n, cursors, 0)
    return [*query, ("store_cursor", 1)]


def make_version_two_query(
    parameters: ReadParameters, token: str, partition: int, cursor: str, wait_seconds: float
) -> QueryPairs:
    """Return FeedAPI's query of one read.

    >>> make_version_two_query(ReadParameters(event_types=["a", "b"]), "1-4", 0, "_first", 20)
    [('token', '1-4'), ('partition', 0), ('cursor', '_first'), ('wait', '20'), ('event-types', 'a;b')]
    """
    query: QueryPairs = [("token", token), ("partition", partition), ("cursor", cursor)]
    if parameters.until and partition in parameters.until:
        query.append(("until", parameters.until[partition]))
    return query + _make_shared_query(parameters, wait_seconds)


def _make_shared_query(parameters: ReadParameters, wait_seconds: float) -> QueryPairs:
    query: QueryPairs = []
    if parameters.page_size_hint is not None:
        query.append(("pagesizehint", parameters.page_size_hint))
    if wait_seconds > 0:
        query.append(("wait", f"{wait_seconds:g}"))
    if parameters.headers:
        query.append(
            ("headers", parameters.headers if isinstance(parameters.headers, str) else ",".join(parameters.headers))
        )
    if parameters.event_types:
        query.append(("event-types", ";".join(parameters.event_types)))
    if parameters.skip_event_types:
        query.append(("skip-event-types", ";".join(parameters.skip_event_types)))
    return query


def _is_name(text: object) -> bool:
    return isinstance(text, str) and 1 <= len(text) <= CURSORSET_CHARS_MAX and text.isascii() and text.isprintable()


PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A longer response is cut at its next cursor, so that an endless response cannot exhaust the memory."""
PAGE_EVENTS_MAX: Final = 200_000
"""A response with more events is cut too, unless more than half of this number was requested."""
PAGE_BYTES: Final = 2 * 1024 * 1024
"""The size of a hub's page, in bytes, that a reader asks for by default."""
PAGE_EVENTS: Final = 5_000
"""Maximum number of events that a reader asks a hub for by default: a larger page is hardly faster."""
TURN_WAIT_SECONDS: Final = 1.0
"""FeedAPI waits for one partition only: when several are read, each wait is limited to this."""
STALE_MAX: Final = 3
"""Number of consecutive changes of the partitions after which the reader waits."""


class FeedProtocol:
    """Protocol of one feed. Several readers may share it.

    Args:
        url: The feed's address.
        partition_count: The n of ZeroEventHub; ignored if the server speaks FeedAPI.
        version: 1 or 2 to skip the negotiation.
        merged: The server speaks both protocols at this address, as a Penstock hub does.
        retry_timeout: Seconds for which a single read retries temporary failures.
        clock: Return the time in seconds.
        kind: The type of the events' data, if any.
    """

    def __init__(
        self,
        url: str,
        *,
        partition_count: int | None,
        version: int | None,
        merged: bool,
        retry_timeout: float,
        clock: Callable[[], float],
        kind: Any = None,
    ) -> None:
        if version not in (None, 1, 2):
            raise BadParameter(parameter="version", value=version, allowed="1 (ZeroEventHub) or 2 (FeedAPI)")
        if version == 1 and partition_count is None:
            raise BadParameter("ZeroEventHub (version 1) needs partition_count=...", parameter="partition_count")
        if not isinstance(merged, bool):
            raise BadParameter(parameter="merged", value=merged, allowed="True or False")
        check_seconds("retry_timeout", retry_timeout)
        known = None if partition_count is None else zeroeventhub_discovery(partition_count)
        self.url = url
        self.clock = clock
        self.merged = merged
        self.retry_timeout = retry_timeout
        self._partition_count = None if version == 2 else partition_count
        self._discovery = known if version == 1 else None
        self._ends: dict[int, str] = {}
        self._line_bytes = PAGE_BYTES
        """Mean size of a line of the last page with events; before the first one, as large as a whole page."""
        self._decoder = None if kind is None else EventDecoder(kind, url)

    def discovery(self, *, afresh: bool = False) -> Exchange[Discovery]:
        """Return the feed's discovery; request it at first use, or again with *afresh*."""
        if self._discovery is None or (afresh and self._discovery.version == 2):
            self._discovery = yield from discover(self.url, self._partition_count)
        return self._discovery

    def discover_with_retries(self, *, afresh: bool = False) -> Exchange[Discovery]:
        """Return the feed's discovery as `discovery` does, with retries."""
        return (yield from self._retry(lambda: self.discovery(afresh=afresh)))

    def read_state(self, cursors: Mapping[int, str], chosen: Collection[int] | None, start: str) -> Exchange[ReadState]:
        """Return the state of a reader that begins at *cursors*."""
        state = ReadState(cursors, chosen, start, self._ends)
        state.update_partitions((yield from self.discovery()))
        return state

    def groups(self, state: ReadState, parameters: ReadParameters) -> list[list[int]]:
        """Return the readable partitions, grouped by request."""
        readable = state.list_readable()
        merges = readable and self._merges(state.discovery, parameters, len(readable))
        return [readable] if merges else [[number] for number in readable]

    def step(
        self, state: ReadState, group: Sequence[int], parameters: ReadParameters, wait_seconds: float
    ) -> Exchange[Page | None]:
        """Read a page of the partitions in *group* and record it in *state*; None if the partitions have changed."""
        asked = {number: state.cursors[number] for number in group}
        try:
            page = yield from self.page(state.discovery, asked, parameters, wait_seconds)
        except (StaleToken, BadPartitionCount) as error:
            if state.discovery.version == 1:
                raise
            state.stale_count += 1
            if state.stale_count > STALE_MAX:
                state.stale_count = 0
                raise Unavailable(reason=f"the partitions of {self.url} change all the time") from error
            state.update_partitions((yield from self.discovery(afresh=True)))
            return None
        state.stale_count = 0
        state.record(asked, page)
        return page

    def page(
        self, discovery: Discovery, asked: Mapping[int, str], parameters: ReadParameters, wait_seconds: float
    ) -> Exchange[Page]:
        """Read a page once, from the cursors *asked*, of the partitions of one group.

        Raises:
            StaleToken: The partitions have changed since *discovery*.
        """
        if parameters.page_size_hint is None:
            parameters = replace(parameters, page_size_hint=self._choose_page_size(parameters))
        if self._merges(discovery, parameters, len(asked)):
            n = discovery.partition_count
            url = self._page_url(make_version_one_query(parameters, n, asked, wait_seconds))
            return (yield from self._answer(url, self._page_reader(url, asked), parameters, wait_seconds))
        if parameters.cursor_set is not None:
            raise BadParameter(
                parameter="cursor_set", value=parameters.cursor_set, allowed="servers of ZeroEventHub only"
            )
        [(partition, cursor)] = asked.items()
        token = discovery.token or ""
        url = self._page_url(make_version_two_query(parameters, token, partition, cursor, wait_seconds), "events")
        reader = self._page_reader(url, asked, partition=partition)
        return (yield from self._answer(url, reader, parameters, wait_seconds, token))

    def read(self, cursors: Mapping[int, str], parameters: ReadParameters) -> Exchange[Page]:
        """Read one page of the partitions in *cursors* and of their successors."""
        if cursors:
            check_cursors(cursors)
        else:
            raise BadParameter(parameter="cursors", value=cursors, allowed="one cursor for each partition to read")
        if parameters.until is not None:
            check_type("until", parameters.until, Mapping, "a cursor by partition number")
            self._check_until(parameters.until, cursors)
            if parameters.until and parameters.wait_seconds:
                allowed = "0 beside until: such a read does not wait"
                raise BadParameter(parameter="wait_seconds", value=parameters.wait_seconds, allowed=allowed)
        return (yield from self._retry(lambda: self._read(cursors, parameters)))

    def resume(self, parameters: ReadParameters, partitions: Sequence[int] | None) -> Exchange[Page]:
        """Read one page from the cursors that the server stores under the cursor set."""
        check_no_until(parameters)
        return (yield from self._retry(lambda: self.resume_once(parameters, partitions)))

    def resume_once(self, parameters: ReadParameters, partitions: Sequence[int] | None) -> Exchange[Page]:
        """Read as `resume` does, without retries."""
        n = yield from self._version_one_count()
        numbers = sorted(range(n) if partitions is None else partitions)
        url = self._page_url(resume_query(parameters, n, numbers))
        reader = self._page_reader(url, {}, asked=numbers)
        page = yield from self._answer(url, reader, parameters, parameters.wait_seconds)
        if missing := [number for number in numbers if number not in page.cursors]:
            raise MalformedAnswer(url=url, reason=f"no cursor for partitions {missing}")
        return page

    def store(self, cursor_set: str, cursors: Mapping[int, str]) -> Exchange[None]:
        """Store *cursors* at the server under the name *cursor_set*, without reading."""
        check_cursors(cursors)

        def attempt() -> Exchange[None]:
            n = yield from self._version_one_count()
            url = join_url(self.url, query=store_query(cursor_set, n, cursors))
            yield from self._answer(url, PageReader(url, cursors), ReadParameters(), 0)

        yield from self._retry(attempt)

    def _page_url(self, query: QueryPairs, *path: str) -> str:
        """Return the address of a page; only a hub is asked for details, which other servers do not have."""
        return join_url(self.url, *path, query=[*query, ("details", 1)] if self.merged else query)

    def _page_reader(self, url: str, cursors: Mapping[int, str], **options: Any) -> PageReader:
        return PageReader(url, cursors, decoder=self._decoder, has_details=self.merged, **options)

    def _retry(self, attempt: Callable[[], Exchange[T]]) -> Exchange[T]:
        return (yield from retry_until(attempt, is_transient, self.retry_timeout, self.clock))

    def _read(self, cursors: Mapping[int, str], parameters: ReadParameters) -> Exchange[Page]:
        state = yield from self.read_state(cursors, cursors.keys(), FIRST)
        before = dict(state.cursors)
        deadline = self.clock() + parameters.wait_seconds
        events: list[FeedEvent] = []
        turn = 0
        while True:
            started = self.clock()
            groups = self.groups(state, parameters)
            for group, wait_seconds in plan_round(groups, parameters.wait_seconds, turn):
                page = yield from self.step(state, group, _split(parameters, len(groups)), wait_seconds)
                if page is None:
                    break
                events.extend(page.events)
            else:
                if events or state.cursors != before or len(groups) < 2 or self.clock() >= deadline:
                    return Page(events, dict(state.cursors), before)
                turn += 1
                if turn > 1:  # A server that does not support `wait` has responded at once.
                    yield Pause(max(0.0, min(started + TURN_WAIT_SECONDS, deadline) - self.clock()))

    def _answer(
        self, url: str, reader: PageReader, parameters: ReadParameters, wait_seconds: float, token: str | None = None
    ) -> Exchange[Page]:
        head: ResponseHead = yield HttpRequest(
            method="GET", url=url, headers={"accept": NDJSON}, wait_seconds=wait_seconds
        )
        if head.status != 200 or head.headers.get("content-type", "").startswith("text/html"):
            error = error_of(
                HttpResponse(url, head.status, head.headers, (yield from read_body(ERROR_BYTES_MAX))), FEED
            )
            if head.status == 409 and token is not None and type(error) in (ServerError, Conflict):
                raise StaleToken(given=token) from error
            raise error
        event_count_max = max(PAGE_EVENTS_MAX, 2 * (parameters.page_size_hint or 0))
        try:
            while chunk := (yield MORE):
                reader.feed(chunk)
                if reader.is_closed and (reader.byte_count > PAGE_BYTES_MAX or reader.event_count > event_count_max):
                    return reader.cut()
            self._measure(reader)
            return reader.finish()
        except ConnectionLost as error:  # The reader makes progress even if the server breaks off every response.
            return reader.recover(error)

    def _choose_page_size(self, parameters: ReadParameters) -> int | None:
        """Return the page size to ask a hub for; None for the server's default.

        A cursor set is stored with the next read, so that a whole page is read again after a failure: it is not
        enlarged.
        """
        count = min(PAGE_EVENTS, PAGE_BYTES // self._line_bytes)
        return count if self.merged and parameters.cursor_set is None and count > PAGE_SIZE else None

    def _measure(self, reader: PageReader) -> None:
        """Record the size of the events that *reader* has read."""
        if reader.event_count:
            self._line_bytes = max(1, reader.byte_count // reader.event_count)

    def _check_until(self, until: Mapping[int, str], cursors: Mapping[int, str]) -> None:
        if not self.merged:
            raise BadParameter(parameter="until", value=until, allowed="feeds of a Penstock hub only: merged=True")
        if strangers := until.keys() - cursors.keys():
            raise BadParameter(parameter="until", value=sorted(strangers), allowed="partitions that cursors has")

    def _merges(self, discovery: Discovery, parameters: ReadParameters, count: int) -> bool:
        """Return whether *count* partitions are read with version 1."""
        if discovery.version == 1:
            return True
        return self.merged and discovery.is_static and (count > 1 or parameters.cursor_set is not None)

    def _version_one_count(self) -> Exchange[int]:
        discovery = yield from self.discovery()
        if discovery.version == 1 or (self.merged and discovery.is_static):
            return discovery.partition_count
        raise BadParameter(f"{self.url} speaks FeedAPI, which keeps no cursors", parameter="cursor_set")


def check_no_until(parameters: ReadParameters) -> None:
    """Raise BadParameter if *parameters* have `until`: only `read` can stop at cursors."""
    if parameters.until is not None:
        raise BadParameter(parameter="until", value=parameters.until, allowed="it goes with read alone")


def plan_round(groups: Sequence[Sequence[int]], wait_seconds: float, turn: int) -> list[tuple[Sequence[int], float]]:
    """Return the order in which to read *groups*, and how long each read may wait, after *turn* empty rounds.

    >>> plan_round([[0, 1]], 10, 0), plan_round([[0], [1]], 10, 0), plan_round([[0], [1]], 10, 1)
    ([([0, 1], 10)], [([0], 0.0), ([1], 0.0)], [([1], 1.0), ([0], 0.0)])
    """
    if len(groups) < 2:
        return [(group, wait_seconds) for group in groups]
    first = turn % len(groups)
    ordered = [*groups[first:], *groups[:first]]
    return [
        (group, min(wait_seconds, TURN_WAIT_SECONDS) if turn and not place else 0.0)
        for place, group in enumerate(ordered)
    ]


def _split(parameters: ReadParameters, count: int) -> ReadParameters:
    """Divide the page size among *count* requests."""
    if not parameters.page_size_hint or count < 2:
        return parameters
    return replace(parameters, page_size_hint=max(1, parameters.page_size_hint // count))
