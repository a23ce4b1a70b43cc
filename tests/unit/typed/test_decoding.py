"""Arrow decodes a column of events to the same values as fitting each event by itself."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.typed import decoding
from penstock.typed.decoding import TypedDecoder
from tests.exhaustive import examples
from tests.unit.spark.kinds import arrow

FLAT = "i:bigint,s:string,b:boolean,d:double,n:decimal(10,2),t:timestamp,y:date"
NESTED = f"{FLAT},o:struct<i:bigint,l:array<struct<d:double>>>,l:array<date>"
MAPS = f"{NESTED},m:map<string,bigint>,p:struct<i:bigint,m:map<string,string>>,q:array<map<string,bigint>>"
MAPS += ",r:struct<m:map<string,string>>"
WORTH_IT = 1_000


def struct(members: str) -> pa.DataType:
    return arrow(f"struct<{members}>")


def decode(ddl: str, texts: list[str], *, rescues: bool = True) -> list[tuple[Any, Any]]:
    events, rests = TypedDecoder(struct(ddl), rescues=rescues)(pa.array(texts, pa.string()))
    events.validate(full=True)
    return list(zip(events.to_pylist(), rests.to_pylist() if rests else [None] * len(texts), strict=True))


numbers = st.sampled_from(["0", "7", "-1", "2.5", "1e2", "9223372036854775808", "123456789.25", "1.0", "0.001"])
words = st.sampled_from(
    ['"x"', '""', '"2026-01-01"', '"2026-01-01T10:00:00Z"', '"2026-01-01T10:00:00.5+02:00"', '"7.25"']
)
limits = st.sampled_from(
    [
        "-0.0", "5e-324", "1e400", "9007199254740993", '"NaN"', '"0E-18"', '"1e3"', '"9999-12-31T23:59:59.999999Z"',
        '"9999-12-31T23:59:59-01:00"', '"+10000-01-01"', '"0000-01-01"', '"0000-01-01T00:00:00Z"', '"0001-01-01"',
        '"0001-01-01T00:00:00+01:00"', '"0001-01-01T00:00:00Z"', '"2016-12-31T23:59:60Z"', '"2026-01-01T24:00:00Z"',
        '"1830-01-01T12:00:00+00:19:32"', '"2026-01-01T10:00:00 Z"', '"2026-01-01T10:00Z"', '"2026-01-01T10Z"',
        '"20260101T100000Z"', '"20260101"', '"2026-W01-1"', '"2026-1-1"', '"2026-01-01T10:00:00,5Z"', '"2026-01"',
        '"1969-12-31T23:59:59.9999999Z"', '"2026-01-01T10:00:00+18:01"', '"2026-01-01T10:00:00+25:00"', '"2026"',
        '"2026-01-01T10:00:00+0100"', '"2026-01-01T10:00:00+01"', '"2026-01-01x10:00:00Z"', '"2026-01-01T10:00:00.Z"',
    ]
)  # fmt: skip
plain = numbers | words | limits | st.sampled_from(["null", "true", '"2026-01-01T10:00:00.123456789Z"', '"2026-02-30"'])
names = st.sampled_from([*"isbdntyolmpqrz"])


def written(members: dict[str, str]) -> str:
    """An object of members that are JSON."""
    return f"{{{','.join(f'{json.dumps(name)}:{value}' for name, value in members.items())}}}"


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.dictionaries(names, values, max_size=5).map(written)


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda each: f"[{','.join(each)}]")


values = st.recursive(plain, lambda inner: objects(inner) | arrays(inner), max_leaves=6)
fitting = st.fixed_dictionaries(
    {},
    optional={
        "i": st.sampled_from(["7", "-1"]), "s": words, "b": st.just("true"), "d": st.sampled_from(["2.5", "7", "1e2"]),
        "n": st.sampled_from(["7", "2.5", '"7.25"']), "t": st.just('"2026-01-01T10:00:00Z"'),
        "y": st.just('"2026-01-01"'), "o": st.sampled_from(["{}", "null", '{"i":1}', '{"l":[{"d":1},{}]}', '{"z":1}']),
        "l": st.sampled_from(["[]", '["2026-01-01",null]']), "m": st.sampled_from(['{"a":1}', "{}", "null"]),
        "p": st.sampled_from(['{"i":1}', '{"m":{"a":"b"}}', '{"m":null}']), "q": st.sampled_from(["[]", '[{"a":1}]']),
        "r": st.sampled_from(["7", '"x"', "[]", '{"m":{"a":"b"}}', "null"]),
        "z": values,
    },
).map(written)  # fmt: skip


@settings(max_examples=examples(20, 500))
@given(st.sampled_from([FLAT, NESTED, MAPS]), st.lists(fitting | fitting | objects(values) | plain, max_size=8))
def test_event_decodes_alike_beside_any_other_events(ddl: str, texts: list[str]) -> None:
    together = decode(ddl, texts)

    events, rests = TypedDecoder(struct(ddl), rescues=True)._fit_rows(pa.array(texts, pa.string()))
    assert together == list(zip(events.to_pylist(), rests.to_pylist(), strict=True))
    assert [event for event, _ in decode(ddl, texts, rescues=False)] == [event for event, _ in together]


def test_fitting_events_are_decoded_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("fitted one by one")

    monkeypatch.setattr(TypedDecoder, "_fit_rows", refuse)
    event = '{"i":1,"t":"2026-01-01T10:00:00Z","y":"2026-01-01","n":"7.25","o":{"l":[{"d":1}]},"p":{"i":1}}'

    assert [rest for _, rest in decode(MAPS, [event] * 3)] == [None] * 3
    assert decode(NESTED, ['{"i":1,"more":{"a":[1]}}'], rescues=False)[0][0]["i"] == 1


def test_one_event_that_does_not_fit_slows_down_those_beside_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, fit = [], TypedDecoder._fit_rows
    monkeypatch.setattr(TypedDecoder, "_fit_rows", lambda self, texts: (fitted.append(len(texts)), fit(self, texts))[1])
    texts = [json.dumps({"i": number}) for number in range(WORTH_IT)]
    texts[700] = '{"i":"x"}'

    found = decode(FLAT, texts)

    assert fitted == [decoding.TRIED_AGAIN]
    assert [event["i"] for event, _ in found] == [None if n == 700 else n for n in range(WORTH_IT)]
    assert [(n, rest) for n, (_, rest) in enumerate(found) if rest] == [(700, '{"i":"x"}')]


@pytest.mark.parametrize("text", ["[1]", "7", '"x"', '{"i":'])
def test_event_that_is_not_an_object_is_rescued_whole(text: str) -> None:
    assert decode(FLAT, ['{"i":1}', text])[1] == (None, text)


@pytest.mark.parametrize("value", ["7", '"x"', '"2026-01-01"', "[1]"])
def test_other_value_than_an_object_of_maps_is_rescued(value: str) -> None:
    assert decode(MAPS, [f'{{"i":1,"r":{value}}}'])[0][1] == f'{{"r":{value}}}'


def test_no_events_are_none() -> None:
    assert decode(MAPS, []) == []


def test_the_type_is_the_one_that_was_given() -> None:
    kind = struct(MAPS)
    events, _ = TypedDecoder(kind, rescues=True)(pa.array([json.dumps({"q": [{"a": 1}]}), "{}"]))

    assert events.type.equals(kind)


def test_a_slice_of_events_is_read_from_where_it_begins_to_where_it_ends() -> None:
    texts = pa.array([f'{{"i":{number}}}' for number in range(10)])

    events, _ = TypedDecoder(struct("i:bigint"), rescues=True)(texts[3:7])

    assert events.to_pylist() == [{"i": 3}, {"i": 4}, {"i": 5}, {"i": 6}]
