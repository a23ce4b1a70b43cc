"""Idempotent producers in PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg

from penstock.storage.postgres import POSTGRES
from penstock.storage.producers import Producer, ProducerKey, ProducerRepository, encode_keys, read_producers
from penstock.storage.statements import SqlRunner

_sql: Final = POSTGRES.statements


class PostgresProducers(ProducerRepository):
    """Idempotent producers in PostgreSQL, where a transaction locks a producer's row before it changes or appends."""

    def __init__(self, sql: SqlRunner, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        super().__init__(sql)
        self._connection = connection

    def find(
        self, keys: Sequence[ProducerKey], *, lock: Sequence[int] | None = None
    ) -> Mapping[ProducerKey, Producer | None]:
        """Return producers by their keys, and lock them on request."""
        if lock is None:
            return super().find(keys)
        given = {"wanted": encode_keys(keys), "ids": list(lock)}
        with psycopg.ClientCursor(self._connection) as cursor:  # One exchange; the rows are read after the locks.
            cursor.execute(f"{_sql['producers_lock']};\n{_sql['producers_look']}", given)
            cursor.nextset()
            locked = {producer_id for (producer_id,) in cursor.fetchall()}
            cursor.nextset()
            producers = read_producers(cursor.fetchall())
        return {key: each for key, each in producers.items() if each is None or each.id in locked}
