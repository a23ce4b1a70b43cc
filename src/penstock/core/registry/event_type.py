"""Event types: a checked definition with its defaults, and the log that the store keeps for it.

`find_members_without_effect` finds members of a definition that have no effect yet.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.fields import Definition
from penstock.core.registry.definition import (
    PENSTOCK,
    Category,
    CleanupPolicy,
    Evolution,
    Limits,
    Mode,
    PartitionStrategy,
    complete_definition,
    partition_count_of,
)
from penstock.core.registry.retention import Retention, RetentionLimits, read_retention
from penstock.schema.changes import EvolutionRules
from penstock.schema.validation import VALIDATORS, Validator, ValidatorKey, validator

FIRST_VERSION = "1.0.0"


class EventType(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The checked definition of an event type, with the defaults filled in."""

    name: str
    category: Category
    partition_count: int
    """The number of partitions that it is created with."""
    partition_strategy: PartitionStrategy
    partition_key_fields: tuple[str, ...]
    compatibility_mode: Mode
    cleanup_policy: CleanupPolicy
    schema_version: str
    is_exactly_once: bool
    """Whether it accepts events only through interfaces that store each exactly once: the option `publishing`."""
    definition: Definition
    """The definition in Nakadi's shape, unknown members included; without partition count and times."""

    @classmethod
    def parse(cls, definition: Any, limits: Limits = PENSTOCK) -> "EventType":
        """Read the definition that an owner has sent, in Nakadi's shape.

        Raises:
            InvalidEventType: lists the fields, and the rules that they break: see `complete_definition`.
            UnsupportedFormat: the schema is an Avro schema.

        >>> EventType.parse({"name": "order.placed", "owning_application": "shop", "category": "undefined",
        ...                  "schema": {"type": "json_schema", "schema": "{}"}}).partition_count
        1
        """
        found = complete_definition(definition, limits)
        count = partition_count_of(found, limits)
        found["schema"]["version"] = FIRST_VERSION
        return cls.of({name: value for name, value in found.items() if name not in _STORED_APART}, count)

    @classmethod
    def of(cls, definition: Definition, partition_count: int) -> "EventType":
        """Return the event type of a definition that has passed `parse`, with this *partition_count*."""
        return cls(
            name=definition["name"],
            category=definition["category"],
            partition_count=partition_count,
            partition_strategy=definition["partition_strategy"],
            partition_key_fields=tuple(definition["partition_key_fields"]),
            compatibility_mode=definition["compatibility_mode"],
            cleanup_policy=definition["cleanup_policy"],
            schema_version=definition["schema"]["version"],
            is_exactly_once=definition["options"].get("publishing") == "exactly-once",
            definition=definition,
        )

    @classmethod
    def from_stored(cls, text: str | bytes, partition_count: int) -> "EventType":
        """Return the event type from the JSON *text* that the database has stored."""
        return cls.of(_fill_in(msgspec.json.decode(text)), partition_count)

    @property
    def whole(self) -> Definition:
        """The definition and the partition count."""
        return self.definition | {"partition_count": self.partition_count}

    @property
    def evolution(self) -> Evolution:
        """The list of changes that the mode `forward` allows: the option `evolution`."""
        return "consumers" if self.definition["options"].get("evolution") == "consumers" else "nakadi"

    @property
    def evolution_rules(self) -> EvolutionRules:
        """The rules by which a change of the schema is judged."""
        return "consumers" if self.evolution == "consumers" else self.compatibility_mode

    @property
    def max_event_bytes(self) -> int | None:
        """Upper bound of an event's feed line, in bytes: see `penstock.core.log.acceptance`. None: no limit."""
        limit: int | None = self.definition.get("max_event_bytes")
        return limit

    def find_retention(self, default: RetentionLimits) -> Retention:
        """Return how long events are kept, in a hub with these limits by *default*."""
        return read_retention(self.definition["options"], self.cleanup_policy, default)

    @property
    def is_compacted(self) -> bool:
        """True if events have a compaction key, by which they can be deleted."""
        return self.cleanup_policy != "delete"

    @property
    def fingerprint(self) -> str:
        """A digest of the definition and the partition count; equal fingerprints accept the same events.

        It ignores the times of definition, so that databases with the same definitions have the same fingerprints.
        """
        schema = {name: value for name, value in self.definition["schema"].items() if name != "created_at"}
        encoded = msgspec.json.encode(self.whole | {"schema": schema}, order="sorted")
        return blake2b(encoded, digest_size=16).hexdigest()

    @property
    def validator(self) -> Validator:
        """The validator of its events; compiled at the first use."""
        return validator(self._validator_key)

    def is_light(self, size: int) -> bool:
        """Return whether validating events of *size* bytes takes so little time that an event loop can do it.

        False as long as the validator is not compiled; this method does not compile it.
        """
        ready = VALIDATORS.find(self._validator_key)
        return ready is not None and ready.is_light(size)

    @cached_property
    def _validator_key(self) -> ValidatorKey:
        is_compatible, is_compacted = self.compatibility_mode == "compatible", self.cleanup_policy != "delete"
        return ValidatorKey(self.definition["schema"]["schema"], self.name, self.category, is_compatible, is_compacted)


_DEFAULTS: Final[dict[str, Any]] = {
    "owning_application": "",
    "enrichment_strategies": [],
    "partition_strategy": "random",
    "partition_key_fields": [],
    "ordering_key_fields": [],
    "ordering_instance_ids": [],
    "compatibility_mode": "none",
    "default_statistic": None,
    "options": {},
    "cleanup_policy": "delete",
    "authorization": None,
    "annotations": {},
    "labels": {},
}
_ANY_SCHEMA: Final = {"type": "json_schema", "schema": "{}", "version": FIRST_VERSION}


def _fill_in(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a stored definition with its defaults; version 0.1.0 stored definitions as they were sent."""
    if "version" in definition.get("schema", ()):
        return definition
    known = {"category": definition["category"].lower(), "schema": _ANY_SCHEMA}
    return _DEFAULTS | definition | known


_STORED_APART = frozenset(["partition_count", "created_at", "updated_at"])
"""Members that the store keeps outside of the definition."""


class StoredFeed(msgspec.Struct, frozen=True, kw_only=True):
    """The log of an event type, as the store knows it."""

    id: int
    epoch: int
    """Incremented when a feed of this name is created again, and when a backup is restored; older cursors become
    invalid."""
    revision: int
    """Incremented by every change of the definition or of the partitions."""
    event_type: EventType
    partition_ids: tuple[int, ...]
    """The store's own id of each partition, never reused."""
    created_at: int
    """Microseconds since 1970, UTC; so are all times in storage."""
    updated_at: int

    @property
    def name(self) -> str:
        """The event type's name."""
        return self.event_type.name

    @property
    def partition_count(self) -> int:
        """The number of physical partitions."""
        return len(self.partition_ids)


_ANYBODY: Final = "this hub does not authenticate callers, and anybody may read, publish and change everything"
ADMINISTRATORS: Final = f"administrators have no effect here: {_ANYBODY}"


class WithoutEffect(NamedTuple):
    """A member of a definition that has no effect yet."""

    field: str
    """Its name in errors, such as `authorization`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.field} has no effect: {self.reason}"


def find_members_without_effect(
    definition: Mapping[str, Any], *, authenticates: bool = True
) -> Iterator[WithoutEffect]:
    """Yield the members of a valid definition that have no effect.

    *definition* is the definition of an event type or a subscription, as its owner has sent it. Its `authorization` has
    an effect if the hub *authenticates* its callers.

    >>> [str(each) for each in find_members_without_effect({"event_owner_selector": {"type": "static"}})]
    ['event_owner_selector has no effect: who may read an event type may read all its events']
    """
    if definition.get("authorization") is not None and not authenticates:
        yield WithoutEffect("authorization", _ANYBODY)
    if definition.get("event_owner_selector") is not None:
        yield WithoutEffect("event_owner_selector", "who may read an event type may read all its events")
