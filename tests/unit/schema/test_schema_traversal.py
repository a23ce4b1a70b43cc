"""Traversal of schemas: the nodes within, the pointers to them, and references."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.schema.traversal import (
    MISSING,
    Schema,
    children,
    format_pointer,
    list_nodes,
    rebuild,
    redirect_references,
    steps,
    target,
)

EVERYWHERE: Schema = {
    "definitions": {"d": {"title": "1"}},
    "$defs": {"d": {"title": "21"}},
    "properties": {"p": {"title": "2"}, "required": {"title": "3"}},
    "patternProperties": {"^x": {"title": "4"}},
    "dependencies": {"p": {"title": "5"}, "q": ["p"]},
    "allOf": [{"title": "6"}],
    "anyOf": [{"title": "7"}, {"title": "8"}],
    "oneOf": [{"title": "9"}],
    "not": {"title": "10"},
    "if": {"title": "11"},
    "then": {"title": "12"},
    "else": {"title": "13"},
    "additionalProperties": {"title": "14"},
    "additionalItems": {"title": "15"},
    "propertyNames": {"title": "16"},
    "contains": {"title": "17"},
    "items": [{"title": "18"}, {"items": {"title": "19"}, "title": "20"}],
    "enum": [{"title": "no"}],
    "default": {"title": "no"},
    "const": {"title": "no"},
}


def test_every_node_within_a_schema_is_found_at_its_pointer() -> None:
    found = list(list_nodes(EVERYWHERE))

    assert {node["title"] for _, node in found if "title" in node} == {str(number) for number in range(1, 22)}
    for at, node in found:
        assert target(EVERYWHERE, format_pointer(at)) == node


def test_references_are_redirected_and_values_and_names_are_not() -> None:
    schema = {"$ref": "#/a", "properties": {"$ref": {"$ref": "#"}}, "enum": [{"$ref": "#/kept"}]}

    moved = redirect_references(schema, lambda reference: "#/data" + reference[1:])

    assert moved == {"$ref": "#/data/a", "properties": {"$ref": {"$ref": "#/data"}}, "enum": [{"$ref": "#/kept"}]}


def test_value_other_than_an_object_has_no_children_and_stays() -> None:
    for node in [True, 5, None, ["a"], "x"]:
        assert rebuild(node, lambda _: {}) is node
        assert list(children(node)) == []


def test_schema_of_any_depth_is_rebuilt() -> None:
    schema: Schema = {"$ref": "#/a"}
    for _ in range(20_000):
        schema = {"not": schema}

    found = redirect_references(schema, lambda reference: reference + "/b")

    depth = 0
    while "not" in found:
        found, schema, depth = found["not"], schema["not"], depth + 1
    assert (depth, found, schema) == (20_000, {"$ref": "#/a/b"}, {"$ref": "#/a"})


def test_target_of_a_reference_to_nothing_is_missing() -> None:
    rows: list[str] = [
        "x", "#a", "http://example.com/#", "#/b", "#/a/x", "#/a/2", "#/a/-1", "#/a/01x", "#/a/²", f"#/a/{'9' * 5_000}",
    ]  # fmt: skip
    for reference in rows:
        assert target({"a": [{}, {}]}, reference) is MISSING


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%"))))
def test_pointer_is_parsed_as_it_was_written(at: list[str]) -> None:
    assert steps(format_pointer(tuple(at))) == tuple(at)
