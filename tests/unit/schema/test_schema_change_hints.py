"""Hints beside the refusal of a change: another property, wherever its place allows one."""

from typing import Any

from penstock.core.registry.definition import Mode
from penstock.schema.comparison import AROUND, BESIDE, NOWHERE
from penstock.schema.evolution import judge
from penstock.schema.traversal import steps
from tests.unit.schema.nodes import ARRAY, NUMBER, OBJECT, STRING, Schema, draft
from tests.unit.schema.nodes import within as described

LONG = STRING | {"minLength": 1}
DRAFT_7 = draft(7)


def within(node: Schema, **others: Any) -> Schema:
    return OBJECT | described(node, **others)


def test_refused_change_has_a_hint_that_its_place_allows() -> None:
    rows: list[tuple[Schema, Schema, str, str]] = [
        ({}, DRAFT_7, "#/$schema", "keep it unchanged: another draft"),
        ({"id": "a"}, {}, "#/id", "keep it unchanged"),
        *((within(STRING), within(STRING) | {name: value}, f"#/{name}", NOWHERE) for name,
            value in (("minProperties", 1), ("maxProperties", 1), ("not", STRING), ("if", {}), ("then", STRING),
            ("const", {}), ("propertyNames", STRING), ("default", {}), ("enum", [{}]), ("dependencies", {"a": ["b"]}))),
        (within(STRING), within(STRING, patternProperties={"^b": {}}), "#/patternProperties",
         "keep the patterns unchanged, and add an optional property whose name matches none of them"),
        (within(STRING, additionalProperties=NUMBER),
         within(STRING, additionalProperties=NUMBER, patternProperties={"^b": {}}), "#/patternProperties", NOWHERE),
        (within(STRING), within(STRING, allOf=[{}]), "#", NOWHERE),
        ({"anyOf": [{}]}, {"anyOf": [{}, {}]}, "#/anyOf", NOWHERE),
        ({"anyOf": [{}, STRING]}, {"anyOf": [{}, NUMBER]}, "#/anyOf/1", NOWHERE),
        ({"oneOf": [OBJECT]}, {"oneOf": [within(STRING)]}, "#/oneOf/0/properties/a", NOWHERE),
        ({"oneOf": [OBJECT]}, {"oneOf": [OBJECT | {"required": ["a"]}]}, "#/oneOf/0/required", NOWHERE),
        (within(STRING), within(NUMBER), "#/properties/a", BESIDE),
        *((within(STRING), within(STRING | {name: value}), f"#/properties/a/{name}", BESIDE) for name, value in (
            ("minLength", 1), ("enum", ["a"]), ("default", "a"), ("not", {"maxLength": 1}), ("dependencies", {"a": {}}),
        )),
        (within({"anyOf": [{}]}), within({"anyOf": [{}, {}]}), "#/properties/a/anyOf", BESIDE),
        (within({"anyOf": [{}]}), within({"oneOf": [{}]}), "#/properties/a", BESIDE),
        (within(ARRAY), within(ARRAY | {"items": STRING}), "#/properties/a/items", BESIDE),
        (within(ARRAY | {"items": [{}]}), within(ARRAY | {"items": [{}, {}]}), "#/properties/a/items", BESIDE),
        (within(ARRAY | {"items": within(STRING)}), within(ARRAY | {"items": within(NUMBER)}),
         "#/properties/a/items/properties/a", BESIDE),
        (within({"oneOf": [{}, STRING]}), within({"oneOf": [{}, LONG]}), "#/properties/a/oneOf/1/minLength", BESIDE),
        (within({"oneOf": [within(STRING)]}), within({"oneOf": [within(NUMBER)]}),
         "#/properties/a/oneOf/0/properties/a", AROUND),
        (within({"oneOf": [OBJECT]}), within({"oneOf": [within(NUMBER)]}),
         "#/properties/a/oneOf/0/properties/a", AROUND),
        ({"patternProperties": {"^b": STRING}}, {"patternProperties": {"^b": NUMBER}}, "#/patternProperties/^b",
         BESIDE),
        ({"additionalProperties": STRING}, {"additionalProperties": NUMBER}, "#/additionalProperties", NOWHERE),
        ({"additionalProperties": within(STRING)}, {"additionalProperties": within(NUMBER)},
         "#/additionalProperties/properties/a", BESIDE),
        (within(OBJECT | {"additionalProperties": STRING}), within(OBJECT | {"additionalProperties": NUMBER}),
         "#/properties/a/additionalProperties", AROUND),
        ({"additionalProperties": STRING}, {"additionalProperties": STRING} | within({}), "#/properties/a", NOWHERE),
        (within(OBJECT | {"additionalProperties": STRING}), within(within({}, additionalProperties=STRING)),
         "#/properties/a/properties/a", AROUND),
        ({"patternProperties": {"^a": {}}}, {"patternProperties": {"^a": {}}} | within({}), "#/properties/a",
         "choose a name that no pattern of `patternProperties` matches"),
        (within(STRING), OBJECT, "#/properties/a", "keep it, and mark it as deprecated"),
        ({"required": ["a"]}, {}, "#/required", "keep it required"),
        (within(STRING), within(STRING, additionalProperties=False), "#/additionalProperties", "keep it unchanged"),
        (within(ARRAY), within(ARRAY | {"additionalItems": False}), "#/properties/a/additionalItems",
         "keep it unchanged"),
    ]  # fmt: skip
    for old, new, pointer, hint in rows:
        check_hint(old, new, pointer, hint, "forward")


def test_mode_compatible_has_hints_of_its_own() -> None:
    rows: list[tuple[Schema, Schema, str, str]] = [
        (within({}), within({}, required=["a"]), "#/required", "keep it optional"),
        (within(STRING), within(STRING, additionalProperties=NUMBER), "#/additionalProperties", "keep it unchanged"),
        (within({}), within(STRING), "#/properties/a", BESIDE),
        ({"patternProperties": {"^b": OBJECT}, "properties": {}}, {"patternProperties": {"^b": within(STRING)},
         "properties": {}}, "#/patternProperties/^b/properties/a", AROUND),
        ({"additionalProperties": OBJECT}, {"additionalProperties": within(STRING)},
         "#/additionalProperties/properties/a", NOWHERE),
        (within(OBJECT | {"patternProperties": {"^b": OBJECT}}),
         within(OBJECT | {"patternProperties": {"^b": within(STRING)}}),
         "#/properties/a/patternProperties/^b/properties/a", AROUND),
        (within({"patternProperties": {"^b": {}}}), within({"patternProperties": {"^b": {}}, "minProperties": 0}),
         "#/properties/a/additionalProperties", "keep the type and the keywords beside it unchanged"),
    ]  # fmt: skip
    for old, new, pointer, hint in rows:
        check_hint(old, new, pointer, hint, "compatible")


def check_hint(old: Schema, new: Schema, pointer: str, hint: str, mode: Mode) -> None:
    """Check the hint, and that a change by it, to another property, is accepted if and only if it says so."""
    [change] = [change for change in judge(old, new, mode).refused if change.pointer == pointer]
    assert change.instead.startswith(hint)
    at = steps(change.pointer)
    holding = ("properties", "patternProperties", "additionalProperties")
    held = [at[:number] for number, name in enumerate(at) if name in holding]
    ways = [not judge(old, with_another(old, holder), mode).refused for holder in sorted(held, key=len, reverse=True)]
    if change.instead == BESIDE:
        assert ways[0]
    elif change.instead == AROUND:
        assert not ways[0]
        assert any(ways[1:])
    elif change.instead == NOWHERE:
        assert not any(ways)


def with_another(schema: Any, holder: tuple[str, ...]) -> Any:
    """Return *schema* with another property in the object at *holder*."""
    if not holder:
        return schema | {"properties": schema.get("properties", {}) | {"zz": {}}}
    name, *rest = holder
    if isinstance(schema, list):
        return [with_another(each, tuple(rest)) if str(n) == name else each for n, each in enumerate(schema)]
    return schema | {name: with_another(schema[name], tuple(rest))}
