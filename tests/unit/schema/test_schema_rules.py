"""Rules for the schema of an event type, as in Nakadi, and how the mode `compatible` closes it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidEventType
from penstock.schema.bounds import NAMES_MAX, check_patterns
from penstock.schema.effective import effective_schema
from penstock.schema.parsing import (
    PLACES_CHARS_MAX,
    PROHIBITED_MAX,
    SCHEMA_CHARS_MAX,
    check_schema,
    close_schema,
    parse_schema,
)
from penstock.schema.traversal import Schema
from penstock.schema.validation import Validator
from tests.exhaustive import examples, exhaustive

CATEGORIES = ("undefined", "business", "data")
DRAFT_6, DRAFT_7 = ({"$schema": f"http://json-schema.org/draft-0{number}/schema#"} for number in (6, 7))

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
    "half": ('{"properties": {', "is not valid JSON: it ends in the middle"),
    "more after it": ("{} {}", "trailing characters"),
    "a comma after it": ("{},", "trailing characters"),
    "a comma too many": ('{"a": 1,}', "is not valid JSON"),
    "a comment": ("{} // x", "trailing characters"),
    "single quotes": ("{'a': 1}", "is not valid JSON"),
    "a byte order mark": ("\ufeff{}", "byte order mark"),
    "a key twice": ('{"type": "object", "type": "object"}', "the key 'type' stands twice in one object"),
    "a key twice deep within": ('{"properties": {"a": {}, "b": {}, "a": {}}}', "the key 'a' stands twice"),
    "a key twice, spelled differently": ('{"enum": [{"a": 1, "\\u0061": 1}]}', "the key 'a' stands twice"),
    "not a number": ('{"minimum": NaN}', "is not valid JSON: JSON is malformed: invalid character (byte 12)"),
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
    "a character too many": ('{"title": "%s"}' % ("x" * (SCHEMA_CHARS_MAX - 12)), "524289 characters, more than the"),
    "a list": ("[]", "must be a JSON object"),
    "a text": ('"{}"', "must be a JSON object"),
    "null": ("null", "must be a JSON object"),
    "true": ("true", "must be a JSON object"),
    "a number": ("1", "must be a JSON object"),
}


def test_strict_json_is_read() -> None:
    for text, schema in READABLE.values():
        found = parse_schema(text)

        assert found == schema or not schema


@pytest.mark.parametrize(("text", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_text_other_than_strict_json_is_refused_with_a_short_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidEventType) as refused:
        parse_schema(text)

    assert refused.value.field == "schema.schema"
    assert reason in refused.value.reason
    assert "event stands" not in refused.value.detail
    assert len(str(refused.value)) < 300


def within(node: Any, **beside: Any) -> Schema:
    """Return the schema of an event with one property."""
    return {"properties": {"a": node}, **beside}


class Rule(NamedTuple):
    good: Schema
    bad: Schema
    reason: str


def reference(to: Any, **definitions: Any) -> Schema:
    return within({"$ref": to}, definitions=definitions)


RULES: dict[str, Rule] = {
    "an object at the root": Rule({"type": "object"}, {"type": "array"}, 'the type "object" at its root, not "array"'),
    "no list of types there": Rule({}, {"type": ["object"]}, 'at its root, not ["object"]'),
    "no null there": Rule(within({"type": "array"}), {"type": None}, "at its root, not null"),
    # JSON Schema, in three drafts.
    "draft 4": Rule({"$schema": "http://json-schema.org/draft-04/schema#"},
        {"$schema": "http://json-schema.org/draft-03/schema#"}, "use draft 4, 6 or 7"),
    "draft 6": Rule(DRAFT_6, {"$schema": "https://json-schema.org/draft/2019-09/schema"}, "use draft 4, 6 or 7"),
    "draft 7": Rule(DRAFT_7, {"$schema": "https://json-schema.org/draft/2020-12/schema"}, "use draft 4, 6 or 7"),
    "no other dialect": Rule({"$schema": "http://json-schema.org/schema#"}, {"$schema": "http://example.com/own"},
        "is not known here"),
    "a dialect is a text": Rule({"$schema": "http://json-schema.org/draft-07/schema"}, {"$schema": 7}, "here, 7: use"),
    "draft 4 unless another is named": Rule({"maximum": 1, "exclusiveMaximum": True},
        {"maximum": 1, "exclusiveMaximum": 2},
        "of draft 4, which it is without a $schema, at #/exclusiveMaximum: 2 is not"),
    "draft 6 counts otherwise": Rule(DRAFT_6 | {"exclusiveMaximum": 2}, DRAFT_6
        | {"maximum": 1, "exclusiveMaximum": True}, "#/exclusiveMaximum: tr"),
    "draft 7 is named": Rule(DRAFT_7 | {"exclusiveMinimum": 5}, DRAFT_7 | {"exclusiveMinimum": True},
        "of draft 7, which its $schema asks for, at #/exclusiveMinimum: true is"),
    "a flag needs its bound": Rule({"minimum": 1, "exclusiveMinimum": False}, {"exclusiveMinimum": True},
        '"minimum" is a required property'),
    "known types": Rule({"items": {"type": ["null", "string"]}}, {"items": {"type": "text"}},
        'at #/items/type: "text" is not one of array, boolean, integer, null, number, object, string, nor a list of'),
    "types once": Rule(within({"type": ["null"]}), within({"type": ["null", "null"]}), "#/properties/a/type"),
    "some types": Rule(within({"type": "null"}), within({"type": []}), "#/properties/a/type"),
    "keywords within items": Rule({"items": {"minimum": 1}}, {"items": {"minimum": "1"}},
        'at #/items/minimum: "1" is not of type "number"'),
    "bounds that are numbers": Rule(within({"minimum": 1e30}), within({"minimum": "1"}), '"1" is not of type "number"'),
    "lengths from 0": Rule(within({"minLength": 0}), within({"minLength": -1}), "-1 is less than the minimum of 0"),
    "whole lengths": Rule(within({"maxItems": 10**30}), within({"maxItems": 1.5}), "1.5 is not of type"),
    "multiples of what is not 0": Rule(within({"multipleOf": 1e-300}), within({"multipleOf": 0}), "#/properties/a/mul"),
    "required names, even none": Rule({"required": []}, {"required": "a"}, "#/required"),
    "names required once": Rule({"required": ["a", "b"]}, {"required": ["a", "a"]}, "#/required"),
    "no flag that something is required": Rule({"required": ["a"]}, within({"required": True}),
        "#/properties/a/required"),
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
    # References.
    "references within": Rule(reference("#/definitions/b", b={}), reference("#/definitions/b"), "which does not exist"),
    "references by pointer alone": Rule(reference("#/definitions/a%7E1b", **{"a/b": {}}), reference("#b"), "not exist"),
    "no references out of it": Rule(reference("#"), reference("http://127.0.0.1:1/a.json"),
        'refers at #/properties/a to "http://127.0.0.1:1/a.json", outside the schema, which is never fetched'),
    "no references to files": Rule(within({"enum": [{"$ref": "file:///etc/passwd"}]}),
        within({"$ref": "file:///etc/passwd"}), "is never fetched"),
    "no references to its own address": Rule(within({"$ref": "#/definitions/b"}, id="http://example.com/a",
        definitions={"b": {}}), within({"$ref": "http://example.com/a#/definitions/b"}, id="http://example.com/a",
        definitions={"b": {}}), "outside the schema"),
    "references that are texts": Rule(within({"$ref": "#/properties/a/items", "items": {}}), within({"$ref": 5}),
        "a $ref at #/properties/a that is"),
    "references to schemas": Rule(reference("#/definitions/b", b={}), reference("#/definitions"), "not the place of a"),
    "no references to values": Rule(reference("#/definitions/b", b={"title": ""}),
        reference("#/definitions/b/enum/0", b={"enum": [{}]}), "not the place of a schema"),
    "references to items": Rule(within({"$ref": "#/allOf/0"}, allOf=[{}]),
        within({"$ref": f"#/allOf/{'9' * 5_000}"}, allOf=[{}]), "which does not exist"),
    "references that end": Rule(reference("#"), {"allOf": [{"$ref": "#"}]}, "to itself without end"),
    "references that do not double": Rule(within({"items": {"$ref": "#"}}), within({"anyOf": [{"$ref": "#"}] * 2}),
        "for the same member, and back"),
    # Patterns.
    "patterns that RE2 compiles": Rule(within({"pattern": "^(a+)+$"}), within({"items": {"pattern": "[a"}}),
        "at #/properties/a/items that is not"),
    "patterns that JSON Schema knows": Rule({"items": {"pattern": "[a]"}}, {"items": {"pattern": r"\pL"}},
        r'at #/items/pattern: "\\pL" is a pattern for RE2, but none of JSON Schema'),
    "small patterns": Rule(within({"pattern": "a{1000}" * 9}), within({"pattern": "a{1000}" * 10}),
        "has a pattern at #/properties/a that is too large, "),
    "small repeated patterns": Rule(within({"pattern": "a{1000}"}), within({"pattern": "((a{100}){100}){100}"}),
        "#/properties/a that is"),
    "a hundred patterns for names": Rule({"patternProperties": {f"^{number}": {} for number in range(NAMES_MAX)}},
        within({"patternProperties": {f"^{number}": {} for number in range(NAMES_MAX + 1)}}),
        "has 101 patternProperties at #/properties/a, where 100 are allowed"),
    "a limited length of all places": Rule(within({"properties": {f"b{number}": {} for number in range(100)}}),
        {"properties": {"a" * 200_000: {"properties": {f"b{number}": {} for number in range(100)}}}},
        f"where {PLACES_CHARS_MAX} are allowed"),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_schema_is_accepted_or_refused_by_each_rule(rule: Rule) -> None:
    for category, compatible in zip(CATEGORIES, (False, True, False), strict=True):
        check_schema(rule.good, compatible=compatible, business=category == "business")
        validate_an_event(rule.good, category, compatible)

        with pytest.raises(InvalidEventType, match=r"schema\.schema") as refused:
            check_schema(rule.bad, compatible=compatible, business=category == "business")
        assert rule.reason in refused.value.reason


def validate_an_event(schema: Schema, category: str, compatible: bool) -> None:
    whole = effective_schema(schema, name="t", category=category, compatible=compatible, compacted=False)
    is_valid = category == "undefined" and not schema.get("required")
    assert Validator(whole).find_first_invalid([{}]) == (None if is_valid else 0)


NEITHER = ["a{2000}", "(", "[", "*", "a++", "(?>a)", "\\u0041", "\\cA"]
LACKING = ["(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?P<n>a)(?P=n)", "(a)\\k<1>"]


def test_pattern_beyond_re2_is_refused_with_its_place_and_without_a_log_line(capfd: Any) -> None:
    for pattern in [*NEITHER, *LACKING]:
        for node in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
            with pytest.raises(InvalidEventType, match=r"at #/properties/a~1b/items that is not taken") as refused:
                check_patterns({"properties": {"a/b": {"items": node}}})
            is_lacking = refused.value.detail.endswith(" (RE2 has no look-around and no back-references)")
            assert is_lacking == (pattern in LACKING)

        assert capfd.readouterr().err == ""


def test_patterns_of_linear_time_are_accepted() -> None:
    good = [
        "",
        "^(a+)+$",
        "(x+x+)+y",
        "(a|aa)*b",
        "^[0-9a-f]{8}$",
        "^.{0,1000}$",
        "^\\p{L}+$",
        "[^\\x00-\\x1f]",
        "(?i)a",
    ]
    for pattern in good:
        check_patterns({"properties": {"a": {"pattern": pattern}}, "patternProperties": {pattern: {}}})
    check_patterns({"pattern": 5, "patternProperties": [], "enum": ["(?=a)"], "properties": {"pattern": {}}})


def test_all_patterns_of_a_schema_share_one_limit() -> None:
    def schema(count: int) -> Schema:
        return {"properties": {f"p{number}": {"pattern": "a{1000}" * 9} for number in range(count)}}

    check_patterns(schema(110))
    with pytest.raises(InvalidEventType, match=r"too large.* and 1000000 for all patterns"):
        check_patterns(schema(112))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"metadata": {}}},
        {"$ref": "#/definitions/a", "definitions": {"a": {"properties": {"metadata": {"type": "object"}}}}},
    ],
    ids=["itself", "by reference"],
)
def test_business_schema_that_defines_metadata_is_refused(schema: Schema) -> None:
    for compatible in (False, True):
        check_schema(schema, compatible=compatible, business=False)
        with pytest.raises(InvalidEventType, match='must not define the property "metadata" of a business event'):
            check_schema(schema, compatible=compatible, business=True)


@pytest.mark.parametrize(
    "schema",
    [within({"properties": {"metadata": {}}}), {"required": ["metadata"]}, {"definitions": {"metadata": {}}}],
    ids=["deeper", "required", "a definition"],
)
def test_business_schema_may_mention_metadata_elsewhere(schema: Schema) -> None:
    check_schema(schema, compatible=True, business=True)
    validate_an_event(schema, "business", compatible=True)


ALLOWED: dict[str, Any] = {
    "id": "http://example.com/a", "title": "a", "description": "a", "default": {}, "multipleOf": 1, "maximum": 9,
    "minimum": 1, "maxLength": 9, "minLength": 1, "pattern": "a", "items": {}, "maxItems": 9, "minItems": 1,
    "uniqueItems": True, "maxProperties": 9, "minProperties": 1, "required": [], "additionalProperties": True,
    "definitions": {}, "properties": {}, "patternProperties": {"a": {}}, "dependencies": {"a": ["b"]}, "enum": [1],
    "type": "object", "format": "date", "allOf": [{}], "anyOf": [{}], "oneOf": [{}], "$ref": "#",
    "$schema": "http://json-schema.org/draft-04/schema#",
}  # fmt: skip
"""Every keyword that Nakadi lists but the two that need another beside them, which have a rule above."""
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


def refusal_when_compatible(schema: Schema) -> str | None:
    try:
        check_schema(schema, compatible=True, business=False)
    except InvalidEventType as refused:
        reason: str = refused.reason
        return reason
    return None


def test_compatible_mode_allows_the_keywords_that_nakadi_lists_and_no_others() -> None:
    prohibited = "is not one for the mode compatible: #/properties/a: extraneous key [{}] is not permitted"

    found = {keyword: refusal_when_compatible(within({keyword: value})) for keyword, value in ALLOWED.items()}
    assert found == dict.fromkeys(ALLOWED)
    schemas = {keyword: DRAFT_7 | within({keyword: value}) for keyword, value in PROHIBITED.items()}
    for schema in schemas.values():
        check_schema(schema, compatible=False, business=False)
    assert {keyword: refusal_when_compatible(schema) for keyword, schema in schemas.items()} == {
        keyword: prohibited.format(keyword) for keyword in PROHIBITED
    }


def test_compatible_mode_prohibits_a_keyword_wherever_it_stands() -> None:
    for hold in PLACES.values():
        assert refusal_when_compatible(hold({"minLength": 1})) is None
        assert "extraneous key [x-own] is not permitted" in str(refusal_when_compatible(hold({"x-own": 1})))


@pytest.mark.parametrize("keyword", ["enum", "default"])
def test_compatible_mode_takes_names_and_values_for_no_keywords(keyword: str) -> None:
    check_schema(within({keyword: [{"not": {}, "x": 1}], "title": "not"}), compatible=True, business=False)
    check_schema({"properties": {"not": {}, "x-own": {}}}, compatible=True, business=False)


def test_compatible_mode_takes_a_boolean_for_no_schema() -> None:
    refusal = refusal_when_compatible(DRAFT_7 | within(True))
    assert "#/properties/a: expected type: JSONObject, found: Boolean" in str(refusal)
    assert refusal_when_compatible(DRAFT_7 | within({}, additionalProperties=False)) is None


def test_compatible_mode_reports_a_limited_number_of_keywords() -> None:
    refusal = refusal_when_compatible({f"x{number}": 1 for number in range(1_000)})

    assert str(refusal).count("extraneous key") == PROHIBITED_MAX


def test_refusal_of_a_large_value_is_short() -> None:
    with pytest.raises(InvalidEventType) as refused:
        check_schema(within({"minimum": "x" * 1_000_000}), compatible=False, business=False)

    assert "#/properties/a/minimum" in refused.value.reason
    assert len(str(refused.value)) < 2_000


LARGE: dict[str, Callable[[], Schema]] = {
    "properties": lambda: {"properties": {f"property{number}": {"type": "string"} for number in range(25_000)}},
    "definitions": lambda: {"definitions": {f"d{number}": {"type": "string"} for number in range(20_000)},
        "properties": {f"p{number}": {"$ref": f"#/definitions/d{number}"} for number in range(9_000)}},
    "patterns": lambda: {"properties": {f"p{number}": {"pattern": f"^[a-z]{{3}}{number}$"}
        for number in range(25_000)}},
    "values": lambda: within({"enum": list(range(130_000))}),
}  # fmt: skip


@pytest.mark.parametrize("name", ["values", *map(exhaustive, [*LARGE][:-1])])
def test_schema_of_a_megabyte_is_accepted(name: str) -> None:
    """Work that grew with the square of the size would take longer than a test may."""
    schema = LARGE[name]()

    for compatible in (False, True):
        check_schema(schema, compatible=compatible, business=True)


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


@settings(max_examples=examples(15, 100))
@given(schemas(), st.sampled_from([{}, DRAFT_6, DRAFT_7]), st.booleans(), st.lists(EVENTS, min_size=1, max_size=2))
def test_accepted_schema_validates_events_of_every_category(
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
        invalid = validator.find_first_invalid(events)
        if invalid is not None:
            assert validator.explain(events[invalid]).startswith("#")


SHUT = {"additionalProperties": False}
SHUT_OBJECT = {"type": "object"} | SHUT
CLOSED: list[tuple[Schema, Schema]] = [
    ({}, SHUT),
    ({"title": "anything"}, {"title": "anything"} | SHUT),
    ({"type": "object", "additionalProperties": True}, SHUT_OBJECT),
    ({"type": ["object", "null"]}, {"type": ["object", "null"]} | SHUT),
    ({"required": ["a"]}, {"required": ["a"]} | SHUT),
    ({"type": "array"}, {"type": "array", "additionalItems": False}),
    ({"minItems": 1}, {"minItems": 1, "additionalItems": False}),
    *((same, same) for same in ({"type": "string"}, {"$ref": "#/definitions/a"}, {"enum": [1]})),
    ({"definitions": {"a": {"type": "object"}}, "$ref": "#/definitions/a"},
     {"definitions": {"a": SHUT_OBJECT}, "$ref": "#/definitions/a"}),
    (within({"minProperties": 1}), within({"minProperties": 1} | SHUT) | SHUT),
    ({"items": [{"type": "object"}, {"type": "string"}]},
     {"items": [SHUT_OBJECT, {"type": "string"}], "additionalItems": False}),
    ({"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
     {"oneOf": [SHUT_OBJECT, {"type": "array", "items": SHUT_OBJECT, "additionalItems": False}]}),
    ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
     {"dependencies": {"a": ["b"], "c": {"required": ["d"]} | SHUT}}),
    ({"type": "object", "patternProperties": {"^x": {"type": "object"}}},
     {"type": "object", "patternProperties": {"^x": {"type": "object"}}} | SHUT),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), CLOSED)
def test_closed_schema_allows_no_members_and_items_beyond_the_named(schema: Schema, expected: Schema) -> None:
    before = repr(schema)

    assert close_schema(schema) == expected
    assert repr(schema) == before
    jsonschema_rs.meta.validate(DRAFT_7 | expected)


def test_closed_schema_refuses_an_unnamed_member_at_each_level() -> None:
    validator = jsonschema_rs.Draft7Validator(close_schema(within(within({"type": "null"}))))

    assert validator.is_valid({"a": {"a": None}})
    assert not validator.is_valid({"a": {"a": None}, "c": 1})
    assert not validator.is_valid({"a": {"c": 1}})
