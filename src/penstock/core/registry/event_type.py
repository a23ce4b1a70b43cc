"""An event type: name, category, schema, partitioning, and whatever else its owner says of it.

Members of a definition that the hub stores and shows, and that have no effect yet.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypedDict

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
from penstock.schema.changes import EvolutionRules
from penstock.schema.validation import Validator, compiled_validator, validator

FIRST_VERSION = "1.0.0"


class EventType(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner has declared, checked, with the defaults filled in."""

    name: str
    category: Category
    partition_count: int
    """How many partitions it is created with."""
    partition_strategy: PartitionStrategy
    partition_key_fields: tuple[str, ...]
    compatibility_mode: Mode
    cleanup_policy: CleanupPolicy
    schema_version: str
    exactly_once: bool
    """Whether it takes events only in ways that store each exactly once; its option `publishing` says so."""
    definition: Definition
    """All of it in Nakadi's shape, what is not known here included; without partition count and times."""

    @classmethod
    def parse(cls, definition: Any, limits: Limits = PENSTOCK) -> "EventType":
        """Read a definition in Nakadi's shape, as an owner hands it in.

        Raises:
            InvalidEventType: names the fields and the rules that they break: see `complete_definition`.
            UnsupportedMediaType: its schema is one of Avro.

        >>> EventType.parse({"name": "order.placed", "owning_application": "shop", "category": "undefined",
        ...                  "schema": {"type": "json_schema", "schema": "{}"}}).partition_count
        1
        """
        found = complete_definition(definition, limits)
        count = partition_count_of(found, limits)
        found["schema"]["version"] = FIRST_VERSION
        return cls.of({name: value for name, value in found.items() if name not in _NOT_KEPT}, count)

    @classmethod
    def of(cls, definition: Definition, partition_count: int) -> "EventType":
        """Return the event type of a definition that has passed `parse`, with that many partitions."""
        return cls(
            name=definition["name"],
            category=definition["category"],
            partition_count=partition_count,
            partition_strategy=definition["partition_strategy"],
            partition_key_fields=tuple(definition["partition_key_fields"]),
            compatibility_mode=definition["compatibility_mode"],
            cleanup_policy=definition["cleanup_policy"],
            schema_version=definition["schema"]["version"],
            exactly_once=definition["options"].get("publishing") == "exactly-once",
            definition=definition,
        )

    @classmethod
    def stored(cls, text: str | bytes, partition_count: int) -> "EventType":
        """Return the event type whose definition a database has stored as *text*, with that many partitions."""
        return cls.of(_filled_in(msgspec.json.decode(text)), partition_count)

    @property
    def whole(self) -> Definition:
        """The definition together with the partition count."""
        return self.definition | {"partition_count": self.partition_count}

    @property
    def evolution(self) -> Evolution:
        """By whose list its mode `forward` goes; its option `evolution` says so."""
        return "consumers" if self.definition["options"].get("evolution") == "consumers" else "nakadi"

    @property
    def evolution_rules(self) -> EvolutionRules:
        """The rules that judge a change of its schema."""
        return "consumers" if self.evolution == "consumers" else self.compatibility_mode

    @property
    def max_event_bytes(self) -> int | None:
        """The longest feed line of an event, in bytes: see `penstock.core.log.acceptance`. None: it has no limit."""
        limit: int | None = self.definition.get("max_event_bytes")
        return limit

    @property
    def compacted(self) -> bool:
        """Whether events have a compaction key, and can be deleted by it."""
        return self.cleanup_policy != "delete"

    @property
    def fingerprint(self) -> str:
        """A digest of the definition and the partition count: event types with the same one take the same events.

        When it was defined does not count, so that databases with the same definitions have the same fingerprints.
        """
        schema = {name: value for name, value in self.definition["schema"].items() if name != "created_at"}
        encoded = msgspec.json.encode(self.whole | {"schema": schema}, order="sorted")
        return blake2b(encoded, digest_size=16).hexdigest()

    @property
    def validator(self) -> Validator:
        """Who validates its events, compiled when first asked for."""
        return validator(**self._validated_by)

    def is_light(self, size: int) -> bool:
        """Tell whether validating events of *size* bytes is so little work that an event loop may do it.

        It is not as long as the validator is not compiled; that is not done here.
        """
        ready = compiled_validator(**self._validated_by)
        return ready is not None and ready.is_light(size)

    @property
    def _validated_by(self) -> "_ValidatedBy":
        return {
            "text": self.definition["schema"]["schema"],
            "name": self.name,
            "category": self.category,
            "compatible": self.compatibility_mode == "compatible",
            "compacted": self.compacted,
        }


_UNSAID: Final[dict[str, Any]] = {
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


def _filled_in(definition: dict[str, Any]) -> dict[str, Any]:
    """Return what is stored, and where 0.1.0 has stored it, which kept no more than was given, with the rest."""
    if "version" in definition.get("schema", ()):
        return definition
    known = {"category": definition["category"].lower(), "schema": _ANY_SCHEMA}
    return _UNSAID | definition | known


class _ValidatedBy(TypedDict):
    """What makes the validator of an event type another one."""

    text: str
    name: str
    category: str
    compatible: bool
    compacted: bool


_NOT_KEPT = frozenset(["partition_count", "created_at", "updated_at"])
"""What the store itself knows of an event type."""


class StoredFeed(msgspec.Struct, frozen=True, kw_only=True):
    """An event type's log, as the store knows it."""

    id: int
    epoch: int
    """Raised when a feed of this name is created again, and when a backup has been put back: no old cursor fits."""
    revision: int
    """Raised by every change of the definition or of the partitions."""
    event_type: EventType
    partition_ids: tuple[int, ...]
    """The store's own number of each partition, never used twice."""
    created_at: int
    """Microseconds since 1970, UTC; so are all times in storage."""
    updated_at: int

    @property
    def name(self) -> str:
        """The event type's name."""
        return self.event_type.name

    @property
    def partition_count(self) -> int:
        """The physical number of partitions."""
        return len(self.partition_ids)


_ANYBODY: Final = "whoever reaches the hub may read, publish and change all"
_NEVER_REMOVED: Final = "no event is removed while its event type exists"
DELETIONS: Final = f"deletions have no effect yet: {_NEVER_REMOVED}"
ADMINISTRATORS: Final = f"administrators have no effect yet: {_ANYBODY}"


class WithoutEffect(NamedTuple):
    """A member of a definition that has no effect yet."""

    field: str
    """As errors name it, such as `options.retention_time`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.field} has no effect yet: {self.reason}"


def without_effect(given: Mapping[str, Any]) -> Iterator[WithoutEffect]:
    """Yield the members of a definition, as its owner has *given* it, that have no effect yet.

    The definition is valid, and one of an event type or a subscription.

    >>> [str(each) for each in without_effect({"options": {"retention_time": 86400000}})]
    ['options.retention_time has no effect yet: no event is removed while its event type exists']
    """
    if given.get("authorization") is not None:
        yield WithoutEffect("authorization", _ANYBODY)
    if given.get("event_owner_selector") is not None:
        yield WithoutEffect("event_owner_selector", _ANYBODY)
    if (given.get("options") or {}).get("retention_time") is not None:
        yield WithoutEffect("options.retention_time", _NEVER_REMOVED)
    if str(given.get("cleanup_policy") or "delete").lower() != "delete":
        yield WithoutEffect("cleanup_policy", f"{_NEVER_REMOVED}, also where a later one has its compaction key")
