"""The JSON Schema of what msgspec knows: Structs, dataclasses, typed dictionaries, and all that these hold.

It says what msgspec's own says, and a little more: that datetimes are date-times, with a zone, unless
`msgspec.Meta(tz=False)` says that they have none.
"""

import re
from collections import Counter
from collections.abc import Callable
from inspect import cleandoc
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import inspect

from penstock.core import pydantic_model
from penstock.core.pydantic_model import is_pydantic
from penstock.core.type_nodes import type_nodes
from penstock.core.walk import Schema

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
"""How to make what is defined once and referred to."""
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


def schema(kind: Any) -> Schema:
    """Return the JSON Schema (2020-12) of *kind* as it is encoded, with what it refers to under `definitions`.

    Raises:
        TypeError: *kind*, or the type of a member, is of no sort that is known here.
    """
    schemas = _Schemas(kind)
    return schemas.of(inspect.type_info(kind)) | {"definitions": schemas.definitions}


class _Schemas:
    def __init__(self, kind: Any) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names = _names(kind)

    def of(self, info: Any) -> Schema:
        """Return the schema of one type; of a class, a reference to its definition."""
        kind = type(info)
        if kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        if kind is inspect.DateTimeType and info.tz is False:
            return {"type": "string"}  # RFC 3339's date-time has a zone.
        if kind in _FORMATS:
            return {"type": "string", "format": _FORMATS[kind]}
        if kind in _CLASSES and (kind is not inspect.CustomType or is_pydantic(info.cls)):
            return self._defined(info.cls, lambda: getattr(self, _CLASSES[kind])(info))
        if kind in _OTHERS:
            made: Schema = getattr(self, _OTHERS[kind])(info)
            return made
        raise TypeError(f"{getattr(info, 'cls', kind)} has no schema: use a Struct, a dataclass or a pydantic model")

    def _anything(self, _: Any) -> Schema:
        return {}

    def _number(self, info: Any) -> Schema:
        bounds = {word: getattr(info, name) for name, word in _BOUNDS.items()}
        return {"type": "integer" if isinstance(info, inspect.IntType) else "number"} | _given(bounds)

    def _text(self, info: Any) -> Schema:
        return {"type": "string"} | _given(
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
        return {"type": "object", "additionalProperties": self.of(info.value_type)} | _given(counts)

    def _enum(self, info: Any) -> Schema:
        return {"enum": msgspec.to_builtins([*info.cls])}

    def _tuple(self, info: Any) -> Schema:
        return {"type": "array", "prefixItems": [self.of(each) for each in info.item_types]}

    def _defined(self, cls: Any, make: Callable[[], Schema]) -> Schema:
        name = self._names[cls]
        if name not in self.definitions:
            self.definitions[name] = {}  # It may refer to itself.
            self.definitions[name] = {"title": _title(cls)} | _description(cls) | make()
        return {"$ref": f"#/definitions/{name}"}

    def _model(self, info: Any) -> Schema:
        prefix = f"{self._names[info.cls]}."  # Its own definitions may be called as others here.
        found = pydantic_model.schema(info.cls, prefix)
        self.definitions |= {prefix + name: each for name, each in found.pop("$defs", {}).items()}
        return found

    def _array(self, info: Any) -> Schema:
        unique = True if isinstance(info, inspect.SetType | inspect.FrozenSetType) else None
        counts = {"minItems": info.min_length, "maxItems": info.max_length, "uniqueItems": unique}
        return {"type": "array", "items": self.of(info.item_type)} | _given(counts)

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
    """Return what the classes within *kind* are called: by their module too, where two have the same name."""
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
    is_made = text.startswith(f"{origin.__name__}(") or text == "An enumeration."  # By dataclasses, by enum.
    return {"description": text} if text and not is_made else {}


def _given(words: dict[str, Any]) -> Schema:
    return {word: value for word, value in words.items() if value is not None}
