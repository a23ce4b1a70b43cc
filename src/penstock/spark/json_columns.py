"""The columns that a JSON Schema has: Spark's type for the events that pass it.

| JSON Schema | Spark |
|---|---|
| `integer`, `number`, `boolean` | `bigint`, `double`, `boolean` |
| `string`; with `format` `date-time`, `date`, `decimal` | `string`; `timestamp`, `date`, `decimal(38,18)` |
| `array` | `array` of what its items are |
| `object` with `properties`; with `additionalProperties` alone | `struct`; `map` from `string` |
| what may be null, too | the same |
| `allOf` | all that its parts name |
| `anyOf`, `oneOf` | what fits all alternatives: structs with the members of each, `double` for both kinds of numbers |
| anything else: no type, several, a schema within itself | `string`: a text as it is, else its JSON |
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.schema.traversal import Schema, target

ANYTHING: Final = StringType()
_UNKNOWN: Final = None
"""What a schema says that says nothing of the type."""
DECIMAL: Final = DecimalType(38, 18)
_FORMATS: Final[dict[str, DataType]] = {"date-time": TimestampType(), "date": DateType()}
_SIMPLE: Final[dict[str, DataType]] = {"integer": LongType(), "number": DoubleType(), "boolean": BooleanType()}
_TEXTS: Final = MapType(StringType(), StringType())
METADATA: Final = StructType(
    [
        StructField("eid", StringType()),
        StructField("occurred_at", TimestampType()),
        StructField("received_at", TimestampType()),
        StructField("event_type", StringType()),
        StructField("partition", StringType()),
        StructField("version", StringType()),
        StructField("flow_id", StringType()),
        StructField("published_by", StringType()),
        StructField("parent_eids", ArrayType(StringType())),
        StructField("span_ctx", _TEXTS),
        StructField("partition_compaction_key", StringType()),
    ]
)
"""That of business and data events, with what the hub writes into it."""


def event_columns(schema: Schema, category: str) -> StructType:
    """Return the members of events of a *category* whose own part has this schema; without any where it names none.

    >>> event_columns({"properties": {"id": {"type": "integer"}}}, "undefined").simpleString()
    'struct<id:bigint>'
    """
    return _event(_Reading(schema).type_of(schema), category)


def decimal_texts(schema: Schema, category: str, events: StructType) -> frozenset[str]:
    """Return those decimals of *events* that the schema wants as strings: `string` with the `format` `decimal`.

    They are named as in `data.lines[].price` and `data.prices{}`.

    >>> amount = {"type": "string", "format": "decimal"}
    >>> kind = StructType().add("total", DecimalType(9, 2)).add("tax", DecimalType(9, 2))
    >>> sorted(decimal_texts({"properties": {"total": amount, "tax": {"type": "number"}}}, "undefined", kind))
    ['data.total']
    """
    read = dict(_leaves(event_columns(schema, category), "data"))
    as_strings = _event(_Reading(schema, decimal_string=StringType()).type_of(schema), category)
    strings = {name for name, kind in _leaves(as_strings, "data") if isinstance(kind, StringType)}
    decimals = {name for name, kind in _leaves(events, "data") if isinstance(kind, DecimalType)}
    return frozenset(name for name in decimals & strings if isinstance(read.get(name), DecimalType))


def has_decimals(kind: DataType) -> bool:
    """Return whether there are decimals in *kind*."""
    return any(isinstance(each, DecimalType) for _, each in _leaves(kind, ""))


def _leaves(kind: DataType, name: str) -> Iterator[tuple[str, DataType]]:
    match kind:
        case StructType():
            for field in kind.fields:
                yield from _leaves(field.dataType, f"{name}.{field.name}")
        case ArrayType():
            yield from _leaves(kind.elementType, f"{name}[]")
        case MapType():
            yield from _leaves(kind.valueType, f"{name}{{}}")
        case _:
            yield name, kind


def _event(own: DataType | None, category: str) -> StructType:
    """Return the members of events of a *category*, whose own part is of a type."""
    fields = own.fields if isinstance(own, StructType) else []
    if category == "undefined":
        return StructType(fields)
    metadata = StructField("metadata", METADATA)
    if category == "business":
        return _struct([*(each for each in fields if each.name != "metadata"), metadata])
    texts = [StructField(name, StringType()) for name in ("data_type", "data_op")]
    data = own if isinstance(own, StructType | MapType) else ANYTHING
    return StructType([*texts, StructField("data", data), metadata])


def merged(types: Iterable[StructType]) -> StructType:
    """Return what the events of several event types have together; *types* are those of each.

    >>> texts, numbers = (StructType().add("a", kind).add("b", LongType()) for kind in (StringType(), LongType()))
    >>> merged([texts, numbers]).simpleString()
    'struct<a:string,b:bigint>'
    """
    kinds: Iterable[DataType | None] = types
    found = reduce(_either, kinds)
    assert isinstance(found, StructType)
    return found


class _Reading:
    """Reads one schema, whose references lead to places within it."""

    def __init__(self, root: Schema, *, decimal_string: DataType = DECIMAL) -> None:
        self._root = root
        self._decimals = {"string": decimal_string, "number": DECIMAL}
        """The types of those with the `format` `decimal`."""
        self._within: list[str] = []
        """The references that are being followed."""

    def type_of(self, node: Any) -> DataType | None:
        """Return the type of a node; None: it says nothing of it."""
        if not isinstance(node, dict):
            return _UNKNOWN
        if isinstance(reference := node.get("$ref"), str):
            return self._followed(reference)
        found = [self._own(node), *map(self.type_of, _listed(node, "allOf"))]
        for word in ("anyOf", "oneOf"):
            kinds = [self.type_of(each) for each in _listed(node, word) if not _is_null(each)]
            if kinds:
                found.append(reduce(_either, kinds))
        return reduce(_both, found)

    def _followed(self, reference: str) -> DataType | None:
        if reference in self._within:
            return ANYTHING
        self._within.append(reference)
        try:
            return self.type_of(target(self._root, reference))
        finally:
            self._within.pop()

    def _own(self, node: Schema) -> DataType | None:
        """Return what a node says by its own words, without what it is combined of."""
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
            return ArrayType(self.type_of(items) or ANYTHING if isinstance(items, dict) else ANYTHING)
        if node.get("format") == "decimal" and name in self._decimals:
            return self._decimals[name]
        if name == "string":
            return _FORMATS.get(str(node.get("format")), StringType())
        return _SIMPLE.get(name, ANYTHING)

    def _object(self, node: Schema) -> DataType | None:
        properties, others = node.get("properties"), node.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            return _struct(StructField(name, self.type_of(each) or ANYTHING) for name, each in properties.items())
        if isinstance(others, dict) and "patternProperties" not in node:
            return MapType(StringType(), self.type_of(others) or ANYTHING)
        # What it is combined of may name members; where nothing does, it is anything.
        return _UNKNOWN if any(word in node for word in ("allOf", "anyOf", "oneOf")) else ANYTHING


def _types(node: Schema) -> set[str]:
    """Return which types a node allows by its own words, but null; none: it does not say."""
    given = node.get("type")
    if given is None:
        values = [node["const"]] if "const" in node else node.get("enum")
        if isinstance(values, list) and values:
            return {_named(value) for value in values} - {"null"}
        typical = {"object": ("properties", "additionalProperties", "required"), "array": ("items",)}
        return {name for name, words in typical.items() if any(word in node for word in words)}
    return {str(each) for each in (given if isinstance(given, list) else [given])} - {"null"}


def _named(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and (node.get("type") == "null" or node.get("enum") == [None])


def _listed(node: Schema, word: str) -> list[Any]:
    held = node.get(word)
    return held if isinstance(held, list) else []


def _struct(fields: Iterable[StructField]) -> StructType:
    """Return a struct of them, but of names that differ in nothing but case the first alone, as Spark tells them."""
    found: dict[str, StructField] = {}
    for field in fields:
        found.setdefault(field.name.lower(), field)
    return StructType([*found.values()])


def _both(one: DataType | None, other: DataType | None) -> DataType | None:
    """Return the type of what is of both."""
    if one is None or other is None:
        return one or other
    return _together(one, other, _both) or one


def _either(one: DataType | None, other: DataType | None) -> DataType | None:
    """Return the type of what may be of one or the other."""
    if one is None or other is None or one == other:
        return one if one == other else ANYTHING
    numbers = (LongType, DoubleType)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return DoubleType()
    return _together(one, other, _either) or ANYTHING


def _together(one: DataType, other: DataType, join: Any) -> DataType | None:
    """Return what two types are that are made of others in the same way; None: they are not."""
    if isinstance(one, StructType) and isinstance(other, StructType):
        theirs = {field.name.lower(): field for field in other.fields}
        names = {field.name.lower() for field in one.fields}
        fields = [
            StructField(field.name, join(field.dataType, theirs[field.name.lower()].dataType))
            if field.name.lower() in theirs and theirs[field.name.lower()].name == field.name
            else field
            for field in one.fields
        ]
        return StructType([*fields, *(each for each in other.fields if each.name.lower() not in names)])
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(join(one.elementType, other.elementType))
    if isinstance(one, MapType) and isinstance(other, MapType):
        return MapType(StringType(), join(one.valueType, other.valueType))
    return None
