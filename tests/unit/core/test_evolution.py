"""Every row of the table of changes (digest of Nakadi's contract, 2.5), and what is certain of them."""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from penstock.core import change as changes
from penstock.core.change import Level, Rule
from penstock.core.choices import Mode
from penstock.core.comparison import compare
from penstock.core.effective import effective_schema
from penstock.core.evolution import judge, next_version
from penstock.core.schema import check_schema, closed
from penstock.core.validation import Validator
from penstock.core.walk import COMBINED

Schema = dict[str, Any]
PATCH, MINOR, MAJOR = Level.PATCH, Level.MINOR, Level.MAJOR
STRING, NUMBER, OBJECT, ARRAY = ({"type": name} for name in ("string", "number", "object", "array"))


def within(node: Schema) -> Schema:
    """An event with one property."""
    return {"properties": {"a": node}}


class Row(NamedTuple):
    rule: str
    old: Schema
    new: Schema
    pointer: str
    forward: Level
    compatible: Level


ROWS = [Row(*row) for row in (
    ("id", {"id": "a"}, {"id": "b"}, "#/id", MAJOR, MAJOR),
    ("id", {}, {"$id": "b"}, "#/$id", MAJOR, MAJOR),
    ("title", within({"title": "a"}), within({}), "#/properties/a/title", PATCH, PATCH),
    ("description", {}, {"description": "b"}, "#/description", PATCH, PATCH),
    ("property-added", {"properties": {}}, within(STRING), "#/properties/a", MINOR, MINOR),
    ("property-added", OBJECT, within(STRING), "#/properties/a", MINOR, MINOR),
    ("property-added", {}, within(STRING), "#/properties/a", MINOR, MINOR),
    ("property-removed", within(STRING), {"properties": {}}, "#/properties/a", MAJOR, MAJOR),
    ("property-removed", within({}), {"properties": {"b": {}}}, "#/properties/a", MAJOR, MAJOR),
    ("property-removed", {"properties": {"a/b~": {}}}, OBJECT, "#/properties/a~1b~0", MAJOR, MAJOR),
    ("type-changed", within(STRING), within(NUMBER), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within(NUMBER), within({"type": "integer"}), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within(OBJECT), within({"$ref": "#/definitions/a"}), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within(STRING), within({"anyOf": [STRING, NUMBER]}), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within(STRING), within({"type": ["string", "null"]}), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within(STRING), within({}), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within({}), within({"enum": ["a"]}), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within({"$ref": "#/b"}), within({"$ref": "#/c"}), "#/properties/a", MAJOR, MAJOR),
    ("type-changed", within(ARRAY | {"items": {}}), within({"items": {}}), "#/properties/a/type", MAJOR, MAJOR),
    ("type-narrowed", within({}), within(STRING), "#/properties/a", MINOR, MAJOR),
    ("type-narrowed", within({"title": "a"}), within(ARRAY), "#/properties/a", MINOR, MAJOR),
    ("type-narrowed", within({}), within(OBJECT), "#/properties/a", MINOR, MAJOR),
    ("type-narrowed", within({"items": {}}), within(ARRAY | {"items": {}}), "#/properties/a/type", MINOR, MAJOR),
    ("schema-removed", within(ARRAY), within(ARRAY | {"items": {}}), "#/properties/a/items", MAJOR, MAJOR),
    ("schema-removed", within(ARRAY | {"items": {}}), within(ARRAY), "#/properties/a/items", MAJOR, MAJOR),
    ("schema-removed", within({"items": {}}), within({"items": [{}]}), "#/properties/a/items", MAJOR, MAJOR),
    (
        "schema-removed",
        within(ARRAY | {"additionalItems": STRING}),
        within(ARRAY),
        "#/properties/a/additionalItems",
        MAJOR,
        MAJOR,
    ),
    ("type-changed", within({"items": [{}], "additionalItems": STRING}),
     within({"items": [{}], "additionalItems": NUMBER}), "#/properties/a/additionalItems", MAJOR, MAJOR),
    ("schema-removed", {"additionalProperties": STRING}, OBJECT, "#/additionalProperties", MAJOR, MAJOR),
    ("items-count", within({"items": [{}]}), within({"items": [{}, {}]}), "#/properties/a/items", MAJOR, MAJOR),
    *(
        ("attribute", within(STRING | {name: value}), within(STRING | after), f"#/properties/a/{name}", MAJOR, MAJOR)
        for name, value, other in (
            ("minimum", 1, 2),
            ("maximum", 1, 2),
            ("multipleOf", 1, 2),
            ("exclusiveMinimum", 1, True),
            ("exclusiveMaximum", 1, True),
            ("minLength", 1, 2),
            ("maxLength", 1, 2),
            ("pattern", "a", "b"),
            ("format", "date-time", "email"),
            ("minItems", 1, 2),
            ("maxItems", 1, 2),
            ("uniqueItems", True, False),
            ("minProperties", 1, 2),
            ("maxProperties", 1, 2),
            ("const", 1, True),
            ("not", {}, STRING),
            ("if", {}, STRING),
            ("then", {}, STRING),
            ("else", {}, STRING),
            ("contains", {}, STRING),
            ("propertyNames", {}, STRING),
        )
        for after in ({name: other}, {})
    ),
    ("attribute", {"patternProperties": {"a": {}}}, OBJECT, "#/patternProperties", MAJOR, MAJOR),
    ("default", within(STRING | {"default": "a"}), within(STRING), "#/properties/a/default", MAJOR, MAJOR),
    ("default", within(STRING), within(STRING | {"default": "a"}), "#/properties/a/default", MAJOR, MAJOR),
    ("default", within({"default": 1}), within({"default": True}), "#/properties/a/default", MAJOR, MAJOR),
    ("enum", within({"enum": [1, 2]}), within({"enum": [2]}), "#/properties/a/enum", MAJOR, MAJOR),
    ("enum", within({"enum": [1]}), within({"enum": [2, 1]}), "#/properties/a/enum", MAJOR, MAJOR),
    ("enum", within({"enum": [1]}), within({"enum": [True]}), "#/properties/a/enum", MAJOR, MAJOR),
    ("enum", within(STRING), within(STRING | {"enum": ["a"]}), "#/properties/a/enum", MAJOR, MAJOR),
    ("branch-count", within({"anyOf": [{}]}), within({"anyOf": [{}, {}]}), "#/properties/a/anyOf", MAJOR, MAJOR),
    ("branch-count", within({"oneOf": [{}, {}]}), within({"oneOf": [{}]}), "#/properties/a/oneOf", MAJOR, MAJOR),
    ("composition", within({"anyOf": [{}]}), within({"oneOf": [{}]}), "#/properties/a", MAJOR, MAJOR),
    ("one-of", {"oneOf": [OBJECT]}, {"oneOf": [OBJECT | within({})]}, "#/oneOf/0/properties/a", MAJOR, MAJOR),
    ("one-of", {"oneOf": [OBJECT]}, {"oneOf": [OBJECT | {"required": ["a"]}]}, "#/oneOf/0/required", MAJOR, MAJOR),
    ("required-reduced", {"required": ["a", "b"]}, {"required": ["b"]}, "#/required", MAJOR, MAJOR),
    ("required-reduced", {"required": ["a"]}, {"required": ["b"]}, "#/required", MAJOR, MAJOR),
    ("required-extended", {"required": ["a"]}, {"required": ["b", "a"]}, "#/required", MINOR, MAJOR),
    ("required-extended", OBJECT, {"required": ["b"]}, "#/required", MINOR, MAJOR),
    ("additional-properties", OBJECT, OBJECT | {"additionalProperties": False}, "#/additionalProperties", MAJOR, MAJOR),
    ("additional-properties", {"additionalProperties": False}, OBJECT, "#/additionalProperties", MAJOR, MAJOR),
    (
        "additional-properties",
        {"additionalProperties": False},
        {"additionalProperties": STRING},
        "#/additionalProperties",
        MAJOR,
        MAJOR,
    ),
    (
        "additional-properties-narrowed",
        OBJECT,
        OBJECT | {"additionalProperties": STRING},
        "#/additionalProperties",
        MINOR,
        MAJOR,
    ),
    (
        "additional-items",
        within(ARRAY),
        within(ARRAY | {"additionalItems": False}),
        "#/properties/a/additionalItems",
        MAJOR,
        MAJOR,
    ),
    ("dependencies", {"dependencies": {"a": ["b"]}}, OBJECT, "#/dependencies", MAJOR, MAJOR),
    ("dependencies", {"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["c"]}}, "#/dependencies", MAJOR, MAJOR),
    ("dependencies", {"dependencies": {"a": {}}}, {"dependencies": {"a": STRING}}, "#/dependencies", MAJOR, MAJOR),
    ("property-redefined", {"patternProperties": {"^a": {}}}, {"patternProperties": {"^a": {}}} | within({}),
     "#/properties/a", MAJOR, MAJOR),
    ("property-redefined", {"additionalProperties": STRING}, {"additionalProperties": STRING} | within({}),
     "#/properties/a", MAJOR, MAJOR),
)]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[f"{number}-{row.rule}" for number, row in enumerate(ROWS)])
def test_each_row_of_the_table_in_every_mode(row: Row) -> None:
    (change,) = [change for change in compare(row.old, row.new) if change.rule.name == row.rule]

    assert change.pointer == row.pointer
    levels = [change.level(mode) for mode in ("none", "forward", "compatible")]
    assert levels == [row.forward, row.forward, row.compatible]
    assert change not in judge(row.old, row.new, "none").refused
    for mode, level in (("forward", row.forward), ("compatible", row.compatible)):
        refused = [each.rule.name for each in judge(row.old, row.new, mode).refused]
        assert (row.rule in refused) == (level == MAJOR)


def test_every_rule_has_a_row() -> None:
    rules = {value.name for value in vars(changes).values() if isinstance(value, Rule)}

    assert rules == {row.rule for row in ROWS}


def test_on_the_way_from_forward_to_compatible_little_may_change() -> None:
    old = {"properties": {"a": STRING, "b": ARRAY}}
    new = {
        "title": "t",
        "description": "d",
        "properties": {"a": STRING, "b": ARRAY | {"additionalItems": False}, "c": {}},
        "required": ["a"],
        "additionalProperties": False,
    }

    verdict = judge(old, new, "forward", "compatible")
    assert not verdict.refused
    assert len(verdict.changes) == 6
    assert judge(old, new, "forward", "forward").refused
    narrowed = judge(within({}), within(STRING), "forward", "compatible")
    assert [change.rule.name for change in narrowed.refused] == ["type-narrowed"]


@pytest.mark.parametrize(
    ("old", "new", "producers", "consumers"),
    [
        (OBJECT, {"required": ["a"]}, False, True),
        ({"required": ["a"]}, OBJECT, True, False),
        (within({"enum": [1, 2]}), within({"enum": [1]}), False, True),
        (within({"enum": [1]}), within({"enum": [1, 2]}), True, False),
        (within({"enum": [1]}), within({"enum": [2]}), False, False),
        (within(STRING), OBJECT, True, True),
        (within(STRING) | {"required": ["a"]}, OBJECT | {"required": ["a"]}, True, False),
        ({"additionalProperties": False} | within({}), {"additionalProperties": False}, False, True),
        (OBJECT, within(STRING), False, True),
        ({"additionalProperties": False}, {"additionalProperties": False} | within(STRING), True, True),
        (OBJECT | {"minProperties": 1}, within(STRING) | {"minProperties": 1}, False, False),
        (within({"default": 1}), within({"default": 2}), True, False),
        (within({}), within(STRING), False, True),
        (within({"title": "a"}), within({"title": "b"}), True, True),
        (OBJECT, {"additionalProperties": False}, False, True),
        ({"additionalProperties": False}, OBJECT, True, False),
        *(
            (within(ARRAY | {"uniqueItems": True} | hold(OBJECT)),
             within(ARRAY | {"uniqueItems": True} | hold(OBJECT | within(STRING))), False, False)
            for hold in (
                lambda node: {"items": node},
                lambda node: {"items": within(node)},
                lambda node: {"items": [{}, node]},
                lambda node: {"items": [{}], "additionalItems": node},
                lambda node: {"items": ARRAY | {"items": [{}], "additionalItems": node}},
            )
        ),
        (within(ARRAY | {"items": OBJECT}), within(ARRAY | {"items": OBJECT | within(STRING)}), False, True),
        (within(ARRAY | {"items": [{}], "additionalItems": OBJECT}),
         within(ARRAY | {"items": [{}], "additionalItems": OBJECT | within(STRING)}), False, True),
        ({"required": ["a"], "additionalProperties": False},
         {"required": ["a"], "additionalProperties": False} | within(STRING), True, False),
        ({"required": ["a"]}, {"required": ["a"]} | within(STRING), False, True),
        (within(STRING), {"properties": {}, "required": ["a"]}, False, False),
        (within(STRING) | {"additionalProperties": NUMBER}, {"additionalProperties": NUMBER}, False, False),
        (within(STRING) | {"patternProperties": {"^a": {"minLength": 1}}}, {"patternProperties": {"^a": NUMBER}},
         False, False),
        (within(STRING) | {"patternProperties": {"^b": NUMBER}}, {"patternProperties": {"^b": NUMBER}}, True, True),
    ],
)  # fmt: skip
def test_producers_and_consumers_have_verdicts_of_their_own(
    old: Schema, new: Schema, producers: bool, consumers: bool
) -> None:
    verdict = judge(old, new, "forward")

    assert (verdict.producers, verdict.consumers) == (producers, consumers)


@pytest.mark.parametrize(
    ("old", "new", "modes", "producers"),
    [
        (within(STRING), OBJECT, ("compatible", "compatible"), False),
        (within(STRING), OBJECT, ("compatible", None), False),
        (within(STRING), OBJECT, ("compatible", "forward"), True),
        (within(STRING), OBJECT, ("compatible", "none"), True),
        (OBJECT, within(STRING), ("compatible", "compatible"), True),
        (OBJECT, within(STRING), ("forward", "compatible"), False),
        (OBJECT, within(STRING), ("none", "compatible"), False),
        (OBJECT, within(STRING), ("forward", None), False),
    ],
)
def test_only_what_is_compatible_before_and_after_shuts_out_what_it_does_not_name(
    old: Schema, new: Schema, modes: tuple[Mode, Mode | None], producers: bool
) -> None:
    assert judge(old, new, *modes).producers == producers


def test_versions_count_on() -> None:
    assert next_version("1.0.0", PATCH) == "1.0.1"
    assert next_version("9.9.9", MINOR) == "9.10.0"
    assert next_version("9.9.9", MAJOR) == "10.0.0"


# The certainties, held against a validator that nobody here has written.

NAMES = ("a", "b", "c")
VALUES = st.sampled_from([None, True, 0, 1, "", "a", "b", [], [1], {}, {"a": 1}])
LEAVES = st.sampled_from(
    [
        {}, STRING, NUMBER, {"type": "integer"}, {"type": "boolean"}, {"type": ["string", "null"]}, {"enum": ["a", 1]},
        {"enum": ["a"]}, {"type": "string", "minLength": 1}, {"type": "string", "pattern": "^a"}, OBJECT, ARRAY,
        {"title": "t"}, {"minLength": 1},
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
        },
    )


def nodes_of(*methods: str) -> st.SearchStrategy[Schema]:
    """Any schemas, combined by those methods alone."""
    return st.recursive(
        LEAVES,
        lambda nodes: (
            objects(nodes)
            | st.fixed_dictionaries({"type": st.just("array"), "items": nodes}, optional={"uniqueItems": st.booleans()})
            | st.builds(
                lambda method, branches: {method: branches},
                st.sampled_from(methods),
                st.lists(nodes, min_size=1, max_size=2),
            )
        ),
        max_leaves=6,
    )


KINDS = ("add", "remove", "enum", "required", "replace", "open")


@st.composite
def edited(draw: st.DrawFn, node: Schema, nodes: st.SearchStrategy[Schema], kinds: Sequence[str] = KINDS) -> Schema:
    """A schema much like *node*: at one place something is added, taken away or put in the place of another."""
    node = copy.deepcopy(node)
    inner = [each for each in _inner(node) if draw(st.booleans())]
    if inner:
        holder, name = inner[0]
        holder[name] = draw(edited(holder[name], nodes, kinds))
        return node
    kind = draw(st.sampled_from(kinds))
    properties = node.setdefault("properties", {}) if "properties" in node or kind == "add" else {}
    if kind == "add":
        properties.setdefault(draw(st.sampled_from(NAMES)), draw(nodes))
    elif kind == "remove" and properties:
        del properties[draw(st.sampled_from(sorted(properties)))]
    elif kind == "enum" and "enum" in node:
        node["enum"] = draw(st.lists(st.sampled_from(["a", 1, None]), min_size=1, unique=True))
    elif kind == "required" and "properties" in node:
        node["required"] = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2))
    elif kind == "open" and "properties" in node:
        node["additionalProperties"] = draw(st.booleans())
    elif kind == "title":
        node["title"] = "another"
    elif kind == "replace":
        return draw(nodes)
    return node


def _inner(node: Any) -> list[tuple[Any, Any]]:
    found = []
    for holder in (node.get("properties"), node.get("patternProperties"), *(node.get(m) for m in ("anyOf", "oneOf"))):
        if holder:
            found += [(holder, name) for name in (holder if isinstance(holder, dict) else range(len(holder)))]
    return found + [(node, name) for name in ("items", "additionalProperties") if isinstance(node.get(name), dict)]


def documents(node: Schema) -> st.SearchStrategy[Any]:
    """Values of which many fit *node*."""
    branches = [branch for method in COMBINED for branch in node.get(method, [])]
    if branches:
        return st.one_of(*map(documents, branches))
    if "properties" in node or "patternProperties" in node:
        fitting = {name: documents(each) for name, each in node.get("properties", {}).items()}
        others = {name: VALUES for name in NAMES if name not in fitting}
        return st.fixed_dictionaries({}, optional=fitting | others)
    if "items" in node:
        return st.lists(documents(node["items"]), max_size=2)
    return st.sampled_from(node["enum"]) if "enum" in node else VALUES


def pairs_of(
    nodes: st.SearchStrategy[Schema], kinds: Sequence[str] = KINDS
) -> st.SearchStrategy[tuple[Schema, Schema]]:
    return objects(nodes).flatmap(lambda old: st.tuples(st.just(old), edited(old, nodes, kinds)))


@settings(max_examples=300)
@given(pairs_of(nodes_of("allOf", "anyOf", "oneOf")), st.data())
def test_what_was_valid_is_valid_after_a_compatible_change(pair: tuple[Schema, Schema], data: st.DataObject) -> None:
    old, new = pair
    verdict = judge(old, new, "compatible")
    assume(verdict.changes)
    assume(not verdict.refused)
    event(" ".join(sorted({change.rule.name for change in verdict.changes})))
    before, after = (jsonschema_rs.Draft7Validator(closed(schema)) for schema in pair)

    assert verdict.producers
    for document in data.draw(st.lists(documents(old), min_size=5, max_size=20)):
        if before.is_valid(document):
            event("a document was valid")
            assert after.is_valid(document), (old, new, document)


class Whole(NamedTuple):
    """How a schema is part of an owner's, and its documents part of the documents of that."""

    schema: Callable[[Schema], Schema]
    document: Callable[[Any], Any]


WHOLES = {
    "itself": Whole(lambda node: node, lambda held: held),
    "of a member": Whole(lambda node: {"properties": {"x": node}, "required": ["x"]}, lambda held: {"x": held}),
    "by a reference": Whole(
        lambda node: {"properties": {"x": {"$ref": "#/definitions/d"}}, "definitions": {"d": node}},
        lambda held: {"x": held},
    ),
    "of the root, by a reference": Whole(
        lambda node: {"$ref": "#/definitions/d", "definitions": {"d": node}}, lambda held: held
    ),
    "of a tree": Whole(
        lambda node: {"properties": {"x": node, "xs": {"items": {"$ref": "#"}}}},
        lambda held: {"x": held, "xs": [{"x": held}, {"xs": []}, {"x": held, "xs": [{}]}]},
    ),
}
METADATA = {"eid": "00000000-0000-0000-0000-000000000001", "occurred_at": "2026-11-20T10:00:00Z"}
ENVELOPES: dict[str, Callable[[Any], Any]] = {
    "undefined": lambda held: held,
    "business": lambda held: held | {"metadata": METADATA},
    "data": lambda held: {"metadata": METADATA, "data_type": "a", "data_op": "C", "data": held},
}


@settings(max_examples=300)
@given(
    pairs_of(nodes_of("allOf", "anyOf", "oneOf"), ["add", "add", "add", "title", "required", "replace"]),
    st.sampled_from([*WHOLES]),
    st.data(),
)
def test_what_was_a_valid_event_is_one_after_a_compatible_change(
    pair: tuple[Schema, Schema], name: str, data: st.DataObject
) -> None:
    whole = WHOLES[name]
    old, new = map(whole.schema, pair)
    verdict = judge(old, new, "compatible")
    assume(verdict.changes)
    assume(not verdict.refused)
    drawn = data.draw(st.lists(documents(pair[0]), min_size=5, max_size=20))
    for category, envelope in ENVELOPES.items():
        before, after = (validator_of(schema, category) for schema in (old, new))
        for published in (envelope(whole.document(document)) for document in drawn):
            if before.first_invalid([published]) is None:
                event(f"an event was valid: {name}, {category}")
                assert after.first_invalid([published]) is None, (old, new, published)


def validator_of(schema: Schema, category: str) -> Validator:
    """Who validates the events of an event type in the mode `compatible`."""
    check_schema(schema, compatible=True, business=category == "business")
    return Validator(effective_schema(schema, name="t", category=category, compatible=True, compacted=False))


@settings(max_examples=300)
@given(pairs_of(nodes_of("allOf", "anyOf")), st.data())
def test_what_is_said_to_suit_consumers_does(pair: tuple[Schema, Schema], data: st.DataObject) -> None:
    """They read what names them members that the new schema names, and pass over those that the old one does not."""
    old, new = pair
    verdict = judge(old, new, "none")
    assume(verdict.changes)
    assume(verdict.consumers)
    event(" ".join(sorted({change.rule.name for change in verdict.changes})))
    published, known = jsonschema_rs.Draft7Validator(closed(new)), jsonschema_rs.Draft7Validator(old)

    for document in data.draw(st.lists(documents(new), min_size=5, max_size=20)):
        if isinstance(document, dict) and published.is_valid(document):
            event("a document was valid")
            assert known.is_valid(read_by(old, document)), (old, new, document)


def read_by(schema: Schema, value: Any) -> Any:
    """Return *value* without the members of which *schema* knows nothing."""
    nodes = list(_spread(schema))
    if isinstance(value, list):
        items = [node["items"] for node in nodes if "items" in node]
        return [read_by({"allOf": items}, each) for each in value]
    if not isinstance(value, dict) or not any("properties" in node for node in nodes):
        return value
    kept = {}
    for name, member in value.items():
        by_name = [node["properties"][name] for node in nodes if name in node.get("properties", {})]
        by_pattern = any(re.search(p, name) for node in nodes for p in node.get("patternProperties", {}))
        if by_name or by_pattern or any(name in node.get("required", []) for node in nodes):
            kept[name] = read_by({"allOf": by_name}, member) if by_name else member
    return kept


def _spread(schema: Schema) -> Iterator[Schema]:
    yield schema
    for method in ("allOf", "anyOf"):
        for branch in schema.get(method, []):
            yield from _spread(branch)
