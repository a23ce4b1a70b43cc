"""Port of the outbox: rows that wait to be moved into the log, and rows that were rejected."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.storage.log.events import PartitionHead


class OutboxRow(NamedTuple):
    """Row that a service has committed to its outbox."""

    id: int
    event_type: str
    data: str
    key: str | None
    headers: str | None
    partition: int | None
    created_at: str


class RejectedRow(NamedTuple):
    """Row that could not be published, as text; bytes that are not UTF-8 are written as escapes.

    It comes from the outbox, or from a line of an upload.
    """

    id: int
    event_type: str
    data: str
    key: str | None
    headers: str | None
    partition: int | str | None
    """Text if a service has inserted no number, which SQLite allows."""
    created_at: str
    """When the service inserted the row, or when its batch began."""
    rejected_at: str
    reason: str


class TakenRows(NamedTuple):
    """Rows that a transaction has taken out of the outbox, by id."""

    rows: Sequence[OutboxRow]
    last: int
    """Id of the last row that waited at that time; 0 if none did."""

    @property
    def more(self) -> bool:
        """True if more rows waited than were taken."""
        return bool(self.rows) and self.rows[-1].id < self.last


class OutboxCount(NamedTuple):
    """Number of rows that wait in the outbox, and of rows that were rejected."""

    waiting: int
    rejected: int
    since: int | None
    """Time at which the oldest waiting row was inserted, in microseconds since 1970; None: none waits, or that is not
    known."""


class OutboxRepository(Protocol):
    """Rows that services have committed for the hub to move into the log, and rejected rows.

    Rejected rows are selected by *ids* and by *event_type*; None selects all.
    """

    def find_waiting(self, names: Iterable[str] | None) -> Sequence[str]:
        """Return which of these event types (None: all, even unknown ones) have waiting rows, cheaply."""

    def find_waiting_and_heads(
        self, names: Iterable[str] | None, partition_ids: Sequence[int]
    ) -> tuple[Sequence[str], dict[int, PartitionHead] | None]:
        """Return what `find_waiting` does and, if it costs no more, what `LogRepository.find_heads` does after it."""

    def take(self, name: str, rows_max: int, bytes_max: int) -> TakenRows:
        """Remove the first rows of one event type by id and return them.

        The rows end with the first one that reaches *bytes_max*. No other transaction can take rows of that event
        type until this one ends.
        """

    def count(self, limit: int) -> OutboxCount:
        """Return how many rows wait and how many were rejected, each at most *limit*, cheaply."""

    def reject(self, rows: Sequence[tuple[OutboxRow, str]], at: int) -> None:
        """Record rows that cannot be published, each with its reason."""

    def find_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> Sequence[int]:
        """Return the ids of rejected rows, sorted."""

    def list_rejected(
        self,
        limit: int,
        *,
        newest: bool = True,
        ids: Sequence[int] | None = None,
        event_type: str | None = None,
        after: int | None = None,
    ) -> Sequence[RejectedRow]:
        """Return the *limit* newest or oldest rejected rows, in that order; behind the row *after*, if given."""

    def retry_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Put rejected rows back into the outbox, in the order of their ids, and return how many.

        Needs a write transaction. The rows count as new: they follow all rows that were committed before.
        """

    def delete_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Delete rejected rows and return how many."""

    def expire_rejected(self, before: int, rows: int) -> int:
        """Delete some of the oldest *rows* rejected rows, those that were rejected before *before*; return how many."""


def select_rejected(ids: Sequence[int] | None, event_type: str | None) -> dict[str, Any]:
    """Return the parameters of statements that select rejected rows as `rejected_find` does."""
    return {"ids": None if ids is None else msgspec.json.encode(list(ids)).decode(), "event_type": event_type}
