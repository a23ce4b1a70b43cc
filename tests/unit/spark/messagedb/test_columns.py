import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from penstock.errors import BadParameter
from penstock.spark.columns import Column
from penstock.spark.messagedb.columns import SCHEMA, expression, wanted_columns


def test_all_columns_are_wanted_unless_fewer_are_named() -> None:
    assert [column.name for column in wanted_columns(SCHEMA)] == SCHEMA.names
    some = StructType().add("data", StringType(), False).add("position", LongType())
    assert wanted_columns(some) == (Column("data", False), Column("position", True))


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadParameter, match=r"there is no column offset bigint; there are: category string, stream str"):
        wanted_columns(StructType().add("offset", LongType()))


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(BadParameter, match="there is no column position int"):
        wanted_columns(StructType().add("position", IntegerType()))


def test_every_column_but_the_category_is_read_from_the_table() -> None:
    assert [name for name in SCHEMA.names if not expression(name)] == ["category"]
