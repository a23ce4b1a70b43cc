"""What a round of a processor on Spark is to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Again:
    """A span that was not done in an earlier round, and is to be handled now."""

    place: int
    """Which of the plan's places it lies in."""
    start: int
    next: int


@dataclass(frozen=True)
class ProcessingPlan:
    """Whose events are handled, and whose are only counted. Holds plain values: it is sent to executors."""

    places: tuple[str, ...]
    """Tranches; rows name them by their number here."""
    numberings: tuple[str, ...]
    """By place, what numbers the events that are read there: see `StreamEvent.numbering`."""
    again: Mapping[str, Again] = field(default_factory=dict)
    """By stream: what is handled of it, in place of what is new."""
    waiting: frozenset[str] = frozenset()
    """Streams that have something before what is new: that waits."""
    events_per_call: int = 10_000
    timeout: float | None = None
    """So long a call may last, before its process is killed."""
    partitions: int = 1
    """Into how many tasks streams are shuffled."""

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each place."""
        return {place: number for number, place in enumerate(self.places)}
