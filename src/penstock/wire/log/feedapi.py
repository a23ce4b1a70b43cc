"""FeedAPI v2: discovery, its query and its lines.

Source: https://github.com/vippsas/feedapi-spec; docs/decisions/feed-extensions.md has what it leaves open.
"""

from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import BadParameter, StaleToken
from penstock.wire.log.zeroeventhub import WAIT_SECONDS_MAX, page_size
from penstock.wire.query import HeaderChoice, Query, headers_of, kinds_of, refuse_until, shown

ARROW: Final = "application/vnd.apache.arrow.stream"
"""The media type of Arrow pages. They need PyArrow, the extra `arrow`; their names are known without it."""
ARROW_COLUMNS: Final = ("partition", "offset", "key", "kind", "headers", "data", "received_at")
CURSOR_HEADER: Final = "Penstock-Cursor"
LEFT_OUT_HEADER: Final = "Penstock-Left-Out"
"""Of an Arrow page: the cursor just after it, which has no line to stand on."""
_encode: Final = msgspec.json.encode


class ReadRequest(NamedTuple):
    """What a v2 reader asks for."""

    token: str
    partition: int
    cursor: str
    until: str | None
    """Stop at this cursor: the page has no event at or after it."""
    page_size: int
    headers: HeaderChoice | None
    kinds: tuple[frozenset[str], bool] | None
    wait_seconds: float


def parse_read(query: Query) -> ReadRequest:
    """Read a v2 request. Unknown parameters are ignored but for those that start with `until`.

    Raises:
        BadParameter, BadCursor: names the parameter, its value and what is allowed.
    """
    token, cursor = query.text("token"), query.cursor("cursor")
    if token is None:
        raise BadParameter(
            parameter="token", value=None, allowed="the token that discovery gives: GET the feed without arguments"
        )
    if cursor is None:
        raise BadParameter(parameter="cursor", value=None, allowed="a cursor, _first or _last")
    allowed = "until, since a request reads one partition; until0 and the like belong to version 1"
    refuse_until(query, known="until", allowed=allowed)
    return ReadRequest(
        token=token,
        partition=query.integer("partition", None, low=0, high=32_767),
        cursor=cursor,
        until=query.cursor("until"),
        page_size=page_size(query),
        headers=headers_of(query),
        kinds=kinds_of(query),
        wait_seconds=query.seconds("wait", cut_at=WAIT_SECONDS_MAX),
    )


def feed_token(epoch: int, partition_count: int) -> str:
    """Return the token that changes whenever consumers have to discover the feed again.

    >>> feed_token(1, 4)
    '1-4'
    """
    return f"{epoch}-{partition_count}"


def check_token(given: str, epoch: int, partition_count: int) -> None:
    """Raise StaleToken unless *given* is the feed's token."""
    if given != feed_token(epoch, partition_count):
        raise StaleToken(given=shown(given), current=feed_token(epoch, partition_count))


def discovery(epoch: int, partition_count: int, exactly_once: bool) -> dict[str, Any]:
    """Return the answer to a GET without arguments."""
    return {
        "token": feed_token(epoch, partition_count),
        "partitions": [{"id": str(partition)} for partition in range(partition_count)],
        "exactlyOnce": exactly_once,
    }


LINE_FRAME: Final = ('{"data":', '}\n{"data":', "}\n")
"""What stands before, between and after the events of a page on their lines."""


def event_line(headers: dict[str, str], data: bytes) -> bytes:
    """Return the line of one event with its headers, which are left out when empty."""
    if not headers:
        return b'{"data":%b}\n' % data
    return b'{"headers":%b,"data":%b}\n' % (_encode(headers), data)


def checkpoint_line(cursor: str) -> bytes:
    r"""Return the line of a checkpoint.

    >>> checkpoint_line("abc")
    b'{"cursor":"abc"}\n'
    """
    return b'{"cursor":"%b"}\n' % cursor.encode()
