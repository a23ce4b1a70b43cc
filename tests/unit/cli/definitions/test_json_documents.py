"""JSON, strictly, with the line of each value."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.definitions.document import LEVELS_MAX, Document, FileLine, Unreadable, json_document
from tests.exhaustive import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@settings(max_examples=examples(20, 200))
@given(value=VALUES, indent=st.none() | st.integers(0, 3))
def test_whatever_is_json_is_read_as_it_is(value: Any, indent: int | None) -> None:
    assert json_document(json.dumps(value, indent=indent), "f.json").value == value


def test_every_value_has_its_line() -> None:
    document = json_document('\n{"a": [1,\n 2],\n\n"b": {\n"c": "x"}}', "f.json")

    assert document.lines == {
        (): 2,
        ("a",): 2,
        ("a", "0"): 2,
        ("a", "1"): 3,
        ("b",): 5,
        ("b", "c"): 6,
    }


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "not valid JSON: Expecting value"),
        ('{"a": 1,\n"a": 2}', 2, "the key 'a' stands twice, first on line 1"),
        ('{"a": 1,}', 1, "Expecting property name enclosed in double quotes"),
        ("{a: 1}", 1, "Expecting property name enclosed in double quotes"),
        ("[1,\n]", 2, "Expecting value"),
        ("[1 2]", 1, "Expecting ',' delimiter"),
        ('{"a" 1}', 1, "Expecting ':' delimiter"),
        ('{"a": 1', 1, "Expecting ',' delimiter"),
        ('{"a":\n\nnope}', 3, "Expecting value"),
        ("[01]", 1, "Expecting ',' delimiter"),
        ("[1.]", 1, "Expecting ',' delimiter"),
        ("[NaN]", 1, "NaN is no number"),
        ("[1e999]", 1, "the number 1e999 is larger"),
        (f"[{'9' * 1000}]", 1, "is larger than JSON readers can hold"),
        ('["abc', 1, "Unterminated string"),
        ('["a\nb"]', 1, "Invalid control character"),
        ('["\\x"]', 1, "Invalid \\escape"),
        ('["\\ud800"]', 1, "half of a surrogate pair"),
        ("{} {}", 1, "Extra data: several definitions go into a list"),
        ("[" * (LEVELS_MAX + 2) + "]" * (LEVELS_MAX + 2), 1, "nested too deeply"),
        ('{"a":' * 100_000, 1, "nested too deeply"),
    ],
)
def test_invalid_json_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(Unreadable) as refused:
        json_document(text, "f.json")

    assert refused.value.place == ("f.json", line)
    assert says in refused.value.reason


def test_place_of_a_missing_member_is_that_of_its_parent() -> None:
    document = Document("a.yaml", {}, {(): 3, ("b",): 5, ("b", "c"): 7})

    assert document.place(("b", "c")) == FileLine("a.yaml", 7)
    assert document.place(("b", "d", "e")) == FileLine("a.yaml", 5)
    assert document.place(("d",)) == FileLine("a.yaml", 3)


def test_unreadable_names_file_and_line() -> None:
    assert str(Unreadable(FileLine("a/b.yaml", 12), "it is empty")) == "a/b.yaml:12: it is empty"
