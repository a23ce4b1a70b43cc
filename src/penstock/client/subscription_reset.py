"""Reckons where a reset of a subscription moves its cursors. Does no I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.client.event_types import PartitionOffsets
from penstock.client.subscription import SubscriptionCursor
from penstock.errors import UnusablePosition
from penstock.wire.groups import PositionReset, ResetPosition


class Goal(NamedTuple):
    """A partition that is to be moved, and where to."""

    item: int
    """The number of what asks for it, from 0."""
    asked: PositionReset
    partition: PartitionOffsets


def checked_resets(
    event_types: Sequence[str], items: Iterable[PositionReset] | None, to: str | None, at: str | None
) -> list[PositionReset]:
    """Return what is to be reset of a subscription to *event_types*; without *items*, all of it.

    Raises:
        TypeError: it is not said where to, or in more than one way.
        UnusablePosition: an item is of an event type that the subscription does not read.
    """
    if items is None:
        items = [PositionReset(each, to=to, at=at) for each in event_types]  # type: ignore[arg-type]
    elif to is not None or at is not None:
        raise TypeError("to and at are said by each item: leave them out beside items")
    found = list(items)
    for number, each in enumerate(found):
        if sum(goal is not None for goal in (each.to, each.at, each.offset)) != 1:
            raise TypeError(f"items[{number}]: give one of to (begin or end), at (a time) and offset")
        if each.event_type not in event_types:
            reason = "the subscription does not read this event type"
            raise UnusablePosition(item=number, event_type=each.event_type, partition=each.partition, reason=reason)
        if each.offset is not None and each.partition is None:
            raise TypeError(f"items[{number}]: an offset goes with a partition")
    return found


def goals(resets: Sequence[PositionReset], partitions: Mapping[str, Sequence[PartitionOffsets]]) -> list[Goal]:
    """Return the partitions that are meant; each may be meant once.

    Raises:
        UnusablePosition: there is no such partition, or it is meant twice.
    """
    found: dict[tuple[str, int], Goal] = {}
    for item, reset in enumerate(resets):
        for goal in _goals(item, reset, partitions[reset.event_type]):
            place = (reset.event_type, goal.partition.partition)
            if place in found:
                raise _unusable(goal, f"items[{found[place].item}] moves it already")
            found[place] = goal
    return [found[place] for place in sorted(found)]


def moves(
    goals: Iterable[Goal], since: Mapping[tuple[str, str], Mapping[int, int]], cursors: Iterable[SubscriptionCursor]
) -> list[ResetPosition]:
    """Return where each goal leads from where the subscription is.

    Args:
        goals: What is to be moved.
        since: By event type and time, the offset of what came then or later, by partition; none: all that is there did.
        cursors: Where the subscription stands; none where it has not begun.

    Raises:
        UnusablePosition: an offset is not among those that are there.
    """
    stand = {(each.event_type, each.partition): each for each in cursors}
    found = []
    for goal in goals:
        name, ends = goal.asked.event_type, goal.partition
        offset = _offset(goal, since)
        held = stand.get((name, ends.partition))
        came_from = held.offset if held is not None and held.epoch == ends.epoch else None
        gap = ends.head - offset
        found.append(ResetPosition(name, "", ends.partition, ends.epoch, came_from, offset, ends.head, gap))
    return found


def _goals(item: int, reset: PositionReset, partitions: Sequence[PartitionOffsets]) -> Iterator[Goal]:
    wanted = [each for each in partitions if reset.partition in (None, each.partition)]
    if not wanted:
        reason = f"it has {len(partitions)}, numbered from 0"
        raise UnusablePosition(item=item, event_type=reset.event_type, partition=reset.partition, reason=reason)
    return (Goal(item, reset, each) for each in wanted)


def _offset(goal: Goal, since: Mapping[tuple[str, str], Mapping[int, int]]) -> int:
    asked, ends = goal.asked, goal.partition
    if asked.at is not None:
        return max(ends.oldest, since[asked.event_type, asked.at].get(ends.partition, 0))
    if asked.offset is None:
        return ends.oldest if asked.to == "begin" else ends.head
    if not ends.oldest <= asked.offset <= ends.head:
        reason = (
            f"offset {asked.offset} is not from {ends.oldest} (the first event that is there) to {ends.head} (the end)"
        )
        raise _unusable(goal, reason)
    return asked.offset


def _unusable(goal: Goal, reason: str) -> UnusablePosition:
    name, number = goal.asked.event_type, goal.partition.partition
    return UnusablePosition(item=goal.item, event_type=name, partition=number, reason=reason)
