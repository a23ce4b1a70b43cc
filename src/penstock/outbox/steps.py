"""What is said to the database, in which order, on any kind of connection.

A plan hands out statements and is given their answers, so that the same lines serve sync and async connections.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

from penstock.errors import EventTypeNotFound
from penstock.outbox.adapters import Adapter, Parameters, Row, adapter_of, run_sync_of
from penstock.outbox.dialects import creation, statement
from penstock.outbox.entry import Entry, as_json, fill
from penstock.outbox.failures import explained

CHUNK_ROWS: Final = 5_000
CHUNK_CHARS: Final = 16 << 20
"""One statement takes at most so much, or one event: databases limit a parameter's size, and copy it more than once."""

Steps = Generator[tuple[str, Parameters | None], Row, None]
Plan = Callable[[Adapter], Steps]


def publishing(event_type: str, entries: Sequence[Entry]) -> Plan:
    """Plan to insert *entries*, once it is known that the event type exists and of which category it is."""

    def steps(adapter: Adapter) -> Steps:
        if adapter.may_have_read:
            yield statement(adapter.dialect, "lock"), None
        row = yield statement(adapter.dialect, "category"), {"event_type": event_type}
        if row is None:
            raise EventTypeNotFound(event_type=event_type)
        for chunk in _chunks(fill(entries, category=row[0])):
            yield statement(adapter.dialect, "insert"), {"event_type": event_type, "events": as_json(chunk)}

    return steps


def creating(adapter: Adapter) -> Steps:
    """Plan to create the outbox where it is missing."""
    for each in creation(adapter.dialect):
        yield each, None


def carry_out(connection: Any, plan: Plan) -> Any:
    """Do what *plan* says on *connection*; where that is async, return what has to be awaited for it.

    Raises:
        TypeError: *connection* is of no known kind.
        SchemaMissing, SnapshotOutdated: as the database's own errors are explained.
    """
    if run_sync := run_sync_of(connection):
        return run_sync(carry_out, plan)
    adapter = adapter_of(connection)
    return _walk_async(adapter, plan(adapter)) if adapter.is_async else _walk(adapter, plan(adapter))


def _walk(adapter: Adapter, steps: Steps) -> None:
    row: Row = None
    try:
        while True:
            step = steps.send(row)
            with explained():
                row = adapter.run(*step)
    except StopIteration:
        return


async def _walk_async(adapter: Adapter, steps: Steps) -> None:
    row: Row = None
    try:
        while True:
            step = steps.send(row)
            with explained():
                row = await adapter.run(*step)
    except StopIteration:
        return


def _chunks(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    start = chars = 0
    for end, entry in enumerate(entries):
        if end > start and (end - start == CHUNK_ROWS or chars + len(entry.data) > CHUNK_CHARS):
            yield entries[start:end]
            start, chars = end, 0
        chars += len(entry.data)
    if start < len(entries):
        yield entries[start:]
