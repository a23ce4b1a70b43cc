"""Select the typed columns of a query from the columns of a file.

A file has columns for the members of its event type's schema when it was written; a query may want fewer, or more.
"""

from typing import NamedTuple

import pyarrow as pa


class MemberSelection(NamedTuple):
    """A way to convert typed events of one type into events of another, with the members to read."""

    type: pa.StructType
    """The type of the converted events."""
    paths: tuple[str, ...]
    """The members that have to be read, such as `order.id`."""
    is_whole: bool
    """True if each wanted member has a column; else the conversion holds only for events without a rescued part."""

    def apply(self, array: pa.StructArray) -> pa.StructArray:
        """Convert typed events, of which at least `paths` were read, to the wanted type."""
        found = _select(array, self.type)
        assert pa.types.is_struct(found.type)
        return found


def select_members(there: pa.StructType, wanted: pa.StructType) -> MemberSelection | None:
    """Return the way to convert typed events of type *there* to *wanted*; None: there is none.

    The result is that of decoding the JSON into *wanted*, since no value depends on other members.

    >>> there = pa.struct({"id": pa.int64(), "at": pa.struct({"x": pa.int64(), "y": pa.int64()})})
    >>> select_members(there, pa.struct({"at": pa.struct({"y": pa.int64()})})).paths
    ('at.y',)
    >>> select_members(there, pa.struct({"id": pa.string()})) is None
    True
    """
    paths = list[str]()
    is_whole = _collect(there, wanted, "", paths)
    return None if is_whole is None else MemberSelection(wanted, tuple(paths), is_whole)


def _collect(there: pa.StructType, wanted: pa.StructType, prefix: str, paths: list[str]) -> bool | None:
    """Add the members to read; return whether all exist, or None if one has another type."""
    members = {field.name: field for field in there}
    is_whole, count = True, len(paths)
    for field in wanted:
        found = members.get(field.name)
        if found is None:
            is_whole = False
        elif pa.types.is_struct(found.type) and pa.types.is_struct(field.type):
            within = _collect(found.type, field.type, f"{prefix}{field.name}.", paths)
            if within is None:
                return None
            is_whole = is_whole and within
        elif found.type.equals(field.type):
            paths.append(f"{prefix}{field.name}")
        else:
            return None
    if len(paths) == count:  # Whether it is null is in any member.
        paths.append(f"{prefix}{there[0].name}")
    return is_whole


def _select(array: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    members = {field.name: number for number, field in enumerate(array.type)}
    columns = []
    for field in wanted:
        if field.name not in members:
            columns.append(pa.nulls(len(array), field.type))
            continue
        column = array.field(members[field.name])
        columns.append(_select(column, field.type) if pa.types.is_struct(field.type) else column)
    return pa.StructArray.from_arrays(columns, fields=[*wanted], mask=array.is_null())
