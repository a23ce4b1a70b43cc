"""The mover: takes what services have committed to their outbox and makes it ready for the log.

It runs inside the committer's append transactions, so a row leaves the outbox in the very transaction in which its
event enters the log.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from penstock.core.event import NewEvent
from penstock.core.event_type import Feed
from penstock.errors import EventTypeNotFound, PenstockError
from penstock.hub.clock import Clock
from penstock.hub.publish import Prepared, parse_headers, prepare
from penstock.storage.store import OutboxRow, Tx

MOVE_ROWS: Final = 5_000
"""The most that one transaction moves: a service beside the hub does not wait longer than that takes."""


class Moved(NamedTuple):
    """What one transaction takes out of the outbox."""

    batches: list[Prepared]
    full: bool
    """It has taken as much as it may; more may wait."""


def take(tx: Tx, names: Sequence[str], clock: Clock, limit: int = MOVE_ROWS) -> Moved:
    """Take up to *limit* waiting rows of the event types *names*; what cannot be published is recorded as rejected."""
    batches: list[Prepared] = []
    for name in sorted(tx.outbox.waiting(names)):
        rows = tx.outbox.take(name, limit)
        batches += _ready(tx, name, rows, clock())
        limit -= len(rows)
        if limit <= 0:
            return Moved(batches, full=True)
    return Moved(batches, full=False)


def reject_first(tx: Tx, name: str, reason: str, clock: Clock) -> None:
    """Record the first waiting row of *name* as rejected: the log would not take it."""
    tx.outbox.reject([(row, reason) for row in tx.outbox.take(name, 1)], clock())


def _ready(tx: Tx, name: str, rows: Sequence[OutboxRow], now: int) -> list[Prepared]:
    feed = tx.feeds.find(name)
    if feed is None:
        reason = str(EventTypeNotFound(event_type=name))
        tx.outbox.reject([(row, reason) for row in rows], now)
        return []
    try:
        return [_prepared(feed, rows, now)] if rows else []
    except PenstockError:
        return _ready_alone(tx, feed, rows, now)


def _ready_alone(tx: Tx, feed: Feed, rows: Sequence[OutboxRow], now: int) -> list[Prepared]:
    batches: list[Prepared] = []
    rejected: list[tuple[OutboxRow, str]] = []
    for row in rows:
        try:
            batches.append(_prepared(feed, [row], now))
        except PenstockError as error:
            rejected.append((row, error.fields.get("reason") or error.detail))
    tx.outbox.reject(rejected, now)
    return batches


def _prepared(feed: Feed, rows: Sequence[OutboxRow], now: int) -> Prepared:
    events = [
        NewEvent(msgspec.Raw(row.data.encode()), row.key, parse_headers(row.headers), row.partition) for row in rows
    ]
    return prepare(feed, events, now)
