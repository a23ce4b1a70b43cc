"""Validation of batches of events: the first invalid one, in parts of bounded work, and limits on the work of one."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schema.effective import effective_schema
from penstock.schema.traversal import Schema
from penstock.schema.validation import EXTREMES_MAX, VALIDATORS, WORK_MAX, Validator, ValidatorKey, validator
from tests.exhaustive import examples

NUMBERS: Schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
PRICES: Schema = {"properties": {"a": {"items": {"multipleOf": 0.01}}}}
WIDE = Validator(NUMBERS | {"additionalProperties": {"anyOf": [{"type": "null"}] * 5_000}})
"""So many schemas may apply to a value that only some tens of kilobytes are validated together."""
LARGE = 15_000
"""The bytes of an event of which two are validated together, and three are not."""


@pytest.mark.parametrize("wrong", [0, 1, 7, 9])
def test_first_invalid_event_of_several_is_found(wrong: int) -> None:
    events: list[dict[str, Any]] = [{"n": number} for number in range(10)]
    events[wrong]["n"] = "x"
    events[9] = {}

    assert Validator(NUMBERS).find_first_invalid(events) == wrong


def test_valid_events_have_no_first_invalid_one() -> None:
    assert Validator(NUMBERS).find_first_invalid([{"n": 1}, {"n": 2, "more": []}]) is None
    assert Validator(NUMBERS).find_first_invalid([]) is None
    assert Validator({"type": "object"}).find_first_invalid([{"anything": None}]) is None


def test_batch_is_validated_by_the_references_of_one_event() -> None:
    number = {"$ref": "#/definitions/n"}
    tree = Validator({"definitions": {"n": {"type": "integer"}}, "properties": {"n": number, "in": {"$ref": "#"}}})

    assert tree.find_first_invalid([{"in": {"in": {"n": 1}}}]) is None
    assert tree.find_first_invalid([{"n": 1}, {"in": {"in": {"n": "x"}}}]) == 1


@pytest.mark.parametrize("fraction", ["", ".1", ".123456789"])
def test_moment_may_have_nine_digits(fraction: str) -> None:
    moment = {"n": f"2026-01-02T03:04:05{fraction}+01:00"}
    assert Validator({"properties": {"n": {"format": "date-time"}}}).find_first_invalid([moment]) is None


MANY = {"items": {"allOf": [NUMBERS] * 990}}
PATTERN = "^[a-z]{500}$"


@pytest.mark.parametrize(
    ("schema", "size", "is_light"),
    [
        ({}, 1 << 30, True),
        (NUMBERS, 16_384, True),
        (NUMBERS, 16 << 20, False),
        (MANY, 1_000, True),
        (MANY, 10_000, False),
        ({"items": {"pattern": PATTERN}}, 1_000, True),
        ({"items": {"pattern": PATTERN}}, 4_000, False),
        ({"patternProperties": {PATTERN: {}}}, 4_000, False),
    ],
    ids=["anything", "small", "large", "little of much", "much", "a little text", "much text", "names"],
)
def test_validation_is_light_where_it_takes_some_milliseconds(schema: Schema, size: int, is_light: bool) -> None:
    assert Validator(schema).is_light(size) == is_light


def test_validator_is_compiled_once_for_each_event_type_and_found_afterwards() -> None:
    key = ValidatorKey('{"title": "found"}', "t", "business", compatible=False, compacted=False)
    assert VALIDATORS.find(key) is None

    compiled = validator(key)

    assert validator(key) is VALIDATORS.find(key) is compiled
    assert validator(key._replace(name="u")) is not compiled


@pytest.mark.parametrize("size", [1, LARGE, 3 * LARGE], ids=["all together", "by twos", "one by one"])
def test_first_invalid_event_is_found_across_parts(size: int) -> None:
    for wrong in range(9):
        events: list[dict[str, Any]] = [{"n": number} for number in range(9)]
        events[wrong]["n"] = events[8]["n"] = "x"

        assert WIDE.find_first_invalid(events, [b"x" * size] * 9) == wrong


@settings(max_examples=examples(10, 100))
@given(
    st.lists(st.tuples(st.sampled_from([1, LARGE, 3 * LARGE, 100_000]), st.sampled_from([1, 1, 1, "x"])), max_size=12),
    st.sampled_from([WIDE, Validator(NUMBERS)]),
)
def test_parts_of_any_size_are_judged_as_their_events_are(sized: list[tuple[int, Any]], validator: Validator) -> None:
    expected = next((at for at, (_, n) in enumerate(sized) if n == "x"), None)

    assert validator.find_first_invalid([{"n": n} for _, n in sized], [b"x" * size for size, _ in sized]) == expected


class PartCounter:
    """Takes the place of the compiled schema of a batch: finds all valid, and counts the events of each part."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def is_valid(self, part: list[dict[str, Any]]) -> bool:
        self.parts.append(len(part))
        return True


def count_parts(schema: Schema, raws: list[bytes]) -> list[int]:
    """Return how many events are validated together in each part that has several."""
    validator, counter = Validator(schema), PartCounter()
    validator._many = counter  # type: ignore[assignment]
    assert validator.find_first_invalid([{"n": 1}] * len(raws), raws) is None
    return counter.parts


def test_parts_of_a_batch_have_bounded_work() -> None:
    """The fourth and the fifth event are validated alone, but the small ones beside each other."""
    sizes = [1, LARGE, LARGE, LARGE, 9 * LARGE, 1, 1, 1]
    wide = NUMBERS | {"additionalProperties": {"anyOf": [{"type": "null"}] * 500}}

    assert count_parts(wide, [b"x" * size for size in sizes]) == [3, 3]


@pytest.mark.parametrize(("number", "parts"), [("1.25", [4]), ("1e300", [2, 2]), ("25E-301", [2, 2])])
def test_parts_of_extreme_numbers_are_smaller(number: str, parts: list[int]) -> None:
    raw = f'{{"a":[{",".join([number] * (EXTREMES_MAX // 25))}]}}'.encode()

    assert count_parts(PRICES, [raw] * 4) == parts


def test_event_of_too_many_extreme_numbers_is_refused() -> None:
    validator = Validator(PRICES)

    for count, invalid in ((EXTREMES_MAX, None), (EXTREMES_MAX + 1, 0)):
        event = {"a": [1e300, 0.0, 5] + [1e60] * (count - 1)}
        assert validator.find_first_invalid([event], [msgspec.json.encode(event)]) == invalid
    assert validator.explain(event) == (
        "#: has 20001 numbers from 1e50 or up to 1e-50, where up to 20000 can be held against multipleOf"
    )
    assert Validator({"required": ["a"]}).find_first_invalid([event], [msgspec.json.encode(event)]) is None


@pytest.mark.parametrize("before", [0, 1, 3])
def test_event_of_too_much_work_is_refused_at_its_place(before: int) -> None:
    endless: dict[str, Any] = {"n": 1, "rest": None, "list": [None] * 100_000}
    events: list[dict[str, Any]] = [*({"n": number} for number in range(before)), endless, {"n": "x"}]

    assert WIDE.find_first_invalid(events, list(map(msgspec.json.encode, events))) == before
    applied = 5_001
    assert 100_004 * applied > WORK_MAX
    assert (
        WIDE.explain(endless)
        == f"#: has 100004 values, to one of which {applied} schemas can apply: that takes too long"
    )


def test_event_of_many_bytes_and_few_values_is_validated() -> None:
    event = {"n": 1, "text": "x" * 500_000}

    assert WIDE.find_first_invalid([event], [msgspec.json.encode(event)]) == 0
    assert "too long" not in WIDE.explain(event)
    assert WIDE.find_first_invalid([{"n": 1}], [b" " * 500_000]) is None


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner)
)
EVENTS = st.dictionaries(st.sampled_from("xyz"), VALUES)
MEMBERS = [{"type": "string"}, {"type": "integer"}, {"minimum": 1}, {"enum": ["a", 1]}, {"type": "object"}]
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "required": st.lists(st.sampled_from("xyz"), unique=True),
        "properties": st.dictionaries(st.sampled_from("xyz"), st.sampled_from(MEMBERS)),
        "additionalProperties": st.booleans(),
        "maxProperties": st.integers(0, 2),
    },
)


@settings(max_examples=examples(15, 100))
@given(SCHEMAS, st.lists(EVENTS, max_size=5))
def test_batch_is_judged_as_its_events_are(schema: Schema, events: list[dict[str, Any]]) -> None:
    alone = jsonschema_rs.Draft4Validator({name: held for name, held in schema.items() if name != "required" or held})
    expected = next((number for number, event in enumerate(events) if not alone.is_valid(event)), None)

    effective = effective_schema(schema, name="t", category="undefined", compatible=False, compacted=False)

    assert Validator(effective).find_first_invalid(events) == expected
