"""The versions of event types' schemas, in either database."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.core.registry.event_type import StoredFeed
from penstock.storage.statements import Statements

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class SqlSchemas:
    """See `penstock.storage.store.Schemas`."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run

    def add(self, feed: StoredFeed, schema: dict[str, Any]) -> None:
        """See `Schemas.add`."""
        text = msgspec.json.encode(schema).decode()
        self._run("insert_schema", event_type_id=feed.id, version=schema["version"], definition=text)

    def find(self, feed: StoredFeed, version: str) -> dict[str, Any] | None:
        """See `Schemas.find`."""
        found = self._run("find_schema", event_type_id=feed.id, version=version).fetchall()
        return _decode(found[0][0]) if found else None

    def list(self, feed: StoredFeed, *, limit: int, offset: int) -> Sequence[dict[str, Any]]:
        """See `Schemas.list`."""
        found = self._run("list_schemas", event_type_id=feed.id, limit=limit, offset=offset)
        return [_decode(text) for (text,) in found.fetchall()]
