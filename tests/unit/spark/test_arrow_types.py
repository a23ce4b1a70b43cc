"""Types of typed events: which Spark and Arrow have alike, and which no JSON is of."""

import pytest

from penstock.errors import BadParameter
from penstock.spark.arrow_types import arrow_type, check_type, spark_type
from tests.unit.spark.kinds import struct

ALL = "i:bigint,j:tinyint,s:string,b:boolean,d:double,n:decimal(10,2),t:timestamp,y:date,l:array<struct<a:int>>,"
ALL += "m:map<string,smallint>"


def test_type_is_the_same_after_there_and_back() -> None:
    assert spark_type(arrow_type(struct(ALL))) == struct(ALL)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ("a:binary", "data.a binary"),
        ("s:struct<b:float>", "data.s.b float"),
        ("a:map<int,string>", "data.a map<int,string>"),
        ("a:array<timestamp_ntz>", "data.a[] timestamp_ntz"),
        ("a:map<string,binary>", "data.a{} binary"),
    ],
)
def test_type_that_no_json_is_of_is_named(members: str, named: str) -> None:
    with pytest.raises(BadParameter) as caught:
        check_type(struct(members))
    assert f"there is no JSON for {named}; allowed: string, bigint" in caught.value.detail
