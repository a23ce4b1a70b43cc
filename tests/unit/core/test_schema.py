"""What a schema must be, rule by rule (digest of Nakadi's contract, 2.4), and how `compatible` closes it."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.effective import effective_schema
from penstock.core.schema import PLACES_CHARS_MAX, PROHIBITED_MAX, SCHEMA_CHARS_MAX, check_schema, closed, parse_schema
from penstock.core.validation import Validator
from penstock.core.walk import Schema
from penstock.errors import InvalidEventType

CATEGORIES = ("undefined", "business", "data")
DRAFT_6, DRAFT_7 = ({"$schema": f"http://json-schema.org/draft-0{number}/schema#"} for number in (6, 7))

# 1. Strict JSON.

READABLE: dict[str, tuple[str, Schema]] = {
    "nothing said": ("{}", {}),
    "spaces around": (" \t\r\n{} \n", {}),
    "the same key in two objects": ('{"a": {"a": {}}, "b": {"a": {}}}', {"a": {"a": {}}, "b": {"a": {}}}),
    "a pair of surrogates": ('{"title": "\\ud83d\\ude00"}', {"title": "\U0001f600"}),
    "the end of a text": ('{"pattern": "\\u0000"}', {"pattern": "\x00"}),
    "a huge integer": (f'{{"maximum": {"9" * 4_000}}}', {"maximum": 10**4_000 - 1}),
    "the largest number": ('{"maximum": 1e308}', {"maximum": 1e308}),
    "the smallest number": ('{"multipleOf": 5e-324}', {"multipleOf": 5e-324}),
    "as deep as may be": ('{"default": ' * 255 + "{}" + "}" * 255, {}),
    "as large as may be": ('{"title": "%s"}' % ("x" * (SCHEMA_CHARS_MAX - 13)), {}),
}
UNREADABLE: dict[str, tuple[str, str]] = {
    "nothing": ("", "is not valid JSON"),
    "half": ('{"properties": {', "is not valid JSON"),
    "more after it": ("{} {}", "trailing characters"),
    "a comma after it": ("{},", "trailing characters"),
    "a comma too many": ('{"a": 1,}', "is not valid JSON"),
    "a comment": ("{} // x", "trailing characters"),
    "single quotes": ("{'a': 1}", "is not valid JSON"),
    "a byte order mark": ("\ufeff{}", "byte order mark"),
    "a key twice": ('{"type": "object", "type": "object"}', "the key 'type' stands twice in one object"),
    "a key twice deep within": ('{"properties": {"a": {}, "b": {}, "a": {}}}', "the key 'a' stands twice"),
    "a key twice, spelled differently": ('{"enum": [{"a": 1, "\\u0061": 1}]}', "the key 'a' stands twice"),
    "not a number": ('{"minimum": NaN}', "is not valid JSON"),
    "infinity": ('{"minimum": -Infinity}', "is not valid JSON"),
    "a number without end": ('{"minimum": 1e400}', "out of range"),
    "an integer without end": (f'{{"minimum": {"9" * 5_000}}}', "out of range"),
    "half a surrogate pair": ('{"title": "\ud800"}', "half of a surrogate pair"),
    "half a surrogate pair, escaped": ('{"title": "\\udc00"}', "surrogate pair"),
    "a name that is half of one": ('{"properties": {"\\ud800": {}}}', "surrogate pair"),
    "one level too many": ('{"not": ' * 256 + "{}" + "}" * 256, "257 levels, 256 are allowed"),
    "one level too many, of lists": ('{"default": ' + "[" * 256 + "]" * 256 + "}", "257 levels, 256 are allowed"),
    "ten thousand levels": ('{"not": ' * 10_000 + "{}" + "}" * 10_000, "nested too deeply"),
    "ten thousand lists": ("[" * 10_000, "nested too deeply"),
    "a character too many": ('{"title": "%s"}' % ("x" * (SCHEMA_CHARS_MAX - 12)), "1048577 characters, more than the"),
    "a list": ("[]", "must be a JSON object"),
    "a text": ('"{}"', "must be a JSON object"),
    "null": ("null", "must be a JSON object"),
    "true": ("true", "must be a JSON object"),
    "a number": ("1", "must be a JSON object"),
}


@pytest.mark.parametrize(("text", "schema"), READABLE.values(), ids=READABLE)
def test_strict_json_is_read(text: str, schema: Schema) -> None:
    found = parse_schema(text)

    assert found == schema or not schema


@pytest.mark.parametrize(("text", "told"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_strict_json_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidEventType) as refused:
        parse_schema(text)

    assert refused.value.fields["field"] == "schema.schema"
    assert told in refused.value.fields["reason"]
    assert len(str(refused.value)) < 300, "what is told stays short, however large what was given"


# 2 to 6. What it may say: each rule with what it lets in and what it keeps out.


def within(node: Any, **beside: Any) -> Schema:
    """An event with one property."""
    return {"properties": {"a": node}, **beside}


class Rule(NamedTuple):
    good: Schema
    bad: Schema
    told: str


RULES: dict[str, Rule] = {
    # 2: the root.
    "an object at the root": Rule({"type": "object"}, {"type": "array"}, 'the type "object" at its root, not "array"'),
    "no list of types there": Rule({}, {"type": ["object"]}, 'at its root, not ["object"]'),
    "no null there": Rule(within({"type": "array"}), {"type": None}, "at its root, not null"),
    # 3: JSON Schema, in three drafts.
    "draft 4": Rule(
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"$schema": "http://json-schema.org/draft-03/schema#"},
        "use draft 4, 6 or 7",
    ),
    "draft 6": Rule(DRAFT_6, {"$schema": "https://json-schema.org/draft/2019-09/schema"}, "use draft 4, 6 or 7"),
    "draft 7": Rule(DRAFT_7, {"$schema": "https://json-schema.org/draft/2020-12/schema"}, "use draft 4, 6 or 7"),
    "no other dialect": Rule(
        {"$schema": "http://json-schema.org/schema#"}, {"$schema": "http://example.com/own"}, "is not known here"
    ),
    "a dialect is a text": Rule({"$schema": "http://json-schema.org/draft-07/schema"}, {"$schema": 7}, "here, 7: use"),
    "draft 4 unless told otherwise": Rule(
        {"maximum": 1, "exclusiveMaximum": True}, {"maximum": 1, "exclusiveMaximum": 2}, "#/exclusiveMaximum: 2 is not"
    ),
    "draft 6 counts otherwise": Rule(
        DRAFT_6 | {"exclusiveMaximum": 2}, DRAFT_6 | {"maximum": 1, "exclusiveMaximum": True}, "#/exclusiveMaximum: tr"
    ),
    "a flag needs its bound": Rule(
        {"minimum": 1, "exclusiveMinimum": False}, {"exclusiveMinimum": True}, '"minimum" is a required property'
    ),
    "known types": Rule(within({"type": ["null", "string"]}), within({"type": "text"}), "#/properties/a/type"),
    "types once": Rule(within({"type": ["null"]}), within({"type": ["null", "null"]}), "#/properties/a/type"),
    "some types": Rule(within({"type": "null"}), within({"type": []}), "#/properties/a/type"),
    "bounds that are numbers": Rule(within({"minimum": 1e30}), within({"minimum": "1"}), '"1" is not of type "number"'),
    "lengths from 0": Rule(within({"minLength": 0}), within({"minLength": -1}), "-1 is less than the minimum of 0"),
    "whole lengths": Rule(within({"maxItems": 10**30}), within({"maxItems": 1.5}), "1.5 is not of type"),
    "multiples of what is not 0": Rule(within({"multipleOf": 1e-300}), within({"multipleOf": 0}), "#/properties/a/mul"),
    "required names, even none": Rule({"required": []}, {"required": "a"}, "#/required"),
    "names required once": Rule({"required": ["a", "b"]}, {"required": ["a", "a"]}, "#/required"),
    "no flag that something is required": Rule(
        {"required": ["a"]}, within({"required": True}), "#/properties/a/required"
    ),
    "properties by name": Rule({"properties": {}}, {"properties": []}, "#/properties"),
    "properties that are schemas": Rule(within({}), within(5), "#/properties/a: 5 is not"),
    "no truth in draft 4": Rule({"additionalProperties": True}, within(True), "#/properties/a: true is not"),
    "branches": Rule({"allOf": [{}]}, {"allOf": []}, "#/allOf"),
    "branches that are schemas": Rule({"anyOf": [{}]}, {"anyOf": [1]}, "#/anyOf/0: 1 is not"),
    "items": Rule(within({"items": [{}]}), within({"items": []}), "#/properties/a/items"),
    "dependencies on names": Rule({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": "b"}}, "#/dependencies/a"),
    "values to choose from": Rule(within({"enum": [1, 1.0]}), within({"enum": 1}), "#/properties/a/enum: 1 is not"),
    "definitions that are schemas": Rule({"definitions": {"a": {}}}, {"definitions": {"a": 5}}, "#/definitions/a"),
    "titles that are texts": Rule({"title": ""}, {"title": 5}, "#/title: 5 is not"),
    # 3: references.
    "references within": Rule(
        within({"$ref": "#/definitions/b"}, definitions={"b": {}}), within({"$ref": "#/definitions/b"}), "to nothing"
    ),
    "no references out of it": Rule(
        within({"$ref": "#"}), within({"$ref": "http://127.0.0.1:1/a.json"}), '"http://127.0.0.1:1/a.json", outside'
    ),
    "no references to files": Rule(
        within({"enum": [{"$ref": "file:///etc/passwd"}]}), within({"$ref": "file:///etc/passwd"}), "is never fetched"
    ),
    "no references to its own address": Rule(
        within({"$ref": "#/definitions/b"}, id="http://example.com/a", definitions={"b": {}}),
        within({"$ref": "http://example.com/a#/definitions/b"}, id="http://example.com/a", definitions={"b": {}}),
        "outside of itself",
    ),
    "references that are texts": Rule(within({"$ref": "#/properties/a/items", "items": {}}), {"$ref": 5}, "no text"),
    "references to items": Rule(
        within({"$ref": "#/allOf/0"}, allOf=[{}]), within({"$ref": f"#/allOf/{'9' * 5_000}"}, allOf=[{}]), "to nothing"
    ),
    "references that end": Rule(within({"$ref": "#"}), {"allOf": [{"$ref": "#"}]}, "to itself without end"),
    "references that do not double": Rule(
        within({"items": {"$ref": "#"}}),
        within({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        "for the same member, and back",
    ),
    # 3: patterns.
    "patterns that others would brood over": Rule(
        within({"pattern": "^(a+)+$"}), within({"pattern": "(?=a)b"}), "RE2 has no look-around"
    ),
    "patterns without looks back": Rule(within({"pattern": "(a)(b)"}), within({"pattern": "(a)\\1"}), "no back-refer"),
    "patterns that are some": Rule(within({"pattern": "[a]"}), within({"pattern": "["}), "at #/properties/a that is"),
    "patterns for names": Rule(
        {"patternProperties": {"^(x|xx)+$": {}}}, {"patternProperties": {"(?<!a)b": {}}}, "at # that is not taken"
    ),
    "patterns of a size": Rule(
        within({"pattern": "a{1000}"}), within({"pattern": "((a{100}){100}){100}"}), "#/properties/a that is"
    ),
    # Ours: what all of it may cost.
    "places of a length": Rule(
        within({"properties": {f"b{number}": {} for number in range(1_000)}}),
        {"properties": {"a" * 20_000: {"properties": {f"b{number}": {} for number in range(1_000)}}}},
        f"where {PLACES_CHARS_MAX} are allowed",
    ),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("compatible", [False, True], ids=["open", "compatible"])
def test_each_rule_lets_in_and_keeps_out(rule: Rule, category: str, compatible: bool) -> None:
    check_schema(rule.good, compatible=compatible, business=category == "business")
    looked_at(rule.good, category, compatible)

    with pytest.raises(InvalidEventType) as refused:
        check_schema(rule.bad, compatible=compatible, business=category == "business")
    assert rule.told in refused.value.fields["reason"]


def looked_at(schema: Schema, category: str, compatible: bool) -> None:
    """Have events validated by a schema that was let in."""
    whole = effective_schema(schema, name="t", category=category, compatible=compatible, compacted=False)
    assert Validator(whole).first_invalid([{}]) == (
        None if category == "undefined" and not schema.get("required") else 0
    )


# 4: business.


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"metadata": {}}},
        {"$ref": "#/definitions/a", "definitions": {"a": {"properties": {"metadata": {"type": "object"}}}}},
    ],
    ids=["itself", "by reference"],
)
def test_the_metadata_of_a_business_event_is_not_its_owners(schema: Schema) -> None:
    for compatible in (False, True):
        check_schema(schema, compatible=compatible, business=False)
        with pytest.raises(InvalidEventType, match='must not define the property "metadata" of a business event'):
            check_schema(schema, compatible=compatible, business=True)


@pytest.mark.parametrize(
    "schema",
    [within({"properties": {"metadata": {}}}), {"required": ["metadata"]}, {"definitions": {"metadata": {}}}],
    ids=["deeper", "required", "a definition"],
)
def test_it_may_be_spoken_of(schema: Schema) -> None:
    check_schema(schema, compatible=True, business=True)
    looked_at(schema, "business", compatible=True)


# 6: `compatible`.

ALLOWED: dict[str, Any] = {
    "id": "http://example.com/a", "title": "a", "description": "a", "default": {}, "multipleOf": 1, "maximum": 9,
    "minimum": 1, "maxLength": 9, "minLength": 1, "pattern": "a", "items": {}, "maxItems": 9, "minItems": 1,
    "uniqueItems": True, "maxProperties": 9, "minProperties": 1, "required": [], "additionalProperties": True,
    "definitions": {}, "properties": {}, "patternProperties": {"a": {}}, "dependencies": {"a": ["b"]}, "enum": [1],
    "type": "object", "format": "date", "allOf": [{}], "anyOf": [{}], "oneOf": [{}], "$ref": "#",
    "$schema": "http://json-schema.org/draft-04/schema#",
}  # fmt: skip
"""Every keyword of the digest's list but those two that need another beside them, which have a rule above."""
PROHIBITED: dict[str, Any] = {
    "not": {}, "additionalItems": True, "const": 1, "contains": {}, "examples": [], "$comment": "a", "x-own": 1,
    "propertyNames": {}, "if": {}, "then": {}, "else": {}, "readOnly": True, "$id": "a", "$defs": {}, "nullable": True,
    "unevaluatedProperties": False, "": 1,
}  # fmt: skip
PLACES: dict[str, Callable[[Schema], Schema]] = {
    "a property": within,
    "a pattern": lambda node: {"patternProperties": {"a": node}},
    "a definition": lambda node: {"definitions": {"a": node}},
    "an item": lambda node: within({"items": [{}, node]}),
    "a branch": lambda node: within({"oneOf": [node]}),
    "all others": lambda node: {"additionalProperties": node},
    "a dependency": lambda node: {"dependencies": {"a": node}},
}


@pytest.mark.parametrize("keyword", ALLOWED)
def test_compatible_allows_the_keyword(keyword: str) -> None:
    check_schema(within({keyword: ALLOWED[keyword]}), compatible=True, business=False)


@pytest.mark.parametrize("keyword", PROHIBITED)
def test_compatible_prohibits_the_keyword(keyword: str) -> None:
    schema = DRAFT_7 | within({keyword: PROHIBITED[keyword]})

    check_schema(schema, compatible=False, business=False)
    with pytest.raises(InvalidEventType) as refused:
        check_schema(schema, compatible=True, business=False)
    told = f"is not one for the mode compatible: #/properties/a: extraneous key [{keyword}] is not permitted"
    assert refused.value.fields["reason"] == told


@pytest.mark.parametrize("hold", PLACES.values(), ids=PLACES)
def test_compatible_prohibits_it_wherever_it_stands(hold: Callable[[Schema], Schema]) -> None:
    check_schema(hold({"minLength": 1}), compatible=True, business=False)
    with pytest.raises(InvalidEventType, match=r"extraneous key \[x-own\] is not permitted"):
        check_schema(hold({"x-own": 1}), compatible=True, business=False)


@pytest.mark.parametrize("held", ["enum", "default"])
def test_what_only_looks_like_a_keyword_is_none(held: str) -> None:
    check_schema(within({held: [{"not": {}, "x": 1}], "title": "not"}), compatible=True, business=False)
    check_schema({"properties": {"not": {}, "x-own": {}}}, compatible=True, business=False)


def test_a_truth_is_no_schema_of_draft_4() -> None:
    with pytest.raises(InvalidEventType, match="#/properties/a: expected type: JSONObject, found: Boolean"):
        check_schema(DRAFT_7 | within(True), compatible=True, business=False)
    check_schema(DRAFT_7 | within({}, additionalProperties=False), compatible=True, business=False)


def test_of_very_many_prohibited_keywords_the_first_are_told() -> None:
    with pytest.raises(InvalidEventType) as refused:
        check_schema({f"x{number}": 1 for number in range(10_000)}, compatible=True, business=False)

    assert refused.value.fields["reason"].count("extraneous key") == PROHIBITED_MAX


def test_a_large_value_is_not_told_back() -> None:
    with pytest.raises(InvalidEventType) as refused:
        check_schema(within({"minimum": "x" * 1_000_000}), compatible=False, business=False)

    assert "#/properties/a/minimum" in refused.value.fields["reason"]
    assert len(str(refused.value)) < 2_000


LARGE: dict[str, Callable[[], Schema]] = {
    "many properties": lambda: {"properties": {f"property{number}": {"type": "string"} for number in range(25_000)}},
    "many definitions": lambda: {
        "definitions": {f"d{number}": {"type": "string"} for number in range(20_000)},
        "properties": {f"p{number}": {"$ref": f"#/definitions/d{number}"} for number in range(9_000)},
    },
    "a long list of values": lambda: within({"enum": list(range(130_000))}),
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_a_megabyte_is_looked_at_in_bounded_time(large: Callable[[], Schema]) -> None:
    schema = large()
    started = time.process_time()

    for compatible in (False, True):
        check_schema(schema, compatible=compatible, business=True)

    assert time.process_time() - started < 20


# Whatever is let in works.

NAMES = st.sampled_from(["a", "metadata", "$ref", "data", "", "a/b~c%d", "\u20ac"])
SCALARS = st.sampled_from([None, True, 0, 1, -1, 1.5, 10**30, "a", "object", "string", "^a", "(?=a)", "#", "[", 1e300])
REFERENCES = st.sampled_from(
    [
        "#",
        "#/definitions/a",
        "#/properties/a",
        "#/allOf/0",
        "#/items",
        "#/definitions/$ref",
        "#/definitions/a~1b~0c%25d",
    ]
)


def schemas() -> st.SearchStrategy[Any]:
    """Schemas, and much that nearly is one."""
    return st.recursive(
        st.just({}) | st.booleans() | SCALARS | st.builds(lambda reference: {"$ref": reference}, REFERENCES),
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", "string", "array", ["null", "integer"]]),
                "properties": st.dictionaries(NAMES, inner, max_size=2),
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b+"]), inner, max_size=1),
                "definitions": st.dictionaries(NAMES, inner, max_size=2),
                "dependencies": st.dictionaries(NAMES, inner | st.lists(NAMES, max_size=1), max_size=1),
                "items": inner | st.lists(inner, max_size=2),
                "allOf": st.lists(inner, max_size=2),
                "anyOf": st.lists(inner, max_size=2),
                "not": inner,
                "additionalProperties": inner,
                "required": st.lists(NAMES, max_size=2),
                "enum": st.lists(SCALARS, max_size=2),
                "minimum": SCALARS,
                "maxLength": SCALARS,
                "pattern": SCALARS,
                "id": SCALARS,
                "$ref": REFERENCES,
            },
        ),
        max_leaves=8,
    ).filter(lambda schema: isinstance(schema, dict))


EVENTS = st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=1) | st.dictionaries(NAMES, SCALARS, max_size=1))


@given(schemas(), st.sampled_from([{}, DRAFT_6, DRAFT_7]), st.booleans(), st.lists(EVENTS, min_size=1, max_size=2))
def test_what_is_let_in_judges_events_of_every_category(
    schema: Schema, dialect: Schema, compatible: bool, events: list[dict[str, Any]]
) -> None:
    schema = dialect | schema
    for category in CATEGORIES:
        try:
            check_schema(schema, compatible=compatible, business=category == "business")
        except InvalidEventType:
            continue
        how = {"compatible": compatible, "compacted": True}
        validator = Validator(effective_schema(schema, name="t", category=category, **how))
        invalid = validator.first_invalid(events)
        if invalid is not None:
            assert validator.why(events[invalid]).startswith("#")


@pytest.mark.parametrize(
    ("given", "shut"),
    [
        ({}, {"additionalProperties": False}),
        ({"title": "anything"}, {"title": "anything", "additionalProperties": False}),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": False}),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "additionalProperties": False}),
        ({"required": ["a"]}, {"required": ["a"], "additionalProperties": False}),
        ({"type": "array"}, {"type": "array", "additionalItems": False}),
        ({"minItems": 1}, {"minItems": 1, "additionalItems": False}),
        ({"type": "string"}, {"type": "string"}),
        ({"$ref": "#/definitions/a"}, {"$ref": "#/definitions/a"}),
        ({"enum": [1]}, {"enum": [1]}),
        (
            {"definitions": {"a": {"type": "object"}}, "$ref": "#/definitions/a"},
            {"definitions": {"a": {"type": "object", "additionalProperties": False}}, "$ref": "#/definitions/a"},
        ),
        (
            {"properties": {"a": {"minProperties": 1}}},
            {"properties": {"a": {"minProperties": 1, "additionalProperties": False}}, "additionalProperties": False},
        ),
        (
            {"items": [{"type": "object"}, {"type": "string"}]},
            {
                "items": [{"type": "object", "additionalProperties": False}, {"type": "string"}],
                "additionalItems": False,
            },
        ),
        (
            {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
            {
                "oneOf": [
                    {"type": "object", "additionalProperties": False},
                    {
                        "type": "array",
                        "items": {"type": "object", "additionalProperties": False},
                        "additionalItems": False,
                    },
                ]
            },
        ),
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"dependencies": {"a": ["b"], "c": {"required": ["d"], "additionalProperties": False}}},
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"type": "object"}}},
            {"type": "object", "patternProperties": {"^x": {"type": "object"}}, "additionalProperties": False},
        ),
    ],
)
def test_what_is_not_named_is_shut_out(given: dict[str, object], shut: dict[str, object]) -> None:
    before = repr(given)

    assert closed(given) == shut
    assert repr(given) == before
    jsonschema_rs.meta.validate({"$schema": "http://json-schema.org/draft-07/schema#"} | shut)


def test_a_member_that_no_property_names_is_refused() -> None:
    validator = jsonschema_rs.Draft7Validator(closed({"properties": {"a": {"properties": {"b": {"type": "null"}}}}}))

    assert validator.is_valid({"a": {"b": None}})
    assert not validator.is_valid({"a": {"b": None}, "c": 1})
    assert not validator.is_valid({"a": {"c": 1}})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"properties": {"a":', "is not valid JSON: it ends in the middle"),
        (r'{"title": "\ud800"}', "half a surrogate pair"),
        ('{"minimum": NaN}', "is not valid JSON: JSON is malformed: invalid character (byte 12)"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "is nested too deeply"),
    ],
    ids=["cut", "surrogate", "NaN", "twice", "deep"],
)
def test_a_text_that_is_no_schema_is_told_as_one(text: str, told: str) -> None:
    with pytest.raises(InvalidEventType) as caught:
        parse_schema(text)

    assert told in caught.value.detail
    assert "event stands" not in caught.value.detail


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"exclusiveMinimum": 5}, "of draft 4, which it is without a $schema, at #"),
        (
            DRAFT_7 | {"exclusiveMinimum": True},
            "of draft 7, which its $schema asks for, at #/exclusiveMinimum: true is",
        ),
        ({"items": {"pattern": r"\pL"}}, r'at #/items/pattern: "\\pL" is a pattern for RE2, but none of JSON Schema'),
        (
            {"items": {"type": "text"}},
            'at #/items/type: "text" is not one of array, boolean, integer, null, number, obj',
        ),
        ({"items": {"minimum": "1"}}, 'at #/items/minimum: "1" is not of type "number"'),
    ],
    ids=["draft 4", "draft 7", "pattern", "type", "number"],
)
def test_a_keyword_that_is_wrong_is_told_with_its_place(schema: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidEventType) as caught:
        check_schema(schema, compatible=False, business=False)

    assert told in caught.value.detail
