"""An event type: name, category, partitioning, and whatever else its owner says of it."""

import re
from typing import Any, Final, Literal, get_args

import msgspec

from penstock.core.document import unlike
from penstock.errors import InvalidEventType

Category = Literal["undefined", "business", "data"]
PartitionStrategy = Literal["random", "hash", "user_defined"]

PARTITIONS_MAX: Final = 256
NAME_CHARS_MAX: Final = 255
_NAME: Final = re.compile(r"[a-zA-Z][-0-9a-zA-Z_]*(\.[0-9a-zA-Z][-0-9a-zA-Z_]*)*")


class EventType(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner has declared, checked, with the defaults filled in."""

    name: str
    category: Category
    partition_count: int
    partition_strategy: PartitionStrategy
    partition_key_fields: tuple[str, ...]
    exactly_once: bool
    """Whether it takes events only in ways that store each exactly once; its option `publishing` says so."""
    definition: dict[str, Any]
    """Everything as given, what is not known here included."""

    @classmethod
    def parse(cls, definition: Any) -> "EventType":
        """Read a definition in Nakadi's shape (digest of its contract, 2.1).

        Raises:
            InvalidEventType: names the field and the rule that it breaks.

        >>> EventType.parse({"name": "order.placed", "category": "undefined"}).partition_count
        1
        """
        if not isinstance(definition, dict):
            raise InvalidEventType(field="", reason="an event type is a JSON object")
        strategy = _one_of(definition, "partition_strategy", get_args(PartitionStrategy), default="random")
        fields = definition.get("partition_key_fields") or []
        if not isinstance(fields, list) or not all(isinstance(field, str) and field for field in fields):
            raise InvalidEventType(field="partition_key_fields", reason="must be a list of paths")
        if strategy == "hash" and not fields:
            raise InvalidEventType(field="partition_key_fields", reason="must not be empty for the hash strategy")
        return cls(
            name=_name(definition),
            category=_one_of(definition, "category", get_args(Category)),
            partition_count=_partition_count(definition),
            partition_strategy=strategy,
            partition_key_fields=tuple(fields),
            exactly_once=_exactly_once(definition),
            definition=definition,
        )


class Feed(msgspec.Struct, frozen=True, kw_only=True):
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


def is_name(text: str) -> bool:
    """Tell whether an event type can be called *text*.

    >>> is_name("order.placed"), is_name("order placed")
    (True, False)
    """
    return len(text) <= NAME_CHARS_MAX and _NAME.fullmatch(text) is not None


def _name(definition: dict[str, Any]) -> str:
    name = definition.get("name")
    if not isinstance(name, str):
        raise InvalidEventType(field="name", reason="may not be null")
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise InvalidEventType(field="name", reason=f"the length of the name must be >= 1 and <= {NAME_CHARS_MAX}")
    if not is_name(name):
        raise InvalidEventType(field="name", reason=f"must match {_NAME.pattern}")
    return name


def _one_of(definition: dict[str, Any], field: str, allowed: tuple[str, ...], default: str | None = None) -> Any:
    value = definition.get(field, default)
    if isinstance(value, str) and value.lower() in allowed:
        return value.lower()
    raise InvalidEventType(field=field, reason=unlike(value, f"one of {', '.join(allowed)}"))


def _partition_count(definition: dict[str, Any]) -> int:
    right = f"a whole number from 1 to {PARTITIONS_MAX}"
    count = definition.get("partition_count")
    if count is not None:
        if not _is_count(count):
            raise InvalidEventType(field="partition_count", reason=unlike(count, right))
        return int(count)
    statistic = definition.get("default_statistic") or {}
    if not isinstance(statistic, dict):
        raise InvalidEventType(field="default_statistic", reason="must be an object")
    parallelism = {name: statistic.get(name, 1) for name in ("read_parallelism", "write_parallelism")}
    for name, value in parallelism.items():
        if not _is_count(value):
            raise InvalidEventType(field="default_statistic", reason=f"is wrong: {name} {unlike(value, right)}")
    return int(max(parallelism.values()))


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= PARTITIONS_MAX


def _exactly_once(definition: dict[str, Any]) -> bool:
    options = definition.get("options") or {}
    if not isinstance(options, dict):
        raise InvalidEventType(field="options", reason="must be an object")
    return bool(_one_of(options, "publishing", ("any", "exactly-once"), default="any") == "exactly-once")
