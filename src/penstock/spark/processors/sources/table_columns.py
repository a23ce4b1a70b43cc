"""What of a table is what of an event: columns by their names, or as expressions of Spark's."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)  # fmt: skip

from penstock.errors import BadParameter

Given: TypeAlias = str | Column
KIND: Final = "event"
"""What happened, where nobody says it."""
WHOLE: Final = "struct(*)"
"""The row itself."""


def column(frame: DataFrame, given: Given) -> Column:
    """Return a column of *frame*, or what an expression makes of its columns."""
    if isinstance(given, str):
        return frame[f"`{given}`"] if given in frame.columns else sf.expr(given)
    return given


def index_column(frame: DataFrame, given: Given) -> Column:
    """Return the index.

    Raises:
        BadParameter: it is no whole number.
    """
    found = column(frame, given)
    kind = frame.select(found).schema[0].dataType
    if not isinstance(kind, IntegralType):
        allowed = "whole numbers from 0, such as bigint; of a time from 1970 on, unix_micros(…)"
        raise BadParameter(parameter="index", value=kind.simpleString(), allowed=allowed)
    return found


def tranche_name(columns: Sequence[Column]) -> Column:
    """Return what a tranche is called: the values of its columns, `order.placed/3`."""
    if not columns:
        return sf.lit("0")
    return sf.concat_ws("/", *(sf.coalesce(each.cast("string"), sf.lit("null")) for each in columns))


def stream_column(found: Column, tranche: Column, *, is_hashed: bool) -> Column:
    """Return what a stream is called: itself, or with its tranche where it can lie in several."""
    own = sf.concat(tranche, sf.lit("_"), sf.coalesce(found.cast("string"), sf.lit("")))
    return sf.coalesce(found.cast("string"), own) if is_hashed else own


def data_column(frame: DataFrame, given: Given) -> Column:
    """Return the event's JSON: texts and bytes as they are, structs, maps and arrays as Spark makes JSON of them.

    Raises:
        BadParameter: it is a value alone.
    """
    found = column(frame, given)
    kind = frame.select(found.alias("data")).schema[0].dataType
    if isinstance(kind, StringType | BinaryType):
        made = found.cast("string")
    elif isinstance(kind, StructType | MapType | ArrayType):
        made = sf.to_json(found)
    else:
        allowed = "JSON as a text or bytes, or a struct, a map or an array, such as struct(*)"
        raise BadParameter(parameter="data", value=kind.simpleString(), allowed=allowed)
    return sf.coalesce(made, sf.lit("null"))


def headers_column(frame: DataFrame, given: Given | None) -> Column:
    """Return the headers as a JSON object: of a map or a struct, or of what is one already.

    Raises:
        BadParameter: they are neither.
    """
    if given is None:
        return sf.lit(None).cast("string")
    found = column(frame, given)
    kind = frame.select(found.alias("headers")).schema[0].dataType
    if isinstance(kind, MapType):
        return sf.to_json(sf.map_filter(found.cast("map<string,string>"), lambda _, text: text.isNotNull()))
    if isinstance(kind, StringType):
        return found
    raise BadParameter(parameter="headers", value=kind.simpleString(), allowed="a map, or a JSON object of texts")


def received_column(frame: DataFrame, given: Given | None) -> Column:
    """Return when the event was received, in microseconds since 1970.

    Raises:
        BadParameter: it is no time, and no such number.
    """
    if given is None:
        return sf.lit(None).cast("bigint")
    found = column(frame, given)
    kind = frame.select(found.alias("received")).schema[0].dataType
    if isinstance(kind, TimestampType | TimestampNTZType):
        return sf.unix_micros(found.cast("timestamp"))
    if isinstance(kind, LongType):
        return found
    raise BadParameter(
        parameter="received", value=kind.simpleString(), allowed="a timestamp, or microseconds as bigint"
    )
