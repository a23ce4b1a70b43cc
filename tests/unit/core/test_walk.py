from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.walk import (
    MISSING,
    Schema,
    children,
    followed,
    mapped,
    nodes,
    rebuilt,
    redirected,
    shown,
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


def test_every_schema_within_a_schema_is_found_and_nothing_else() -> None:
    titles = {node["title"] for _, node in nodes(EVERYWHERE) if "title" in node}

    assert titles == {str(number) for number in range(1, 22)}


def test_the_way_to_each_leads_there() -> None:
    for at, node in nodes(EVERYWHERE):
        assert target(EVERYWHERE, shown(at)) == node


def test_a_copy_changes_what_stands_within_and_nothing_else() -> None:
    copy = mapped(EVERYWHERE, lambda _: True)

    assert all(child is True for _, child in children(copy))
    assert {name: copy[name] for name in ("enum", "default", "const")} == {
        name: EVERYWHERE[name] for name in ("enum", "default", "const")
    }
    assert copy["dependencies"]["q"] == ["p"]
    assert mapped(EVERYWHERE, lambda child: child) == EVERYWHERE


def test_references_are_moved_where_they_are_references() -> None:
    schema = {"$ref": "#/a", "properties": {"$ref": {"$ref": "#"}}, "enum": [{"$ref": "#/kept"}]}

    moved = redirected(schema, lambda reference: "#/data" + reference[1:])

    assert moved == {"$ref": "#/data/a", "properties": {"$ref": {"$ref": "#/data"}}, "enum": [{"$ref": "#/kept"}]}


def test_all_within_are_seen_to_from_above_and_what_was_given_stays() -> None:
    before = repr(EVERYWHERE)
    seen: list[str] = []

    def change(node: Schema) -> Schema:
        seen.append(node.get("title", "0"))
        return node | {"title": "seen"}

    found = rebuilt(EVERYWHERE, change)

    assert sorted(map(int, seen)) == list(range(22))
    assert all(node["title"] == "seen" for _, node in nodes(found))
    assert {name: found[name] for name in ("enum", "default", "const")} == {
        name: EVERYWHERE[name] for name in ("enum", "default", "const")
    }
    assert repr(EVERYWHERE) == before


def test_what_is_taken_out_is_not_gone_into() -> None:
    found = rebuilt({"not": {"title": "a"}, "items": [{"not": {}}]}, lambda node: {"items": node.get("items", [])})

    assert found == {"items": [{"items": []}]}


@pytest.mark.parametrize("node", [True, 5, None, ["a"]], ids=repr)
def test_what_is_no_object_stays(node: Any) -> None:
    assert rebuilt(node, lambda _: {}) is node


def test_depth_is_no_matter() -> None:
    schema: Schema = {"$ref": "#/a"}
    for _ in range(100_000):
        schema = {"not": schema}

    found = redirected(schema, lambda reference: reference + "/b")

    depth = 0
    while "not" in found:
        found, schema, depth = found["not"], schema["not"], depth + 1
    assert (depth, found, schema) == (100_000, {"$ref": "#/a/b"}, {"$ref": "#/a"})


def test_references_are_followed_to_the_end() -> None:
    root: Schema = {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": True, "c": {"$ref": "#"}}, "title": "root"}

    assert followed(root, {"$ref": "#/definitions/a"}) is True
    assert followed(root, {"$ref": "#/definitions/c"}) is root
    assert followed(root, root) is root


@pytest.mark.parametrize(
    "reference",
    ["x", "#a", "http://example.com/#", "#/b", "#/a/x", "#/a/2", "#/a/-1", "#/a/01x", "#/a/²", f"#/a/{'9' * 5_000}"],
    ids=lambda reference: reference[:9],
)
def test_what_leads_nowhere_is_missing(reference: str) -> None:
    assert target({"a": [{}, {}]}, reference) is MISSING


def test_a_step_counts_the_items_of_a_list() -> None:
    numbered = {"a": [{"title": str(number)} for number in range(11)]}

    assert target(numbered, "#/a/10/title") == "10"
    assert target(numbered, "#/a/0/title") == "0"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%"))))
def test_a_pointer_is_read_as_it_was_written(at: list[str]) -> None:
    assert steps(shown(tuple(at))) == tuple(at)


@pytest.mark.parametrize("node", [True, False, None, 5, [], "x"], ids=repr)
def test_what_is_no_object_has_nothing_within(node: Any) -> None:
    assert list(children(node)) == []
