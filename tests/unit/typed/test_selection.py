"""Typed columns that were made for one type are, as another type, what decoding would have given."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.typed.decoding import TypedDecoder
from penstock.typed.selection import select_members
from tests.exhaustive import examples
from tests.unit.spark.kinds import arrow
from tests.unit.typed.test_decoding import MAPS, NESTED, fitting, objects, plain

ALL = f"{MAPS},z:string"
WANTED = [
    "i:bigint",
    "s:string,n:decimal(10,2)",
    NESTED,
    "o:struct<l:array<struct<d:double>>>",
    "o:struct<k:string>",
    "o:struct<i:bigint,z:double>,z:double",
    "x:string",
    "p:struct<m:map<string,string>>,i:bigint",
]


@settings(max_examples=examples(30, 1_000))
@given(
    st.sampled_from([NESTED, MAPS, ALL]),
    st.sampled_from(WANTED),
    st.lists(fitting | objects(plain) | plain, min_size=1, max_size=8),
)
def test_selected_events_are_those_that_decoding_gives(there: str, wanted: str, texts: list[str]) -> None:
    events, rests = TypedDecoder(arrow(f"struct<{there}>"), rescues=True)(pa.array(texts, pa.string()))
    goal = arrow(f"struct<{wanted}>")
    expected, _ = TypedDecoder(goal, rescues=False)(pa.array(texts, pa.string()))

    selection = select_members(events.type, goal)

    if selection is None:
        assert (there, wanted) == (ALL, WANTED[5])  # `z` is text there.
        return
    assert rests is not None
    found = selection.apply(events).to_pylist()
    for text, mine, right, rest in zip(texts, found, expected.to_pylist(), rests.to_pylist(), strict=True):
        assert mine == right or (not selection.is_whole and rest is not None), text


@pytest.mark.parametrize(
    ("wanted", "paths"),
    [
        ("i:bigint", ("i",)),
        ("o:struct<l:array<struct<d:double>>>", ("o.l",)),
        ("o:struct<k:string>", ("o.i",)),
        ("x:string", ("i",)),
    ],
)
def test_only_members_that_are_needed_are_read(wanted: str, paths: tuple[str, ...]) -> None:
    selection = select_members(arrow(f"struct<{NESTED}>"), arrow(f"struct<{wanted}>"))

    assert selection is not None and selection.paths == paths


@pytest.mark.parametrize("wanted", ["i:int", "i:string", "o:string", "l:array<string>", "o:struct<i:double>"])
def test_members_of_another_type_have_to_be_decoded(wanted: str) -> None:
    assert select_members(arrow(f"struct<{NESTED}>"), arrow(f"struct<{wanted}>")) is None
