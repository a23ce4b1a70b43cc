"""Leases in memory, by a clock that tests move on: a lease is over when they say so."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from penstock.core.groups.leases import GroupLeases, MemberTranches, find_tranches, leave, release, renew
from penstock.errors import DatabaseUnavailable
from penstock.processing import LocalProcessor

LEASE_SECONDS: Final = 4.0
SOON_SECONDS: Final = 300.0


def until(check: Callable[[], object], *woken: LocalProcessor) -> None:
    """Wait until something is so, and wake processors meanwhile."""
    deadline = time.monotonic() + SOON_SECONDS
    pause = 0.002
    while not check():
        assert time.monotonic() < deadline, "that has not come"
        for each in woken:
            each._wake()
        time.sleep(pause)
        pause = min(pause * 1.25, 0.1)  # What does not come at once costs more to look at than to wait for.


class Office:
    """Where leases are kept, and the time is told."""

    def __init__(self) -> None:
        self.shared = GroupLeases()
        self._passed = 0.0
        self._signs: Counter[str] = Counter()
        self._turn = threading.Lock()

    def clock(self) -> float:
        """Return the time, which goes on by itself, too."""
        return time.monotonic() + self._passed

    def change(self, change: Callable[[GroupLeases, int], GroupLeases], me: str) -> MemberTranches:
        """Change who has what, one after the other."""
        with self._turn:
            self.shared = change(self.shared, round(self.clock() * 1_000_000))
            self._signs[me] += 1
            return find_tranches(self.shared, me)

    def has(self, owner: str) -> set[str]:
        """Return what an owner has a lease on."""
        return {tranche for tranche, (found, _) in self.shared.owners.items() if found == owner}

    def pass_seconds(self, seconds: float) -> None:
        """Have so many seconds pass."""
        self._passed += seconds

    def jump(self) -> None:
        """Have so much time pass that all leases are over of which no sign comes."""
        self._passed += 1000

    def pass_time(
        self, *processors: LocalProcessor, part: float = 0.25, unless: Callable[[], object] = lambda: False
    ) -> None:
        """Let a *part* of a lease pass, and have all give a sign."""
        before = self._signs.copy()
        self._passed += LEASE_SECONDS * part
        until(lambda: unless() or all(self._signs[each.name] > before[each.name] for each in processors), *processors)


class StandingOffice(Office):
    """One whose time stands still until it is told to go on."""

    def clock(self) -> float:
        """Return the time."""
        return self._passed


class Leases:
    """The leases of one processor, whose connection to the office can be cut."""

    name = "shared"
    lease_seconds = LEASE_SECONDS

    def __init__(self, office: Office, owner: str) -> None:
        self.is_cut = False
        self.releases_lost = 0
        self._office = office
        self._owner = owner

    def renew(self, tranches: Collection[str]) -> MemberTranches:
        return self._change(lambda shared, now: renew(shared, self._owner, tranches, now, self._lease))

    def hold(self) -> MemberTranches:
        return self._change(lambda shared, now: renew(shared, self._owner, (), now, self._lease, is_leaving=True))

    def release(self, tranches: Collection[str]) -> MemberTranches:
        if self.releases_lost:
            self.releases_lost -= 1
            raise DatabaseUnavailable(reason="it is away")
        return self._change(lambda shared, _: release(shared, self._owner, tranches))

    def leave(self) -> None:
        self._change(lambda shared, _: leave(shared, self._owner))

    @property
    def _lease(self) -> int:
        return round(LEASE_SECONDS * 1_000_000)

    def _change(self, change: Callable[[GroupLeases, int], GroupLeases]) -> MemberTranches:
        if self.is_cut:
            raise DatabaseUnavailable(reason="it is away")
        return self._office.change(change, self._owner)
