import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

from penstock.errors import BadParameter
from penstock.spark.nakadi.columns import SCHEMA, wanted_columns
from penstock.spark.nakadi.rows import ROWS


def test_all_columns_are_offered_as_they_are_landed() -> None:
    assert [column.name for column in wanted_columns(SCHEMA)] == SCHEMA.names == ROWS.names
    assert [each.nullable for each in SCHEMA.fields] == [each.nullable for each in ROWS]


def test_some_columns_are_enough() -> None:
    assert [column.name for column in wanted_columns(StructType().add("place", LongType()))] == ["place"]


@pytest.mark.parametrize("wrong", [StructType().add("offset", LongType()), StructType().add("place", IntegerType())])
def test_a_column_that_is_not_there_or_of_another_type_is_refused(wrong: StructType) -> None:
    with pytest.raises(BadParameter, match=r"there is no column .*; there are: event_type string, partition string"):
        wanted_columns(wrong)
