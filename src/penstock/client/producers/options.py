"""What an idempotent producer is told when it is made, and what it tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.core.producers import OffsetRange
from penstock.errors import BadParameter

OnUnknown: TypeAlias = Literal["resolve", "republish"]
Outcome: TypeAlias = Literal["not_stored", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPublishingOptions:
    """With what a producer begins in a partition."""

    epoch: int | None = None
    """The epoch; None: the next one, which shuts out whoever has the current one."""
    starting_sequence: int | None = None
    """The number of the first event; None: 0. With the current epoch it has to be the number that comes next."""

    def __post_init__(self) -> None:
        for name, value in (("epoch", self.epoch), ("starting_sequence", self.starting_sequence)):
            if value is not None and (type(value) is not int or value < 0):
                raise BadParameter(parameter=name, value=value, allowed="a whole number, 0 or more")


@dataclass(frozen=True, slots=True)
class PublishResult:
    """All events of a call are stored, each once."""

    partition: int
    epoch: int
    """Of the first of them."""
    first_sequence: int
    """The number of the first of them. The others follow, unless some of them were stored before: each Event knows."""
    count: int
    """How many events."""
    offsets: Sequence[OffsetRange]
    """Where they are, in their order."""
    duplicate: bool
    """Whether they, or those of them that were sent now, were stored by an attempt of which no answer had come."""
    attempts: int
    """How often they were sent by this call."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What was found out of a batch of whose fate nothing was known."""

    partition: int
    epoch: int
    first_sequence: int
    """The number that its first event had."""
    count: int
    stored: bool | None
    """Whether all of it is stored, which is final; None: the hub does not know any more."""
    offsets: Sequence[OffsetRange]
    """Where it is stored."""


@dataclass(frozen=True, slots=True)
class CloseReport:
    """What a producer leaves behind."""

    unresolved: Sequence[int]
    """The partitions of which it is not known whether the last batch is stored."""
    unfinished: Sequence[int]
    """The partitions to which something was still being published."""
