"""Options and results of idempotent producers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.core.producers import OffsetRange
from penstock.errors import BadParameter

OnUnknown: TypeAlias = Literal["resolve", "republish"]
CallOutcome: TypeAlias = Literal["not_stored", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPublishingOptions:
    """The first epoch and sequence number of a producer in a partition."""

    epoch: int | None = None
    """The epoch; None claims the next one, which fences the producer of the current epoch."""
    starting_sequence: int | None = None
    """The sequence number of the first event; None is 0. In the current epoch it must be the next number."""

    def __post_init__(self) -> None:
        for name, value in (("epoch", self.epoch), ("starting_sequence", self.starting_sequence)):
            if value is not None and (type(value) is not int or value < 0):
                raise BadParameter(parameter=name, value=value, allowed="a whole number, 0 or more")


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of a call: all its events are stored exactly once."""

    partition: int
    epoch: int
    """The epoch of the first event."""
    first_sequence: int
    """The sequence number of the first event. The others follow, unless some were stored before: each Event knows its
    own.
    """
    count: int
    """Number of events."""
    offsets: Sequence[OffsetRange]
    """The ranges of offsets at which the events are stored, in the order of the events."""
    duplicate: bool
    """True if an earlier attempt had stored the events."""
    attempts: int
    """Number of times that the call sent the batch."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of a batch that was unknown."""

    partition: int
    epoch: int
    first_sequence: int
    """The sequence number of the batch's first event."""
    count: int
    stored: bool | None
    """True if the whole batch is stored, which is final; None if the hub has forgotten it."""
    offsets: Sequence[OffsetRange]
    """The ranges of offsets at which it is stored."""


@dataclass(frozen=True, slots=True)
class CloseReport:
    """The partitions that a closed producer leaves in an uncertain state."""

    unresolved: Sequence[int]
    """Partitions whose last batch has an unknown outcome."""
    unfinished: Sequence[int]
    """Partitions with calls that had not ended."""
