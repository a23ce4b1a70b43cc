"""Members of consumer groups: processors of one name that share partitions by leases which the hub keeps.

Each change is one transaction, by the clock of the database, so that all hubs of it agree. The rules are those of
`penstock.core.groups.leases`, as for leases in a consumer's own database.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from penstock.core.access import Claim, Sender
from penstock.core.groups.groups import PROCESSOR, decode_tranche
from penstock.core.groups.leases import GroupLeases, MemberTranches, find_tranches, leave, release, renew
from penstock.errors import (
    BadParameter,
    DatabaseUnavailable,
    GroupKindDiffers,
    GroupNotFound,
    LimitReached,
    OutcomeUnknown,
)
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.hub.groups.claims import check_control, check_owner, owner_of
from penstock.storage.store import Store, Tx

MEMBERS_MAX: Final = 200
"""The most members that a group has at a time."""
TRANCHES_MAX: Final = 5_000
"""The most partitions that the members of a group share."""
SWEPT_AT_ONCE: Final = 100


class Member(NamedTuple):
    """A member of a group, and the partitions that it owns."""

    name: str
    tranches: Collection[str]
    expires_at: int
    """When its lease ends, in microseconds since 1970, unless it renews it."""
    is_leaving: bool


class Members:
    """The members of one store's groups. Safe to use from many threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def renew(
        self,
        group: str,
        member: str,
        tranches: Collection[str],
        lease_seconds: float,
        *,
        is_leaving: bool = False,
        by: Claim | None = None,
    ) -> MemberTranches:
        """Extend the lease of a member that knows these *tranches*; return the tranches it has now.

        A member that *is_leaving* keeps its tranches until it releases them, and gets no others. The first member
        creates the group, which belongs to the caller *by* from here on.

        Raises:
            GroupNotFound: there is no such group, and no partition is named.
            AccessDenied: the group belongs to another caller.
            GroupKindDiffers: the group is not of the kind `processor`.
            BadParameter: one of *tranches* is not a partition of an event type.
            LimitReached: the group would have more than `MEMBERS_MAX` members.
            DatabaseUnavailable: the lease may have been extended; to extend it again does no harm.
        """
        lease_us = round(lease_seconds * 1_000_000)

        def change(tx: Tx, leases: GroupLeases) -> GroupLeases:
            _check_partitions(tx, tranches)
            after = renew(leases, member, tranches, tx.now(), lease_us, is_leaving=is_leaving)
            if len(after.members) > MEMBERS_MAX:
                raise LimitReached.of("too-many-members", group=group, limit=MEMBERS_MAX)
            if len(after.owners) > TRANCHES_MAX:
                allowed = f"up to {TRANCHES_MAX} partitions, with those of all members"
                raise BadParameter(parameter="tranches", value=len(after.owners), allowed=allowed)
            return after

        return find_tranches(self._change(group, change, by, creates=bool(tranches)), member)

    def release(self, group: str, member: str, tranches: Collection[str], by: Claim | None = None) -> MemberTranches:
        """Release *tranches* of a member, which has committed its progress in them; return the tranches it has now.

        Raises:
            GroupNotFound, AccessDenied, GroupKindDiffers, DatabaseUnavailable: see `renew`.
        """
        return find_tranches(self._change(group, lambda _, leases: release(leases, member, tranches), by), member)

    def remove(self, group: str, member: str, by: Claim | None = None, sender: Sender | None = None) -> None:
        """Release all tranches of a member, and remove it.

        The audit log records this if the *sender* does not own the group.

        Raises:
            GroupNotFound, GroupKindDiffers, DatabaseUnavailable: see `renew`.
            AccessDenied: the group belongs to another caller than *by*, or has no owner.
        """
        with self._store.write() as tx:
            owned = tx.groups.lock(group)
            if owned is None:
                raise GroupNotFound(group=group)
            check_control(group, owned, by)
            leases = tx.groups.find_shared(group)
            tx.groups.put_shared(group, leave(leases, member))
            if sender is not None and sender.owner != owned.owner and member in leases.members:
                change = AuditedChange("group", group, {"member": member}, {"member": None})
                record_change(tx, change, sender, self._clock())

    def list(self, group: str) -> Sequence[Member]:
        """Return the members of a group whose leases have not ended, sorted by name."""
        with self._store.read() as tx:
            leases, now = tx.groups.find_shared(group), tx.now()
        has: dict[str, list[str]] = {}
        for tranche, (owner, _) in sorted(leases.owners.items()):
            if owner is not None:
                has.setdefault(owner, []).append(tranche)
        return [
            Member(name, has.get(name, []), until, name in leases.leaving)
            for name, until in sorted(leases.members.items())
            if until > now
        ]

    def sweep(self, pause: Callable[[float], bool] = lambda seconds: False) -> None:  # noqa: ARG005
        """Forget members whose leases have ended. *pause*: see `penstock.hub.admin.sweeping.SweepTask`."""
        after = ""
        while True:
            with self._store.read() as tx:
                names = tx.groups.list_sharing(after, SWEPT_AT_ONCE)
                now = tx.now()
                ended = [name for name in names if _is_over(tx.groups.find_shared(name), now)]
            for name in ended:
                began = time.monotonic()
                with self._store.write() as tx:
                    if tx.groups.lock(name) is not None and _is_over(tx.groups.find_shared(name), tx.now()):
                        tx.groups.put_shared(name, GroupLeases())
                if pause(time.monotonic() - began):
                    return
            if len(names) < SWEPT_AT_ONCE:
                return
            after = names[-1]

    def _change(
        self, group: str, change: Callable[[Tx, GroupLeases], GroupLeases], by: Claim | None, *, creates: bool = False
    ) -> GroupLeases:
        try:
            with self._store.write() as tx:
                kind = PROCESSOR if creates else None
                owned = tx.groups.lock(group, kind=kind, owner=owner_of(by), at=self._clock())
                if owned is None:
                    raise GroupNotFound(group=group)
                check_owner(group, owned, by)
                if owned.kind != PROCESSOR:
                    reason = "only processors share partitions by leases"
                    raise GroupKindDiffers(group=group, kind=owned.kind, reason=reason)
                leases = change(tx, tx.groups.find_shared(group))
                tx.groups.put_shared(group, leases)
        except OutcomeUnknown as error:
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error
        return leases


def _check_partitions(tx: Tx, tranches: Collection[str]) -> None:
    counts: dict[str, int] = {}
    for tranche in tranches:
        name, partition = decode_tranche(tranche)
        if name not in counts:
            feed = tx.registry.find(name)
            counts[name] = feed.partition_count if feed else 0
        if not partition < counts[name]:
            allowed = f"a partition of {name!r}, which has {counts[name]}" if counts[name] else "that of an event type"
            raise BadParameter(parameter="tranches", value=tranche, allowed=allowed)


def _is_over(leases: GroupLeases, now: int) -> bool:
    return all(until <= now for until in leases.members.values())
