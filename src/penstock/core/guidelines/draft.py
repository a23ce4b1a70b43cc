"""A definition as far as it can be understood: it may be broken in any way, and is looked at all the same."""

from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.guidelines.fields import Node, find, is_required
from penstock.core.guidelines.names import says_time
from penstock.core.json_text import decode
from penstock.core.walk import Path, Schema, key_path

PROCESS_ID_FIELD: Final = "penstock/process-id-field"
"""The annotation that names the field that holds a business event's process id: a path, as in `order.number`."""
ENTITY_KEY_FIELDS: Final = "penstock/entity-key-fields"
"""The annotation that names the fields that make out a data change's entity: paths, with commas between them."""

_METADATA: Final = {
    *("eid", "occurred_at", "event_type", "partition", "parent_eids", "flow_id", "span_ctx"),
    *("received_at", "version", "published_by", "partition_compaction_key"),
}
_METADATA_TIMES: Final = frozenset(["occurred_at", "received_at"])
_ALWAYS: Final = frozenset(["eid", "occurred_at", "received_at", "event_type", "partition"])
_DATA_MEMBERS: Final = frozenset([("data_type",), ("data_op",)])
_TIME_FORMATS: Final = frozenset(["date-time", "date", "time"])


class EventField(NamedTuple):
    """A field of the whole event, as a definition names it."""

    text: str
    """As it is written there."""
    path: Path
    """In the payload, without `data`; or from `metadata` on, where it is of the hub's own."""
    is_own: bool
    """Whether it is one of the members that come with the category."""
    node: Node | None
    """What the schema says of it; None: it does not name it."""
    is_required: bool
    """Whether every event has it."""

    @property
    def is_known(self) -> bool:
        """Whether the schema or the category names it."""
        return self.is_own or self.node is not None

    @property
    def is_time(self) -> bool:
        """Whether it holds a moment, as far as its format or its name says so."""
        if self.is_own:
            return self.path[-1] in _METADATA_TIMES
        said = self.node.schema.get("format") if self.node else None
        return said in _TIME_FORMATS if isinstance(said, str) else says_time(self.path[-1])


class Draft:
    """A definition in Nakadi's shape that nobody has checked yet."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition

    @cached_property
    def category(self) -> str:
        """Its category in lower case, whether there is such a one or not."""
        return self.text("category").lower()

    @cached_property
    def strategy(self) -> str:
        """How partitions are chosen, `random` unless it says otherwise."""
        return self.text("partition_strategy").lower() or "random"

    @cached_property
    def annotations(self) -> dict[str, str]:
        """Those annotations that are texts."""
        given = self.definition.get("annotations")
        members = given.items() if isinstance(given, dict) else ()
        return {name: value for name, value in members if isinstance(name, str) and isinstance(value, str)}

    @cached_property
    def schema(self) -> Schema | None:
        """What its schema says, None where there is none that can be read."""
        given = self.definition.get("schema")
        text = given.get("schema") if isinstance(given, dict) else None
        if isinstance(text, str):
            try:
                text = decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                return None
        return text if isinstance(text, dict) else None

    @cached_property
    def key_fields(self) -> list[EventField]:
        """The fields of the partition key, in their order."""
        return [self.field(text, in_payload=self.category == "data") for text in self.texts("partition_key_fields")]

    @cached_property
    def ordering_fields(self) -> list[EventField]:
        """The fields that order events, in their order."""
        return [self.field(text) for text in self.texts("ordering_key_fields")]

    def text(self, member: str) -> str:
        """Return the text that a member holds, without the spaces around it; an empty one where it holds none."""
        value = self.definition.get(member)
        return value.strip() if isinstance(value, str) else ""

    def texts(self, member: str) -> list[str]:
        """Return the texts that a member lists."""
        value = self.definition.get(member)
        return [text for text in value if isinstance(text, str) and text] if isinstance(value, list) else []

    def field(self, text: str, *, in_payload: bool = False) -> EventField:
        """Return the field that *text* names: a path into the whole event, or *in_payload* alone.

        A data change's payload is its member `data`; what is not found without it is looked for with it.
        """
        path = key_path(text)
        if not in_payload and (own := self._own_field(text, path)):
            return own
        schema = self.schema or {}
        if self.category == "data" and not in_payload and path[0] == "data" and find(schema, path) is None:
            path = path[1:] or path
        return EventField(text, path, is_own=False, node=find(schema, path), is_required=is_required(schema, path))

    def _own_field(self, text: str, path: Path) -> EventField | None:
        """Return the field if it is one of those that come with the category."""
        if self.category in ("business", "data") and path[0] == "metadata":
            is_own = len(path) > 1 and path[1] in _METADATA
            return EventField(text, path, is_own, None, is_own and path[1] in _ALWAYS)
        if self.category == "data" and path in _DATA_MEMBERS:
            return EventField(text, path, is_own=True, node=None, is_required=True)
        return None
