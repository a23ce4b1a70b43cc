"""Whether a stream may go on, and may still be sent what was read for it; asked from any thread.

Invariants:
    Once the hub's lease was over, others may have had the stream's partitions: nothing is certain until the database
    has said, after whoever shared them out meanwhile, that the stream is still there. It is not if it has lost any.
"""

from collections.abc import Callable

from penstock.errors import Blocked, DatabaseUnavailable, SubscriptionNotFound
from penstock.hub.look import Look
from penstock.hub.reasons import BLOCKED, DELETED, GIVEN_BACK, STOPPING, TIME_OVER
from penstock.hub.sessions import Opened
from penstock.hub.stream_parts import Parts


class Tenure:
    """One stream's right to its partitions."""

    def __init__(
        self, parts: Parts, opened: Opened, lapses: int, allowed: Callable[[], None], extended: Callable[[], None]
    ) -> None:
        """Begin with what was *opened*.

        *lapses* are those of the lease that were known before that: of later ones it has to hear. *allowed* raises once
        the consumer may no longer read; *extended* is called when `interrupted` finds that its lease was extended.
        """
        self._parts = parts
        self._allowed = allowed
        self._extended = extended
        self._subscription_id = opened.subscription.id
        self._session_id = opened.session.id
        self._lapses = lapses
        self._extensions = opened.session.extensions
        self._places = frozenset(slot.place for slot in opened.slots)
        """All partitions of the subscription."""

    @property
    def certain(self) -> bool:
        """Whether what was read may be sent: the lease holds, and has since it was known what is the stream's own."""
        return self._parts.live.holds and self._parts.live.lapses == self._lapses

    def stopping(self) -> bool:
        """Tell whether the hub is stopping.

        Raises:
            Blocked: the consumer may no longer read.
        """
        self._allowed()
        return self._parts.watch.draining

    def look(self) -> tuple[Look, str | None]:
        """Look what the stream has, and why it ends, if it does; it is certain for as long as this lease holds.

        Raises:
            SubscriptionNotFound: there is none any more.
            DatabaseUnavailable: it could not be asked.
        """
        look, lapses = self._looked()
        self._hear(look)
        reason = self._ends(look, lapses)
        self._lapses = lapses
        return look, reason

    def _looked(self) -> tuple[Look, int]:
        lapses = self._parts.live.lapses
        settled = lapses != self._lapses
        return self._parts.sessions.look(self._subscription_id, settled=settled), lapses

    def interrupted(self, *, stale: bool) -> str | None:
        """Tell why a stream is to end in the midst of a step; None: it goes on, and is certain once the lease holds.

        *stale*: something has changed since it has looked.
        """
        try:
            if self.stopping():
                return STOPPING
            if not stale and self._parts.live.lapses == self._lapses:
                return None
            look, lapses = self._looked()
            if self._hear(look):
                self._extended()
            reason = self._ends(look, lapses)
            if reason is None:
                self._lapses = lapses
            return reason
        except Blocked:
            return BLOCKED
        except SubscriptionNotFound:
            return DELETED
        except DatabaseUnavailable:
            return None

    def _ends(self, look: Look, lapses: int) -> str | None:
        reason = look.ends(self._session_id, self._places)
        return TIME_OVER if reason == GIVEN_BACK and lapses != self._lapses else reason

    def _hear(self, look: Look) -> bool:
        session = look.session(self._session_id)
        before = self._extensions
        self._extensions = before if session is None else session.extensions
        return self._extensions != before
