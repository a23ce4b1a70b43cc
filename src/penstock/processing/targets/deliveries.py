"""What is to be published of streams, to one partition, and in which portions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from penstock.client.log.publishing import Event
from penstock.processing.targets.origin import Lineage

EVENTS_MAX: Final = 1_000
BYTES_MAX: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event that is to be published, and the index of what it comes from."""

    index: int
    event: Event
    size: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What comes of a span of a stream."""

    lineage: Lineage
    expected: int | None
    """The index that is to be wanted next there; None: nobody can tell."""
    entries: Sequence[OutgoingEvent]
    """By index."""


def is_portion(entries: Sequence[OutgoingEvent]) -> bool:
    """Tell whether *entries* can be published at once."""
    return len(entries) <= EVENTS_MAX and sum(entry.size for entry in entries) <= BYTES_MAX


def portions(entries: Iterable[OutgoingEvent]) -> Iterator[list[OutgoingEvent]]:
    """Cut *entries* of a stream into what is published at once: all that comes of one event of it is in the same."""
    taken: list[OutgoingEvent] = []
    for _, same in groupby(entries, key=attrgetter("index")):
        more = [*same]
        if taken and not is_portion([*taken, *more]):
            yield taken
            taken = []
        taken += more
    if taken:
        yield taken


def loads(deliveries: Iterable[Delivery]) -> Iterator[list[Delivery]]:
    """Cut *deliveries* into what is published at once, none with a lineage twice; one alone may be too large."""
    taken: dict[Lineage, Delivery] = {}
    events = size = 0
    for delivery in deliveries:
        more, bytes_more = len(delivery.entries), sum(entry.size for entry in delivery.entries)
        is_full = events + more > EVENTS_MAX or size + bytes_more > BYTES_MAX
        if taken and (is_full or delivery.lineage in taken):
            yield [*taken.values()]
            taken, events, size = {}, 0, 0
        taken[delivery.lineage] = delivery
        events, size = events + more, size + bytes_more
    if taken:
        yield [*taken.values()]
