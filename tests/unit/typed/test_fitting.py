from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.typed.fitting import NOTHING, decode, encode, fit_of
from tests.unit.spark.kinds import arrow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def fit(kind: str, text: str) -> tuple[Any, Any]:
    return fit_of(arrow(kind))(decode(text))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", '"a"', "a"),
        ("string", "7", "7"),
        ("string", '{"a":[1.50,null]}', '{"a":[1.50,null]}'),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("bigint", "7.0", 7),
        ("bigint", "7e2", 700),
        ("int", "2147483647", 2**31 - 1),
        ("tinyint", "-128", -128),
        ("double", "7", 7.0),
        ("double", "1.5", 1.5),
        ("decimal(4,2)", "12.5", Decimal("12.5")),
        ("decimal(4,2)", '"12.50"', Decimal("12.5")),
        ("decimal(4,2)", "-99.99", Decimal("-99.99")),
        ("decimal(4,2)", "1.5000", Decimal("1.5")),
        ("decimal(38,18)", "1e19", Decimal(10**19)),
        ("boolean", "true", True),
        ("date", '"2026-01-01"', date(2026, 1, 1)),
        ("timestamp", '"2026-01-01T12:00:00Z"', NOON),
        ("timestamp", '"2026-01-01t12:00:00z"', NOON),
        ("timestamp", '"2026-01-01T13:00:00+01:00"', NOON),
        ("timestamp", '"2026-01-01T12:00:00"', NOON),
        ("timestamp", '"2026-01-01T12:00:00.123456789Z"', NOON.replace(microsecond=123456)),
        ("array<int>", "[1,null]", [1, None]),
        ("map<string,int>", '{"a":1,"b":null}', [("a", 1), ("b", None)]),
        ("struct<a:int,b:string>", '{"b":"x"}', {"a": None, "b": "x"}),
        ("struct<a:int>", '{"a":1,"more":null}', {"a": 1}),
        ("struct<a:int>", "{}", {"a": None}),
    ],
)
def test_a_value_that_fits_is_in_its_column(kind: str, text: str, value: Any) -> None:
    assert fit(kind, text) == (value, NOTHING)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *[(k, text) for k in ("bigint", "double", "boolean", "date", "timestamp") for text in ('"x"', "[]", "{}")],
        ("bigint", "9223372036854775808"), ("bigint", "1.5"), ("bigint", "1e400"), ("bigint", "true"),
        ("bigint", '"1"'),
        ("int", "2147483648"), ("double", "true"), ("double", "1e400"), ("double", '"1"'), ("double", "1" * 400),
        ("decimal(4,2)", "100"), ("decimal(4,2)", "0.001"), ("decimal(4,2)", "true"), ("decimal(4,2)", '"NaN"'),
        ("decimal(4,2)", '"1_0"'), ("decimal(4,2)", '"x"'), ("boolean", "1"), ("date", '"2026-02-30"'), ("date", "7"),
        ("timestamp", '"2026-02-30T00:00:00Z"'), ("timestamp", "7"), ("timestamp", '"2026-01-01T12:00:60Z"'),
        ("timestamp", '"0001-01-01T00:00:00+01:00"'), ("array<int>", '[1,"x"]'), ("array<int>", "7"),
        ("array<struct<a:int>>", '[{"a":1,"b":2}]'), ("map<string,int>", "7"), ("struct<a:int>", "[1]"),
        ("struct<a:int>", "7"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_handed_back_as_it_is(kind: str, text: str) -> None:
    value, rest = fit(kind, text)

    assert value is None
    assert decode(encode(rest)) == decode(text)


def test_members_of_an_object_that_do_not_fit_are_rescued() -> None:
    kind = "struct<a:int,o:struct<x:int,y:int>,m:map<string,int>,l:array<int>>"
    given = '{"a":1,"b":2.50,"o":{"x":"1","y":2,"z":null},"m":{"k":1,"n":"x"},"l":[1,[]]}'

    value, rest = fit(kind, given)

    assert value == {"a": 1, "o": {"x": None, "y": 2}, "m": [("k", 1)], "l": None}
    assert encode(rest) == b'{"b":2.50,"o":{"x":"1"},"m":{"n":"x"},"l":[1,[]]}'


@pytest.mark.parametrize(
    "kind", ["bigint", "struct<a:int>", "map<string,int>", "array<int>", "decimal(4,2)", "timestamp", "date"]
)
def test_null_fits_everything(kind: str) -> None:
    assert fit(kind, "null") == (None, NOTHING)


@pytest.mark.parametrize("kind", ["binary", "struct<b:float>", "map<int,string>", "array<timestamp_ntz>"])
def test_a_type_that_no_json_is_of_is_refused(kind: str) -> None:
    with pytest.raises(TypeError, match="no JSON is of the type"):
        fit_of(arrow(kind))
