"""Evolution of a schema: the level of each change in every mode, and its effect on producers and consumers."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from penstock.core.registry.definition import Mode
from penstock.schema import changes
from penstock.schema.changes import ChangeKind, Level
from penstock.schema.comparison import compare
from penstock.schema.evolution import describe_changes, judge, judge_history, raise_version
from tests.unit.schema.nodes import ARRAY, NUMBER, OBJECT, STRING, Schema, draft, within

PATCH, MINOR, MAJOR = Level.PATCH, Level.MINOR, Level.MAJOR


class Row(NamedTuple):
    rule: str
    old: Schema
    new: Schema
    pointer: str
    forward: Level = MAJOR
    compatible: Level = MAJOR


ROWS = [Row(*row) for row in (
    ("id", {"id": "a"}, {"id": "b"}, "#/id"),
    ("id", {}, {"$id": "b"}, "#/$id"),
    ("title", within({"title": "a"}), within({}), "#/properties/a/title", PATCH, PATCH),
    ("description", {}, {"description": "b"}, "#/description", PATCH, PATCH),
    ("property-added", {"properties": {}}, within(STRING), "#/properties/a", MINOR, MINOR),
    ("property-added", OBJECT, within(STRING), "#/properties/a", MINOR, MINOR),
    ("property-added", {}, within(STRING), "#/properties/a", MINOR, MINOR),
    ("property-removed", within(STRING), {"properties": {}}, "#/properties/a"),
    ("property-removed", within({}), {"properties": {"b": {}}}, "#/properties/a"),
    ("property-removed", {"properties": {"a/b~": {}}}, OBJECT, "#/properties/a~1b~0"),
    ("type-changed", within(STRING), within(NUMBER), "#/properties/a"),
    ("type-changed", within(NUMBER), within({"type": "integer"}), "#/properties/a"),
    ("type-changed", within(OBJECT), within({"$ref": "#/definitions/a"}), "#/properties/a"),
    ("type-changed", within(STRING), within({"anyOf": [STRING, NUMBER]}), "#/properties/a"),
    ("type-changed", within(STRING), within({"type": ["string", "null"]}), "#/properties/a"),
    ("type-changed", within(STRING), within({}), "#/properties/a"),
    ("type-changed", within({}), within({"enum": ["a"]}), "#/properties/a"),
    ("type-changed", within({"$ref": "#/b"}), within({"$ref": "#/c"}), "#/properties/a"),
    ("type-changed", within(ARRAY | {"items": {}}), within({"items": {}}), "#/properties/a/type"),
    ("type-narrowed", within({}), within(STRING), "#/properties/a", MINOR, MAJOR),
    ("type-narrowed", within({"title": "a"}), within(ARRAY), "#/properties/a", MINOR, MAJOR),
    ("type-narrowed", within({}), within(OBJECT), "#/properties/a", MINOR, MAJOR),
    ("type-narrowed", within({"items": {}}), within(ARRAY | {"items": {}}), "#/properties/a/type", MINOR, MAJOR),
    ("schema-removed", within(ARRAY), within(ARRAY | {"items": {}}), "#/properties/a/items"),
    ("schema-removed", within(ARRAY | {"items": {}}), within(ARRAY), "#/properties/a/items"),
    ("schema-removed", within({"items": {}}), within({"items": [{}]}), "#/properties/a/items"),
    ("schema-removed", within(ARRAY | {"additionalItems": STRING}), within(ARRAY), "#/properties/a/additionalItems"),
    ("type-changed", within({"items": [{}], "additionalItems": STRING}),
     within({"items": [{}], "additionalItems": NUMBER}), "#/properties/a/additionalItems"),
    ("schema-removed", {"additionalProperties": STRING}, OBJECT, "#/additionalProperties"),
    ("items-count", within({"items": [{}]}), within({"items": [{}, {}]}), "#/properties/a/items"),
    *(
        ("attribute", within(STRING | {name: value}), within(STRING | after), f"#/properties/a/{name}")
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
    ("attribute", {"patternProperties": {"a": {}}}, OBJECT, "#/patternProperties"),
    ("default", within(STRING | {"default": "a"}), within(STRING), "#/properties/a/default"),
    ("default", within(STRING), within(STRING | {"default": "a"}), "#/properties/a/default"),
    ("default", within({"default": 1}), within({"default": True}), "#/properties/a/default"),
    ("enum", within({"enum": [1, 2]}), within({"enum": [2]}), "#/properties/a/enum"),
    ("enum", within({"enum": [1]}), within({"enum": [2, 1]}), "#/properties/a/enum"),
    ("enum", within({"enum": [1]}), within({"enum": [True]}), "#/properties/a/enum"),
    ("enum", within(STRING), within(STRING | {"enum": ["a"]}), "#/properties/a/enum"),
    ("branch-count", within({"anyOf": [{}]}), within({"anyOf": [{}, {}]}), "#/properties/a/anyOf"),
    ("branch-count", within({"oneOf": [{}, {}]}), within({"oneOf": [{}]}), "#/properties/a/oneOf"),
    ("composition", within({"anyOf": [{}]}), within({"oneOf": [{}]}), "#/properties/a"),
    ("one-of", {"oneOf": [OBJECT]}, {"oneOf": [OBJECT | within({})]}, "#/oneOf/0/properties/a"),
    ("one-of", {"oneOf": [OBJECT]}, {"oneOf": [OBJECT | {"required": ["a"]}]}, "#/oneOf/0/required"),
    ("one-of", {"oneOf": [{"anyOf": [OBJECT]}]}, {"oneOf": [{"anyOf": [within({})]}]},
     "#/oneOf/0/anyOf/0/properties/a"),
    ("required-reduced", {"required": ["a", "b"]}, {"required": ["b"]}, "#/required"),
    ("required-reduced", {"required": ["a"]}, {"required": ["b"]}, "#/required"),
    ("required-extended", {"required": ["a"]}, {"required": ["b", "a"]}, "#/required", MINOR, MAJOR),
    ("required-extended", OBJECT, {"required": ["b"]}, "#/required", MINOR, MAJOR),
    ("additional-properties", OBJECT, OBJECT | {"additionalProperties": False}, "#/additionalProperties"),
    ("additional-properties", {"additionalProperties": False}, OBJECT, "#/additionalProperties"),
    ("additional-properties", {"additionalProperties": False}, {"additionalProperties": STRING},
     "#/additionalProperties"),
    ("additional-properties-narrowed", OBJECT, OBJECT | {"additionalProperties": STRING}, "#/additionalProperties",
     MINOR, MAJOR),
    ("additional-items", within(ARRAY), within(ARRAY | {"additionalItems": False}), "#/properties/a/additionalItems"),
    ("dependencies", {"dependencies": {"a": ["b"]}}, OBJECT, "#/dependencies"),
    ("dependencies", {"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["c"]}}, "#/dependencies"),
    ("dependencies", {"dependencies": {"a": {}}}, {"dependencies": {"a": STRING}}, "#/dependencies"),
    ("property-redefined", {"patternProperties": {"^a": {}}}, {"patternProperties": {"^a": {}}} | within({}),
     "#/properties/a"),
    ("property-redefined", {"additionalProperties": STRING}, {"additionalProperties": STRING} | within({}),
     "#/properties/a"),
)]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[f"{number}-{row.rule}" for number, row in enumerate(ROWS)])
def test_change_has_its_level_in_every_mode(row: Row) -> None:
    found = compare(row.old, row.new)
    (change,) = [change for change in found if change.kind.name == row.rule]

    assert change.pointer == row.pointer
    levels = [change.level(mode) for mode in ("none", "forward", "compatible")]
    assert levels == [row.forward, row.forward, row.compatible]
    assert change not in judge(row.old, row.new, "none").refused
    for mode, level in (("forward", row.forward), ("compatible", row.compatible)):
        refused = [each.kind.name for each in judge(row.old, row.new, mode).refused]
        assert (row.rule in refused) == (level == MAJOR)
    for change in found:
        if change.level("consumers") != change.level("forward"):
            assert change.kind.name in ("property-removed", "enum")
            assert change.consumers


def test_every_rule_has_a_row() -> None:
    rules = {value.name for value in vars(changes).values() if isinstance(value, ChangeKind)}

    assert rules == {row.rule for row in ROWS} | {changes.REDEFINED_SINCE.name}


ENUM_AB, ENUM_A = within(STRING | {"enum": ["a", "b"]}), within(STRING | {"enum": ["a"]})
REQUIRED_A = {"required": ["a"]}
CLOSED = {"additionalProperties": False}


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
def test_removal_that_suits_consumers_is_refused_by_the_modes_of_nakadi_alone(old: Schema, new: Schema) -> None:
    verdict = judge(old, new, "consumers")

    assert not verdict.refused
    assert verdict.consumers
    assert verdict.level == MINOR
    assert all("compatible for consumers" in change["says"] for change in describe_changes(verdict, "consumers"))
    for mode in ("forward", "compatible"):
        assert judge(old, new, mode).refused
    (hint,) = (change["instead"] for change in describe_changes(judge(old, new, "forward"), "forward"))
    assert "`options.evolution`" in hint


def test_change_that_may_not_suit_consumers_is_refused() -> None:
    rows: list[tuple[Schema, Schema, str]] = [
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
    ]
    for old, new, rule in rows:
        assert rule in {change.kind.name for change in judge(old, new, "consumers").refused}


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
def test_removed_property_returns_only_with_its_old_meaning(
    first: Schema, last: Schema, again: Schema, pointers: list[str]
) -> None:
    verdict = judge(last, again, "consumers")
    assert not verdict.refused

    found = judge_history(verdict, again, [("1.1.0", last), ("1.0.0", first)])

    refused = [(change.kind.name, change.pointer) for change in found.refused]
    assert refused == [("redefined-since", pointer) for pointer in pointers]
    assert found.consumers == (not pointers)
    assert all("version 1.0.0" in change.instead for change in found.refused)


def test_earlier_versions_are_not_read_unless_a_change_describes_values() -> None:
    def earlier() -> Iterator[tuple[str, Schema]]:
        raise AssertionError
        yield

    assert judge_history(judge(within(STRING), OBJECT, "consumers"), OBJECT, earlier()).refused == []


def test_change_to_the_mode_compatible_allows_few_changes_with_it() -> None:
    old = {"properties": {"a": STRING, "b": ARRAY}}
    new = {"title": "t", "description": "d", "required": ["a"]} | CLOSED
    new |= {"properties": {"a": STRING, "b": ARRAY | {"additionalItems": False}, "c": {}}}

    verdict = judge(old, new, "forward", "compatible")
    assert not verdict.refused
    assert len(verdict.changes) == 6
    assert judge(old, new, "forward", "forward").refused
    narrowed = judge(within({}), within(STRING), "forward", "compatible")
    assert [change.kind.name for change in narrowed.refused] == ["type-narrowed"]


# Certainties: who can stay as is, whatever the events.

SHUT = {"type": "object", "properties": {}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {}}
NAMES_A = {"properties": {"a": {}}}
NAMING: dict[str, tuple[Schema, Schema]] = {
    "branches": ({"allOf": [SHUT, NAMES_A]}, {"allOf": [SHUT | NAMES_A, NAMES_A]}),
    "a pattern": ({"properties": {"x": SHUT}, "patternProperties": {"^x": NAMES_A}},
                  {"properties": {"x": SHUT | NAMES_A}, "patternProperties": {"^x": NAMES_A}}),
    "counted beside": ({"allOf": [OPEN | {"minProperties": 1}, OPEN]},
                       {"allOf": [OPEN | {"minProperties": 1}, OPEN | NAMES_A]}),
    "unique beside": ({"properties": {"x": {"allOf": [{"uniqueItems": True}, {"items": OPEN}]}}},
                      {"properties": {"x": {"allOf": [{"uniqueItems": True}, {"items": OPEN | NAMES_A}]}}}),
    "contains": ({"properties": {"x": {"items": OPEN, "contains": {"required": ["a"]}}}},
                 {"properties": {"x": {"items": OPEN | NAMES_A, "contains": {"required": ["a"]}}}}),
    "removed": ({"allOf": [NAMES_A, NAMES_A]}, {"allOf": [OPEN, NAMES_A]}),
    "within a pattern": ({"properties": {"x": {"minProperties": 1}}, "patternProperties": {"^x": OPEN}},
                         {"properties": {"x": {"minProperties": 1}}, "patternProperties": {"^x": OPEN | NAMES_A}}),
    **{f"{name} beside": (OPEN | beside, OPEN | NAMES_A | beside) for name, beside in {
        "not": {"not": {"maxProperties": 0}},
        "enum": {"enum": [{"a": 1}]},
        "a condition": {"if": {"maxProperties": 0}, "then": {"required": ["b"]}},
        "dependencies": {"dependencies": {"b": {"minProperties": 2}}},
        "const": {"const": {"a": 1}},
    }.items()},
    **{f"{name} above": (within(OPEN) | above, within(OPEN | NAMES_A) | above) for name, above in {
        "not": {"not": within({"maxProperties": 0})},
        "enum": {"enum": [{"a": {"a": 1}}]},
        "const": {"const": {"a": {"a": 1}}},
        "a condition": {"if": within({"required": ["a"]}), "else": {"required": ["b"]}},
        "dependencies": {"dependencies": {"a": within({"minProperties": 1})}},
        "branches": {"anyOf": [within({"minProperties": 1}), {"required": ["b"]}]},
    }.items()},
}  # fmt: skip


def test_new_name_may_not_suit_consumers_where_another_schema_also_judges_the_value() -> None:
    for old, new in NAMING.values():
        assert not judge(draft(7) | old, draft(7) | new, "forward").consumers


UNIQUE = ARRAY | {"uniqueItems": True}
AT_LEAST_1 = {"minProperties": 1}


@pytest.mark.parametrize(
    ("old", "new", "producers", "consumers"),
    [
        (OBJECT, REQUIRED_A, False, True),
        (REQUIRED_A, OBJECT, True, False),
        (within({"enum": [1, 2]}), within({"enum": [1]}), False, True),
        (within({"enum": [1]}), within({"enum": [1, 2]}), True, False),
        (within({"enum": [1]}), within({"enum": [2]}), False, False),
        (within({}), within(OBJECT), False, True),
        (within(NUMBER) | REQUIRED_A, within(NUMBER) | {"required": ["b"]}, False, False),
        (within(STRING), OBJECT, True, True),
        (within(STRING) | REQUIRED_A, OBJECT | REQUIRED_A, True, False),
        (CLOSED | within({}), CLOSED, False, True),
        (OBJECT, within(STRING), False, True),
        (CLOSED, CLOSED | within(STRING), True, True),
        (OBJECT | AT_LEAST_1, within(STRING) | AT_LEAST_1, False, False),
        (within({"default": 1}), within({"default": 2}), True, False),
        (within({}), within(STRING), False, True),
        (within({"title": "a"}), within({"title": "b"}), True, True),
        (OBJECT, CLOSED, False, True),
        (CLOSED, OBJECT, True, False),
        *(
            (within(UNIQUE | hold(OBJECT)), within(UNIQUE | hold(OBJECT | within(STRING))), False, False)
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
        (REQUIRED_A | CLOSED, REQUIRED_A | CLOSED | within(STRING), True, False),
        (REQUIRED_A, REQUIRED_A | within(STRING), False, True),
        (within(STRING), {"properties": {}, "required": ["a"]}, False, False),
        (within(STRING) | {"additionalProperties": NUMBER}, {"additionalProperties": NUMBER}, False, False),
        (within(STRING) | {"patternProperties": {"^a": {"minLength": 1}}}, {"patternProperties": {"^a": NUMBER}},
         False, False),
        (within(STRING) | {"patternProperties": {"^b": NUMBER}}, {"patternProperties": {"^b": NUMBER}}, True, True),
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
        (within({"type": ["integer", "null"]}), within({"type": ["string", "null"]}), False, False),
        (within({"const": 4}), within({"const": 2}), False, False),
        (within(ARRAY | {"items": [{}], "additionalItems": STRING}), within(ARRAY | {"items": [{}]}), True, False),
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


def test_looser_keyword_suits_producers_and_a_tighter_one_consumers() -> None:
    rows: list[tuple[Schema, Schema]] = [
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
        (NUMBER | {"multipleOf": 3}, NUMBER | {"multipleOf": 6}),
    ]
    for loose, tight in rows:
        for old, new, is_looser in ((tight, loose, True), (loose, tight, False)):
            verdict = judge(within(old), within(new), "forward")
            assert (verdict.producers, verdict.consumers) == (is_looser, not is_looser)


def test_schema_is_closed_by_the_mode_compatible_before_and_after() -> None:
    rows: list[tuple[Schema, Schema, tuple[Mode, Mode | None], bool]] = [
        (within(STRING), OBJECT, ("compatible", "compatible"), False),
        (within(STRING), OBJECT, ("compatible", None), False),
        (within(STRING), OBJECT, ("compatible", "forward"), True),
        (within(STRING), OBJECT, ("compatible", "none"), True),
        (OBJECT, within(STRING), ("compatible", "compatible"), True),
        (OBJECT, within(STRING), ("forward", "compatible"), False),
        (OBJECT, within(STRING), ("none", "compatible"), False),
        (OBJECT, within(STRING), ("forward", None), False),
        (within(STRING), within(STRING) | {"title": "t"}, ("none", "compatible"), False),
        (within(STRING), within(STRING) | {"title": "t"}, ("forward", "compatible"), False),
        (within(STRING), within(STRING) | {"title": "t"}, ("compatible", "none"), True),
        (within(STRING), within(STRING) | {"title": "t"}, ("compatible", "forward"), True),
    ]
    for old, new, modes, producers in rows:
        assert judge(old, new, *modes).producers == producers


UNTYPED: dict[str, tuple[Schema, Schema]] = {
    "open": ({"additionalProperties": True}, {"additionalProperties": True, "type": "object"}),
    "a branch": ({"allOf": [within(STRING)]}, {"allOf": [within(STRING)], "properties": {"b": {}}}),
    **{name: ({name: value}, {name: value, "type": "object"}) for name,
        value in {"anyOf": [within(STRING)], "oneOf": [within(STRING)], "patternProperties": {"^a": STRING},
        "dependencies": {"a": {"required": ["b"]}}, "items": STRING, "minLength": 1}.items()},
}  # fmt: skip


def test_event_of_a_schema_without_the_type_object_was_open() -> None:
    """Nakadi's strict validation knows an object by its keywords, be it the event itself."""
    for old, new in UNTYPED.values():
        verdict = judge(old, new, "compatible")

        closing = [change for change in verdict.refused if change.pointer == "#/additionalProperties"]
        assert [(change.old, change.new) for change in closing] == [(True, False)]
        assert not verdict.producers
        assert judge(new, new | {"title": "t"}, "compatible").producers


def test_node_that_is_closed_where_it_stands_is_closed_where_it_is_referred_to() -> None:
    def schema(node: Schema, reference: str) -> Schema:
        properties = {"p": {"items": node}, "q": {"items": [node]}, "r": {"$ref": reference}}
        return {"definitions": {"d": node}, "properties": properties, "allOf": [node]}

    for reference in ("#/definitions/d", "#/properties/p/items", "#/properties/q/items/0", "#/allOf/0"):
        fewer, more = (schema(node, reference) for node in (within({}), {"properties": {"a": {}, "b": {}}}))
        assert judge(fewer, more, "compatible").refused == []
        assert not judge(more, fewer, "none", "compatible").producers
        assert not judge(more, fewer, "compatible").producers


def test_next_version_counts_on_by_the_level() -> None:
    assert raise_version("1.0.0", PATCH) == "1.0.1"
    assert raise_version("9.9.9", MINOR) == "9.10.0"
    assert raise_version("9.9.9", MAJOR) == "10.0.0"
