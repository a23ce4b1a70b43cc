from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.spark.columns import source_schema, wanted_columns
from penstock.spark.shape import Shape, arrow_schema, headers_map
from penstock.wire.arrow import SCHEMA

AT = datetime(2024, 5, 5, 12, tzinfo=UTC)


def page(kinds: list[str | None]) -> pa.RecordBatch:
    count = len(kinds)
    columns = {
        "partition": [3] * count,
        "offset": list(range(count)),
        "key": ["k"] * count,
        "kind": kinds,
        "headers": ['{"ce_id": "7"}'] * count,
        "data": ["{}"] * count,
        "received_at": [AT] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


@pytest.mark.parametrize("include_headers", [False, True])
def test_batches_have_the_very_schema_that_spark_expects(include_headers: bool) -> None:
    schema = source_schema(include_headers=include_headers)
    columns = wanted_columns(schema, include_headers=include_headers)

    assert arrow_schema(columns).equals(to_arrow_schema(schema, timezone="UTC"))
    assert Shape(columns)(page([None]), "order.placed").schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_rows_are_the_events() -> None:
    columns = wanted_columns(source_schema(include_headers=True), include_headers=True)

    [row] = Shape(columns)(page(["order.cancelled"]), "order.placed").to_pylist()

    assert row == {
        "event_type": "order.placed",
        "partition": 3,
        "offset": 0,
        "key": "k",
        "headers": [("ce_id", "7")],
        "data": "{}",
        "received_at": AT,
        "kind": "order.cancelled",
    }


@pytest.mark.parametrize("kinds", [[None, None], ["x", None], ["x", "y"]])
def test_the_kind_of_an_event_that_says_none_is_its_event_type(kinds: list[str | None]) -> None:
    columns = wanted_columns(StructType([StructField("kind", StringType())]), include_headers=False)

    shaped = Shape(columns)(page(kinds), "order.placed")

    assert shaped.column("kind").to_pylist() == [kind or "order.placed" for kind in kinds]


def test_a_query_may_want_fewer_columns_in_its_own_order() -> None:
    schema = StructType([StructField("data", StringType()), StructField("offset", LongType())])
    columns = wanted_columns(schema, include_headers=False)

    shaped = Shape(columns)(page([None, None]), "order.placed")

    assert shaped.schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_one_shape_serves_batches_of_several_sizes_and_event_types() -> None:
    shape = Shape(wanted_columns(source_schema(include_headers=False), include_headers=False))

    names = [
        shape(page([None] * count), name).column("event_type").to_pylist()
        for count, name in [(2, "a"), (3, "a"), (1, "b")]
    ]

    assert names == [["a", "a"], ["a", "a", "a"], ["b"]]


def test_headers_become_maps() -> None:
    assert headers_map(pa.array(['{"a":"1","b":"2"}', None, "{}"])).to_pylist() == [[("a", "1"), ("b", "2")], None, []]
