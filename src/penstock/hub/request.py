"""One publish on its way into the log, from whoever hands it in to the committer."""

import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeAlias

from penstock.errors import DeadlinePassed, PenstockError
from penstock.hub.append import Published
from penstock.hub.publish import NOTHING, Handed, Prepared, Unfit
from penstock.hub.staged import Piece
from penstock.hub.stamped import Stamped
from penstock.storage.producers import ProducerKey

Told: TypeAlias = Published | PenstockError | None
"""What a publisher is told: what was stored, or why nothing was; None where there was nothing to store."""


class Request:
    """One publish on its way into the log; without events it only moves the outbox of its event type."""

    def __init__(
        self,
        name: str,
        handed: Handed = NOTHING,
        ready: Prepared | Unfit | None = None,
        *,
        direct: bool = False,
        stamped: Stamped | None = None,
        piece: Piece | None = None,
    ) -> None:
        """Make a request; a *direct* one comes from a caller who may hold the database in a transaction of its own.

        Only one that is exact can be unfit to be appended: it may be there. A *piece* is one of a staged batch.
        """
        self.name = name
        self.handed = handed
        self.ready = ready
        self.direct = direct
        self.stamped = stamped
        self.piece = piece
        self.moves_to: int | None = None
        """The last row that the outbox of its event type had when it was put off, None before: it waits for that."""
        self.moves_until = 0.0
        """How long it waits for that at most."""
        self.moved = False
        """Whether all that was in the outbox before it is in the log."""
        self.future: Future[Published | None] = Future()

    @property
    def is_exact(self) -> bool:
        """Whether it is known if it was appended before."""
        return self.stamped is not None or self.piece is not None

    @property
    def producer_key(self) -> ProducerKey | None:
        """Which producer it is of, where it says that."""
        if self.stamped is None:
            return None
        assert self.ready is not None
        return self.ready.feed.partition_ids[self.stamped.who.partition], self.stamped.who.group

    def take_up(self) -> bool:
        """Tell whether it is to be carried out: not where its publisher has given up, or was told something already."""
        if self.future.done():
            return False
        deadline = self.stamped.deadline if self.stamped else None
        if deadline is not None and time.monotonic() > deadline:
            self.fail(DeadlinePassed(retry_after=1))
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def tell(self, told: Told) -> None:
        """Tell the publisher what was stored, or why nothing was."""
        if isinstance(told, PenstockError):
            self.fail(told)
            return
        with suppress(InvalidStateError):  # It was told already that nobody could wait for it any longer.
            self.future.set_result(told)

    def fail(self, error: BaseException) -> None:
        """Tell the publisher that nothing of it was stored, or what else *error* says."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)
