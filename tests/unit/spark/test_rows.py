"""Rows become events: structs and JSON, with what accompanies them."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructType

from penstock.core.events.event import NewEvent
from penstock.errors import BadParameter, InvalidRecord
from penstock.spark.rows import EventRows
from tests.failing import has_code
from tests.unit.spark.kinds import struct


def make_events(ddl: str, *rows: dict[str, Any], rejects: bool = False) -> list[NewEvent]:
    schema = struct(ddl)
    batch = pa.RecordBatch.from_pylist(list(rows), pa.schema([*to_arrow_type(schema, timezone="UTC")]))
    return EventRows(schema, "a", rejects=rejects)(batch)


def data_of(event: NewEvent) -> Any:
    return json.loads(bytes(event.data))


def test_json_goes_on_byte_for_byte() -> None:
    text = ' {"a" : 1.0, "b":"\\u00e9é"} '

    assert [bytes(each.data) for each in make_events("data:string", {"data": text})] == [text.encode()]
    assert [bytes(each.data) for each in make_events("data:binary", {"data": text.encode()})] == [text.encode()]


def test_an_event_is_one_line() -> None:
    [event] = make_events("data:string", {"data": '{"a":\n1}'})

    assert b"\n" not in bytes(event.data)
    assert data_of(event) == {"a": 1}


def test_row_publishes_its_key_headers_and_partition() -> None:
    ddl = "key:string,data:string,headers:map<string,string>,partition:int"

    assert make_events(
        ddl,
        {"key": "k", "data": "{}", "headers": [("h", "1")], "partition": 3},
        {"key": None, "data": "{}", "headers": None, "partition": None},
    ) == [NewEvent.of(b"{}", key="k", headers={"h": "1"}, partition=3), NewEvent.of(b"{}")]


def test_a_struct_is_written_as_spark_writes_it() -> None:
    ddl = (
        "data:struct<i:bigint,s:string,d:double,n:decimal(38,18),b:boolean,t:timestamp,y:date,x:binary,"
        "l:array<struct<a:int>>,m:map<string,array<int>>,o:struct<a:int,b:string>>"
    )
    row = {
        "i": 9223372036854775807, "s": 'é"', "d": 0.5, "n": Decimal("12.500000000000000000"), "b": False,
        "t": datetime(2026, 11, 20, 10, 0, 0, 5, tzinfo=UTC), "y": date(2026, 11, 20), "x": b"\xff",
        "l": [{"a": 1}, None, {"a": None}], "m": [("k", [1, None]), ("none", None)], "o": {"a": None, "b": "x"},
    }  # fmt: skip

    [event] = make_events(ddl, {"data": row})

    assert data_of(event) == {
        "i": 9223372036854775807, "s": 'é"', "d": 0.5, "n": 12.5, "b": False, "t": "2026-11-20T10:00:00.000005Z",
        "y": "2026-11-20", "x": "/w==", "l": [{"a": 1}, None, {}], "m": {"k": [1, None], "none": None}, "o": {"b": "x"},
    }  # fmt: skip
    assert b"12.500000000000000000" in bytes(event.data)


def test_null_members_are_left_out() -> None:
    [event] = make_events("data:struct<a:int,b:struct<c:int>>", {"data": {"a": None, "b": None}})

    assert bytes(event.data) == b"{}"


def test_struct_without_members_is_an_empty_object() -> None:
    kind = "struct<>"
    whole, within = (
        make_events(f"data:{kind}", {"data": {}}),
        make_events(f"data:struct<l:array<{kind}>>", {"data": {"l": [{}, None]}}),
    )

    assert [bytes(event.data) for event in (*whole, *within)] == [b"{}", b'{"l":[{},null]}']


@pytest.mark.parametrize(
    ("metadata", "given"),
    [
        ("string", '{"eid":"e"}'),
        ("struct<eid:string,more:string>", {"eid": "e", "more": None}),
        ("map<string,string>", [("eid", "e")]),
    ],
)
@pytest.mark.parametrize(("data", "own"), [("string", '{"a":1} '), ("struct<a:int>", {"a": 1})])
def test_metadata_becomes_a_member(metadata: str, given: Any, data: str, own: Any) -> None:
    ddl = f"data:{data},metadata:{metadata}"
    first, second = make_events(ddl, {"data": own, "metadata": given}, {"data": own, "metadata": None})

    assert data_of(first) == {"a": 1, "metadata": {"eid": "e"}}
    assert data_of(second) == {"a": 1}


def test_an_event_without_members_may_have_metadata() -> None:
    [event] = make_events("data:string,metadata:string", {"data": "{ }", "metadata": "{}"})

    assert data_of(event) == {"metadata": {}}


@pytest.mark.parametrize("text", [None, "", "{", '{"a":1}}', "{'a':1}", "{]"])
def test_row_that_is_not_json_is_refused_and_shown(text: str | None) -> None:
    with pytest.raises(
        InvalidRecord, check=has_code("invalid-row"), match="a row is no valid event of 'a': its data is"
    ):
        make_events("data:string", {"data": "{}"}, {"data": text})


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidRecord, check=has_code("invalid-row"), match=r"its data is not JSON.*begins \{\\xff\}"):
        make_events("data:binary", {"data": b"{\xff}"})
    with pytest.raises(InvalidRecord, check=has_code("invalid-row"), match="null"):
        make_events("data:struct<a:int>", {"data": None})


def test_where_rows_are_set_apart_each_is_still_a_line() -> None:
    events = make_events("data:string", {"data": "{"}, {"data": None}, {"data": '{"a":1}'}, rejects=True)

    assert [data_of(event) for event in events] == ["{", None, {"a": 1}]


@pytest.mark.parametrize(
    "ddl",
    [
        "key:string",
        "data:int",
        "data:string,offset:bigint",
        "data:string,key:int",
        "data:string,headers:map<string,int>",
        "data:string,headers:string",
        "data:string,partition:string",
        "data:string,metadata:int",
        "data:struct<a:map<int,string>>",
        "data:struct<a:int,a:string>",
        "data:string,data:string",
        "DATA:string",
        "data:string,KEY:string",
    ],
)
def test_columns_that_are_none_of_an_event_are_refused_with_those_that_are(ddl: str) -> None:
    with pytest.raises(BadParameter, match=r"(columns?|members) .*; allowed: data \(struct"):
        EventRows(struct(ddl), "a", rejects=False)


def test_column_name_in_another_case_is_refused_with_the_right_name() -> None:
    with pytest.raises(BadParameter, match="column DATA string is to be called data: rename it; allowed"):
        EventRows(struct("DATA:string"), "a", rejects=False)


NOT_UTF_8 = pa.array([b"\xff", b"k"]).view(pa.string())


@pytest.mark.parametrize(
    ("ddl", "column", "reason"),
    [
        ("key:string", NOT_UTF_8, "its key is not UTF-8"),
        ("headers:map<string,string>", [[("h", None)], [("h", "1")]], "its header 'h' is null; leave it out with"),
        ("headers:map<string,string>", [[("h", "1"), ("h", "2")], None], "its header 'h' is there twice"),
        (
            "headers:map<string,string>",
            pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["h", "h"]), NOT_UTF_8),
            "a header is not UTF-8",
        ),
    ],
)
def test_row_with_unpublishable_key_or_header_is_refused_alone(ddl: str, column: Any, reason: str) -> None:
    schema = struct(f"data:string,{ddl}")
    [_, kind] = to_arrow_type(schema, timezone="UTC")
    given = column if isinstance(column, pa.Array) else pa.array(column, kind.type)
    batch = pa.RecordBatch.from_arrays([pa.array(['{"n":1}', '{"n":2}']), given], names=schema.names)

    with pytest.raises(InvalidRecord, check=has_code("invalid-row"), match=rf"{reason}.*; it begins {{\"n\":1}}"):
        EventRows(schema, "a", rejects=False)(batch)
    first, second = EventRows(schema, "a", rejects=True)(batch)
    assert data_of(first).startswith(reason)
    assert data_of(first).endswith(': {"n":1}')
    assert data_of(second) == {"n": 2}


def test_decimals_are_strings_without_trailing_zeros_where_the_schema_has_strings() -> None:
    schema = struct("data:struct<n:decimal(38,18),l:array<decimal(9,2)>,m:map<string,decimal(9,0)>,o:decimal(9,2)>")
    numbers = [Decimal("12.5"), Decimal(0), Decimal("0.00000012"), Decimal(-100), None]
    rows = [{"data": {"n": n, "l": [Decimal("1.20"), None], "m": [("k", Decimal(100))], "o": n and 7}} for n in numbers]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([*to_arrow_type(schema, timezone="UTC")]))

    events = EventRows(schema, "a", rejects=False, as_text={"data.n", "data.l[]", "data.m{}"})(batch)

    assert [data_of(each).get("n") for each in events] == ["12.5", "0", "0.00000012", "-100", None]
    assert bytes(events[0].data) == b'{"n":"12.5","l":["1.2",null],"m":{"k":"100"},"o":7.00}'


def test_a_slice_of_rows_is_its_own_events() -> None:
    schema = struct("data:struct<l:array<struct<a:int>>,m:map<string,array<string>>>")
    rows = [{"data": {"l": [{"a": n}] * n, "m": [(str(n), ["x"] * n)]} if n % 2 else None} for n in range(6)]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([*to_arrow_type(schema, timezone="UTC")]))
    made = EventRows(schema, "a", rejects=True)

    assert made(batch)[3:] == made(batch.slice(3))


def test_no_rows_are_no_events() -> None:
    assert make_events("data:string,key:string") == []
    assert EventRows(StructType().add("data", StringType()), "a", rejects=True) is not None
