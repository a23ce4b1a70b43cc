"""Encodes Arrow columns as JSON, a column at a time: the values of Spark's `to_json`, and never another value.

| Spark | JSON |
|---|---|
| struct | an object, without the members that are null |
| array; map from string | an array; an object: nulls stay |
| tinyint to bigint, boolean | number, boolean |
| float, double | the shortest number that reads back as the same one; `"NaN"`, `"Infinity"` and `"-Infinity"` |
| decimal | a number with all digits of its scale; where `as_text` names it, a string without trailing zeros |
| string; binary | a string; a string in base64 |
| date | `"2026-11-20"` |
| timestamp; timestamp_ntz | `"2026-11-20T10:00:00.000Z"`, in UTC; the same without `Z`. With microseconds, if any |

Years before 0 and after 9999 have a sign, as ISO 8601 and `to_json` write them: `+10000-01-01`.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
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

_TEXT: Final = pa.large_binary()
"""JSON is bytes here, since a string of Spark's may hold bytes that are no UTF-8, which Arrow's strings must not."""
_EPOCH: Final = date(1970, 1, 1)
_DAYS_MIN: Final = -719_528
"""The first day of the year 0, by which Arrow writes a date in four digits of the year …"""
_DAYS_MAX: Final = (date.max - _EPOCH).days
"""… and the last one of the year 9999."""
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
"""Days in 400 years of the Gregorian calendar."""
_DAY_US: Final = 86_400_000_000
_ESCAPED: Final = r'["\\\x00-\x1f]'
_quote: Final = msgspec.json.encode
_quote_text: Final = json.JSONEncoder(ensure_ascii=False).encode


def json_text(values: pa.Array, kind: DataType, name: str, as_text: Collection[str] = ()) -> pa.Array:
    """Return the JSON of each of *values*, which are of a *kind* that `has_json` knows; null where a value is null.

    Strings of Spark that are not valid UTF-8 stay invalid in the JSON.

    Args:
        values: A column.
        kind: Its type.
        name: Its path, such as `data.lines[].price` or `data.prices{}`.
        as_text: Names of decimals that become strings.
    """
    match kind:
        case StructType():
            return _object(values, kind, name, as_text)
        case ArrayType():
            items = json_text(values.flatten(), kind.elementType, f"{name}[]", as_text)
            return _enclose(b"[", _join_lists(values, _with_nulls(items)), b"]")
        case MapType():
            entries = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
            keys, items = entries.flatten().flatten()
            texts = _with_nulls(json_text(items, kind.valueType, f"{name}{{}}", as_text))
            return _enclose(b"{", _join_lists(entries, _join(_string(keys), texts, b":")), b"}")
        case DecimalType() if name in as_text:
            return _decimal_string(values, kind.scale)
    return _SIMPLE[type(kind)](values)


def has_json(kind: DataType) -> bool:
    """Return whether `json_text` knows a type that is no struct, array or map."""
    return type(kind) in _SIMPLE


def _object(values: pa.Array, kind: StructType, name: str, as_text: Collection[str]) -> pa.Array:
    if not kind.fields:
        return pc.if_else(values.is_valid(), pa.scalar(b"{}", _TEXT), pa.scalar(None, _TEXT))
    members = []
    for place, field in enumerate(kind.fields):
        text = json_text(values.field(place), field.dataType, f"{name}.{field.name}", as_text)
        members.append(_join(_quote(field.name) + b":", text, b""))
    # Arrow 26 leaves out a row whose parts are all null, so that one part must not be.
    started = pc.binary_replace_slice(_join(b"{", *members, b",", null_handling="skip"), 0, 2, b"{")
    joined = _join(started, b"}", b"")
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, _TEXT)) if values.null_count else joined


def _join_lists(lists: pa.Array, items: pa.Array) -> pa.Array:
    """Return the *items* of each of *lists*, whose flattened values they stand for, with commas between them."""
    lengths = pc.list_value_length(lists).fill_null(0)
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], ends.type), ends]).cast(pa.int64())
    mask = lists.is_null() if lists.null_count else None
    return pc.binary_join(pa.LargeListArray.from_arrays(offsets, items, mask=mask), pa.scalar(b",", _TEXT))


def _with_nulls(texts: pa.Array) -> pa.Array:
    return texts.fill_null(pa.scalar(b"null", _TEXT)) if texts.null_count else texts


def _enclose(start: bytes, texts: pa.Array, end: bytes) -> pa.Array:
    return _join(start, texts, end, b"")


def _join(*parts: Any, null_handling: str = "emit_null") -> pa.Array:
    """Join *parts* of each row, arrays and bytes that are the same in all, by the last one."""
    scalars = [pa.scalar(part, _TEXT) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, null_handling=null_handling)


def _string(values: pa.Array) -> pa.Array:
    texts = values.cast(_TEXT)
    special = pc.match_substring_regex(texts, pattern=_ESCAPED)
    if pc.any(special).as_py():
        escaped = [_escape(text) for text in texts.filter(special).to_pylist()]
        texts = pc.replace_with_mask(texts, special.fill_null(False), pa.array(escaped, _TEXT))
    return _enclose(b'"', texts, b'"')


def _escape(text: bytes) -> bytes:
    # Bytes that are no UTF-8 go through as they are.
    return _quote_text(text.decode(errors="surrogateescape"))[1:-1].encode(errors="surrogateescape")


def _plain(values: pa.Array) -> pa.Array:
    return values.cast(pa.string()).cast(_TEXT)


def _number(values: pa.Array) -> pa.Array:
    texts = pc.replace_substring_regex(values.cast(pa.large_string()), r"^-?\d+$", r"\0.0")
    strange = pc.invert(pc.is_finite(values))
    if pc.any(strange).as_py():
        words = pc.if_else(pc.is_nan(values), "NaN", pc.if_else(pc.greater(values, 0), "Infinity", "-Infinity"))
        texts = pc.if_else(strange, _enclose(b'"', words.cast(_TEXT), b'"').cast(pa.large_string()), texts)
    return texts.cast(_TEXT)


def _decimal_string(values: pa.Array, scale: int) -> pa.Array:
    texts = values.cast(pa.string())
    is_scientific = pc.match_substring(texts, "E")
    if pc.any(is_scientific).as_py():
        plain = [f"{Decimal(text):f}" for text in texts.filter(is_scientific).to_pylist()]
        texts = pc.replace_with_mask(texts, is_scientific.fill_null(False), pa.array(plain, pa.string()))
    if scale > 0:
        texts = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    return _enclose(b'"', texts.cast(_TEXT), b'"')


def _base64(values: pa.Array) -> pa.Array:
    texts = [None if value is None else b64encode(value) for value in values.to_pylist()]
    return _enclose(b'"', pa.array(texts, _TEXT), b'"')


def _date(values: pa.Array) -> pa.Array:
    return _enclose(b'"', _days(values.cast(pa.int32()).cast(pa.int64())).cast(_TEXT), b'"')


def _days(days: pa.Array) -> pa.Array:
    """Return the dates for *days*, which count from 1970-01-01."""
    far = pc.or_(pc.less(days, _DAYS_MIN), pc.greater(days, _DAYS_MAX))
    if not pc.any(far).as_py():
        return days.cast(pa.int32()).cast(pa.date32()).cast(pa.string())
    near = pc.if_else(far, 0, days).cast(pa.int32()).cast(pa.date32()).cast(pa.string())
    found = pa.array([_far_date(each) for each in days.filter(far).to_pylist()], pa.string())
    return pc.replace_with_mask(near, far.fill_null(False), found)


def _far_date(days: int) -> str:
    """Return a date that Arrow and Python do not write: one of the same cycle of the calendar, with its own year."""
    cycles, place = divmod(days - _DAYS_MIN, _CYCLE_DAYS)
    found = _EPOCH + timedelta(days=place + _DAYS_MIN + _CYCLE_DAYS)  # In 400 to 799, which Python has.
    year = found.year + _CYCLE_YEARS * (cycles - 1)
    return f"{'-' if year < 0 else '+'}{abs(year):04}{found:-%m-%d}"


def _moment(values: pa.Array) -> pa.Array:
    return _enclose(b'"', _clock(values), b'Z"')


def _local_moment(values: pa.Array) -> pa.Array:
    return _enclose(b'"', _clock(values), b'"')


def _clock(values: pa.Array) -> pa.Array:
    micros = values.cast(pa.int64())
    days = pc.divide(micros, _DAY_US)  # Towards 0; a time before 1970 is of the day before.
    days = pc.subtract(days, pc.less(micros, pc.multiply(days, _DAY_US)).cast(pa.int64()))
    micros = pc.subtract(micros, pc.multiply(days, _DAY_US))  # Both may overflow, and both do then.
    millis = pc.divide(micros, 1_000)
    times = millis.cast(pa.int32()).cast(pa.time32("ms")).cast(pa.string())
    is_whole = pc.equal(micros, pc.multiply(millis, 1_000))
    if not pc.all(is_whole).as_py():
        times = pc.if_else(is_whole, times, micros.cast(pa.time64("us")).cast(pa.string()))
    return _join(_days(days).cast(_TEXT), times.cast(_TEXT), b"T")


_SIMPLE: Final[dict[type[DataType], Callable[[pa.Array], pa.Array]]] = {
    BinaryType: _base64,
    BooleanType: _plain,
    ByteType: _plain,
    DateType: _date,
    DecimalType: _plain,
    DoubleType: _number,
    FloatType: _number,
    IntegerType: _plain,
    LongType: _plain,
    ShortType: _plain,
    StringType: _string,
    TimestampNTZType: _local_moment,
    TimestampType: _moment,
}
