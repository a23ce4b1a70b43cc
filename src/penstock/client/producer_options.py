"""What an idempotent producer is told when it is made, and what it tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.core.producers import Range
from penstock.errors import BadParameter, ProducerStateExpired
from penstock.wire.producers import Shown

OnUnknown: TypeAlias = Literal["resolve", "republish"]
Outcome: TypeAlias = Literal["not_stored", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPublishingOptions:
    """With what a producer begins in a partition."""

    owner_level: int | None = None
    """The epoch; None: the next one, which shuts out whoever has the current one."""
    starting_sequence: int | None = None
    """The number of the first event; None: 0. With the current epoch it has to be the number that comes next."""

    def __post_init__(self) -> None:
        for name, value in (("owner_level", self.owner_level), ("starting_sequence", self.starting_sequence)):
            if value is not None and (type(value) is not int or value < 0):
                raise BadParameter(parameter=name, value=value, allowed="a whole number, 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and after how long, what failed with something that can pass is tried again.

    That is a batch that is sent, and whatever else is asked of the hub on the way, such as for an epoch.
    """

    max_attempts: int | None = None
    """How often each is tried in all; None: as often as the time of the call allows."""
    max_delay: float = 5.0
    """The longest pause in seconds; the first is 0.1, each twice the one before, and shortened by chance."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise BadParameter(parameter="max_attempts", value=self.max_attempts, allowed="a whole number, 1 or more")
        if type(self.max_delay) not in (int, float) or not self.max_delay > 0:
            raise BadParameter(parameter="max_delay", value=self.max_delay, allowed="seconds, more than 0")


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
    offsets: Sequence[Range]
    """Where they are, in their order."""
    duplicate: bool
    """Whether they, or those of them that were sent now, were stored by an attempt of which no answer had come."""
    attempts: int
    """How often they were sent by this call."""


@dataclass(frozen=True, slots=True)
class PublishingProperties:
    """How far a producer has come in a partition."""

    partition: int
    producer_group: str
    owner_level: int
    last_published_sequence: int | None
    """None: nothing was published with this owner level."""
    next_sequence: int
    last_offset: int | None
    """The offset of its last event; None: it has none with this owner level."""


def properties_of(shown: Shown) -> PublishingProperties:
    """Return how far a producer has come, as the hub shows it.

    Raises:
        ProducerStateExpired: the hub does not know that any more.
    """
    if shown.next_sequence is None:
        told = {"producer_group": shown.producer_group, "partition": shown.partition}
        raise ProducerStateExpired(**told, current_epoch=shown.owner_level)
    return PublishingProperties(
        shown.partition,
        shown.producer_group,
        shown.owner_level,
        shown.last_published_sequence,
        shown.next_sequence,
        shown.last_offset,
    )


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
    offsets: Sequence[Range]
    """Where it is stored."""


@dataclass(frozen=True, slots=True)
class CloseReport:
    """What a producer leaves behind."""

    unresolved: Sequence[int]
    """The partitions of which it is not known whether the last batch is stored."""
    unfinished: Sequence[int]
    """The partitions to which something was still being published."""
