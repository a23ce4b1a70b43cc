import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from penstock.errors import BadParameter
from penstock.spark.columns import Column, source_schema, wanted_columns


def test_a_query_may_name_the_columns_it_wants() -> None:
    schema = StructType([StructField("data", StringType()), StructField("offset", LongType(), nullable=False)])

    assert wanted_columns(schema, include_headers=False) == (Column("data", True), Column("offset", False))


def test_all_columns_are_wanted_where_none_are_named() -> None:
    schema = source_schema(include_headers=True)

    assert [column.name for column in wanted_columns(schema, include_headers=True)] == schema.names


@pytest.mark.parametrize(
    "field",
    [StructField("payload", StringType()), StructField("offset", IntegerType()), StructField("headers", StringType())],
)
def test_a_column_that_there_is_not_is_refused_with_those_that_there_are(field: StructField) -> None:
    with pytest.raises(BadParameter, match=f"there is no column {field.name} .*there are: event_type string"):
        wanted_columns(StructType([field]), include_headers=False)
