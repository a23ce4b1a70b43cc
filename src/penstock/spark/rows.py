"""Rows become events: columns into what a feed line has.

| column | |
|---|---|
| `data` | the event: a struct, or JSON as string or binary. Must be there |
| `key` | string |
| `headers` | map from string to string |
| `partition` | whole number; obeyed only under `user_defined` |
| `metadata` | the event's member of that name: a struct, a map, or JSON as string |

Structs become JSON as `json_text.py` says.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from penstock.core.events.event import NewEvent, remove_all_line_breaks
from penstock.errors import BadParameter, InvalidRecord
from penstock.spark.json_text import has_json, json_text

_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_ALLOWED: Final = (
    "data (struct, or JSON as string or binary), and as you like key string, headers map<string,string>, "
    "partition int, metadata (struct, map<string,string>, or JSON as string)"
)
EVENT_COLUMNS: Final = ("data", "key", "headers", "partition", "metadata")
SHOWN_CHARS: Final = 200
_encode: Final = msgspec.json.encode
_skim: Final = msgspec.json.Decoder(msgspec.Raw).decode


class EventRows:
    """Makes events of rows. Holds plain values: it can be sent to executors."""

    def __init__(
        self, schema: StructType, event_type: str, *, rejects: bool, as_text: Collection[str] = frozenset()
    ) -> None:
        """Convert rows of this *schema* to events.

        Args:
            schema: The columns.
            event_type: The event type, for errors.
            rejects: True to send a row that cannot be an event to the hub as a text, which the hub rejects.
            as_text: Decimals that become strings, as `decimals_as_text` names them.

        Raises:
            BadParameter: a column is missing, unknown, or of an unsuitable type.
        """
        self._kinds = check_columns(schema)
        self._event_type = event_type
        self._rejects = rejects
        self._as_text = as_text

    def __call__(self, batch: pa.RecordBatch) -> list[NewEvent]:
        """Return the events of *batch*.

        Raises:
            InvalidRecord: a row has no event, or it is no JSON; or its key or a header cannot be published.
        """
        columns = {name: batch.column(name) for name in self._kinds}
        datas = self._texts(columns["data"], self._kinds["data"])
        if "metadata" in columns:
            datas = list(map(_with_metadata, datas, self._metadata(columns["metadata"])))
        count = len(datas)
        keys = self._keys(columns["key"], datas) if "key" in columns else [None] * count
        partitions = columns["partition"].to_pylist() if "partition" in columns else [None] * count
        headers = self._headers(columns["headers"], datas) if "headers" in columns else [None] * count
        raws = map(msgspec.Raw, remove_all_line_breaks(datas))
        return list(map(NewEvent, raws, keys, headers, partitions))

    def _texts(self, column: pa.Array, kind: DataType) -> list[bytes]:
        """Return each row's JSON."""
        if isinstance(kind, StructType):
            texts = json_text(column, kind, "data", self._as_text).to_pylist()
            return [_encode(self._refuse(None)) if text is None else text for text in texts]
        return [self._check(text) for text in column.cast(pa.large_binary()).to_pylist()]

    def _check(self, text: bytes | None) -> bytes:
        if text is None:
            return _encode(self._refuse(None))
        try:
            _skim(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _encode(self._refuse(text, f"its data is not JSON: {error}"))
        return text

    def _refuse(self, text: bytes | None, reason: str = "its data is null") -> str | None:
        """Return what stands for a row that is no event, and will be rejected by the hub; raise where that is not."""
        shown = None if text is None else text.decode(errors="backslashreplace")
        if not self._rejects:
            row = "null" if shown is None else shown[:SHOWN_CHARS]
            raise InvalidRecord.of("invalid-row", event_type=self._event_type, reason=reason, row=row)
        return shown

    def _metadata(self, column: pa.Array) -> list[bytes | None]:
        kind = self._kinds["metadata"]
        if isinstance(kind, StringType):
            return [None if text is None else self._check(text) for text in column.cast(pa.large_binary()).to_pylist()]
        found: list[bytes | None] = json_text(column, kind, "metadata").to_pylist()
        return found

    def _keys(self, column: pa.Array, datas: list[bytes]) -> list[str | None]:
        """Return the keys; in *datas* stands a refusal for a row whose key is no text."""
        keys = _values(column)
        for place, key in enumerate(keys):
            if isinstance(key, UnicodeDecodeError):
                keys[place] = None
                datas[place] = self._refusal(datas[place], "its key is not UTF-8")
        return keys

    def _headers(self, column: pa.Array, datas: list[bytes]) -> list[dict[str, str] | None]:
        """Return the headers; in *datas* stands a refusal for a row whose headers cannot be published."""
        found: list[dict[str, str] | None] = []
        for place, pairs in enumerate(_values(column)):
            wrong = None if pairs is None else _wrong_headers(pairs)
            if wrong is not None:
                datas[place] = self._refusal(datas[place], wrong)
            found.append(None if pairs is None or wrong is not None else dict(pairs))
        return found

    def _refusal(self, data: bytes, reason: str) -> bytes:
        """Return what stands for a row that is refused for something beside its data."""
        if not self._rejects:
            self._refuse(data, reason)
        return _encode(f"{reason}: {data.decode(errors='backslashreplace')}")


def _values(column: pa.Array) -> list[Any]:
    """Return the values of *column*; an error stands for one that has a text which is not UTF-8."""
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_value(each) for each in column]
    return found


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return error


def _wrong_headers(pairs: Any) -> str | None:
    """Return why headers cannot be published; None: they can."""
    if isinstance(pairs, UnicodeDecodeError):
        return "a header is not UTF-8"
    for name, value in pairs:
        if value is None:
            return f"its header {name!r} is null; leave it out with map_filter, or give it a text"
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return f"its header {twice[0]!r} is there twice" if twice else None


def check_columns(schema: StructType) -> Mapping[str, DataType]:
    """Return the types of the columns by name.

    Raises:
        BadParameter: a column is missing, unknown, or of a type that is none of an event's.
    """
    kinds: dict[str, DataType] = {}
    for field in schema.fields:
        name, kind = field.name, field.dataType
        given = f"{name} {kind.simpleString()}"
        if name in kinds:
            raise _bad_column(given, f"there are two columns called {name}")
        if name not in EVENT_COLUMNS and name.lower() in EVENT_COLUMNS:
            raise _bad_column(given, f"column {given} is to be called {name.lower()}: rename it")
        if not _is_column(name, kind):
            wrong = "has another type" if name in EVENT_COLUMNS else "is no part of an event"
            raise _bad_column(given, f"column {given} {wrong}")
        kinds[name] = kind
    if "data" not in kinds:
        raise _bad_column(schema.simpleString(), "there is no column data")
    return kinds


def _is_column(name: str, kind: DataType) -> bool:
    match name:
        case "data":
            if isinstance(kind, StructType):
                _check_kind(kind, name)
            return isinstance(kind, StructType | StringType | BinaryType)
        case "metadata":
            if isinstance(kind, StructType | MapType):
                _check_kind(kind, name)
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


def _check_kind(kind: DataType, name: str) -> None:
    """Raise BadParameter where there is no JSON for *kind*, or a type within it; *name* is what the error calls it."""
    given = f"{name} {kind.simpleString()}"
    match kind:
        case StructType():
            for member, count in Counter(kind.names).items():
                if count > 1:
                    raise _bad_column(given, f"{name} has {count} members called {member}")
            for each in kind.fields:
                _check_kind(each.dataType, f"{name}.{each.name}")
        case ArrayType():
            _check_kind(kind.elementType, f"{name}[]")
        case MapType() if isinstance(kind.keyType, StringType):
            _check_kind(kind.valueType, f"{name}{{}}")
        case MapType():
            raise _bad_column(given, f"column {given} has keys that are no strings: cast them to string")
        case _ if not has_json(kind):
            raise _bad_column(given, f"column {given} has a type that events do not have: cast it to string")
