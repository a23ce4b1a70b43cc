"""What is said to the database, in which order, on any kind of connection.

A plan hands out statements and is given their answers, so that the same lines serve sync and async connections.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

from penstock.core.events.event import NewEvent
from penstock.errors import EventTypeNotFound, PenstockError, Unavailable
from penstock.outbox.adapters import Adapter, Parameters, Row, adapter_of, run_sync_of
from penstock.outbox.dialects import creation, statement
from penstock.outbox.entry import Entries, as_json, as_row, ready
from penstock.outbox.event_types import UNKNOWN, Known, recall, remember
from penstock.outbox.failures import explain

CHUNK_ROWS: Final = 5_000
CHUNK_CHARS: Final = 16 << 20
"""One statement takes at most so much, or one event: databases limit a parameter's size, and copy it more than once."""
CHANGES_MAX: Final = 10
"""So many times events are checked again because their event type was changed meanwhile."""

Step = tuple[str, Parameters | None]
Steps = Generator[Step, Row, None]
Plan = Callable[[Adapter], Steps]


def publishing(event_type: str, entries: Entries, *, allow_unknown_type: bool) -> Plan:
    """Plan to insert *entries*, once it is known that the event type takes them."""
    return _Publishing(event_type, entries, allow_unknown_type=allow_unknown_type).steps


class _Publishing:
    """Inserts events on the condition that their event type is still the one that they were checked against."""

    def __init__(self, event_type: str, entries: Entries, *, allow_unknown_type: bool) -> None:
        self._event_type = event_type
        self._entries = entries
        self._allows_unknown_type = allow_unknown_type

    def steps(self, adapter: Adapter) -> Steps:
        known, is_current = recall(self._event_type), False
        # In SQLite an insert takes the write lock even if it inserts nothing, and may begin a transaction for it.
        if known is None or not self._entries.events or (adapter.dialect == "sqlite" and not adapter.may_have_read):
            if adapter.may_have_read:
                yield statement(adapter.dialect, "lock"), None
            known, is_current = (yield from self._look(adapter, known)), True
        for _ in range(CHANGES_MAX):
            try:
                rows = ready(known, self._entries)
            except PenstockError:
                if is_current:
                    raise
            else:
                if (yield from self._insert(adapter, known, rows)):
                    return
            known, is_current = (yield from self._look(adapter, known)), True
        raise Unavailable(reason=f"the event type {self._event_type!r} keeps changing", retry_after=1)

    def _look(self, adapter: Adapter, known: Known | None) -> Generator[Step, Row, Known]:
        """Return the event type as it is now, as the caller's transaction sees it."""
        given = {"event_type": self._event_type, "known": known and known.fingerprint}
        row = yield statement(adapter.dialect, "find"), given
        if row is None:
            if self._allows_unknown_type:
                return UNKNOWN
            raise EventTypeNotFound(event_type=self._event_type)
        fingerprint, definition, partition_count = row
        if known is not None and known.fingerprint == fingerprint:
            return known
        return remember(self._event_type, fingerprint, definition, partition_count)

    def _insert(self, adapter: Adapter, known: Known, events: Sequence[NewEvent]) -> Generator[Step, Row, bool]:
        """Insert *events*; return False, and insert none of them, if the event type is not as *known*."""
        condition: dict[str, str | int | None] = {"event_type": self._event_type, "fingerprint": known.fingerprint}
        if len(events) == 1:
            return (yield statement(adapter.dialect, "insert_one"), condition | as_row(events[0])) == (1,)
        for number, chunk in enumerate(_chunks(events)):
            given: Parameters = {**condition, "events": as_json(chunk), "goes_on": number > 0}
            if (yield statement(adapter.dialect, "insert"), given) == (0,):
                return False
        return True


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
            try:
                row = adapter.run(*step)
            except Exception as error:
                explain(error)
                raise
    except StopIteration:
        return


async def _walk_async(adapter: Adapter, steps: Steps) -> None:
    row: Row = None
    try:
        while True:
            step = steps.send(row)
            try:
                row = await adapter.run(*step)
            except Exception as error:
                explain(error)
                raise
    except StopIteration:
        return


def _chunks(entries: Sequence[NewEvent]) -> Iterator[Sequence[NewEvent]]:
    start = chars = 0
    for end, entry in enumerate(entries):
        if end > start and (end - start == CHUNK_ROWS or chars + len(entry.data) > CHUNK_CHARS):
            yield entries[start:end]
            start, chars = end, 0
        chars += len(entry.data)
    if start < len(entries):
        yield entries[start:]
