"""A class's fields as columns: their kinds, and the values that they hold.

`table.py` has the SQL type of each kind, `spark/projections/typed_rows.py` its type in files.
"""

import datetime as dt
import decimal
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache, partial
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from penstock.core.events.encoding import TIMES, find_inexact_values, has_inexact, may_be_inexact
from penstock.errors import BadParameter
from penstock.schema.models import type_nodes

FINITE: Final = "finite numbers"
WHOLE: Final = "whole numbers of 64 bits"
TEXTS: Final = "texts without NUL and what else is not Unicode"
ZONES: Final = "times whose zone offset has no seconds, as JSON keeps them"
IN_UTC: Final = "times in UTC, as `.astimezone(UTC)` gives them"
DIGITS: Final = "numbers of up to 131072 digits, and 16383 behind the point"


def find_wrong_value(value: Any) -> str | None:
    """Return a description of storable values if not every database can store *value*; None: each can.

    >>> find_wrong_value(2**63), find_wrong_value("a"), find_wrong_value(float("nan"))
    ('whole numbers of 64 bits', None, 'finite numbers')
    """
    if isinstance(value, str):
        return None if "\0" not in value and _is_unicode(value) else TEXTS
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**63 else WHOLE
    if isinstance(value, float):
        return None if isfinite(value) else FINITE
    if isinstance(value, Decimal):
        return _find_wrong_decimal(value)
    if isinstance(value, datetime):
        # PostgreSQL stores no zone: a fold would continue in another.
        return None if str(value.tzinfo) == "UTC" else IN_UTC
    return None


def find_wrong_json(value: Any) -> str | None:
    """Return a description of storable values if *value* cannot be stored as JSON; None: it can.

    JSON does not preserve some numbers and times, see `core.events.encoding`, and PostgreSQL has no JSON with NUL.
    """
    try:
        text = msgspec.json.encode(value)
        held = msgspec.to_builtins(value, builtin_types=TIMES) if may_be_inexact(text) or rb"\u0000" in text else None
    except (TypeError, ValueError, RecursionError) as error:
        return f"what JSON can have ({error})"
    if held is not None and has_inexact(held, text):
        return FINITE if isinstance(next(find_inexact_values(held)).value, float) else ZONES
    found = (
        find_wrong_value(part) for part in (_walk_parts(held) if rb"\u0000" in text else ()) if isinstance(part, str)
    )
    return next((wrong for wrong in found if wrong is not None), None)


def _find_wrong_decimal(value: Decimal) -> str | None:
    _, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):
        return FINITE
    return None if exponent >= -16383 and len(digits) + exponent <= 131072 else DIGITS


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _walk_parts(value: Any) -> Iterator[Any]:
    """Yield the numbers and the texts in a value."""
    if isinstance(value, Mapping):
        yield from _walk_parts([*value.keys()])
        yield from _walk_parts([*value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _walk_parts(each)
    else:
        yield value


Kind: TypeAlias = Literal["integer", "real", "text", "boolean", "bytes", "time", "date", "decimal", "json"]
_KINDS: Final[Mapping[Any, Kind]] = {
    int: "integer",
    float: "real",
    str: "text",
    bool: "boolean",
    bytes: "bytes",
    dt.datetime: "time",
    dt.date: "date",
    decimal.Decimal: "decimal",
}
_KEY_TYPES: Final[Mapping[Kind, type]] = {
    kind: python for python, kind in _KINDS.items() if kind in {"integer", "real", "text", "boolean", "date"}
}
_NO_KEYS: Final = (
    inspect.CollectionType,
    inspect.TupleType,
    inspect.DictType,
    inspect.DataclassType,
    inspect.StructType,
    inspect.NamedTupleType,
    inspect.BoolType,
    inspect.NoneType,
    inspect.AnyType,
)
LIKE_JSON: Final = "texts, numbers, True, False, None, lists, and dicts of texts, where a type says Any"
KEY_BYTES_MAX: Final = 2_000
"""The size limit of all texts of a key: an index of PostgreSQL has up to 2704 bytes for each row, and one of parked
streams holds names beside it."""
_UNCHECKED: Final = (
    inspect.AnyType, inspect.StructType, inspect.DataclassType, inspect.NamedTupleType, inspect.TypedDictType,
)  # fmt: skip
"""Kinds of types whose values msgspec accepts unchecked."""
KEY_KINDS: Final = frozenset(_KEY_TYPES)
_PLAIN: Final = frozenset([int, float, str, bool, bytes, NoneType])
"""Types whose values are returned unchanged, except those that `find_wrong_value` finds."""


class Column(NamedTuple):
    """One column."""

    name: str
    kind: Kind


def list_state_columns(state: type) -> tuple[Column, ...]:
    """Return the columns of a dataclass or msgspec Struct. A field of a type that databases lack is JSON.

    Raises:
        BadParameter: it is neither, or a field has a type that JSON cannot represent.
    """
    if not (is_dataclass(state) or issubclass(state, msgspec.Struct)):
        raise BadParameter(parameter="state", value=state.__name__, allowed="a dataclass or a msgspec.Struct")
    names = {field.name for field in dataclass_fields(state)} if is_dataclass(state) else {*state.__struct_fields__}
    fields = {name: annotated for name, annotated in get_type_hints(state).items() if name in names}
    for name, annotated in fields.items():
        _check_json(f"{state.__name__}.{name}", annotated)
    return tuple(Column(name, _find_kind(annotated)) for name, annotated in fields.items())


def list_key_columns(key: Any) -> tuple[Column, ...]:
    """Return the columns of a key function's return annotation: a NamedTuple, or one simple type.

    Raises:
        BadParameter: the annotation is missing, or no key can have its type.
    """
    try:
        returned = get_type_hints(key).get("return")
    except TypeError:  # A callable without annotations, such as a partial.
        returned = None
    kind = _without_none(returned)
    fields = get_type_hints(kind) if hasattr(kind, "_fields") else {"key": kind}
    columns = tuple(Column(name, _find_kind(annotated)) for name, annotated in fields.items())
    if returned is None or any(column.kind not in KEY_KINDS for column in columns):
        allowed = "a function annotated to return a NamedTuple of str, int, float, bool or date, or one of these"
        raise BadParameter(parameter="key", value=getattr(key, "__name__", repr(key)), allowed=allowed)
    return columns


def declare_columns(types: Mapping[str, str], key: Iterable[str]) -> dict[str, str]:
    """Return the SQL declarations of columns by name: the *types*, and the *key*.

    >>> declare_columns({"customer": "text", "total": "bigint"}, ["customer"])
    {'customer': 'text', 'total': 'bigint', 'PRIMARY KEY': '(customer)'}
    """
    return {**types, "PRIMARY KEY": f"({', '.join(key)})"}


def check_declared(wanted: Mapping[str, str], found: Mapping[str, str], place: str) -> None:
    """Check that the columns *found* in a *place* are the *wanted* ones of a version, as `declare_columns`.

    Raises:
        BadParameter: columns differ in name or declaration: they need another version.
    """
    if found == wanted:
        return
    has_names = sorted(found) == sorted(wanted)
    names = [name for name in wanted if not has_names or found[name] != wanted[name]]
    own = [f"{name} {found[name]}" for name in (names if has_names else found)]
    allowed = f"another version: this one has {place} with the columns {', '.join(own)}"
    raise BadParameter(parameter="state", value=", ".join(f"{name} {wanted[name]}" for name in names), allowed=allowed)


def parse_key(columns: Sequence[Column], text: str) -> tuple[Any, ...]:
    """Return the key whose JSON is *text*.

    Raises:
        BadParameter: it does not match the annotation of its function.
    """
    try:
        found: tuple[Any, ...] = msgspec.json.decode(text, type=tuple[list_key_types(columns)])  # type: ignore[misc]
    except msgspec.ValidationError as error:
        raise _make_key_error(text, error) from None
    return found


def list_key_types(columns: Sequence[Column]) -> tuple[type, ...]:
    """Return the types of a key's values."""
    return tuple(_KEY_TYPES[column.kind] for column in columns)


def make_key(types: tuple[type, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *values* as a key of these *types*: values that are equal in a type give one key, as 10 and 10.0.

    Raises:
        BadParameter: they do not match the annotation of their function, or could not be found again.
    """
    if tuple(map(type, values)) != types:
        try:
            values = msgspec.convert(values, tuple[types])  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            raise _make_key_error(repr(values), error) from None
    return _check_findable(types, values)


@lru_cache(maxsize=1 << 14)  # Most events are of rows with recent events.
def _check_findable(types: tuple[type, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if (wrong := find_wrong_value(value)) is not None:
            raise _make_key_error(repr(values), f"{wrong} only, as others cannot be kept anywhere and found again")
    if sum(len(value.encode()) for value in values if isinstance(value, str)) > KEY_BYTES_MAX:
        raise _make_key_error(
            reprlib.repr(values), f"texts of up to {KEY_BYTES_MAX} bytes, as PostgreSQL can find them again"
        )
    if float not in types:
        return values
    return tuple(value + 0.0 if type(value) is float else value for value in values)  # -0.0 is 0.0.


def _make_key_error(key: str, error: object) -> BadParameter:
    return BadParameter(parameter="key", value=key, allowed=f"a key as it is annotated: {error}")


def find_wrong_state(columns: Sequence[Column], kind: type, state: Any) -> BadParameter | None:
    """Return the error of a state that is no *kind* with its declared fields; None: it is one, and read unchanged."""
    if not isinstance(state, kind):
        return BadParameter(parameter="state", value=reprlib.repr(state), allowed=f"a {kind.__name__}, or None")
    if _is_plain(_list_plain_fields(kind), state):
        return None
    values = {column.name: getattr(state, column.name) for column in columns}
    try:
        msgspec.convert(_make_input(kind)(values), kind)
    except msgspec.ValidationError as error:
        allowed = f"fields as {kind.__name__} declares them: {error}"
    else:
        checks = _make_checks(kind)
        found = (
            (name, _find_wrong(column, values[name], checks.get(name))) for column in columns if (name := column.name)
        )
        name, wrong = next((each for each in found if each[1] is not None), ("", None))
        if wrong is None:
            return None
        allowed = f"{wrong}, as they can be kept anywhere, and no other {name}"
    return BadParameter(parameter="state", value=reprlib.repr(state), allowed=allowed)


@lru_cache
def _list_plain_fields(state: type) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """Return the types of each field of a class with plain scalars only; empty for any other class."""
    hints = get_type_hints(state, include_extras=True)
    fields = [(column.name, hints[column.name]) for column in list_state_columns(state)]
    found = tuple(
        (name, get_args(annotated) if get_origin(annotated) in (Union, UnionType) else (annotated,))
        for name, annotated in fields
    )
    has_rules = hasattr(state, "__post_init__")
    return () if has_rules or any(not _PLAIN.issuperset(types) for _, types in found) else found


def _is_plain(fields: tuple[tuple[str, tuple[type, ...]], ...], state: Any) -> bool:
    """Return whether each field has one of its types, and can be stored in any database; False: unknown.

    It is called after each event, and is fast for the fields of most states.
    """
    for name, types in fields:
        value = getattr(state, name)
        kind = type(value)
        if kind not in types:
            return False
        if kind is int:
            if not -(2**63) <= value < 2**63:
                return False
        elif kind is str:
            if not value.isascii() or "\0" in value:
                return False
        elif kind is float and not isfinite(value):
            return False
    return bool(fields)


def _find_wrong(column: Column, value: Any, check: Callable[[Any], str | None] | None) -> str | None:
    wrong = find_wrong_json(value) if column.kind == "json" else find_wrong_value(value)
    if wrong is None and check is not None:
        return check(value)
    if wrong is None and column.kind == "real" and type(value) is int and value != int(float(value)):
        return "numbers that a float can be"
    return wrong


@lru_cache
def _make_checks(state: type) -> dict[str, Callable[[Any], str | None]]:
    """Return checks that fields of JSON can be read unchanged: of those with any values, or objects of classes.

    All other fields are known to be so by their types.
    """
    found: dict[str, Callable[[Any], str | None]] = {}
    for name, annotated in get_type_hints(state).items():
        nodes = [*type_nodes(annotated)] if _find_kind(annotated) == "json" else []
        if any(isinstance(node, _UNCHECKED) for node in nodes):
            is_loose = any(isinstance(node, inspect.AnyType) for node in nodes)
            found[name] = partial(_find_unlike, msgspec.json.Decoder(annotated), is_loose)
    return found


def _find_unlike(decoder: msgspec.json.Decoder[Any], is_loose: bool, value: Any) -> str | None:
    try:
        back = decoder.decode(msgspec.json.encode(value))
    except msgspec.ValidationError as error:
        return f"what can be read again ({error})"
    return LIKE_JSON if is_loose and back != value else None


def encode_value(kind: Kind, value: Any, *, is_sqlite: bool) -> Any:
    """Return a value in the driver's form."""
    if value is None:
        return None
    if kind == "json":
        return msgspec.json.encode(value).decode()
    if is_sqlite and kind in {"time", "date", "decimal"}:
        return msgspec.to_builtins(value)
    return value


def decode_state(columns: Sequence[Column], values: Sequence[Any], state: Any) -> Any:
    """Return the state with these *values* of fields from a database."""
    readers = _make_readers(state)
    found = {
        column.name: None if value is None else readers[column.name](value)
        for column, value in zip(columns, values, strict=True)
    }
    return msgspec.convert(_make_input(state)(found), state)


@lru_cache
def _make_input(state: type) -> Callable[[dict[str, Any]], Any]:
    """Return a function from the fields of a state, by name, to the input from which msgspec builds the state.

    That input is like the JSON: renamed fields if the class renames them, or an array.
    """
    if not issubclass(state, msgspec.Struct):
        return _keep_fields
    names = dict(zip(state.__struct_fields__, state.__struct_encode_fields__, strict=True))
    config = state.__struct_config__
    if config.array_like:
        tag = [] if config.tag is None else [config.tag]
        return lambda fields: [*tag, *(fields[name] for name in names)]
    if all(name == given for name, given in names.items()):
        return _keep_fields
    return lambda fields: {names[name]: value for name, value in fields.items()}


def _keep_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


@lru_cache
def _make_readers(state: type) -> dict[str, Callable[[Any], Any]]:
    """Return a function for each field, from a database's value to the field's."""
    return {name: _make_reader(annotated) for name, annotated in get_type_hints(state).items()}


def _make_reader(annotated: Any) -> Callable[[Any], Any]:
    if _find_kind(annotated) == "json":  # Inside JSON a text stays a text, even if it looks like a number.
        return msgspec.json.Decoder(annotated).decode
    if _find_kind(annotated) == "time":
        return _to_utc
    return partial(msgspec.convert, type=annotated, strict=False)


def _to_utc(value: Any) -> dt.datetime:
    """Return a time in UTC; PostgreSQL's is queried in UTC, and has no zone."""
    found = msgspec.convert(value, dt.datetime)
    return found if isinstance(value, str) else found.replace(tzinfo=dt.UTC)


def _check_json(field: str, annotated: Any) -> None:
    try:
        msgspec.json.schema(annotated, schema_hook=_describe_object)
    except TypeError as error:
        allowed = "fields that can be columns, or JSON: texts, numbers, times, lists, dicts, and classes made of such"
        raise BadParameter(parameter="state", value=f"{field}: {_show(annotated)}", allowed=allowed) from error
    dicts = [node for node in type_nodes(annotated) if isinstance(node, inspect.DictType)]
    if any(isinstance(each.key_type, _NO_KEYS) for each in dicts):
        allowed = "dicts that say what keys they have, texts, numbers or times, dict[str, int]: in JSON all are texts"
        raise BadParameter(parameter="state", value=f"{field}: {_show(annotated)}", allowed=allowed)


def _show(annotated: Any) -> str:
    return annotated.__name__ if isinstance(annotated, type) and not get_args(annotated) else str(annotated)


def _describe_object(kind: type) -> dict[str, Any]:
    """Return the schema of `object`, any value; for other types raise the exception that msgspec expects."""
    if kind is object:
        return {"description": "anything"}
    raise NotImplementedError


def _find_kind(annotated: Any) -> Kind:
    kind = _without_none(annotated)
    return _KINDS.get(kind, "json")


def _without_none(annotated: Any) -> Any:
    if get_origin(annotated) in (Union, UnionType):
        left = [each for each in get_args(annotated) if each is not NoneType]
        return left[0] if len(left) == 1 else annotated
    return annotated
