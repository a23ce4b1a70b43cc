"""Consumer groups' positions: committed by those who read, and moved by those who operate."""

from collections.abc import Sequence
from typing import Final

from penstock.core.groups import (
    CURSOR_SET,
    PATH_NAME_ALLOWED,
    SUBSCRIPTION,
    Commit,
    Extent,
    Reset,
    covered,
    is_group_name,
    is_path_name,
    is_slice,
)
from penstock.errors import (
    BadParameter,
    DatabaseUnavailable,
    GroupKindDiffers,
    GroupNotFound,
    OutcomeUnknown,
    PositionMoved,
    UnusablePosition,
)
from penstock.hub.clock import Clock
from penstock.hub.extents import Extents
from penstock.hub.moving import Moved, Moving
from penstock.storage.groups import Intervention, Place
from penstock.storage.store import Position, Store, Tx

RESET: Final = "reset"
"""The kind of what is recorded of a reset."""


class Positions:
    """The positions of one store's consumer groups."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def commit(self, group: str, kind: str | None, commits: Sequence[Commit]) -> Sequence[Place]:
        """Store positions, all or none, and return them sorted; a group that there is not is made one of that *kind*.

        Raises:
            BadParameter: the group has to be made, and cannot be called so, or *kind* is missing.
            GroupKindDiffers: the group is of another kind, or a subscription.
            UnusablePosition: one of them cannot be had.
            PositionMoved: something else stands there than was expected.
            DatabaseUnavailable: they may have been stored; to store them again does no harm.
            OutcomeUnknown: the same, where something was expected to stand there.
        """
        if not is_path_name(group):
            raise BadParameter(parameter="group", value=group[:80], allowed=PATH_NAME_ALLOWED)
        now = self._clock()
        try:
            with self._store.write() as tx:
                held = tx.groups.lock(group, kind=kind, at=now)
                places = _places(Extents(tx), _checked(group, held, kind), commits)
                _check_expected(tx, group, commits, places)
                tx.groups.put(group, places, now)
        except OutcomeUnknown as error:
            if any(each.compares for each in commits):
                raise
            raise DatabaseUnavailable(reason=error.fields["reason"], retry_after=1) from error
        return sorted(places)

    def reset(self, group: str, resets: Sequence[Reset], reason: str | None, *, dry_run: bool) -> Sequence[Moved]:
        """Move positions, all or none, and record it; return what was moved, sorted. A dry run tells what would be.

        Raises:
            GroupNotFound: there is none.
            GroupKindDiffers: it is a subscription, whose streams have to be told first.
            UnusablePosition: one of them cannot be moved there.
        """
        if not is_group_name(group):
            raise GroupNotFound(group=group)
        now = self._clock()
        with self._store.read() if dry_run else self._store.write() as tx:
            kind = tx.groups.lock(group)
            if kind is None:
                raise GroupNotFound(group=group)
            if kind == SUBSCRIPTION:
                reason = f"its streams have to be told: PATCH /subscriptions/{group}/cursors moves it"
                raise GroupKindDiffers(group=group, kind=kind, reason=reason)
            moved = Moving(tx, kind, tx.groups.standings([group])).moved(resets)
            if not dry_run:
                tx.groups.put(group, [each.place for each in moved], now)
                tx.groups.intervene(group, [_intervention(each, reason, now) for each in moved])
        return moved


def _checked(group: str, held: str | None, kind: str | None) -> str:
    """Return of which kind the group is to which somebody commits."""
    if held is None:
        allowed = "processor, spark or cursorset: there is no group of that name yet"
        raise BadParameter(parameter="kind", value=None, allowed=allowed)
    if held == SUBSCRIPTION:
        reason = f"its cursors are committed by POST /subscriptions/{group}/cursors"
        raise GroupKindDiffers(group=group, kind=held, reason=reason)
    if kind not in (None, held):
        raise GroupKindDiffers(group=group, kind=held, reason=f"it cannot be a {kind}")
    return held


def _places(extents: Extents, kind: str, commits: Sequence[Commit]) -> Sequence[Place]:
    places: dict[tuple[str, str, int], Place] = {}
    for item, each in enumerate(commits):
        extent = extents.at(each.event_type, each.partition, item)
        key = each.event_type, each.slice, each.partition
        why = (
            "it is named twice" if key in places else _why_unusable(each, kind, extents.count(each.event_type), extent)
        )
        if why is not None:
            raise UnusablePosition(item=item, event_type=each.event_type, partition=each.partition, reason=why)
        places[key] = Place(*key, extent.epoch, each.offset)
    return list(places.values())


def _why_unusable(commit: Commit, kind: str, count: int, extent: Extent) -> str | None:
    if commit.epoch not in (None, extent.epoch):
        return f"it is of the feed's epoch {commit.epoch}, which is now {extent.epoch}"
    if not 0 <= commit.offset <= extent.next_offset:
        return f"there is no offset {commit.offset}: it ends at {extent.next_offset}"
    if not is_slice(commit.slice):
        return "a slice is up to 255 printable characters of ASCII"
    if kind == CURSOR_SET and commit.partition not in covered(kind, commit.slice, count, ()):
        return "the slice of a cursor set is n/partition, such as 2/1, and that view has to hold the partition"
    return None


def _check_expected(tx: Tx, group: str, commits: Sequence[Commit], places: Sequence[Place]) -> None:
    """Raise PositionMoved unless all stands as is expected; the group is locked."""
    compared = [(each, place) for each, place in zip(commits, places, strict=True) if each.compares]
    slices = {(each.event_type, each.slice) for each, _ in compared}
    stands = {at: tx.positions.find(group, *at) for at in slices}
    for each, place in compared:
        found = stands[each.event_type, each.slice].get(each.partition)
        wanted = None if each.expected is None else Position(each.partition, place.epoch, each.expected)
        if found != wanted:
            raise PositionMoved(
                group=group,
                event_type=each.event_type,
                partition=each.partition,
                slice=each.slice,
                expected=each.expected,
                offset=found.offset if found else None,
                epoch=found.epoch if found else None,
            )


def _intervention(moved: Moved, reason: str | None, at: int) -> Intervention:
    source, part, tranche, epoch, offset = moved.place
    return Intervention(source, part, tranche, RESET, epoch, moved.came_from, offset, reason, at)
