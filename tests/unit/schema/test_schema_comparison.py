"""Comparison of two versions of a schema: equality, the place and rule of each change, and its certainties."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import InvalidEventType
from penstock.schema import changes
from penstock.schema.changes import ChangeKind, Level
from penstock.schema.comparison import EMPTY, REFERENCE, compare, kind_of, node_of
from penstock.schema.traversal import COMBINED, Pointer, find_changed_places, is_equal, key_of, list_references
from tests.unit.schema.nodes import ARRAY, NUMBER, OBJECT, STRING, Schema, draft, within


def rules(old: Schema, new: Schema, **how: Any) -> list[str]:
    return [change.kind.name for change in compare(old, new, **how)]


def test_schemas_of_the_same_meaning_have_no_changes() -> None:
    rows: list[tuple[Schema, Schema]] = [
        (within(NUMBER | {"maximum": 1}), within(NUMBER | {"maximum": 1, "exclusiveMaximum": False})),
        ({}, {}),
        ({"type": "object"}, {}),
        (within(STRING), OBJECT | within(STRING)),
        (within({"type": ["string"]}), within(STRING)),
        (within({"type": ["null", "string"]}), within({"type": ["string", "null"]})),
        (within({"enum": [1, "a"]}), within({"enum": ["a", 1.0]})),
        ({"required": ["a", "b"]}, {"required": ["b", "a", "a"]}),
        ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["c", "b"]}}),
        ({"x-owner": "a"}, {"x-owner": "b", "$comment": "c", "examples": [1]}),
        ({"definitions": {"a": STRING}} | within({"$ref": "#/definitions/a"}), {"definitions": {"b/c": STRING}}
         | within({"$ref": "#/definitions/b~1c"})),
        ({"definitions": {"unused": STRING}}, {"definitions": {"unused": NUMBER}}),
        (within(ARRAY), within(ARRAY | {"uniqueItems": False, "minItems": 0})),
        (within(STRING), within(STRING | {"minLength": 0.0})),
        (within({}), within({"minLength": 0})),
        ({}, {"minProperties": 0, "required": [], "properties": {}, "dependencies": {}, "patternProperties": {}}),
        (within(NUMBER | {"minimum": 1}), within(NUMBER | {"minimum": 1, "exclusiveMinimum": False})),
        (within({"not": False}), within({"then": {}, "else": True, "propertyNames": True})),
    ]  # fmt: skip
    for old, new in rows:
        assert compare(old, new) == compare(new, old) == []


PLACES: list[tuple[Callable[[Schema], Schema], str]] = [
        (lambda node: {"properties": {"x": node}}, "#/properties/x"),
        (lambda node: {"patternProperties": {"^x": {}, "^y": node}}, "#/patternProperties/^y"),
        (lambda node: {"additionalProperties": node}, "#/additionalProperties"),
        (lambda node: within({"items": node}), "#/properties/a/items"),
        (lambda node: within({"items": [{}, node]}), "#/properties/a/items/1"),
        (lambda node: within({"items": [{}], "additionalItems": node}), "#/properties/a/additionalItems"),
        *((lambda node, method=method: {method: [{}, node]}, f"#/{method}/1") for method in COMBINED),
]  # fmt: skip


@pytest.mark.parametrize(("hold", "pointer"), PLACES, ids=[pointer for _, pointer in PLACES])
def test_change_is_found_wherever_it_stands(hold: Callable[[Schema], Schema], pointer: str) -> None:
    (change,) = compare(hold(STRING), hold(NUMBER))

    assert (change.kind.name, change.pointer) == ("type-changed", pointer)


def test_references_are_followed_as_far_as_they_lead() -> None:
    old = {"definitions": {"node": OBJECT | {"properties": {"next": {"$ref": "#/definitions/node"}, "name": STRING}}}}
    new = copy.deepcopy(old)
    del new["definitions"]["node"]["properties"]["name"]
    root = {"properties": {"list": {"$ref": "#/definitions/node"}}}

    assert compare(old | root, old | root) == compare(within({"$ref": "#"}), within({"$ref": "#"})) == []
    assert [str(change) for change in compare(old | root, new | root)] == [
        "#/properties/list/properties/name: properties cannot be removed"
    ]


A, B = {"definitions": {"a b": STRING}}, {"definitions": {"a b": NUMBER}}
TO_A = {"$ref": "#/definitions/a b"}
ESCAPED = {"$ref": "#/definitions/a%20b"}


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (A | within({"not": ESCAPED}), B | within({"not": ESCAPED}), "attribute"),
        (A | within({"not": {"items": [TO_A]}}), B | within({"not": {"items": [TO_A]}}), "attribute"),
        (A | {"dependencies": {"a": TO_A}}, B | {"dependencies": {"a": TO_A}}, "dependencies"),
        (A | within(ESCAPED), B | within(ESCAPED), "type-changed"),
        (A | within(TO_A), within(TO_A), "type-changed"),
        ({"definitions": {"a": {"$id": "#a"}}} | within({"$ref": "#a"}),
         {"definitions": {"a": {"$id": "#a", "type": "null"}}} | within({"$ref": "#a"}), "type-changed"),
    ],
)  # fmt: skip
def test_change_behind_a_reference_is_a_change_of_the_referring_node(old: Schema, new: Schema, rule: str) -> None:
    assert rules(old, new) == [rule]
    assert compare(old, copy.deepcopy(old)) == []


OUT_OF_REACH: dict[str, Callable[[Schema], Schema]] = {
    "by a pattern": lambda node: {"patternProperties": {"^x": node}},
    "any other": lambda node: {"additionalProperties": node},
    "an extra item": lambda node: within(ARRAY | {"items": [{}], "additionalItems": node}),
    "by a reference": lambda node: {"$defs": {"x": node}, "properties": {"x": {"$ref": "#/$defs/x"}}},
    "by a reference into a pattern": lambda node: {"definitions": {"x": {"patternProperties": {"^x": node}}},
        "properties": {"x": {"$ref": "#/definitions/x/patternProperties/%5Ex"}}},
    "below a pattern": lambda node: {"patternProperties": {"^x": ARRAY | {"items": within(node)}}},
}  # fmt: skip
UNTYPED: Schema = {"propertyNames": {"minLength": 1}}


@pytest.mark.parametrize("node", [OBJECT, UNTYPED], ids=["an object", "without a type"])
@pytest.mark.parametrize("hold", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_new_property_of_an_open_object_may_have_been_in_use(hold: Callable[[Schema], Schema], node: Schema) -> None:
    (change,) = compare(hold(node), hold(node | within(STRING)), closes=True)

    assert (change.kind.name, change.producers) == ("property-redefined", False)


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
def test_new_property_of_a_closed_object_is_new(hold: Callable[[Schema], Schema]) -> None:
    (change,) = compare(hold(OBJECT), hold(OBJECT | within(STRING)), closes=True)

    assert (change.kind.name, change.producers) == ("property-added", True)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
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
def test_keyword_that_has_the_mode_close_an_object_changes_its_additional_properties(
    old: Schema, new: Schema, expected: set[str]
) -> None:
    for one, other in ((old, new), (new, old)):
        found = compare(within(one), within(other), closes=True)

        closing = [change for change in found if change.kind.name == "additional-properties"]
        assert len(closing) == ("additional-properties" in expected)
        assert not any(change.producers or change.consumers for change in closing)
    assert set(rules(within(old), within(new), closes=True)) == expected
    assert "additional-properties" not in rules(within(old), within(new))


def test_new_property_that_another_branch_names_does_not_suit_consumers() -> None:
    branches = [OBJECT | {"additionalProperties": False, "properties": {name: STRING}} for name in "ab"]
    more = copy.deepcopy(branches)
    more[0]["properties"]["b"] = NUMBER

    (change,) = compare(within({"anyOf": branches}), within({"anyOf": more}))

    assert (change.kind.name, change.consumers) == ("property-added", False)


def test_new_property_is_matched_with_patterns() -> None:
    endless = {"patternProperties": {"^(a+)+$": {}}}
    assert rules(endless, endless | {"properties": {"a" * 5_000 + "b": STRING}}) == ["property-added"]
    unknown = {"patternProperties": {"^(?!x)": {}}}
    assert rules(unknown, unknown | within(STRING)) == ["property-redefined"]


def test_untyped_property_that_gets_properties_is_narrowed() -> None:
    assert rules(within({}), within(within({}))) == ["type-narrowed", "property-added"]


@pytest.mark.parametrize(
    ("old", "new"), [({}, draft(7)), (draft(6), {}), (draft(4), draft(6))], ids=["to 7", "from 6", "from 4 to 6"]
)
def test_another_draft_is_an_incompatible_change(old: Schema, new: Schema) -> None:
    [change] = compare(old, new)

    assert (change.kind.name, change.pointer) == ("attribute", "#/$schema")
    assert not change.producers
    assert not change.consumers


def test_same_draft_under_another_name_is_no_change() -> None:
    named = [{}, draft(4), *({"$schema": f"http://json-schema.org/{way}"} for way in ("schema", "draft-04/schema"))]

    assert all(not compare(old, new) for old in named for new in named)


def chain(names: list[str], last: Schema) -> Schema:
    """Return a schema that leads over that many definitions to the *last*."""
    links = {f"d{n}": {"properties": {name: {"$ref": f"#/definitions/d{n + 1}"}}} for n, name in enumerate(names)}
    return {"definitions": links | {f"d{len(names)}": last}} | within({"$ref": "#/definitions/d0"})


def test_schema_of_more_levels_than_can_be_compared_is_refused() -> None:
    schema = chain(["n"] * 2_000, {})

    with pytest.raises(InvalidEventType, match="nested too deeply"):
        compare(schema, schema)


def test_changes_at_more_places_than_can_be_reported_are_refused() -> None:
    def schema(kind: str) -> Schema:
        return chain(["k" * 50_000] * 10, {"properties": {f"p{number}": {"type": kind} for number in range(30)}})

    assert compare(schema("string"), schema("string")) == []
    with pytest.raises(InvalidEventType, match="at places whose pointers have over 10000000 characters"):
        compare(schema("string"), schema("null"))


def test_long_lists_of_values_are_compared() -> None:
    values = list(range(20_000))

    assert compare(within({"enum": values}), within({"enum": values[::-1]})) == []


# Values and nodes.


def test_values_are_equal_by_the_rules_of_json() -> None:
    rows: list[tuple[Any, Any, bool]] = [
        (1, 1.0, True), (1, True, False), (0, False, False), (0, None, False), ("1", 1, False), ([], {}, False),
        ([1, 2], [2, 1], False), ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}, True),
        ({"a": [1]}, {"a": [True]}, False), ({"a": None}, {}, False), ([False, 5], 5, False),
    ]  # fmt: skip
    for one, other, equal in rows:
        assert is_equal(one, other) is is_equal(other, one) is equal
        assert len({key_of(one), key_of(other)}) == (1 if equal else 2)


def test_kind_of_a_node_follows_from_its_type_or_keywords() -> None:
    rows: list[tuple[dict[str, Any], object]] = [
        ({}, EMPTY), ({"title": "t", "minLength": 0}, EMPTY), ({"type": "string"}, "string"),
        ({"type": ["string"]}, "string"), ({"type": ["string", "null"]}, ("null", "string")),
        ({"required": []}, "object"), ({"propertyNames": {"minLength": 1}}, "object"), ({"uniqueItems": True}, "array"),
        ({"uniqueItems": False, "maximum": 1}, "number"), ({"format": "date"}, "string"), ({"enum": [1]}, "values"),
        ({"$ref": "#", "type": "object"}, REFERENCE), ({"anyOf": [{}], "type": "string"}, ("combined", "string")),
        ({"oneOf": [{}]}, ("combined", EMPTY)),
    ]  # fmt: skip
    for node, kind in rows:
        assert kind_of(node) == kind


def test_booleans_are_nodes() -> None:
    assert [node_of(each) for each in (True, False, {"type": "null"})] == [{}, {"not": {}}, {"type": "null"}]


# References.


def test_references_are_found_wherever_they_stand() -> None:
    value = {"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#/a"}}], "enum": [{"$ref": 5}]}
    assert sorted(list_references(value)) == [(("anyOf", "0"), "#"), (("anyOf", "1", "not"), "#/a")]


def holding(a: Any, **definitions: Any) -> Schema:
    return {"properties": {"x": {"not": {"$ref": "#/definitions/b"}}}, "definitions": {"a": a, **definitions}}


AT_A: Pointer = ("definitions", "a")
AT_X: Pointer = ("properties", "x")
REFERS = {"$ref": "#/definitions/a"}
FIRST = {"$ref": "#/definitions/a/0"}


@pytest.mark.parametrize(
    ("old", "new", "elsewhere"),
    [
        (holding({}, b={}), holding({}, b={}), []),
        (holding({}, b={}), holding({"title": "a"}, b={}), [AT_A]),
        (holding({}, b=REFERS), holding({"title": "a"}, b=REFERS), [AT_A, AT_X]),
        (holding({"minimum": 1}, b=REFERS), holding({"minimum": 1.0}, b=REFERS), []),
        (holding({"enum": [1]}, b=REFERS), holding({"enum": [True]}, b=REFERS), [AT_A, AT_X]),
        (holding([{}], b=FIRST), holding([{}, {}], b=FIRST), [AT_A]),
        (holding({"0": {}}, b=FIRST), holding([{"title": "a"}], b=FIRST), [AT_A, AT_X]),
        (holding({"not": {"$ref": "#"}}, b={}), holding({"not": {"$ref": "#"}}, b={"title": "b"}), [AT_A, AT_X]),
    ],
    ids=["nothing", "not referred to", "in two steps", "the same number", "not the same", "longer", "a list", "itself"],
)
def test_node_that_refers_to_a_change_has_changed(old: Schema, new: Schema, elsewhere: list[Pointer]) -> None:
    found = find_changed_places(old, new)
    assert [place for place in (AT_A, AT_X) if place in found] == elsewhere
    assert (() in found) is (old != new or elsewhere != [])


def test_change_at_the_end_of_a_chain_of_thousands_of_references_is_found() -> None:
    links = {str(n): {"not": {"$ref": f"#/definitions/{n + 1}"}} for n in range(5_000)}
    old, new = ({"definitions": links | {"5000": {"type": kind}}} for kind in ("null", "string"))

    assert len(find_changed_places(old, new)) == 2 + 2 + 2 * 5_000


# Rules of changes.

RULES = [value for value in vars(changes).values() if isinstance(value, ChangeKind)]


def test_rules_have_different_names_and_a_hint_wherever_they_refuse() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) > 20
    for rule in RULES:
        assert rule.text
        assert (rule.instead != "") == (Level.MAJOR in (rule.forward, rule.compatible)), "None is told by the place"
        assert rule.compatible >= rule.forward
