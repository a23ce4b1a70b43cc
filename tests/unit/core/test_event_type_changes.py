"""Changes of an event type: those of its owner, those of an administrator, and those of its schema."""

import json
from typing import Any

import pytest

from penstock.core.registry.definition import NAKADI
from penstock.core.registry.event_type import EventType
from penstock.core.registry.replacement import replace_definition
from penstock.errors import IncompatibleSchema, InvalidEventType, UnsupportedFormat
from penstock.testing.factories import an_event_type
from tests.failing import has_code

TEXT = '{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}'
ONE = {"data_type": "user", "value": "ada"}
LISTS = {"admins": [ONE], "readers": [ONE], "writers": [ONE]}
STATISTIC = {"messages_per_minute": 1, "message_size": 1, "read_parallelism": 2, "write_parallelism": 3}
SELECTOR = {"type": "static", "name": "owner", "value": "ada"}
BUSINESS = {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}
KEPT = {
    "annotations": {"a/b": "c"},
    "labels": {"a": "b"},
    "default_statistic": STATISTIC,
    "options": {"retention_time": 86_400_000},
}


def schema(text: str = TEXT) -> dict[str, str]:
    return {"type": "json_schema", "schema": text}


LESS = {"schema": schema('{"properties": {"a": {"type": "string"}}}')}
"""Without the property b."""


def defined(**members: Any) -> dict[str, Any]:
    definition = an_event_type("order.placed", schema=schema(), **members)
    if "partition_count" not in members:
        del definition["partition_count"]
    return definition


def event_type(**members: Any) -> EventType:
    return EventType.parse(defined(**members))


def put(before: dict[str, Any], after: dict[str, Any], *, admin: bool = False, **more: Any) -> EventType:
    return replace_definition(event_type(**before), defined(**after), admin=admin, **more).event_type


ALLOWED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "owner": ({}, {"owning_application": "another"}),
    "ordering keys": ({}, {"ordering_key_fields": ["a"], "ordering_instance_ids": ["b"]}),
    "annotations": ({"annotations": {"a": "b"}}, {"annotations": {"c": "d"}}),
    "labels": ({"labels": {"a": "b"}}, {"labels": {}}),
    "to hash": ({}, {"partition_strategy": "hash", "partition_key_fields": ["a"]}),
    "to user_defined": ({}, {"partition_strategy": "user_defined"}),
    "none to forward": ({"compatibility_mode": "none"}, {"compatibility_mode": "forward"}),
    "forward to compatible": ({}, {"compatibility_mode": "compatible"}),
    "audience": ({"audience": "company-internal"}, {"audience": "external-public"}),
    "a first audience": ({}, {"audience": "company-internal"}),
    "authorization": ({}, {"authorization": LISTS}),
    "a first selector": ({}, {"event_owner_selector": SELECTOR}),
    "the same selector": ({"event_owner_selector": SELECTOR}, {"event_owner_selector": SELECTOR}),
    "retention": (KEPT, {"options": {"retention_time": 1}}),
    "to compact_and_delete": (BUSINESS, BUSINESS | {"cleanup_policy": "compact_and_delete"}),
    "to business": ({}, BUSINESS),
    "a statistic of as many": ({"partition_count": 3}, {"default_statistic": STATISTIC}),
    "the same statistic": (KEPT, {"default_statistic": STATISTIC | {"message_size": 7}}),
    "what is not known": ({"x": 1}, {"x": 2}),
}
FOR_ADMINS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "to consumers": ({}, {"options": {"evolution": "consumers"}}, "options.evolution"),
    "compatible to forward": ({"compatibility_mode": "compatible"}, {}, "compatibility_mode"),
    "compatible to none": ({"compatibility_mode": "compatible"}, {"compatibility_mode": "none"}, "compatibility_mode"),
    "forward to none": ({}, {"compatibility_mode": "none"}, "compatibility_mode"),
    "none to compatible": ({"compatibility_mode": "none"}, {"compatibility_mode": "compatible"}, "compatibility_mode"),
    "another selector": ({"event_owner_selector": SELECTOR}, {"event_owner_selector": SELECTOR | {"value": "grace"}},
        "event_owner_selector"),
    "no selector": ({"event_owner_selector": SELECTOR}, {}, "event_owner_selector"),
}  # fmt: skip
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "partitions": ({}, {"partition_count": 2}, "partition_count"),
    "another statistic": (KEPT, {"default_statistic": STATISTIC | {"read_parallelism": 3}}, "default_statistic"),
    "a first statistic": ({}, {"default_statistic": STATISTIC}, "default_statistic"),
    "a statistic of fewer": ({"partition_count": 4}, {"default_statistic": STATISTIC}, "default_statistic"),
    "no audience": ({"audience": "company-internal"}, {}, "audience"),
    "business to data": (BUSINESS, BUSINESS | {"category": "data"}, "category"),
    "business to undefined": (BUSINESS, {}, "category"),
    "undefined to data": ({}, BUSINESS | {"category": "data"}, "category"),
    "to compatible business": ({}, BUSINESS | {"compatibility_mode": "compatible"}, "category"),
    "to compact": (BUSINESS, BUSINESS | {"cleanup_policy": "compact"}, "cleanup_policy"),
    "from compact": (BUSINESS | {"cleanup_policy": "compact"}, BUSINESS | {"cleanup_policy": "compact_and_delete"},
        "cleanup_policy"),
    "back to delete": (BUSINESS | {"cleanup_policy": "compact_and_delete"}, BUSINESS, "cleanup_policy"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), ALLOWED.values(), ids=ALLOWED)
def test_owner_may_change_a_field(before: dict[str, Any], after: dict[str, Any]) -> None:
    for admin in (False, True):
        found = put(before, after, admin=admin)

        expected = event_type(**({name: before[name] for name in before if name in KEPT} | after))
        shown = {name: found.definition[name] for name in after if name != "default_statistic"}
        assert shown == {name: expected.definition[name] for name in shown}


@pytest.mark.parametrize(("before", "after", "field"), FOR_ADMINS.values(), ids=FOR_ADMINS)
def test_administrator_alone_may_change_a_field(before: dict[str, Any], after: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidEventType) as refused:
        put(before, after)

    assert refused.value.field == field
    put(before, after, admin=True)


@pytest.mark.parametrize(("before", "after", "field"), REFUSED.values(), ids=REFUSED)
def test_change_is_refused_for_owner_and_administrator(
    before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    for admin in (False, True):
        with pytest.raises(InvalidEventType) as refused:
            put(before, after, admin=admin)
        assert refused.value.field.startswith(field)


HASH: dict[str, Any] = {"partition_strategy": "hash", "partition_key_fields": ["a"]}
REORDERING: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "from hash": (HASH, {"partition_strategy": "random"}, "partition_strategy"),
    "from hash to user_defined": (HASH, {"partition_strategy": "user_defined"}, "partition_strategy"),
    "from user_defined": ({"partition_strategy": "user_defined"}, HASH, "partition_strategy"),
    "other key fields": (HASH, HASH | {"partition_key_fields": ["a", "b"]}, "partition_key_fields"),
}


@pytest.mark.parametrize(("before", "after", "field"), REORDERING.values(), ids=REORDERING)
def test_change_that_loses_the_order_of_events_is_refused_unless_allowed(
    before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    for admin in (False, True):
        with pytest.raises(InvalidEventType, match="allow_reordering") as refused:
            put(before, after, admin=admin)

        assert refused.value.field == field
        changed = put(before, after, admin=admin, allow_reordering=True)
        assert {name: changed.definition[name] for name in after} == after


def test_key_fields_change_in_strict_mode() -> None:
    put(HASH, HASH | {"partition_key_fields": ["b"]}, limits=NAKADI)


def test_name_and_authorization_cannot_be_taken_away() -> None:
    with pytest.raises(InvalidEventType, match="name"):
        replace_definition(event_type(), defined() | {"name": "order.shipped"}, admin=True)
    with pytest.raises(InvalidEventType) as refused:
        put({"authorization": LISTS}, {"authorization": None})

    detail = "Changing authorization object to `null` is not possible due to existing one"
    assert refused.value.detail == detail


def test_fields_that_are_left_out_or_null_stay() -> None:
    for after in ({}, dict.fromkeys(KEPT)):
        found = put(KEPT, after).definition
        assert {name: found[name] for name in KEPT} == KEPT


def test_definition_as_a_hub_shows_it_is_no_change() -> None:
    old = event_type(**KEPT, audience="company-internal", authorization=LISTS)
    shown = old.definition | {"partition_count": 3, "created_at": "then", "updated_at": "now"}

    done = replace_definition(old, shown, admin=False)

    assert (done.event_type, done.verdict) == (old, None)


def test_limits_hold_for_a_change() -> None:
    with pytest.raises(InvalidEventType, match="retention_time"):
        replace_definition(event_type(), defined(options={"retention_time": 1}), admin=True, limits=NAKADI)


# Changes of the schema.


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (TEXT, "1.0.0"),
        (TEXT + " ", "1.0.1"),
        ('{"title": "t", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}', "1.0.1"),
        ('{"properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {}}}', "1.1.0"),
        ('{"properties": {"a": {"type": "string"}}}', "2.0.0"),
    ],
    ids=["the same", "spaces", "a title", "a property more", "one fewer"],
)
def test_version_rises_by_the_level_of_a_change(text: str, version: str) -> None:
    old = event_type(compatibility_mode="none")

    done = replace_definition(old, old.definition | {"schema": schema(text)}, admin=True)

    assert done.event_type.schema_version == version
    assert (done.verdict is None) == (text == TEXT)
    if done.verdict is None:
        assert done.event_type.definition["schema"] == old.definition["schema"]


def incompatibility(old: EventType, **changes: Any) -> IncompatibleSchema:
    with pytest.raises(IncompatibleSchema) as refused:
        replace_definition(old, old.definition | changes, admin=True)
    return refused.value


def test_schema_is_judged_by_the_mode_before_the_change() -> None:
    error = incompatibility(event_type(), **LESS, compatibility_mode="none")

    assert error.detail == (
        "Invalid schema: #/properties/b: properties cannot be removed; the mode that it has, forward, judges this: "
        "change `compatibility_mode` to none by itself first, and the schema then"
    )
    [change] = error.changes
    assert change.pop("instead")
    assert change.items() >= {
        "pointer": "#/properties/b", "rule": "property-removed", "old": {"type": "string"}, "new": None,
        "refused": True, "producers": True, "consumers": True,
    }.items()  # fmt: skip


CONSUMERS = {"options": {"evolution": "consumers"}}


def test_schema_is_judged_by_the_evolution_before_the_change() -> None:
    error = incompatibility(event_type(), **LESS, **CONSUMERS)
    assert "change `options.evolution` to consumers by itself first" in error.detail
    assert (error.mode, error.evolution) == ("forward", "nakadi")

    free = event_type(**CONSUMERS)
    done = replace_definition(free, free.definition | {"options": {}} | LESS, admin=False).event_type
    assert (done.schema_version, done.evolution) == ("1.1.0", "nakadi")


def test_evolution_for_consumers_needs_the_mode_forward() -> None:
    for mode in ["none", "compatible"]:
        with pytest.raises(
            InvalidEventType, match=f"in the compatibility_mode forward alone, not in {mode}"
        ) as refused:
            event_type(compatibility_mode=mode, **CONSUMERS)

        assert refused.value.field == "options.evolution"


def test_evolution_is_one_of_two() -> None:
    for value in ["Consumers", "guideline", 1, ["consumers"]]:
        with pytest.raises(InvalidEventType, check=has_code("malformed-event-type"), match="nakadi or consumers"):
            event_type(options={"evolution": value})


def test_change_that_is_refused_at_once_is_accepted_in_two_steps() -> None:
    """The error names the order of the steps."""
    old, none = event_type(), {"compatibility_mode": "none"}
    assert "change `compatibility_mode` to none by itself first" in incompatibility(old, **none, **LESS).detail
    free = replace_definition(old, old.definition | none, admin=True).event_type
    done = replace_definition(free, free.definition | LESS, admin=True).event_type
    assert (done.schema_version, done.compatibility_mode) == ("2.0.0", "none")

    old, strict = (
        EventType.parse(defined() | {"schema": schema('{"properties": {"a": {}}}')}),
        {"compatibility_mode": "compatible"},
    )
    error = incompatibility(old, **LESS, **strict)
    assert "change the schema by itself first, and `compatibility_mode` to" in error.detail
    typed = replace_definition(old, old.definition | LESS, admin=True).event_type
    done = replace_definition(typed, typed.definition | strict, admin=True).event_type
    assert (done.schema_version, done.compatibility_mode) == ("1.1.0", "compatible")


@pytest.mark.parametrize(
    ("mode", "new_mode", "reason"),
    [
        ("compatible", "forward", "; the mode that it has, compatible, judges this, and forward would refuse it too"),
        ("forward", "compatible", "; the mode that it has, forward, judges this, and compatible would refuse it too"),
        ("forward", "forward", ""),
    ],
)
def test_refusal_says_that_no_order_of_changes_helps(mode: str, new_mode: str, reason: str) -> None:
    error = incompatibility(event_type(compatibility_mode=mode), **LESS, compatibility_mode=new_mode)

    assert error.detail == f"Invalid schema: #/properties/b: properties cannot be removed{reason}"


def test_schema_may_be_closed_together_with_the_mode_compatible() -> None:
    closed = schema(TEXT[:-1] + ', "additionalProperties": false, "required": ["a"]}')
    old = event_type()

    incompatibility(old, schema=closed)
    done = replace_definition(old, old.definition | {"schema": closed, "compatibility_mode": "compatible"}, admin=False)

    assert done.event_type.compatibility_mode == "compatible"


def ordered(by: str, **members: Any) -> EventType:
    return event_type(ordering_key_fields=[by], **members)


def test_schema_without_an_ordering_key_is_refused_with_all_its_changes() -> None:
    old = ordered("b")

    with pytest.raises(InvalidEventType) as refused:
        replace_definition(
            old, old.definition | {"schema": schema('{"properties": {"a": {"type": "null"}}}')}, admin=True
        )

    missing = "must be paths in the schema, which has no 'b' at #/properties/b"
    changes = "#/properties/a: types must be the same, #/properties/b: properties cannot be removed"
    broken = f"cannot be changed so: {changes}"
    fields = refused.value.fields
    assert refused.value.detail == f'Field "ordering_key_fields" {missing}\nField "schema" {broken}'
    assert fields["violations"] == [
        {"field": "ordering_key_fields", "reason": missing},
        {"field": "schema", "reason": broken},
    ]
    assert [each["pointer"] for each in fields["changes"]] == ["#/properties/a", "#/properties/b"]
    assert (fields["producers"], fields["consumers"]) == (False, False)


def test_ordering_key_alone_is_wrong_where_the_mode_allows_the_change() -> None:
    for mode in ["none", "NONE"]:
        old = ordered("b", compatibility_mode="none")

        with pytest.raises(InvalidEventType, match=r"^Field .ordering_key_fields. [^\n]*#/properties/b$") as refused:
            replace_definition(old, old.definition | LESS | {"compatibility_mode": mode}, admin=True)

        [change] = refused.value.changes
        assert (change["pointer"], change["refused"]) == ("#/properties/b", False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": None},
        {"schema": schema("{")},
        {"schema": schema('{"type": "array"}')},
        {"schema": {"type": "avro_schema", "schema": "{}"}},
        {"compatibility_mode": "x"},
        {"category": 1},
        {"ordering_key_fields": ["c"]},
    ],
    ids=["no schema", "no JSON", "no object", "Avro", "no mode", "no category", "the same schema"],
)
def test_refusal_names_no_changes_where_schemas_cannot_be_compared(wrong: dict[str, Any]) -> None:
    old = ordered("b")

    with pytest.raises((InvalidEventType, UnsupportedFormat)) as refused:
        replace_definition(old, old.definition | wrong, admin=True)

    assert "changes" not in refused.value.fields


def many(count: int, kind: str, **first: Any) -> dict[str, str]:
    return schema(json.dumps({"properties": first | {f"p{n}": {"type": kind} for n in range(count)}}))


def test_refusal_names_a_limited_number_of_changes_and_refused_ones_first() -> None:
    old = EventType.parse(an_event_type("order.placed", schema=many(2_000, "string")))

    error = incompatibility(old, schema=many(2_000, "integer", added={}))

    changes = error.changes
    assert (len(changes), all(change["refused"] for change in changes)) == (100, True)
    assert "and 1980 more" in error.detail
    assert len(json.dumps([error.detail, error.fields])) < 100_000


def test_reference_in_thousands_of_spellings_is_compared_once_and_its_long_values_are_cut() -> None:
    letters = tuple(enumerate("abcdefghijk"))

    def referring(values: int) -> dict[str, str]:
        names = [f"%{ord(letter):02x}" if n >> bit & 1 else letter for n in range(2_000) for bit, letter in letters]
        spelled = ["".join(names[at : at + 11]) for at in range(0, len(names), 11)]
        properties = {f"p{n}": {"$ref": f"#/definitions/{name}"} for n, name in enumerate(spelled)}
        return schema(
            json.dumps({"properties": properties, "definitions": {"abcdefghijk": {"enum": [*range(values)]}}})
        )

    old = EventType.parse(an_event_type("order.placed", schema=referring(20_000)))
    error = incompatibility(old, schema=referring(20_001))

    [change] = error.changes
    assert (change["rule"], change["old"][-1], len(change["old"])) == ("enum", "…", 4_001)
