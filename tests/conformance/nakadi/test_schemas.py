"""Schemas: what they must be, what they make of events, and their versions."""

import json
from typing import Any

import pytest

from tests.nakadi import SCHEMA, EventType, Nakadi, business, change, json_schema, metadata, problem

FOO = {"properties": {"foo": {"type": "string"}}}
FOO_AND_BAR = {"properties": {"foo": {"type": "string"}, "bar": {"type": "string"}}}


@pytest.fixture
def two(nakadi: Nakadi) -> EventType:
    """An event type whose schema has the versions 1.0.0 and 1.1.0."""
    created = nakadi.create()
    answer = created.post("/schemas", json_schema(FOO_AND_BAR))
    assert (answer.status_code, answer.content) == (200, b""), "never 201, whatever the description says"
    return created


# Versions: 1.2, 2.6


def page(of: EventType, **arguments: Any) -> tuple[list[str], dict[str, str]]:
    """The versions of a page, and where its links lead."""
    found = of.get("/schemas", **arguments).json()
    assert set(found) == {"items", "_links"}
    return [each["version"] for each in found["items"]], {name: at["href"] for name, at in found["_links"].items()}


def test_versions_are_listed_newest_first(two: EventType) -> None:
    """1.2; SchemaControllerAT.whenGetSchemasThenList."""
    assert page(two) == (["1.1.0", "1.0.0"], {})
    for each in two.get("/schemas").json()["items"]:
        assert each.keys() >= {"type", "schema", "version", "created_at"}


def test_links_lead_to_the_pages_before_and_after(two: EventType) -> None:
    """1.2; SchemaControllerAT.whenGetSchemasThenListWithOffset."""
    path = f"/event-types/{two.name}/schemas"
    assert page(two, offset=0, limit=1) == (["1.1.0"], {"next": f"{path}?offset=1&limit=1"})
    assert page(two, offset=1, limit=1) == (["1.0.0"], {"prev": f"{path}?offset=0&limit=1"})
    assert two.http.get(f"{path}?offset=1&limit=1").json() == two.get("/schemas", offset=1, limit=1).json()


@pytest.mark.parametrize(("offset", "limit"), [(2, 5), (5, 2)])
def test_beyond_the_last_version_there_is_nothing(two: EventType, offset: int, limit: int) -> None:
    """1.2; SchemaControllerAT.whenGetSchemasThenListWithGreatOffset."""
    assert page(two, offset=offset, limit=limit) == ([], {})


@pytest.mark.parametrize(
    "arguments", [{"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"offset": -1}, {"offset": "x"}], ids=str
)
def test_a_page_out_of_range_is_answered_400(two: EventType, arguments: dict[str, Any]) -> None:
    """1.2, 6."""
    problem(two.get("/schemas", **arguments), 400)


def test_what_does_not_exist_has_no_schemas(nakadi: Nakadi) -> None:
    """1.2; SchemaControllerAT.whenGetSchemasNoSchemasThen404."""
    nowhere = EventType(nakadi.http, "nowhere")
    problem(nowhere.get("/schemas"), 404)
    problem(nowhere.get("/schemas/latest"), 404)
    problem(nowhere.post("/schemas", json_schema(FOO)), 404)
    problem(nowhere.post("/schemas/latest/compatibility-check", {"schema": "{}"}), 404)


def test_a_version_is_shown_by_its_number_or_as_latest(two: EventType) -> None:
    """1.2."""
    first, latest = two.get("/schemas/1.0.0").json(), two.get("/schemas/latest").json()
    assert (first["schema"], first["version"]) == (SCHEMA, "1.0.0")
    assert latest == two.get("/schemas/1.1.0").json() == two.shown()["schema"]
    problem(two.get("/schemas/1.2.0"), 404)
    for text in ("1", "1.0", "1.0.0.0", "x", "1.0.x", "LATEST?"):
        problem(two.http.get(f"{two.path}/schemas/{text.replace('?', '%3F')}"), 400)


@pytest.mark.parametrize("spelling", [SCHEMA, '{"properties":{"foo":{"type":"string"}}}'])
def test_fetching_finds_a_version_and_makes_none(two: EventType, spelling: str) -> None:
    """1.2; SchemaControllerAT.whenCreateSchemaWithFetchThen200: compared by what they say."""
    answer = two.post("/schemas", json_schema(spelling), fetch="true")
    assert answer.status_code == 200
    assert answer.json() == two.get("/schemas/1.0.0").json()
    told = problem(two.post("/schemas", json_schema({"properties": {}}), fetch="true"), 404)
    assert told["detail"] == f"no schema version of '{two.name}' says the same"
    assert (told["event_type"], told["version"]) == (two.name, None)
    assert page(two)[0] == ["1.1.0", "1.0.0"]


def test_the_schema_that_is_there_makes_no_version(two: EventType) -> None:
    """1.2, 2.6: 200, also when nothing changed."""
    assert two.post("/schemas", json_schema(FOO_AND_BAR)).status_code == 200
    assert page(two)[0] == ["1.1.0", "1.0.0"]


def test_another_text_that_says_the_same_is_a_patch(two: EventType) -> None:
    """2.6."""
    assert two.post("/schemas", json_schema(json.dumps(FOO_AND_BAR, indent=1))).status_code == 200
    assert page(two)[0] == ["1.1.1", "1.1.0", "1.0.0"]


def test_versions_are_ordered_as_numbers(nakadi: Nakadi) -> None:
    """8.1: numeric order; a higher level begins the lower ones anew (2.6)."""
    created = nakadi.create(compatibility_mode="none")
    for number in range(20):
        assert created.post("/schemas", json_schema(FOO | {"title": str(number)})).status_code == 200
    assert created.post("/schemas", json_schema(FOO_AND_BAR)).status_code == 200
    assert created.post("/schemas", json_schema({"properties": {}})).status_code == 200
    wanted = ["2.0.0", "1.1.0", *(f"1.0.{patch}" for patch in range(20, -1, -1))]
    assert page(created, limit=1000)[0] == wanted
    assert page(created, limit=3, offset=3)[0] == wanted[3:6]
    assert page(created) == (wanted[:20], {"next": f"/event-types/{created.name}/schemas?offset=20&limit=20"})


def test_a_schema_that_may_not_be_is_answered_422(two: EventType) -> None:
    """1.2."""
    for schema in ('{"type": "array"}', "[]", "{", json.dumps({"properties": {"bar": {"type": "string"}}})):
        problem(two.post("/schemas", json_schema(schema)), 422)
    assert page(two)[0] == ["1.1.0", "1.0.0"]


def test_a_check_says_whether_another_schema_would_do(two: EventType) -> None:
    """1.2: it is not stored; 11, no. 21: it changes nothing."""
    check = "/schemas/{}/compatibility-check"
    before = two.shown()
    good = two.post(check.format("latest"), {"schema": json.dumps(FOO_AND_BAR | {"title": "t"})}).json()
    assert good["compatible"] is True
    assert (good["compatibility_mode"], good["validated_against_version"]) == ("compatible", "1.1.0")
    assert "error" not in good
    bad = two.post(check.format("1.1.0"), {"schema": json.dumps(FOO)}).json()
    assert bad["compatible"] is False
    assert "properties cannot be removed" in bad["error"]
    older = two.post(check.format("1.0.0"), {"schema": json.dumps(FOO)}).json()
    assert (older["compatible"], older["validated_against_version"]) == (True, "1.0.0")
    problem(two.post(check.format("7.0.0"), {"schema": "{}"}), 404)
    problem(two.post(check.format("latest"), {"type": "avro_schema", "schema": "{}"}), 415)
    assert two.shown() == before


@pytest.mark.parametrize("path", ["/schemas", "/schemas?fetch=true", "/schemas/latest/compatibility-check"])
@pytest.mark.parametrize(("given", "status"), [({}, 422), ({"schema": {}}, 400)], ids=["none", "an object"])
def test_what_is_no_schema_is_told_by_the_names_of_its_own_body(
    two: EventType, path: str, given: dict[str, Any], status: int
) -> None:
    assert problem(two.post(path, {"type": "json_schema"} | given), status)["field"] == "schema"


# What a schema must be: 2.4


@pytest.mark.parametrize("mode", ["none", "forward", "compatible"])
@pytest.mark.parametrize(
    "schema",
    [
        '{"properties": {},}',
        '{"properties": {}} x',
        '{"type": "object", "type": "object"}',
        "",
        "null",
        '{"type": "array"}',
        '{"type": "string"}',
        '{"type": ["object", "null"]}',
        '{"$schema": "http://json-schema.org/draft-03/schema#"}',
        '{"$schema": "https://example.org/own"}',
        '{"properties": {"foo": {"$ref": "http://example.org/schema.json"}}}',
        '{"properties": {"foo": {"$ref": "#/definitions/nowhere"}}}',
        '{"properties": {"foo": {"type": "text"}}}',
        '{"properties": {"foo": {"minimum": "1"}}}',
        '{"properties": {"foo": {"pattern": "(?=a)b"}}}',
        '{"properties": {"foo": {"pattern": "(a)\\\\1"}}}',
        '{"properties": {"foo": {"pattern": "["}}}',
        '{"required": "foo"}',
    ],
)
def test_a_schema_that_is_none_is_refused_in_every_mode(nakadi: Nakadi, mode: str, schema: str) -> None:
    """2.4, 1 to 3."""
    assert "schema" in nakadi.refuse(compatibility_mode=mode, schema=json_schema(schema))


def test_a_remote_reference_is_refused_by_name(nakadi: Nakadi) -> None:
    """2.4: never fetched."""
    reference = f"{nakadi.http.base_url}/health"
    schema = {"properties": {"foo": {"$ref": reference}}}
    assert reference in nakadi.refuse(schema=json_schema(schema))


@pytest.mark.parametrize("draft", ["04", "06", "07"])
def test_three_drafts_are_known(nakadi: Nakadi, draft: str) -> None:
    """2.4."""
    schema = FOO | {"$schema": f"http://json-schema.org/draft-{draft}/schema#"}
    nakadi.create(schema=json_schema(schema)).publish({"foo": "bar"})


def test_without_a_dialect_it_is_draft_4(nakadi: Nakadi) -> None:
    """2.4: exclusiveMinimum is a boolean there, and an integer is no 1.0."""
    schema = {"properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}}
    created = nakadi.create(schema=json_schema(schema))
    created.publish({"n": 0.1})
    created.refuse({"n": 0})


def test_a_business_schema_leaves_metadata_to_the_server(nakadi: Nakadi) -> None:
    """2.3, 2.4."""
    schema = json_schema({"properties": {"metadata": {"type": "object"}}})
    enriched = {"enrichment_strategies": ["metadata_enrichment"]}
    assert "metadata" in nakadi.refuse(category="business", schema=schema, **enriched)
    nakadi.create(category="data", schema=schema)
    nakadi.create(schema=schema)


PROHIBITED = {
    "not": {"type": "string"},
    "additionalItems": False,
    "const": 1,
    "contains": {},
    "examples": [1],
    "$comment": "why",
    "x-own": 1,
    "propertyNames": {},
    "if": {},
    "readOnly": True,
}


@pytest.mark.parametrize("keyword", PROHIBITED)
def test_compatible_schemas_have_no_keyword_but_known_ones(nakadi: Nakadi, keyword: str) -> None:
    """2.4, 6: a pointer and the keyword."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#"}
    schema |= {"properties": {"foo": {keyword: PROHIBITED[keyword]}}}
    detail = nakadi.refuse(schema=json_schema(schema))
    assert "#/properties/foo" in detail
    assert f"extraneous key [{keyword}] is not permitted" in detail
    for mode in ("forward", "none"):
        nakadi.create(compatibility_mode=mode, schema=json_schema(schema))


def test_all_prohibited_keywords_are_told(nakadi: Nakadi) -> None:
    """2.4: one fragment per violation, joined by commas."""
    schema = {"not": {}, "properties": {"foo": {"x-own": 1}}}
    detail = nakadi.refuse(schema=json_schema(schema))
    assert all(f"extraneous key [{each}] is not permitted" in detail for each in ("not", "x-own"))


def test_compatible_schemas_have_whatever_else_draft_4_has(nakadi: Nakadi) -> None:
    """2.4; 11, no. 2: additionalProperties and patternProperties are taken."""
    schema = {
        "id": "http://example.org/mine",
        "$schema": "http://json-schema.org/draft-04/schema#",
        "title": "t",
        "description": "d",
        "default": {},
        "type": "object",
        "minProperties": 0,
        "maxProperties": 9,
        "required": [],
        "additionalProperties": False,
        "definitions": {"a": {"type": "string", "format": "email", "minLength": 1, "maxLength": 9, "pattern": "a"}},
        "patternProperties": {"^x": {"enum": [1]}},
        "dependencies": {"foo": {"properties": {}}},
        "allOf": [{}],
        "anyOf": [{}],
        "oneOf": [{}],
        "properties": {
            "a": {"$ref": "#/definitions/a"},
            "n": {"multipleOf": 2, "maximum": 8, "exclusiveMaximum": False, "minimum": 0, "exclusiveMinimum": False},
            "l": {"items": {}, "maxItems": 9, "minItems": 0, "uniqueItems": False},
        },
    }
    created = nakadi.create(schema=json_schema(schema))
    assert json.loads(created.shown()["schema"]["schema"]) == schema


def test_a_dependency_on_names_is_taken(nakadi: Nakadi) -> None:
    """2.3; 11, no. 19: where Nakadi's own walk breaks down."""
    schema = {"properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}}
    created = nakadi.create(schema=json_schema(schema))
    created.publish({"a": 1, "b": 2})
    created.refuse({"a": 1})


# What a schema makes of events: 2.3


def test_events_of_no_category_are_validated_as_they_are(nakadi: Nakadi) -> None:
    """2.3; 11, no. 1."""
    created = nakadi.create(schema=json_schema(FOO | {"required": ["foo"]}))
    created.publish({"foo": "bar"})
    assert created.refuse({})[0]["detail"] == "#: required key [foo] not found"
    assert created.refuse({"foo": 1})[0]["detail"] == "#/foo: expected type: String, found: Integer"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (FOO, {"foo": "a"}, {"foo": "a", "more": 1}),
        ({"properties": {"o": FOO}}, {"o": {"foo": "a"}}, {"o": {"foo": "a", "more": 1}}),
        ({"properties": {"o": {"type": ["object", "null"]}}}, {"o": {}}, {"o": {"more": 1}}),
        ({"properties": {"o": {"required": ["more"]}}}, {"o": 1}, {"o": {"more": 1}}),
        ({"properties": {"o": {}}}, {"o": 1}, {"o": {"more": 1}}),
        ({"properties": {"l": {"items": FOO}}}, {"l": [{"foo": "a"}]}, {"l": [{"more": 1}]}),
        ({"properties": {"l": {"items": [{"type": "string"}]}}}, {"l": ["a"]}, {"l": ["a", 2]}),
        (FOO | {"additionalProperties": True}, {"foo": "a"}, {"foo": "a", "more": 1}),
        (
            {"properties": {"o": {"$ref": "#/definitions/o"}}, "definitions": {"o": FOO}},
            {"o": {"foo": "a"}},
            {"o": {"more": 1}},
        ),
        (
            {"properties": {"o": {"anyOf": [FOO, {"type": "string"}]}}},
            {"o": {"foo": "a"}},
            {"o": {"more": 1}},
        ),
    ],
    ids=["root", "object", "null", "required", "empty", "items", "tuple", "own", "reference", "anyOf"],
)
def test_compatible_schemas_are_closed_at_every_level(
    nakadi: Nakadi, schema: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    """2.3: and forward and none stay open."""
    created = nakadi.create(schema=json_schema(schema))
    created.publish(good)
    assert created.refuse(bad)[0]["step"] == "validating"
    for mode in ("forward", "none"):
        nakadi.create(compatibility_mode=mode, schema=json_schema(schema)).publish(good, bad)


def test_patterns_are_not_closed(nakadi: Nakadi) -> None:
    """2.3: the walk does not go into patternProperties."""
    schema = {"patternProperties": {"^x": {"type": "object"}}, "type": "object"}
    created = nakadi.create(schema=json_schema(schema))
    created.publish({"xy": {"more": 1}})
    created.refuse({"y": {}})


def test_a_business_event_has_its_fields_beside_its_metadata(nakadi: Nakadi) -> None:
    """2.3, 3.1."""
    created = nakadi.create(category="business", schema=json_schema(FOO | {"required": ["foo"]}))
    created.publish(business(foo="bar"))
    assert created.refuse({"foo": "bar"})[0]["detail"] == "#: required key [metadata] not found"
    assert created.refuse(business())[0]["detail"] == "#: required key [foo] not found"
    assert created.refuse(business(foo="a", more=1))[0]["detail"] == "#: extraneous key [more] is not permitted"


def test_a_data_change_has_its_fields_under_data(nakadi: Nakadi) -> None:
    """2.3, 3.1."""
    created = nakadi.create(
        category="data", compatibility_mode="forward", schema=json_schema(FOO | {"required": ["foo"]})
    )
    created.publish(*(change({"foo": "bar", "more": 1}, data_op=operation) for operation in "CUDS"))
    for event in (
        change({"foo": "bar"}, data_op="X"),
        change({"foo": "bar"}, data_op="c"),
        change({"foo": "bar"}, data_type=1),
        change({"foo": "bar"}, more=1),
        change({}),
        {"data": {"foo": "bar"}, "metadata": metadata()},
        {"foo": "bar", "metadata": metadata()},
    ):
        created.refuse(event)


def test_definitions_of_a_data_change_still_resolve(nakadi: Nakadi) -> None:
    """2.3."""
    schema = {"properties": {"o": {"$ref": "#/definitions/o"}}, "definitions": {"o": FOO}}
    created = nakadi.create(category="data", schema=json_schema(schema))
    created.publish(change({"o": {"foo": "a"}}))
    assert "#/data/o/foo" in created.refuse(change({"o": {"foo": 1}}))[0]["detail"]


@pytest.mark.parametrize("category", ["business", "data"])
@pytest.mark.parametrize(
    "members",
    [
        {"eid": None},
        {"eid": "not-a-uuid"},
        {"eid": 1},
        {"occurred_at": None},
        {"occurred_at": "2026-01-02"},
        {"occurred_at": "2026-01-02T03:04:05"},
        {"occurred_at": "2026-01-02T03:04Z"},
        {"occurred_at": "2026-13-02T03:04:05Z"},
        {"occurred_at": 1},
        {"event_type": "another"},
        {"partition": 1},
        {"parent_eids": ["x"]},
        {"parent_eids": "7b7c7a6e-0000-4000-8000-000000000000"},
        {"flow_id": 1},
        {"span_ctx": {"a": 1}},
        {"received_at": "2026-01-02T03:04:05Z"},
        {"version": "1.0.0"},
        {"published_by": "me"},
        {"partition_compaction_key": "a"},
        {"more": 1},
    ],
    ids=str,
)
def test_metadata_that_is_none_is_refused(nakadi: Nakadi, category: str, members: dict[str, Any]) -> None:
    """2.3: always closed, in every mode."""
    created = nakadi.create(category=category, compatibility_mode="forward")
    event = business(foo="bar", meta=members) if category == "business" else change({"foo": "bar"}, meta=members)
    (item,) = created.refuse(event)
    assert (item["publishing_status"], item["step"]) == ("failed", "validating")
    assert "#/metadata" in item["detail"]


@pytest.mark.parametrize(
    "members",
    [
        {"eid": "ABCDEF00-0000-1000-0000-000000000000"},
        {"occurred_at": "2026-01-02t03:04:05z"},
        {"occurred_at": "2026-01-02T03:04:05.123456789+02:00"},
        {"event_type": "its own"},
        {"partition": "0"},
        {"parent_eids": ["7b7c7a6e-0000-4000-8000-000000000000"]},
        {"flow_id": "flow"},
        {"span_ctx": {"ot-tracer-spanid": "b"}},
    ],
    ids=str,
)
def test_metadata_may_have_what_it_may_have(nakadi: Nakadi, members: dict[str, Any]) -> None:
    """2.3."""
    created = nakadi.create(category="business")
    created.publish(business(foo="a", meta={n: created.name if v == "its own" else v for n, v in members.items()}))


def test_a_wrong_date_is_told_by_a_pointer_of_its_own(nakadi: Nakadi) -> None:
    """2.3, 3.4."""
    created = nakadi.create(category="business")
    detail = created.refuse(business(foo="a", meta={"occurred_at": "yesterday"}))[0]["detail"]
    assert detail == "#/metadata/occurred_at:must be a valid date-time"


@pytest.mark.parametrize("policy", ["compact", "compact_and_delete"])
def test_compacted_events_have_a_key(nakadi: Nakadi, policy: str) -> None:
    """2.3; EventTypeAT.compactedEventTypeJourney."""
    created = nakadi.create(category="business", cleanup_policy=policy)
    assert created.shown()["cleanup_policy"] == policy
    created.publish(business(foo="a", meta={"partition_compaction_key": "k"}))
    for members in ({}, {"partition_compaction_key": ""}, {"partition_compaction_key": 1}):
        assert "partition_compaction_key" in created.refuse(business(foo="a", meta=members))[0]["detail"]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.1+01:00"], ["2026-01-02", "x"]),
        ("iso-4217", ["EUR", "USD"], ["eur", "EURO", "E1R"]),
        ("ISO-4217", ["EUR"], ["eur"]),
        ("email", ["jane@example.org"], ["jane"]),
        ("uri", ["https://example.org/"], ["::"]),
        ("hostname", ["example.org"], ["-x-"]),
        ("ipv4", ["127.0.0.1"], ["127.0.0.256"]),
        ("ipv6", ["::1"], ["127.0.0.1"]),
        ("no-such-format", ["anything"], []),
    ],
)
def test_formats_are_checked(nakadi: Nakadi, name: str, good: list[str], bad: list[str]) -> None:
    """2.3."""
    created = nakadi.create(schema=json_schema({"properties": {"foo": {"type": "string", "format": name}}}))
    created.publish(*({"foo": text} for text in good))
    for text in bad:
        assert created.refuse({"foo": text})[0]["detail"].startswith("#/foo")


def test_several_violations_stand_line_by_line(nakadi: Nakadi) -> None:
    """3.4."""
    created = nakadi.create(schema=json_schema(FOO_AND_BAR | {"required": ["foo", "bar"]}))
    first, *others = created.refuse({"bar": 1, "more": 2})[0]["detail"].splitlines()
    assert first == "#: 3 schema violations found"
    assert sorted(others) == [
        "#/bar: expected type: String, found: Integer",
        "#: extraneous key [more] is not permitted",
        "#: required key [foo] not found",
    ]
