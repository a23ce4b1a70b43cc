"""Tells what is wrong with an event, in Nakadi's words where it has some (digest of its contract, 3.4)."""

from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.core.effective import MOMENT
from penstock.core.walk import shown

EXTRANEOUS_MAX: Final = 20
"""How many members that are too many are told."""
_SHOWN_CHARS: Final = 200
"""How much is told of a value, and of a name."""
_PLACE_CHARS: Final = 1_000
_RULE_CHARS: Final = 400
_TYPES: Final = {
    "string": "String", "integer": "Integer", "number": "Number", "boolean": "Boolean",
    "object": "JSONObject", "array": "JSONArray", "null": "Null",
}  # fmt: skip
_OCCURRED_AT: Final = ["metadata", "occurred_at"]


def violation_texts(violation: jsonschema_rs.ValidationError) -> list[str]:
    """Return what *violation* says: a line for each of the first members that are too many, else one."""
    at = violation.instance_path
    where = shown(tuple(_named(step) for step in at))[:_PLACE_CHARS]
    kind = violation.kind
    if at == _OCCURRED_AT and kind.name in ("format", "pattern"):
        return [f"{where}:must be a valid date-time"]
    said = kind.as_dict()
    if kind.name == "required":
        return [f"{where}: required key [{_named(said['property'])}] not found"]
    if kind.name == "additionalProperties":
        names = map(_named, said["unexpected"][:EXTRANEOUS_MAX])
        return [f"{where}: extraneous key [{name}] is not permitted" for name in names]
    if kind.name == "type":
        wanted = " or ".join(_TYPES.get(name, name) for name in said["types"])
        return [f"{where}: expected type: {wanted}, found: {_type_of(violation.instance)}"]
    if kind.name == "enum":
        return [f"{where}: {_told(violation.instance)} is not a valid enum value"]
    is_moment = kind.name == "pattern" and _pattern(said) == MOMENT
    if kind.name == "format" or is_moment:
        name = "date-time" if is_moment else _named(said["format"])
        return [f"{where}: [{_told(violation.instance)[1:-1]}] is not a valid {name}"]
    if kind.name == "pattern":
        return [f"{where}: string [{_told(violation.instance)[1:-1]}] does not match pattern {_pattern(said)}"]
    return [
        f"{where}: {_LIMITS[kind.name].format_map(said) if kind.name in _LIMITS else violation.message[:_RULE_CHARS]}"
    ]


_LIMITS: Final[Mapping[str, str]] = {
    "minLength": "expected minLength: {limit}",
    "maxLength": "expected maxLength: {limit}",
    "minItems": "expected minimum item count: {limit}",
    "maxItems": "expected maximum item count: {limit}",
    "minimum": "must be greater or equal to {limit}",
    "maximum": "must be less or equal to {limit}",
    "multipleOf": "must be a multiple of {multiple_of}",
    "uniqueItems": "array items are not unique",
    "minProperties": "minimum size: [{limit}]",
    "maxProperties": "maximum size: [{limit}]",
}


def _pattern(said: Mapping[str, Any]) -> str:
    """Return the pattern that was not matched; where matching is counted that is the message: see `MeteredPattern`."""
    return str(said.get("pattern") or said["message"])[:_RULE_CHARS]


def _type_of(value: Any) -> str:
    names: dict[type, str] = {
        str: "String", bool: "Boolean", int: "Integer", float: "Double", dict: "JSONObject", list: "JSONArray",
    }  # fmt: skip
    return names.get(type(value), "Null")


def _told(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_SHOWN_CHARS]


def _named(name: str | int) -> str:
    return str(name)[:_SHOWN_CHARS]
