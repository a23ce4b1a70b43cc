"""Errors of consumer groups and their positions."""

from typing import Any

from penstock.errors.root import Conflict, Invalid, NotFound


class GroupNotFound(NotFound):
    """There is no consumer group of that name."""

    code = "group-not-found"
    message = "there is no consumer group {group!r}"
    hint = "GET /groups lists those that there are; a group is made with the first position that it commits."

    group: str


class GroupKindDiffers(Conflict):
    """A consumer group is of another kind than this is for."""

    code = "group-kind-differs"
    message = "the consumer group {group!r} is of the kind {kind}: {reason}"

    group: str
    kind: str
    reason: str


class UnusablePosition(Invalid):
    """A position that a consumer group cannot have."""

    code = "unusable-position"
    message = "items[{item}], {part}: {reason}"

    item: int
    """Number of the item in the list, from 0."""
    event_type: str
    partition: int | None
    """None: all partitions."""
    reason: str


class PositionMoved(Conflict):
    """A consumer group does not stand where who commits expects it to; nothing of the commit was stored."""

    code = "position-moved"
    message = (
        "{group!r} stands at {offset} in partition {partition} of {event_type!r}, where {expected} was expected: it "
        "was reset, or runs twice"
    )
    hint = "Go on from what stands there, or stop: somebody else commits, or has moved it."

    group: str
    event_type: str
    partition: int
    slice: Any
    expected: int | None
    """None: no position."""
    offset: int | None
    """The stored position; None: none is stored."""
    epoch: int | None
