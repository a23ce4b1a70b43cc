"""What a processor asks of a hub's feed: which partitions there are, and pages of several of them by column."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.client.http.exchanges import JsonExchange, decode_response
from penstock.client.registry import EventTypeProtocol, hub_address
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark, parse_cursor
from penstock.errors import BadPartitionCount, MalformedAnswer, RequirementMissing, StaleSplit, Unavailable
from penstock.wire.http import Exchange, HttpRequest, is_transient, join_url, retry_until
from penstock.wire.log.feedapi import ARROW, CURSOR_HEADER, LEFT_OUT_HEADER
from penstock.wire.log.nakadi import parse_offset
from penstock.wire.query import Query

if TYPE_CHECKING:
    import pyarrow as pa

_FOR_EVER: Final = float("inf")


def pyarrow() -> Any:
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
    """What a feed has to offer."""

    epoch: int
    floors: tuple[int, ...]
    """By partition: the offset of the first event that is still there."""
    heads: tuple[int, ...]
    """By partition: the offset that the next event will have."""
    is_hashed: bool
    """Whether a key always falls in the same partition, as long as none is added."""


class Bounds(NamedTuple):
    """Return the offsets that each partition of a feed holds, as `Partitions` tells them."""

    epoch: int
    floors: tuple[int, ...]
    heads: tuple[int, ...]


class FeedPage(NamedTuple):
    """A page of several partitions."""

    events: "pa.Table"
    ends: Mapping[int, int]
    """The offset after the page, by partition."""
    left_out: Mapping[int, int]
    """The number of offsets up to there without an event, by partition."""


class FeedPages:
    """The protocol side of reading one event type: what can pass is waited for.

    Args:
        url: The hub's.
        event_type: Which one.
        clock: Seconds that never go back.
        retry_timeout: For so many seconds; by default for ever.
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
        """Return which partitions there are, and what each holds.

        Raises:
            EventTypeNotFound: there is no such feed.
        """

        def attempt() -> Exchange[Partitions]:
            bounds = yield from self._bounds()
            shown = yield from self._event_types.show(self._event_type)
            return Partitions(*bounds, shown.get("partition_strategy", "random") == "hash")

        return (yield from retry_until(attempt, is_transient, self._retry_timeout, self._clock))

    def bounds(self) -> Exchange[Bounds]:
        """Return what each partition holds: one request.

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

    def offsets_at(self, time: datetime) -> Exchange[dict[int, int]]:
        """Return, by partition, the first offset received at *time* or later; where it ends if there is none."""
        path = hub_address(self._url, "event-types", self._event_type, "cursors")
        request = HttpRequest(method="GET", url=join_url(path, query=[("at", time.isoformat())]))
        answer = yield from self._json.send(request, is_transient, 200)
        return {
            int(each["partition"]): parse_offset(each["offset"])[1] + 1
            for each in decode_response(answer, list[dict[str, str]])
        }

    def page(
        self, epoch: int, count: int, offsets: Mapping[int, int], events: int, wait_seconds: float
    ) -> "Exchange[FeedPage | None]":
        """Return what follows in the partitions that *offsets* names, up to so many *events*.

        None: the feed has another number of partitions than *count* by now.

        Raises:
            CursorExpired, BadCursor: there is no such place in it.
            RequirementMissing: PyArrow is not installed.
        """
        pa = pyarrow()
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
