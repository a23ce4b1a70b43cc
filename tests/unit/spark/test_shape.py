from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.core.log.arrow import SCHEMA
from penstock.spark.columns import choose_columns, source_schema
from penstock.spark.options import SourceOptions
from penstock.spark.shape import Shape, headers_map

OPTIONS = SourceOptions(url="http://localhost:1", event_types=("order.placed",))
WITH_HEADERS = replace(OPTIONS, include_headers=True)
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


@pytest.mark.parametrize("options", [OPTIONS, WITH_HEADERS], ids=["plain", "with headers"])
def test_batches_have_the_very_schema_that_spark_expects(options: SourceOptions) -> None:
    schema = source_schema(options)
    columns = choose_columns(schema, options)

    assert Shape(columns).schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert Shape(columns)(page([None]), "order.placed").schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_rows_are_the_events() -> None:
    columns = choose_columns(source_schema(WITH_HEADERS), WITH_HEADERS)

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
def test_event_without_a_kind_has_its_event_type_as_kind(kinds: list[str | None]) -> None:
    columns = choose_columns(StructType([StructField("kind", StringType())]), OPTIONS)

    shaped = Shape(columns)(page(kinds), "order.placed")

    assert shaped.column("kind").to_pylist() == [kind or "order.placed" for kind in kinds]


def test_a_query_may_want_fewer_columns_in_its_own_order() -> None:
    schema = StructType([StructField("data", StringType()), StructField("offset", LongType())])
    columns = choose_columns(schema, OPTIONS)

    shaped = Shape(columns)(page([None, None]), "order.placed")

    assert shaped.schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_one_shape_serves_batches_of_several_sizes_and_event_types() -> None:
    shape = Shape(choose_columns(source_schema(OPTIONS), OPTIONS))

    names = [
        shape(page([None] * count), name).column("event_type").to_pylist()
        for count, name in [(2, "a"), (3, "a"), (1, "b")]
    ]

    assert names == [["a", "a"], ["a", "a", "a"], ["b"]]


def test_headers_become_maps() -> None:
    assert headers_map(pa.array(['{"a":"1","b":"2"}', None, "{}"])).to_pylist() == [[("a", "1"), ("b", "2")], None, []]


def test_typed_events_have_their_json_and_rescued_members_beside_them() -> None:
    schema = StructType().add("json", "string", False).add("data", StructType().add("n", LongType()))
    shape = Shape(choose_columns(schema.add("rescued_data", "string"), replace(OPTIONS, payload="both")))

    batch = page([None, None]).set_column(5, "data", pa.array(['{"n": 1}', '{"n": 2, "m": 3}']))
    assert shape(batch, "order.placed").to_pylist() == [
        {"json": '{"n": 1}', "data": {"n": 1}, "rescued_data": None},
        {"json": '{"n": 2, "m": 3}', "data": {"n": 2}, "rescued_data": '{"m":3}'},
    ]
