"""Parked streams of processors whose positions the hub keeps: the processors put them, operators retry and skip them.

A processor parks a stream after an event of it could not be handled; its later events wait behind that one. An
operator's request is stored with the parked stream until the processor carries it out.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.access import Claim, Sender
from penstock.core.groups.groups import PROCESSOR
from penstock.core.groups.parking import PARKED_MAX, ParkedChanges, ParkedStream, find_waiting
from penstock.errors import BadParameter, GroupKindDiffers, GroupNotFound, LimitReached, ParkedNotFound
from penstock.errors.root import printable
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_changes
from penstock.hub.groups.claims import check_control
from penstock.hub.subscriptions.poison_events import SKIPPED
from penstock.storage.groups import Position, PositionChange, StoredParkedStream
from penstock.storage.store import Store, Tx


class GroupKind(NamedTuple):
    """A group and its kind."""

    name: str
    kind: str


class ParkedStreams:
    """The parked streams of one store's groups. Safe to use from many threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def list(self, name: str, *, after: int, limit: int, requested: bool = False) -> Sequence[StoredParkedStream]:
        """Return up to *limit* parked streams of a group with an id above *after*, oldest first.

        With *requested*, only those with an operator's request.

        Raises:
            GroupNotFound: there is no such group.
        """
        with self._store.read() as tx:
            if tx.groups.find(name) is None:
                raise GroupNotFound(group=name)
            return tx.groups.list_parked(name, after=after, limit=limit, requested=requested)

    def retry(self, name: str, parked_id: int | None, by: Claim | None = None, sender: Sender | None = None) -> int:
        """Ask the processor to try a parked stream again, or all of a group; return the number of streams.

        The audit log names the *sender*.

        Raises:
            GroupNotFound, ParkedNotFound: there is no such group, or no such stream.
            AccessDenied: the group belongs to another caller than *by*, or has no owner.
        """
        with self._store.write() as tx:
            found = _lock_parked(tx, name, parked_id, by)
            streams = {each.parked.stream for each in found}
            tx.groups.request(name, None if parked_id is None else found[0].parked.stream, "retry")
            changes = [_describe_request(name, each, "retry") for each in found]
            if changes:
                record_changes(tx, changes, sender, self._clock())
        return len(streams)

    def skip(
        self, name: str, parked_id: int, reason: str, by: Claim | None = None, sender: Sender | None = None
    ) -> None:
        """Ask the processor to skip the waiting events of a parked stream. The group's history has the *reason*.

        Raises:
            GroupNotFound, ParkedNotFound: there is no such group, or no such stream.
            AccessDenied: the group belongs to another caller than *by*, or has no owner.
        """
        with self._store.write() as tx:
            found = _lock_parked(tx, name, parked_id, by)
            tx.groups.request(name, found[0].parked.stream, "skip")
            now = self._clock()
            tx.groups.put(name, (), now, [_make_skip(each.parked, reason, now) for each in found])
            record_changes(tx, [_describe_request(name, each, "skip", reason) for each in found], sender, now)


def put_parked(tx: Tx, group: GroupKind, changes: ParkedChanges, now: int) -> None:
    """Store what a locked group has parked, in partitions in which it has positions.

    Raises:
        GroupKindDiffers, BadParameter, LimitReached: see `penstock.hub.groups.groups.Groups.commit`.
    """
    name, kind = group
    if kind != PROCESSOR:
        raise GroupKindDiffers(group=name, kind=kind, reason="only a processor parks streams")
    positions = {source: tx.groups.find_positions(name, source, "") for source in changes.sources}
    for number, each in enumerate(changes.parked):
        if each.tranche not in positions[each.source]:
            allowed = f"a partition of {each.source!r} in which the group has a position"
            raise BadParameter(parameter=f"parked[{number}].partition", value=each.tranche, allowed=allowed)
    tx.groups.unpark(name, changes.unparked)
    tx.groups.forget_requests(name, changes.tried)
    tx.groups.park(name, changes.parked, now)
    if changes.parked and tx.groups.count_parked(name) > PARKED_MAX:
        raise LimitReached.of("too-many-parked", group=name, limit=PARKED_MAX)


def _lock_parked(tx: Tx, name: str, parked_id: int | None, by: Claim | None) -> Sequence[StoredParkedStream]:
    """Lock a group, and return all that is parked of one of its streams, or of all."""
    held = tx.groups.lock(name)
    if held is None:
        raise GroupNotFound(group=name)
    check_control(name, held, by)
    found = tx.groups.list_parked(name, limit=PARKED_MAX)
    if parked_id is None:
        return found
    streams = {each.parked.stream for each in found if each.id == parked_id}
    if not streams:
        raise ParkedNotFound.of("parked-of-group-not-found", group=name, parked=parked_id)
    return [each for each in found if each.parked.stream in streams]


def widen_parked(tx: Tx, group: str, moved: Sequence[Position]) -> None:
    """Have parked streams wait from the earlier of where they wait and where their partition has moved to."""
    places = {(each.source, each.tranche): each for each in moved}
    starts = {}
    for parked_id, parked, _, _ in tx.groups.list_parked(group, limit=PARKED_MAX):
        if place := places.get((parked.source, parked.tranche)):
            index, since = _find_start(parked, place)
            if (index, since) != (parked.first, parked.since):
                starts[parked_id] = index, since
    tx.groups.widen_parked(starts)


def _find_start(parked: ParkedStream, place: Position) -> tuple[int, str]:
    """Return from which index and position on a parked stream waits, once its partition is at *place*."""
    position = f"{place.epoch}:{place.offset}"
    if parked.since.partition(":")[0] != str(place.epoch):
        return 0, position  # Its events are of a feed that there was before: nobody can read them again.
    index, since = find_waiting(parked.first, parked.since, position)
    return index, str(since)


def _make_skip(parked: ParkedStream, reason: str, now: int) -> PositionChange:
    epoch = int(parked.since.partition(":")[0])
    note = f"{reason} (stream {printable(parked.stream)})"
    return PositionChange(parked.source, "", parked.tranche, SKIPPED, epoch, parked.first, parked.next, note, now)


def _describe_request(group: str, found: StoredParkedStream, request: str, reason: str | None = None) -> AuditedChange:
    """Return what is asked for of a parked stream, for the audit log."""
    parked = found.parked
    shown = {
        "group": group,
        "event_type": parked.source,
        "partition": str(parked.tranche),
        "stream": parked.stream,
        "index": parked.first,
        "next": parked.next,
    }
    before, after = shown | {"request": found.request}, shown | {"request": request}
    return AuditedChange("parked_key", str(found.id), before, after, reason)
