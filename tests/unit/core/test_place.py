"""Where a change is refused, there is a way out which that place allows."""

from typing import Any

import pytest

from penstock.core.change import Change
from penstock.core.choices import Mode
from penstock.core.evolution import judge
from penstock.core.place import AROUND, BESIDE, NOWHERE, Place
from penstock.core.walk import shown, steps

Schema = dict[str, Any]
STRING, NUMBER, OBJECT, ARRAY = ({"type": name} for name in ("string", "number", "object", "array"))
LONG = STRING | {"minLength": 1}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


def within(node: Schema, **others: Any) -> Schema:
    return {"type": "object", "properties": {"a": node}, **others}


@pytest.mark.parametrize(
    ("old", "new", "pointer", "told"),
    [
        ({}, DRAFT_7, "#/$schema", "leave it as it is: by another draft"),
        ({"id": "a"}, {}, "#/id", "leave it as it is"),
        *((within(STRING), within(STRING) | {name: value}, f"#/{name}", NOWHERE) for name, value in (
            ("minProperties", 1), ("maxProperties", 1), ("not", STRING), ("if", {}), ("then", STRING), ("const", {}),
            ("propertyNames", STRING), ("default", {}), ("enum", [{}]), ("dependencies", {"a": ["b"]}),
        )),
        (within(STRING), within(STRING, patternProperties={"^b": {}}), "#/patternProperties",
         "leave the patterns as they are; what is new can be an optional property whose name none of them matches"),
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
        (within(STRING), OBJECT, "#/properties/a", "keep it, and say it is deprecated"),
        ({"required": ["a"]}, {}, "#/required", "keep it required"),
        (within(STRING), within(STRING, additionalProperties=False), "#/additionalProperties", "leave it as it is"),
        (within(ARRAY), within(ARRAY | {"additionalItems": False}), "#/properties/a/additionalItems",
         "leave it as it is"),
    ],
)  # fmt: skip
def test_each_refusal_has_a_way_out_that_its_place_allows(old: Schema, new: Schema, pointer: str, told: str) -> None:
    [change] = [change for change in judge(old, new, "forward").refused if change.pointer == pointer]

    assert change.instead.startswith(told)
    check_way_out(old, change, "forward")


@pytest.mark.parametrize(
    ("old", "new", "pointer", "told"),
    [
        (within({}), within({}, required=["a"]), "#/required", "leave it optional"),
        (within(STRING), within(STRING, additionalProperties=NUMBER), "#/additionalProperties", "leave it as it is"),
        (within({}), within(STRING), "#/properties/a", BESIDE),
        ({"patternProperties": {"^b": OBJECT}, "properties": {}}, {"patternProperties": {"^b": within(STRING)},
         "properties": {}}, "#/patternProperties/^b/properties/a", AROUND),
        ({"additionalProperties": OBJECT}, {"additionalProperties": within(STRING)},
         "#/additionalProperties/properties/a", NOWHERE),
        (within(OBJECT | {"patternProperties": {"^b": OBJECT}}),
         within(OBJECT | {"patternProperties": {"^b": within(STRING)}}),
         "#/properties/a/patternProperties/^b/properties/a", AROUND),
        (within({"patternProperties": {"^b": {}}}), within({"patternProperties": {"^b": {}}, "minProperties": 0}),
         "#/properties/a/additionalProperties", "leave the type and the keywords beside it as they are"),
    ],
)  # fmt: skip
def test_the_mode_compatible_has_ways_out_of_its_own(old: Schema, new: Schema, pointer: str, told: str) -> None:
    [change] = [change for change in judge(old, new, "compatible").refused if change.pointer == pointer]

    assert change.instead.startswith(told)
    check_way_out(old, change, "compatible")


def check_way_out(old: Schema, change: Change, mode: Mode) -> None:
    """Look whether a way out that leads to another property can be gone, and whether it was told where there is one."""
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


def test_a_place_is_told_by_its_pointer() -> None:
    root = Place("#")
    inner = root.member("properties", "a/b", beside=True).within("items", unique=True)

    assert inner == Place("#/properties/a~1b/items", unique=True, beside=True)
    assert inner.member("properties", "c", beside=False).around
    assert shown(steps(inner.pointer)) == inner.pointer
