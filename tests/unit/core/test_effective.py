"""The schema of whole events, by category: what an owner says holds for his part of them, and no less."""

from typing import Any

import pytest

from penstock.core.effective import effective_schema
from penstock.core.schema import dialect
from penstock.core.walk import Schema

METADATA = {"eid": "00000000-0000-0000-0000-0000000000aF", "occurred_at": "2026-11-20T10:00:00Z"}
COMPACTED = METADATA | {"partition_compaction_key": "k"}


def accepts(given: Schema, event: Any, category: str = "business", **how: bool) -> bool:
    made = {"compatible": False, "compacted": False} | how
    schema = effective_schema(given, name="order.placed", category=category, **made)
    return bool(dialect(schema)(schema, validate_formats=True).is_valid(event))


def business(metadata: Any = METADATA, **members: Any) -> dict[str, Any]:
    return {"metadata": metadata} | members


def data(held: Any, **members: Any) -> dict[str, Any]:
    return {"metadata": METADATA, "data_type": "order", "data_op": "C", "data": held} | members


REFERRING: dict[str, Schema] = {
    "definitions": {"definitions": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/definitions/n"}}},
    "a property": {"properties": {"m": {"type": "integer"}, "n": {"$ref": "#/properties/m"}}},
    "at its root": {"definitions": {"it": {"properties": {"n": {"type": "integer"}}}}, "$ref": "#/definitions/it"},
    "beside an id": {
        "id": "http://example.com/order",
        "definitions": {"n": {"id": "#n", "type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n"}},
    },
    "at its root, and beside it": {
        "$ref": "#/definitions/it",
        "definitions": {"it": {"properties": {"n": {"$ref": "#/properties/n"}, "m": {"$ref": "#/definitions/it"}}}},
        "properties": {"n": {"type": "integer"}},
    },
    "at its root, twice": {
        "$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"properties": {"n": {"type": "integer"}}}},
    },
    "with names like those of a hub": {
        "definitions": {"penstock.whole": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/penstock.whole"}, "m": {"$ref": "#"}},
    },
    "by escapes": {
        "definitions": {"a/b~c%d": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/a~1b~0c%25d"}},
    },
    "into a list": {
        "allOf": [{"title": "a"}, {"properties": {"n": {"type": "integer"}}}],
        "properties": {"n": {"$ref": "#/allOf/1/properties/n"}},
    },
    "by an id within": {
        "definitions": {
            "n": {"type": "integer"},
            "a": {"id": "http://example.com/a", "properties": {"n": {"$ref": "#/definitions/n"}}},
        },
        "allOf": [{"$ref": "#/definitions/a"}],
    },
    "among $defs": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$defs": {"n": {"$ref": "#/$defs/m"}, "m": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/$defs/n"}},
    },
    "in draft 6": {
        "$schema": "http://json-schema.org/draft-06/schema#",
        "definitions": {"n": {"type": "integer", "exclusiveMinimum": 0}, "any": True},
        "properties": {"n": {"$ref": "#/definitions/n"}, "m": {"$ref": "#/definitions/any"}},
    },
    "beside the dialect of another": {
        "definitions": {"n": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n"}},
    },
    "in draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://example.com/order",
        "definitions": {"n": {"type": "integer", "const": 1}},
        "properties": {"n": {"$ref": "#/definitions/n"}},
    },
}


@pytest.mark.parametrize("given", REFERRING.values(), ids=REFERRING)
@pytest.mark.parametrize("category", ["undefined", "business", "data"])
def test_references_lead_where_they_led(given: Schema, category: str) -> None:
    def whole(**members: Any) -> dict[str, Any]:
        return {"undefined": members, "business": business(**members), "data": data(members)}[category]

    assert accepts(given, whole(n=1), category)
    assert not accepts(given, whole(n="x"), category)


@pytest.mark.parametrize("category", ["undefined", "business", "data"])
def test_a_tree_of_the_whole_is_one_of_the_owners_part(category: str) -> None:
    tree: Schema = {"properties": {"n": {"type": "integer"}, "child": {"$ref": "#"}}, "required": ["n"]}

    def whole(held: dict[str, Any]) -> dict[str, Any]:
        return {"undefined": held, "business": business(**held), "data": data(held)}[category]

    assert accepts(tree, whole({"n": 1, "child": {"n": 2, "child": {"n": 3}}}), category)
    assert not accepts(tree, whole({"n": 1, "child": {"child": {"n": 3}}}), category)


@pytest.mark.parametrize("category", ["undefined", "business", "data"])
def test_a_tree_whose_root_refers_keeps_its_own_shape(category: str) -> None:
    tree: Schema = {
        "definitions": {"node": {"properties": {"child": {"$ref": "#"}}, "additionalProperties": False}},
        "$ref": "#/definitions/node",
    }

    def whole(held: dict[str, Any]) -> dict[str, Any]:
        return {"undefined": held, "business": business(**held), "data": data(held)}[category]

    for compatible in (False, True):
        assert accepts(tree, whole({"child": {"child": {}}}), category, compatible=compatible)
        assert not accepts(tree, whole({"child": {"more": {}}}), category, compatible=compatible)
        assert not accepts(tree, whole({"child": {"metadata": METADATA}}), category, compatible=compatible)


@pytest.mark.parametrize(("anything", "taken"), [(True, True), (False, False)])
@pytest.mark.parametrize("category", ["undefined", "business", "data"])
def test_a_root_may_refer_to_what_is_no_object(category: str, anything: bool, taken: bool) -> None:
    given: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"any": anything},
        "$ref": "#/definitions/any",
    }
    event = {"undefined": {"n": 1}, "business": business(n=1), "data": data({"n": 1})}[category]

    assert accepts(given, event, category) is taken


def test_a_schema_that_refers_lets_no_other_dialect_in() -> None:
    newer = {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "string"}]}
    given: Schema = {"properties": {"n": newer}}

    assert accepts(given, {"n": [1]}, "undefined")


def test_data_is_an_object_where_its_schema_refers_to_one_that_says_nothing() -> None:
    given: Schema = {"definitions": {"any": {}}, "$ref": "#/definitions/any"}

    assert accepts(given, data({"n": 1}), "data")
    assert not accepts(given, data([]), "data")


def test_the_deepest_schemas_are_completed_from_wherever() -> None:
    given: Schema = {"type": "object"}
    for _ in range(250):
        given = {"not": given}

    def from_below(frames: int) -> None:
        if frames:
            from_below(frames - 1)
        else:
            for category in ("undefined", "business", "data"):
                effective_schema(given, name="t", category=category, compatible=False, compacted=False)
                effective_schema(given, name="t", category=category, compatible=True, compacted=True)

    from_below(600)


def test_an_event_is_an_object_whatever_the_schema_says() -> None:
    assert accepts({}, {}, "undefined")
    assert not accepts({}, [], "undefined")
    assert not accepts({}, data([]), "data")


def test_a_business_event_has_metadata_beside_its_own_members() -> None:
    given: Schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}

    assert accepts(given, business(n=1))
    assert not accepts(given, {"n": 1})
    assert not accepts(given, business())
    assert not accepts(given, business(n=1, more=1))


@pytest.mark.parametrize("member", ["metadata", "data_type", "data_op", "data"])
def test_a_data_change_has_four_members_and_no_others(member: str) -> None:
    change = data({"n": 1})

    assert accepts({}, change, "data")
    assert not accepts({}, {name: value for name, value in change.items() if name != member}, "data")
    assert not accepts({}, change | {member: 5}, "data")
    assert not accepts({}, change | {"more": 1}, "data")


@pytest.mark.parametrize("operation", ["C", "U", "D", "S"])
def test_a_change_is_one_of_four(operation: str) -> None:
    assert accepts({}, data({}, data_op=operation), "data")
    assert not accepts({}, data({}, data_op=operation.lower()), "data")


GOOD: dict[str, dict[str, Any]] = {
    "its own name": {"event_type": "order.placed"},
    "a partition": {"partition": "0"},
    "parents": {"parent_eids": [METADATA["eid"]]},
    "a flow": {"flow_id": ""},
    "a span": {"span_ctx": {"traceparent": "00-1"}},
    "nine digits": {"occurred_at": "2026-11-20T10:00:00.123456789+14:00"},
    "small letters": {"occurred_at": "2026-11-20t10:00:00z"},
}
BAD: dict[str, dict[str, Any]] = {
    "another name": {"event_type": "order.shipped"},
    "a partition that is a number": {"partition": 0},
    "a parent that is no id": {"parent_eids": ["x"]},
    "what the hub writes": {"received_at": "2026-11-20T10:00:00Z"},
    "a version": {"version": "1.0.0"},
    "a publisher": {"published_by": "me"},
    "a span of numbers": {"span_ctx": {"a": 1}},
    "a compaction key": {"partition_compaction_key": "k"},
    "no id": {"eid": "00000000-0000-0000-0000-00000000000"},
    "no seconds": {"occurred_at": "2026-11-20T10:00Z"},
    "no zone": {"occurred_at": "2026-11-20T10:00:00"},
    "no such day": {"occurred_at": "2026-02-30T10:00:00Z"},
    "ten digits": {"occurred_at": "2026-11-20T10:00:00.1234567890Z"},
    "a number": {"occurred_at": 5},
}


@pytest.mark.parametrize("members", GOOD.values(), ids=GOOD)
def test_metadata_may_say(members: dict[str, Any]) -> None:
    assert accepts({}, business(METADATA | members))


@pytest.mark.parametrize("members", BAD.values(), ids=BAD)
def test_metadata_may_not_say(members: dict[str, Any]) -> None:
    assert not accepts({}, business(METADATA | members))


def test_events_that_are_compacted_have_a_key() -> None:
    assert accepts({}, business(COMPACTED), compacted=True)
    assert not accepts({}, business(METADATA), compacted=True)
    assert not accepts({}, business(COMPACTED | {"partition_compaction_key": ""}), compacted=True)


@pytest.mark.parametrize("category", ["undefined", "business", "data"])
def test_compatible_closes_what_is_the_owners(category: str) -> None:
    given: Schema = {"properties": {"n": {}, "inner": {"type": "object", "additionalProperties": True}}}

    def whole(**members: Any) -> dict[str, Any]:
        return {"undefined": members, "business": business(**members), "data": data(members)}[category]

    assert accepts(given, whole(more=1, inner={"more": 1}), category)
    assert accepts(given, whole(n={}, inner={}), category, compatible=True)
    assert not accepts(given, whole(more=1), category, compatible=True)
    assert not accepts(given, whole(inner={"more": 1}), category, compatible=True)


def test_nothing_required_may_be_said_of_nothing() -> None:
    assert accepts({"required": []}, business())


@pytest.mark.parametrize("compatible", [False, True])
def test_an_owner_may_ask_for_the_metadata_too(compatible: bool) -> None:
    given: Schema = {"required": ["metadata", "n"], "properties": {"n": {}}}

    assert accepts(given, business(n=1), compatible=compatible)
    assert not accepts(given, business(), compatible=compatible)
    assert not accepts(given, {"n": 1}, compatible=compatible)
