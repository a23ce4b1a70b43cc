"""Validates events by the effective schema of their event type, a batch at a time."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.core.effective import effective_schema
from penstock.core.schema import dialect, is_empty, parse_schema
from penstock.core.walk import Schema, mapped, redirected, shown

VALIDATORS_MAX: Final = 1_024
"""How many compiled schemas a process keeps."""
VIOLATIONS_MAX: Final = 20
"""How many violations of one event are told."""
_SHOWN_CHARS: Final = 200
_TYPES: Final = {
    "string": "String", "integer": "Integer", "number": "Number", "boolean": "Boolean",
    "object": "JSONObject", "array": "JSONArray", "null": "Null",
}  # fmt: skip
_OCCURRED_AT: Final = ["metadata", "occurred_at"]


class Validator:
    """What the events of one event type must be."""

    def __init__(self, schema: Schema) -> None:
        """Compile the effective *schema*."""
        schema = _naming(schema)
        self._schema = schema
        self._passes_all = is_empty({name: value for name, value in schema.items() if name != "type"})
        self._one = _compiled(schema)
        self._many: jsonschema_rs.Validator = _compiled(_listed(schema))

    def first_invalid(self, events: Sequence[dict[str, Any]]) -> int | None:
        """Return which of *events* is the first that is not valid; None when all are.

        All are looked at together, which takes a third of what looking at each would.
        """
        if self._passes_all or self._many.is_valid(events):
            return None
        return next((number for number, event in enumerate(events) if not self._one.is_valid(event)), None)

    def why(self, event: dict[str, Any]) -> str:
        """Return what is wrong with *event*, in Nakadi's words where it has some (digest of its contract, 3.4).

        >>> Validator({"required": ["order_id"]}).why({})
        '#: required key [order_id] not found'
        """
        texts = []
        for violation in self._one.iter_errors(event):
            texts += _texts(violation)
            if len(texts) >= VIOLATIONS_MAX:
                break
        texts = list(dict.fromkeys(texts))
        if len(texts) == 1:
            return texts[0]
        return "\n".join([f"#: {len(texts)} schema violations found", *texts])


@lru_cache(maxsize=VALIDATORS_MAX)
def validator(text: str, *, name: str, category: str, compatible: bool, compacted: bool) -> Validator:
    """Return who validates the events of an event type whose owner has given it the schema *text*."""
    given = parse_schema(text)
    return Validator(effective_schema(given, name=name, category=category, compatible=compatible, compacted=compacted))


def is_currency(text: str) -> bool:
    """Tell whether *text* has the form of a currency's code (ISO 4217).

    >>> is_currency("EUR"), is_currency("eur")
    (True, False)
    """
    return len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()


def _compiled(schema: Schema) -> jsonschema_rs.Validator:
    return dialect(schema)(
        schema,
        formats={"iso-4217": is_currency, "ISO-4217": is_currency},
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(),
        offline=True,
    )


def _naming(node: Any) -> Any:
    """Return a schema that means the same, by which whatever is one member too many is told by its name."""
    if not isinstance(node, dict):
        return node
    copy = mapped(node, _naming)
    return {"properties": {}} | copy if copy.get("additionalProperties") is False else copy


def _listed(schema: Schema) -> Schema:
    """Return the schema of a list of what *schema* describes."""
    items = redirected(schema, lambda reference: "#/items" + reference[1:])
    spoken = {"$schema": items.pop("$schema")} if "$schema" in items else {}
    return {**spoken, "type": "array", "items": items}


def _texts(violation: jsonschema_rs.ValidationError) -> list[str]:
    at = violation.instance_path
    where = shown(tuple(map(str, at)))
    kind = violation.kind
    if at == _OCCURRED_AT and kind.name in ("format", "pattern"):
        return [f"{where}:must be a valid date-time"]
    said = kind.as_dict()
    if kind.name == "required":
        return [f"{where}: required key [{said['property']}] not found"]
    if kind.name == "additionalProperties":
        return [f"{where}: extraneous key [{name}] is not permitted" for name in said["unexpected"]]
    if kind.name == "type":
        wanted = " or ".join(_TYPES.get(name, name) for name in said["types"])
        return [f"{where}: expected type: {wanted}, found: {_type_of(violation.instance)}"]
    if kind.name == "enum":
        return [f"{where}: {_told(violation.instance)} is not a valid enum value"]
    if kind.name == "pattern":
        return [f"{where}: string [{_told(violation.instance)[1:-1]}] does not match pattern {said['pattern']}"]
    if kind.name == "format":
        return [f"{where}: [{_told(violation.instance)[1:-1]}] is not a valid {said['format']}"]
    return [f"{where}: {_LIMITS[kind.name].format_map(said) if kind.name in _LIMITS else violation.message[:400]}"]


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


def _type_of(value: Any) -> str:
    names: dict[type, str] = {
        str: "String", bool: "Boolean", int: "Integer", float: "Double", dict: "JSONObject", list: "JSONArray",
    }  # fmt: skip
    return names.get(type(value), "Null")


def _told(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_SHOWN_CHARS]
