"""FeedAPI v2: discovery, its query and its lines.

Source: https://github.com/vippsas/feedapi-spec, and docs/decisions/feed-extensions.md where it is silent.
"""

from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.log.details import EventDetails
from penstock.errors import BadParameter, StaleToken
from penstock.wire.log.zeroeventhub import WAIT_SECONDS_MAX, page_size
from penstock.wire.query import HeaderChoice, Query, make_printable, parse_headers, parse_kinds, refuse_until

ARROW: Final = "application/vnd.apache.arrow.stream"
"""Media type of Arrow pages, which require PyArrow, the extra `arrow`."""
ARROW_COLUMNS: Final = ("partition", "offset", "key", "kind", "headers", "data", "received_at")
CURSOR_HEADER: Final = "Penstock-Cursor"
"""Header of an Arrow page with the cursor just after it, since the page has no lines."""
LEFT_OUT_HEADER: Final = "Penstock-Left-Out"
_encode: Final = msgspec.json.encode


class FeedApiRead(NamedTuple):
    """A v2 read request."""

    token: str
    partition: int
    cursor: str
    until: str | None
    """Cursor to stop at: the page has no event at or after it."""
    page_size: int
    headers: HeaderChoice | None
    kinds: tuple[frozenset[str], bool] | None
    wait_seconds: float
    has_details: bool


def parse_read(query: Query) -> FeedApiRead:
    """Parse a v2 read request. Unknown parameters are ignored unless they begin with `until`.

    Raises:
        BadParameter, BadCursor: A parameter is invalid. The error has its name, its value and the allowed values.
    """
    token, cursor = query.find_text("token"), query.read_cursor("cursor")
    if token is None:
        raise BadParameter(
            parameter="token", value=None, allowed="the token that discovery gives: GET the feed without arguments"
        )
    if cursor is None:
        raise BadParameter(parameter="cursor", value=None, allowed="a cursor, _first or _last")
    allowed = "until, since a request reads one partition; until0 and the like belong to version 1"
    refuse_until(query, known="until", allowed=allowed)
    return FeedApiRead(
        token=token,
        partition=query.read_integer("partition", None, low=0, high=32_767),
        cursor=cursor,
        until=query.read_cursor("until"),
        page_size=page_size(query),
        headers=parse_headers(query),
        kinds=parse_kinds(query),
        wait_seconds=query.read_seconds("wait", cut_at=WAIT_SECONDS_MAX),
        has_details=query.read_flag("details"),
    )


def feed_token(epoch: int, partition_count: int) -> str:
    """Return the token of the feed, which changes when consumers have to discover it again.

    >>> feed_token(1, 4)
    '1-4'
    """
    return f"{epoch}-{partition_count}"


def check_token(given: str, epoch: int, partition_count: int) -> None:
    """Raise StaleToken unless *given* is the feed's token."""
    if given != feed_token(epoch, partition_count):
        raise StaleToken(given=make_printable(given), current=feed_token(epoch, partition_count))


def discovery(epoch: int, partition_count: int, exactly_once: bool) -> dict[str, Any]:
    """Return the response to a GET without arguments."""
    return {
        "token": feed_token(epoch, partition_count),
        "partitions": [{"id": str(partition)} for partition in range(partition_count)],
        "exactlyOnce": exactly_once,
    }


LINE_FRAME: Final = ('{"data":', '}\n{"data":', "}\n")
"""The text before, between and after the events of a page in their lines."""


def event_line(headers: dict[str, str], data: bytes) -> bytes:
    """Return the line of one event, with its headers unless they are empty."""
    if not headers:
        return b'{"data":%b}\n' % data
    return b'{"headers":%b,"data":%b}\n' % (_encode(headers), data)


def details_line(details: EventDetails) -> bytes:
    """Return the line with the details of the events in the next lines."""
    return b'{"details":%b}\n' % _encode(details)


def checkpoint_line(cursor: str) -> bytes:
    r"""Return the line of a checkpoint.

    >>> checkpoint_line("abc")
    b'{"cursor":"abc"}\n'
    """
    return b'{"cursor":"%b"}\n' % cursor.encode()
