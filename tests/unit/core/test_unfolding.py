"""Schemas that could keep a validator busy are kept out; those that merely refer to themselves are not."""

import re
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from penstock.core.event import DEPTH_MAX
from penstock.core.unfolding import APPLIED_MAX, check_unfolding, most_applied
from penstock.core.walk import COMBINED, Schema, target
from penstock.errors import InvalidEventType
from tests.exhaustive import examples

DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


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
    "doubled for each name": DRAFT_7 | {"definitions": doubling(30)["definitions"], "propertyNames": doubling(30)},
    "a name that refers to itself": {
        "definitions": {"a": {"$ref": "#/definitions/a"}},
        "propertyNames": {"$ref": "#/definitions/a"},
    },
    "itself twice for the member without a name": {
        "properties": {"": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        "additionalProperties": {"type": "string"},
    },
    "more that go on by themselves with each level": {
        "definitions": {
            f"d{number}": {
                "properties": {
                    "a": {"allOf": [{"$ref": f"#/definitions/d{number}"}, {"$ref": f"#/definitions/d{number + 1}"}]}
                }
            }
            for number in range(6)
        }
        | {"d6": {"maxProperties": 1}},
        "$ref": "#/definitions/d0",
    },
    "many for one value, and many for its member": {
        "definitions": {"many": {"anyOf": [{"minimum": number} for number in range(200)]}},
        "anyOf": [{"properties": {"a": {"$ref": "#/definitions/many"}}} for _ in range(200)],
    },
    "without a reference": {"anyOf": [{"required": [f"p{number}"]} for number in range(APPLIED_MAX)]},
    "by a condition": {
        "definitions": {"a": {"if": {"$ref": "#/definitions/b"}}, "b": {"else": {"$ref": "#/definitions/a"}}},
        "not": {"$ref": "#/definitions/a"},
    },
    "by what a member asks for": {"dependencies": {"a": {"$ref": "#"}}},
    "a very long chain": {
        "definitions": {f"d{number}": {"$ref": f"#/definitions/d{number + 1}"} for number in range(5_000)}
        | {"d5000": {}},
        "properties": {"a": {"$ref": "#/definitions/d0"}},
    },
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
    "whatever JSON can say": {
        "definitions": {
            "json": {
                "anyOf": [
                    {"type": ["string", "number", "boolean", "null"]},
                    {"type": "array", "items": {"$ref": "#/definitions/json"}},
                    {"type": "object", "additionalProperties": {"$ref": "#/definitions/json"}},
                ]
            }
        },
        "properties": {"payload": {"$ref": "#/definitions/json"}},
    },
    "an expression": {
        "definitions": {
            "expression": {
                "oneOf": [
                    {"type": "number"},
                    {"properties": {"not": {"$ref": "#/definitions/expression"}}},
                    {"properties": {name: {"$ref": "#/definitions/expression"} for name in ("left", "right")}},
                    {"properties": {"all": {"type": "array", "items": {"$ref": "#/definitions/expression"}}}},
                ]
            }
        },
        "properties": {"where": {"$ref": "#/definitions/expression"}},
    },
    "a tree that says more than another": {
        "definitions": {
            "node": {"properties": {"child": {"$ref": "#/definitions/node"}}},
            "named": {
                "allOf": [
                    {"$ref": "#/definitions/node"},
                    {"properties": {"name": {}, "child": {"$ref": "#/definitions/named"}}},
                ]
            },
        },
        "$ref": "#/definitions/named",
    },
    "two that hold each other": {
        "definitions": {
            "folder": {"properties": {"files": {"items": {"$ref": "#/definitions/file"}}}},
            "file": {"properties": {"in": {"$ref": "#/definitions/folder"}}},
        },
        "$ref": "#/definitions/folder",
    },
    "a choice of thousands": {"properties": {"airport": {"enum": [f"A{number}" for number in range(50_000)]}}},
}


WHY = r"to itself without end|for the same member|more than 10000 schemas|more than 100 references"
COUNTED: dict[str, tuple[Schema, int]] = {
    "one": ({}, 1),
    "one with choices": ({"enum": list(range(40))}, 3),
    "branches": ({"allOf": [{}, {}], "anyOf": [{}], "oneOf": [{}], "not": {}, "if": {}, "then": {}, "else": {}}, 9),
    "no more for a member": ({"properties": {"a": {}, "b": {}}, "items": {}, "contains": {}}, 2),
    "a member by three ways": ({"allOf": [{"properties": {"a": {}}}], "patternProperties": {"": {}, "a": {}}}, 3),
    "a member of two": ({"allOf": [{"properties": {"a": {}}}] * 4, "additionalProperties": {}}, 5),
    "its name hides the rest": ({"properties": {"a": {}}, "additionalProperties": {}}, 1),
    "a tuple's item hides the rest": ({"items": [{}], "additionalItems": {}, "contains": {}}, 2),
    "names": ({"propertyNames": {"allOf": [{}, {}]}}, 3),
    "a reference": ({"definitions": {"a": {}}, "$ref": "#/definitions/a"}, 2),
    "two references": ({"definitions": {"a": {}, "b": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/b"}, 3),
    "a list without end": ({"properties": {"next": {"$ref": "#"}}}, 2),
    "one for each level of those above": (
        {
            "allOf": [
                {"properties": {"a": {"$ref": "#"}}},
                {"properties": {"a": {}}},
                {"properties": {"b": {"$ref": "#"}}},
            ]
        },
        5 + DEPTH_MAX,
    ),
    "booleans": ({"anyOf": [True, False]}, 3),
    "what a member asks for": ({"dependencies": {"a": {}, "b": ["c"]}}, 2),
}


@pytest.mark.parametrize(("schema", "applied"), COUNTED.values(), ids=COUNTED)
def test_what_is_applied_to_one_value_is_counted(schema: Schema, applied: int) -> None:
    assert most_applied(schema) == applied


@pytest.mark.parametrize("schema", EXPLOSIVE.values(), ids=EXPLOSIVE)
def test_what_could_take_for_ever_is_refused_at_once(schema: Schema) -> None:
    started = time.process_time()
    with pytest.raises(InvalidEventType, match=WHY):
        check_unfolding(schema)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("schema", RECURSIVE.values(), ids=RECURSIVE)
def test_what_refers_to_itself_in_an_orderly_way_is_let_in(schema: Schema) -> None:
    check_unfolding(schema)


def test_a_large_schema_is_looked_at_in_bounded_time() -> None:
    members = {f"p{number}": {"$ref": "#/definitions/text"} for number in range(20_000)}
    started = time.process_time()

    check_unfolding({"definitions": {"text": {"type": "string"}}, "properties": members})

    assert time.process_time() - started < 5


def test_what_leads_back_is_named() -> None:
    schema = {
        "properties": {"a": {"oneOf": [{"properties": {"b": {"$ref": "#"}}}, {"properties": {"b": {"$ref": "#"}}}]}}
    }

    with pytest.raises(InvalidEventType, match=r"leads from #/properties/a to # and to # for the same member"):
        check_unfolding(schema)


def test_a_schema_that_is_too_entangled_to_tell_is_refused_soon() -> None:
    each = {"allOf": [{"$ref": "#/definitions/many"}]}
    many = {"allOf": [{"title": str(number)} for number in range(5_000)]}
    started = time.process_time()

    with pytest.raises(InvalidEventType, match="too entangled"):
        check_unfolding({"definitions": {"many": many}, "properties": {f"p{n}": dict(each) for n in range(10_000)}})

    assert time.process_time() - started < 10


@pytest.mark.parametrize("schema", RECURSIVE.values(), ids=RECURSIVE)
def test_the_deepest_events_are_validated_soon_by_what_is_let_in(schema: Schema) -> None:
    events: list[Any] = [{}, []]
    for _ in range(200):
        events = [{"child": events[0], "next": events[0], "left": events[0]}, [events[1]]]
    validator = jsonschema_rs.Draft7Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
    started = time.process_time()

    for event in ({"payload": each, "where": each, "comment": each, "files": each} for each in events):
        validator.is_valid(event)

    assert time.process_time() - started < 2


MEMBERS = ["a", "b", ""]
REFERENCES = st.sampled_from(["#", *(f"#/definitions/{name}" for name in "de"), "#/properties/a", "#/items"])
HELD = st.deferred(lambda: NODES)
NODES: st.SearchStrategy[Any] = st.one_of(
    st.just({}),
    REFERENCES.map(lambda reference: {"$ref": reference}),
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(MEMBERS), HELD, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", ""]), HELD, max_size=1),
            "additionalProperties": HELD,
            "propertyNames": HELD,
            "items": HELD | st.lists(HELD, min_size=1, max_size=2),
            "additionalItems": HELD,
            "contains": HELD,
            "dependencies": st.dictionaries(st.sampled_from(MEMBERS), HELD | st.just(["a"]), max_size=1),
        }
        | {method: st.lists(HELD, min_size=1, max_size=2) for method in COMBINED}
        | dict.fromkeys(("not", "if", "then", "else"), HELD),
    ),
)
WHOLE = st.builds(
    lambda root, definitions, a, items: (
        root | {"definitions": definitions, "properties": root.get("properties", {}) | {"a": a}} | {"items": items}
    ),
    NODES.filter(lambda node: isinstance(node, dict) and "$ref" not in node),
    st.fixed_dictionaries({"d": NODES, "e": NODES}),
    NODES,
    NODES,
)
"""Schemas whose references all lead to schemas, mostly in circles."""
EVENTS = st.recursive(
    st.sampled_from([{}, [], 1]),
    lambda inner: st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=2) | st.lists(inner, max_size=2),
    max_leaves=10,
)


def wrapped(event: Any, names: list[str]) -> Any:
    """Return *event* within as many levels as there are *names*: of lists where one is no member's."""
    for name in names:
        event = {name: event} if name in MEMBERS else [1, event]
    return event


def applications(schema: Schema, event: Any) -> Counter[tuple[Any, ...]]:
    """Count how many schemas are applied to each value of *event* by one who leaves nothing out."""
    counts: Counter[tuple[Any, ...]] = Counter()
    waiting: list[tuple[Any, Any, tuple[Any, ...]]] = [(schema, event, ())]
    while waiting:
        node, value, at = waiting.pop()
        if not isinstance(node, dict):
            continue  # What lets all pass, or nothing, takes no look at the value.
        counts[at] += 1
        if "$ref" in node:
            waiting.append((target(schema, node["$ref"]), value, at))
            continue
        beside = [each for method in COMBINED for each in node.get(method, [])]
        beside += [node[keyword] for keyword in ("not", "if", "then", "else") if keyword in node]
        beside += [each for each in node.get("dependencies", {}).values() if not isinstance(each, list)]
        waiting += ((each, value, at) for each in beside)
        if isinstance(value, dict):
            waiting += ((each, member, (*at, name)) for name, member in value.items() for each in of_member(node, name))
            waiting += (
                (node["propertyNames"], name, (*at, ("name", name))) for name in value if "propertyNames" in node
            )
        if isinstance(value, list):
            waiting += ((each, item, (*at, n)) for n, item in enumerate(value) for each in of_item(node, n))
    return counts


def of_member(node: Schema, name: str) -> list[Any]:
    """Return the schemas that *node* applies to the member of that name."""
    found = [node["properties"][name]] if name in node.get("properties", {}) else []
    found += [each for pattern, each in node.get("patternProperties", {}).items() if re.search(pattern, name)]
    return found or ([node["additionalProperties"]] if "additionalProperties" in node else [])


def of_item(node: Schema, number: int) -> list[Any]:
    """Return the schemas that *node* applies to the item of that number."""
    found = [node["contains"]] if "contains" in node else []
    items = node.get("items")
    if isinstance(items, list):
        rest = [node["additionalItems"]] if "additionalItems" in node else []
        return [*found, items[number]] if number < len(items) else [*found, *rest]
    return found if items is None else [*found, items]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=examples(40, 400))
@given(WHOLE, EVENTS, st.lists(st.sampled_from([*MEMBERS, "items"]), max_size=12))
def test_no_value_has_more_applied_to_it_than_is_told(schema: Schema, event: Any, names: list[str]) -> None:
    try:
        most = most_applied(schema)
    except InvalidEventType:
        return
    note(f"at most {most}")
    if most > 500:  # It would take minutes to leave nothing out.
        return

    counts = applications(schema, wrapped(event, names))

    assert max(counts.values()) <= most


@given(WHOLE)
def test_what_is_let_in_is_taken_by_the_validator_and_ends(schema: Schema) -> None:
    try:
        check_unfolding(schema)
    except InvalidEventType:
        return
    deep: list[Any] = [{}, {}]
    for _ in range(100):
        deep = [{"a": deep[0]}, [deep[1]]]
    validator = jsonschema_rs.Draft7Validator(schema)
    started = time.process_time()

    for event in deep:
        validator.is_valid(event)

    assert time.process_time() - started < 2
