import copy
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.comparison import compare
from penstock.core.walk import COMBINED
from penstock.errors import InvalidEventType

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
        (within(ARRAY), within(ARRAY | {"uniqueItems": False, "minItems": 0})),
        (within(STRING), within(STRING | {"minLength": 0.0})),
        (within({}), within({"minLength": 0})),
        ({}, {"minProperties": 0, "required": [], "properties": {}, "dependencies": {}, "patternProperties": {}}),
        (within(NUMBER | {"minimum": 1}), within(NUMBER | {"minimum": 1, "exclusiveMinimum": False})),
        (within({"not": False}), within({"then": {}, "else": True, "propertyNames": True})),
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


A, B = {"definitions": {"a b": STRING}}, {"definitions": {"a b": NUMBER}}


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (A | within({"not": {"$ref": "#/definitions/a%20b"}}), B | within({"not": {"$ref": "#/definitions/a%20b"}}),
         "attribute"),
        (A | within({"not": {"items": [{"$ref": "#/definitions/a b"}]}}),
         B | within({"not": {"items": [{"$ref": "#/definitions/a b"}]}}), "attribute"),
        (A | {"dependencies": {"a": {"$ref": "#/definitions/a b"}}},
         B | {"dependencies": {"a": {"$ref": "#/definitions/a b"}}}, "dependencies"),
        (A | within({"$ref": "#/definitions/a%20b"}), B | within({"$ref": "#/definitions/a%20b"}), "type-changed"),
        (A | within({"$ref": "#/definitions/a b"}), within({"$ref": "#/definitions/a b"}), "type-changed"),
        ({"definitions": {"a": {"$id": "#a"}}} | within({"$ref": "#a"}),
         {"definitions": {"a": {"$id": "#a", "type": "null"}}} | within({"$ref": "#a"}), "type-changed"),
    ],
)  # fmt: skip
def test_what_lies_behind_a_reference_counts(old: Schema, new: Schema, rule: str) -> None:
    assert [change.rule.name for change in compare(old, new)] == [rule]
    assert compare(old, copy.deepcopy(old)) == []


OUT_OF_REACH: dict[str, Callable[[Schema], Schema]] = {
    "by a pattern": lambda node: {"patternProperties": {"^x": node}},
    "any other": lambda node: {"additionalProperties": node},
    "an extra item": lambda node: within(ARRAY | {"items": [{}], "additionalItems": node}),
    "by a reference": lambda node: {"$defs": {"x": node}, "properties": {"x": {"$ref": "#/$defs/x"}}},
    "by a reference into a pattern": lambda node: {
        "definitions": {"x": {"patternProperties": {"^x": node}}},
        "properties": {"x": {"$ref": "#/definitions/x/patternProperties/%5Ex"}},
    },
    "below a pattern": lambda node: {"patternProperties": {"^x": ARRAY | {"items": within(node)}}},
}
UNTYPED: Schema = {"propertyNames": {"minLength": 1}}


@pytest.mark.parametrize(
    ("hold", "node"),
    [
        *(pytest.param(hold, OBJECT, id=f"{name}, an object") for name, hold in OUT_OF_REACH.items()),
        *(pytest.param(hold, UNTYPED, id=f"{name}, without a type") for name, hold in OUT_OF_REACH.items()),
    ],
)
def test_where_nothing_shuts_others_out_a_new_name_may_have_been_in_use(
    hold: Callable[[Schema], Schema], node: Schema
) -> None:
    old, new = hold(node), hold(node | {"properties": {"a": STRING}})

    (change,) = compare(old, new, closes=True)

    assert (change.rule.name, change.producers) == ("property-redefined", False)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (UNTYPED, UNTYPED | {"properties": {"a": STRING}}, {"additional-properties", "property-redefined"}),
        (UNTYPED, UNTYPED | {"properties": {}}, {"additional-properties"}),
        ({"patternProperties": {"^a": {}}}, {"patternProperties": {"^a": {}}, "required": []},
         {"additional-properties"}),
        ({"patternProperties": {"^a": {}}}, {"patternProperties": {"^a": {}}, "minProperties": 0},
         {"additional-properties"}),
        ({}, {"minLength": 0}, {"additional-properties"}),
        (STRING, {"type": ["string", "object"]}, {"type-changed"}),
        (OBJECT, OBJECT | {"minProperties": 0}, set()),
    ],
)  # fmt: skip
def test_where_a_keyword_makes_an_object_one_that_the_mode_shuts_this_is_told(
    old: Schema, new: Schema, told: set[str]
) -> None:
    for one, other in ((old, new), (new, old)):
        found = compare(within(one), within(other), closes=True)

        reached = [change for change in found if change.rule.name == "additional-properties"]
        assert len(reached) == ("additional-properties" in told)
        assert not any(change.producers or change.consumers for change in reached)
    assert {change.rule.name for change in compare(within(old), within(new), closes=True)} == told
    assert "additional-properties" not in {change.rule.name for change in compare(within(old), within(new))}


@pytest.mark.parametrize(
    "hold",
    [
        within,
        lambda node: within(ARRAY | {"items": [{}, node]}),
        lambda node: {"allOf": [OBJECT, node]},
        lambda node: {"definitions": {"x": within(node)}} | within({"$ref": "#/definitions/x/properties/a"}),
        lambda node: {"definitions": {"x": node}, "patternProperties": {"^x": {"$ref": "#/definitions/x"}}},
    ],
    ids=["a member", "an item", "all of", "by a reference", "by a reference within a pattern"],
)
def test_where_others_are_shut_out_a_new_name_is_new(hold: Callable[[Schema], Schema]) -> None:
    (change,) = compare(hold(OBJECT), hold(OBJECT | within(STRING)), closes=True)

    assert (change.rule.name, change.producers) == ("property-added", True)


@pytest.mark.parametrize(
    ("hold", "pointer"),
    [
        (lambda node: {"properties": {"x": node}}, "#/properties/x"),
        (lambda node: {"patternProperties": {"^x": {}, "^y": node}}, "#/patternProperties/^y"),
        (lambda node: {"additionalProperties": node}, "#/additionalProperties"),
        (lambda node: within({"items": node}), "#/properties/a/items"),
        (lambda node: within({"items": [{}, node]}), "#/properties/a/items/1"),
        (lambda node: within({"items": [{}], "additionalItems": node}), "#/properties/a/additionalItems"),
        *((lambda node, method=method: {method: [{}, node]}, f"#/{method}/1") for method in COMBINED),
    ],
)
def test_a_change_is_seen_wherever_it_stands(hold: Callable[[Schema], Schema], pointer: str) -> None:
    (change,) = compare(hold(STRING), hold(NUMBER))

    assert (change.rule.name, change.pointer) == ("type-changed", pointer)


def test_a_name_that_a_neighbour_knows_is_nothing_that_consumers_pass_over() -> None:
    branches = [OBJECT | {"additionalProperties": False, "properties": {name: STRING}} for name in "ab"]
    more = copy.deepcopy(branches)
    more[0]["properties"]["b"] = NUMBER

    (change,) = compare(within({"anyOf": branches}), within({"anyOf": more}))

    assert (change.rule.name, change.consumers) == ("property-added", False)


def test_a_pattern_that_is_none_describes_whatever_there_is() -> None:
    old = {"patternProperties": {"^(?!x)": {}}}

    assert [change.rule.name for change in compare(old, old | within(STRING))] == ["property-redefined"]


def test_what_had_no_type_and_gets_properties_is_narrowed_alone() -> None:
    names = [change.rule.name for change in compare(within({}), within(within({})))]

    assert names == ["type-narrowed", "property-added"]


def test_more_levels_than_can_be_compared_are_told() -> None:
    links = {f"d{n}": {"properties": {"n": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(2_000)}
    schema = {"definitions": links | {"d2000": {}}} | within({"$ref": "#/definitions/d0"})

    with pytest.raises(InvalidEventType, match="nested too deeply"):
        compare(schema, schema)


def test_more_places_than_can_be_told_are_told() -> None:
    def schema(kind: str) -> Schema:
        links = {f"d{n}": {"properties": {"k" * 5_000: {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(10)}
        last = {"properties": {f"p{number}": {"type": kind} for number in range(300)}}
        return {"definitions": links | {"d10": last}} | within({"$ref": "#/definitions/d0"})

    assert compare(schema("string"), schema("string")) == []
    with pytest.raises(InvalidEventType, match="at places whose pointers have over 10000000 characters"):
        compare(schema("string"), schema("null"))


def test_thousands_of_values_are_compared_at_once() -> None:
    values = list(range(50_000))

    assert compare(within({"enum": values}), within({"enum": values[::-1]})) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"$schema": "http://json-schema.org/draft-07/schema#"}),
        ({"$schema": "http://json-schema.org/draft-06/schema#"}, {}),
        ({"$schema": "http://json-schema.org/draft-04/schema"}, {"$schema": "http://json-schema.org/draft-06/schema"}),
    ],
    ids=["to draft 7", "from draft 6", "from 4 to 6"],
)
def test_another_draft_means_something_else_by_the_same_words(old: Schema, new: Schema) -> None:
    [change] = compare(old, new)

    assert (change.rule.name, change.pointer) == ("attribute", "#/$schema")
    assert not change.producers
    assert not change.consumers


def test_the_same_draft_may_be_named_in_several_ways() -> None:
    named = [{}, *({"$schema": f"http://json-schema.org/{way}"} for way in ("schema", "draft-04/schema#"))]

    assert all(not compare(old, new) for old in named for new in named)
