"""The versions of event types' schemas in PostgreSQL."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
import psycopg

from penstock.core.event_type import Feed
from penstock.storage.statements import statement

_sql: Final[Any] = partial(statement, __package__)
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class PostgresSchemas:
    """See `penstock.storage.store.Schemas`."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def add(self, feed: Feed, schema: dict[str, Any]) -> None:
        """See `Schemas.add`."""
        text = msgspec.json.encode(schema).decode()
        given = {"event_type_id": feed.id, "version": schema["version"], "definition": text}
        self._connection.execute(_sql("insert_schema"), given)

    def find(self, feed: Feed, version: str) -> dict[str, Any] | None:
        """See `Schemas.find`."""
        given = {"event_type_id": feed.id, "version": version}
        found = self._connection.execute(_sql("find_schema"), given).fetchall()
        return _decode(found[0][0]) if found else None

    def list(self, feed: Feed, *, limit: int, offset: int) -> Sequence[dict[str, Any]]:
        """See `Schemas.list`."""
        given = {"event_type_id": feed.id, "limit": limit, "offset": offset}
        return [_decode(text) for (text,) in self._connection.execute(_sql("list_schemas"), given).fetchall()]
