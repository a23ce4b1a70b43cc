"""The publisher's side: checked against the event type, then one INSERT in the service's own transaction.

    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE orders SET state = 'placed' WHERE id = ?", (7,))
        penstock.outbox.publish(connection, "order.placed", {"order_id": 7})

The event is published if and only if the transaction commits; then the hub moves it into the log. Nothing here commits,
rolls back or begins, and no database library is imported that the service has not imported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.core.events.encoding import is_one_event
from penstock.outbox.dialects import sql
from penstock.outbox.entry import Say, check_entries
from penstock.outbox.steps import carry_out, creating, publishing

__all__ = ["create", "publish", "publish_many", "sql"]


def publish(
    connection: Any,
    event_type: str,
    event: Any,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    partition: int | None = None,
    allow_unknown_type: bool = False,
) -> Any:
    """Publish *event* with the transaction that is open on *connection*.

    Args:
        connection: a `sqlite3.Connection`; `psycopg.Connection` or `AsyncConnection`; `asyncpg.Connection`, from a pool
            too; SQLAlchemy's `Connection`, `Session`, `AsyncConnection` or `AsyncSession`; Django's `connection`.
            Where it is an async one, the call has to be awaited; else it returns None.
        event_type: its name; it has to exist, and to take the event as the hub would.
        event: a mapping, a dataclass, a msgspec Struct or a Pydantic model; a `penstock.DataChange` of one of these; or
            one JSON object as bytes or text, which is kept byte for byte. Where the event type's category is business
            or data, `metadata` gets an `eid` and an `occurred_at` unless it has them.
        key: takes the place of the event type's partition key fields.
        headers: the event's own headers.
        partition: obeyed only under the `user_defined` strategy.
        allow_unknown_type: insert the event even if there is no such event type, when nothing can be held against a
            schema: for a service that is deployed before its event types. The hub rejects the event if there is still
            none when it comes to it.

    Raises:
        InvalidEvent, EventTooLarge, PartitionRefused: the hub would refuse the event; nothing was inserted.
        EventTypeNotFound: nothing was inserted.
        SchemaMissing: the outbox, or the hub's tables, are not in this database, or are those of an older Penstock.
        SnapshotOutdated: SQLite cannot let this transaction write, because it began as a read.
        Unavailable: the event type was changed again and again meanwhile; nothing was inserted.
        TypeError: *connection*, *event*, or what accompanies it, is of no type that is known here.
    """
    _check_name(event_type)
    return _publish(connection, event_type, [event], key, headers, partition, allow_unknown_type=allow_unknown_type)


def publish_many(
    connection: Any,
    event_type: str,
    events: Iterable[Any],
    *,
    key: str | Callable[[Any], str | None] | None = None,
    headers: Mapping[str, str] | Callable[[Any], Mapping[str, str] | None] | None = None,
    partition: int | Callable[[Any], int | None] | None = None,
    allow_unknown_type: bool = False,
) -> Any:
    """Publish *events*, in their order, with the transaction that is open on *connection*.

    All of them are checked before the first one is inserted, so they are all held in memory. They go in by statements
    of up to 5000 events. *key*, *headers* and *partition* hold for all events, or are functions that tell them of each.
    *allow_unknown_type* as in `publish`.

    Raises:
        InvalidEvent, EventTooLarge, PartitionRefused: nothing was inserted; field `index` is the guilty event's,
            counted from 0.
        EventTypeNotFound, SchemaMissing, SnapshotOutdated, Unavailable: as `publish`.
        TypeError: as `publish`, and where *events* is one event.
    """
    _check_name(event_type)
    if is_one_event(events):
        raise TypeError("publish_many takes an iterable of events, and this is one event: use publish, or give a list")
    return _publish(
        connection, event_type, list(events), key, headers, partition, allow_unknown_type=allow_unknown_type
    )


def create(connection: Any) -> Any:
    """Create the outbox where it is missing, with the transaction that is open on *connection*, if one is.

    The hub's migrations do so too: this is for a service that starts before its hub. Where the connection is an async
    one, the call has to be awaited.

    Raises:
        TypeError: *connection* is of no kind that is known here.
    """
    return carry_out(connection, creating)


def _publish(connection: Any, event_type: str, events: Sequence[Any], *says: Any, allow_unknown_type: bool) -> Any:
    entries = check_entries(events, *map(_say, says))
    return carry_out(connection, publishing(event_type, entries, allow_unknown_type=allow_unknown_type))


def _check_name(event_type: Any) -> None:
    if not isinstance(event_type, str):
        raise TypeError(f"an event type is named by a string, not {event_type!r}")


def _say(value: Any) -> Say:
    return value if callable(value) else lambda _event: value
