"""Streams copied to a MessageDB, in PostgreSQL."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

import msgspec

from penstock.client.concurrency import Closing
from penstock.core.database_url import plain_url
from penstock.errors import BadParameter, DatabaseUnavailable
from penstock.processing.database import POSTGRES, is_passing
from penstock.processing.parameters import check_function, check_kind, check_name, redact
from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.target import (
    INDEX,
    NUMBERING,
    STREAM,
    Attained,
    Duplicate,
    Partial,
    PrefixMissing,
    Written,
    remove_origin,
)

if TYPE_CHECKING:
    import psycopg

SCHEMA: Final = "message_store"
CONNECTIONS_MAX: Final = 8
ANSWER_TIMEOUT: Final = 30.0
_IDS: Final = UUID("7d1e8f6e-3c1c-5d0a-9a57-0f4be5f0a0c1")


class MessagedbTarget(Closing):
    """Copies events to a MessageDB. Each append is one transaction, and writes each event once, even after failures.

    Dense indices are the positions in the target's stream, which must have no other writers. With other indices, each
    event's metadata has its origin (`penstock-stream`, `penstock-index` and `penstock-numbering`), and others may write
    to the stream too. Data is stored as PostgreSQL's `jsonb`: the same JSON, not the same bytes.

    Args:
        url: The database's URL: `postgresql://…`.
        schema: The schema in which MessageDB is installed.
        name: Returns a stream's name at the target from its name at the source; by default it is the same. The part
            before its first `-` is its category.

    Raises:
        BadParameter: an argument is invalid.
    """

    def __init__(self, url: str, *, schema: str = SCHEMA, name: Callable[[str], str] = str) -> None:
        from psycopg_pool import ConnectionPool

        check_kind("url", url, str, "postgresql://…")
        url = plain_url(url)
        if not url.startswith(POSTGRES):
            raise BadParameter(parameter="url", value=redact(url), allowed="postgresql://…")
        check_name("schema", schema)
        check_function("name", name, "stream")
        self._schema = schema
        self._name = name
        # No prepared statements, so that it works through PgBouncer, too.
        self._pool = ConnectionPool(
            url,
            min_size=0,
            max_size=CONNECTIONS_MAX,
            timeout=ANSWER_TIMEOUT,
            kwargs={"autocommit": True, "prepare_threshold": None, "application_name": "penstock-sync"},
            open=True,
        )

    def append(self, stream: str, expected: int | None, events: Sequence[StreamEvent]) -> Attained:
        """Append the missing ones of *events*; see `SyncTarget`.

        Raises:
            DatabaseUnavailable: it does not answer, or another writer was faster. The next append finds out the
                stream's progress.
        """
        import psycopg

        try:
            with self._pool.connection() as connection, connection.transaction():
                return self._append(connection, stream, expected, events)
        except psycopg.Error as error:
            if not (is_passing(error) or isinstance(error, psycopg.errors.UniqueViolation)):
                raise
            raise DatabaseUnavailable(reason=" ".join(str(error).split())) from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def _append(
        self,
        connection: "psycopg.Connection[Any]",
        stream: str,
        expected: int | None,
        events: Sequence[StreamEvent],
    ) -> Attained:
        name = self._name(stream)
        # MessageDB's functions name its tables without their schema.
        connection.execute("SELECT set_config('search_path', %s, true)", [f'"{self._schema}", public'])
        connection.execute(self._query("messagedb_lock"), {"stream": name})
        [(version, index)] = connection.execute(
            self._query("messagedb_last"), {"stream": name, "origin": stream, "numbering": events[0].numbering}
        ).fetchall()
        last = -1 if version is None else version
        attained = last + 1 if expected is not None else 0 if index is None else index + 1
        if expected is not None and attained < expected:
            return PrefixMissing(attained)
        wanted = select_missing(events, attained, dense=expected is not None)
        if not wanted:
            return Duplicate(attained)
        rows = [self._make_row(name, stream, event, last + at) for at, event in enumerate(wanted)]
        with connection.cursor() as cursor:
            cursor.executemany(self._query("messagedb_write"), rows)
        position = wanted[-1].next
        return Written(position) if len(wanted) == len(events) else Partial(position, len(wanted))

    def _make_row(self, name: str, stream: str, event: StreamEvent, expected: int) -> dict[str, object]:
        origin = {STREAM: stream, INDEX: event.index} | ({NUMBERING: event.numbering} if event.numbering else {})
        return {
            "id": str(uuid5(_IDS, f"{name}\n{stream}\n{event.index}\n{event.numbering}")),
            "stream": name,
            "kind": event.kind,
            "data": event.raw.decode(),
            "metadata": msgspec.json.encode(remove_origin(event.headers) | origin).decode(),
            "expected": expected,
        }

    def _query(self, statement: str) -> Any:
        from psycopg import sql

        return sql.SQL(_load_statement(statement)).format(schema=sql.Identifier(self._schema))


def select_missing(events: Sequence[StreamEvent], attained: int, *, dense: bool) -> list[StreamEvent]:
    """Return those of *events* with indices from *attained* on; if indices are *dense*, up to the first gap."""
    wanted = [event for event in events if event.index >= attained]
    if not dense:
        return wanted
    return [event for at, event in enumerate(wanted, attained) if event.index == at]


@cache
def _load_statement(name: str) -> str:
    return (files(__package__) / "statements" / f"{name}.sql").read_text(encoding="utf-8")
