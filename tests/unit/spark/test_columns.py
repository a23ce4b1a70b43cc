from dataclasses import replace

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from penstock.errors import BadParameter
from penstock.spark.columns import QueryColumn, Registered, choose_columns, some_of, source_schema, versions_of
from penstock.spark.options import SourceOptions

OPTIONS = SourceOptions(url="http://localhost:1", event_types=("a",))
WITH_HEADERS = replace(OPTIONS, include_headers=True)
TYPED = replace(OPTIONS, payload="typed")
EVENTS = StructType().add("id", LongType())


def test_a_query_may_name_the_columns_it_wants() -> None:
    schema = StructType([StructField("data", StringType()), StructField("offset", LongType(), nullable=False)])

    assert choose_columns(schema, OPTIONS) == (QueryColumn("data", True), QueryColumn("offset", False))


def test_all_columns_are_wanted_where_none_are_named() -> None:
    schema = source_schema(WITH_HEADERS)

    assert [column.name for column in choose_columns(schema, WITH_HEADERS)] == schema.names


@pytest.mark.parametrize(
    "field",
    [StructField("payload", StringType()), StructField("offset", IntegerType()), StructField("headers", StringType())],
)
def test_a_column_that_there_is_not_is_refused_with_those_that_there_are(field: StructField) -> None:
    with pytest.raises(BadParameter, match=f"column {field.name} .*there are: event_type string"):
        choose_columns(StructType([field]), OPTIONS)


def test_typed_events_have_rescued_members_and_schema_version() -> None:
    schema = source_schema(TYPED, Registered(EVENTS, {"a": "1.2.0"}))

    assert schema["data"].dataType == EVENTS
    assert "rescued_data" in schema.names
    assert "json" not in schema.names
    assert versions_of(schema) == {"a": "1.2.0"}
    assert versions_of(StructType()) == {}
    assert [each.events for each in choose_columns(schema, TYPED) if each.name == "data"] == [EVENTS]


def test_events_may_be_had_both_ways() -> None:
    schema = source_schema(replace(TYPED, payload="both"), Registered(EVENTS, {}))

    assert {"data", "rescued_data", "json"} <= set(schema.names)


@pytest.mark.parametrize("kind", ["string", "struct<>"])
def test_typed_events_are_a_struct(kind: str) -> None:
    with pytest.raises(BadParameter, match=r"column data .*data struct<…>"):
        choose_columns(StructType().add("data", kind if kind == "string" else StructType()), TYPED)


def test_typed_events_are_of_types_that_json_can_be() -> None:
    with pytest.raises(BadParameter, match=r"there is no JSON for data\.id binary"):
        choose_columns(StructType().add("data", StructType().add("id", "binary")), TYPED)


def test_rescued_data_column_without_data_is_refused() -> None:
    with pytest.raises(BadParameter, match="data beside rescued_data"):
        choose_columns(StructType().add("rescued_data", "string"), TYPED)


THERE = StructType().add("data", StringType(), False).add("number", LongType(), False)


def test_some_of_the_columns_can_be_had_in_any_order() -> None:
    schema = StructType().add("number", LongType()).add("data", StringType(), False)

    assert some_of(THERE, schema) == (QueryColumn("number", True), QueryColumn("data", False))
    assert some_of(THERE, StructType().add("data", StringType())) == (QueryColumn("data", True),)


@pytest.mark.parametrize("wrong", [StructType().add("offset", LongType()), StructType().add("number", IntegerType())])
def test_a_column_that_is_not_there_or_of_another_type_is_refused(wrong: StructType) -> None:
    with pytest.raises(BadParameter, match=r"column .*; there are: data string, number bigint"):
        some_of(THERE, wrong)
