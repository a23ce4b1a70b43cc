"""Rejected rows of the outbox: an operator puts them back or deletes them, which the audit log records."""

from collections.abc import Sequence
from typing import Any, Final

from penstock.core.access import Sender
from penstock.hub.changes import AuditedChange, record_change
from penstock.storage.store import Tx

IDS_SHOWN_MAX: Final = 1_000
"""Maximum number of rows of one change that the audit log names."""
_ANY: Final = "*"
"""The resource of a change of rows that were not chosen by their event type."""


def retry_rejected(tx: Tx, ids: Sequence[int], event_type: str | None, by: Sender, now: int) -> int:
    """Put rejected rows back into the outbox, in their order, and return how many there were.

    *event_type* is the one by which they were chosen, None if they were chosen otherwise.
    """
    count = tx.outbox.retry_rejected(ids=ids) if ids else 0
    if count:
        before, after = (_describe(ids, count, state) for state in ("rejected", "waiting"))
        record_change(tx, AuditedChange("rejected_rows", event_type or _ANY, before, after), by, now)
    return count


def delete_rejected(tx: Tx, ids: Sequence[int], event_type: str | None, by: Sender, now: int) -> int:
    """Delete rejected rows, and return how many there were: see `retry_rejected`."""
    count = tx.outbox.delete_rejected(ids=ids) if ids else 0
    if count:
        before = _describe(ids, count, "rejected")
        record_change(tx, AuditedChange("rejected_rows", event_type or _ANY, before, None), by, now)
    return count


def _describe(ids: Sequence[int], count: int, state: str) -> dict[str, Any]:
    return {"rows": count, "ids": ids[:IDS_SHOWN_MAX], "state": state}
