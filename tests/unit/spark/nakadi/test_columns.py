from penstock.spark.nakadi.columns import SCHEMA
from penstock.spark.nakadi.rows import ROWS


def test_all_columns_are_offered_as_they_are_landed() -> None:
    assert SCHEMA.names == ROWS.names
    assert [each.nullable for each in SCHEMA.fields] == [each.nullable for each in ROWS]
