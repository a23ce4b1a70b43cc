"""Moves a consumer group's positions: forward, back, or to a time; which that are, and where to."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.core.groups import CURSOR_SET, Extent, Goal, Reset, Standing, covered, is_slice
from penstock.errors import UnusablePosition
from penstock.hub.extents import Extents
from penstock.storage.groups import Place
from penstock.storage.store import Tx


class Moved(NamedTuple):
    """A position that was reset."""

    place: Place
    came_from: int | None
    """The offset that was wanted next before; None: there was none of this epoch."""
    extent: Extent
    """What the partition has."""


class Target(NamedTuple):
    """One position that is to be reset, by the item that asks for it."""

    item: int
    source: str
    slice: str
    partition: int
    goal: Goal


class Moving:
    """What is to be moved of one group, and where to."""

    def __init__(self, tx: Tx, kind: str, standings: Sequence[Standing]) -> None:
        self._extents = Extents(tx)
        self._kind = kind
        self._stands = {(each.source, each.slice, each.tranche): each for each in standings}

    def moved(self, resets: Sequence[Reset]) -> Sequence[Moved]:
        """Return the positions that *resets* mean, as they are to be; sorted.

        Raises:
            UnusablePosition: one of them cannot be had.
        """
        targets: dict[tuple[str, str, int], Target] = {}
        for item, reset in enumerate(resets):
            for each in self._targets(item, reset):
                place = each.source, each.slice, each.partition
                if place in targets:
                    raise _unusable(each, "it is named twice")
                targets[place] = each
        at_times: dict[int, list[tuple[str, int]]] = {}
        for each in targets.values():
            if each.goal.at is not None:
                at_times.setdefault(each.goal.at, []).append((each.source, each.partition))
        since = {at: self._extents.since(at, places) for at, places in at_times.items()}
        return [self._moved(each, since) for _, each in sorted(targets.items())]

    def _targets(self, item: int, reset: Reset) -> list[Target]:
        if reset.event_type is None:
            sources = sorted({source for source, _, _ in self._stands})
            return [each for source in sources for each in self._in_source(item, reset, source)]
        self._extents.at(reset.event_type, reset.partition or 0, item)
        found = self._in_source(item, reset, reset.event_type)
        if not found:
            unsaid = "the group has no position there: say in which slice it is to have one"
            reason = unsaid if reset.slice is None else "the slice that is named does not hold it"
            raise UnusablePosition(item=item, event_type=reset.event_type, partition=reset.partition, reason=reason)
        return found

    def _in_source(self, item: int, reset: Reset, source: str) -> list[Target]:
        count = self._extents.count(source)
        if not count:  # What is gone stays as it is.
            return []
        found = []
        for part in self._slices(reset, source):
            known = [each for of, at, each in self._stands if (of, at) == (source, part)]
            covers = covered(self._kind, part, count, known)
            if reset.partition is not None:
                is_said = reset.slice is not None and self._kind != CURSOR_SET
                covers = {reset.partition} if is_said else covers & {reset.partition}
            found += [Target(item, source, part, each, reset.goal) for each in sorted(covers)]
        return found

    def _slices(self, reset: Reset, source: str) -> Sequence[str]:
        """Return the slices that are meant: those that there are, unless it is said; what is whole has one."""
        if reset.slice is not None:
            return [reset.slice] if is_slice(reset.slice) else []
        found = sorted({part for known, part, _ in self._stands if known == source})
        return found or ([] if self._kind == CURSOR_SET else [""])

    def _moved(self, target: Target, since: Mapping[int, Mapping[tuple[str, int], int]]) -> Moved:
        extent = self._extents.at(target.source, target.partition, target.item)
        offset = self._offset(target, extent, since)
        if offset < 0:
            raise _unusable(target, f"there is no offset {offset}")
        if offset < extent.floor:
            raise _unusable(target, f"retention has removed what is before {extent.floor}, and with that {offset}")
        if offset > extent.next_offset:
            raise _unusable(target, f"{offset} is beyond its end, which is {extent.next_offset}")
        stands = self._stands.get((target.source, target.slice, target.partition))
        came_from = stands.offset if stands and stands.epoch == extent.epoch else None
        place = Place(target.source, target.slice, target.partition, extent.epoch, offset)
        return Moved(place, came_from, extent)

    def _offset(self, target: Target, extent: Extent, since: Mapping[int, Mapping[tuple[str, int], int]]) -> int:
        goal = target.goal
        if goal.at is not None:
            return since[goal.at][target.source, target.partition]
        if goal.offset is not None:
            return goal.offset
        return extent.floor if goal.to == "begin" else extent.next_offset


def _unusable(target: Target, reason: str) -> UnusablePosition:
    return UnusablePosition(item=target.item, event_type=target.source, partition=target.partition, reason=reason)
