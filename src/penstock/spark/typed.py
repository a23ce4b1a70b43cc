"""Events as typed columns: their JSON is decoded once, by Arrow; what Arrow cannot read is fitted event by event.

Invariants:
    A value is in its column, or in the rescued part of its event, whatever else stands in the batch.
    What a value is in its column does not depend on the events beside it.
"""

from collections.abc import Iterator
from datetime import date
from functools import reduce
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructField, StructType, TimestampType

from penstock.spark.fitting import NOTHING, decode, encode, fit_of

TRIED_AGAIN: Final = 256
"""Of a batch that Arrow cannot read, so many events are tried together again before each is looked at."""
_DAYS: Final = ((date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days)
"""The first and the last day that Python has, by days since 1970."""
_MICROS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
Columns = tuple[pa.Array, pa.Array | None]
"""The typed events, and what of each has not fitted, as JSON."""


class TypedDecoder:
    """Decodes events into a struct. Holds Arrow values: made where it is used."""

    def __init__(self, kind: StructType, *, rescues: bool) -> None:
        """Decode into *kind*; where it *rescues*, what does not fit is kept.

        Raises:
            BadParameter: events have no such type.
        """
        self._kind = kind
        self._fit = fit_of(kind)
        self._rescues = rescues
        self.arrow_type = to_arrow_type(kind, timezone="UTC")
        self._readable = _readable(kind)
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema([*_read_type(self._readable)]),
            newlines_in_values=False,
            unexpected_field_behavior="infer" if rescues or self._readable != kind else "ignore",
        )

    def __call__(self, texts: pa.Array) -> Columns:
        """Return the events whose JSON is *texts*: none is null, or nested deeper than a hub takes events.

        Arrow 26 crashes at a text that is nested some thousand levels deep.
        """
        if not len(texts):
            return self._fitted(texts)
        if (found := self._read(texts)) is not None:
            return found
        pieces = [texts[at : at + TRIED_AGAIN] for at in range(0, len(texts), TRIED_AGAIN)]
        events, rests = zip(*(self._read(piece) or self._fitted(piece) for piece in pieces), strict=True)
        return pa.concat_arrays(events), pa.concat_arrays(rests) if self._rescues else None

    def _read(self, texts: pa.Array) -> Columns | None:
        """Return what Arrow reads of them; None: it cannot."""
        if not pc.all(pc.starts_with(texts, "{")).as_py():
            return None  # Arrow 26 crashes at a null.
        objects = _side_by_side(texts)
        options = pj.ReadOptions(use_threads=False, block_size=objects.size + 1)
        try:
            table = pj.read_json(pa.BufferReader(objects), read_options=options, parse_options=self._options)
            [batch] = table.combine_chunks().to_batches()
            columns = _arranged(batch.to_struct_array(), self._kind)
        except (pa.ArrowException, ValueError):
            return None
        if len(columns) != len(texts):
            return None
        strange = _strange(batch.to_struct_array(), self._readable)
        if strange is None:
            return columns, pa.nulls(len(texts), pa.string()) if self._rescues else None
        return self._mended(texts, columns, strange)

    def _mended(self, texts: pa.Array, columns: pa.Array, strange: pa.Array) -> Columns:
        """Return *columns*, with those events fitted one by one that are *strange*."""
        events, rests = self._fitted(texts.filter(strange))
        # A struct cannot be put into another's place: all are taken from one after the other.
        fitted = pc.add(pc.cumulative_sum(strange.cast(pa.int64())), len(texts) - 1)
        taken = pc.if_else(strange, fitted, pa.array(range(len(texts)), pa.int64()))
        columns = pa.concat_arrays([columns, events]).take(taken)
        none = pa.nulls(len(texts), pa.string())
        return columns, None if rests is None else pc.replace_with_mask(none, strange, rests)

    def _fitted(self, texts: pa.Array) -> Columns:
        """Return them fitted one by one."""
        events, rests = [], []
        for text in texts.to_pylist():
            try:
                event, rest = self._fit(decode(text))
            except (msgspec.DecodeError, RecursionError):
                event, rest = None, text
            else:
                rest = None if rest is NOTHING else encode(rest).decode()
            events.append(event)
            rests.append(rest)
        return pa.array(events, self.arrow_type), pa.array(rests, pa.string()) if self._rescues else None


def _side_by_side(texts: pa.Array) -> pa.Buffer:
    """Return them as they stand in memory, not copied: between objects JSON needs nothing."""
    _, places, content = texts.buffers()
    bounds = memoryview(places).cast("i")
    start, end = bounds[texts.offset], bounds[texts.offset + len(texts)]
    return content.slice(start, end - start)


def _readable(kind: StructType) -> StructType:
    """Return what of *kind* Arrow reads from JSON: no maps, nor what they are part of but structs."""
    found = []
    for field in kind.fields:
        if isinstance(field.dataType, StructType):
            within = _readable(field.dataType)
            if within.fields:
                found.append(StructField(field.name, within))
        elif not _has_map(field.dataType):
            found.append(StructField(field.name, field.dataType))
    return StructType(found)


def _has_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _has_map(kind.elementType)
        case StructType():
            return any(_has_map(field.dataType) for field in kind.fields) or not kind.fields
    return False


def _read_type(kind: StructType) -> Iterator[pa.Field]:
    """Yield the members of *kind* as Arrow is to read them: dates as texts."""
    for field in kind.fields:
        yield pa.field(field.name, _read_as(field.dataType))


def _read_as(kind: DataType) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([*_read_type(kind)])
        case ArrayType():
            return pa.list_(_read_as(kind.elementType))
        case DateType():
            return pa.string()
    return to_arrow_type(kind, timezone="UTC")


def _arranged(array: pa.Array, kind: DataType) -> pa.Array:
    """Return what was read as *kind*: members that were not read are null, and others are left out.

    Raises:
        pyarrow.ArrowInvalid: a text is no date.
        ValueError: a date or a time is before year 1 or after 9999.
    """
    goal = to_arrow_type(kind, timezone="UTC")
    match kind:
        case StructType():
            read = {field.name: number for number, field in enumerate(array.type)}
            columns = [
                _arranged(array.field(read[field.name]), field.dataType)
                if field.name in read and (isinstance(field.dataType, StructType) or not _has_map(field.dataType))
                else pa.nulls(len(array), to_arrow_type(field.dataType, timezone="UTC"))
                for field in kind.fields
            ]
            return pa.StructArray.from_arrays(columns, fields=[*goal], mask=array.is_null())
        case ArrayType():
            items = _arranged(array.values, kind.elementType)
            return pa.ListArray.from_arrays(array.offsets, items, type=goal, mask=array.is_null())
    found = array.cast(goal)
    if isinstance(kind, DateType | TimestampType):
        _check_years(found)
    return found


def _check_years(array: pa.Array) -> None:
    """Raise ValueError where there is a date or a time that Python does not have: fitted one by one, it is rescued."""
    low, high = (each.value for each in pc.min_max(array).values())
    first, last = _DAYS if pa.types.is_date(array.type) else _MICROS
    if low is not None and not first <= low <= high <= last:
        raise ValueError("before year 1, or after 9999")


def _strange(array: pa.Array, kind: StructType) -> pa.Array | None:
    """Tell of each event whether it has a member that is not in *kind*; None: no event has."""
    known = {field.name: field.dataType for field in kind.fields}
    masks = []
    for number, field in enumerate(array.type):
        column, wanted = array.field(number), known.get(field.name)
        if isinstance(wanted, StructType):
            masks.append(_strange(column, wanted))
        elif (wanted is None and not pa.types.is_null(field.type)) or _has_more(field.type, wanted):
            masks.append(column.is_valid())
    found = [mask for mask in masks if mask is not None]
    return reduce(pc.or_, found) if found else None


def _has_more(read: pa.DataType, kind: DataType | None) -> bool:
    """Tell whether structs within arrays were read with members that are not in *kind*."""
    if isinstance(kind, ArrayType):
        return _has_more(read.value_type, kind.elementType)
    if isinstance(kind, StructType):
        known = {field.name: field.dataType for field in kind.fields}
        return any(
            not pa.types.is_null(field.type) if field.name not in known else _has_more(field.type, known[field.name])
            for field in read
        )
    return False
