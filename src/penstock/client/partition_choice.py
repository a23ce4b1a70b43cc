"""In which partition an event belongs, as its event type says: what the hub goes by, known beforehand."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.core.events.encoding import unlike
from penstock.core.events.event import NewEvent
from penstock.core.events.partitioning import hash_partition, key_text
from penstock.errors import PartitionRefused
from penstock.schema.walk import Path, key_path

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class PartitionChoice:
    """Chooses for one event type, as it was when it was asked for; with more partitions keys fall in others."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self.partition_count = int(definition["partition_count"])
        self._strategy = definition.get("partition_strategy", "random")
        prefix = "data." if definition.get("category") == "data" else ""
        fields: Sequence[str] = definition.get("partition_key_fields", ())
        self._paths: list[Path] = [key_path(prefix + field) for field in fields]

    def of(self, event: NewEvent) -> int | None:
        """Return the partition of *event*; None: any will do.

        Raises:
            PartitionRefused: it lacks what would say that.
        """
        if self._strategy == "random":
            return None
        return self._hashed(event) if self._strategy == "hash" else self._asked(event)

    def _hashed(self, event: NewEvent) -> int:
        if event.key is not None:
            return hash_partition((event.key,), self.partition_count)
        found = _decode(event.data)
        try:
            texts = tuple([key_text(found, path) for path in self._paths])
        except KeyError as error:
            reason = f"partition key field {error.args[0]!r} is missing; give the event the field, or a key"
            raise PartitionRefused(line=1, reason=reason) from None
        return hash_partition(texts, self.partition_count)

    def _asked(self, event: NewEvent) -> int:
        asked: Any = event.partition
        if asked is None and isinstance(metadata := _decode(event.data).get("metadata"), dict):
            asked = metadata.get("partition")
        if str(asked) not in map(str, range(self.partition_count)):
            wanted = f"one that there is, 0 to {self.partition_count - 1}"
            raise PartitionRefused(line=1, reason=f"its partition {unlike(asked, wanted)}")
        return int(asked)
