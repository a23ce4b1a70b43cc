"""Chooses the partition of an event as the hub would. Where any partition will do, the event's bytes choose it.

So an event that is made again falls into the same partition again (docs/decisions/direct-batches.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from zlib import crc32

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.events.partitioning import hash_partition, key_text
from penstock.errors import InvalidRecord
from penstock.schema.json_text import decode
from penstock.schema.traversal import Path, key_path

KEY_HEADER: Final = "ce_partitionkey"
SHOWN_CHARS: Final = 200


@dataclass(frozen=True)
class Routing:
    """The partition strategy of an event type. Holds plain values: it can be sent to executors."""

    event_type: str
    strategy: Literal["random", "hash", "user_defined"]
    paths: Sequence[Path]
    """To the partition key fields, in an event."""

    def __call__(self, event: NewEvent, count: int) -> int:
        """Return the partition of *event* among *count*.

        Raises:
            InvalidRecord: it has no key, or names no partition.
        """
        match self.strategy:
            case "hash":
                return hash_partition(self._texts(event), count)
            case "user_defined":
                return self._asked(event)
        return crc32(bytes(event.data)) % count

    def _texts(self, event: NewEvent) -> tuple[str, ...]:
        key = event.key
        if key is None and event.headers:
            key = event.headers.get(KEY_HEADER)
        if key is not None:
            return (key,)
        try:
            found = self._decoded(event)
            return tuple([key_text(found, path) for path in self.paths])
        except KeyError as error:
            raise self._refused(event, f"partition key field {error.args[0]!r} is missing") from None

    def _asked(self, event: NewEvent) -> int:
        asked: object = event.partition
        if asked is None and type(metadata := self._decoded(event).get("metadata")) is dict:
            asked = metadata.get("partition")
        text = str(asked) if type(asked) in (int, str) else ""
        if not (text.isascii() and text.isdecimal()):
            raise self._refused(event, f"it names no partition, and {self.event_type!r} is user_defined")
        return int(text)

    def _decoded(self, event: NewEvent) -> dict[str, Any]:
        try:
            found: object = decode(bytes(event.data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refused(event, f"it is not JSON: {error}") from None
        if type(found) is not dict:
            raise self._refused(event, "an event is a JSON object")
        return found

    def _refused(self, event: NewEvent, reason: str) -> InvalidRecord:
        row = bytes(event.data)[:SHOWN_CHARS].decode(errors="backslashreplace")
        return InvalidRecord.of("invalid-row", event_type=self.event_type, reason=reason, row=row)


def routing_of(event_type: str, told: dict[str, Any]) -> Routing:
    """Return how an event type, as the hub tells of it, chooses partitions."""
    prefix = "data." if told.get("category") == "data" else ""
    paths = [key_path(prefix + field) for field in told.get("partition_key_fields", ())]
    return Routing(event_type, told["partition_strategy"], paths)
