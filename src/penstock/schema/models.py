"""Makes the schema of an event type from the Python class of its events.

1. Lists the types that a type consists of, as msgspec describes them: Structs, dataclasses, typed dictionaries.
2. Makes a JSON Schema (2020-12) of them. It is msgspec's own, and adds that datetimes are date-times with a zone,
unless `msgspec.Meta(tz=False)` says that they have none.
3. Translates it into draft-04, with the keywords that the mode `compatible` allows. Equivalent schemas are normalised
to one spelling, so schemas of equal types are equal.

`DataChange` is the class of events of the category `data`.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from inspect import cleandoc
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from penstock.errors import BadParameter
from penstock.schema import pydantic_models as pydantic_model
from penstock.schema.pydantic_models import is_pydantic
from penstock.schema.traversal import COMBINED, Schema, children, list_nodes, steps

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Entity = TypeVar("Entity", default=Any)
else:
    from typing import TypeVar

    Entity = TypeVar("Entity")


_OPERATIONS: Final = ("C", "U", "D", "S")


class DataChange(msgspec.Struct, Generic[Entity], frozen=True, omit_defaults=True):
    """A change of a record; `DataChange[Order]` is a change of an Order.

    It has the members of Nakadi's data events. It is encoded as such an event, and data events are decoded into it.

    Raises:
        BadParameter: the type is not a string, or the operation is none of the four.

    >>> DataChange("order", "U", {"order_id": 7}).data
    {'order_id': 7}
    """

    data_type: str
    """The type of the record: the event's kind."""
    data_op: Literal["C", "U", "D", "S"]
    """C: the record was created; U: updated; D: deleted; S: a snapshot of its current state."""
    data: Entity
    """The record: a mapping, a dataclass, a Struct or a pydantic model."""
    metadata: dict[str, Any] | None = None
    """The event's metadata. A missing id or time is filled in before the event is published."""

    def __post_init__(self) -> None:
        if not isinstance(self.data_type, str):
            raise BadParameter(parameter="data_type", value=self.data_type, allowed="a name, such as 'order'")
        if self.data_op not in _OPERATIONS:
            allowed = "C (created), U (updated), D (deleted) or S (snapshot)"
            raise BadParameter(parameter="data_op", value=self.data_op, allowed=allowed)


def type_nodes(kind: Any) -> Iterator[Any]:
    """Yield msgspec's description of *kind*, and of each type within it, once.

    Raises:
        TypeError: msgspec cannot describe it.

    >>> [type(node).__name__ for node in type_nodes(dict[str, list[int]])]
    ['DictType', 'StrType', 'ListType', 'IntType']
    """
    known: set[int] = set()
    waiting: list[Any] = [inspect.type_info(kind)]
    while waiting:
        found = waiting.pop()
        if isinstance(found, tuple):
            waiting += reversed(found)
        elif isinstance(found, inspect.Type | inspect.Field) and id(found) not in known:
            known.add(id(found))
            if isinstance(found, inspect.Type):
                yield found
            waiting += [getattr(found, name) for name in reversed(found.__struct_fields__)]


_KEPT: Final = (
    *("title", "description", "type", "format", "pattern", "minimum", "maximum", "multipleOf", "minLength"),
    *("maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)
_TYPES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    list: "array",
    dict: "object",
}
_STRANGE_FORMATS: Final = ("binary", "base64url", "time")
"""No validator checks the first two. The third requires a zone, which times of day mostly lack."""
_NULL: Final = {"type": "null"}
_ANY_NAME: Final = ".*"
ANYTHING: Final[Schema] = {"patternProperties": {_ANY_NAME: {}}}
"""Accepts every value. An empty schema, `{}`, would be closed to all members in the mode `compatible`."""


def convert_to_draft_four(schema: Schema) -> Schema:
    """Return *schema* in draft-04; a reference at the root is replaced by its target.

    It is open, as the event guidelines ask for ("Avoid additionalProperties in event type definitions").
    `patternProperties` describes members of any name, since `additionalProperties` is closed in the mode `compatible`.

    >>> convert_to_draft_four({"type": "object", "properties": {"n": {"const": 1}}, "additionalProperties": False})
    {'type': 'object', 'properties': {'n': {'enum': [1], 'type': 'integer'}}}
    """
    definitions = schema.get("$defs", {}) | schema.get("definitions", {})
    made = {name: _convert(each) for name, each in definitions.items()}
    root = _convert({word: value for word, value in schema.items() if word not in ("$defs", "definitions")})
    for _ in made:
        if "$ref" not in root:
            break
        root = dict(made[_name(root["$ref"])])
    return add_definitions(root, made)


def add_definitions(root: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return *root* with those of *definitions* that it refers to, directly or indirectly."""
    wanted: list[str] = []
    waiting = [root]
    while waiting:
        for _, node in list_nodes(waiting.pop()):
            name = _name(node["$ref"]) if "$ref" in node else None
            if name is not None and name not in wanted:
                wanted.append(name)
                waiting.append(definitions[name])
    own = {word: value for word, value in root.items() if word != "definitions"}
    return own | ({"definitions": {name: definitions[name] for name in sorted(wanted)}} if wanted else {})


def _name(reference: str) -> str:
    return steps(reference)[-1]


def _convert(schema: Any) -> Schema:
    if schema is True or not isinstance(schema, dict):
        return dict(ANYTHING)
    if "$ref" in schema:  # Draft-04 ignores keywords beside $ref.
        return {"$ref": schema["$ref"].replace("#/$defs/", "#/definitions/")}
    made = {word: schema[word] for word in _KEPT if word in schema}
    if made.get("format") in _STRANGE_FORMATS:
        del made["format"]
    made |= _values(schema) | _bounds(schema) | _members(schema) | _items(schema)
    for method in COMBINED:
        if method in schema:
            made = _combine(
                made, "anyOf" if "discriminator" in schema else method, [_convert(each) for each in schema[method]]
            )
    if (default := schema.get("default")) is not None and _is_plain(default):
        made["default"] = default
    if not made.keys() - {"title", "description", "default"}:
        made |= ANYTHING
    return made


def _values(schema: Schema) -> Schema:
    if "const" not in schema and "enum" not in schema:
        return {}
    values = [schema["const"]] if "const" in schema else schema["enum"]
    values = sorted(values, key=lambda value: (value is None, msgspec.json.encode(value)))
    types = list(dict.fromkeys(_TYPES[type(value)] for value in values))
    return {"enum": values, "type": types[0] if len(types) == 1 else types}


def _bounds(schema: Schema) -> Schema:
    """Return exclusive bounds in the form of draft-04: a flag beside the bound."""
    made: Schema = {}
    for bound, exclusive, stricter in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min)):
        limit = schema.get(exclusive)
        if isinstance(limit, bool) or limit is None:
            made |= {exclusive: True} if limit and bound in schema else {}
        elif stricter(limit, schema.get(bound, limit)) == limit:
            made |= {bound: limit, exclusive: True}
    return made


def _members(schema: Schema) -> Schema:
    made: Schema = {}
    if "properties" in schema:
        made["properties"] = {name: _convert(each) for name, each in schema["properties"].items()}
    if schema.get("required"):
        made["required"] = list(schema["required"])
    patterns = dict(schema.get("patternProperties", {}))
    rest = schema.get("additionalProperties", False)
    if isinstance(rest, dict) or (rest is True and "properties" not in schema):
        patterns[_ANY_NAME] = rest
    if patterns:
        made["patternProperties"] = {
            name: _convert(each) if each not in ({}, True) else {} for name, each in patterns.items()
        }
    return made


def _items(schema: Schema) -> Schema:
    if "prefixItems" in schema:
        count = len(schema["prefixItems"])
        items = {"items": [_convert(each) for each in schema["prefixItems"]]} if count else {}
        return {**items, "minItems": count, "maxItems": count}
    if schema.get("type") == "array" or "items" in schema:
        return {"items": _convert(schema.get("items", True))}
    return {}


def _combine(made: Schema, method: str, branches: list[Schema]) -> Schema:
    """Return the combination of *made* and of the *branches* under *method*."""
    if method == "anyOf":
        branches = [within for each in branches for within in (each["anyOf"] if each.keys() == {"anyOf"} else [each])]
    if len(branches) == 1:
        return branches[0] if "$ref" in branches[0] else branches[0] | made
    if method == "allOf":
        return made | {method: branches}
    others = sorted((each for each in branches if each != _NULL), key=msgspec.json.encode)
    nullable = len(others) < len(branches)
    if all(each.keys() == {"type"} for each in others):
        types = list(dict.fromkeys(name for each in others for name in _as_list(each["type"])))
        return made | {"type": [*types, *(["null"] if nullable else [])]}
    if nullable and len(others) == 1 and "type" in others[0] and "$ref" not in others[0]:
        [other] = others
        values = {"enum": [*other["enum"], None]} if "enum" in other else {}
        return other | values | made | {"type": [*_as_list(other["type"]), "null"]}
    return made | {method: [*others, *([_NULL] if nullable else [])]}


def _as_list(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


_UNNAMEABLE: Final = re.compile(r"\W")
_FORMATS: Final[dict[Any, str]] = {
    inspect.DateTimeType: "date-time",
    inspect.DateType: "date",
    inspect.DecimalType: "decimal",
    inspect.TimeDeltaType: "duration",
    inspect.UUIDType: "uuid",
}
_SIMPLE: Final[dict[Any, str]] = {
    inspect.BoolType: "boolean",
    inspect.ByteArrayType: "string",
    inspect.BytesType: "string",
    inspect.MemoryViewType: "string",
    inspect.NoneType: "null",
    inspect.TimeType: "string",
}
_BOUNDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_CLASSES: Final[dict[Any, str]] = {
    inspect.CustomType: "_model",
    inspect.DataclassType: "_object",
    inspect.EnumType: "_enum",
    inspect.StructType: "_object",
    inspect.TypedDictType: "_object",
}
"""Methods for types that are defined once and referred to."""
_OTHERS: Final[dict[Any, str]] = {
    inspect.AnyType: "_anything",
    inspect.DictType: "_mapping",
    inspect.FloatType: "_number",
    inspect.FrozenSetType: "_array",
    inspect.IntType: "_number",
    inspect.ListType: "_array",
    inspect.LiteralType: "_literal",
    inspect.Metadata: "_metadata",
    inspect.RawType: "_anything",
    inspect.SetType: "_array",
    inspect.StrType: "_text",
    inspect.TupleType: "_tuple",
    inspect.UnionType: "_union",
    inspect.VarTupleType: "_array",
}


def struct_schema(kind: Any) -> Schema:
    """Return the JSON Schema (2020-12) of *kind* in its encoded form, with its references under `definitions`.

    Raises:
        TypeError: *kind*, or the type of a member, is not supported.
    """
    schemas = _Schemas(kind)
    return schemas.of(inspect.type_info(kind)) | {"definitions": schemas.definitions}


class _Schemas:
    def __init__(self, kind: Any) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names = _names(kind)

    def of(self, info: Any) -> Schema:
        """Return the schema of one type; for a class, a reference to its definition."""
        kind = type(info)
        if kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        if kind is inspect.DateTimeType and info.tz is False:
            return {"type": "string"}  # RFC 3339's date-time requires a zone.
        if kind in _FORMATS:
            return {"type": "string", "format": _FORMATS[kind]}
        if kind in _CLASSES and (kind is not inspect.CustomType or is_pydantic(info.cls)):
            return self._define(info.cls, lambda: getattr(self, _CLASSES[kind])(info))
        if kind in _OTHERS:
            made: Schema = getattr(self, _OTHERS[kind])(info)
            return made
        raise TypeError(f"{getattr(info, 'cls', kind)} has no schema: use a Struct, a dataclass or a pydantic model")

    def _anything(self, _: Any) -> Schema:
        return {}

    def _number(self, info: Any) -> Schema:
        bounds = {word: getattr(info, name) for name, word in _BOUNDS.items()}
        return {"type": "integer" if isinstance(info, inspect.IntType) else "number"} | _drop_none(bounds)

    def _text(self, info: Any) -> Schema:
        return {"type": "string"} | _drop_none(
            {"minLength": info.min_length, "maxLength": info.max_length, "pattern": info.pattern}
        )

    def _literal(self, info: Any) -> Schema:
        return {"enum": [*info.values]}

    def _union(self, info: Any) -> Schema:
        return {"anyOf": [self.of(each) for each in info.types]}

    def _metadata(self, info: Any) -> Schema:
        return self.of(info.type) | (info.extra_json_schema or {})

    def _mapping(self, info: Any) -> Schema:
        counts = {"minProperties": info.min_length, "maxProperties": info.max_length}
        return {"type": "object", "additionalProperties": self.of(info.value_type)} | _drop_none(counts)

    def _enum(self, info: Any) -> Schema:
        return {"enum": msgspec.to_builtins([*info.cls])}

    def _tuple(self, info: Any) -> Schema:
        return {"type": "array", "prefixItems": [self.of(each) for each in info.item_types]}

    def _define(self, cls: Any, make: Callable[[], Schema]) -> Schema:
        name = self._names[cls]
        if name not in self.definitions:
            self.definitions[name] = {}  # The type can refer to itself.
            self.definitions[name] = {"title": _title(cls)} | _description(cls) | make()
        return {"$ref": f"#/definitions/{name}"}

    def _model(self, info: Any) -> Schema:
        prefix = f"{self._names[info.cls]}."  # Its definitions can have the names of others.
        found = pydantic_model.make_schema(info.cls, prefix)
        self.definitions |= {prefix + name: each for name, each in found.pop("$defs", {}).items()}
        return found

    def _array(self, info: Any) -> Schema:
        unique = True if isinstance(info, inspect.SetType | inspect.FrozenSetType) else None
        counts = {"minItems": info.min_length, "maxItems": info.max_length, "uniqueItems": unique}
        return {"type": "array", "items": self.of(info.item_type)} | _drop_none(counts)

    def _object(self, info: Any) -> Schema:
        if getattr(info, "array_like", False):
            raise TypeError(f"{_title(info.cls)} is written as an array, and a member of one cannot be known by name")
        properties: dict[str, Schema] = {}
        required = []
        if getattr(info, "tag_field", None) is not None:
            properties[info.tag_field] = {"enum": [info.tag]}
            required.append(info.tag_field)
        for field in info.fields:
            try:
                node = self.of(field.type)
            except TypeError as error:
                raise TypeError(f"{_title(info.cls)}.{field.name}: {error}") from error
            if field.default is not msgspec.NODEFAULT:
                node = node | {"default": msgspec.to_builtins(field.default, enc_hook=lambda _: None)}
            properties[field.encode_name] = node
            if field.required:
                required.append(field.encode_name)
        return {"type": "object", "properties": properties, "required": required}


def _names(kind: Any) -> dict[Any, str]:
    """Return the definition names of the classes within *kind*: with the module if two classes have the same name."""
    classes = {node.cls: None for node in type_nodes(kind) if hasattr(node, "cls")}
    titles = Counter(map(_title, classes))
    return {
        cls: _UNNAMEABLE.sub("_", _title(cls) if titles[_title(cls)] == 1 else f"{cls.__module__}.{_title(cls)}")
        for cls in classes
    }


def _title(cls: Any) -> str:
    origin, arguments = get_origin(cls), get_args(cls)
    if origin is not None and arguments:
        return f"{origin.__name__}[{', '.join(map(_title, arguments))}]"
    return getattr(cls, "__name__", str(cls))


def _description(cls: Any) -> Schema:
    origin = get_origin(cls) or cls
    text = cleandoc(origin.__doc__ or "") if "__doc__" in vars(origin) else ""
    is_made = text.startswith(f"{origin.__name__}(") or text == "An enumeration."  # Generated by dataclasses or enum.
    return {"description": text} if text and not is_made else {}


def _drop_none(words: dict[str, Any]) -> Schema:
    return {word: value for word, value in words.items() if value is not None}


_ZONE: Final = re.compile(r"(Z|[+-]\d\d:\d\d)$")


def entity_type(model: Any) -> Any:
    """Return the type of the record: `Order` for `DataChange[Order]`; None if *model* is not a data change."""
    return get_args(model)[0] if get_origin(model) is DataChange else None


def model_schema(model: Any, *, business: bool = False) -> Schema:
    """Return the schema for events that are instances of *model*: a Struct, a dataclass or a pydantic model.

    It is valid in each compatibility mode, `compatible` included, and describes all three sorts alike: the JSON form of
    an instance, the members that are always present (those without a default), and the possible values. A datetime is
    an RFC 3339 date-time, which has a time zone; one that is declared to have none is a string. For *business* events
    the member `metadata` is left out, since it comes with the category. For a `DataChange` it is the schema of the
    record.

    Raises:
        TypeError: *model* is none of these; or a member has a type without a schema, or a datetime without a time zone
            as its default; the error names it.

    >>> from dataclasses import make_dataclass
    >>> model_schema(make_dataclass("Order", [("order_id", int)]))["required"]
    ['order_id']
    """
    kind = entity_type(model) or model
    if get_origin(kind) in (Union, UnionType):
        raise TypeError("a union is no event type's: make one for each of the classes, or a member that is a union")
    if not (isinstance(kind, type) or get_origin(kind) is not None):
        raise TypeError(f"{kind!r} is no class")
    made = convert_to_draft_four(pydantic_model.make_schema(kind) if is_pydantic(kind) else struct_schema(kind))
    if made.get("type") != "object":
        raise TypeError(f"{getattr(kind, '__qualname__', kind)} is no object in JSON, which an event has to be")
    _check_defaults(made, "the class")
    return _drop_metadata(made) if business else made


def _check_defaults(node: Any, name: str) -> None:
    """Raise TypeError if the default of a date-time has no time zone."""
    if not isinstance(node, dict):
        return
    default = node.get("default")
    if node.get("format") == "date-time" and isinstance(default, str) and not _ZONE.search(default):
        advice = "give it one, or declare that it has none: Annotated[datetime, msgspec.Meta(tz=False)], NaiveDatetime"
        raise TypeError(f"{name}: its default {default} has no time zone; {advice}")
    for way, child in children(node):
        _check_defaults(child, way[-1] if way[0] == "properties" else name)


def _drop_metadata(schema: Schema) -> Schema:
    properties = {name: node for name, node in schema.get("properties", {}).items() if name != "metadata"}
    required = [name for name in schema.get("required", []) if name != "metadata"]
    root = {word: value for word, value in schema.items() if word not in ("required", "definitions")}
    root |= {"properties": properties} | ({"required": required} if required else {})
    return add_definitions(root, schema.get("definitions", {}))
