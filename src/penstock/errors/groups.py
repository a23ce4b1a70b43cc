"""Errors of consumer groups and their positions."""

from typing import Any, ClassVar

from penstock.errors.root import Case, Conflict, Invalid, NotFound


class GroupNotFound(NotFound):
    """There is no such consumer group or processor, or no cursors of it are stored at this `n`."""

    code = "group-not-found"
    message = "there is no consumer group {group!r}"
    hint = "GET /groups lists the consumer groups. The first commit of a position creates one."
    cases: ClassVar = {
        "cursor-set-not-found": Case(
            "nothing is stored for cursorset {cursorset!r} of {event_type!r} at n={n}, partition {partition}",
            "Read with cursors, such as _first, and the cursorset; resume afterwards.",
        ),
        "checkpoint-not-found": Case(
            "no position is stored for processor {processor!r}",
            "`penstock groups` lists the consumers of a hub, and with --database those of a database.",
        ),
    }

    group: str | None
    """The group in `group-not-found`."""
    event_type: str | None
    cursorset: str | None
    """The cursor set in `cursor-set-not-found`."""
    n: int | None
    partition: int | None
    processor: str | None
    """The processor in `checkpoint-not-found`."""


class GroupKindDiffers(Conflict):
    """A consumer group is of another kind than the request is for."""

    code = "group-kind-differs"
    message = "the consumer group {group!r} is of kind {kind}: {reason}"
    hint = "Use the operations of that kind, or another group name."

    group: str
    kind: str
    reason: str


class UnusablePosition(Invalid):
    """A consumer group cannot have this position, or a cursor of the Nakadi API is malformed or cannot be used."""

    code = "unusable-position"
    message = "items[{item}], {where}: {reason}"
    hint = "Correct this item. Nothing of the request was stored."
    cases: ClassVar = {
        "unusable-cursor": Case(
            "offset {offset} of partition {partition} cannot be used: {reason}",
            "GET /event-types/{event_type}/partitions shows the available offsets; BEGIN is before the first.",
        ),
        "unusable-start": Case(
            "offset {offset} of partition {partition} cannot be used: {reason}",
            "GET /event-types/{event_type}/partitions shows the available offsets; BEGIN is before the first.",
        ),
    }

    item: int | None
    """Index of the item in the list, from 0, in `unusable-position`."""
    event_type: str | None
    partition: int | str | None
    """None: all partitions, or the cursor is malformed."""
    reason: str
    offset: str | None
    """The offset of a cursor; None in `unusable-position`."""
    oldest_available_offset: str | None
    newest_available_offset: str | None


class PositionMoved(Conflict):
    """Compare-and-set failed: another process has moved the position. Nothing of the commit was stored."""

    code = "position-moved"
    message = (
        "{group!r} is at {offset} in partition {partition} of {event_type!r}, expected {expected}: it was reset, or "
        "runs twice"
    )
    hint = "Roll back. Continue from the stored position, or stop if another process has taken over the group."
    cases: ClassVar = {
        "cursor-moved": Case(
            "{consumer!r} is no longer at {expected!r} in partition {partition} of {feed!r}: it runs twice",
            "Roll back, and continue from the stored cursors.",
        ),
    }

    group: str | None
    """The group in `position-moved`."""
    event_type: str | None
    """The event type in `position-moved`."""
    feed: str | None
    """The feed in `cursor-moved`."""
    consumer: str | None
    """The consumer in `cursor-moved`."""
    partition: int
    slice: Any
    expected: int | str | None
    """A position, or in `cursor-moved` a cursor; None: none."""
    offset: int | None
    """The stored position; None if none is stored."""
    epoch: int | None
