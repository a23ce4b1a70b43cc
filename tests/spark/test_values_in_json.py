"""Values of every type, at their limits: the sink writes what `to_json` writes, and typed columns read it again.

Each example is one Spark job with many rows.
"""

import json
import math
from decimal import Decimal
from struct import pack
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.spark.arrow_types import arrow_type
from penstock.spark.rows import EventRows
from penstock.typed.decoding import TypedDecoder
from tests.exhaustive import examples
from tests.unit.spark.kinds import struct

LONG = (-(2**63), 2**63 - 1)
YEAR_0, YEAR_1, YEAR_10000 = -62_167_219_200_000_000, -62_135_596_800_000_000, 253_402_300_800_000_000
MICROS = st.integers(*LONG) | st.integers(YEAR_0 - 2, YEAR_10000 + 2)
MICROS |= st.sampled_from([0, -1, -1_000, YEAR_0 - 1, YEAR_0, YEAR_1 - 1, YEAR_1, YEAR_10000 - 1, YEAR_10000, *LONG])
DAYS = st.integers(-(2**31), 2**31 - 1) | st.integers(-719_530, 2_932_900)
TEXTS = st.text(max_size=8) | st.sampled_from(['q"\\/\b\f\n\r\t', "\x00\x1f\x7f", "\u2028é😀", ""])
DECIMALS = {(38, 18): "n", (5, 0): "p", (10, 7): "q"}
GIVEN = "i long, g byte, f double, d double, n decimal(38,18), p decimal(5,0), q decimal(10,7), s string, x binary, "
GIVEN += "y int, t long, u long, b boolean, l array<double>, m map<string,double>, k map<string,string>"
MADE = """named_struct(
    'i', i, 'g', g, 'f', CAST(f AS float), 'd', d, 'n', n, 'p', p, 'q', q, 's', s, 'x', x, 'b', b,
    'y', date_from_unix_date(y), 't', timestamp_micros(t), 'u', CAST(timestamp_micros(u) AS timestamp_ntz),
    'l', l, 'm', m, 'o', named_struct('a', g, 'k', k), 'w', array(named_struct('d', d, 's', s), null)
)"""
READ = (
    "i:bigint,g:tinyint,d:double,n:decimal(38,18),p:decimal(5,0),s:string,y:date,t:timestamp,b:boolean,l:array<double>,"
)
READ += "m:map<string,double>,o:struct<a:tinyint,k:map<string,string>>"
FEW = settings(max_examples=examples(2, 8), deadline=None, suppress_health_check=[*HealthCheck])


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    end = 10**precision - 1
    return (st.integers(-end, end) | st.sampled_from([0, 1, -1, end])).map(
        lambda n: Decimal((n < 0, _digits(n), -scale))
    )


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(*LONG) | st.sampled_from(LONG),
    "g": st.integers(-128, 127),
    "f": st.floats(width=32) | st.sampled_from([0.1, 1e20, -0.0, 16777216.0, math.nan, math.inf]),
    "d": st.floats() | st.sampled_from([-0.0, 5e-324, 1e16, 1e7, 2e23, math.nan, -math.inf]),
    **{name: decimals(*size) for size, name in DECIMALS.items()},
    "s": TEXTS,
    "x": st.binary(max_size=5),
    "y": DAYS,
    "t": MICROS,
    "u": MICROS,
    "b": st.booleans(),
    "l": st.lists(st.none() | st.floats(), max_size=3),
    "m": st.dictionaries(TEXTS, st.none() | st.floats(), max_size=3),
    "k": st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
}
ROWS = st.lists(st.tuples(*(st.none() | each for each in MEMBERS.values())), min_size=25, max_size=25)


def table(spark: SparkSession, rows: list[Any], *columns: str) -> pa.Table:
    return spark.createDataFrame(rows, GIVEN).selectExpr(*columns, "t", "u").toArrow().combine_chunks()


def schema_of(spark: SparkSession) -> StructType:
    return spark.createDataFrame([], GIVEN).selectExpr(f"{MADE} AS data").schema


def exactly(micros: int | None, text: str | None) -> str | None:
    """Return what `to_json` writes with the microseconds that it cuts off."""
    if text is None or micros is None or micros % 1_000 == 0:
        return text
    return f"{text.removesuffix('Z')}{micros % 1_000:03}{'Z' if text.endswith('Z') else ''}"


def same_numbers(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event whose numbers can be compared: of floats and doubles by their value, of decimals by the text."""

    def value(each: Any) -> Any:
        return each if each in ("NaN", "Infinity", "-Infinity") or not isinstance(each, str) else repr(float(each))

    found = dict(event)
    if "f" in found and found["f"] not in ("NaN", "Infinity", "-Infinity"):
        found["f"] = pack("f", float(found["f"]))
    found |= {"d": value(found["d"])} if "d" in found else {}
    found |= {"l": [*map(value, found["l"])]} if "l" in found else {}
    found |= {"m": {name: value(each) for name, each in found["m"].items()}} if "m" in found else {}
    items = [each and each | ({"d": value(each["d"])} if "d" in each else {}) for each in found["w"]]
    return found | {"w": items}


def parsed(text: str | bytes) -> Any:
    return json.loads(text, parse_float=str)


@FEW
@given(rows=ROWS)
def test_sink_writes_the_values_that_to_json_writes(spark: SparkSession, rows: list[Any]) -> None:
    found = table(spark, rows, f"{MADE} AS data", f"to_json({MADE}) AS j")
    [batch] = found.select(["data"]).to_batches()

    events = EventRows(schema_of(spark), "a", rejects=False)(batch)

    for event, text, t, u in zip(events, *(found[name].to_pylist() for name in "jtu"), strict=True):
        wanted = parsed(text)
        moments = {name: exactly(us, wanted[name]) for name, us in (("t", t), ("u", u)) if name in wanted}
        assert same_numbers(parsed(bytes(event.data))) == same_numbers(wanted | moments)


def plain(values: pa.Array) -> list[Any]:
    """Return values of which dates are days and times microseconds, and floats texts: NaN is like itself then."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return [repr(each) for each in values.to_pylist()]


@FEW
@given(rows=ROWS)
def test_typed_columns_read_the_values_of_the_sink_or_rescue_them(spark: SparkSession, rows: list[Any]) -> None:
    found = table(spark, rows, f"{MADE} AS data")
    [batch] = found.select(["data"]).to_batches()
    texts = [bytes(event.data).decode() for event in EventRows(schema_of(spark), "a", rejects=False)(batch)]

    read, rests = TypedDecoder(arrow_type(struct(READ)), rescues=True)(pa.array(texts, pa.string()))

    rescued = [json.loads(rest or "{}") for rest in rests.to_pylist()]
    for name in struct(READ).names:
        given_values, read_values = plain(batch.column("data").field(name)), plain(read.field(name))
        for was, now, rest in zip(given_values, read_values, rescued, strict=True):
            assert now == was or name in rest, f"{name}: {was} became {now}"
            assert now != was or name not in rest or was == "None"
    others = {name for rest in rescued for name in rest} - {*struct(READ).names}
    assert others <= {"f", "q", "x", "u", "w"}, "members that no column was asked for"


LIMITS: dict[str, list[str]] = {
    "i": ["9223372036854775807", "9223372036854775808", "-0", "1.0", "1e2", '"1"', "1.5"],
    "g": ["127", "128", "-128", "-129"],
    "d": ["-0.0", "1e400", '"NaN"', '"-Infinity"', '"1.5"', "5e-324", "1e23", "12345678901234567890"],
    "n": ['"12.50"', "12.50", '"0E-18"', "1.2E-7", '"1e3"', '"NaN"', '"1,000"', "1e20", "1e-19"],
    "b": ["true", '"true"', "1", "null"],
    "y": ['"0001-01-01"', '"9999-12-31"', '"+10000-01-01"', '"0000-01-01"', '"2026-02-29"', '"2026-1-1"', "19000"],
    "t": [
        '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '"9999-12-31T23:59:59-01:00"',
        '"0000-12-31T23:59:59Z"', '"+10000-01-01T00:00:00Z"', '"2016-12-31T23:59:60Z"', '"2026-01-01T24:00:00Z"',
        '"1830-01-01T12:00:00+00:19:32"', '"2026-01-01T10:00:00.1234567Z"', '"2026-01-01"', "0",
    ],
}  # fmt: skip


def test_typed_columns_read_values_at_their_limits_as_from_json_does_or_rescue_them(spark: SparkSession) -> None:
    kind = "i:bigint,g:tinyint,d:double,n:decimal(38,18),b:boolean,y:date,t:timestamp"
    texts = [f'{{"{name}":{value}}}' for name, values in LIMITS.items() for value in values]
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    theirs = rows.selectExpr(f"from_json(text, 'struct<{kind}>') AS read").toArrow()["read"].combine_chunks()

    ours, rests = TypedDecoder(arrow_type(struct(kind)), rescues=True)(pa.array(texts, pa.string()))

    for name in LIMITS:
        for text, mine, other, rest in zip(
            texts, plain(ours.field(name)), plain(theirs.field(name)), rests.to_pylist(), strict=True
        ):
            if mine == "None":
                assert other == "None" or rest is not None, f"{text} is lost, and from_json reads {other}"
            elif other != "None":
                assert mine == other, text
