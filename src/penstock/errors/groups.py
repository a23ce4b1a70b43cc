"""What can stand in the way of who looks at a consumer group, commits its positions, or moves them."""

from penstock.errors.refused import Conflict, Invalid, NotFound


class UnusablePosition(Invalid):
    """A position that a consumer group cannot have.

    Fields: item (its number in the list, from 0), event_type, partition (None: all), reason.
    """

    code = "unusable-position"
    message = "items[{item}], {part}: {reason}"


class GroupNotFound(NotFound):
    """There is no consumer group of that name. Fields: group."""

    code = "group-not-found"
    message = "there is no consumer group {group!r}"
    hint = "GET /groups lists those that there are; a group is made with the first position that it commits."


class PositionMoved(Conflict):
    """A consumer group does not stand where who commits expects it to; nothing of the commit was stored.

    Fields: group, event_type, partition, slice, expected (None: nowhere), offset and epoch (what stands there, both
    None: nothing).
    """

    code = "position-moved"
    message = (
        "{group!r} stands at {offset} in partition {partition} of {event_type!r}, where {expected} was expected: it "
        "was reset, or runs twice"
    )
    hint = "Go on from what stands there, or stop: somebody else commits, or has moved it."


class GroupKindDiffers(Conflict):
    """A consumer group is of another kind than this is for. Fields: group, kind, reason."""

    code = "group-kind-differs"
    message = "the consumer group {group!r} is of the kind {kind}: {reason}"
