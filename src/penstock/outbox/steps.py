"""The statements of the outbox, in order, for sync and async connections.

A plan is a generator that yields statements and receives their rows, so both kinds of connections share one source.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

from penstock.core.events.event import NewEvent
from penstock.errors import EventTypeNotFound, PenstockError, Unavailable
from penstock.outbox.adapters import Adapter, ResultRow, SqlParameters, make_adapter, run_sync_of
from penstock.outbox.dialects import creation_statements, statement
from penstock.outbox.entry import OutboxEntries, prepare_rows, to_json, to_row
from penstock.outbox.event_types import UNKNOWN, CachedEventType, recall, remember
from penstock.outbox.failures import explain

CHUNK_ROWS: Final = 5_000
CHUNK_CHARS: Final = 16 << 20
"""Upper bound of the events in one statement, unless it is a single one: databases limit and copy parameters."""
CHANGES_MAX: Final = 10
"""How many times events are checked again because their event type has changed."""

SqlStep = tuple[str, SqlParameters | None]
Steps = Generator[SqlStep, ResultRow, None]
OutboxPlan = Callable[[Adapter], Steps]


def plan_publish(event_type: str, entries: OutboxEntries, *, allow_unknown_type: bool) -> OutboxPlan:
    """Return the plan that checks *entries* against the event type and inserts them."""
    return _PublishPlan(event_type, entries, allow_unknown_type=allow_unknown_type).steps


class _PublishPlan:
    """Inserts events on the condition that their event type has not changed since they were checked."""

    def __init__(self, event_type: str, entries: OutboxEntries, *, allow_unknown_type: bool) -> None:
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
                rows = prepare_rows(known, self._entries)
            except PenstockError:
                if is_current:
                    raise
            else:
                if (yield from self._insert(adapter, known, rows)):
                    return
            known, is_current = (yield from self._look(adapter, known)), True
        raise Unavailable(reason=f"the event type {self._event_type!r} keeps changing", retry_after=1)

    def _look(self, adapter: Adapter, known: CachedEventType | None) -> Generator[SqlStep, ResultRow, CachedEventType]:
        """Return the current event type, as the caller's transaction sees it."""
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

    def _insert(
        self, adapter: Adapter, known: CachedEventType, events: Sequence[NewEvent]
    ) -> Generator[SqlStep, ResultRow, bool]:
        """Insert *events*; insert none and return False if the event type is not as *known*."""
        condition: dict[str, str | int | None] = {"event_type": self._event_type, "fingerprint": known.fingerprint}
        if len(events) == 1:
            return (yield statement(adapter.dialect, "insert_one"), condition | to_row(events[0])) == (1,)
        for number, chunk in enumerate(_chunks(events)):
            given: SqlParameters = {**condition, "events": to_json(chunk), "continues": number > 0}
            if (yield statement(adapter.dialect, "insert"), given) == (0,):
                return False
        return True


def plan_create(adapter: Adapter) -> Steps:
    """Return the plan that creates the outbox if it is missing."""
    for each in creation_statements(adapter.dialect):
        yield each, None


def run_plan(connection: Any, plan: OutboxPlan) -> Any:
    """Run *plan* on *connection*; return an awaitable if the connection is async.

    Raises:
        TypeError: *connection* is of an unsupported type.
        DatabaseUnsuitable, SnapshotOutdated: the explanation of an error of the database.
    """
    if run_sync := run_sync_of(connection):
        return run_sync(run_plan, plan)
    adapter = make_adapter(connection)
    return _run_steps_async(adapter, plan(adapter)) if adapter.is_async else _run_steps(adapter, plan(adapter))


def _run_steps(adapter: Adapter, steps: Steps) -> None:
    row: ResultRow = None
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


async def _run_steps_async(adapter: Adapter, steps: Steps) -> None:
    row: ResultRow = None
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
