"""Drops repeats: remembers, beside the consumer's state, which events it has seen.

Guideline "Prepare for duplicate Events": publishers and consumers without an answer try again, so an event can be in
a feed twice, and a page can come twice. The event's `eid` identifies repeats.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from penstock.errors import BadParameter, EventUnusable
from penstock.processing.database import AsyncDatabase, Clock, Database, Plan, Step, system_clock
from penstock.processing.event import find_partition, normalize_eid, read_eid, to_origin
from penstock.processing.parameters import check_count, check_function, check_name, check_seconds

__all__ = ["AsyncDuplicates", "Duplicates"]

E = TypeVar("E")

TABLE: Final = "penstock_seen"
WINDOW_EVENTS: Final = 100_000
_CREATE: Final = "seen_create"
_BEGINNING: Final = -(2**63)
"""The earliest time that a database can store."""


class _Memory:
    """The events of one feed that one consumer has seen, as plans."""

    def __init__(
        self,
        event_type: str | Mapping[str, Any],
        consumer: str,
        window_events: int | None,
        window_seconds: float | None,
        clock: Clock,
    ) -> None:
        source = to_origin(event_type)
        if source.category not in (None, "business", "data"):
            reason = "its events have no id by which a repeat could be told"
            raise EventUnusable.of(
                "wrong-category",
                event_type=source.name,
                category=source.category,
                wanted="business or data",
                reason=reason,
            )
        check_name("consumer", consumer)
        check_function("clock", clock)
        _check_window(window_events, window_seconds)
        self._feed = source.name
        self._reader = {"feed": source.name, "consumer": consumer}
        self._window_events = window_events
        self._window_seconds = window_seconds
        self._clock = clock

    def fresh(self, events: Iterable[E]) -> Plan[list[E]]:
        first: dict[str, E] = {}
        eids: dict[int, list[str]] = {}
        for index, event in enumerate(events):
            eid = read_eid(event, index, self._feed)
            if eid not in first:
                first[eid] = event
                eids.setdefault(find_partition(event), []).append(eid)
        if not first:
            return []
        now = self._clock()
        if self._window_seconds is not None:  # A quiet partition may still hold events older than the window.
            listed = msgspec.json.encode(sorted(first)).decode()
            yield Step("seen_drop_expired", {**self._reader, "eids": listed, "since": self._since(now)})
        batch = msgspec.json.encode(sorted(eids.items())).decode()
        rows = yield Step("seen_add", {**self._reader, "batch": batch, "now": now}, finds=True)
        partitions = [{**self._reader, "partition": partition} for partition in sorted(eids)]
        if self._window_events is not None:
            limits = [{**each, "events": self._window_events} for each in partitions]
            yield Step("seen_drop_beyond", limits)
        if self._window_seconds is not None:
            yield Step("seen_drop_before", [{**each, "since": self._since(now)} for each in partitions])
        if len(rows) == len(first):
            return list(first.values())
        added = {eid for (eid,) in rows}
        return [event for eid, event in first.items() if eid in added]

    def seen(self, eids: Iterable[str]) -> Plan[set[str]]:
        asked = sorted({normalize_eid(eid) for eid in eids})
        if not asked:
            return set()
        listed = msgspec.json.encode(asked).decode()
        sought = {"consumer": self._reader["consumer"], "eids": listed, "since": self._since(self._clock())}
        rows = yield Step("seen_find", sought, finds=True)
        return {eid for (eid,) in rows}

    def forget(self) -> Plan[None]:
        yield Step("seen_forget", self._reader)

    def _since(self, now: int) -> int:
        """Return the first time in the window."""
        if self._window_seconds is None:
            return _BEGINNING
        return max(_BEGINNING, now - round(self._window_seconds * 1_000_000))


class Duplicates:
    """Returns the events that a consumer has not seen yet, and records them in the consumer's own transaction.

    The record is part of the transaction: after a rollback, or if the consumer is killed, the events are fresh again.
    `Duplicates` never commits and never rolls back, and works with any row and text factories of the connection.

    An event is known until *window_events* later events of its partition were seen, perhaps longer. With
    *window_seconds* it is known for at most that time after it was first seen, even in a quiet partition. A repeat of
    an unknown event is fresh, and has its effect once more. Repeats are recognised in any partition of the feed.
    Several workers can share a consumer's name.

    Args:
        connection: The consumer's `sqlite3` or `psycopg` connection.
        event_type: The event type's definition, as `Client.event_type` gives it. Or its name, or that of
            another server's feed; then the first event without an id is refused, rather than the event type.
        consumer: The consumer's name.
        window_events: Events of one partition; None: any number.
        window_seconds: Seconds, by *clock*; None: any number.
        table: The table's name.
        clock: Returns the time in microseconds since 1970, UTC.

    Raises:
        EventUnusable: the event type's category is undefined: its events have no `eid`.
        BadParameter: the window, the consumer's name or the table's name is invalid.
        TypeError: the connection is of another kind.
    """

    def __init__(
        self,
        connection: Any,
        event_type: str | Mapping[str, Any],
        consumer: str,
        *,
        window_events: int | None = WINDOW_EVENTS,
        window_seconds: float | None = None,
        table: str = TABLE,
        clock: Clock = system_clock,
    ) -> None:
        self._memory = _Memory(event_type, consumer, window_events, window_seconds, clock)
        self._database = Database(connection, table)

    def create(self) -> None:
        """Create the table if it does not exist. Consumers with a migration for it need not call this."""
        self._database.create(_CREATE)

    def fresh(self, events: Iterable[E]) -> list[E]:
        """Return those of *events* that were not seen yet, each once and in their order, and record them.

        All are checked before any is recorded. Any number of events takes a few statements.

        Args:
            events: Those of a page, or any others as decoded objects.

        Raises:
            EventUnusable: an event has no `metadata.eid`; names it.
            WrongTransaction: no transaction is open, so the events would be remembered before their effect.
        """
        return self._database.carry_out(self._memory.fresh(events))

    def seen(self, eids: Iterable[str]) -> set[str]:
        """Return those of *eids* that this consumer has seen, in any feed, as far as they are recorded.

        This object's *window_seconds* apply to events of all feeds.
        """
        return self._database.carry_out(self._memory.seen(eids), writes=False)

    def forget(self) -> None:
        """Delete this consumer's record of the feed, so that it can read the feed again from the beginning.

        Raises:
            WrongTransaction: no transaction is open.
        """
        self._database.carry_out(self._memory.forget())


class AsyncDuplicates:
    """The same over a `psycopg.AsyncConnection`; see `Duplicates`."""

    def __init__(
        self,
        connection: Any,
        event_type: str | Mapping[str, Any],
        consumer: str,
        *,
        window_events: int | None = WINDOW_EVENTS,
        window_seconds: float | None = None,
        table: str = TABLE,
        clock: Clock = system_clock,
    ) -> None:
        self._memory = _Memory(event_type, consumer, window_events, window_seconds, clock)
        self._database = AsyncDatabase(connection, table)

    async def create(self) -> None:
        """Create the table if it is not there; see `Duplicates.create`."""
        await self._database.create(_CREATE)

    async def fresh(self, events: Iterable[E]) -> list[E]:
        """Return those of *events* that were not seen yet, and record them; see `Duplicates.fresh`."""
        return await self._database.carry_out(self._memory.fresh(events))

    async def seen(self, eids: Iterable[str]) -> set[str]:
        """Return those of *eids* that this consumer has seen; see `Duplicates.seen`."""
        return await self._database.carry_out(self._memory.seen(eids), writes=False)

    async def forget(self) -> None:
        """Delete the record of this consumer's events of the feed; see `Duplicates.forget`."""
        await self._database.carry_out(self._memory.forget())


def _check_window(events: int | None, seconds: float | None) -> None:
    if events is None and seconds is None:
        right = "a number of events or of seconds: what is remembered for ever grows for ever"
        raise BadParameter(parameter="window_events", value=None, allowed=right)
    if events is not None:
        check_count("window_events", events)
    if seconds is not None:
        check_seconds("window_seconds", seconds)
