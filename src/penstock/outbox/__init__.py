"""The publisher's side of the outbox: check events against their event type, then insert them in one statement.

    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE orders SET state = 'placed' WHERE id = ?", (7,))
        penstock.outbox.publish(connection, "order.placed", {"order_id": 7})

The event is published if and only if the transaction commits; the hub then moves it into the log. This package never
begins, commits or rolls back a transaction, and it imports only those database libraries that the service has imported.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, overload

from penstock.core.events.encoding import is_one_event
from penstock.outbox.dialects import sql
from penstock.outbox.entry import Accessor, check_entries
from penstock.outbox.steps import plan_create, plan_publish, run_plan

__all__ = ["create", "publish", "publish_many", "sql"]


class AsyncConnection(Protocol):
    """A connection whose statements are awaited: psycopg's, asyncpg's or SQLAlchemy's async ones."""

    def execute(self, *arguments: Any, **options: Any) -> Awaitable[Any]:
        """Run a statement."""


@overload
def publish(
    connection: AsyncConnection,
    event_type: str,
    event: Any,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    partition: int | None = None,
    allow_unknown_type: bool = False,
) -> Awaitable[None]: ...


@overload
def publish(
    connection: object,
    event_type: str,
    event: Any,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    partition: int | None = None,
    allow_unknown_type: bool = False,
) -> None: ...


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
        connection: a `sqlite3.Connection`; `psycopg.Connection` or `AsyncConnection`; `asyncpg.Connection`, also of a
            pool; SQLAlchemy's `Connection`, `Session`, `AsyncConnection` or `AsyncSession`; Django's `connection`. With
            an async connection, await the call; otherwise it returns None.
        event_type: the name of the event type. It has to exist, and to accept the event as the hub would.
        event: a mapping, a dataclass, a msgspec Struct or a Pydantic model; a `penstock.DataChange` of one of these; or
            one JSON object as bytes or text, which is kept byte for byte. If the event type's category is business or
            data, missing members `eid` and `occurred_at` of `metadata` are filled in.
        key: replaces the event type's partition key fields.
        headers: the event's own headers.
        partition: used only with the `user_defined` strategy.
        allow_unknown_type: insert the event even if the event type does not exist, without validation: for a service
            that is deployed before its event types. The hub rejects the event if the event type is still missing when
            it processes the event.

    Raises:
        InvalidEvent, EventTooLarge: the hub would refuse the event; nothing was inserted.
        EventTypeNotFound: the event type does not exist; nothing was inserted.
        DatabaseUnsuitable: the tables of the outbox or the hub are missing here, or are those of an older Penstock.
        SnapshotOutdated: SQLite cannot let this transaction write, because it began as a read.
        Unavailable: the event type was changed repeatedly during the call; nothing was inserted.
        TypeError: *connection*, *event*, or a value that accompanies it, has an unsupported type.
    """
    _check_name(event_type)
    return _publish(connection, event_type, [event], key, headers, partition, allow_unknown_type=allow_unknown_type)


@overload
def publish_many(  # type: ignore[overload-overlap]  # An async connection is an object, too.
    connection: AsyncConnection,
    event_type: str,
    events: Iterable[Any],
    *,
    key: str | Callable[[Any], str | None] | None = None,
    headers: Mapping[str, str] | Callable[[Any], Mapping[str, str] | None] | None = None,
    partition: int | Callable[[Any], int | None] | None = None,
    allow_unknown_type: bool = False,
) -> Awaitable[None]: ...


@overload
def publish_many(
    connection: object,
    event_type: str,
    events: Iterable[Any],
    *,
    key: str | Callable[[Any], str | None] | None = None,
    headers: Mapping[str, str] | Callable[[Any], Mapping[str, str] | None] | None = None,
    partition: int | Callable[[Any], int | None] | None = None,
    allow_unknown_type: bool = False,
) -> None: ...


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

    All events are checked before the first one is inserted, so all of them are in memory. They are inserted by
    statements of up to 5000 events. *key*, *headers* and *partition* apply to all events, or are functions that return
    the value for each event. *allow_unknown_type* as in `publish`.

    Raises:
        InvalidEvent, EventTooLarge: nothing was inserted; field `index` is the position of the
            refused event, counted from 0.
        EventTypeNotFound, DatabaseUnsuitable, SnapshotOutdated, Unavailable: as `publish`.
        TypeError: as `publish`, and if *events* is a single event.
    """
    _check_name(event_type)
    if is_one_event(events):
        raise TypeError("publish_many takes an iterable of events, and this is one event: use publish, or give a list")
    return _publish(
        connection, event_type, list(events), key, headers, partition, allow_unknown_type=allow_unknown_type
    )


@overload
def create(connection: AsyncConnection) -> Awaitable[None]: ...  # type: ignore[overload-overlap]  # Likewise.


@overload
def create(connection: object) -> None: ...


def create(connection: Any) -> Any:
    """Create the outbox if it is missing, with the transaction that is open on *connection*, if any.

    The hub's migrations create it too: this is for a service that starts before its hub. With an async connection,
    await the call.

    Raises:
        TypeError: *connection* has an unsupported type.
    """
    return run_plan(connection, plan_create)


def _publish(connection: Any, event_type: str, events: Sequence[Any], *says: Any, allow_unknown_type: bool) -> Any:
    entries = check_entries(events, *map(_as_accessor, says))
    return run_plan(connection, plan_publish(event_type, entries, allow_unknown_type=allow_unknown_type))


def _check_name(event_type: Any) -> None:
    if not isinstance(event_type, str):
        raise TypeError(f"an event type is named by a string, not {event_type!r}")


def _as_accessor(value: Any) -> Accessor:
    return value if callable(value) else lambda _event: value
