"""Every row of the table of changes (digest of Nakadi's contract, 2.5), and what is certain of them."""

import copy
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft7Validator

from penstock.core import change as changes
from penstock.core.change import Level, Rule
from penstock.core.choices import Mode
from penstock.core.comparison import compare
from penstock.core.effective import effective_schema
from penstock.core.evolution import Verdict, judge, judge_history, next_version, told
from penstock.core.schema import check_schema, closed, names_all
from penstock.core.validation import Validator
from penstock.core.walk import rebuilt
from tests.exhaustive import examples

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
            ("then", NUMBER, STRING),
            ("else", NUMBER, STRING),
            ("contains", {}, STRING),
            ("propertyNames", False, STRING),
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

    assert rules == {row.rule for row in ROWS} | {changes.REDEFINED_SINCE.name}


ENUM_AB, ENUM_A = within(STRING | {"enum": ["a", "b"]}), within(STRING | {"enum": ["a"]})
REQUIRED_A = {"required": ["a"]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (within(STRING), OBJECT),
        (within(OBJECT | within(STRING)), within(OBJECT)),
        (within(ARRAY | {"items": OBJECT | within(STRING)}), within(ARRAY | {"items": OBJECT})),
        (ENUM_AB, ENUM_A),
        (ENUM_AB | REQUIRED_A, ENUM_A | REQUIRED_A),
        (within(STRING | {"enum": ["a", "b"]}), within(STRING | {"enum": ["b"]})),
        (within(STRING) | {"additionalProperties": False}, {"additionalProperties": False}),
    ],
)
def test_what_the_guidelines_call_compatible_for_consumers_is_refused_by_nakadis_modes_alone(
    old: Schema, new: Schema
) -> None:
    verdict = judge(old, new, "consumers")

    assert not verdict.refused
    assert verdict.consumers
    assert verdict.level == MINOR
    assert all("compatible for consumers" in change["says"] for change in told(verdict, "consumers"))
    for mode in ("forward", "compatible"):
        assert judge(old, new, mode).refused
    (hint,) = (change["instead"] for change in told(judge(old, new, "forward"), "forward"))
    assert "`options.evolution`" in hint


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (within(STRING) | REQUIRED_A, OBJECT, "property-removed"),
        (within(STRING) | REQUIRED_A, within(STRING), "required-reduced"),
        (within(STRING), {"patternProperties": {"^a": NUMBER}}, "property-removed"),
        ({"oneOf": [within(STRING), NUMBER]}, {"oneOf": [OBJECT, NUMBER]}, "property-removed"),
        (within(STRING | {"default": "a"}), within(STRING | {"default": "b"}), "default"),
        (within(STRING), within(NUMBER), "type-changed"),
        (within({"items": [STRING, NUMBER]}), within({"items": [NUMBER, STRING]}), "type-changed"),
        (ENUM_A, ENUM_AB, "enum"),
        (ENUM_AB, within(STRING | {"enum": ["a", "c"]}), "enum"),
        (within(STRING), ENUM_A, "enum"),
        (ENUM_A, within(STRING), "enum"),
        (within(STRING | {"maxLength": 2}), within(STRING | {"maxLength": 1}), "attribute"),
    ],
)
def test_what_the_guidelines_do_not_call_compatible_for_consumers_stays_refused(
    old: Schema, new: Schema, rule: str
) -> None:
    assert rule in {change.rule.name for change in judge(old, new, "consumers").refused}


@pytest.mark.parametrize("row", ROWS, ids=[f"{number}-{row.rule}" for number, row in enumerate(ROWS)])
def test_consumers_list_differs_from_the_mode_forward_in_removals_alone(row: Row) -> None:
    for change in compare(row.old, row.new):
        if change.level("consumers") != change.level("forward"):
            assert change.rule.name in ("property-removed", "enum")
            assert change.consumers


@pytest.mark.parametrize(
    ("first", "last", "again", "pointers"),
    [
        (within(STRING), OBJECT, within(STRING), []),
        (within(STRING), OBJECT, within(NUMBER), ["#/properties/a"]),
        (within(STRING), OBJECT, {"additionalProperties": NUMBER}, ["#/properties/a"]),
        (within(STRING), OBJECT, {"properties": {"b": NUMBER}}, []),
        (within(OBJECT | within(STRING)), within(OBJECT), within(OBJECT | within(NUMBER)),
         ["#/properties/a/properties/a"]),
        (ENUM_A, OBJECT, ENUM_AB, ["#/properties/a/enum"]),
        (ENUM_AB, OBJECT, ENUM_A, []),
    ],
)  # fmt: skip
def test_a_removed_property_returns_only_as_what_it_was(
    first: Schema, last: Schema, again: Schema, pointers: list[str]
) -> None:
    verdict = judge(last, again, "consumers")
    assert not verdict.refused

    found = judge_history(verdict, again, [("1.1.0", last), ("1.0.0", first)])

    assert [(change.rule.name, change.pointer) for change in found.refused] == [
        ("redefined-since", pointer) for pointer in pointers
    ]
    assert found.consumers == (not pointers)
    assert all("version 1.0.0" in change.instead for change in found.refused)


def test_earlier_versions_are_not_looked_at_where_nothing_is_described_anew() -> None:
    def earlier() -> Iterator[tuple[str, Schema]]:
        raise AssertionError("nobody needs them")
        yield

    assert judge_history(judge(within(STRING), OBJECT, "consumers"), OBJECT, earlier()).refused == []


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


SHUT = {"type": "object", "properties": {}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {}}
NAMES_A = {"properties": {"a": {}}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"allOf": [SHUT, NAMES_A]}, {"allOf": [SHUT | NAMES_A, NAMES_A]}),
        (
            {"properties": {"x": SHUT}, "patternProperties": {"^x": NAMES_A}},
            {"properties": {"x": SHUT | NAMES_A}, "patternProperties": {"^x": NAMES_A}},
        ),
        ({"allOf": [OPEN | {"minProperties": 1}, OPEN]}, {"allOf": [OPEN | {"minProperties": 1}, OPEN | NAMES_A]}),
        (
            {"properties": {"x": {"allOf": [{"uniqueItems": True}, {"items": OPEN}]}}},
            {"properties": {"x": {"allOf": [{"uniqueItems": True}, {"items": OPEN | NAMES_A}]}}},
        ),
        (OPEN | {"not": {"maxProperties": 0}}, OPEN | NAMES_A | {"not": {"maxProperties": 0}}),
        (OPEN | {"enum": [{"a": 1}]}, OPEN | NAMES_A | {"enum": [{"a": 1}]}),
        (
            {"properties": {"x": {"items": OPEN, "contains": {"required": ["a"]}}}},
            {"properties": {"x": {"items": OPEN | NAMES_A, "contains": {"required": ["a"]}}}},
        ),
        ({"allOf": [NAMES_A, NAMES_A]}, {"allOf": [OPEN, NAMES_A]}),
        (
            {"properties": {"x": {"minProperties": 1}}, "patternProperties": {"^x": OPEN}},
            {"properties": {"x": {"minProperties": 1}}, "patternProperties": {"^x": OPEN | NAMES_A}},
        ),
        *(
            (OPEN | beside, OPEN | NAMES_A | beside)
            for beside in (
                {"if": {"maxProperties": 0}, "then": {"required": ["b"]}},
                {"dependencies": {"b": {"minProperties": 2}}},
                {"const": {"a": 1}},
            )
        ),
        *(
            (within(OPEN) | above, within(OPEN | NAMES_A) | above)
            for above in (
                {"not": within({"maxProperties": 0})},
                {"enum": [{"a": {"a": 1}}]},
                {"const": {"a": {"a": 1}}},
                {"if": within({"required": ["a"]}), "else": {"required": ["b"]}},
                {"dependencies": {"a": within({"minProperties": 1})}},
                {"anyOf": [within({"minProperties": 1}), {"required": ["b"]}]},
            )
        ),
    ],
    ids=[
        "branches",
        "a pattern",
        "counted beside",
        "unique beside",
        "not",
        "enum",
        "contains",
        "removed",
        "within a pattern",
        "a condition beside",
        "dependencies beside",
        "const beside",
        "not above",
        "enum above",
        "const above",
        "a condition above",
        "dependencies above",
        "branches above",
    ],
)
def test_where_other_schemas_have_a_say_it_is_not_certain_that_consumers_can_stay(old: Schema, new: Schema) -> None:
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert not judge(draft_7 | old, draft_7 | new, "forward").consumers


@pytest.mark.parametrize(
    ("old", "new", "producers", "consumers"),
    [
        (OBJECT, {"required": ["a"]}, False, True),
        ({"required": ["a"]}, OBJECT, True, False),
        (within({"enum": [1, 2]}), within({"enum": [1]}), False, True),
        (within({"enum": [1]}), within({"enum": [1, 2]}), True, False),
        (within({"enum": [1]}), within({"enum": [2]}), False, False),
        (within({}), within(OBJECT), False, True),
        (within(NUMBER) | {"required": ["a"]}, within(NUMBER) | {"required": ["b"]}, False, False),
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
        *(
            (within(one), within(other), looser, not looser)
            for low, high in (
                (STRING | {"minLength": 1}, STRING | {"minLength": 2}),
                (STRING, STRING | {"minLength": 1}),
                (STRING | {"maxLength": 2}, STRING | {"maxLength": 1}),
                (STRING, STRING | {"maxLength": 1}),
                (NUMBER | {"minimum": 1}, NUMBER | {"minimum": 1.5}),
                (NUMBER | {"maximum": 1}, NUMBER | {"maximum": 0}),
                (NUMBER | {"exclusiveMinimum": 1}, NUMBER | {"exclusiveMinimum": 2}),
                (NUMBER | {"exclusiveMaximum": 1}, NUMBER | {"exclusiveMaximum": 0}),
                (NUMBER | {"maximum": 1}, NUMBER | {"maximum": 1, "exclusiveMaximum": True}),
                (NUMBER | {"multipleOf": 2}, NUMBER | {"multipleOf": 4}),
                (ARRAY | {"minItems": 1}, ARRAY | {"minItems": 2}),
                (ARRAY | {"maxItems": 2}, ARRAY | {"maxItems": 1}),
                (ARRAY, ARRAY | {"uniqueItems": True}),
                (OBJECT | {"minProperties": 1}, OBJECT | {"minProperties": 2}),
                (OBJECT | {"maxProperties": 2}, OBJECT | {"maxProperties": 1}),
                (STRING, STRING | {"pattern": "^a"}),
                (STRING, STRING | {"format": "date-time"}),
                (NUMBER, {"type": "integer"}),
                ({"type": ["string", "null"]}, STRING),
                ({"type": ["string", "number"]}, {"type": ["integer", "string"]}),
                ({"items": [{}]}, {"items": [{}], "additionalItems": False}),
            )
            for one, other, looser in ((high, low, True), (low, high, False))
        ),
        *(
            (within(one), within(other), looser, False)
            for loose, tight in (
                ({"anyOf": [NUMBER, STRING, ARRAY]}, {"anyOf": [STRING, NUMBER]}),
                ({"allOf": [{"minLength": 1}]}, {"allOf": [{"maxLength": 2}, {"minLength": 1}]}),
                ({}, STRING | {"maxLength": 1}),
                ({}, {"enum": ["a", {"b": 1}]}),
                (ARRAY, ARRAY | {"items": STRING}),
                (ARRAY | {"items": {}}, ARRAY | {"items": [STRING]}),
                (OBJECT, OBJECT | {"dependencies": {"a": ["b"]}}),
                (OBJECT, OBJECT | {"not": {"required": ["a"]}}),
                (OBJECT, OBJECT | {"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
                (ARRAY, ARRAY | {"contains": STRING}),
            )
            for one, other, looser in ((tight, loose, True),)
        ),
        (within(STRING), within({"type": ["string", "null"], "maxLength": 1}), False, False),
        (within({"type": ["integer", "null"]}), within({"type": ["number", "string"]}), False, False),
        (within(STRING | {"pattern": "a"}), within(STRING | {"pattern": "b"}), False, False),
        (within({"not": NUMBER | {"minimum": 1}}), within({"not": NUMBER | {"minimum": 0}}), False, False),
        (within({"oneOf": [NUMBER | {"minimum": 1}, {}]}), within({"oneOf": [NUMBER, {}]}), False, False),
        (within({"oneOf": [NUMBER]}), within({"oneOf": [NUMBER, STRING]}), False, False),
        (within({"anyOf": [NUMBER]}), within({"anyOf": [STRING, {}]}), False, False),
        (within({"if": STRING, "then": {"minLength": 1}}), within({"if": {"minLength": 1}, "then": {"minLength": 1}}),
         False, False),
        ({"additionalProperties": False}, {"additionalProperties": STRING}, True, False),
        (OBJECT, {"additionalProperties": {"title": "any"}}, True, True),
        (OBJECT | {"minProperties": 1}, {"minProperties": 1, "additionalProperties": STRING}, False, False),
        (within({}), within(ARRAY | {"items": within(STRING)}), False, True),
        (within({"uniqueItems": True, "items": {}}), within({"uniqueItems": True, "items": ARRAY}), False, False),
        (within({"$ref": "#/definitions/a"}) | {"definitions": {"a": STRING}}, within({}), True, False),
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


TITLED = {"title": "t"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"additionalProperties": True}, {"additionalProperties": True, "type": "object"}),
        ({"allOf": [within(STRING)]}, {"allOf": [within(STRING)], "properties": {"b": {}}}),
        *(({name: value}, {name: value, "type": "object"}) for name, value in {
            "anyOf": [within(STRING)], "oneOf": [within(STRING)], "patternProperties": {"^a": STRING},
            "dependencies": {"a": {"required": ["b"]}}, "items": STRING, "minLength": 1,
        }.items()),
    ],
    ids=["open", "a branch", "anyOf", "oneOf", "patternProperties", "dependencies", "items", "minLength"],
)  # fmt: skip
def test_an_event_that_was_open_because_its_schema_does_not_say_object_stays_so(old: Schema, new: Schema) -> None:
    """Nakadi's strictness knows an object by its keywords (digest, 2.3), be it the event itself."""
    verdict = judge(old, new, "compatible")

    told = [change for change in verdict.refused if change.pointer == "#/additionalProperties"]
    assert [(change.old, change.new) for change in told] == [(True, False)]
    assert not verdict.producers
    assert judge(new, new | TITLED, "compatible").producers


@pytest.mark.parametrize("mode", ["none", "forward"])
def test_who_turns_to_compatible_shuts_out_what_it_does_not_name(mode: Mode) -> None:
    assert not judge(within(STRING), within(STRING) | TITLED, mode, "compatible").producers
    assert judge(within(STRING), within(STRING) | TITLED, "compatible", mode).producers


@pytest.mark.parametrize(
    "reference", ["#/definitions/d", "#/properties/p/items", "#/properties/q/items/0", "#/allOf/0"]
)
def test_what_is_closed_where_it_stands_is_closed_for_who_refers_to_it(reference: str) -> None:
    def schema(node: Schema) -> Schema:
        return {
            "definitions": {"d": node},
            "properties": {"p": {"items": node}, "q": {"items": [node]}, "r": {"$ref": reference}},
            "allOf": [node],
        }

    assert judge(schema(within({})), schema(NAMES_AB), "compatible").refused == []
    assert not judge(schema(NAMES_AB), schema(within({})), "none", "compatible").producers
    assert not judge(schema(NAMES_AB), schema(within({})), "compatible").producers


NAMES_AB = {"properties": {"a": {}, "b": {}}}


def test_versions_count_on() -> None:
    assert next_version("1.0.0", PATCH) == "1.0.1"
    assert next_version("9.9.9", MINOR) == "9.10.0"
    assert next_version("9.9.9", MAJOR) == "10.0.0"


# The certainties, held against a validator that nobody here has written.

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


def untold(nodes: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Schemas of events that do not say that those are objects: the mode `compatible` does not close them."""
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
"""What is mostly taken by the mode `compatible`."""
BOUNDED = (*["bound"] * 6, *["type"] * 3, *["branch"] * 3, "items", "open", "depend", "enum")
"""What mostly makes a schema looser or tighter, and no more."""
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
"""What keywords can become."""
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
    """Yield the places of a node and of all within it, each by what holds it."""
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
    """What becomes of some members of *node*."""
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
    """What becomes of a keyword that lets more or less pass by that, or says nothing."""
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
    return (objects(nodes) | objects(nodes) | untold(nodes)).flatmap(
        lambda old: st.tuples(st.just(old), st.lists(edited(old, nodes, edits), min_size=4, max_size=4))
    )


def such(pairs: Pairs, suits: Callable[[Verdict], bool], mode: Mode) -> list[Schema]:
    """Return the new schemas that differ and are judged so; there is one at least."""
    old, news = pairs
    found = [(new, judge(old, new, mode)) for new in news]
    found = [(new, verdict) for new, verdict in found if verdict.changes and suits(verdict)]
    assume(found)
    for _, verdict in found:
        event(" ".join(sorted({change.rule.name for change in verdict.changes})))
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
    """Return the objects among what was drawn that are valid."""
    return [each for each in drawn if isinstance(each, dict) and validator.is_valid(each)]


@settings(max_examples=examples(20, 200), suppress_health_check=SLOW_TO_DRAW)
@given(pairs_of(nodes_of("allOf", "anyOf", "oneOf"), GENTLE), CHANCES)
def test_what_was_valid_is_valid_after_a_compatible_change(pairs: Pairs, chance: random.Random) -> None:
    old = pairs[0]
    news = such(pairs, lambda verdict: not verdict.refused, "compatible")
    valid = valid_by(Draft7Validator(closed(old)), documents(old, chance))
    assume(any(valid))

    for new in news:
        after = Draft7Validator(closed(new))
        assert judge(old, new, "compatible").producers
        assert [each for each in valid if not after.is_valid(each)] == []


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
    "by a reference into a pattern": Whole(
        lambda node: {
            "definitions": {"d": {"patternProperties": {"^x": node}}},
            "properties": {"x": {"$ref": "#/definitions/d/patternProperties/%5Ex"}},
        },
        lambda held: {"x": held},
    ),
    "of the root, by a branch": Whole(lambda node: {"allOf": [node]}, lambda held: held),
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


@settings(max_examples=examples(20, 200), suppress_health_check=SLOW_TO_DRAW)
@given(
    pairs_of(nodes_of("allOf", "anyOf", "oneOf", extra=False), GENTLE),
    st.sampled_from([*WHOLES]),
    st.sampled_from([*ENVELOPES]),
    CHANCES,
)
def test_what_was_a_valid_event_is_one_after_a_compatible_change(
    pairs: Pairs, name: str, category: str, chance: random.Random
) -> None:
    whole, envelope = WHOLES[name], ENVELOPES[category]
    old = whole.schema(pairs[0])
    news = such((old, [whole.schema(new) for new in pairs[1]]), lambda verdict: not verdict.refused, "compatible")
    before = validator_of(old, category)
    held = [each for each in documents(pairs[0], chance) if isinstance(each, dict) and each]
    published = [envelope(whole.document(each)) for each in held]
    valid = [each for each in published if before.first_invalid([each]) is None]
    assume(valid)
    event(f"events were valid: {name}, {category}")

    for new in news:
        after = validator_of(new, category)
        assert [each for each in valid if after.first_invalid([each]) is not None] == []


def validator_of(schema: Schema, category: str) -> Validator:
    """Who validates the events of an event type in the mode `compatible`."""
    check_schema(schema, compatible=True, business=category == "business")
    return Validator(effective_schema(schema, name="t", category=category, compatible=True, compacted=False))


ALL_NODES = nodes_of("allOf", "anyOf", "oneOf")


# Schemas without any valid document are drawn again, by chance so often that it would be told of.
@settings(max_examples=examples(40, 400), suppress_health_check=SLOW_TO_DRAW)
@given(pairs_of(ALL_NODES) | pairs_of(ALL_NODES, BOUNDED), CHANCES)
def test_what_is_said_to_suit_producers_does(pairs: Pairs, chance: random.Random) -> None:
    old = pairs[0]
    news = such(pairs, lambda verdict: verdict.producers, "none")
    valid = valid_by(Draft7Validator(old), documents(old, chance))
    assume(any(valid))

    for new in news:
        after = Draft7Validator(new)
        assert [each for each in valid if not after.is_valid(each)] == []


@settings(max_examples=examples(20, 200), suppress_health_check=SLOW_TO_DRAW)
@given(pairs_of(nodes_of("allOf", "anyOf")) | pairs_of(nodes_of("allOf", "anyOf"), BOUNDED), CHANCES)
def test_what_is_said_to_suit_consumers_does(pairs: Pairs, chance: random.Random) -> None:
    """They read what names them members that the new schema names, and pass over those that the old one does not."""
    old = pairs[0]
    news = such(pairs, lambda verdict: verdict.consumers, "none")
    valid = [each for new in news for each in valid_by(Draft7Validator(naming_all(new)), documents(new, chance))]
    assume(any(valid))
    known = Draft7Validator(old)

    assert [each for each in valid if not known.is_valid(read_by(old, each))] == []


def naming_all(schema: Schema) -> Schema:
    """Return *schema*, but that nothing has members anywhere of which it says nothing."""

    def shut(node: Schema) -> Schema:
        others = node.get("additionalProperties")
        return node | {"additionalProperties": False} if names_all(node) and not isinstance(others, dict) else node

    whole: Schema = rebuilt(schema, shut)
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
