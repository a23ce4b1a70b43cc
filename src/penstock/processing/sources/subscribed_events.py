"""Events out of what a subscription sends: Nakadi's batches say nothing of keys, so that streams are told by fields."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from penstock.core.events.event import stream_name
from penstock.core.events.partitioning import key_text
from penstock.errors import EventTypeNotFound
from penstock.processing.fields import FieldReader, Fields
from penstock.processing.sources.feed_position import encode_tranche
from penstock.processing.sources.subscribed import Sent, apart, numbering_in
from penstock.processing.stream_event import StreamEvent
from penstock.schema.traversal import Path, key_path

_TEXTS: Final = ((str, int), "a text or a whole number")
_decode: Final = msgspec.json.Decoder().decode


class SubscribedEvents:
    """Makes events of batches.

    Args:
        stream: The fields whose values, behind the event type, are the stream's name; or a function from the decoded
            event to the name; None: the fields by which the event type is partitioned.
        kind: The fields whose values are the kind, or a function; None: the event type.
        definition: Gives the definition of an event type.

    Raises:
        BadParameter: there are no such fields.
    """

    def __init__(
        self, stream: Fields | None, kind: Fields | None, definition: Callable[[str], Mapping[str, Any]]
    ) -> None:
        self._stream = None if stream is None else FieldReader(stream, _TEXTS, "stream")
        self._is_named = callable(stream)
        self._kind = None if kind is None else FieldReader(kind, _TEXTS, "kind")
        self._definition = definition
        self._keys: dict[str, list[Path]] = {}
        """The fields by which event types are partitioned; none, where they are not partitioned by a hash."""

    def learn(self, event_type: str) -> None:
        """Get to know an event type, before there is anything of it to be made."""
        if event_type not in self._keys:
            self._keys[event_type] = self._key_paths(event_type) if self._stream is None else []

    def make(self, batch: Sent, skip: int) -> list[StreamEvent]:
        """Return the events of a batch but for the first *skip*; their indices are their offsets.

        Raises:
            EventUnusable: an event lacks a field that its stream or its kind is told by.
        """
        tranche, numbering = encode_tranche(batch.event_type, batch.partition), numbering_in(batch)
        found = zip(batch.offsets[skip:], batch.raw[skip:], strict=True)
        return [
            self._event(batch, raw, offset, place, tranche=tranche, numbering=numbering)
            for place, (offset, raw) in enumerate(found, skip)
        ]

    def _event(self, batch: Sent, raw: bytes, index: int, place: int, *, tranche: str, numbering: str) -> StreamEvent:
        data, event_type = _decode(raw), batch.event_type
        key = None if self._stream is not None else self._key(data, event_type)
        if key is None:
            numbering += apart(batch)
        if self._stream is None:
            stream = stream_name(event_type, batch.partition, key, is_hashed=True)
        else:
            name = "-".join(map(str, self._stream.read(data, data, place, event_type)))
            stream = name if self._is_named else f"{event_type}-{name}"
        kind = event_type
        if self._kind is not None:
            kind = "-".join(map(str, self._kind.read(data, data, place, event_type)))
        received = _received(data)
        return StreamEvent(stream, index, kind, raw, key, None, tranche, received, numbering, data)

    def _key(self, data: Any, event_type: str) -> str | None:
        """Return the key that an event has by its fields; None: it has another, which is not told."""
        paths = self._keys[event_type]
        try:
            return ",".join([key_text(data, path) for path in paths]) if paths else None
        except KeyError:
            return None

    def _key_paths(self, event_type: str) -> list[Path]:
        try:
            definition = self._definition(event_type)
        except EventTypeNotFound:  # It was deleted; what is left of it comes nevertheless.
            return []
        if definition.get("partition_strategy") != "hash":
            return []
        prefix = "data." if definition.get("category") == "data" else ""
        return [key_path(prefix + field) for field in definition["partition_key_fields"]]


def _received(data: Any) -> int | None:
    """Return when the hub took an event, in microseconds since 1970, if its metadata says so."""
    metadata = data.get("metadata") if isinstance(data, dict) else None
    said = metadata.get("received_at") if isinstance(metadata, dict) else None
    try:
        return None if said is None else int(datetime.fromisoformat(str(said)).timestamp() * 1_000_000)
    except ValueError:
        return None
