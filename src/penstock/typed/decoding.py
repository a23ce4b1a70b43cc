"""Decode events into typed columns: Arrow reads the JSON of a batch, and events it cannot read are fitted one by one.

Invariants:
    A value is in its column, or in the rescued part of its event, whatever other events the batch has.
    The value in a column does not depend on other events of the batch.
"""

from collections.abc import Iterator
from datetime import date
from functools import reduce
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.typed.fitting import NOTHING, decode, encode, fit_of

TRIED_AGAIN: Final = 256
"""A batch that Arrow cannot read is read again in parts of so many events, before any is read alone."""
_DAYS: Final = ((date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days)
"""The first and the last day that Python can represent, in days since 1970."""
_MICROS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
Columns = tuple[pa.Array, pa.Array | None]
"""The typed events, and the rescued part of each as JSON: the values that do not fit."""


class TypedDecoder:
    """Decodes events into a struct. It holds Arrow values, so create it in the process that uses it."""

    def __init__(self, type: pa.StructType, *, rescues: bool) -> None:
        """Decode into *type*; with *rescues*, values that do not fit are kept.

        Raises:
            TypeError: JSON has no values of that type.
        """
        self.type = type
        self._fit = fit_of(type)
        self._rescues = rescues
        self._readable = _readable(type)
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema([*_read_fields(self._readable)]),
            newlines_in_values=False,
            unexpected_field_behavior="infer" if rescues or self._readable != type else "ignore",
        )

    def __call__(self, texts: pa.Array) -> Columns:
        """Return the events whose JSON is *texts*, none of them null or nested deeper than a hub accepts.

        Arrow 26 crashes at a text that is nested some thousand levels deep.
        """
        if not len(texts):
            return self._fit_rows(texts)
        if (found := self._read(texts)) is not None:
            return found
        pieces = [texts[at : at + TRIED_AGAIN] for at in range(0, len(texts), TRIED_AGAIN)]
        events, rests = zip(*(self._read(piece) or self._fit_rows(piece) for piece in pieces), strict=True)
        return pa.concat_arrays(events), pa.concat_arrays(rests) if self._rescues else None

    def _read(self, texts: pa.Array) -> Columns | None:
        """Return the events as Arrow reads them; None: Arrow cannot read them."""
        if not pc.all(pc.starts_with(texts, "{")).as_py():
            return None  # Arrow 26 crashes at a null.
        objects = _side_by_side(texts)
        options = pj.ReadOptions(use_threads=False, block_size=objects.size + 1)
        try:
            table = pj.read_json(pa.BufferReader(objects), read_options=options, parse_options=self._options)
            [batch] = table.combine_chunks().to_batches()
            columns = _arrange(batch.to_struct_array(), self.type)
        except (pa.ArrowException, ValueError):
            return None
        if len(columns) != len(texts):
            return None
        strange = _strange(batch.to_struct_array(), self._readable)
        if strange is None:
            return columns, pa.nulls(len(texts), pa.string()) if self._rescues else None
        return self._mend(texts, columns, strange)

    def _mend(self, texts: pa.Array, columns: pa.Array, strange: pa.Array) -> Columns:
        """Return *columns* with the *strange* events fitted one by one."""
        events, rests = self._fit_rows(texts.filter(strange))
        # A struct cannot be put into another's place: all are taken from one after the other.
        fitted = pc.add(pc.cumulative_sum(strange.cast(pa.int64())), len(texts) - 1)
        taken = pc.if_else(strange, fitted, pa.array(range(len(texts)), pa.int64()))
        columns = pa.concat_arrays([columns, events]).take(taken)
        none = pa.nulls(len(texts), pa.string())
        return columns, None if rests is None else pc.replace_with_mask(none, strange, rests)

    def _fit_rows(self, texts: pa.Array) -> Columns:
        """Return the events fitted one by one."""
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
        return pa.array(events, self.type), pa.array(rests, pa.string()) if self._rescues else None


def _side_by_side(texts: pa.Array) -> pa.Buffer:
    """Return the memory of *texts* without copying it: JSON objects need no separators."""
    _, places, content = texts.buffers()
    bounds = memoryview(places).cast("i")
    start, end = bounds[texts.offset], bounds[texts.offset + len(texts)]
    return content.slice(start, end - start)


def _readable(type: pa.StructType) -> pa.StructType:
    """Return the part of *type* that Arrow reads from JSON: without maps, and without lists of maps."""
    found = []
    for field in type:
        if pa.types.is_struct(field.type):
            within = _readable(field.type)
            if within.num_fields:
                found.append(pa.field(field.name, within))
        elif not _has_map(field.type):
            found.append(field)
    return pa.struct(found)


def _has_map(type: pa.DataType) -> bool:
    if pa.types.is_list(type):
        return _has_map(type.value_type)
    if pa.types.is_struct(type):
        return any(_has_map(field.type) for field in type) or not type.num_fields
    return bool(pa.types.is_map(type))


def _read_fields(type: pa.StructType) -> Iterator[pa.Field]:
    """Yield the members of *type* in the form that Arrow reads: dates as texts."""
    for field in type:
        yield pa.field(field.name, _read_as(field.type))


def _read_as(type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type):
        return pa.struct([*_read_fields(type)])
    if pa.types.is_list(type):
        return pa.list_(_read_as(type.value_type))
    return pa.string() if pa.types.is_date(type) else type


def _arrange(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Return the events that were read as *type*: missing members are null, and unknown ones are left out.

    Raises:
        pyarrow.ArrowInvalid: a text is no date.
        ValueError: a date or a time is before year 1 or after 9999.
    """
    if pa.types.is_struct(type):
        read = {field.name: array.field(number) for number, field in enumerate(array.type)}
        columns = [
            _arrange(read[field.name], field.type)
            if field.name in read and _is_read(read[field.name].type, field.type)
            else pa.nulls(len(array), field.type)
            for field in type
        ]
        return pa.StructArray.from_arrays(columns, fields=[*type], mask=array.is_null())
    if pa.types.is_list(type):
        items = _arrange(array.values, type.value_type)
        return pa.ListArray.from_arrays(array.offsets, items, type=type, mask=array.is_null())
    found = array.cast(type)
    if pa.types.is_date(type) or pa.types.is_timestamp(type):
        _check_years(found)
    return found


def _is_read(read: pa.DataType, type: pa.DataType) -> bool:
    """Return whether Arrow has read a member of *type* by its type; it infers the type of a struct of maps alone."""
    return bool(pa.types.is_struct(read)) if pa.types.is_struct(type) else not _has_map(type)


def _check_years(array: pa.Array) -> None:
    """Raise ValueError for a date or time outside Python's years, which is rescued when the event is fitted alone."""
    low, high = (each.value for each in pc.min_max(array).values())
    first, last = _DAYS if pa.types.is_date(array.type) else _MICROS
    if low is not None and not first <= low <= high <= last:
        raise ValueError("before year 1, or after 9999")


def _strange(array: pa.Array, type: pa.StructType) -> pa.Array | None:
    """Return for each event if it has a member that is not in *type*; None: no event has one."""
    known = {field.name: field.type for field in type}
    masks = []
    for number, field in enumerate(array.type):
        column, wanted = array.field(number), known.get(field.name)
        if wanted is not None and pa.types.is_struct(wanted):
            masks.append(_strange(column, wanted))
        elif (wanted is None and not pa.types.is_null(field.type)) or _has_more(field.type, wanted):
            masks.append(column.is_valid())
    found = [mask for mask in masks if mask is not None]
    return reduce(pc.or_, found) if found else None


def _has_more(read: pa.DataType, type: pa.DataType | None) -> bool:
    """Return whether structs within arrays were read with members that are not in *type*."""
    if type is None:
        return False
    if pa.types.is_list(type):
        return _has_more(read.value_type, type.value_type)
    if pa.types.is_struct(type):
        known = {field.name: field.type for field in type}
        return any(
            not pa.types.is_null(field.type) if field.name not in known else _has_more(field.type, known[field.name])
            for field in read
        )
    return False
