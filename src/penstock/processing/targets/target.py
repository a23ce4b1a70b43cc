"""Targets that streams are copied to, event by event, and the results of an append."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from penstock.processing.stream_event import StreamEvent


@dataclass(frozen=True, slots=True)
class Written:
    """All events were appended."""

    position: int
    """The stream's next index at the target, as in all of these results."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """All events were there already."""

    position: int


@dataclass(frozen=True, slots=True)
class Partial:
    """Some events were appended; the others were there already, or have to come again."""

    position: int
    count: int
    """The number of appended events."""


@dataclass(frozen=True, slots=True)
class PrefixMissing:
    """The target lacks earlier events, so no event was appended."""

    position: int


Attained: TypeAlias = Written | Duplicate | Partial | PrefixMissing
"""The result of an append to a target."""


class SyncTarget(Protocol):
    """A store of streams that knows the progress of each.

    Several threads may call it, never two for one stream.
    """

    def append(self, stream: str, expected: int | None, events: Sequence[StreamEvent]) -> Attained:
        """Append the missing ones of *events*, a span of *stream*, and return the result.

        Args:
            stream: The stream's name, at its source.
            expected: The least next index that the target must have: all events below it have to be there. None:
                unknown, since the source's indices have gaps.
            events: At least one, all with one `numbering`, since positions of different ones are unrelated.

        Raises:
            PenstockError: the events are not appended, or the result is unknown: the next append finds out.
        """
        ...


Lineage: TypeAlias = tuple[str, str]
"""A stream and a numbering of its events, in which a later event has a larger index."""

STREAM: Final = "penstock-stream"
"""The stream at the source."""
INDEX: Final = "penstock-index"
"""The event's index there."""
NUMBERING: Final = "penstock-numbering"
"""The event's `StreamEvent.numbering`, if it is not the stream itself."""
GROUP: Final = "penstock-group"
"""The producer group that has written the event."""
NAMES: Final = (STREAM, INDEX, NUMBERING, GROUP)


def lineage_of(stream: str, event: StreamEvent) -> Lineage:
    """Return the lineage of *event* in a stream with the name *stream*."""
    return stream, event.numbering


def make_origin(stream: str, event: StreamEvent, group: str) -> dict[str, str]:
    """Return the headers with the origin of an event that is copied from, or caused by, an *event* of *stream*.

    >>> make_origin("order.placed-7", StreamEvent("order.placed-7", 12, "placed", b"{}"), "mailer")
    {'penstock-stream': 'order.placed-7', 'penstock-index': '12', 'penstock-group': 'mailer'}
    """
    headers = {STREAM: stream, INDEX: str(event.index), GROUP: group}
    return headers | {NUMBERING: event.numbering} if event.numbering else headers


def remove_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """Return *headers* without those of an earlier origin."""
    return {name: value for name, value in headers.items() if name not in NAMES}


def parse_origin(headers: Mapping[str, str], group: str) -> tuple[Lineage, int] | None:
    """Return the lineage and index that *headers* name; None: they were not written by *group*."""
    index = headers.get(INDEX, "")
    if headers.get(GROUP) != group or not index.isdecimal() or STREAM not in headers:
        return None
    return (headers[STREAM], headers.get(NUMBERING, "")), int(index)
