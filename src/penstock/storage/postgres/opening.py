"""Begins a transaction that appends: what it has to know goes over the network once, and not in three turns."""

from functools import partial
from typing import Any, Final

import psycopg

from penstock.storage.opening import Opening
from penstock.storage.postgres.outbox import PostgresOutbox, Snapshot
from penstock.storage.statements import statement
from penstock.storage.store import Head

_sql: Final[Any] = partial(statement, __package__)
_ASKED: Final = ("begin", "outbox_look", "lock_heads", "heads")


def opened(
    connection: "psycopg.Connection[tuple[Any, ...]]", outbox: PostgresOutbox, opening: Opening
) -> dict[int, Head] | None:
    """Begin a transaction and lock the heads that *opening* names.

    None: rows wait in an outbox, whose lock comes before those of heads; the transaction has begun, and has no lock.
    """
    asked = outbox.asking()
    with psycopg.ClientCursor(connection) as cursor:  # They go out together, and each looks for itself.
        cursor.execute(";\n".join(map(_sql, _ASKED)), {**asked.since._asdict(), "ids": list(opening.partition_ids)})
        answers = [cursor.fetchall()] if cursor.description else []
        while cursor.nextset():
            answers += [cursor.fetchall()] if cursor.description else []
    *_, [(xmax, running, found)], _, heads = answers
    waiting = outbox.waiting_after(asked, Snapshot(xmax, running), found)
    if waiting.isdisjoint(opening.names):
        return {partition_id: Head(*rest) for partition_id, *rest in heads}
    connection.execute(f"ROLLBACK;\n{_sql('begin')}")
    return None
