"""Moves outbox rows into the log, inside the committer's append transactions.

A row leaves the outbox in the same transaction in which its event enters the log
(docs/decisions/outbox-snapshots.md).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import EventTypeNotFound, PenstockError
from penstock.hub.background import Clock
from penstock.hub.log.publish import NewEvents, Prepared, parse_headers, prepare
from penstock.storage.log.outbox import OutboxRow
from penstock.storage.store import Tx

MOVE_ROWS: Final = 5_000
MOVE_BYTES: Final = 16 << 20
"""The limits of one transaction, which bound how long a service beside the hub waits for its locks."""


class RowsLeft(NamedTuple):
    """The rows of one event type that a transaction left in the outbox."""

    name: str
    moved_to: int
    """The id of the last row that was moved."""
    last: int
    """The id of the last row that waited."""


class MovedRows(NamedTuple):
    """The rows that one transaction takes out of the outbox."""

    batches: list[Prepared]
    left: RowsLeft | None
    """The rest, if the transaction has reached its limits."""
    row_ids: list[int]


NONE_MOVED: Final = MovedRows([], None, [])


class RowGoneError(Exception):
    """The row is no longer the first one waiting, because another hub has moved it."""


def take_rows(tx: Tx, names: Sequence[str], clock: Clock, rows_max: int = MOVE_ROWS) -> MovedRows:
    """Take up to *rows_max* rows of the event types *names*; record rows that cannot be published as rejected."""
    batches: list[Prepared] = []
    row_ids: list[int] = []
    bytes_max = MOVE_BYTES
    for name in sorted(tx.outbox.find_waiting(names)):
        taken = tx.outbox.take(name, max(1, rows_max), max(1, bytes_max))
        row_ids += [row.id for row in taken.rows]
        batches += _prepare_rows(tx, name, taken.rows, clock())
        if taken.more:
            return MovedRows(batches, RowsLeft(name, row_ids[-1], taken.last), row_ids)
        rows_max -= len(taken.rows)
        bytes_max -= sum(len(row.data) for row in taken.rows)
    return MovedRows(batches, None, row_ids)


def reject_row(tx: Tx, name: str, row_id: int, reason: str, clock: Clock) -> None:
    """Record the row *row_id*, the first waiting row of *name*, as rejected, because the log refused it.

    Raises:
        RowGoneError: it is no longer the first; the transaction has to be rolled back.
    """
    rows = tx.outbox.take(name, 1, 1).rows
    if [row.id for row in rows] != [row_id]:
        raise RowGoneError
    tx.outbox.reject([(rows[0], reason)], clock())


def _prepare_rows(tx: Tx, name: str, rows: Sequence[OutboxRow], now: int) -> list[Prepared]:
    feed = tx.registry.find(name)
    if feed is None:
        reason = str(EventTypeNotFound(event_type=name))
        tx.outbox.reject([(row, reason) for row in rows], now)
        return []
    try:
        return [_prepare(feed, rows, now)] if rows else []
    except Exception:  # noqa: BLE001 - any program may have inserted anything: each row is prepared alone
        return _prepare_each_row(tx, feed, rows, now)


def _prepare_each_row(tx: Tx, feed: StoredFeed, rows: Sequence[OutboxRow], now: int) -> list[Prepared]:
    batches: list[Prepared] = []
    rejected: list[tuple[OutboxRow, str]] = []
    for row in rows:
        try:
            batches.append(_prepare(feed, [row], now))
        except Exception as error:  # noqa: BLE001 - it is recorded with its row
            rejected.append((row, _reason(error)))
    tx.outbox.reject(rejected, now)
    return batches


def _prepare(feed: StoredFeed, rows: Sequence[OutboxRow], now: int) -> Prepared:
    events = [
        NewEvent(
            msgspec.Raw(row.data.encode(errors="surrogateescape")), row.key, parse_headers(row.headers), row.partition
        )
        for row in rows
    ]
    return prepare(feed, NewEvents(events), now)


def _reason(error: Exception) -> str:
    if isinstance(error, PenstockError):
        return error.fields.get("reason") or error.detail
    return f"{type(error).__name__}: {error}"
