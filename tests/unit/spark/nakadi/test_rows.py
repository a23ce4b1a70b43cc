from datetime import UTC, datetime

import pytest

from penstock.spark.nakadi.columns import SCHEMA
from penstock.spark.nakadi.rows import ROWS, to_rows
from penstock.wire.subscriptions import BATCHES, BatchLine


def batch(*events: str) -> BatchLine:
    cursor = '{"partition":"0","offset":"001-0001-000000000000000042","event_type":"a.b"}'
    return BATCHES.decode(f'{{"cursor":{cursor},"events":[{",".join(events)}]}}')


def test_each_event_is_a_row_with_the_cursor_of_its_batch() -> None:
    rows = to_rows(batch('{"n" : 1.50,"t":"\\u00e4ä"}', "{}")).to_pylist()

    assert [each["data"] for each in rows] == ['{"n" : 1.50,"t":"\\u00e4ä"}', "{}"]
    assert [each["place"] for each in rows] == [0, 1]
    assert {(each["event_type"], each["partition"], each["cursor"]) for each in rows} == {
        ("a.b", "0", "001-0001-000000000000000042")
    }
    assert {(each["id"], each["received_at"]) for each in rows} == {(None, None)}


def test_event_metadata_fill_the_id_and_received_at_columns() -> None:
    [row] = to_rows(batch('{"metadata":{"eid":"x","received_at":"2026-11-20T10:00:00.123456Z"}}')).to_pylist()

    assert (row["id"], row["received_at"]) == ("x", datetime(2026, 11, 20, 10, 0, 0, 123456, UTC))


@pytest.mark.parametrize(
    "metadata",
    [
        "3",
        "null",
        '"x"',
        '{"eid":3,"received_at":"soon"}',
        '{"received_at":17}',
        '{"received_at":"2026-11-20T10:00:00"}',
    ],
)
def test_metadata_of_another_shape_are_kept_as_data(metadata: str) -> None:
    [row] = to_rows(batch(f'{{"metadata":{metadata}}}')).to_pylist()

    assert (row["id"], row["received_at"]) == (None, None)
    assert row["data"] == f'{{"metadata":{metadata}}}'


def test_rows_have_the_columns_that_spark_is_shown() -> None:
    assert SCHEMA.names == ROWS.names
    assert [each.nullable for each in SCHEMA.fields] == [each.nullable for each in ROWS]
