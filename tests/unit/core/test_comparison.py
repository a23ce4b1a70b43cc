import copy
from typing import Any

import pytest

from penstock.core.comparison import compare

Schema = dict[str, Any]
STRING, NUMBER, OBJECT, ARRAY = ({"type": name} for name in ("string", "number", "object", "array"))


def within(node: Schema) -> Schema:
    """An event with one property."""
    return {"properties": {"a": node}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {}),
        ({"type": "object"}, {}),
        (within(STRING), OBJECT | within(STRING)),
        (within({"type": ["string"]}), within(STRING)),
        (within({"type": ["null", "string"]}), within({"type": ["string", "null"]})),
        (within({"enum": [1, "a"]}), within({"enum": ["a", 1.0]})),
        ({"required": ["a", "b"]}, {"required": ["b", "a", "a"]}),
        ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["c", "b"]}}),
        ({"x-owner": "a"}, {"x-owner": "b", "$comment": "c", "examples": [1]}),
        (
            {"definitions": {"a": STRING}} | within({"$ref": "#/definitions/a"}),
            {"definitions": {"b/c": STRING}} | within({"$ref": "#/definitions/b~1c"}),
        ),
        ({"definitions": {"unused": STRING}}, {"definitions": {"unused": NUMBER}}),
    ],
)
def test_what_means_the_same_is_no_change(old: Schema, new: Schema) -> None:
    assert compare(old, new) == compare(new, old) == []


def test_all_that_differs_is_told_where_it_stands() -> None:
    old = within(STRING | {"minLength": 1, "maxLength": 2, "pattern": "a"})
    new = within(STRING | {"minLength": 2, "maxLength": 3, "format": "email"})

    told = sorted(map(str, compare(old, new)))

    names = ("format", "maxLength", "minLength", "pattern")
    assert told == [f"#/properties/a/{name}: change to attribute value not allowed" for name in names]


def test_references_are_followed_as_far_as_they_lead() -> None:
    old = {"definitions": {"node": OBJECT | {"properties": {"next": {"$ref": "#/definitions/node"}, "name": STRING}}}}
    new = copy.deepcopy(old)
    del new["definitions"]["node"]["properties"]["name"]
    root = {"properties": {"list": {"$ref": "#/definitions/node"}}}

    assert compare(old | root, old | root) == []
    assert [str(change) for change in compare(old | root, new | root)] == [
        "#/properties/list/properties/name: properties cannot be removed"
    ]


def test_a_schema_that_is_its_own_definition_ends() -> None:
    assert compare({"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}) == []


def test_a_pattern_over_which_others_would_brood_for_ever_is_looked_up_at_once() -> None:
    old = {"patternProperties": {"^(a+)+$": {}}}

    (change,) = compare(old, old | {"properties": {"a" * 5_000 + "b": STRING}})

    assert change.rule.name == "property-added"
