"""Bounds of the work that a schema can make a validator do: how often schemas apply, and how long patterns match."""

import re
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from penstock.errors import InvalidEventType
from penstock.schema import bounds as unfolding
from penstock.schema.bounds import (
    APPLIED_MAX,
    MATCH_MAX,
    MATCHING_MAX,
    check_unfolding,
    count_name_bytes,
    count_states,
    find_most_applied,
    find_most_name_states,
    find_most_text_states,
)
from penstock.schema.json_text import DEPTH_MAX
from penstock.schema.traversal import COMBINED, Schema, target
from penstock.schema.validation import Validator
from tests.exhaustive import examples, exhaustive

DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


def doubling(levels: int, *, deep: bool = False) -> Schema:
    """Return definitions that each refer twice to the next: for the same value, or for the same member of it."""
    names = [f"a{level}" for level in range(levels)]
    twice = {name: {"allOf": [{"$ref": f"#/definitions/{after}"}] * 2} for name, after in pairwise(names)}
    nodes = {name: {"properties": {"x": node}} for name, node in twice.items()} if deep else twice
    return {"definitions": nodes | {names[-1]: {"type": "object"}}, "$ref": "#/definitions/a0"}


EXPLOSIVE: dict[str, Schema] = {
    "a reference to itself": {"$ref": "#"},
    "one to itself among others": {"allOf": [{"type": "object"}, {"$ref": "#"}]},
    "two that refer to each other": {"definitions": {"a": {"$ref": "#/definitions/b"},
        "b": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"},
    "a condition that is the whole": {"if": {"$ref": "#"}, "then": {"minProperties": 1}},
    "doubled for one value": doubling(30),
    "doubled with each level": doubling(30, deep=True),
    "itself twice for one member": {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
    "itself by two ways for one member": {"definitions": {"b": {"properties": {"x": {"$ref": "#"}}},
        "c": {"properties": {"x": {"$ref": "#"}}}},
        "oneOf": [{"$ref": "#/definitions/b"}, {"$ref": "#/definitions/c"}]},
    "itself by name and by pattern": {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"^a": {"$ref": "#"}}},
    "itself as item and as what is contained": {"items": {"$ref": "#"}, "contains": {"$ref": "#"}},
    "itself for each item twice": {"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}},
    "doubled for each name": DRAFT_7 | {"definitions": doubling(30)["definitions"], "propertyNames": doubling(30)},
    "a name that refers to itself": {"definitions": {"a": {"$ref": "#/definitions/a"}},
        "propertyNames": {"$ref": "#/definitions/a"}},
    "itself twice for the member without a name": {"properties": {"": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        "additionalProperties": {"type": "string"}},
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
    "many for one value, and many for its member": {"definitions": {"many": {"anyOf": [{"minimum": number}
        for number in range(200)]}}, "anyOf": [{"properties": {"a": {"$ref": "#/definitions/many"}}}
        for _ in range(200)]},
    "without a reference": {"anyOf": [{"required": [f"p{number}"]} for number in range(APPLIED_MAX)]},
    "by a condition": {"definitions": {"a": {"if": {"$ref": "#/definitions/b"}},
        "b": {"else": {"$ref": "#/definitions/a"}}}, "not": {"$ref": "#/definitions/a"}},
    "by what a member asks for": {"dependencies": {"a": {"$ref": "#"}}},
    "a very long chain": {"definitions": {f"d{number}": {"$ref": f"#/definitions/d{number + 1}"}
        for number in range(5_000)} | {"d5000": {}}, "properties": {"a": {"$ref": "#/definitions/d0"}}},
}  # fmt: skip
RECURSIVE: dict[str, Schema] = {
    "a tree": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
    "a list": {"properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}},
    "comments with answers": {
        "definitions": {"comment": {"properties": {"answers": {"items": {"$ref": "#/definitions/comment"}}}}},
        "properties": {"comment": {"$ref": "#/definitions/comment"}},
    },
    "names and the rest": {"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}},
    "a tuple and its rest": {"items": [{"$ref": "#"}, {"$ref": "#"}], "additionalItems": {"$ref": "#"}},
    "one definition for many members": {"definitions": {"money": {"properties": {"amount": {"type": "number"}}}},
        "properties": {f"p{number}": {"$ref": "#/definitions/money"} for number in range(100)}},
    "one that is not met": {"definitions": {"loop": {"$ref": "#/definitions/loop"}}, "type": "object"},
    "whatever JSON can say": {"definitions": {"json": {"anyOf": [{"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$ref": "#/definitions/json"}},
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/json"}}]}},
        "properties": {"payload": {"$ref": "#/definitions/json"}}},
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
}  # fmt: skip
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
    "one for each level of those above": ({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {}}},
        {"properties": {"b": {"$ref": "#"}}}]}, 5 + DEPTH_MAX),
    "booleans": ({"anyOf": [True, False]}, 3),
    "what a member asks for": ({"dependencies": {"a": {}, "b": ["c"]}}, 2),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "applied"), COUNTED.values(), ids=COUNTED)
def test_schemas_that_apply_to_one_value_are_counted(schema: Schema, applied: int) -> None:
    assert find_most_applied(schema) == applied


@pytest.mark.parametrize("schema", EXPLOSIVE.values(), ids=EXPLOSIVE)
def test_schema_of_unbounded_work_is_refused(schema: Schema) -> None:
    reasons = r"to itself without end|for the same member|more than 10000 schemas|more than 100 references"
    with pytest.raises(InvalidEventType, match=reasons):
        check_unfolding(schema)


@pytest.mark.parametrize("schema", RECURSIVE.values(), ids=RECURSIVE)
def test_recursive_schema_of_bounded_work_is_accepted_and_validates_deep_events(schema: Schema) -> None:
    check_unfolding(schema)

    events: list[Any] = [{}, []]
    for _ in range(200):
        events = [{"child": events[0], "next": events[0], "left": events[0]}, [events[1]]]
    validator = jsonschema_rs.Draft7Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
    for event in ({"payload": each, "where": each, "comment": each, "files": each} for each in events):
        validator.is_valid(event)


def test_refusal_names_the_references_that_double_the_work() -> None:
    branches = [{"properties": {"b": {"$ref": "#"}}}] * 2

    with pytest.raises(InvalidEventType, match=r"leads from #/properties/a to # and to # for the same member"):
        check_unfolding({"properties": {"a": {"oneOf": branches}}})


@pytest.mark.parametrize("looks", [1_000, exhaustive(unfolding.VISITS_MAX)])
def test_schema_that_takes_too_many_looks_to_judge_is_refused(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfolding, "VISITS_MAX", looks)

    def entangled(looks: int) -> Schema:
        names = looks // 100
        many = {"allOf": [{"title": str(number)} for number in range(97)]}  # With their holders, 100 looks.
        each = {"properties": {f"p{n}": {"allOf": [{"$ref": "#/definitions/many"}]} for n in range(names)}}
        return {"definitions": {"many": many}, **each}

    check_unfolding(entangled(looks - 200))
    with pytest.raises(InvalidEventType, match=f"too entangled: it takes more than {looks} visits"):
        check_unfolding(entangled(looks + 100))


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
    """Count how many schemas a validator applies to each value of *event* if it leaves nothing out."""
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


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=examples(15, 400))
@given(WHOLE, EVENTS, st.lists(st.sampled_from([*MEMBERS, "items"]), max_size=12))
def test_no_value_has_more_schemas_applied_than_were_counted(schema: Schema, event: Any, names: list[str]) -> None:
    try:
        most = find_most_applied(schema)
    except InvalidEventType:
        return
    note(f"at most {most}")
    if most > 500:  # It would take minutes to leave nothing out.
        return

    counts = applications(schema, wrapped(event, names))

    assert max(counts.values()) <= most


# What it takes to match an event's texts with patterns.

QUICK = "^[ab]{990}c$"
"""A match ends at the first other letter, and has about a thousand states nevertheless."""
LARGEST = "^" + "a[ab]{990}" * 9 + "c$"
"""The same with as many states as a pattern may have."""
STATES = count_states(QUICK)
SLOW = "[ab]*a[ab]{990}c"
"""A match of random letters meets nearly all of its thousand states at once."""


def texts(count: int, size: int) -> dict[str, str]:
    return {f"p{number}": "x" * size for number in range(count)}


def judge(schema: Schema, event: dict[str, Any]) -> str | None:
    """Return the reason why *event* is invalid, validated as a hub does; None if it is valid."""
    validator, raw = Validator(schema), msgspec.json.encode(event)
    return None if validator.find_first_invalid([event], [raw]) is None else validator.explain(event)


ONE = {"a": "x" * 900_000}
OF_NAMES = {"patternProperties": {QUICK: {}}}
TOO_LONG: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "one text": ({"properties": {"a": {"pattern": QUICK}}}, ONE,
                 f"has a text of 900000 bytes, where up to {MATCH_MAX // STATES} can be held against the pattern"),
    "a byte too many": ({"properties": {"a": {"not": {"pattern": QUICK}}}}, {"a": "x" * (MATCH_MAX // STATES + 1)},
                        f"has a text of {MATCH_MAX // STATES + 1} bytes"),
    "the largest pattern": ({"properties": {"a": {"pattern": LARGEST}}}, ONE, "has a text of 900000 bytes"),
    "many texts": ({"additionalProperties": {"not": {"pattern": QUICK}}},
     texts(MATCHING_MAX // STATES // 9_000 + 1, 9_000),
                   "has more text than can be held against the patterns of its schema, such as the pattern ^[ab]"),
    "many patterns": ({"properties": {"a": {"allOf": [{"not": {"pattern": f"{QUICK}{number}"}}
        for number in range(99)]}}}, {"a": "x" * 90_000}, "has more text than can be held"),
    "a text in a branch": ({"properties": {"a": {"anyOf": [{"pattern": QUICK}, {}]}}}, ONE, "has a text of 900000"),
    "names": (OF_NAMES, {"x" * 900_000: 1},
              f"has members' names of 900000 bytes, where up to {MATCH_MAX // STATES} can be held against patternProp"),
    "names of a schema's own": (DRAFT_7 | {"propertyNames": {"pattern": QUICK}}, {"x" * 900_000: 1},
                                "has a text of 900000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "event", "reason"), TOO_LONG.values(), ids=TOO_LONG)
def test_event_that_takes_too_long_to_match_is_refused_with_its_size(
    schema: Schema, event: dict[str, Any], reason: str
) -> None:
    found = judge(schema, event)

    assert found is not None
    assert found.startswith(f"#: {reason}")


def test_event_at_the_limits_of_matching_is_validated() -> None:
    unlike = {"not": {"pattern": QUICK}}
    assert judge({"properties": {"a": unlike}}, {"a": "x" * (MATCH_MAX // STATES)}) is None
    assert judge({"additionalProperties": unlike}, texts(MATCHING_MAX // STATES // 1_000, 1_000)) is None
    assert judge(OF_NAMES, {"x" * (MATCH_MAX // STATES): 1}) is None


@pytest.mark.exhaustive
def test_slowest_pattern_at_the_limits_of_matching_is_validated() -> None:
    def letters(count: int, seed: int) -> str:
        return "".join(Random(seed).choices("ab", k=count))

    states = count_states(SLOW)
    assert judge({"properties": {"a": {"pattern": SLOW}}}, {"a": letters(MATCH_MAX // states, 0)}) is not None
    event = {f"p{number}": letters(1_000, number) for number in range(MATCHING_MAX // states // 1_000)}
    assert judge({"additionalProperties": {"not": {"pattern": SLOW}}}, event) is None


UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
ALNUM = "[a-zA-Z0-9]"
LABEL = f"{ALNUM}(?:[a-zA-Z0-9-]{{0,61}}{ALNUM})?"
EMAIL = rf"^[a-zA-Z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{LABEL}(?:\.{LABEL})*$"
ORDINARY: dict[str, tuple[Schema, dict[str, Any]]] = {
    "identifiers": ({"properties": {"a": {"items": {"pattern": UUID}}}},
        {"a": ["7b7c7a6e-0000-4000-8000-00000000000f"] * 25_000}),
    "identifiers as names": ({"patternProperties": {UUID: {}}, "additionalProperties": False},
        {f"7b7c7a6e-0000-4000-8000-{number:012}": 1 for number in range(22_000)}),
    "addresses": ({"properties": {"a": {"items": {"pattern": EMAIL}}}}, {"a": ["jane.doe@example.org"] * 20_000}),
    "a large text beside": ({"properties": {"a": {"pattern": "^.{1,255}$"}, "b": {"type": "string"}}},
        {"a": "short", "b": "x" * 990_000}),
    "a large text of one's own": ({"properties": {"a": {"pattern": "^[a-zA-Z0-9+/]*={0,2}$"}}}, {"a": "x" * 990_000}),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "event"), ORDINARY.values(), ids=ORDINARY)
def test_ordinary_patterns_accept_the_largest_events(schema: Schema, event: dict[str, Any]) -> None:
    assert judge(schema, event) is None


def test_large_event_is_refused_in_the_words_of_a_small_one() -> None:
    schema = {"properties": {"a": {"pattern": "^.{1,255}$"}}}

    assert judge(schema, {"a": "", "b": "x" * 900_000}) == judge(schema, {"a": ""})
    assert judge(schema, {"a": ""}) == "#/a: string [] does not match pattern ^.{1,255}$"


def test_large_event_leaves_the_limit_of_the_events_beside_it_alone() -> None:
    validator = Validator({"additionalProperties": {"pattern": QUICK}})
    good = {"a": "a" * 990 + "c"}
    events = [good, good, {"a": "x" * 200_000}, good]
    raws = [msgspec.json.encode(event) for event in events]

    assert validator.find_first_invalid(events, raws) == 2
    assert validator.find_first_invalid(events[:2], raws[:2]) is None
    assert "has a text of 200000 bytes" in validator.explain(events[2])
    assert validator.find_first_invalid(events[3:], raws[3:]) is None


def test_states_are_summed_over_references_and_branches() -> None:
    one = {"pattern": "^abc$"}
    states = count_states("^abc$")
    both = {"definitions": {"x": one}, "properties": {"a": {"allOf": [one, {"$ref": "#/definitions/x"}]}, "b": one}}

    assert 2 * states <= find_most_text_states(both) <= 2 * states + 1
    assert find_most_name_states(both) == 0
    assert find_most_name_states({"items": {"patternProperties": {"^abc$": {}, "^abd$": {}}}}) == 2 * states
    assert find_most_text_states({"enum": ["a"], "pattern": 5}) == 0


def test_bytes_of_names_are_counted_at_every_level() -> None:
    assert count_name_bytes({"a": [{"bc": {"é": 1}}], "d": "efg"}) == 6
