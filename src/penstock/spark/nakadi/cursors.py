"""The cursors of a subscription: of each partition, behind which event a reader stands. They can be compared."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from penstock.wire.log.nakadi import parse_offset


class NakadiPartition(NamedTuple):
    """A partition of a subscription."""

    event_type: str
    partition: str
    """As Nakadi names it."""

    def __str__(self) -> str:
        return f"partition {self.partition} of {self.event_type!r}"


Cursors: TypeAlias = Mapping[NakadiPartition, str]
"""The offset of the last event consumed in each partition, as Nakadi writes it."""


def is_before(one: str | None, other: str) -> bool:
    """Tell whether *one* is before *other*; None stands for a partition of which nothing is known.

    >>> is_before("001-0001-000000000000000009", "001-0001-000000000000000010"), is_before("001-0001--1", "001-0001--1")
    (True, False)
    """
    return one is None or parse_offset(one) < parse_offset(other)


def behind(these: Cursors, wanted: Cursors) -> Cursors:
    """Return those of *wanted* that *these* have not come to."""
    return {place: offset for place, offset in wanted.items() if is_before(these.get(place), offset)}


def beyond(these: Cursors, known: Cursors) -> Cursors:
    """Return those of *these* that have gone on from where they are *known*.

    Where Nakadi goes over to another timeline, it writes the end of the old one as what is before the first event of
    the new: nothing lies between the two.
    """
    return {
        place: offset
        for place, offset in these.items()
        if place in known and is_before(known[place], offset) and parse_offset(offset)[1] >= 0
    }


def advanced(these: Cursors, news: Cursors) -> dict[NakadiPartition, str]:
    """Return *these* with *news*, where that is further on."""
    return {**these, **behind(these, news)}
