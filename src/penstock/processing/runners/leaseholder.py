"""The leases of a processor that shares its tranches: they are renewed, and released in order."""

import logging
from collections.abc import Callable, Collection
from typing import Any, Final

from penstock.core.groups.leases import MemberTranches
from penstock.errors import BadParameter, DatabaseUnsuitable, PenstockError
from penstock.processing.checkpoints.checkpoint import Checkpoints, MemoryCheckpoints
from penstock.processing.checkpoints.hub import SubscriptionCheckpoints
from penstock.processing.checkpoints.leases import Leases
from penstock.processing.database import may_be_one
from penstock.processing.engine.rules import Rules
from penstock.processing.parameters import check_members, redact
from penstock.processing.progress import Progress
from penstock.processing.runners.background import BackgroundThread, Mailbox
from penstock.processing.runners.observer import is_logged

PAUSE_SECONDS: Final = 0.5
"""Pause after a failed attempt."""
_log: Final = logging.getLogger("penstock.processing")


def check_leases(leases: Leases, checkpoints: Checkpoints, rules: Rules) -> None:
    """Raise BadParameter if processors with these *leases* cannot share *checkpoints*, as far as that can be known.

    Raise it also if *rules* do not allow shared tranches.
    """
    if rules.require_all:
        allowed = "False where leases are given: who is given a tranche does not know what its streams had before"
        raise BadParameter(parameter="require_all", value=True, allowed=allowed)
    check_members("leases", leases, Leases, "DatabaseLeases(database, name) or HubLeases(url, name)")
    if isinstance(checkpoints, SubscriptionCheckpoints):
        allowed = "None: of a subscription the hub shares the partitions out"
        raise BadParameter(parameter="leases", value=leases.name, allowed=allowed)
    if isinstance(checkpoints, MemoryCheckpoints):
        allowed = "those that others have, too, where work is shared by leases: DatabaseCheckpoints(database, name)"
        raise BadParameter(parameter="checkpoints", value="in memory", allowed=allowed)
    name = getattr(checkpoints, "name", leases.name)
    if name != leases.name:
        allowed = f"leases of {name!r}, as the checkpoints are called: each processor has its own"
        raise BadParameter(parameter="leases", value=leases.name, allowed=allowed)
    databases: list[Any] = [getattr(each, "database", None) for each in (leases, checkpoints)]
    if None not in databases and not may_be_one(*databases):
        allowed = "leases in the database that the checkpoints are in"
        raise BadParameter(parameter="leases", value=redact(databases[0]), allowed=allowed)


class Leaseholder:
    """Renews leases in a thread of its own, and restricts the engine to the leased tranches.

    A tranche that another processor waits for gets no further calls; it is released when its calls have ended and its
    progress is committed. A lease that could not be renewed in time is given up before it is over, without a commit.
    When the processor ends, it takes no further tranches, and renews the leases of its active calls.

    Args:
        leases: The processor's leases.
        progress: The progress that owns only leased tranches.
        mailbox: Receives results, for the loop.
        clock: Returns monotonic seconds.
        is_timeless: True if each call checks its leases itself, in a transaction that keeps all others from taking
            them. Leases cannot be renewed during it; an elapsed lease has no effect then.
    """

    def __init__(
        self,
        leases: Leases,
        progress: Progress,
        mailbox: Mailbox,
        clock: Callable[[], float],
        *,
        is_timeless: bool = False,
    ) -> None:
        self._is_timeless = is_timeless
        self._leases = leases
        self._progress = progress
        self._clock = clock
        self._thread = BackgroundThread(mailbox, "penstock-leases")
        self._renewed_at = self._asked_at = float("-inf")
        self._failures = 0
        self._pause_until = float("-inf")
        self._is_over = False
        """True if the processor ends: later failures are not logged."""
        self._leaving: frozenset[str] = frozenset()
        """Leased tranches that this processor does not read, or is about to release."""
        progress.own(frozenset())

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def maintain(self, now: float, *, is_committing: bool) -> bool:
        """Renew leases when they are due, release finished tranches, and give up those whose lease is over.

        Args:
            now: The time.
            is_committing: True if a commit is in progress, or a call that may commit: no tranche is released then.

        Returns whether the leases are over: calls that have not begun must be withdrawn.
        """
        is_lapsed = self.give_up_lapsed(now)
        if self._thread.is_busy or now < self._pause_until or (self._is_timeless and is_committing):
            return is_lapsed
        if now - self._asked_at >= self._leases.lease_seconds / 4:
            self._asked_at = now
            self._thread.run(lambda: self._renew(now), self._apply_renewal, self._retry_later)
        elif not is_committing and (finished := self._list_finished()):
            self._thread.run(lambda: self._leases.release(finished), self._apply, self._retry_later)
        return is_lapsed

    def give_up_lapsed(self, now: float) -> bool:
        """Give up all tranches, without further commits, if the leases could not be renewed; return whether so."""
        is_lapsed = not self._is_timeless and now - self._renewed_at > self._leases.lease_seconds * 0.8
        if is_lapsed:
            self._progress.own(frozenset())
            self._progress.give_up()
        return is_lapsed

    @property
    def holds_calls(self) -> bool:
        """True if calls have to wait, since they would block a renewal or release in progress."""
        return self._is_timeless and self._thread.is_busy

    def apply(self, held: MemberTranches, tranches: Collection[str]) -> bool:
        """Apply the leases *held*; return whether they include *tranches*. Tranches without a lease are given up."""
        self._apply(held)
        if held.tranches | held.leaving >= set(tranches):
            return True
        self._progress.give_up()
        self._asked_at = float("-inf")
        return False

    def end(self) -> None:
        """Take no further tranches, and release finished ones; unfinished ones are kept until `stop`."""
        self._is_over = True
        self._asked_at = float("-inf")
        self._progress.own(frozenset())

    def stop(self) -> None:
        """Release all tranches without active calls; others can take the rest when the lease is over."""
        self._thread.stop()
        self._progress.give_up()
        finished = self._list_finished()
        try:
            if self._progress.closing:
                self._leases.release(finished)
            else:
                self._leases.leave()
        except PenstockError as error:
            _log.warning("the leases could not be given back: %s", error.detail)

    def _list_finished(self) -> frozenset[str]:
        return self._progress.forget_finished() | self._progress.filter_unopened(self._leaving)

    def _renew(self, began: float) -> tuple[MemberTranches, float]:
        leases = self._leases
        return leases.hold() if self._is_over else leases.renew(self._progress.list_source_tranches()), began

    def _apply_renewal(self, renewal: tuple[MemberTranches, float]) -> None:
        held, self._renewed_at = renewal
        self._apply(held)

    def _apply(self, held: MemberTranches) -> None:
        self._failures = 0
        mine = frozenset[str]() if self._is_over else held.tranches
        self._leaving = held.leaving | (held.tranches - mine)
        self._progress.own(mine, held.coming)

    def _retry_later(self, error: BaseException) -> None:
        self._pause_until = self._clock() + PAUSE_SECONDS
        if isinstance(error, DatabaseUnsuitable) or not isinstance(error, PenstockError):
            raise error
        self._asked_at = float("-inf")
        self._failures += 1
        if not self._is_over and is_logged(self._failures):
            times = "" if self._failures == 1 else f" {self._failures} times in a row"
            _log.warning("leases could not be renewed%s: %s", times, error.detail)
