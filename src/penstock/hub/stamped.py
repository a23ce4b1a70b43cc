"""A batch that says who publishes it, as it is handed in, and what has become of it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.producers import DIGEST_BYTES, Range, Stamp

Outcome: TypeAlias = Literal["appended", "duplicate", "trimmed"]


class Who(NamedTuple):
    """A producer group in one partition of an event type."""

    event_type: str
    partition: int
    group: str


class Stamped(NamedTuple):
    """Who publishes a batch, and with which numbers."""

    who: Who
    stamp: Stamp
    digests: bytes
    """Of its events, one after the other."""
    trims: bool = False
    """Whether what is not stored is appended, where the beginning is; else nothing is, and that is an error."""

    deadline: float | None = None
    """When it is no use to begin any more, on the monotonic clock; None: it always is."""

    @property
    def events(self) -> int:
        """How many events it has."""
        return len(self.digests) // DIGEST_BYTES


class Produced(NamedTuple):
    """What has become of a batch: all of it is stored, once."""

    outcome: Outcome
    epoch: int
    first: int
    """The number of its first event."""
    last: int
    next: int
    """The number of the producer's next event."""
    ranges: Sequence[Range]
    """The offsets of its events, in their order."""


def handed_bytes(event: NewEvent) -> bytes:
    """Return the bytes of which an event's digest is made: all that was handed in, and matters to who reads it."""
    if event.key is None and event.headers is None:
        return bytes(event.data)
    return bytes(event.data) + b"\n" + msgspec.json.encode([event.key, event.headers], order="sorted")
