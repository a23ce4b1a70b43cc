"""Shares the tranches of a processor with others of its name: takes up those that it is given, and lets go in order."""

import logging
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

from penstock.core.group_leases import Held
from penstock.errors import BadParameter, DatabaseUnsuitable, PenstockError
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.hub import SubscriptionCheckpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.connecting import may_be_one
from penstock.processing.engine.rules import Rules
from penstock.processing.parameters import check_members, shown
from penstock.processing.progress import Progress
from penstock.processing.runners.inbox import Errands, Inbox
from penstock.processing.runners.observing import is_said

PAUSE_SECONDS: Final = 0.5
"""Between attempts of which the first has failed."""
_log: Final = logging.getLogger("penstock.processing")


class Leases(Protocol):
    """What says which tranches one of several processors has."""

    @property
    def name(self) -> str:
        """What the processors are called."""
        ...

    @property
    def lease_seconds(self) -> float:
        """So long a processor has its tranches without a sign of it."""
        ...

    def renew(self, tranches: Collection[str]) -> Held:
        """Say to be there; return what to have."""
        ...

    def hold(self) -> Held:
        """Say to be there still, and to want nothing more; return what one has."""
        ...

    def release(self, tranches: Collection[str]) -> Held:
        """Let go of tranches; return what is left."""
        ...

    def leave(self) -> None:
        """Let go of all."""
        ...


def check_leases(leases: Leases, checkpoints: Checkpoints, rules: Rules) -> None:
    """Raise BadParameter unless those who share *leases* also share *checkpoints*, as far as that can be told.

    Nor can they keep to all *rules*.
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
        raise BadParameter(parameter="leases", value=shown(databases[0]), allowed=allowed)


class Sharing:
    """Keeps leases, in a thread of its own, and the engine to what they say.

    A tranche that another waits for is handed out no more; when its calls have ended and what is done is committed, it
    is let go of. One whose lease could not be renewed in time is given up before it ends, as it stands. When the
    processor ends, it takes nothing more, and its leases are renewed for what is under way.

    Args:
        leases: What it has.
        progress: What is kept to that.
        inbox: Where the loop hears of it.
        clock: Seconds that never go back.
        is_timeless: Whether each call looks itself whether it has what it is about, in a transaction that keeps all
            others from taking it. Leases cannot be renewed beside it; that they are over means nothing then.
    """

    def __init__(
        self,
        leases: Leases,
        progress: Progress,
        inbox: Inbox,
        clock: Callable[[], float],
        *,
        is_timeless: bool = False,
    ) -> None:
        self._is_timeless = is_timeless
        self._leases = leases
        self._progress = progress
        self._clock = clock
        self._errands = Errands(inbox, "penstock-leases")
        self._renewed_at = self._asked_at = float("-inf")
        self._failures = 0
        self._pause_until = float("-inf")
        self._is_over = False
        """Whether the processor ends: what fails now needs no telling."""
        self._leaving: frozenset[str] = frozenset()
        """What this one has by its lease, and does not read, or not for long."""
        progress.own(frozenset())

    def start(self) -> None:
        """Begin."""
        self._errands.start()

    def look(self, now: float, *, is_committing: bool) -> bool:
        """Renew leases when it is time to, let go of what is done with, and give up what is not ours any more.

        Args:
            now: The time.
            is_committing: Whether a commit is under way, or a call that may commit: nothing is let go of that it may be
                about.

        Returns whether leases are over: nobody is to begin with what was handed out.
        """
        is_lapsed = self.give_up_what_lapsed(now)
        if self._errands.is_busy or now < self._pause_until or (self._is_timeless and is_committing):
            return is_lapsed
        if now - self._asked_at >= self._leases.lease_seconds / 4:
            self._asked_at = now
            self._errands.do(lambda: self._renew(now), self._renewed, self._failed)
        elif not is_committing and (done := self._done()):
            self._errands.do(lambda: self._leases.release(done), self._held, self._failed)
        return is_lapsed

    def give_up_what_lapsed(self, now: float) -> bool:
        """Have nothing more committed of what may be another's, since leases could not be renewed; tell whether so."""
        is_lapsed = not self._is_timeless and now - self._renewed_at > self._leases.lease_seconds * 0.8
        if is_lapsed:
            self._progress.own(frozenset())
            self._progress.give_up()
        return is_lapsed

    @property
    def holds_calls(self) -> bool:
        """Whether calls are to wait, since they would keep what is under way here from being done."""
        return self._is_timeless and self._errands.is_busy

    def hold(self, held: Held, tranches: Collection[str]) -> bool:
        """Take up what one has; tell whether *tranches* are among it. What is not is given up."""
        self._held(held)
        if held.tranches | held.leaving >= set(tranches):
            return True
        self._progress.give_up()
        self._asked_at = float("-inf")
        return False

    def end(self) -> None:
        """Take nothing more, and let go of what is done with; what is under way is kept until `stop`."""
        self._is_over = True
        self._asked_at = float("-inf")
        self._progress.own(frozenset())

    def stop(self) -> None:
        """Let go of all of which nothing is under way; the rest is had by others when the lease is over."""
        self._errands.stop()
        self._progress.give_up()
        done = self._done()
        try:
            if self._progress.closing:
                self._leases.release(done)
            else:
                self._leases.leave()
        except PenstockError as error:
            _log.warning("the leases could not be given back: %s", error.detail)

    def _done(self) -> frozenset[str]:
        return self._progress.closed() | self._progress.unopened(self._leaving)

    def _renew(self, began: float) -> tuple[Held, float]:
        leases = self._leases
        return leases.hold() if self._is_over else leases.renew(self._progress.source_tranches()), began

    def _renewed(self, told: tuple[Held, float]) -> None:
        held, self._renewed_at = told
        self._held(held)

    def _held(self, held: Held) -> None:
        self._failures = 0
        mine = frozenset[str]() if self._is_over else held.tranches
        self._leaving = held.leaving | (held.tranches - mine)
        self._progress.own(mine, held.coming)

    def _failed(self, error: BaseException) -> None:
        self._pause_until = self._clock() + PAUSE_SECONDS
        if isinstance(error, DatabaseUnsuitable) or not isinstance(error, PenstockError):
            raise error
        self._asked_at = float("-inf")
        self._failures += 1
        if not self._is_over and is_said(self._failures):
            times = "" if self._failures == 1 else f" {self._failures} times in a row"
            _log.warning("leases could not be renewed%s: %s", times, error.detail)
