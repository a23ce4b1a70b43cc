"""References: where they may lead, and which of them mean something else than before."""

from typing import Any

import pytest

from penstock.core.references import check_references, moved, references
from penstock.core.walk import Pointer, Schema
from penstock.errors import InvalidEventType

A: Pointer = ("definitions", "a")


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        (5, "has a $ref at #/items that is no text"),
        ("other.json", 'refers at #/items to "other.json", outside of itself, which is never fetched'),
        ("https://example.com/a", "outside of itself"),
        ("#/definitions/b", "leads to nothing"),
        ("#a", "leads to nothing"),
        ("#/definitions", "where no schema stands"),
        ("#/definitions/a/enum/0", "where no schema stands"),
    ],
    ids=repr,
)
def test_a_reference_leads_to_a_schema_within(reference: Any, told: str) -> None:
    schema = {"items": {"$ref": reference}, "definitions": {"a": {"enum": [{}]}}}
    with pytest.raises(InvalidEventType, match=r"schema\.schema") as caught:
        check_references(schema)
    assert told in str(caught.value)


@pytest.mark.parametrize("reference", ["#", "#/definitions/a", "#/definitions/a%7E1b", "#/items"])
def test_a_reference_may_lead_anywhere_within(reference: str) -> None:
    check_references({"items": {"not": {"$ref": reference}}, "definitions": {"a": {}, "a/b": {}}})


def test_references_are_found_wherever_they_stand() -> None:
    value = {"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#/a"}}], "enum": [{"$ref": 5}]}
    assert sorted(references(value)) == [(("anyOf", "0"), "#"), (("anyOf", "1", "not"), "#/a")]


def holding(a: Any, **definitions: Any) -> Schema:
    return {"properties": {"x": {"not": {"$ref": "#/definitions/b"}}}, "definitions": {"a": a, **definitions}}


B = {"$ref": "#/definitions/a"}
X: Pointer = ("properties", "x")


@pytest.mark.parametrize(
    ("old", "new", "elsewhere"),
    [
        (holding({}, b={}), holding({}, b={}), []),
        (holding({}, b={}), holding({"title": "a"}, b={}), [A]),
        (holding({}, b=B), holding({"title": "a"}, b=B), [A, X]),
        (holding({"minimum": 1}, b=B), holding({"minimum": 1.0}, b=B), []),
        (holding({"enum": [1]}, b=B), holding({"enum": [True]}, b=B), [A, X]),
        (holding([{}], b={"$ref": "#/definitions/a/0"}), holding([{}, {}], b={"$ref": "#/definitions/a/0"}), [A]),
        (
            holding({"0": {}}, b={"$ref": "#/definitions/a/0"}),
            holding([{"title": "a"}], b={"$ref": "#/definitions/a/0"}),
            [A, X],
        ),
        (holding({"not": {"$ref": "#"}}, b={}), holding({"not": {"$ref": "#"}}, b={"title": "b"}), [A, X]),
    ],
    ids=["nothing", "not referred to", "in two steps", "the same number", "not the same", "longer", "a list", "itself"],
)
def test_what_refers_to_what_differs_means_something_else(old: Schema, new: Schema, elsewhere: list[Pointer]) -> None:
    found = moved(old, new)
    assert [place for place in (A, X) if place in found] == elsewhere
    assert (() in found) is (old != new or elsewhere != [])


def test_a_chain_of_thousands_is_followed_once() -> None:
    links = {str(n): {"not": {"$ref": f"#/definitions/{n + 1}"}} for n in range(5_000)}
    old, new = ({"definitions": links | {"5000": {"type": kind}}} for kind in ("null", "string"))

    assert len(moved(old, new)) == 2 + 2 + 2 * 5_000
