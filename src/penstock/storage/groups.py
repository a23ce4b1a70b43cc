"""Port of consumer groups: their positions, and the history of changes that operators made to these."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.groups.groups import GroupProgress, PartitionExtent
from penstock.core.groups.leases import GroupLeases
from penstock.core.groups.parking import ParkedStream, StreamPlace
from penstock.storage.statements import SqlRunner

_decode_definition: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decode_leases: Final = msgspec.json.Decoder(GroupLeases).decode
_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


class GroupSummary(NamedTuple):
    """Consumer group in a list."""

    name: str
    kind: str
    sources: tuple[str, ...]
    """Sources that the group has positions in or subscribes to, sorted."""
    definition: Mapping[str, Any] | None = None
    """Definition of the subscription that the group is; None if it is none."""
    owner: str | None = None
    """The caller that owns it, as `DATA_TYPE:VALUE`; None: it has no owner."""
    kept_at: str | None = None
    """Where a group of the kind `reported` keeps its positions; None: here."""


class GroupFilter(NamedTuple):
    """Filter of consumer groups; all conditions have to hold."""

    source: str | None = None
    """The group has positions in this source, or subscribes to it."""
    kind: str | None = None
    after: str = ""
    """The group's name comes after this one."""
    name: str | None = None


class Position(NamedTuple):
    """Position of a consumer group in one tranche of a source: the next offset that the group wants."""

    source: str
    slice: str
    tranche: int
    epoch: int
    offset: int


class PositionChange(NamedTuple):
    """Change of a group's position in one partition that its consumers did not make, such as a reset by an operator."""

    source: str
    slice: str
    tranche: int
    kind: str
    epoch: int
    came_from: int | None
    """Position before; None if the group had none in this epoch."""
    went_to: int
    reason: str | None
    at: int
    id: int = 0
    """Grows in the order in which changes are recorded."""


class GroupMeasurement(NamedTuple):
    """How far a consumer group is behind, over all its partitions; each counts with its slowest slice."""

    name: str
    kind: str
    application: str
    """Owning application of the subscription that the group is; empty if it is none."""
    gap: int
    """Number of retained events that are not committed."""
    received_at: int | None
    """Time at which the oldest of these was received; None: there is none."""
    committed_at: int
    """Time of the last commit, or of the last reset."""
    stuck: int
    """Number of partitions in which the group cannot continue from its position without a reset."""
    stands_since: int | None
    """Since when the partition with uncommitted events that has stood longest stands where it is: the time of its last
    commit, or of its oldest uncommitted event if that came later. None: there are no such events."""


class GroupMeasurements(NamedTuple):
    """The groups that are furthest behind."""

    groups: Sequence[GroupMeasurement]
    total: int
    """Number of groups that have positions."""


class ParkedMeasurement(NamedTuple):
    """How many keys or streams of a consumer group are parked."""

    group: str
    kind: str
    application: str
    """Owning application of the subscription that the group is; empty if it is none."""
    keys: int


class ParkedMeasurements(NamedTuple):
    """The groups with the most parked keys or streams."""

    groups: Sequence[ParkedMeasurement]
    total: int
    """Number of groups with parked keys or streams."""


class StoredParkedStream(NamedTuple):
    """A parked stream as it is stored."""

    id: int
    """Grows in the order in which streams are parked."""
    parked: ParkedStream
    parked_at: int
    request: str | None
    """`retry` or `skip`, if an operator has requested it; the processor carries it out."""


class GroupOwnership(NamedTuple):
    """Kind and owner of a consumer group."""

    kind: str
    owner: str | None
    """The caller that owns it, as `DATA_TYPE:VALUE`; None: it has no owner."""


class GroupRepository:
    """Consumer groups and their positions.

    A transaction that writes positions locks the group's row first, so that no two wait for each other.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run
        self._run_each = sql.run_each

    def list(self, which: GroupFilter, limit: int) -> Sequence[GroupSummary]:
        """Return up to *limit* groups, sorted by name."""
        return [_read_summary(row) for row in self._run("groups_list", limit=limit, **which._asdict()).fetchall()]

    def list_standings(self, names: Sequence[str]) -> Sequence[GroupProgress]:
        """Return the positions of groups and the extents of their partitions.

        Sorted by group, source, slice and tranche. Each costs two look-ups in an index.
        """
        given = msgspec.json.encode(names).decode()
        return [_read_standing(row) for row in self._run("group_standings", names=given).fetchall()]

    def measure(self, limit: int) -> GroupMeasurements:
        """Measure all groups with positions and return up to *limit*, the one with the oldest uncommitted event first.

        Each position costs two look-ups in an index.
        """
        rows = self._run("groups_measure", limit=limit).fetchall()
        return GroupMeasurements([GroupMeasurement(*row[:-1]) for row in rows], rows[0][-1] if rows else 0)

    def find_positions(self, name: str, source: str, slice: str) -> Mapping[int, Position]:
        """Return the positions of a group in one slice of a source, by tranche."""
        rows = self._run("find_positions", group=name, source=source, slice=slice).fetchall()
        return {tranche: Position(source, slice, tranche, epoch, offset) for tranche, epoch, offset in rows}

    def lock(
        self, name: str, *, kind: str | None = None, owner: str | None = None, at: int = 0, shared: bool = False
    ) -> "GroupOwnership | None":
        """Lock a group until the transaction ends, and return it.

        Args:
            name: The group.
            kind: Kind of the group that is created if there is none; without it, None is returned then.
            owner: Owner of the group that is created, and of one without an owner.
            at: When the group is created.
            shared: Let other transactions that lock the group *shared* store positions of other slices meanwhile.
        """
        while not (found := self._run("group_hold" if shared else "group_lock", name=name).fetchall()):
            if kind is None:
                return None
            self._run("insert_group", group=name, kind=kind, owner=owner, at=at)
        group = GroupOwnership(*found[0])
        if group.owner is None and owner is not None:
            self._run("group_adopt", name=name, owner=owner)
            [again] = self._run("group_hold" if shared else "group_lock", name=name).fetchall()
            group = GroupOwnership(*again)
        return group

    def find(self, name: str) -> "GroupOwnership | None":
        """Return a group without locking it, or None."""
        rows = self._run("group_find", name=name).fetchall()
        return GroupOwnership(*rows[0]) if rows else None

    def put(self, name: str, positions: Iterable[Position], at: int, changes: Iterable[PositionChange] = ()) -> None:
        """Record positions of a locked group, and *changes* of them that its consumers did not make.

        One call writes them in the order in which others lock them. A transaction that writes several slices of a group
        locked *shared* calls in the order of the slices.
        """
        last = {position[:3]: position for position in sorted(positions)}
        if last:
            self._run("put_positions", group=name, at=at, positions=msgspec.json.encode([*last.values()]).decode())
        if rows := [(name, *change[:-1]) for change in changes]:
            self._run_each("group_intervene", rows)

    def list_changes(self, name: str, *, before: int | None, limit: int) -> Sequence[PositionChange]:
        """Return up to *limit* changes of a group, newest first; only those with an id below *before* if given."""
        rows = self._run("group_history", name=name, before=before, limit=limit).fetchall()
        return [PositionChange(*row) for row in rows]

    def expire_changes(self, before: int, rows: int) -> int:
        """Delete some of the oldest *rows* changes, those that were made before *before*; return how many."""
        return self._run("interventions_expire", before=before, rows=rows).rowcount

    def list_parked(
        self, name: str, *, after: int = 0, limit: int, requested: bool = False
    ) -> "Sequence[StoredParkedStream]":
        """Return up to *limit* parked streams of a group with an id above *after*, oldest first.

        With *requested*, only those of which something is wanted.
        """
        rows = self._run("streams_parked", group=name, after=after, limit=limit, requested=requested).fetchall()
        return [StoredParkedStream(row[0], ParkedStream(*row[1:11]), row[11], row[12]) for row in rows]

    def measure_parked(self, limit: int) -> ParkedMeasurements:
        """Return up to *limit* groups with parked keys of subscriptions or streams of processors, the most first."""
        rows = self._run("parked_measure", limit=limit).fetchall()
        return ParkedMeasurements([ParkedMeasurement(*row[:-1]) for row in rows], rows[0][-1] if rows else 0)

    def count_parked(self, name: str) -> int:
        """Return the number of parked streams of a group."""
        [(count,)] = self._run("streams_count", group=name).fetchall()
        found: int = count
        return found

    def park(self, name: str, parked: Iterable[ParkedStream], at: int) -> None:
        """Store parked streams of a locked group. A request for one stays, unless the stream was retried and failed."""
        rows = [
            (name, each.source, each.tranche, _digest(each.stream), each.stream, *each[3:], at)
            for each in sorted(parked)
        ]
        if rows:
            self._run_each("stream_park", rows)

    def unpark(self, name: str, places: Iterable[StreamPlace]) -> None:
        """Forget parked streams of a locked group."""
        self._run_at("stream_unpark", name, places)

    def forget_requests(self, name: str, places: Iterable[StreamPlace]) -> None:
        """Forget what is wanted of parked streams of a locked group."""
        self._run_at("stream_tried", name, places)

    def request(self, name: str, stream: str | None, request: str) -> None:
        """Store an operator's request for a parked stream of a locked group, in all tranches; None: for all streams."""
        digest = None if stream is None else _digest(stream)
        self._run("streams_ask", group=name, digest=digest, request=request)

    def widen_parked(self, starts: Mapping[int, tuple[int, str]]) -> None:
        """Change the first waiting index of parked streams, and its position; *starts* has both by id."""
        if starts:
            self._run_each("stream_widen", [(*start, parked_id) for parked_id, start in sorted(starts.items())])

    def _run_at(self, statement: str, name: str, places: Iterable[StreamPlace]) -> None:
        if rows := [(name, source, tranche, _digest(stream)) for source, tranche, stream in sorted(places)]:
            self._run_each(statement, rows)

    def find_shared(self, name: str) -> GroupLeases:
        """Return the members of a group and the tranches that each one owns; empty if there is no such group."""
        rows = self._run("group_shared", name=name).fetchall()
        return _decode_leases(rows[0][0]) if rows and rows[0][0] is not None else GroupLeases()

    def put_shared(self, name: str, leases: GroupLeases) -> None:
        """Store the members of a locked group and the tranches that each one owns."""
        is_kept = leases.members or leases.owners
        self._run("group_share", name=name, shared=msgspec.json.encode(leases).decode() if is_kept else None)

    def list_sharing(self, after: str, limit: int) -> Sequence[str]:
        """Return up to *limit* names of groups whose members share, sorted, after a name."""
        return [name for (name,) in self._run("groups_sharing", after=after, limit=limit).fetchall()]

    def find_kept_at(self, name: str) -> str | None:
        """Return where a group keeps its positions; None: here, or there is no such group."""
        rows = self._run("group_find_kept_at", name=name).fetchall()
        return rows[0][0] if rows else None

    def put_kept_at(self, name: str, kept_at: str) -> None:
        """Store where a locked group keeps its positions."""
        self._run("group_kept_at", name=name, kept_at=kept_at)

    def list_silent(self, before: int, limit: int) -> Sequence[str]:
        """Return up to *limit* names of groups that report positions and have not done so since *before*."""
        return [name for (name,) in self._run("groups_silent", before=before, limit=limit).fetchall()]

    def delete(self, name: str) -> None:
        """Delete a locked group with its positions, its history, and the subscription that it is."""
        self._run("group_lock_positions", name=name)
        self._run("group_delete", name=name)


def _digest(stream: str) -> str:
    return sha256(stream.encode()).hexdigest()


def _read_summary(row: Sequence[Any]) -> GroupSummary:
    name, kind, sources, definition, owner, kept_at = row
    sources = tuple(sorted(_decode_names(sources)))
    decoded = None if definition is None else _decode_definition(definition)
    return GroupSummary(name, kind, sources, decoded, owner, kept_at)


def _read_standing(row: Sequence[Any]) -> GroupProgress:
    group, source, part, tranche, epoch, offset, updated_at, *there, received_at = row
    extent = None if None in there else PartitionExtent(*there)
    return GroupProgress(group, source, part, tranche, epoch, offset, updated_at, extent, received_at)
