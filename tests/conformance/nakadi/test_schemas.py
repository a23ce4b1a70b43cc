"""Schemas: their versions, rules and evolution, and the events that they accept.

Here are examples of their rules; the unit tests of schemas have each keyword, change and violation.
"""

import json
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import ON_SQLITE
from tests.nakadi import SCHEMA, EventType, Nakadi, business, change, json_schema, metadata, problem

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


def foo(node: Any = TEXT, **members: Any) -> dict[str, Any]:
    """Return a schema whose property foo is *node*."""
    return {"properties": {"foo": node}} | members


FOO_AND_BAR = {"properties": {"foo": TEXT, "bar": TEXT}}


@pytest.fixture
def two(nakadi: Nakadi) -> EventType:
    """An event type whose schema has the versions 1.0.0 and 1.1.0."""
    created = nakadi.create()
    answer = created.post("/schemas", json_schema(FOO_AND_BAR))
    assert (answer.status_code, answer.content) == (200, b""), "never 201, whatever the description says"
    return created


# Versions


def page(of: EventType, **arguments: Any) -> tuple[list[str], dict[str, str]]:
    """Return the versions of a page, and its links."""
    found = of.get("/schemas", **arguments).json()
    assert set(found) == {"items", "_links"}
    assert all(each.keys() >= {"type", "schema", "version", "created_at"} for each in found["items"])
    return [each["version"] for each in found["items"]], {name: at["href"] for name, at in found["_links"].items()}


def test_versions_are_listed_newest_first_with_links_to_other_pages(two: EventType) -> None:
    """SchemaControllerAT.whenGetSchemasThenList, …WithOffset, …WithGreatOffset."""
    path = f"/event-types/{two.name}/schemas"
    assert page(two) == (["1.1.0", "1.0.0"], {})
    assert page(two, offset=0, limit=1) == (["1.1.0"], {"next": f"{path}?offset=1&limit=1"})
    assert page(two, offset=1, limit=1) == (["1.0.0"], {"prev": f"{path}?offset=0&limit=1"})
    assert two.http.get(f"{path}?offset=1&limit=1").json() == two.get("/schemas", offset=1, limit=1).json()
    assert page(two, offset=2, limit=5) == page(two, offset=5, limit=2) == ([], {})
    for wrong in ({"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"offset": -1}, {"offset": "x"}):
        problem(two.get("/schemas", **wrong), 400)


def test_versions_are_ordered_as_numbers(nakadi: Nakadi) -> None:
    """A new major version sets minor and patch to 0, a new minor version sets patch to 0."""
    created = nakadi.create(compatibility_mode="none")
    for number in range(20):
        assert created.post("/schemas", json_schema(foo(title=str(number)))).status_code == 200
    for schema in (FOO_AND_BAR, {"properties": {}}):
        assert created.post("/schemas", json_schema(schema)).status_code == 200
    wanted = ["2.0.0", "1.1.0", *(f"1.0.{patch}" for patch in range(20, -1, -1))]
    assert page(created, limit=1000)[0] == wanted
    assert page(created, limit=3, offset=3)[0] == wanted[3:6]
    assert page(created) == (wanted[:20], {"next": f"/event-types/{created.name}/schemas?offset=20&limit=20"})


def test_version_is_shown_by_its_number_or_as_latest(two: EventType) -> None:
    first, latest = two.get("/schemas/1.0.0").json(), two.get("/schemas/latest").json()
    assert (first["schema"], first["version"]) == (SCHEMA, "1.0.0")
    assert latest == two.get("/schemas/1.1.0").json() == two.shown()["schema"]
    problem(two.get("/schemas/1.2.0"), 404)
    for text in ("1", "1.0", "1.0.0.0", "x", "1.0.x", "LATEST%3F"):
        problem(two.http.get(f"{two.path}/schemas/{text}"), 400)


@pytest.mark.parametrize("spelling", [SCHEMA, '{"properties":{"foo":{"type":"string"}}}'], ids=["same", "other"])
def test_fetch_finds_the_version_with_the_same_meaning_and_makes_none(two: EventType, spelling: str) -> None:
    """SchemaControllerAT.whenCreateSchemaWithFetchThen200."""
    answer = two.post("/schemas", json_schema(spelling), fetch="true")
    assert (answer.status_code, answer.json()) == (200, two.get("/schemas/1.0.0").json())
    missing = problem(two.post("/schemas", json_schema({"properties": {}}), fetch="true"), 404)
    assert missing["detail"] == f"no schema version of '{two.name}' says the same"
    assert (missing["event_type"], missing["version"]) == (two.name, None)
    assert page(two)[0] == ["1.1.0", "1.0.0"]


def test_same_text_makes_no_version_and_another_spelling_a_patch(two: EventType) -> None:
    assert two.post("/schemas", json_schema(FOO_AND_BAR)).status_code == 200
    assert two.changed(labels={"a": "b"})["schema"]["version"] == "1.1.0"
    assert two.post("/schemas", json_schema(json.dumps(FOO_AND_BAR, indent=1))).status_code == 200
    assert page(two)[0] == ["1.1.1", "1.1.0", "1.0.0"]


def test_compatibility_check_judges_a_schema_and_stores_nothing(two: EventType) -> None:
    def check(version: str, **schema: Any) -> Any:
        return two.post(f"/schemas/{version}/compatibility-check", schema)

    before = two.shown()
    good = check("latest", schema=json.dumps(FOO_AND_BAR | {"title": "t"})).json()
    assert (good["compatible"], good["compatibility_mode"]) == (True, "compatible")
    assert good["validated_against_version"] == "1.1.0"
    assert "error" not in good
    bad = check("1.1.0", schema=json.dumps(foo())).json()
    assert bad["compatible"] is False
    assert "properties cannot be removed" in bad["error"]
    older = check("1.0.0", schema=json.dumps(foo())).json()
    assert (older["compatible"], older["validated_against_version"]) == (True, "1.0.0")
    problem(check("7.0.0", schema="{}"), 404)
    problem(check("latest", type="avro_schema", schema="{}"), 415)
    assert two.shown() == before


def test_schemas_of_an_unknown_event_type_are_answered_404(nakadi: Nakadi) -> None:
    """SchemaControllerAT.whenGetSchemasNoSchemasThen404."""
    nowhere = EventType(nakadi.http, "nowhere")
    problem(nowhere.get("/schemas"), 404)
    problem(nowhere.get("/schemas/latest"), 404)
    problem(nowhere.post("/schemas", json_schema(foo())), 404)
    problem(nowhere.post("/schemas/latest/compatibility-check", {"schema": "{}"}), 404)


@ON_SQLITE
@pytest.mark.parametrize("path", ["/schemas", "/schemas?fetch=true", "/schemas/latest/compatibility-check"])
def test_body_without_a_schema_is_refused_by_its_field(two: EventType, path: str) -> None:
    for given, status in (({}, 422), ({"schema": {}}, 400)):
        assert problem(two.post(path, {"type": "json_schema"} | given), status)["field"] == "schema"


# Acceptable schemas


@ON_SQLITE
@pytest.mark.parametrize(
    "schema",
    [
        '{"properties": {},}',
        '{"type": "object", "type": "object"}',
        "",
        "null",
        '{"type": "array"}',
        '{"type": ["object", "null"]}',
        '{"$schema": "http://json-schema.org/draft-03/schema#"}',
        '{"properties": {"foo": {"$ref": "#/definitions/nowhere"}}}',
        '{"properties": {"foo": {"minimum": "1"}}}',
        '{"properties": {"foo": {"pattern": "["}}}',
    ],
)
def test_unacceptable_schema_is_refused_on_creation_and_as_a_new_version(nakadi: Nakadi, schema: str) -> None:
    assert "schema" in nakadi.refuse(compatibility_mode="none", schema=json_schema(schema))
    created = nakadi.create(compatibility_mode="none")
    problem(created.post("/schemas", json_schema(schema)), 422)
    assert page(created)[0] == ["1.0.0"]


@ON_SQLITE
def test_remote_reference_is_never_fetched(nakadi: Nakadi) -> None:
    reference = f"{nakadi.http.base_url}/health"
    assert reference in nakadi.refuse(schema=json_schema(foo({"$ref": reference})))


@ON_SQLITE
def test_business_schema_may_not_define_metadata(nakadi: Nakadi) -> None:
    schema = json_schema({"properties": {"metadata": {"type": "object"}}})
    enriched = {"enrichment_strategies": ["metadata_enrichment"]}
    assert "metadata" in nakadi.refuse(category="business", schema=schema, **enriched)
    nakadi.create(category="data", schema=schema)
    nakadi.create(schema=schema)


@ON_SQLITE
def test_compatible_mode_prohibits_unknown_keywords_and_names_each(nakadi: Nakadi) -> None:
    schema = json_schema(DRAFT_7 | foo({"x-own": 1, "const": 2}))
    detail = nakadi.refuse(schema=schema)
    assert "#/properties/foo" in detail
    assert all(f"extraneous key [{each}] is not permitted" in detail for each in ("const", "x-own"))
    for mode in ("forward", "none"):
        nakadi.create(compatibility_mode=mode, schema=schema)


# Evolution

CHANGES: dict[str, tuple[Any, Any, str, str, str]] = {
    "title": (foo(title="a"), foo(title="b"), "1.0.1", "1.0.1", "1.0.1"),
    "property added": (foo(), FOO_AND_BAR, "1.1.0", "1.1.0", "1.1.0"),
    "type narrowed": (foo({}), foo(), "1.1.0", "1.1.0", "a type cannot be given"),
    "required extended": (foo(), foo(required=["foo"]), "1.1.0", "1.1.0", "required array changed"),
    "property removed": (foo(), {"properties": {}}, "2.0.0", *["#/properties/foo: properties cannot be removed"] * 2),
    "type changed": (foo(), foo(NUMBER), "2.0.0", *["types must be the same"] * 2),
    "enum extended": (foo({"enum": ["a"]}), foo({"enum": ["a", "b"]}), "2.0.0", *["enum array changed"] * 2),
    "attribute changed": (
        foo(TEXT | {"maxLength": 5}),
        foo(TEXT | {"maxLength": 6}),
        "2.0.0",
        *["change to attribute value not allowed"] * 2,
    ),
    "pattern added, which Nakadi overlooks": (foo(), foo(TEXT | {"pattern": "a"}), "2.0.0", *["Invalid schema"] * 2),
    "reference to itself": (
        foo({"$ref": "#/definitions/n"}, definitions={"n": {"properties": {"a": {"$ref": "#/definitions/n"}}}}),
        foo(
            {"$ref": "#/definitions/n"},
            definitions={"n": {"properties": {"a": {"$ref": "#/definitions/n"}, "b": TEXT}}},
        ),
        "1.1.0",
        "1.1.0",
        "1.1.0",
    ),
}
"""The old and the new schema; then for the modes none, forward and compatible the version, or the refusal."""


@ON_SQLITE
@pytest.mark.parametrize("name", CHANGES)
def test_schema_change_makes_a_version_of_its_level_or_is_refused(nakadi: Nakadi, name: str) -> None:
    old, new, *outcomes = CHANGES[name]
    for mode, outcome in zip(("none", "forward", "compatible"), outcomes, strict=True):
        created = nakadi.create(compatibility_mode=mode, schema=json_schema(old))
        answer = created.post("/schemas", json_schema(new))
        if outcome[0].isdecimal():
            assert answer.status_code == 200, (mode, answer.text)
            assert page(created)[0] == [outcome, "1.0.0"], mode
        else:
            detail = problem(answer, 422)["detail"]
            assert detail.startswith("Invalid schema: #")
            assert outcome in detail, mode
            assert page(created)[0] == ["1.0.0"], mode


@ON_SQLITE
def test_refusal_names_each_offending_change(nakadi: Nakadi) -> None:
    created = nakadi.create(schema=json_schema({"properties": {"a": TEXT, "b": TEXT}}))
    assert problem(created.post("/schemas", json_schema({"properties": {"a": NUMBER}})), 422)["detail"] == (
        "Invalid schema: #/properties/a: types must be the same, #/properties/b: properties cannot be removed"
    )


@ON_SQLITE
def test_replacement_is_judged_by_the_old_mode(nakadi: Nakadi) -> None:
    """UserJourneyAT.userJourneyM1: an optional property takes 1.0.0 to 1.1.0."""
    created = nakadi.create(compatibility_mode="none", schema=json_schema(foo()))
    assert created.changed(schema=json_schema(FOO_AND_BAR))["schema"]["version"] == "1.1.0"
    assert (
        created.changed(compatibility_mode="forward", schema=json_schema(foo(NUMBER)))["schema"]["version"] == "2.0.0"
    )
    problem(created.put(compatibility_mode="none", schema=json_schema(foo())), 422)


@ON_SQLITE
def test_change_to_compatible_mode_allows_few_schema_changes(nakadi: Nakadi) -> None:
    for schema, status in (
        (foo(title="t"), 200),
        (FOO_AND_BAR, 200),
        (foo(required=["foo"]), 200),
        (foo(additionalProperties=False), 200),
        (foo(NUMBER), 422),
        ({"properties": {}}, 422),
        (foo(additionalProperties=TEXT), 422),
    ):
        created = nakadi.create(compatibility_mode="forward", schema=json_schema(foo()))
        answer = created.put(compatibility_mode="compatible", schema=json_schema(schema))
        assert answer.status_code == status, schema
    created = nakadi.create(compatibility_mode="forward", schema=json_schema(foo({"not": {}})))
    problem(created.put(compatibility_mode="compatible"), 422)


# Events


@ON_SQLITE
def test_undefined_event_is_validated_as_it_is(nakadi: Nakadi) -> None:
    created = nakadi.create(schema=json_schema(foo(required=["foo"])))
    created.publish({"foo": "bar"})
    assert created.refuse({})[0]["detail"] == "#: required key [foo] not found"
    assert created.refuse({"foo": 1})[0]["detail"] == "#/foo: expected type: String, found: Integer"


@ON_SQLITE
def test_business_event_has_its_fields_beside_metadata(nakadi: Nakadi) -> None:
    created = nakadi.create(category="business", schema=json_schema(foo(required=["foo"])))
    created.publish(business(foo="bar"))
    assert created.refuse({"foo": "bar"})[0]["detail"] == "#: required key [metadata] not found"
    assert created.refuse(business())[0]["detail"] == "#: required key [foo] not found"
    assert created.refuse(business(foo="a", more=1))[0]["detail"] == "#: extraneous key [more] is not permitted"


@ON_SQLITE
def test_data_change_has_its_fields_under_data(nakadi: Nakadi) -> None:
    schema = foo({"$ref": "#/definitions/text"}, required=["foo"], definitions={"text": TEXT})
    created = nakadi.create(category="data", compatibility_mode="forward", schema=json_schema(schema))
    created.publish(*(change({"foo": "bar", "more": 1}, data_op=operation) for operation in "CUDS"))
    assert "#/data/foo" in created.refuse(change({"foo": 1}))[0]["detail"]
    for event in (
        change({"foo": "bar"}, data_op="c"),
        change({"foo": "bar"}, data_type=1),
        change({"foo": "bar"}, more=1),
        change({}),
        {"data": {"foo": "bar"}, "metadata": metadata()},
        {"foo": "bar", "metadata": metadata()},
    ):
        created.refuse(event)


@ON_SQLITE
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (foo(), {"foo": "a"}, {"foo": "a", "more": 1}),
        ({"properties": {"o": foo()}}, {"o": {"foo": "a"}}, {"o": {"more": 1}}),
        ({"properties": {"l": {"items": foo()}}}, {"l": [{"foo": "a"}]}, {"l": [{"more": 1}]}),
        (foo(additionalProperties=True), {"foo": "a"}, {"foo": "a", "more": 1}),
        ({"type": "object", "patternProperties": {"^x": {"type": "object"}}}, {"xy": {"more": 1}}, {"y": {}}),
        ({"properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}),
    ],
    ids=["root", "object", "items", "own", "patterns", "dependencies"],
)
def test_compatible_schema_is_closed_and_others_stay_open(
    nakadi: Nakadi, schema: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    created = nakadi.create(schema=json_schema(schema))
    created.publish(good)
    assert created.refuse(bad)[0]["step"] == "validating"
    nakadi.create(compatibility_mode="forward", schema=json_schema(schema)).publish(good, bad)


@ON_SQLITE
@pytest.mark.parametrize("category", ["business", "data"])
def test_metadata_is_closed_in_every_mode(nakadi: Nakadi, category: str) -> None:
    created = nakadi.create(category=category, compatibility_mode="forward")

    def event(**members: Any) -> dict[str, Any]:
        return business(foo="bar", meta=members) if category == "business" else change({"foo": "bar"}, meta=members)

    created.publish(event(parent_eids=["7b7c7a6e-0000-4000-8000-000000000000"], flow_id="f", span_ctx={"ot": "b"}))
    created.publish(event(occurred_at="2026-01-02t03:04:05.123456789+02:00", partition="0", event_type=created.name))
    for members in (
        {"eid": "not-a-uuid"},
        {"occurred_at": "2026-01-02T03:04:05"},
        {"event_type": "another"},
        {"received_at": "2026-01-02T03:04:05Z"},
        {"partition_compaction_key": "a"},
        {"more": 1},
    ):
        [item] = created.refuse(event(**members))
        assert (item["publishing_status"], item["step"]) == ("failed", "validating")
        assert "#/metadata" in item["detail"]


@ON_SQLITE
@pytest.mark.parametrize("policy", ["compact", "compact_and_delete"])
def test_compacted_event_needs_a_key(nakadi: Nakadi, policy: str) -> None:
    """EventTypeAT.compactedEventTypeJourney."""
    created = nakadi.create(category="business", cleanup_policy=policy)
    created.publish(business(foo="a", meta={"partition_compaction_key": "k"}))
    for members in ({}, {"partition_compaction_key": ""}, {"partition_compaction_key": 1}):
        assert "partition_compaction_key" in created.refuse(business(foo="a", meta=members))[0]["detail"]


@ON_SQLITE
def test_format_is_checked_if_it_is_known(nakadi: Nakadi) -> None:
    for name, good, bad in (
        ("date-time", "2026-01-02t03:04:05.1+01:00", "2026-01-02"),
        ("iso-4217", "USD", "EURO"),
        ("ISO-4217", "EUR", "eur"),
        ("email", "jane@example.org", "jane"),
        ("uri", "https://example.org/", "::"),
        ("hostname", "example.org", "-x-"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", "127.0.0.1"),
        ("no-such-format", "anything", None),
    ):
        created = nakadi.create(schema=json_schema(foo(TEXT | {"format": name})))
        created.publish({"foo": good})
        if bad:
            assert created.refuse({"foo": bad})[0]["detail"].startswith("#/foo")
