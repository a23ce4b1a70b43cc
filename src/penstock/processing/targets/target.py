"""What streams are copied to, event by event, and what it says of each append."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

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
