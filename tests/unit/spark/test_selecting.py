import pyarrow as pa

from penstock.spark.columns import QueryColumn
from penstock.spark.shape import select_columns

HEADERS = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string()))


def test_selected_columns_have_the_order_and_nullability_of_the_query() -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array([40], pa.int64()), pa.array([[("a", "b")]], HEADERS), pa.array(["1"])],
        schema=pa.schema([pa.field("number", pa.int64(), nullable=False), ("headers", HEADERS), ("data", pa.string())]),
    )

    found = select_columns(rows, [QueryColumn("data", True), QueryColumn("headers", True), QueryColumn("number", True)])

    assert found.schema == pa.schema([("data", pa.string()), ("headers", HEADERS), ("number", pa.int64())])
    assert found.to_pylist() == [{"data": "1", "headers": [("a", "b")], "number": 40}]
