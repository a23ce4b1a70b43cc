"""Typed columns as a query wants them, made of those that a file has.

A file has columns for what its event type's schema named when it was written; a query may want fewer, or more.
"""

from typing import NamedTuple

import pyarrow as pa


class MemberSelection(NamedTuple):
    """How typed events of one type are made of those of another."""

    type: pa.StructType
    """What is made."""
    paths: tuple[str, ...]
    """The members that have to be read, such as `order.id`."""
    is_whole: bool
    """Whether all that is wanted has a column; else it holds only for events of which nothing was rescued."""

    def apply(self, array: pa.StructArray) -> pa.StructArray:
        """Return typed events, of which at least `paths` were read, as the type that is wanted."""
        found = _select(array, self.type)
        assert pa.types.is_struct(found.type)
        return found


def select_members(there: pa.StructType, wanted: pa.StructType) -> MemberSelection | None:
    """Return how typed events of type *wanted* are made of those of type *there*; None: they cannot be.

    Values are the same as if JSON was decoded into *wanted*, since what a value is does not depend on others.

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
    """Add the members to read; return whether there are all, None if one is of another type."""
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
