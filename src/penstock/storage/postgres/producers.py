"""Idempotent producers in PostgreSQL."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import psycopg

from penstock.storage.producer_rows import SqlProducers, found_of, wanted_of
from penstock.storage.producers import Producer, ProducerKey
from penstock.storage.statements import Statements, statement

_sql: Final[Any] = partial(statement, __package__)


class PostgresProducers(SqlProducers):
    """Many write at the same time: who appends for a producer, or changes it, holds its row."""

    def __init__(self, statements: Statements, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        super().__init__(statements)
        self._connection = connection

    def lock(
        self, wanted: Sequence[ProducerKey], partition_ids: Sequence[int]
    ) -> Mapping[ProducerKey, Producer | None]:
        """See `Producers.lock`."""
        given = {"wanted": wanted_of(wanted), "ids": list(partition_ids)}
        with psycopg.ClientCursor(self._connection) as cursor:  # All go out together, the look behind the locks.
            cursor.execute(f"{_sql('producers_lock')};\n{_sql('producers_look')}", given)
            cursor.nextset()
            locked = {producer_id for (producer_id,) in cursor.fetchall()}
            cursor.nextset()
            found = found_of(cursor.fetchall())
        return {key: each for key, each in found.items() if each is None or each.id in locked}
