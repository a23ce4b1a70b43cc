"""Schemas that could keep a validator busy are kept out; those that merely refer to themselves are not."""

import time
from itertools import pairwise
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.unfolding import APPLIED_MAX, check_unfolding
from penstock.core.walk import Schema, target
from penstock.errors import InvalidEventType


def doubling(levels: int, **within: Any) -> Schema:
    """Return definitions that each refer twice to the next: for the same value, or for the same member of it."""
    names = [f"a{level}" for level in range(levels)]
    twice = {name: {"allOf": [{"$ref": f"#/definitions/{after}"}] * 2} for name, after in pairwise(names)}
    nodes = {name: {"properties": {"x": node}} for name, node in twice.items()} if within.get("deep") else twice
    return {"definitions": nodes | {names[-1]: {"type": "object"}}, "$ref": "#/definitions/a0"}


EXPLOSIVE: dict[str, Schema] = {
    "a reference to itself": {"$ref": "#"},
    "one to itself among others": {"allOf": [{"type": "object"}, {"$ref": "#"}]},
    "two that refer to each other": {
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
        "$ref": "#/definitions/a",
    },
    "a condition that is the whole": {"if": {"$ref": "#"}, "then": {"minProperties": 1}},
    "doubled for one value": doubling(30),
    "doubled with each level": doubling(30, deep=True),
    "itself twice for one member": {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
    "itself by two ways for one member": {
        "definitions": {"b": {"properties": {"x": {"$ref": "#"}}}, "c": {"properties": {"x": {"$ref": "#"}}}},
        "oneOf": [{"$ref": "#/definitions/b"}, {"$ref": "#/definitions/c"}],
    },
    "itself by name and by pattern": {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"^a": {"$ref": "#"}}},
    "itself as item and as what is contained": {"items": {"$ref": "#"}, "contains": {"$ref": "#"}},
    "itself for each item twice": {"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}},
}
RECURSIVE: dict[str, Schema] = {
    "a tree": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
    "a list": {"properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}},
    "comments with answers": {
        "definitions": {"comment": {"properties": {"answers": {"items": {"$ref": "#/definitions/comment"}}}}},
        "properties": {"comment": {"$ref": "#/definitions/comment"}},
    },
    "names and the rest": {"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}},
    "a tuple and its rest": {"items": [{"$ref": "#"}, {"$ref": "#"}], "additionalItems": {"$ref": "#"}},
    "one definition for many members": {
        "definitions": {"money": {"properties": {"amount": {"type": "number"}}}},
        "properties": {f"p{number}": {"$ref": "#/definitions/money"} for number in range(100)},
    },
    "one that is not met": {"definitions": {"loop": {"$ref": "#/definitions/loop"}}, "type": "object"},
}


@pytest.mark.parametrize("schema", EXPLOSIVE.values(), ids=EXPLOSIVE)
def test_what_could_take_for_ever_is_refused_at_once(schema: Schema) -> None:
    started = time.perf_counter()
    with pytest.raises(InvalidEventType, match=r"to itself without end|for the same member|more than 10000 schemas"):
        check_unfolding(schema)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("schema", RECURSIVE.values(), ids=RECURSIVE)
def test_what_refers_to_itself_in_an_orderly_way_is_let_in(schema: Schema) -> None:
    check_unfolding(schema)


def test_a_large_schema_is_looked_at_in_bounded_time() -> None:
    members = {f"p{number}": {"$ref": "#/definitions/text"} for number in range(20_000)}
    started = time.perf_counter()

    check_unfolding({"definitions": {"text": {"type": "string"}}, "properties": members})

    assert time.perf_counter() - started < 5


NAMES = ["a", "b", "c"]
REFERENCES = st.sampled_from(["#", *(f"#/definitions/{name}" for name in NAMES)]).map(lambda where: {"$ref": where})
NODES = st.recursive(
    st.just({"type": "object"}) | REFERENCES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=2).map(lambda held: {"properties": held}),
        st.lists(inner, min_size=1, max_size=2).map(lambda held: {"anyOf": held}),
        inner.map(lambda held: {"additionalProperties": held}),
        inner.map(lambda held: {"patternProperties": {"": held}}),
    ),
    max_leaves=5,
)
SCHEMAS = st.builds(
    lambda root, held: root | {"definitions": held}, NODES, st.fixed_dictionaries(dict.fromkeys(NAMES, NODES))
)


def looks(root: Schema, node: Any, value: Any, most: int) -> int:
    """Count how often a schema is applied when every part of *node* is tried on *value*; no further than *most*."""
    count = 1
    if "$ref" in node:
        return count + looks(root, target(root, node["$ref"]), value, most - 1) if most > 0 else count
    for each in node.get("anyOf", []):
        count += looks(root, each, value, most - count)
        if count > most:
            return count
    for name, member in value.items():
        ways = [node["properties"][name]] if name in node.get("properties", {}) else []
        if not ways and "additionalProperties" in node:
            ways.append(node["additionalProperties"])
        ways += node.get("patternProperties", {}).values()
        for each in ways:
            count += looks(root, each, member, most - count)
            if count > most:
                return count
    return count


@settings(suppress_health_check=[HealthCheck.filter_too_much], max_examples=300)
@given(SCHEMAS, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_what_is_let_in_takes_a_time_that_grows_with_the_event_alone(schema: Schema, path: list[str]) -> None:
    try:
        check_unfolding(schema)
    except InvalidEventType:
        return
    event: dict[str, Any] = {}
    for level in range(60):
        event = {path[level % len(path)]: event}

    assert looks(schema, schema, event, 100 * APPLIED_MAX) <= 60 * APPLIED_MAX
    jsonschema_rs.Draft4Validator(schema).is_valid(event)
