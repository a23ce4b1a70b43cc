"""The schema of whole events, by category: the owner's schema for the owner's part of them, and metadata beside it."""

from typing import Any

import pytest

from penstock.schema.effective import effective_schema
from penstock.schema.parsing import dialect
from penstock.schema.traversal import Schema
from tests.unit.schema.nodes import draft

CATEGORIES = pytest.mark.parametrize("category", ["undefined", "business", "data"])
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


def whole(category: str, **members: Any) -> dict[str, Any]:
    """Return an event with these members in the owner's part."""
    return {"undefined": members, "business": business(**members), "data": data(members)}[category]


REFERRING: dict[str, Schema] = {
    "definitions": {"definitions": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/definitions/n"}}},
    "a property": {"properties": {"m": {"type": "integer"}, "n": {"$ref": "#/properties/m"}}},
    "at its root": {"definitions": {"it": {"properties": {"n": {"type": "integer"}}}}, "$ref": "#/definitions/it"},
    "beside an id": {"id": "http://example.com/order", "definitions": {"n": {"id": "#n", "type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/n"}}},
    "at its root, and beside it": {"$ref": "#/definitions/it",
        "definitions": {"it": {"properties": {"n": {"$ref": "#/properties/n"}, "m": {"$ref": "#/definitions/it"}}}},
        "properties": {"n": {"type": "integer"}}},
    "at its root, twice": {"$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"properties": {"n": {"type": "integer"}}}}},
    "with names like those of a hub": {"definitions": {"penstock.whole": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/penstock.whole"}, "m": {"$ref": "#"}}},
    "by escapes": {"definitions": {"a/b~c%d": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/a~1b~0c%25d"}}},
    "into a list": {"allOf": [{"title": "a"}, {"properties": {"n": {"type": "integer"}}}],
        "properties": {"n": {"$ref": "#/allOf/1/properties/n"}}},
    "by an id within": {"definitions": {"n": {"type": "integer"},
        "a": {"id": "http://example.com/a", "properties": {"n": {"$ref": "#/definitions/n"}}}},
        "allOf": [{"$ref": "#/definitions/a"}]},
    "among $defs": {"$schema": "http://json-schema.org/draft-07/schema#",
        "$defs": {"n": {"$ref": "#/$defs/m"}, "m": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n"}}},
    "in draft 6": {"$schema": "http://json-schema.org/draft-06/schema#",
        "definitions": {"n": {"type": "integer", "exclusiveMinimum": 0}, "any": True},
        "properties": {"n": {"$ref": "#/definitions/n"}, "m": {"$ref": "#/definitions/any"}}},
    "beside the dialect of another": {"definitions": {"n": {"$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "integer"}}, "properties": {"n": {"$ref": "#/definitions/n"}}},
    "in draft 7": {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "http://example.com/order",
        "definitions": {"n": {"type": "integer", "const": 1}}, "properties": {"n": {"$ref": "#/definitions/n"}}},
}  # fmt: skip


@pytest.mark.parametrize("given", REFERRING.values(), ids=REFERRING)
def test_references_lead_where_the_owner_had_them_lead(given: Schema) -> None:
    for category in ("undefined", "business", "data"):
        assert accepts(given, whole(category, n=1), category)
        assert not accepts(given, whole(category, n="x"), category)


@CATEGORIES
def test_recursive_schema_describes_the_part_of_the_owner(category: str) -> None:
    tree: Schema = {"properties": {"n": {"type": "integer"}, "child": {"$ref": "#"}}, "required": ["n"]}

    assert accepts(tree, whole(category, n=1, child={"n": 2, "child": {"n": 3}}), category)
    assert not accepts(tree, whole(category, n=1, child={"child": {"n": 3}}), category)


@CATEGORIES
def test_recursive_schema_with_a_reference_at_its_root_keeps_its_shape(category: str) -> None:
    tree: Schema = {
        "definitions": {"node": {"properties": {"child": {"$ref": "#"}}, "additionalProperties": False}},
        "$ref": "#/definitions/node",
    }

    for compatible in (False, True):
        assert accepts(tree, whole(category, child={"child": {}}), category, compatible=compatible)
        assert not accepts(tree, whole(category, child={"more": {}}), category, compatible=compatible)
        assert not accepts(tree, whole(category, child={"metadata": METADATA}), category, compatible=compatible)


@CATEGORIES
def test_root_may_refer_to_a_boolean_schema(category: str) -> None:
    for anything in (True, False):
        given: Schema = draft(7) | {"definitions": {"any": anything}, "$ref": "#/definitions/any"}
        assert accepts(given, whole(category, n=1), category) is anything


def test_dialect_of_a_node_within_is_ignored() -> None:
    newer = {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "string"}]}

    assert accepts({"properties": {"n": newer}}, {"n": [1]}, "undefined")


def test_event_and_data_of_a_change_are_objects_whatever_the_schema() -> None:
    assert accepts({}, {}, "undefined")
    assert not accepts({}, [], "undefined")
    for given in ({}, {"definitions": {"any": {}}, "$ref": "#/definitions/any"}):
        assert accepts(given, data({"n": 1}), "data")
        assert not accepts(given, data([]), "data")


def test_deepest_schemas_are_completed_within_a_deep_call() -> None:
    given: Schema = {"type": "object"}
    for _ in range(250):
        given = {"not": given}

    def from_below(frames: int) -> None:
        if frames:
            from_below(frames - 1)
        else:
            for category in ("undefined", "business", "data"):
                for is_so in (False, True):
                    effective_schema(given, name="t", category=category, compatible=is_so, compacted=is_so)

    from_below(600)


def test_business_event_has_metadata_beside_its_own_members() -> None:
    given: Schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}

    assert accepts(given, business(n=1))
    assert not accepts(given, {"n": 1})
    assert not accepts(given, business())
    assert not accepts(given, business(n=1, more=1))


def test_data_change_has_four_members_and_no_others() -> None:
    for member in ["metadata", "data_type", "data_op", "data"]:
        change = data({"n": 1})

        assert accepts({}, change, "data")
        assert not accepts({}, {name: value for name, value in change.items() if name != member}, "data")
        assert not accepts({}, change | {member: 5}, "data")
        assert not accepts({}, change | {"more": 1}, "data")


def test_data_change_has_one_of_four_operations() -> None:
    accepted = [operation for operation in "CUDSX" if accepts({}, data({}, data_op=operation), "data")]

    assert accepted == [*"CUDS"]
    assert not any(accepts({}, data({}, data_op=operation), "data") for operation in "cuds")


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


def test_metadata_is_accepted_by_the_rules_of_its_members() -> None:
    found = {name: accepts({}, business(METADATA | members)) for name, members in (GOOD | BAD).items()}

    assert found == dict.fromkeys(GOOD, True) | dict.fromkeys(BAD, False)


def test_compacted_events_have_a_key() -> None:
    assert accepts({}, business(COMPACTED), compacted=True)
    assert not accepts({}, business(METADATA), compacted=True)
    assert not accepts({}, business(COMPACTED | {"partition_compaction_key": ""}), compacted=True)


@CATEGORIES
def test_mode_compatible_closes_the_part_of_the_owner(category: str) -> None:
    given: Schema = {"properties": {"n": {}, "inner": {"type": "object", "additionalProperties": True}}}

    assert accepts(given, whole(category, more=1, inner={"more": 1}), category)
    assert accepts(given, whole(category, n={}, inner={}), category, compatible=True)
    assert not accepts(given, whole(category, more=1), category, compatible=True)
    assert not accepts(given, whole(category, inner={"more": 1}), category, compatible=True)


@pytest.mark.parametrize("compatible", [False, True])
def test_owner_may_require_metadata_or_nothing(compatible: bool) -> None:
    given: Schema = {"required": ["metadata", "n"], "properties": {"n": {}}}

    assert accepts({"required": []}, business(), compatible=compatible)
    assert accepts(given, business(n=1), compatible=compatible)
    assert not accepts(given, business(), compatible=compatible)
    assert not accepts(given, {"n": 1}, compatible=compatible)
