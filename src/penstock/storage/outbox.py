"""What the seam knows of the outbox: rows that wait to be moved into the log, and rows that could not be published."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class OutboxRow(NamedTuple):
    """What a service has committed to its outbox."""

    id: int
    event_type: str
    data: str
    key: str | None
    headers: str | None
    partition: int | None
    created_at: str


class RejectedRow(NamedTuple):
    """A row that could not be published, as it can be shown; what is no UTF-8 is written as escapes.

    It was in the outbox, or was a line of an upload.
    """

    id: int
    event_type: str
    data: str
    key: str | None
    headers: str | None
    partition: int | str | None
    """Text where a service has inserted no number, which SQLite lets it do."""
    created_at: str
    """When the service inserted it, or its batch was begun."""
    rejected_at: str
    reason: str


class Taken(NamedTuple):
    """What was taken out of the outbox, by id."""

    rows: Sequence[OutboxRow]
    last: int
    """The id of the last row that waited when they were taken; 0 when none did."""

    @property
    def more(self) -> bool:
        """Whether more waited than was taken."""
        return bool(self.rows) and self.rows[-1].id < self.last


class Outbox(Protocol):
    """What services have committed for the hub to move into the log."""

    def waiting(self, names: Iterable[str] | None) -> Sequence[str]:
        """Return which of these event types (None: any, even unknown ones) have rows that wait, cheaply."""

    def count(self, limit: int) -> int:
        """Return how many rows wait, or *limit* where there are more, cheaply."""

    def take(self, name: str, rows_max: int, bytes_max: int) -> Taken:
        """Remove the first rows of one event type by id and return them; no one else can move that type meanwhile.

        They end with the first that reaches *bytes_max*.
        """


class Rejected(Protocol):
    """Rows that could not be published: of the outbox, and lines of uploads.

    They are chosen by their *ids* and by *event_type*; what is None chooses any.
    """

    def add(self, rows: Sequence[tuple[OutboxRow, str]], at: int) -> None:
        """Record rows that cannot be published, each with its reason."""

    def count(self, limit: int) -> int:
        """Return how many there are, or *limit* where there are more, cheaply."""

    def find(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> Sequence[int]:
        """Return the ids of those that there are, sorted."""

    def list(
        self,
        limit: int,
        *,
        newest: bool = True,
        ids: Sequence[int] | None = None,
        event_type: str | None = None,
    ) -> Sequence[RejectedRow]:
        """Return the *limit* newest or oldest of them, in that order."""

    def retry(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Put rows back into the outbox, in the order of their ids and with what they hold; return how many.

        Needs a write transaction. The rows are as new there: they come after all that was committed before.
        """

    def delete(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Forget rows; return how many."""
