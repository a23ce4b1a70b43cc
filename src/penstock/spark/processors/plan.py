"""What a round of a processor on Spark is to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.spark.connection import Hub
from penstock.spark.ranges import Range


@dataclass(frozen=True)
class Again:
    """A span that was not done in an earlier round, and is to be handled now."""

    place: int
    """Which of the plan's places it lies in."""
    start: int
    next: int


@dataclass(frozen=True)
class Plan:
    """What is read, and whose events are only counted. Holds plain values: it is sent to executors."""

    hub: Hub
    places: tuple[tuple[str, int], ...]
    """Event types and partitions; rows name them by their number here."""
    tasks: tuple[tuple[Range, ...], ...]
    """What each task reads that is new."""
    again: Mapping[str, Again] = field(default_factory=dict)
    """By stream: what is handled of it, in place of what is new."""
    again_tasks: tuple[tuple[Range, ...], ...] = ()
    """What each task reads for these."""
    waiting: frozenset[str] = frozenset()
    """Streams that have something before what is new: that waits."""
    hashed: frozenset[str] = frozenset()
    """The event types in which a key always falls in the same partition."""
    fail_on_loss: bool = True
    events_per_call: int = 10_000
    timeout_s: float | None = None
    """So long a call may last, before its process is killed."""

    @property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The number of each place."""
        return {place: number for number, place in enumerate(self.places)}
