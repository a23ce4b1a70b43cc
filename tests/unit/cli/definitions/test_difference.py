import json
from typing import Any

import pytest

from penstock.cli.definitions.checks import diff_schemas, find_differences


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({}, {}, []),
        ({"a": None}, {}, []),
        ({"a": 1}, {"a": 1.0}, ["~ #/a: 1 -> 1.0"]),
        ({"a": 1}, {"a": True}, ["~ #/a: 1 -> true"]),
        ({"a": [1]}, {"a": [True]}, ["~ #/a: [1] -> [true]"]),
        ({"a": ["x"]}, {"a": ["x", "ü"]}, ['~ #/a: ["x"] -> ["x", "ü"]']),
        ({"a/b": {"c~": 1}}, {"a/b": {"c~": 2}}, ["~ #/a~1b/c~0: 1 -> 2"]),
        ({"b": 1, "c": {"d": 1}}, {"a": 1, "c": {}}, ["+ #/a: 1", "- #/b: 1", "- #/c/d: 1"]),
        ({"a": {"b": 1}}, {"a": "x"}, ['~ #/a: {"b": 1} -> "x"']),
    ],
)
def test_different_members_are_listed(before: Any, after: Any, told: list[str]) -> None:
    assert [str(each) for each in find_differences(before, after)] == told


def test_difference_as_object_has_both_values() -> None:
    assert [each.as_object() for each in find_differences({"a": 1, "b": 2}, {"b": 3, "c": 4})] == [
        {"pointer": "#/a", "before": 1},
        {"pointer": "#/b", "before": 2, "after": 3},
        {"pointer": "#/c", "after": 4},
    ]


def test_schemas_are_compared_by_line_regardless_of_spaces() -> None:
    before, after = {"type": "object", "title": "ä"}, {"type": "object", "title": "b"}

    assert diff_schemas(json.dumps(before), json.dumps(before, indent=7)) == []
    assert diff_schemas(json.dumps(before), json.dumps(after)) == [
        " {",
        '   "type": "object",',
        '-  "title": "ä"',
        '+  "title": "b"',
        " }",
    ]
