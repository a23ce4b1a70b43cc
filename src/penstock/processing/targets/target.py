"""What streams are copied to, event by event, and what it says of each append."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from penstock.processing.stream_event import StreamEvent


@dataclass(frozen=True, slots=True)
class Written:
    """All events were appended."""

    position: int
    """The index that the target wants next of the stream, as in all of these."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """All events were there already."""

    position: int


@dataclass(frozen=True, slots=True)
class Partial:
    """Some events were appended; the others were there already, or have to come again."""

    position: int
    count: int
    """How many were appended."""


@dataclass(frozen=True, slots=True)
class PrefixMissing:
    """Events before the first are not there, so nothing was appended."""

    position: int


Attained: TypeAlias = Written | Duplicate | Partial | PrefixMissing
"""What an append to a target has led to."""


class SyncTarget(Protocol):
    """Something that keeps streams, and knows of each how far it has come.

    It may be called by several threads, never by two for one stream.
    """

    def append(self, stream: str, expected: int | None, events: Sequence[StreamEvent]) -> Attained:
        """Append what is not there yet of *events*, which are a span of *stream*, and tell where that leads.

        Args:
            stream: The stream's name, at its source.
            expected: The index that the target is to want next, or to be beyond: what is below it has to be there.
                None: nobody can tell, since the source's indices have gaps.
            events: At least one, all with one `numbering`: the positions of several have nothing to do with each other.

        Raises:
            PenstockError: nothing was appended, or it is not known: the next append finds out.
        """
        ...


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
