"""Rows in the columns that a query wants."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.spark.columns import QueryColumn


def selected(rows: pa.RecordBatch, columns: Sequence[QueryColumn]) -> pa.RecordBatch:
    """Return *columns* of *rows*, with what the query says of them."""
    fields = [rows.schema.field(each.name).with_nullable(each.nullable) for each in columns]
    return pa.RecordBatch.from_arrays([rows.column(each.name) for each in fields], schema=pa.schema(fields))
