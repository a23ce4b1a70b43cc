"""What a hub says of giving an event type another schema."""

from typing import Any

import msgspec


class SchemaChange(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between the schema that an event type has and another one."""

    pointer: str
    """Where, as a JSON pointer into the new schema or, of what is gone, into the old one."""
    rule: str
    """The kind of change, such as `property-removed`."""
    says: str
    level: str
    """Which number of the version it raises: PATCH, MINOR or MAJOR."""
    refused: bool
    """Whether the event type's mode of compatibility does not allow it."""
    instead: str = ""
    """What to do instead, where it is refused."""
    producers: bool = False
    """Whether it is certain that producers can stay as they are."""
    consumers: bool = False
    """Whether it is certain that consumers can stay as they are."""
    old: Any = None
    new: Any = None


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an event type could be given a schema, and what that would mean."""

    compatible: bool
    compatibility_mode: str
    """The mode by which that is so."""
    evolution: str = "nakadi"
    """By whose list the mode `forward` goes: `nakadi`, or `consumers`, that of the event guidelines too."""
    validated_against_version: str
    """The version of the schema with which it was compared."""
    version: str
    """The version that it would get; where it says the same or is refused, the one that there is."""
    producers: bool
    """Whether it is certain that producers can stay as they are."""
    consumers: bool
    """Whether it is certain that consumers can stay as they are."""
    changes: list[SchemaChange] = []
    error: str | None = None
    """Why it could not be given, where that is so."""
