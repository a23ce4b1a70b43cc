"""Records, beside the consumer's state, the last applied change of each entity."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from penstock.processing.changes import Candidate, Change, Changes, LastChange
from penstock.processing.database import AsyncDatabase, Clock, Database, Plan, Step, system_clock
from penstock.processing.event import make_order_error, unwrap, wrap
from penstock.processing.parameters import check_function, check_kind, check_name, check_seconds

__all__ = ["AsyncLatest", "Latest"]

E = TypeVar("E")

TABLE: Final = "penstock_latest"
ENTITY_BYTES_MAX: Final = 1_024
"""The limit of all key fields together, as JSON: PostgreSQL's index takes at most some 2700 bytes of a row."""
_CREATE: Final = "latest_create"
_encode: Final = msgspec.json.encode
_decode: Final = msgspec.json.decode


class _Memory:
    """The last applied changes of one feed's entities at one consumer, as plans."""

    def __init__(self, changes: Changes, consumer: str, clock: Clock) -> None:
        check_name("consumer", consumer)
        check_kind("changes", changes, Changes, "Changes(event_type, …)")
        check_function("clock", clock)
        self._changes = changes
        self._reader = {"feed": changes.event_type, "consumer": consumer}
        self._clock = clock

    def newest(self, events: Iterable[E]) -> Plan[list[Change[E]]]:
        # An invalid event raises before any write.
        candidates = {self._text(each): each for each in self._changes.candidates(events)}
        if not candidates:
            return []
        asked = {**self._reader, "entities": _encode(sorted(candidates)).decode()}
        yield Step("latest_claim", asked)
        rows = yield Step("latest_find", asked, finds=True)
        known = {
            candidates[text].change.entity: LastChange(unwrap(tuple(_decode(key))), bool(deleted))
            for text, key, deleted in rows
            if key is not None
        }
        news = self._changes.news(candidates.values(), known)
        if news:
            applied = [(self._text(each), _encode(each.order).decode(), int(each.change.deletes)) for each in news]
            yield Step("latest_store", {**self._reader, "applied": _encode(applied).decode(), "now": self._clock()})
        return [each.change for each in news]

    def _text(self, candidate: Candidate[Any]) -> str:
        encoded = _encode(wrap(candidate.change.entity))
        if len(encoded) > ENTITY_BYTES_MAX:
            reason = f"what names its entity has {len(encoded)} bytes, more than the {ENTITY_BYTES_MAX} it may have"
            raise make_order_error(candidate.change.event, candidate.number, self._changes.event_type, reason)
        return encoded.decode()

    def forget(self) -> Plan[None]:
        yield Step("latest_forget", self._reader)

    def forget_deleted(self, seconds: float) -> Plan[None]:
        check_seconds("seconds", seconds, zero=True)
        yield Step("latest_drop_deleted", {**self._reader, "before": self._clock() - round(seconds * 1_000_000)})


class Latest:
    """Selects the data changes that take effect, and records the last applied ones in the consumer's own transaction.

    Changes may come in any order and any number of times, through any number of workers: applying the results of
    `newest` gives the same state as applying each change once, in order. Deleted entities are recorded too, so that a
    late update does not restore them. The record is part of the transaction.

    A consumer whose own table holds each entity's ordering key needs no table beside it: see `Changes.newest`.

    Args:
        connection: The consumer's `sqlite3` or `psycopg` connection.
        changes: The event type, and the fields by which its changes name and order entities.
        consumer: The consumer's name.
        table: The table's name.
        clock: Returns the time in microseconds since 1970, UTC.

    Raises:
        BadParameter: the consumer's or the table's name is invalid.
        TypeError: the connection is of another kind.
    """

    def __init__(
        self,
        connection: Any,
        changes: Changes,
        consumer: str,
        *,
        table: str = TABLE,
        clock: Clock = system_clock,
    ) -> None:
        self._memory = _Memory(changes, consumer, clock)
        self._database = Database(connection, table)

    def create(self) -> None:
        """Create the table if it does not exist. Consumers with a migration for it need not call this."""
        self._database.create(_CREATE)

    def newest(self, events: Iterable[E]) -> list[Change[E]]:
        """Return the changes that take effect, at most one for each entity, and record them as applied.

        Store the record of each, or delete it if `deletes` is True, in the same transaction. Any number of changes
        takes three statements. On PostgreSQL the entities are locked until the transaction ends, so that workers with
        changes of the same entity wait for each other.

        Raises:
            EventUnusable: an event is no data change, does not name its entity, or has no ordering key that can be
                compared; names it.
            WrongTransaction: no transaction is open, so a change would be recorded before its effect.
        """
        return self._database.carry_out(self._memory.newest(events))

    def forget(self) -> None:
        """Delete the record of this feed's applied changes, for a consumer that rebuilds its state.

        Raises:
            WrongTransaction: no transaction is open.
        """
        self._database.carry_out(self._memory.forget())

    def forget_deleted(self, seconds: float) -> None:
        """Delete the record of entities deleted over *seconds* ago: a later change of theirs takes effect.

        Raises:
            BadParameter: *seconds* is no number, or less than 0.
            WrongTransaction: no transaction is open.
        """
        self._database.carry_out(self._memory.forget_deleted(seconds))


class AsyncLatest:
    """The same over a `psycopg.AsyncConnection`; see `Latest`."""

    def __init__(
        self,
        connection: Any,
        changes: Changes,
        consumer: str,
        *,
        table: str = TABLE,
        clock: Clock = system_clock,
    ) -> None:
        self._memory = _Memory(changes, consumer, clock)
        self._database = AsyncDatabase(connection, table)

    async def create(self) -> None:
        """Create the table if it is not there; see `Latest.create`."""
        await self._database.create(_CREATE)

    async def newest(self, events: Iterable[E]) -> list[Change[E]]:
        """Return the changes that take effect, and record them as applied; see `Latest.newest`."""
        return await self._database.carry_out(self._memory.newest(events))

    async def forget(self) -> None:
        """Delete the record of this feed's applied changes; see `Latest.forget`."""
        await self._database.carry_out(self._memory.forget())

    async def forget_deleted(self, seconds: float) -> None:
        """Delete the record of entities deleted more than *seconds* ago; see `Latest.forget_deleted`."""
        await self._database.carry_out(self._memory.forget_deleted(seconds))
