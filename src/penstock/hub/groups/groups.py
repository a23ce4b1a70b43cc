"""Consumer groups: list them, measure their lag, commit and reset their positions, keep cursors of cursor sets."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from penstock.core.access import Claim, Sender
from penstock.core.group_names import PATH_NAME_ALLOWED, is_group_name, is_path_name
from penstock.core.groups.groups import (
    CURSOR_SET,
    MICROSECONDS,
    PROCESSOR,
    REPORTED,
    SUBSCRIPTION,
    GroupProgress,
    GroupReset,
    PartitionExtent,
    PositionCommit,
    TotalLag,
    check_kept_at,
    find_covered_partitions,
    is_slice,
    measure_lag,
    slice_of,
)
from penstock.core.groups.parking import NOT_PARKED, ParkedChanges
from penstock.core.log.cursor import FeedCursor, FeedView, check_view, feed_mark
from penstock.core.log.start import Word, resolve_start
from penstock.core.registry.definition import is_name
from penstock.core.registry.event_type import StoredFeed
from penstock.core.times import count_microseconds
from penstock.errors import (
    BadParameter,
    DatabaseUnavailable,
    GroupKindDiffers,
    GroupNotFound,
    OutcomeUnknown,
    PositionMoved,
    UnusablePosition,
)
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.hub.groups.claims import check_control, check_owner, check_reserved, is_own, name_own, owner_of
from penstock.hub.groups.members import Members
from penstock.hub.groups.parked_streams import GroupKind, ParkedStreams, put_parked, widen_parked
from penstock.storage.cold.loading import load_and_repeat
from penstock.storage.groups import (
    GroupFilter,
    GroupOwnership,
    GroupSummary,
    Position,
    PositionChange,
)
from penstock.storage.log.events import PartitionHead
from penstock.storage.store import Store, Tx


class _FeedHeads(NamedTuple):
    """A feed and the heads of its partitions at one time."""

    feed: StoredFeed
    heads: Mapping[int, PartitionHead]


class Extents:
    """The extents of partitions; each feed is looked up once, when it is first named."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._seen: dict[str, _FeedHeads | None] = {}

    def count(self, name: str) -> int:
        """Return the number of partitions of a feed; 0 if there is no such feed."""
        seen = self._find_heads(name)
        return seen.feed.partition_count if seen else 0

    def find(self, name: str, partition: int, item: int) -> PartitionExtent:
        """Return the extent of a partition.

        Raises:
            UnusablePosition: there is no such partition.
        """
        seen = self._find_heads(name)
        if seen is None or not 0 <= partition < seen.feed.partition_count:
            last = self.count(name) - 1
            why = f"partitions are numbered from 0 to {last}" if seen else "there is no such event type"
            raise UnusablePosition(item=item, event_type=name[:80], partition=partition, reason=why)
        head = seen.heads[seen.feed.partition_ids[partition]]
        return PartitionExtent(seen.feed.epoch, head.floor, head.next_offset)

    def find_offsets_since(self, at: int, places: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """Return, by partition, the offset of the first event received at *at* or later, or its end."""
        ids: dict[int, tuple[str, int]] = {}
        ranges = {}
        for name, partition in places:
            seen = self._find_heads(name)
            assert seen is not None
            partition_id = seen.feed.partition_ids[partition]
            ids[partition_id] = name, partition
            ranges[partition_id] = seen.heads[partition_id].floor, seen.heads[partition_id].next_offset
        return {
            ids[partition_id]: offset for partition_id, offset in self._tx.log.find_first_offsets(ranges, at).items()
        }

    def _find_heads(self, name: str) -> _FeedHeads | None:
        if name not in self._seen:
            feed = self._tx.registry.find(name) if is_name(name) else None
            heads = self._tx.log.find_heads(feed.partition_ids) if feed else {}
            is_there = feed is not None and len(heads) == feed.partition_count  # Else dropped between the queries.
            self._seen[name] = _FeedHeads(feed, heads) if feed and is_there else None
        return self._seen[name]


class MovedPosition(NamedTuple):
    """A position that was reset."""

    place: Position
    came_from: int | None
    """The next offset before the reset; None if the group had no position of this epoch."""
    extent: PartitionExtent
    """The extent of the partition."""


class PositionTarget(NamedTuple):
    """One position to reset, and the item of the request that asks for it."""

    item: int
    source: str
    slice: str
    partition: int
    start: Word | datetime | None
    offset: int | None
    """The offset to reset it to, where *start* is None."""


class ResetPlan:
    """Resolves the resets of one group to positions."""

    def __init__(self, tx: Tx, kind: str, standings: Sequence[GroupProgress], now: datetime) -> None:
        self._extents = Extents(tx)
        self._now = now
        self._kind = kind
        self._stands = {(each.source, each.slice, each.tranche): each for each in standings}

    def resolve(self, resets: Sequence[GroupReset]) -> Sequence[MovedPosition]:
        """Return the positions that *resets* mean, sorted.

        Raises:
            UnusablePosition: a position does not exist or cannot be used.
        """
        targets: dict[tuple[str, str, int], PositionTarget] = {}
        for item, reset in enumerate(resets):
            for each in self._list_targets(item, reset):
                place = each.source, each.slice, each.partition
                if place in targets:
                    raise _make_unusable_error(each, "it is named twice")
                targets[place] = each
        at_times: dict[datetime, list[tuple[str, int]]] = {}
        for each in targets.values():
            if isinstance(each.start, datetime):
                at_times.setdefault(each.start, []).append((each.source, each.partition))
        since = {
            at: self._extents.find_offsets_since(count_microseconds(at), places) for at, places in at_times.items()
        }
        return [self._resolve(each, since) for _, each in sorted(targets.items())]

    def _list_targets(self, item: int, reset: GroupReset) -> list[PositionTarget]:
        if reset.event_type is None:
            sources = sorted({source for source, _, _ in self._stands})
            return [each for source in sources for each in self._list_source_targets(item, reset, source)]
        self._extents.find(reset.event_type, reset.partition or 0, item)
        found = self._list_source_targets(item, reset, reset.event_type)
        if not found:
            unsaid = "the group has no position there: say in which slice it is to have one"
            reason = unsaid if reset.slice is None else "the slice that is named does not hold it"
            raise UnusablePosition(item=item, event_type=reset.event_type, partition=reset.partition, reason=reason)
        return found

    def _list_source_targets(self, item: int, reset: GroupReset, source: str) -> list[PositionTarget]:
        count = self._extents.count(source)
        if not count:  # The positions of dropped event types stay.
            return []
        found = []
        for part in self._list_slices(reset, source):
            known = [each for of, at, each in self._stands if (of, at) == (source, part)]
            covers = find_covered_partitions(self._kind, part, count, known)
            if reset.partition is not None:
                is_said = reset.slice is not None and self._kind != CURSOR_SET
                covers = {reset.partition} if is_said else covers & {reset.partition}
            to, offset = reset.goal
            start = None if to is None else resolve_start(to, self._now)
            found += [PositionTarget(item, source, part, each, start, offset) for each in sorted(covers)]
        return found

    def _list_slices(self, reset: GroupReset, source: str) -> Sequence[str]:
        """Return the slices that a reset means: the one it names, else all; a group without slices has one."""
        if reset.slice is not None:
            return [reset.slice] if is_slice(reset.slice) else []
        found = sorted({part for known, part, _ in self._stands if known == source})
        return found or ([] if self._kind == CURSOR_SET else [""])

    def _resolve(
        self, target: PositionTarget, since: Mapping[datetime, Mapping[tuple[str, int], int]]
    ) -> MovedPosition:
        extent = self._extents.find(target.source, target.partition, target.item)
        offset = self._choose_offset(target, extent, since)
        if offset < 0:
            raise _make_unusable_error(target, f"there is no offset {offset}")
        if offset < extent.floor:
            raise _make_unusable_error(
                target, f"retention has removed what is before {extent.floor}, and with that {offset}"
            )
        if offset > extent.next_offset:
            raise _make_unusable_error(target, f"{offset} is beyond its end, which is {extent.next_offset}")
        stands = self._stands.get((target.source, target.slice, target.partition))
        came_from = stands.offset if stands and stands.epoch == extent.epoch else None
        place = Position(target.source, target.slice, target.partition, extent.epoch, offset)
        return MovedPosition(place, came_from, extent)

    def _choose_offset(
        self, target: PositionTarget, extent: PartitionExtent, since: Mapping[datetime, Mapping[tuple[str, int], int]]
    ) -> int:
        if target.offset is not None:
            return target.offset
        if isinstance(target.start, datetime):
            return since[target.start][target.source, target.partition]
        return extent.floor if target.start == "earliest" else extent.next_offset


def _make_unusable_error(target: PositionTarget, reason: str) -> UnusablePosition:
    return UnusablePosition(item=target.item, event_type=target.source, partition=target.partition, reason=reason)


RESET: Final = "reset"
"""The kind of an intervention that records a reset."""


def _check_kind(group: str, held: str | None, kind: str | None) -> str:
    """Return the kind of a group that receives commits."""
    if held is None:
        allowed = "processor, spark, cursorset or reported: there is no group of that name yet"
        raise BadParameter(parameter="kind", value=None, allowed=allowed)
    if held == SUBSCRIPTION:
        reason = f"its cursors are committed by POST /subscriptions/{group}/cursors"
        raise GroupKindDiffers(group=group, kind=held, reason=reason)
    if kind not in (None, held):
        raise GroupKindDiffers(group=group, kind=held, reason=f"it cannot be a {kind}")
    return held


def _put_kept_at(tx: Tx, group: str, kind: str, kept_at: str | None) -> None:
    if kind != REPORTED:
        raise GroupKindDiffers(group=group, kind=kind, reason="the hub keeps its positions: it cannot have kept_at")
    if kept_at is None:
        allowed = "a text that says where the positions are kept, such as 'postgresql://db/shop, table positions'"
        raise BadParameter(parameter="kept_at", value=None, allowed=allowed)
    check_kept_at(kept_at)
    tx.groups.put_kept_at(group, kept_at)


def _check_commits(extents: Extents, kind: str, commits: Sequence[PositionCommit]) -> Sequence[Position]:
    places: dict[tuple[str, str, int], Position] = {}
    for item, each in enumerate(commits):
        extent = extents.find(each.event_type, each.partition, item)
        key = each.event_type, each.slice, each.partition
        why = (
            "it is named twice"
            if key in places
            else _explain_unusable(each, kind, extents.count(each.event_type), extent)
        )
        if why is not None:
            raise UnusablePosition(item=item, event_type=each.event_type, partition=each.partition, reason=why)
        places[key] = Position(*key, extent.epoch, each.offset)
    return list(places.values())


def _explain_unusable(commit: PositionCommit, kind: str, count: int, extent: PartitionExtent) -> str | None:
    if commit.epoch not in (None, extent.epoch):
        return f"it is of the feed's epoch {commit.epoch}, which is now {extent.epoch}"
    if not 0 <= commit.offset <= extent.next_offset:
        return f"there is no offset {commit.offset}: it ends at {extent.next_offset}"
    if not is_slice(commit.slice):
        return "a slice is up to 255 printable characters of ASCII"
    if kind == CURSOR_SET and commit.partition not in find_covered_partitions(kind, commit.slice, count, ()):
        return "the slice of a cursor set is n/partition, such as 2/1, and that view has to hold the partition"
    return None


def _check_expected(tx: Tx, group: str, commits: Sequence[PositionCommit], places: Sequence[Position]) -> None:
    """Raise PositionMoved unless the stored positions are the expected ones; the group is locked."""
    compared = [(each, place) for each, place in zip(commits, places, strict=True) if each.is_conditional]
    slices = {(each.event_type, each.slice) for each, _ in compared}
    stands = {at: tx.groups.find_positions(group, *at) for at in slices}
    for each, place in compared:
        found = stands[each.event_type, each.slice].get(each.partition)
        wanted = None if each.expected is None else place._replace(offset=each.expected)
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


def _make_intervention(moved: MovedPosition, reason: str | None, at: int) -> PositionChange:
    source, part, tranche, epoch, offset = moved.place
    return PositionChange(source, part, tranche, RESET, epoch, moved.came_from, offset, reason, at)


def _describe_moves(changes: Sequence[PositionChange]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return positions before and after a reset, for the audit log."""
    places = [{"event_type": each.source, "slice": each.slice, "partition": str(each.tranche)} for each in changes]
    return (
        {"items": [place | {"offset": each.came_from} for place, each in zip(places, changes, strict=True)]},
        {"items": [place | {"offset": each.went_to} for place, each in zip(places, changes, strict=True)]},
    )


def _describe_group(group: GroupOwnership, standings: Sequence[GroupProgress]) -> Mapping[str, Any]:
    """Return a group with its positions, for the audit log."""
    items = [
        {"event_type": each.source, "slice": each.slice, "partition": str(each.tranche), "offset": each.offset}
        for each in standings
    ]
    return {"kind": group.kind, "owner": group.owner, "items": items}


class GroupLag(NamedTuple):
    """A consumer group and its lag."""

    listed: GroupSummary
    behind: TotalLag | None
    """None for a subscription that has not begun."""
    standings: Sequence[GroupProgress]
    """Sorted by source, slice and tranche."""
    at: int
    """The time of measurement, in microseconds since 1970, UTC."""


CONSUMERS_MAX: Final = 1_000
REPORTED_SECONDS: Final = 90 * 86_400.0
"""The seconds for which a group is shown that stores its positions elsewhere, after its last report."""
EXPIRED_MAX: Final = 100
"""The number of such groups that are deleted at once."""


class EventTypeReader(NamedTuple):
    """A consumer group that reads an event type."""

    group: GroupSummary
    committed_at: int | None
    """When its positions in the event type were last stored; None: never."""


class Groups:
    """The consumer groups of one store, and their positions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.parked = ParkedStreams(store, clock)
        self.members = Members(store, clock)

    def store_cursors(
        self,
        feed: StoredFeed,
        name: str,
        cursors: Sequence[tuple[FeedView, Mapping[int, int]]],
        by: Claim | None = None,
    ) -> None:
        """Store the cursors that a read began with: everything before them has been processed.

        A cursor set belongs to the caller *by*: others may have one of the same name.

        Raises:
            GroupKindDiffers: a consumer group of another kind has the name.
            AccessDenied: other callers have the group of that name, and the one in its place.
            DatabaseUnavailable: they may have been stored; storing them again does no harm.
        """
        check_reserved(name, by)
        now = self._clock()
        positions = [
            Position(feed.name, slice_of(view), tranche, feed.epoch, offset)
            for view, offsets in cursors
            for tranche, offset in offsets.items()
        ]
        try:
            with self._store.write() as tx:
                group = tx.groups.lock(name, kind=CURSOR_SET, owner=owner_of(by), at=now, shared=True)
                if not is_own(group, by):
                    name = name_own(name, by)
                    group = tx.groups.lock(name, kind=CURSOR_SET, owner=owner_of(by), at=now, shared=True)
                    check_owner(name, group, by)
                assert group is not None
                if group.kind != CURSOR_SET:
                    raise GroupKindDiffers(group=name, kind=group.kind, reason="no cursors are kept under its name")
                tx.groups.put(name, positions, now)
        except OutcomeUnknown as error:
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error

    def resume(
        self, event_type: str, name: str, n: int, partitions: Sequence[int], by: Claim | None = None
    ) -> dict[int, str]:
        """Return the cursors that the caller *by* last stored under *name*, by partition of the view at *n*.

        Raises:
            EventTypeNotFound, BadPartitionCount: there is no such feed, or no such view of it.
            AccessDenied: see `store_cursors`.
            GroupNotFound: nothing is stored for one of the partitions.
        """
        with self._store.read() as tx:
            feed = tx.registry.get(event_type)
            check_view(n, feed.partition_count)
            group = name
            if not is_own(tx.groups.find(group), by):
                group = name_own(name, by)
                check_owner(group, tx.groups.find(group), by)
            found = {}
            for partition in partitions:
                view = FeedView(n, partition, feed.partition_count)
                positions = tx.groups.find_positions(group, event_type, slice_of(view))
                if not positions:
                    raise GroupNotFound.of(
                        "cursor-set-not-found", event_type=event_type, cursorset=name, n=n, partition=partition
                    )
                found[partition] = _encode_cursor(feed, view, positions)
        return found

    def list(self, which: GroupFilter, limit: int) -> Sequence[GroupSummary]:
        """Return up to *limit* groups selected by *which*, sorted by name.

        Raises:
            EventTypeNotFound: *which* names an unknown event type.
        """
        with self._store.read() as tx:
            if which.source is not None:
                tx.registry.get(which.source)
            return tx.groups.list(which, limit)

    def list_consumers(self, event_type: str) -> Sequence[EventTypeReader]:
        """Return up to `CONSUMERS_MAX` groups that read an event type, sorted by name.

        Raises:
            EventTypeNotFound: there is no such event type.
        """
        with self._store.read() as tx:
            tx.registry.get(event_type)
            found = tx.groups.list(GroupFilter(event_type), CONSUMERS_MAX)
            commits: dict[str, int] = {}
            for each in tx.groups.list_standings([each.name for each in found]):
                if each.source == event_type:
                    commits[each.group] = max(each.updated_at, commits.get(each.group, 0))
        return [EventTypeReader(each, commits.get(each.name)) for each in found]

    def find(self, name: str) -> GroupSummary:
        """Return the group of that name.

        Raises:
            GroupNotFound: there is none.
        """
        if is_group_name(name):
            with self._store.read() as tx:
                found = tx.groups.list(GroupFilter(name=name), 1)
            if found:
                return found[0]
        raise GroupNotFound(group=name)

    def measure(self, groups: Sequence[GroupSummary]) -> Sequence[GroupLag]:
        """Measure the lag of *groups* in one query; events that wait in the outbox do not count."""
        with self._store.read() as tx:
            found = tx.groups.list_standings([each.name for each in groups])
        now = self._clock()
        standings = {name: list(own) for name, own in groupby(found, attrgetter("group"))}
        return [_measure_group(each, standings.get(each.name, []), now) for each in groups]

    def commit(
        self,
        group: str,
        kind: str | None,
        commits: Sequence[PositionCommit],
        by: Claim | None = None,
        *,
        parked: ParkedChanges = NOT_PARKED,
        kept_at: str | None = None,
    ) -> Sequence[Position]:
        """Store positions, all or none, and return them sorted; a new group is created with *kind*.

        With them, it stores what a processor has *parked*, or where a group of the kind `reported` keeps its positions
        (*kept_at*, which its first report has to say). A group without an owner belongs to the caller *by* from
        here on.

        Raises:
            AccessDenied: the group belongs to another caller than *by*, or its name is that of a cursor set of one.
            BadParameter: the group is new, and its name is not allowed or *kind* is missing.
            GroupKindDiffers: the group is of another kind, or a subscription.
            GroupKindDiffers: the group is not of the kind `processor`, and something is parked.
            UnusablePosition: a position does not exist or cannot be used.
            PositionMoved: a stored position is not the expected one.
            LimitReached: the group would have more than `PARKED_MAX` parked streams.
            DatabaseUnavailable: they may have been stored; storing them again does no harm.
            OutcomeUnknown: the same, for commits that expect a stored position.
        """
        if not is_path_name(group):
            raise BadParameter(parameter="group", value=group[:80], allowed=PATH_NAME_ALLOWED)
        check_reserved(group, by)
        now = self._clock()
        try:
            with self._store.write() as tx:
                held = tx.groups.lock(group, kind=kind, owner=owner_of(by), at=now)
                check_owner(group, held, by)
                extents, kind = Extents(tx), _check_kind(group, held and held.kind, kind)
                places = _check_commits(extents, kind, commits)
                _check_expected(tx, group, commits, places)
                tx.groups.put(group, places, now)
                if kept_at is not None or (kind == REPORTED and tx.groups.find_kept_at(group) is None):
                    _put_kept_at(tx, group, kind, kept_at)
                if parked:
                    put_parked(tx, GroupKind(group, kind), parked, now)
        except OutcomeUnknown as error:
            if parked or any(each.is_conditional for each in commits):
                raise
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error
        return sorted(places)

    def reset(
        self,
        group: str,
        resets: Sequence[GroupReset],
        reason: str | None,
        *,
        dry_run: bool,
        by: Claim | None = None,
        sender: Sender | None = None,
    ) -> Sequence[MovedPosition]:
        """Reset positions, all or none, and record it; return the reset positions, sorted. A dry run changes nothing.

        The audit log names the *sender*.

        Raises:
            GroupNotFound: there is no such group.
            AccessDenied: the group belongs to another caller than *by*, or has no owner.
            GroupKindDiffers: the group is a subscription, whose streams have to end first, or it keeps its positions
                elsewhere.
            UnusablePosition: a position cannot be reset there.
            ColdTierUnavailable, ColdFileDamaged: the events of that time are in a file, which cannot be read.
        """
        if not is_group_name(group):
            raise GroupNotFound(group=group)
        now = self._clock()
        time = datetime.fromtimestamp(now / MICROSECONDS, UTC)

        def move() -> Sequence[MovedPosition]:
            with self._store.read() if dry_run else self._store.write() as tx:
                held = tx.groups.lock(group)
                if held is None:
                    raise GroupNotFound(group=group)
                check_control(group, held, by)
                kind = held.kind
                if kind == REPORTED:
                    why = (
                        f"it keeps its positions in {tx.groups.find_kept_at(group)}; move it there: "
                        f"`penstock groups reset {group} --database URL`"
                    )
                    raise GroupKindDiffers(group=group, kind=kind, reason=why)
                if kind == SUBSCRIPTION:
                    why = f"its streams have to end first: PATCH /subscriptions/{group}/cursors moves it"
                    raise GroupKindDiffers(group=group, kind=kind, reason=why)
                moved = ResetPlan(tx, kind, tx.groups.list_standings([group]), time).resolve(resets)
                if not dry_run:
                    changes = [_make_intervention(each, reason, now) for each in moved]
                    tx.groups.put(group, [each.place for each in moved], now, changes)
                    if kind == PROCESSOR:
                        widen_parked(tx, group, [each.place for each in moved])
                    before, after = _describe_moves(changes)
                    record_change(tx, AuditedChange("group", group, before, after, reason), sender, now)
            return moved

        return load_and_repeat(move)

    def expire_reported(self, pause: Callable[[float], bool] = lambda seconds: False) -> None:  # noqa: ARG005
        """Delete groups that have not reported for `REPORTED_SECONDS`. *pause*: see `SweepTask` of the sweeper."""
        before = self._clock() - int(REPORTED_SECONDS * MICROSECONDS)
        with self._store.read() as tx:
            silent = tx.groups.list_silent(before, EXPIRED_MAX)
        for name in silent:
            began = time.monotonic()
            with self._store.write() as tx:
                tx.groups.lock(name)
                if name in tx.groups.list_silent(before, EXPIRED_MAX):
                    tx.groups.delete(name)
            if pause(time.monotonic() - began):
                return

    def list_interventions(self, name: str, *, before: int | None, limit: int) -> Sequence[PositionChange]:
        """Return up to *limit* interventions in a group, newest first, older than the one with the id *before*.

        Raises:
            GroupNotFound: there is no such group.
        """
        self.find(name)
        with self._store.read() as tx:
            return tx.groups.list_changes(name, before=before, limit=limit)

    def delete(self, name: str, by: Claim | None = None, sender: Sender | None = None) -> None:
        """Delete a group with its positions; the audit log names the *sender*.

        Raises:
            GroupNotFound: there is no such group.
            AccessDenied: the group belongs to another caller than *by*, or has no owner.
            GroupKindDiffers: the group is a subscription, which is deleted as such.
        """
        self.find(name)
        with self._store.write() as tx:
            held = tx.groups.lock(name)
            if held is None:
                raise GroupNotFound(group=name)
            check_control(name, held, by)
            if held.kind == SUBSCRIPTION:
                raise GroupKindDiffers(group=name, kind=held.kind, reason=f"DELETE /subscriptions/{name} deletes it")
            standings = tx.groups.list_standings([name])
            tx.groups.delete(name)
            change = AuditedChange("group", name, _describe_group(held, standings), None)
            record_change(tx, change, sender, self._clock())


def _measure_group(listed: GroupSummary, standings: Sequence[GroupProgress], now: int) -> GroupLag:
    has_begun = listed.kind != SUBSCRIPTION or bool(standings)
    return GroupLag(listed, measure_lag(standings, now) if has_begun else None, standings, now)


def _encode_cursor(feed: StoredFeed, view: FeedView, positions: Mapping[int, Position]) -> str:
    epochs = {position.epoch for position in positions.values()}
    places = tuple(positions[physical].offset if physical in positions else 0 for physical in view.physical)
    return FeedCursor(feed_mark(feed.name), min(epochs), view, places).encode()
