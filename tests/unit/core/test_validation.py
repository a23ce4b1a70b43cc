"""Batches are looked at together, and told as Nakadi tells them."""

import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.effective import effective_schema
from penstock.core.validation import EXTREMES_MAX, VIOLATIONS_MAX, WORK_MAX, Validator, compiled_validator, validator
from penstock.core.walk import Schema

NUMBERS: Schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
PRICES: Schema = {"properties": {"a": {"items": {"multipleOf": 0.01}}}}


@pytest.mark.parametrize("wrong", [0, 1, 7, 9])
def test_the_first_that_is_not_valid_is_found(wrong: int) -> None:
    events: list[dict[str, Any]] = [{"n": number} for number in range(10)]
    events[wrong]["n"] = "x"
    events[9] = {}

    assert Validator(NUMBERS).first_invalid(events) == wrong


def test_what_is_valid_has_no_first_that_is_not() -> None:
    assert Validator(NUMBERS).first_invalid([{"n": 1}, {"n": 2, "more": []}]) is None
    assert Validator(NUMBERS).first_invalid([]) is None
    assert Validator({"type": "object"}).first_invalid([{"anything": None}]) is None


def test_a_list_is_validated_by_references_that_lead_where_they_led() -> None:
    tree = {
        "definitions": {"n": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n"}, "in": {"$ref": "#"}},
    }

    assert Validator(tree).first_invalid([{"in": {"in": {"n": 1}}}]) is None
    assert Validator(tree).first_invalid([{"n": 1}, {"in": {"in": {"n": "x"}}}]) == 1


# What an event loop may do.


@pytest.mark.parametrize(
    ("schema", "size", "is_light"),
    [
        ({}, 1 << 30, True),
        (NUMBERS, 16_384, True),
        (NUMBERS, 16 << 20, False),
        ({"items": {"allOf": [NUMBERS] * 9_900}}, 100, True),
        ({"items": {"allOf": [NUMBERS] * 9_900}}, 1_000, False),
        ({"items": {"pattern": "^[a-z]{500}$"}}, 1_000, True),
        ({"items": {"pattern": "^[a-z]{500}$"}}, 4_000, False),
        ({"patternProperties": {"^[a-z]{500}$": {}}}, 4_000, False),
    ],
    ids=["anything", "small", "large", "little of much", "much", "a little text", "much text", "names"],
)
def test_what_takes_some_milliseconds_at_the_worst_is_light(schema: Schema, size: int, is_light: bool) -> None:
    assert Validator(schema).is_light(size) == is_light


def test_who_is_compiled_is_found_and_nobody_is_compiled_for_that() -> None:
    kind = {"name": "t", "category": "undefined", "compatible": False, "compacted": False}
    text = '{"title": "found"}'
    assert compiled_validator(text, **kind) is None  # type: ignore[arg-type]

    compiled = validator(text, **kind)  # type: ignore[arg-type]

    assert compiled_validator(text, **kind) is compiled  # type: ignore[arg-type]


# Looked at in parts.

WIDE: Schema = NUMBERS | {"additionalProperties": {"anyOf": [{"type": "null"}] * 5_000}}
"""So many schemas may apply to a value that only some tens of kilobytes are looked at together."""
LARGE = 15_000
"""The bytes of an event of which two are looked at together, and three are not."""


@pytest.mark.parametrize("wrong", range(9))
@pytest.mark.parametrize("size", [1, LARGE, 3 * LARGE], ids=["all together", "by twos", "one by one"])
def test_the_first_that_is_not_valid_is_found_across_parts(wrong: int, size: int) -> None:
    events: list[dict[str, Any]] = [{"n": number} for number in range(9)]
    events[wrong]["n"] = events[8]["n"] = "x"

    assert Validator(WIDE).first_invalid(events, [b"x" * size] * 9) == wrong


@given(
    st.lists(st.tuples(st.sampled_from([1, LARGE, 3 * LARGE, 100_000]), st.sampled_from([1, 1, 1, "x"])), max_size=12),
    st.sampled_from([Validator(WIDE), Validator(NUMBERS)]),
)
def test_parts_of_any_size_are_judged_as_their_events_are(given: list[tuple[int, Any]], validator: Validator) -> None:
    expected = next((at for at, (_, n) in enumerate(given) if n == "x"), None)

    assert validator.first_invalid([{"n": n} for _, n in given], [b"x" * size for size, _ in given]) == expected


class Asked:
    """Whom a validator asks about many events at once: finds them valid, and counts them."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def is_valid(self, part: list[dict[str, Any]]) -> bool:
        self.parts.append(len(part))
        return True


def test_no_more_is_looked_at_together_than_holds_up_the_process() -> None:
    """As told by whom the validator asks: all are valid, and of some it is asked alone."""
    validator = Validator(WIDE)
    asked = Asked()
    validator._many = asked  # type: ignore[assignment]
    sizes = [1, LARGE, LARGE, LARGE, 9 * LARGE, 1, 1, 1]

    assert validator.first_invalid([{"n": 1}] * len(sizes), [b"x" * size for size in sizes]) is None
    assert asked.parts == [3, 3], "the fourth and the fifth by themselves, but the small ones beside each other"


@pytest.mark.parametrize(("number", "parts"), [("1.25", [4]), ("1e300", [2, 2]), ("25E-301", [2, 2])])
def test_numbers_whose_division_takes_long_are_looked_at_in_smaller_parts(number: str, parts: list[int]) -> None:
    validator = Validator(PRICES)
    asked = Asked()
    validator._many = asked  # type: ignore[assignment]
    raw = f'{{"a":[{",".join([number] * (EXTREMES_MAX // 2 - 2_000))}]}}'.encode()

    assert validator.first_invalid([{"a": []}] * 4, [raw] * 4) is None
    assert asked.parts == parts


# What takes too long.


def test_more_extreme_numbers_than_can_be_divided_are_refused_by_their_count() -> None:
    validator = Validator(PRICES)

    for count, invalid in ((EXTREMES_MAX, None), (EXTREMES_MAX + 1, 0)):
        event = {"a": [1e300, 0.0, 5] + [1e60] * (count - 1)}
        assert validator.first_invalid([event], [msgspec.json.encode(event)]) == invalid
    assert validator.why(event) == (
        "#: has 20001 numbers from 1e50 or up to 1e-50, where up to 20000 can be held against multipleOf"
    )
    assert Validator({"required": ["a"]}).first_invalid([event], [msgspec.json.encode(event)]) is None


@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_event_that_takes_too_long_is_refused_by_its_place(before: int) -> None:
    endless: dict[str, Any] = {"n": 1, "rest": None, "list": [None] * 100_000}
    events: list[dict[str, Any]] = [*({"n": number} for number in range(before)), endless, {"n": "x"}]
    validator = Validator(WIDE)

    assert validator.first_invalid(events, list(map(msgspec.json.encode, events))) == before
    applied = 5_001
    assert 100_004 * applied > WORK_MAX
    assert validator.why(endless) == (
        f"#: has 100004 values, to one of which {applied} schemas can apply: that takes too long"
    )


def test_an_event_of_as_many_bytes_but_few_values_does_not() -> None:
    event = {"n": 1, "text": "x" * 500_000}

    assert Validator(WIDE).first_invalid([event], [msgspec.json.encode(event)]) == 0
    assert "too long" not in Validator(WIDE).why(event)
    assert Validator(WIDE).first_invalid([{"n": 1}], [b" " * 500_000]) is None


def lines(*told: str) -> str:
    return "\n".join(told)


TEXTS: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "missing": (NUMBERS, {}, "#: required key [n] not found"),
    "another type": (NUMBERS, {"n": "x"}, "#/n: expected type: Integer, found: String"),
    "no null": ({"properties": {"n": {"type": "string"}}}, {"n": None}, "#/n: expected type: String, found: Null"),
    "one of two types": (
        {"properties": {"n": {"type": ["string", "array"]}}},
        {"n": True},
        lines(
            "#/n: no subschema matched out of the total 2 subschemas",
            "#/n: expected type: String, found: Boolean",
            "#/n: expected type: JSONArray, found: Boolean",
        ),
    ),
    "unknown": ({"additionalProperties": False}, {"foo": 1}, "#: extraneous key [foo] is not permitted"),
    "deep": (
        {"properties": {"a": {"items": {"required": ["b/c"]}}}},
        {"a": [{"b/c": 1}, {}]},
        "#/a/1: required key [b/c] not found",
    ),
    "enum": ({"properties": {"n": {"enum": ["a"]}}}, {"n": "b"}, "#/n: b is not a valid enum value"),
    "pattern": ({"properties": {"n": {"pattern": "^a"}}}, {"n": "b"}, "#/n: string [b] does not match pattern ^a"),
    "format": (
        {"properties": {"n": {"format": "date-time"}}},
        {"n": "b"},
        "#/n: must be a valid date-time Text 'b' could not be parsed",
    ),
    "a moment's digits": (
        {"properties": {"n": {"format": "date-time"}}},
        {"n": "2026-01-02T03:04:05.1234567890Z"},
        "#/n: must be a valid date-time Text '2026-01-02T03:04:05.1234567890Z' could not be parsed",
    ),
    "currency": (
        {"properties": {"n": {"format": "iso-4217"}}},
        {"n": "eur"},
        "#/n: [eur] is not a valid alphabetic ISO 4217 currency code",
    ),
    "too short": ({"properties": {"n": {"minLength": 3}}}, {"n": "b"}, "#/n: expected minLength: 3, actual: 1"),
    "too small": ({"properties": {"n": {"minimum": 3}}}, {"n": 2}, "#/n: 2 is not greater or equal to 3"),
    "too many": (
        {"properties": {"n": {"maxItems": 1}}},
        {"n": [1, 2]},
        "#/n: expected maximum item count: 1, found: 2",
    ),
    "not unique": ({"properties": {"n": {"uniqueItems": True}}}, {"n": [1, 1]}, "#/n: array items are not unique"),
    "a time": (
        {"properties": {"metadata": {"properties": {"occurred_at": {"format": "date-time"}}}}},
        {"metadata": {"occurred_at": "now"}},
        "#/metadata/occurred_at:must be a valid date-time",
    ),
}


@pytest.mark.parametrize(("schema", "event", "text"), TEXTS.values(), ids=TEXTS)
def test_what_is_wrong_is_told_by_its_place(schema: Schema, event: dict[str, Any], text: str) -> None:
    assert Validator(schema).why(event) == text


def test_several_things_are_counted_and_told_one_a_line() -> None:
    told = Validator(NUMBERS | {"additionalProperties": False}).why({"m": 1})

    assert told.splitlines()[0] == "#: 2 schema violations found"
    assert set(told.splitlines()[1:]) == {"#: required key [n] not found", "#: extraneous key [m] is not permitted"}


def test_violations_of_branches_are_counted_where_another_stands_beside_them() -> None:
    told = Validator(NUMBERS | {"properties": {"m": {"type": ["string", "null"]}}}).why({"m": 1})

    first, *others = told.splitlines()
    assert first == "#: 3 schema violations found"
    assert sorted(others) == [
        "#/m: expected type: String, found: Integer",
        "#/m: expected: null, found: Integer",
        "#/m: no subschema matched out of the total 2 subschemas",
        "#: required key [n] not found",
    ]


def test_many_branches_of_many_values_are_told_in_part() -> None:
    branches = {"anyOf": [{"enum": [number]} for number in range(1, 8)]}
    told = Validator({"additionalProperties": branches}).why({f"p{number}": 0 for number in range(10)})

    first, *others = told.splitlines()
    assert len(others) == VIOLATIONS_MAX
    assert others[0].endswith("no subschema matched out of the total 7 subschemas")
    assert first == "#: 21 schema violations found"


def test_a_name_where_none_is_allowed_is_told_by_its_place() -> None:
    draft = "http://json-schema.org/draft-07/schema#"
    told = Validator({"$schema": draft, "propertyNames": False}).why({"a": 1})

    assert told == "#/a: false schema always fails"


def test_an_event_with_very_many_mistakes_is_told_some_of_them() -> None:
    told = Validator({"additionalProperties": {"type": "string"}}).why({f"p{n}": n for n in range(10_000)})

    assert len(told.splitlines()) <= VIOLATIONS_MAX + 1


EXPLAINED_AT_ONCE: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "many mistakes": (
        {"additionalProperties": {"type": "string"}},
        {f"p{number}": number for number in range(60_000)},
        r"#/p\d+: expected type: String, found: Integer",
    ),
    "many values that each lack many names": (
        {"properties": {"a": {"items": {"required": [f"p{number}" for number in range(1_000)]}}}},
        {"a": [{}] * 1_000},
        r"#/a/0: required key \[p0\] not found",
    ),
    "many values that each lack what another name asks for": (
        {"properties": {"a": {"items": {"dependencies": {"x": [f"p{number}" for number in range(1_000)]}}}}},
        {"a": [{"x": 1}] * 1_000},
        r"#/a/0: property \[p0\] is required",
    ),
    "many mistakes at a long place": (
        {"additionalProperties": {"additionalProperties": {"type": "string"}}},
        {"k" * 100_000: {f"p{number}": number for number in range(1_000)}},
        r"#/k{200}/p\d+: expected type: String, found: Integer",
    ),
    "many mistakes that each name many values": (
        {"additionalProperties": {"enum": [f"v{number}" for number in range(2_000)]}},
        {f"p{number}": number for number in range(5_000)},
        r"#/p\d+: \d+ is not a valid enum value",
    ),
    "of names, each of which holds the whole object": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "propertyNames": {"maxLength": 3}},
        {f"name{number}": {"a": 1} for number in range(1_000)},
        r"#/name\d+: expected maxLength: 3, actual: \d+",
    ),
    "beside a branch": (
        {"properties": {"a": {"items": {"anyOf": [{"type": "null"}] * 100}}, "n": {"type": "string"}}},
        {"a": [1] * 1_000, "n": 1},
        "#/n: expected type: String, found: Integer",
    ),
    "in a branch": (
        {"properties": {"a": {"items": {"anyOf": [{"type": "null"}] * 100}}}},
        {"a": [1] * 1_000},
        "#: is not what the schema allows; the event is too large to find out where",
    ),
    "where what is referred to stands in a branch": (
        {"properties": {"a": {"items": {"$ref": "#/anyOf/0"}}}, "anyOf": [{"type": ["object", "null"]}]},
        {"a": [1] * 60_000},
        "#: is not what the schema allows; the event is too large to find out where",
    ),
}


@pytest.mark.parametrize(("schema", "event", "told"), EXPLAINED_AT_ONCE.values(), ids=EXPLAINED_AT_ONCE)
def test_of_an_event_whose_mistakes_could_fill_the_memory_one_is_told(
    schema: Schema, event: dict[str, Any], told: str
) -> None:
    assert Validator(schema).first_invalid([event]) == 0
    assert re.fullmatch(told, Validator(schema).why(event))


def test_of_an_ordinary_event_all_is_told() -> None:
    line = {"properties": {"sku": {"type": "string"}, "price": {"type": "number"}}, "required": ["sku", "price"]}
    event = {"lines": [{"sku": str(number), "price": 1} for number in range(1_000)]}
    for wrong in (0, 500, 999):
        event["lines"][wrong] = {"sku": 1}

    told = Validator({"properties": {"lines": {"type": "array", "items": line}}}).why(event)

    assert told.splitlines()[0] == "#: 6 schema violations found"


# Nakadi's texts (its digest, 3.4), as the effective schema makes them; that on an event's size is `check_size`'s.

METADATA = {"eid": "00000000-0000-0000-0000-000000000001", "occurred_at": "2026-11-20T10:00:00Z"}
CHANGE = {"metadata": METADATA, "data_type": "order", "data_op": "C", "data": {"foo": "a"}}
TOLD: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "no metadata": ("business", {"foo": "a"}, ["#: required key [metadata] not found"]),
    "a member too many": ("undefined", {"foo": "a", "bar": 1}, ["#: extraneous key [bar] is not permitted"]),
    "another type": ("undefined", {"foo": 1}, ["#/foo: expected type: String, found: Integer"]),
    "another type of a business event": (
        "business",
        {"foo": 1, "metadata": METADATA},
        ["#/foo: expected type: String, found: Integer"],
    ),
    "another type of a change": (
        "data",
        CHANGE | {"data": {"foo": 1}},
        ["#/data/foo: expected type: String, found: Integer"],
    ),
    "a change of another kind": ("data", CHANGE | {"data_op": "X"}, ["#/data_op: X is not a valid enum value"]),
    "a change with more": ("data", CHANGE | {"foo": "a"}, ["#: extraneous key [foo] is not permitted"]),
    "several": (
        "business",
        {"bar": 1, "metadata": METADATA},
        ["#: 2 schema violations found", "#: extraneous key [bar] is not permitted", "#: required key [foo] not found"],
    ),
    **{
        f"a time that is {why}": (
            category,
            event | {"metadata": METADATA | {"occurred_at": text}},
            ["#/metadata/occurred_at:must be a valid date-time"],
        )
        for category, event in (("business", {"foo": "a"}), ("data", CHANGE))
        for why, text in ((f"none, {category}", "now"), (f"too exact, {category}", "2026-11-20T10:00:00.1234567890Z"))
    },
    "a time that is no text": (
        "business",
        {"foo": "a", "metadata": METADATA | {"occurred_at": 5}},
        ["#/metadata/occurred_at: expected type: String, found: Integer"],
    ),
    "what only a hub writes": (
        "business",
        {"foo": "a", "metadata": METADATA | {"version": "1.0.0"}},
        ["#/metadata: extraneous key [version] is not permitted"],
    ),
}


@pytest.mark.parametrize(("category", "event", "lines"), TOLD.values(), ids=TOLD)
def test_what_is_wrong_is_told_in_nakadis_words(category: str, event: dict[str, Any], lines: list[str]) -> None:
    text = '{"properties": {"foo": {"type": "string"}}, "required": ["foo"]}'
    looks = validator(text, name="t", category=category, compatible=True, compacted=False)

    assert looks.first_invalid([event]) == 0
    first, *others = looks.why(event).splitlines()
    assert [first, *sorted(others)] == lines


def test_a_validator_is_made_once() -> None:
    how = {"name": "t", "category": "business", "compatible": False, "compacted": False}

    assert validator("{}", **how) is validator("{}", **how)  # type: ignore[arg-type]
    assert validator("{}", **how) is not validator("{}", **(how | {"name": "u"}))  # type: ignore[arg-type]


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner)
)
EVENTS = st.dictionaries(st.sampled_from("xyz"), VALUES)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "required": st.lists(st.sampled_from("xyz"), unique=True),
        "properties": st.dictionaries(
            st.sampled_from("xyz"),
            st.sampled_from(
                [{"type": "string"}, {"type": "integer"}, {"minimum": 1}, {"enum": ["a", 1]}, {"type": "object"}]
            ),
        ),
        "additionalProperties": st.booleans(),
        "maxProperties": st.integers(0, 2),
    },
)


@given(SCHEMAS, st.lists(EVENTS, max_size=5))
def test_a_batch_is_judged_as_its_events_are(schema: Schema, events: list[dict[str, Any]]) -> None:
    alone = jsonschema_rs.Draft4Validator({name: held for name, held in schema.items() if name != "required" or held})
    expected = next((number for number, event in enumerate(events) if not alone.is_valid(event)), None)

    effective = effective_schema(schema, name="t", category="undefined", compatible=False, compacted=False)

    assert Validator(effective).first_invalid(events) == expected


@pytest.mark.parametrize("fraction", ["", ".1", ".123456789"])
def test_a_moment_may_have_nine_digits_and_its_owners_own_pattern(fraction: str) -> None:
    moment = {"n": f"2026-01-02T03:04:05{fraction}+01:00"}
    assert Validator({"properties": {"n": {"format": "date-time"}}}).first_invalid([moment]) is None
    owned = Validator({"properties": {"n": {"format": "date-time", "pattern": "Z$"}}})
    assert "does not match pattern Z$" in owned.why(moment)
