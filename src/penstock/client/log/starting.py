"""Protocol of the start of a feed: the cursors at the first event, at the end, or at a time, which a hub finds."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from penstock.client.registry import EventTypeProtocol
from penstock.core.log.cursor import FIRST, LAST, FeedCursor, FeedView, check_view, feed_mark
from penstock.core.log.start import Start, Word, format_start, resolve_start
from penstock.errors import BadParameter, MalformedAnswer, ServerError
from penstock.wire.http import Exchange, is_transient
from penstock.wire.log.reader.protocol import FeedProtocol

CURSORS: Final = {"earliest": FIRST, "latest": LAST}
"""The cursors of the feed protocols for our words."""
_UNSEARCHABLE: Final = "earliest or latest: only a Penstock hub finds events by time, and this feed is none of its"
_FEEDS: Final = "/feeds/"


def start_now(start: Start) -> Word | datetime:
    """Return *start* with a duration as the time that it means now."""
    return resolve_start(start, datetime.now(UTC))


def find_start_cursors(
    feed: FeedProtocol, start: Word | datetime, partitions: Collection[int] | None
) -> Exchange[dict[int, str]]:
    """Return the cursors at *start* for each of *partitions*, or for all partitions.

    Raises:
        BadParameter: *start* is a time, and the feed is no hub's or has no such partition.
    """
    if partitions is None or isinstance(start, datetime):
        discovery = yield from feed.discover_with_retries()
        partitions = discovery.ids if partitions is None else partitions
        if isinstance(start, datetime):
            found = yield from _find_cursors_since(feed, start, discovery.partition_count)
            if strays := sorted(set(partitions) - found.keys()):
                allowed = f"those of the feed, {discovery.ids}"
                raise BadParameter(parameter="partitions", value=strays, allowed=allowed)
            return {number: found[number] for number in partitions}
    return dict.fromkeys(partitions, CURSORS[start])


def _find_cursors_since(feed: FeedProtocol, time: datetime, n: int) -> Exchange[dict[int, str]]:
    """Return, by partition of a reader with *n*, the cursor at the first event received at *time* or later."""
    parts = urlsplit(feed.url)
    hub, _, name = parts.path.rpartition(_FEEDS)
    refusal = BadParameter(parameter="start", value=format_start(time), allowed=_UNSEARCHABLE)
    if not name or "/" in name:
        raise refusal
    name = unquote(name)
    event_types = EventTypeProtocol(
        urlunsplit(parts._replace(path=hub)), retry_timeout=feed.retry_timeout, clock=feed.clock
    )
    try:
        found = yield from event_types.find_offsets_since(name, time)
    except (ServerError, MalformedAnswer) as error:
        if is_transient(error):
            raise
        raise refusal from error
    count = len(found)
    check_view(n, count)
    cursors = {}
    for number in range(n):
        view = FeedView(n, number, count)
        offsets = tuple(found[physical].offset for physical in view.physical)
        cursors[number] = FeedCursor(feed_mark(name), found[0].epoch, view, offsets).encode()
    return cursors
