"""Certainties of the evolution of schemas, checked with a validator of another project."""

import copy
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft7Validator

from penstock.core.registry.definition import Mode
from penstock.schema.effective import effective_schema
from penstock.schema.evolution import EvolutionVerdict, judge
from penstock.schema.parsing import check_schema, names_all
from penstock.schema.traversal import rebuild
from penstock.schema.validation import Validator
from tests.exhaustive import examples
from tests.unit.schema.nodes import ARRAY, NUMBER, OBJECT, STRING, Schema

NAMES = ("a", "b", "c")
TYPES = ("string", "number", "integer", "object", "array", "null")
VALUES: list[Any] = [
    *(None, True, 0, 1, 2, 0.5, "", "a", "b", "ab", [], [1], [1, 1], ["a", {}], {}, {"a": 1}, {"b": "a"}),
    {"a": 1, "b": 1},
]
LEAVES: st.SearchStrategy[Schema] = st.sampled_from(
    [
        {}, STRING, NUMBER, {"type": "integer"}, {"type": "boolean"}, {"type": ["string", "null"]}, {"enum": ["a", 1]},
        {"enum": ["a"]}, {"type": "string", "minLength": 1}, {"type": "string", "pattern": "^a"}, OBJECT, ARRAY,
        {"title": "t"}, {"minLength": 1}, NUMBER | {"minimum": 1}, {"type": "integer", "maximum": 1},
        ARRAY | {"maxItems": 1}, {"type": ["array", "object"], "uniqueItems": True},
    ]
)  # fmt: skip


def objects(nodes: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from(NAMES), nodes, max_size=3)},
        optional={
            "type": st.just("object"),
            "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
            "additionalProperties": st.booleans() | nodes,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), nodes, max_size=1),
            "minProperties": st.integers(0, 2),
            "dependencies": dependencies(nodes),
            "allOf": st.lists(nodes, min_size=1, max_size=1),
        },
    )


def untyped(nodes: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Return schemas of events that do not say that those are objects: the mode `compatible` does not close them."""
    branches = st.lists(nodes, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "additionalProperties": st.booleans() | nodes,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), nodes, max_size=1),
            "dependencies": dependencies(nodes),
            "minLength": st.just(1),
            "allOf": branches,
            "anyOf": branches,
        },
    )


def dependencies(nodes: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    on_names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=1)
    return st.dictionaries(st.sampled_from(NAMES), on_names | nodes, max_size=1)


def arrays(nodes: st.SearchStrategy[Schema], *, extra: bool) -> st.SearchStrategy[Schema]:
    more = {"additionalItems": st.booleans() | nodes} if extra else {}
    return st.fixed_dictionaries(
        {"items": nodes | st.lists(nodes, min_size=1, max_size=2)},
        optional={"type": st.just("array"), "uniqueItems": st.booleans()} | more,
    )


def nodes_of(*methods: str, extra: bool = True) -> st.SearchStrategy[Schema]:
    """Any schemas, combined by those methods alone; *extra* says whether arrays may have `additionalItems`."""
    return st.recursive(
        LEAVES,
        lambda nodes: (
            objects(nodes)
            | arrays(nodes, extra=extra)
            | st.builds(
                lambda method, branches: {method: branches},
                st.sampled_from(methods),
                st.lists(nodes, min_size=1, max_size=2),
            )
        ),
        max_leaves=6,
    )


EDITS: dict[str, Callable[[Schema], Any]] = {
    "add": lambda node: len(node["properties"]) < len(NAMES) if "properties" in node else node in ({}, OBJECT),
    "remove": lambda node: node.get("properties"),
    "enum": lambda node: "enum" in node,
    "required": lambda node: "properties" in node,
    "open": lambda node: "properties" in node,
    "depend": lambda node: "properties" in node,
    "items": lambda node: isinstance(node.get("items"), list),
    "branch": lambda node: "allOf" in node or "anyOf" in node or "oneOf" in node,
    "bound": lambda _: True,
    "neutral": lambda _: True,
    "type": lambda node: "type" in node,
    "title": lambda _: True,
    "replace": lambda _: True,
}
"""Which nodes can be changed how."""
GENTLE = (*["add"] * 9, *["neutral"] * 3, "title", "replace", "required", "depend", "items")
"""Edits that the mode `compatible` mostly accepts."""
BOUNDED = (*["bound"] * 6, *["type"] * 3, *["branch"] * 3, "items", "open", "depend", "enum")
"""Edits that mostly make a schema looser or tighter, and no more."""
GONE = object()
BOUNDS: dict[str, list[Any]] = {
    **{keyword: [0, 1, 0.5, GONE] for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")},
    **{keyword: [0, 1, 2, GONE] for keyword in ("minLength", "maxLength", "minItems", "maxItems")},
    **{keyword: [0, 1, 2, GONE] for keyword in ("minProperties", "maxProperties")},
    "multipleOf": [1, 2, 0.5, GONE],
    "pattern": ["^a", "b", GONE],
    "uniqueItems": [True, False, GONE],
    "const": ["a", GONE],
    "not": [STRING, STRING | {"minLength": 1}, OBJECT, GONE],
    "if": [STRING, NUMBER | {"minimum": 1}, GONE],
    "then": [{"minLength": 1}, {}, {"maximum": 1}, GONE],
    "contains": [STRING, NUMBER, GONE],
    "propertyNames": [{"pattern": "^a"}, {"maxLength": 0}, GONE],
}
"""The values that keywords can get."""
KEYWORD_EDITS = ("bound", "neutral", "type", "branch")
NEUTRAL: dict[str, Any] = {"minLength": 0, "minItems": 0, "minProperties": 0, "uniqueItems": False}


@st.composite
def edited(draw: st.DrawFn, given: Schema, nodes: st.SearchStrategy[Schema], edits: Sequence[str]) -> Schema:
    """A schema much like that: at a place or two something is added, taken away or put in the place of another."""
    root = {"": copy.deepcopy(given)}
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        places = list(_places(root, ""))
        fitting = {edit: [(held, name) for held, name in places if EDITS[edit](held[name])] for edit in edits}
        edit = draw(st.sampled_from([edit for edit in edits if fitting[edit]]))
        holder, name = draw(st.sampled_from(fitting[edit]))
        made = draw(nodes) if edit == "replace" else holder[name] | draw(_edit(holder[name], nodes, edit))
        holder[name] = {keyword: value for keyword, value in made.items() if value is not GONE}
    return root[""]


def _places(holder: Any, name: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the places of a node and of all within it, each with its holder and name."""
    yield holder, name
    node = holder[name]
    for keyword in ("properties", "patternProperties", "dependencies", "anyOf", "oneOf", "allOf", "items"):
        held = node.get(keyword, [])
        for each in held if isinstance(held, dict) and keyword != "items" else range(len(held)):
            if isinstance(held, list) or (keyword != "items" and isinstance(held[each], dict)):
                yield from _places(held, each)
    for keyword in ("items", "additionalItems", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            yield from _places(node, keyword)


@st.composite
def _edit(draw: st.DrawFn, node: Schema, nodes: st.SearchStrategy[Schema], edit: str) -> Schema:
    """Other values of some members of *node*."""
    name = draw(st.sampled_from(NAMES))
    properties = node.get("properties", {})
    if edit == "add":
        return {"properties": properties | {draw(st.sampled_from(sorted({*NAMES} - {*properties}))): draw(nodes)}}
    if edit == "remove":
        gone = draw(st.sampled_from(sorted(properties)))
        return {"properties": {name: each for name, each in properties.items() if name != gone}}
    if edit == "enum":
        return {"enum": draw(st.lists(st.sampled_from(["a", 1, None]), min_size=1, unique=True))}
    if edit in ("required", "open"):
        required = sorted({name} ^ set(node.get("required", [])))
        shut = node.get("additionalProperties", True) is not False
        return {"required": required} if edit == "required" else {"additionalProperties": not shut}
    if edit == "depend":
        return {"dependencies": draw(dependencies(nodes))}
    if edit in KEYWORD_EDITS:
        return draw(_keyword(node, nodes, edit))
    if edit == "items":
        return {"items": draw(st.sampled_from([node["items"][:1], node["items"] * 2]))}
    return {"title": "another"}


@st.composite
def _keyword(draw: st.DrawFn, node: Schema, nodes: st.SearchStrategy[Schema], edit: str) -> Schema:
    """Another value of a keyword, which makes *node* looser or tighter, or is neutral."""
    if edit == "neutral":
        return dict([draw(st.sampled_from(sorted(NEUTRAL.items())))])
    if edit == "bound":
        keyword = draw(st.sampled_from([keyword for keyword in BOUNDS if keyword in node] or sorted(BOUNDS)))
        return {keyword: draw(st.sampled_from(BOUNDS[keyword]))}
    if edit == "type":
        return {"type": draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True) | st.just(GONE))}
    method = draw(st.sampled_from([method for method in ("allOf", "anyOf", "oneOf") if method in node]))
    branches = node[method]
    return {method: draw(st.sampled_from([branches[:1], branches[1:] or branches, [*branches, draw(nodes)]]))}


Pairs = tuple[Schema, list[Schema]]


def pairs_of(nodes: st.SearchStrategy[Schema], edits: Sequence[str] = tuple(EDITS)) -> st.SearchStrategy[Pairs]:
    """Schemas of events, each with some that differ a little."""
    return (objects(nodes) | objects(nodes) | untyped(nodes)).flatmap(
        lambda old: st.tuples(st.just(old), st.lists(edited(old, nodes, edits), min_size=4, max_size=4))
    )


def select(pairs: Pairs, suits: Callable[[EvolutionVerdict], bool], mode: Mode) -> list[Schema]:
    """Return the new schemas that differ and are judged so: one at least."""
    old, news = pairs
    found = [(new, judge(old, new, mode)) for new in news]
    found = [(new, verdict) for new, verdict in found if verdict.changes and suits(verdict)]
    assume(found)
    for _, verdict in found:
        event(" ".join(sorted({change.kind.name for change in verdict.changes})))
    return [new for new, _ in found]


CHANCES = st.integers(0, 1 << 32).map(random.Random)
"""Documents are made by chances of their own: many to each pair, at no cost."""


def document(node: Schema, chance: random.Random) -> Any:
    """A value; many of them fit *node*."""
    if "anyOf" in node or "oneOf" in node:
        return document(chance.choice([*node.get("anyOf", []), *node.get("oneOf", [])]), chance)
    if "allOf" in node:
        rest = {name: value for name, value in node.items() if name != "allOf"}
        made = [document(each, chance) for each in [rest, *node["allOf"]]]
        whole = {name: member for each in made if isinstance(each, dict) for name, member in each.items()}
        return whole or chance.choice(made)
    if "type" not in node and chance.random() < 0.05:
        return chance.choice(VALUES)
    if "properties" in node:
        return _object(node, chance)
    if "items" in node:
        return _array(node, chance)
    fits = Draft7Validator(node).is_valid
    return chance.choice([value for value in [*VALUES, *node.get("enum", [])] if fits(value)] or VALUES)


def _object(node: Schema, chance: random.Random) -> Schema:
    made, others = {}, node.get("additionalProperties")
    for name in NAMES:
        told = [each for pattern, each in node.get("patternProperties", {}).items() if re.search(pattern, name)]
        told += [node["properties"][name]] if name in node["properties"] else []
        told = told or ([others] if isinstance(others, dict) else [])
        if name in node.get("required", []) or chance.random() < (0.7 if told else 0.1):
            made[name] = document(chance.choice(told), chance) if told else chance.choice(VALUES)
    return made


def _array(node: Schema, chance: random.Random) -> list[Any]:
    items, extra = node["items"], node.get("additionalItems", {})
    if isinstance(items, dict):
        return [document(items, chance) for _ in range(chance.randrange(4))]
    more = [extra] * chance.randrange(3) if isinstance(extra, dict) else []
    return [document(each, chance) for each in [*items, *more][: chance.choice([1, 9, 9])]]


SLOW_TO_DRAW = [HealthCheck.filter_too_much, HealthCheck.too_slow]
"""Schemas that have no valid document are drawn, too, and are no sign that a test is wrong."""


def documents(node: Schema, chance: random.Random) -> Iterator[Any]:
    return (document(node, chance) for _ in range(40))


def valid_by(validator: Any, drawn: Iterator[Any]) -> list[Any]:
    """Return the objects among *drawn* that are valid."""
    return [each for each in drawn if isinstance(each, dict) and validator.is_valid(each)]


class Whole(NamedTuple):
    """How a schema is part of an owner's, and its documents part of the documents of that."""

    schema: Callable[[Schema], Schema]
    document: Callable[[Any], Any]


WHOLES = {
    "itself": Whole(lambda node: node, lambda held: held),
    "of a member": Whole(lambda node: {"properties": {"x": node}, "required": ["x"]}, lambda held: {"x": held}),
    "by a reference": Whole(lambda node: {"properties": {"x": {"$ref": "#/definitions/d"}}, "definitions": {"d": node}},
        lambda held: {"x": held}),
    "by a reference into a pattern": Whole(lambda node: {"definitions": {"d": {"patternProperties": {"^x": node}}},
        "properties": {"x": {"$ref": "#/definitions/d/patternProperties/%5Ex"}}}, lambda held: {"x": held}),
    "of the root, by a branch": Whole(lambda node: {"allOf": [node]}, lambda held: held),
    "of the root, by a reference": Whole(lambda node: {"$ref": "#/definitions/d", "definitions": {"d": node}},
        lambda held: held),
    "of a tree": Whole(lambda node: {"properties": {"x": node, "xs": {"items": {"$ref": "#"}}}},
        lambda held: {"x": held, "xs": [{"x": held}, {"xs": []}, {"x": held, "xs": [{}]}]}),
}  # fmt: skip
METADATA = {"eid": "00000000-0000-0000-0000-000000000001", "occurred_at": "2026-11-20T10:00:00Z"}
ENVELOPES: dict[str, Callable[[Any], Any]] = {
    "undefined": lambda held: held,
    "business": lambda held: held | {"metadata": METADATA},
    "data": lambda held: {"metadata": METADATA, "data_type": "a", "data_op": "C", "data": held},
}


def validator_of(schema: Schema, category: str) -> Validator:
    """Return the validator of the events of an event type in the mode `compatible`."""
    check_schema(schema, compatible=True, business=category == "business")
    return Validator(effective_schema(schema, name="t", category=category, compatible=True, compacted=False))


@settings(max_examples=examples(6, 200), suppress_health_check=SLOW_TO_DRAW)
@given(
    pairs_of(nodes_of("allOf", "anyOf", "oneOf", extra=False), GENTLE),
    st.sampled_from([*WHOLES]),
    st.sampled_from([*ENVELOPES]),
    CHANCES,
)
def test_valid_event_stays_valid_after_a_compatible_change(
    pairs: Pairs, name: str, category: str, chance: random.Random
) -> None:
    whole, envelope = WHOLES[name], ENVELOPES[category]
    old = whole.schema(pairs[0])
    news = select((old, [whole.schema(new) for new in pairs[1]]), lambda verdict: not verdict.refused, "compatible")
    before = validator_of(old, category)
    held = [each for each in documents(pairs[0], chance) if isinstance(each, dict) and each]
    published = [envelope(whole.document(each)) for each in held]
    valid = [each for each in published if before.find_first_invalid([each]) is None]
    assume(valid)
    event(f"events were valid: {name}, {category}")

    for new in news:
        after = validator_of(new, category)
        assert judge(old, new, "compatible").producers
        assert [each for each in valid if after.find_first_invalid([each]) is not None] == []


ALL_NODES = nodes_of("allOf", "anyOf", "oneOf")


@settings(max_examples=examples(12, 400), suppress_health_check=SLOW_TO_DRAW)
@given(pairs_of(ALL_NODES) | pairs_of(ALL_NODES, BOUNDED), CHANCES)
def test_change_that_suits_producers_leaves_their_documents_valid(pairs: Pairs, chance: random.Random) -> None:
    old = pairs[0]
    news = select(pairs, lambda verdict: verdict.producers, "none")
    valid = valid_by(Draft7Validator(old), documents(old, chance))
    assume(any(valid))

    for new in news:
        after = Draft7Validator(new)
        assert [each for each in valid if not after.is_valid(each)] == []


@settings(max_examples=examples(6, 200), suppress_health_check=SLOW_TO_DRAW)
@given(pairs_of(nodes_of("allOf", "anyOf")) | pairs_of(nodes_of("allOf", "anyOf"), BOUNDED), CHANCES)
def test_change_that_suits_consumers_leaves_new_documents_valid_for_them(pairs: Pairs, chance: random.Random) -> None:
    """Consumers read members that the new schema names, and ignore those that the old one does not."""
    old = pairs[0]
    news = select(pairs, lambda verdict: verdict.consumers, "none")
    valid = [each for new in news for each in valid_by(Draft7Validator(naming_all(new)), documents(new, chance))]
    assume(any(valid))
    known = Draft7Validator(old)

    assert [each for each in valid if not known.is_valid(read_by(old, each))] == []


def naming_all(schema: Schema) -> Schema:
    """Return *schema*, but that nothing has members anywhere of which it says nothing."""

    def shut(node: Schema) -> Schema:
        others = node.get("additionalProperties")
        return node | {"additionalProperties": False} if names_all(node) and not isinstance(others, dict) else node

    whole: Schema = rebuild(schema, shut)
    return whole


def read_by(schema: Schema, value: Any) -> Any:
    """Return *value* without the members of which *schema* knows nothing."""
    nodes = list(_spread(schema))
    if isinstance(value, list):
        return [read_by({"allOf": _told_of_item(nodes, number)}, each) for number, each in enumerate(value)]
    if not isinstance(value, dict) or not any("properties" in node for node in nodes):
        return value
    demanded = {name for node in nodes for each in _demands(node) for name in each}
    kept = {}
    for name, member in value.items():
        told = _told_of_member(nodes, name)
        if told or name in demanded:
            kept[name] = read_by({"allOf": told}, member)
    return kept


def _demands(node: Schema) -> list[list[str]]:
    on_names = [each for each in node.get("dependencies", {}).values() if isinstance(each, list)]
    return [node.get("required", []), *on_names]


def _told_of_member(nodes: Sequence[Schema], name: str) -> list[Schema]:
    found = []
    for node in nodes:
        told = [each for pattern, each in node.get("patternProperties", {}).items() if re.search(pattern, name)]
        told += [node["properties"][name]] if name in node.get("properties", {}) else []
        others = node.get("additionalProperties")
        found += told or ([others] if isinstance(others, dict) else [])
    return found


def _told_of_item(nodes: Sequence[Schema], number: int) -> list[Schema]:
    found = []
    for node in nodes:
        items = node.get("items", [])
        if isinstance(items, list):
            items = items[number] if number < len(items) else node.get("additionalItems")
        found += [items] if isinstance(items, dict) else []
    return found


def _spread(schema: Schema) -> Iterator[Schema]:
    yield schema
    branches = [branch for method in ("allOf", "anyOf") for branch in schema.get(method, [])]
    for branch in [*branches, *schema.get("dependencies", {}).values()]:
        if isinstance(branch, dict):
            yield from _spread(branch)
