"""Spark's types, by how Spark itself shows them: it reads them with a session alone."""

import re
from typing import Final

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

_SIMPLE: Final[dict[str, DataType]] = {
    kind.simpleString(): kind
    for kind in (
        types.BinaryType(), types.BooleanType(), types.ByteType(), types.DateType(), types.DoubleType(),
        types.FloatType(), types.IntegerType(), types.LongType(), types.ShortType(), StringType(),
        types.TimestampNTZType(), types.TimestampType(),
    )
}  # fmt: skip


def kind_of(shown: str) -> DataType:
    """Return the type that is *shown*.

    >>> kind_of("struct<a:map<string,bigint>,b:decimal(4,2)>").simpleString()
    'struct<a:map<string,bigint>,b:decimal(4,2)>'
    """
    shown = shown.strip()
    if shown in _SIMPLE:
        return _SIMPLE[shown]
    name, _, within = re.sub(r"[>)]$", "", shown).partition("<" if "<" in shown else "(")
    if name == "struct":
        return StructType(
            [StructField(each, kind_of(kind)) for each, _, kind in (p.partition(":") for p in _parts(within))]
        )
    if name == "array":
        return ArrayType(kind_of(within))
    first, second = _parts(within)
    return DecimalType(int(first), int(second)) if name == "decimal" else MapType(kind_of(first), kind_of(second))


def struct(members: str) -> StructType:
    """Return the struct of these members."""
    found = kind_of(f"struct<{members}>")
    assert isinstance(found, StructType)
    return found


def arrow(shown: str) -> pa.DataType:
    """Return the type of Arrow that Spark has for the type that is *shown*."""
    return to_arrow_type(kind_of(shown), timezone="UTC")


def show(type: pa.DataType) -> str:
    """Return how Spark shows a type of Arrow.

    >>> show(arrow("struct<a:map<string,bigint>>"))
    'struct<a:map<string,bigint>>'
    """
    return from_arrow_type(type).simpleString()


def _parts(text: str) -> list[str]:
    """Split at the commas that are not within brackets."""
    found, depth = [""], 0
    for each in text:
        depth += (each in "<(") - (each in ">)")
        if each == "," and not depth:
            found.append("")
        else:
            found[-1] += each
    return [each.strip() for each in found if each.strip()]
