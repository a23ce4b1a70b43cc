"""Bounds the lines of a feed: the option `max_event_bytes` of an event type.

Some readers of feeds stop at long lines. So what counts is the longest line by which a feed may send an event, however
it is read: in version 1, with all headers, in any partition, its end included.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.core.event import NewEvent, one_line
from penstock.core.event_type import EventType
from penstock.core.metadata import WRITTEN_BYTES_MAX, derived_headers, written_bytes
from penstock.errors import EventTooLarge

_FRAME: Final = b'{"partition":32767,"headers":,"data":}\n'
_encode: Final = msgspec.json.encode


def check_line_sizes(
    event_type: EventType,
    events: Sequence[NewEvent],
    decoded: Sequence[dict[str, Any]],
    *,
    keys: Sequence[str | None],
    kinds: Sequence[str | None],
    lines: Sequence[int],
) -> None:
    """Raise EventTooLarge for the first of *events* whose line may be longer than its event type allows.

    *decoded* are the same events; *keys* and *kinds* are what the log will have of each; *lines* are their numbers in
    errors.
    """
    limit = event_type.max_event_bytes
    if limit is None:
        return
    for new, event, key, kind, line in zip(events, decoded, keys, kinds, lines, strict=True):
        size = line_bytes(event_type, new, event, key=key, kind=kind)
        if size > limit:
            detail = f"line {line}: the event takes up to {size} bytes as a line of the feed with its headers"
            more = f"more than the max_event_bytes of {event_type.name!r}, {limit}"
            raise EventTooLarge(f"{detail}, {more}", line=line, size=size, limit=limit)


def line_bytes(
    event_type: EventType, new: NewEvent, event: dict[str, Any], *, key: str | None, kind: str | None
) -> int:
    """Return how long the longest line is by which a feed may send an event, its end included.

    Of a business or data event, the most that a hub may write into its metadata counts, in place of what is there.
    """
    raw = one_line(bytes(new.data))
    headers = derived_headers(event, event_type=event_type.name, kind=kind, key=key) | (new.headers or {})
    written = 0 if event_type.category == "undefined" else WRITTEN_BYTES_MAX - written_bytes(raw)
    return len(_FRAME) + len(_encode(headers)) + len(raw) + written
