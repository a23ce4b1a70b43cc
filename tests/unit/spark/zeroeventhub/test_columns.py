import pytest
from pyspark.sql.types import LongType, StringType, StructType

from penstock.errors import BadParameter
from penstock.spark.columns import Column
from penstock.spark.zeroeventhub.columns import SCHEMA, remote_schema, wanted_columns


def test_headers_are_there_if_they_are_asked_for() -> None:
    assert remote_schema(include_headers=False).names == ["partition", "number", "data"]
    assert remote_schema(include_headers=True) == SCHEMA


def test_some_of_the_columns_can_be_had_in_any_order() -> None:
    schema = StructType().add("data", StringType()).add("number", LongType(), False)

    assert wanted_columns(schema, include_headers=False) == (Column("data", True), Column("number", False))


@pytest.mark.parametrize("name", ["offset", "partition", "headers"])
def test_others_are_refused(name: str) -> None:
    with pytest.raises(BadParameter, match=rf"no column {name} bigint; there are: partition int, number bigint, data"):
        wanted_columns(StructType().add(name, LongType()), include_headers=False)
