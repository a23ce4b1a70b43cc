"""Makes the schema of an event type from the class that holds its events."""

import re
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from penstock.core import pydantic_model, struct_schema
from penstock.core.data_change import DataChange
from penstock.core.draft_four import draft_four, with_definitions
from penstock.core.pydantic_model import is_pydantic
from penstock.core.walk import Schema, children

_ZONE: Final = re.compile(r"(Z|[+-]\d\d:\d\d)$")


def entity(model: Any) -> Any:
    """Return of what a change tells: `Order` of `DataChange[Order]`; None where *model* is no change of data."""
    return get_args(model)[0] if get_origin(model) is DataChange else None


def model_schema(model: Any, *, business: bool = False) -> Schema:
    """Return the schema for events that are instances of *model*: a Struct, a dataclass or a pydantic model.

    It can be registered in each mode of compatibility, `compatible` included, and says the same of all three sorts:
    what an instance is in JSON, which members are always there (those without a default), what their values can be.
    A datetime is an RFC 3339 date-time, which has a time zone; one that is declared to have none is a string.
    For *business* events the member `metadata` is left out, since the hub adds it. Of a `DataChange` the schema is that
    of the record.

    Raises:
        TypeError: it is none of those; or a member has a type that no schema can be made of, or a datetime without a
            time zone as its default; names it.

    >>> from dataclasses import make_dataclass
    >>> model_schema(make_dataclass("Order", [("order_id", int)]))["required"]
    ['order_id']
    """
    kind = entity(model) or model
    if get_origin(kind) in (Union, UnionType):
        raise TypeError("a union is no event type's: make one for each of the classes, or a member that is a union")
    if not (isinstance(kind, type) or get_origin(kind) is not None):
        raise TypeError(f"{kind!r} is no class")
    made = draft_four(pydantic_model.schema(kind) if is_pydantic(kind) else struct_schema.schema(kind))
    if made.get("type") != "object":
        raise TypeError(f"{getattr(kind, '__qualname__', kind)} is no object in JSON, which an event has to be")
    _check_defaults(made, "the class")
    return _without_metadata(made) if business else made


def _check_defaults(node: Any, name: str) -> None:
    """Raise TypeError where a default is no date-time, since it has no time zone."""
    if not isinstance(node, dict):
        return
    default = node.get("default")
    if node.get("format") == "date-time" and isinstance(default, str) and not _ZONE.search(default):
        advice = "give it one, or declare that it has none: Annotated[datetime, msgspec.Meta(tz=False)], NaiveDatetime"
        raise TypeError(f"{name}: its default {default} has no time zone; {advice}")
    for way, child in children(node):
        _check_defaults(child, way[-1] if way[0] == "properties" else name)


def _without_metadata(schema: Schema) -> Schema:
    properties = {name: node for name, node in schema.get("properties", {}).items() if name != "metadata"}
    required = [name for name in schema.get("required", []) if name != "metadata"]
    root = {word: value for word, value in schema.items() if word not in ("required", "definitions")}
    root |= {"properties": properties} | ({"required": required} if required else {})
    return with_definitions(root, schema.get("definitions", {}))
