"""Rows become events: columns into what a feed line has.

| column | |
|---|---|
| `data` | the event: a struct, or JSON as string or binary. Must be there |
| `key` | string |
| `headers` | map from string to string |
| `partition` | whole number; obeyed only under `user_defined` |
| `metadata` | the event's member of that name: a struct, a map, or JSON as string |

Structs are written as Spark's own `to_json` writes them: what is null is left out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.core.event import NewEvent, one_line_each
from penstock.errors import BadParameter, InvalidRow

_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_PLAIN: Final = (
    StringType, BooleanType, *_INTEGERS, FloatType, DoubleType, DecimalType, DateType, TimestampType, TimestampNTZType,
    BinaryType,
)  # fmt: skip
_ALLOWED: Final = (
    "data (struct, or JSON as string or binary), and as you like key string, headers map<string,string>, "
    "partition int, metadata (struct, map<string,string>, or JSON as string)"
)
EVENT_COLUMNS: Final = ("data", "key", "headers", "partition", "metadata")
SHOWN_CHARS: Final = 200
Value = Callable[[Any], Any]
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode
_skim: Final = msgspec.json.Decoder(msgspec.Raw).decode


class EventRows:
    """Makes events of rows. Holds plain values: it can be sent to executors."""

    def __init__(self, schema: StructType, event_type: str, *, rejects: bool) -> None:
        """Make events of rows of this *schema*; where whoever asks *rejects* bad JSON, it becomes a text.

        Raises:
            BadParameter: a column is missing, unknown, or of a type that is none of an event's.
        """
        self._kinds = check_columns(schema)
        self._event_type = event_type
        self._rejects = rejects

    def __call__(self, batch: pa.RecordBatch) -> list[NewEvent]:
        """Return the events of *batch*.

        Raises:
            InvalidRow: one has no event, or it is no JSON.
        """
        columns = {name: batch.column(name) for name in self._kinds}
        datas = self._texts(columns["data"], self._kinds["data"])
        if "metadata" in columns:
            datas = list(map(_with_metadata, datas, self._metadata(columns["metadata"])))
        count = len(datas)
        keys = columns["key"].to_pylist() if "key" in columns else [None] * count
        partitions = columns["partition"].to_pylist() if "partition" in columns else [None] * count
        headers = self._headers(columns["headers"]) if "headers" in columns else [None] * count
        raws = map(msgspec.Raw, one_line_each(datas))
        return list(map(NewEvent, raws, keys, headers, partitions))

    def _texts(self, column: pa.Array, kind: DataType) -> list[bytes]:
        """Return each row's JSON."""
        if isinstance(kind, StructType):
            value = _value_of(kind, "data")
            return [_encode(value(each) if each is not None else self._refused(None)) for each in column.to_pylist()]
        return [self._checked(text) for text in column.cast(pa.large_binary()).to_pylist()]

    def _checked(self, text: bytes | None) -> bytes:
        if text is None:
            return _encode(self._refused(None))
        try:
            _skim(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _encode(self._refused(text, f"its data is not JSON: {error}"))
        return text

    def _refused(self, text: bytes | None, reason: str = "its data is null") -> str | None:
        """Return what stands for a row that is no event, and will be rejected by the hub; raise where that is not."""
        shown = None if text is None else text.decode(errors="backslashreplace")
        if not self._rejects:
            row = "null" if shown is None else shown[:SHOWN_CHARS]
            raise InvalidRow(event_type=self._event_type, reason=reason, row=row)
        return shown

    def _metadata(self, column: pa.Array) -> list[bytes | None]:
        kind = self._kinds["metadata"]
        if isinstance(kind, StringType):
            return [
                None if text is None else self._checked(text) for text in column.cast(pa.large_binary()).to_pylist()
            ]
        value = _value_of(kind, "metadata")
        return [None if each is None else _encode(value(each)) for each in column.to_pylist()]

    def _headers(self, column: pa.Array) -> list[dict[str, str] | None]:
        return [
            None if each is None else {name: text for name, text in each if text is not None}
            for each in column.to_pylist()
        ]


def check_columns(schema: StructType) -> Mapping[str, DataType]:
    """Return the types of the columns by name.

    Raises:
        BadParameter: a column is missing, unknown, or of a type that is none of an event's.
    """
    kinds = {field.name: field.dataType for field in schema.fields}
    for name, kind in kinds.items():
        if not _is_column(name, kind):
            given = f"{name} {kind.simpleString()}"
            wrong = f"column {given} has another type" if name in EVENT_COLUMNS else f"there is no column {given}"
            raise _bad_column(given, wrong)
    if "data" not in kinds:
        raise _bad_column(schema.simpleString(), "there is no column data")
    return kinds


def _is_column(name: str, kind: DataType) -> bool:
    match name:
        case "data":
            if isinstance(kind, StructType):
                _value_of(kind, name)
            return isinstance(kind, StructType | StringType | BinaryType)
        case "metadata":
            if isinstance(kind, StructType | MapType):
                _value_of(kind, name)
            return isinstance(kind, StructType | MapType | StringType)
        case "key":
            return isinstance(kind, StringType)
        case "partition":
            return isinstance(kind, _INTEGERS)
        case "headers":
            if not isinstance(kind, MapType):
                return False
            return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    return False


def _bad_column(given: str, said: str) -> BadParameter:
    detail = f"{said}; allowed: {_ALLOWED}"
    return BadParameter(detail, parameter="schema", value=given, allowed=_ALLOWED)


def _with_metadata(data: bytes, metadata: bytes | None) -> bytes:
    """Return an object with a further member; what is none is left to the hub, which says so."""
    end = data.rstrip()
    if metadata is None or not end.endswith(b"}"):
        return data
    body = end[:-1].rstrip()
    return body + (b"" if body.endswith(b"{") else b",") + b'"metadata":' + metadata + b"}"


def _value_of(kind: DataType, name: str) -> Value:
    """Return what makes a value of *kind* ready for JSON; *name* is what an error calls it.

    Raises:
        BadParameter: there is no JSON for a type of it.
    """
    match kind:
        case StructType():
            return _struct({each.name: _value_of(each.dataType, f"{name}.{each.name}") for each in kind.fields})
        case ArrayType():
            return _array(_value_of(kind.elementType, f"{name}[]"))
        case MapType() if isinstance(kind.keyType, StringType):
            return _map(_value_of(kind.valueType, f"{name}{{}}"))
    if isinstance(kind, _PLAIN):
        return _same
    given = f"{name} {kind.simpleString()}"
    raise _bad_column(given, f"column {given} has another type")


def _same(value: Any) -> Any:
    return value


def _struct(values: Mapping[str, Value]) -> Value:
    def made(struct: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value(struct[name]) for name, value in values.items() if struct[name] is not None}

    return made


def _array(value: Value) -> Value:
    def made(items: Iterable[Any]) -> list[Any]:
        return [None if item is None else value(item) for item in items]

    return made


def _map(value: Value) -> Value:
    def made(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        return {name: None if item is None else value(item) for name, item in items}

    return made
