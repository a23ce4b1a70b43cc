"""Rejected rows of the outbox: an operator puts them back or deletes them, which the audit log records."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from penstock.core.access import Sender
from penstock.errors import RecordNotFound
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.storage.log.outbox import RejectedRow
from penstock.storage.store import Store, Tx

IDS_SHOWN_MAX: Final = 1_000
"""Maximum number of rows of one change that the audit log names."""
_ANY: Final = "*"
"""The resource of a change of rows that were not chosen by their event type."""


class RejectedChoice(NamedTuple):
    """Which rejected rows are meant; both conditions have to hold."""

    ids: Sequence[int] | None = None
    """Rows by id, all of which must exist; None: any."""
    event_type: str | None = None
    """Rows of this event type; None: of any."""


class RejectedRows:
    """The rows of one store's outbox that could not be published."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def find(self, choice: RejectedChoice) -> Sequence[int]:
        """Return the ids of the chosen rows, sorted.

        Raises:
            RecordNotFound: one that is named is not there.
        """
        with self._store.read() as tx:
            return _find(tx, choice)

    def list(
        self, choice: RejectedChoice, limit: int, *, newest: bool = True, after: int | None = None
    ) -> Sequence[RejectedRow]:
        """Return the *limit* newest or oldest of the chosen rows, in that order.

        With *after* they are those behind the row of that id, which need not exist any more.
        """
        with self._store.read() as tx:
            return tx.outbox.list_rejected(
                limit, newest=newest, ids=choice.ids, event_type=choice.event_type, after=after
            )

    def retry(self, choice: RejectedChoice, by: Sender) -> int:
        """Put the chosen rows back into the outbox, in their order, and return how many there were.

        Raises:
            RecordNotFound: one that is named is not there; nothing was done.
        """
        with self._store.write() as tx:
            ids = _find(tx, choice)
            count = tx.outbox.retry_rejected(ids=ids) if ids else 0
            if count:
                before, after = (_describe(ids, count, state) for state in ("rejected", "waiting"))
                self._record(tx, choice, before, after, by)
        return count

    def delete(self, choice: RejectedChoice, by: Sender) -> int:
        """Delete the chosen rows for ever, and return how many there were.

        Raises:
            RecordNotFound: one that is named is not there; nothing was done.
        """
        with self._store.write() as tx:
            return self._delete(tx, _find(tx, choice), choice, by)

    def delete_found(self, ids: Sequence[int], choice: RejectedChoice, by: Sender) -> int:
        """Delete the rows that `find` has found for *choice*, as far as they are still there: see `delete`."""
        with self._store.write() as tx:
            return self._delete(tx, ids, choice, by)

    def _delete(self, tx: Tx, ids: Sequence[int], choice: RejectedChoice, by: Sender) -> int:
        count = tx.outbox.delete_rejected(ids=ids) if ids else 0
        if count:
            self._record(tx, choice, _describe(ids, count, "rejected"), None, by)
        return count

    def _record(
        self, tx: Tx, choice: RejectedChoice, before: dict[str, Any], after: dict[str, Any] | None, by: Sender
    ) -> None:
        change = AuditedChange("rejected_rows", choice.event_type or _ANY, before, after)
        record_change(tx, change, by, self._clock())


def _find(tx: Tx, choice: RejectedChoice) -> Sequence[int]:
    found = tx.outbox.find_rejected(ids=choice.ids, event_type=choice.event_type)
    if missing := sorted(set(choice.ids or ()).difference(found)):
        kind = f" of {choice.event_type}" if choice.event_type else ""
        which = f"row {missing[0]}" if len(missing) == 1 else f"rows {', '.join(map(str, missing))}"
        detail = f"there is no rejected {which}{kind}: nothing was done"
        raise RecordNotFound.of("rejected-row-not-found", detail, rows=missing)
    return found


def _describe(ids: Sequence[int], count: int, state: str) -> dict[str, Any]:
    return {"rows": count, "ids": ids[:IDS_SHOWN_MAX], "state": state}
