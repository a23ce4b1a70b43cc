"""The typed columns of a JSON Schema: Arrow's type for the events that are valid against it.

| JSON Schema | Arrow | Spark |
|---|---|---|
| `integer`, `number`, `boolean` | `int64`, `double`, `bool` | `bigint`, `double`, `boolean` |
| `string` | `string` | `string` |
| `string` with `format` `date-time`, `date` | `timestamp` (µs, UTC), `date32` | `timestamp`, `date` |
| `string` or `number` with `format` `decimal` | `decimal128(38, 18)` | `decimal(38,18)` |
| `array` | `list` of the type of its items | `array` |
| `object` with `properties` | `struct` | `struct` |
| `object` with `additionalProperties` alone | `map` from `string` | `map` |
| any of these, or null | the same type | |
| `allOf` | structs with the members of all parts; else the type of the first part that has one | |
| `anyOf`, `oneOf` | a type that fits all: structs with the members of each, `double` for both kinds of numbers | |
| anything else: no type, several, a schema within itself | `string`: a text as it is, else its JSON | |

A schema whose references multiply is read up to `NODES_MAX` of its places; the others are anything.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from penstock.schema.traversal import Schema, target

ANYTHING: Final = pa.string()
_UNKNOWN: Final = None
"""The type according to a schema that does not restrict it."""
NODES_MAX: Final = 20_000
DECIMAL: Final = pa.decimal128(38, 18)
TIME: Final = pa.timestamp("us", tz="UTC")
_FORMATS: Final = {"date-time": TIME, "date": pa.date32()}
_SIMPLE: Final = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_NUMBERS: Final = (pa.int64(), pa.float64())


def list_of(item: pa.DataType) -> pa.ListType:
    """Return the type of arrays, named as Spark and Parquet name it."""
    return pa.list_(pa.field("element", item))


def map_of(value: pa.DataType) -> pa.MapType:
    """Return the type of maps from texts, named as Spark and Parquet name it."""
    return pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", value))


METADATA: Final = pa.struct(
    [
        pa.field("eid", pa.string()),
        pa.field("occurred_at", TIME),
        pa.field("received_at", TIME),
        pa.field("event_type", pa.string()),
        pa.field("partition", pa.string()),
        pa.field("version", pa.string()),
        pa.field("flow_id", pa.string()),
        pa.field("published_by", pa.string()),
        pa.field("parent_eids", list_of(pa.string())),
        pa.field("span_ctx", map_of(pa.string())),
        pa.field("partition_compaction_key", pa.string()),
    ]
)
"""That of business and data events, with what the hub writes into it."""


def event_columns(schema: Schema, category: str) -> pa.StructType:
    """Return the typed members of events of a *category* whose own part, such as `data`, has this schema.

    The part has no members if its schema names none.

    >>> event_columns({"properties": {"id": {"type": "integer"}}}, "undefined")
    StructType(struct<id: int64>)
    """
    return _event(_Reading(schema).type_of(schema), category)


def decimal_strings(schema: Schema, category: str) -> frozenset[str]:
    """Return the paths of decimals that are strings in JSON: of type `string` with the `format` `decimal`.

    Paths have the form of `data.lines[].price` and `data.prices{}`.

    >>> amount = {"type": "string", "format": "decimal"}
    >>> sorted(decimal_strings({"properties": {"total": amount, "tax": {"type": "number"}}}, "undefined"))
    ['data.total']
    """
    read = dict(_leaves(event_columns(schema, category), "data"))
    as_strings = _event(_Reading(schema, decimal_string=pa.string()).type_of(schema), category)
    strings = {name for name, kind in _leaves(as_strings, "data") if pa.types.is_string(kind)}
    return frozenset(name for name in strings if name in read and pa.types.is_decimal(read[name]))


def _leaves(kind: pa.DataType, name: str) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type, f"{name}.{field.name}")
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_type, f"{name}[]")
    elif pa.types.is_map(kind):
        yield from _leaves(kind.item_type, f"{name}{{}}")
    else:
        yield name, kind


def _event(own: pa.DataType | None, category: str) -> pa.StructType:
    """Return the type of events of a *category*, whose own part has the given type."""
    fields = list(own) if own is not None and pa.types.is_struct(own) else []
    if category == "undefined":
        return pa.struct(fields)
    metadata = pa.field("metadata", METADATA)
    if category == "business":
        return _struct([*(each for each in fields if each.name != "metadata"), metadata])
    texts = [pa.field(name, pa.string()) for name in ("data_type", "data_op")]
    data = own if own is not None and (pa.types.is_struct(own) or pa.types.is_map(own)) else ANYTHING
    return pa.struct([*texts, pa.field("data", data), metadata])


def merge(types: Iterable[pa.StructType]) -> pa.StructType:
    """Return the type of the events of several event types, which have *types*: all members of each.

    >>> texts, numbers = (pa.struct({"a": kind, "b": pa.int64()}) for kind in (pa.string(), pa.int64()))
    >>> merge([texts, numbers])
    StructType(struct<a: string, b: int64>)
    """
    return reduce(_either, types)


class _Reading:
    """Derives types from one schema, whose references lead to places within it."""

    def __init__(self, root: Schema, *, decimal_string: pa.DataType = DECIMAL) -> None:
        self._root = root
        self._nodes = 0
        self._decimals = {"string": decimal_string, "number": DECIMAL}
        """The types of those with the `format` `decimal`."""
        self._within: list[str] = []
        """The references that are being followed."""

    def type_of(self, node: Any) -> pa.DataType | None:
        """Return the type of a node; None: the node does not restrict it."""
        if not isinstance(node, dict):
            return _UNKNOWN
        self._nodes += 1
        if self._nodes > NODES_MAX:
            return ANYTHING
        if isinstance(reference := node.get("$ref"), str):
            return self._follow(reference)
        found = [self._own(node), *map(self.type_of, _list_members(node, "allOf"))]
        for word in ("anyOf", "oneOf"):
            kinds = [self.type_of(each) for each in _list_members(node, word) if not _is_null(each)]
            if kinds:
                found.append(reduce(_either, kinds))
        return reduce(_both, found)

    def _item_type(self, node: Any) -> pa.DataType:
        """Return the type of a member of an object or an item of an array."""
        found = self.type_of(node)
        return ANYTHING if found is None else found

    def _follow(self, reference: str) -> pa.DataType | None:
        if reference in self._within:
            return ANYTHING
        self._within.append(reference)
        try:
            return self.type_of(target(self._root, reference))
        finally:
            self._within.pop()

    def _own(self, node: Schema) -> pa.DataType | None:
        """Return the type according to a node itself, without `allOf`, `anyOf` and `oneOf`."""
        names = _types(node)
        if names == {"integer", "number"}:
            names = {"number"}
        if len(names) != 1:
            return ANYTHING if names else _UNKNOWN
        (name,) = names
        if name == "object":
            return self._object(node)
        if name == "array":
            items = node.get("items")
            return list_of(self._item_type(items))
        if node.get("format") == "decimal" and name in self._decimals:
            return self._decimals[name]
        if name == "string":
            return _FORMATS.get(str(node.get("format")), pa.string())
        return _SIMPLE.get(name, ANYTHING)

    def _object(self, node: Schema) -> pa.DataType | None:
        properties, others = node.get("properties"), node.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            return _struct(pa.field(name, self._item_type(each)) for name, each in properties.items())
        if isinstance(others, dict) and "patternProperties" not in node:
            return map_of(self._item_type(others))
        # What it is combined of may name members; where nothing does, it is anything.
        return _UNKNOWN if any(word in node for word in ("allOf", "anyOf", "oneOf")) else ANYTHING


def _types(node: Schema) -> set[str]:
    """Return the JSON types that a node itself allows, except null; empty: it does not restrict them."""
    given = node.get("type")
    if given is None:
        values = [node["const"]] if "const" in node else node.get("enum")
        if isinstance(values, list) and values:
            return {_name_type(value) for value in values} - {"null"}
        typical = {"object": ("properties", "additionalProperties", "required"), "array": ("items",)}
        return {name for name, words in typical.items() if any(word in node for word in words)}
    return {str(each) for each in (given if isinstance(given, list) else [given])} - {"null"}


def _name_type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and (node.get("type") == "null" or node.get("enum") == [None])


def _list_members(node: Schema, word: str) -> list[Any]:
    held = node.get(word)
    return held if isinstance(held, list) else []


def _struct(fields: Iterable[pa.Field]) -> pa.StructType:
    """Return a struct of *fields*; of names that differ only in case it has the first, as Spark and SQL do."""
    found: dict[str, pa.Field] = {}
    for field in fields:
        found.setdefault(field.name.lower(), field)
    return pa.struct([*found.values()])


def _both(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    """Return the type of values that are valid for both types."""
    if one is None or other is None:
        return one if other is None else other
    joined = _together(one, other, _both)
    return one if joined is None else joined


def _either(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    """Return the type of values that are valid for either type."""
    if one is None or other is None or one == other:
        return one if one == other else ANYTHING
    if one in _NUMBERS and other in _NUMBERS:
        return pa.float64()
    joined = _together(one, other, _either)
    return ANYTHING if joined is None else joined


def _together(one: pa.DataType, other: pa.DataType, join: Any) -> pa.DataType | None:
    """Join two structs, lists or maps by joining their parts with *join*; None: they are of different kinds."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        theirs = {field.name.lower(): field for field in other}
        names = {field.name.lower() for field in one}
        fields = [
            pa.field(field.name, join(field.type, theirs[field.name.lower()].type))
            if field.name.lower() in theirs and theirs[field.name.lower()].name == field.name
            else field
            for field in one
        ]
        return pa.struct([*fields, *(each for each in other if each.name.lower() not in names)])
    if pa.types.is_list(one) and pa.types.is_list(other):
        return list_of(join(one.value_type, other.value_type))
    if pa.types.is_map(one) and pa.types.is_map(other):
        return map_of(join(one.item_type, other.item_type))
    return None
