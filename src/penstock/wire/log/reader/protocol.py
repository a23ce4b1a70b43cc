"""What a reader asks for, and how each protocol spells it.

Reads pages of a feed, whichever of the protocols its server speaks.

ZeroEventHub (version 1) brings any number of partitions in one answer; FeedAPI (version 2) one partition an answer, and
says with 409 that the partitions have changed. A Penstock hub speaks both at one address: there a single partition is
read by version 2, several are merged by version 1.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, TypedDict

from penstock.core.events.decoding import EventDecoder
from penstock.core.log.cursor import FIRST
from penstock.errors import (
    BadParameter,
    BadPartitionCount,
    Conflict,
    ConnectionLost,
    ServerError,
    StaleToken,
    Unavailable,
)
from penstock.wire.http import (
    ERROR_BYTES_MAX,
    FEED,
    MORE,
    Answer,
    Exchange,
    Head,
    Pause,
    Request,
    T,
    address,
    check_retry_timeout,
    is_passing,
    malformed,
    patiently,
    refusal,
    rest,
)
from penstock.wire.log.reader.pages import FeedEvent, Page, PageReader
from penstock.wire.log.reader.partitions import Course, Discovery, discover, version_one
from penstock.wire.log.zeroeventhub import CURSORSET_CHARS_MAX, NDJSON

ALL_HEADERS: Final = "_all"

Query = list[tuple[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for with every page, beside the cursors."""

    page_size_hint: int | None = None
    """Events; the server may send more or fewer. None: the server's default. 0: cursors only."""
    wait_seconds: float = 0.0
    """Seconds that a server which knows how waits for an event where there is none."""
    headers: str | Sequence[str] = ()
    """Names of headers that are to come with the events; ALL_HEADERS for all."""
    event_types: Sequence[str] = ()
    """Kinds of events wanted; empty: all. A server may disregard it."""
    skip_event_types: Sequence[str] = ()
    """Kinds of events not wanted."""
    cursor_set: str | None = None
    """The name under which the server keeps the cursors that it is given."""
    until: Mapping[int, str] | None = None
    """Cursors to stop at, by partition. Only a Penstock hub knows them, and it does not wait then."""

    def __post_init__(self) -> None:
        if self.page_size_hint is not None and self.page_size_hint < 0:
            raise BadParameter(parameter="page_size_hint", value=self.page_size_hint, allowed="0 or more")
        if not 0 <= self.wait_seconds < float("inf"):
            raise BadParameter(parameter="wait_seconds", value=self.wait_seconds, allowed="0 or more seconds")
        if self.event_types and self.skip_event_types:
            raise BadParameter(
                parameter="skip_event_types", value=self.skip_event_types, allowed="no event_types beside"
            )
        if self.cursor_set is not None and not _is_name(self.cursor_set):
            allowed = f"1 to {CURSORSET_CHARS_MAX} printable ASCII characters"
            raise BadParameter(parameter="cursor_set", value=self.cursor_set, allowed=allowed)


class Options(TypedDict, total=False):
    """The fields of `Wish`, as a feed's methods take them by keyword."""

    page_size_hint: int | None
    wait_seconds: float
    headers: str | Sequence[str]
    event_types: Sequence[str]
    skip_event_types: Sequence[str]
    cursor_set: str | None
    until: Mapping[int, str] | None


def wish(options: Options) -> Wish:
    """Return what *options* ask for.

    Raises:
        TypeError: one of them is none, and probably mistyped.

    >>> wish({"page_size_hint": 10}).page_size_hint
    10
    """
    for stranger in options.keys() - Options.__annotations__.keys():
        close = get_close_matches(stranger, Options.__annotations__, 1)
        asks = f"; did you mean {close[0]!r}?" if close else f", which has {', '.join(Options.__annotations__)}"
        raise TypeError(f"{stranger!r} is no option of a read{asks}")
    return Wish(**options)


def version_one_query(wish: Wish, n: int, cursors: Mapping[int, str], wait_seconds: float) -> Query:
    """Return ZeroEventHub's parameters of one read.

    >>> version_one_query(Wish(page_size_hint=10), 4, {2: "_first"}, 0)
    [('n', 4), ('cursor2', '_first'), ('pagesizehint', 10)]
    """
    query: Query = [("n", n), *((f"cursor{number}", cursor) for number, cursor in cursors.items())]
    if wish.cursor_set is not None:
        query.append(("cursorset", wish.cursor_set))
    query += [(f"until{number}", wish.until[number]) for number in cursors if wish.until and number in wish.until]
    return query + _shared(wish, wait_seconds)


def resume_query(wish: Wish, n: int, partitions: Sequence[int]) -> Query:
    """Return ZeroEventHub's parameters for reading on from the cursors that the server keeps."""
    numbers = ",".join(map(str, partitions))
    return [("n", n), ("cursorset", wish.cursor_set), ("resume", numbers), *_shared(wish, wish.wait_seconds)]


def store_query(cursor_set: str, n: int, cursors: Mapping[int, str]) -> Query:
    """Return ZeroEventHub's parameters for storing cursors without reading."""
    query = version_one_query(Wish(cursor_set=cursor_set, page_size_hint=0), n, cursors, 0)
    return [*query, ("store_cursor", 1)]


def version_two_query(wish: Wish, token: str, partition: int, cursor: str, wait_seconds: float) -> Query:
    """Return FeedAPI's parameters of one read.

    >>> version_two_query(Wish(event_types=["a", "b"]), "1-4", 0, "_first", 20)
    [('token', '1-4'), ('partition', 0), ('cursor', '_first'), ('wait', '20'), ('event-types', 'a;b')]
    """
    query: Query = [("token", token), ("partition", partition), ("cursor", cursor)]
    if wish.until and partition in wish.until:
        query.append(("until", wish.until[partition]))
    return query + _shared(wish, wait_seconds)


def _shared(wish: Wish, wait_seconds: float) -> Query:
    query: Query = []
    if wish.page_size_hint is not None:
        query.append(("pagesizehint", wish.page_size_hint))
    if wait_seconds > 0:
        query.append(("wait", f"{wait_seconds:g}"))
    if wish.headers:
        query.append(("headers", wish.headers if isinstance(wish.headers, str) else ",".join(wish.headers)))
    if wish.event_types:
        query.append(("event-types", ";".join(wish.event_types)))
    if wish.skip_event_types:
        query.append(("skip-event-types", ";".join(wish.skip_event_types)))
    return query


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= CURSORSET_CHARS_MAX and text.isascii() and text.isprintable()


PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A longer answer is left at its next cursor, so that a server that never ends its answers cannot fill the memory."""
PAGE_EVENTS_MAX: Final = 200_000
"""So is one of more events, unless more than half as many were asked for."""
TURN_WAIT_SECONDS: Final = 1.0
"""FeedAPI can wait for one partition alone: where several are read, each wait is cut to this."""
STALE_MAX: Final = 3
"""How often in a row the partitions may have changed before the server is given a pause."""


class FeedProtocol:
    """The protocol side of one feed: what is known of it, and how it is read. May be shared by readers.

    Args:
        url: The feed's address.
        partition_count: The n of ZeroEventHub; not used where the server speaks FeedAPI.
        version: 1 or 2 when the protocol is known, so that it need not be negotiated; None otherwise.
        merged: The server speaks both at this address, as a Penstock hub does.
        retry_timeout: Seconds for which a single read is tried again where the failure can pass.
        clock: Seconds that never go back.
        kind: The type into which events are decoded; None for none.
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
        check_retry_timeout(retry_timeout)
        known = None if partition_count is None else version_one(partition_count)
        self.url = url
        self.clock = clock
        self.merged = merged
        self.retry_timeout = retry_timeout
        self._partition_count = None if version == 2 else partition_count
        self._discovery = known if version == 1 else None
        self._ends: dict[int, str] = {}
        self._decoder = None if kind is None else EventDecoder(kind, url)

    def discovery(self, *, afresh: bool = False) -> Exchange[Discovery]:
        """Return what is known of the feed; ask for it the first time, or *afresh*."""
        if self._discovery is None or (afresh and self._discovery.version == 2):
            self._discovery = yield from discover(self.url, self._partition_count)
        return self._discovery

    def discover_patiently(self, *, afresh: bool = False) -> Exchange[Discovery]:
        """Do the same, again where the failure can pass."""
        return (yield from self._patiently(lambda: self.discovery(afresh=afresh)))

    def course(self, cursors: Mapping[int, str], chosen: Collection[int] | None, start: str) -> Exchange[Course]:
        """Return a reader's course, begun at *cursors*."""
        course = Course(cursors, chosen, start, self._ends)
        course.meet((yield from self.discovery()))
        return course

    def groups(self, course: Course, wish: Wish) -> list[list[int]]:
        """Return the partitions that can be read now, those together that one request brings."""
        readable = course.readable()
        merges = readable and self._merges(course.discovery, wish, len(readable))
        return [readable] if merges else [[number] for number in readable]

    def step(self, course: Course, group: Sequence[int], wish: Wish, wait_seconds: float) -> Exchange[Page | None]:
        """Read a page of the partitions in *group* and note it in *course*; None when the partitions have changed."""
        asked = {number: course.cursors[number] for number in group}
        try:
            page = yield from self.page(course.discovery, asked, wish, wait_seconds)
        except (StaleToken, BadPartitionCount) as error:
            if course.discovery.version == 1:
                raise
            course.stale_count += 1
            if course.stale_count > STALE_MAX:
                course.stale_count = 0
                raise Unavailable(reason=f"the partitions of {self.url} change all the time") from error
            course.meet((yield from self.discovery(afresh=True)))
            return None
        course.stale_count = 0
        course.record(asked, page)
        return page

    def page(self, discovery: Discovery, asked: Mapping[int, str], wish: Wish, wait_seconds: float) -> Exchange[Page]:
        """Read a page from the cursors *asked* for, once: of all partitions of a group, as `groups` returns them.

        Raises:
            StaleToken: the partitions have changed since *discovery*.
        """
        if self._merges(discovery, wish, len(asked)):
            n = discovery.partition_count
            url = address(self.url, query=version_one_query(wish, n, asked, wait_seconds))
            return (yield from self._answer(url, PageReader(url, asked, decoder=self._decoder), wish, wait_seconds))
        if wish.cursor_set is not None:
            raise BadParameter(parameter="cursor_set", value=wish.cursor_set, allowed="servers of ZeroEventHub only")
        [(partition, cursor)] = asked.items()
        token = discovery.token or ""
        url = address(self.url, "events", query=version_two_query(wish, token, partition, cursor, wait_seconds))
        reader = PageReader(url, asked, partition=partition, decoder=self._decoder)
        return (yield from self._answer(url, reader, wish, wait_seconds, token))

    def read(self, cursors: Mapping[int, str], wish: Wish) -> Exchange[Page]:
        """Read one page of the partitions that *cursors* names, and of those that follow from them."""
        if not cursors:
            raise BadParameter(parameter="cursors", value=cursors, allowed="one cursor for each partition to read")
        if wish.until is not None:
            self._check_until(wish.until, cursors)
            if wish.until and wish.wait_seconds:
                allowed = "0 beside until: such a read does not wait"
                raise BadParameter(parameter="wait_seconds", value=wish.wait_seconds, allowed=allowed)
        return (yield from self._patiently(lambda: self._read(cursors, wish)))

    def resume(self, wish: Wish, partitions: Sequence[int] | None) -> Exchange[Page]:
        """Read one page from where the cursors stand that the server keeps under the wish's cursor set."""
        refuse_until(wish)
        return (yield from self._patiently(lambda: self.resume_once(wish, partitions)))

    def resume_once(self, wish: Wish, partitions: Sequence[int] | None) -> Exchange[Page]:
        """Do the same, once."""
        n = yield from self._version_one_count()
        numbers = sorted(range(n) if partitions is None else partitions)
        url = address(self.url, query=resume_query(wish, n, numbers))
        page = yield from self._answer(
            url, PageReader(url, {}, asked=numbers, decoder=self._decoder), wish, wish.wait_seconds
        )
        if missing := [number for number in numbers if number not in page.cursors]:
            raise malformed(url, f"no cursor for partitions {missing}")
        return page

    def store(self, cursor_set: str, cursors: Mapping[int, str]) -> Exchange[None]:
        """Have the server keep *cursors* under the name *cursor_set*, without reading."""

        def attempt() -> Exchange[None]:
            n = yield from self._version_one_count()
            url = address(self.url, query=store_query(cursor_set, n, cursors))
            yield from self._answer(url, PageReader(url, cursors), Wish(), 0)

        yield from self._patiently(attempt)

    def _patiently(self, attempt: Callable[[], Exchange[T]]) -> Exchange[T]:
        return (yield from patiently(attempt, is_passing, self.retry_timeout, self.clock))

    def _read(self, cursors: Mapping[int, str], wish: Wish) -> Exchange[Page]:
        course = yield from self.course(cursors, cursors.keys(), FIRST)
        before = dict(course.cursors)
        deadline = self.clock() + wish.wait_seconds
        events: list[FeedEvent] = []
        turn = 0
        while True:
            started = self.clock()
            groups = self.groups(course, wish)
            for group, wait_seconds in turns(groups, wish.wait_seconds, turn):
                page = yield from self.step(course, group, _split(wish, len(groups)), wait_seconds)
                if page is None:
                    break
                events.extend(page.events)
            else:
                if events or course.cursors != before or len(groups) < 2 or self.clock() >= deadline:
                    return Page(events, dict(course.cursors), before)
                turn += 1
                if turn > 1:  # A server that does not know `wait` has answered at once.
                    yield Pause(max(0.0, min(started + TURN_WAIT_SECONDS, deadline) - self.clock()))

    def _answer(
        self, url: str, reader: PageReader, wish: Wish, wait_seconds: float, token: str | None = None
    ) -> Exchange[Page]:
        head: Head = yield Request(method="GET", url=url, headers={"accept": NDJSON}, wait_seconds=wait_seconds)
        if head.status != 200 or head.headers.get("content-type", "").startswith("text/html"):
            error = refusal(Answer(url, head.status, head.headers, (yield from rest(ERROR_BYTES_MAX))), FEED)
            if head.status == 409 and token is not None and type(error) in (ServerError, Conflict):
                raise StaleToken(given=token) from error
            raise error
        event_count_max = max(PAGE_EVENTS_MAX, 2 * (wish.page_size_hint or 0))
        try:
            while chunk := (yield MORE):
                reader.feed(chunk)
                if reader.is_closed and (reader.byte_count > PAGE_BYTES_MAX or reader.event_count > event_count_max):
                    return reader.cut()
            return reader.finish()
        except ConnectionLost as error:  # A server that breaks off each answer still gets the reader further.
            return reader.up_to(error)

    def _check_until(self, until: Mapping[int, str], cursors: Mapping[int, str]) -> None:
        if not self.merged:
            raise BadParameter(parameter="until", value=until, allowed="feeds of a Penstock hub only: merged=True")
        if strangers := until.keys() - cursors.keys():
            raise BadParameter(parameter="until", value=sorted(strangers), allowed="partitions that cursors has")

    def _merges(self, discovery: Discovery, wish: Wish, count: int) -> bool:
        """Say whether *count* partitions are read by version 1."""
        if discovery.version == 1:
            return True
        return self.merged and discovery.is_static and (count > 1 or wish.cursor_set is not None)

    def _version_one_count(self) -> Exchange[int]:
        discovery = yield from self.discovery()
        if discovery.version == 1 or (self.merged and discovery.is_static):
            return discovery.partition_count
        raise BadParameter(f"{self.url} speaks FeedAPI, which keeps no cursors", parameter="cursor_set")


def refuse_until(wish: Wish) -> None:
    """Raise BadParameter where *wish* has `until`: only a read from given cursors can stop at others."""
    if wish.until is not None:
        raise BadParameter(parameter="until", value=wish.until, allowed="it goes with read alone")


def turns(groups: Sequence[Sequence[int]], wait_seconds: float, turn: int) -> list[tuple[Sequence[int], float]]:
    """Return in which order the *groups* are read and how long each may wait, after *turn* fruitless rounds.

    >>> turns([[0, 1]], 10, 0), turns([[0], [1]], 10, 0), turns([[0], [1]], 10, 1)
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


def _split(wish: Wish, count: int) -> Wish:
    """Spread the page size over *count* requests."""
    if not wish.page_size_hint or count < 2:
        return wish
    return replace(wish, page_size_hint=max(1, wish.page_size_hint // count))
