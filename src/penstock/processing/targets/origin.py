"""Where what was written to a target comes from, in headers beside it: by these it is read back how far it has come."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from penstock.processing.stream_event import StreamEvent

Lineage: TypeAlias = tuple[str, str]
"""A stream, and what numbers its events: in one of these, a larger index is that of a later event."""

STREAM: Final = "penstock-stream"
"""The stream at the source."""
INDEX: Final = "penstock-index"
"""The event's index there."""
NUMBERING: Final = "penstock-numbering"
"""What numbers its stream's events, where that is not the stream itself: `StreamEvent.numbering`."""
GROUP: Final = "penstock-group"
"""Under which name it was written."""
NAMES: Final = (STREAM, INDEX, NUMBERING, GROUP)


def lineage_of(stream: str, event: StreamEvent) -> Lineage:
    """Return what *event* is one of, in a stream that goes by the name *stream*."""
    return stream, event.numbering


def origin(stream: str, event: StreamEvent, group: str) -> dict[str, str]:
    """Return the headers of what comes from an event of *stream*.

    >>> origin("order.placed-7", StreamEvent("order.placed-7", 12, "placed", b"{}"), "mailer")
    {'penstock-stream': 'order.placed-7', 'penstock-index': '12', 'penstock-group': 'mailer'}
    """
    told = {STREAM: stream, INDEX: str(event.index), GROUP: group}
    return told | {NUMBERING: event.numbering} if event.numbering else told


def without_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """Return *headers* without those of where their event came from before."""
    return {name: value for name, value in headers.items() if name not in NAMES}


def place_of(headers: Mapping[str, str], group: str) -> tuple[Lineage, int] | None:
    """Return the lineage and index that *headers* name; None: they were not written by *group*."""
    index = headers.get(INDEX, "")
    if headers.get(GROUP) != group or not index.isdecimal() or STREAM not in headers:
        return None
    return (headers[STREAM], headers.get(NUMBERING, "")), int(index)
