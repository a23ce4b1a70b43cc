"""What may change of an event type, field by field: by its owner, and by who administers the hub."""

import json
from typing import Any

import pytest

from penstock.core.event_type import EventType
from penstock.core.limits import NAKADI
from penstock.core.replacement import replaced
from penstock.errors import IncompatibleSchema, InvalidEventType, MalformedEventType, UnsupportedMediaType
from penstock.testing.factories import an_event_type

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


def defined(**members: Any) -> dict[str, Any]:
    definition = an_event_type("order.placed", schema=schema(), **members)
    if "partition_count" not in members:
        del definition["partition_count"]
    return definition


def event_type(**members: Any) -> EventType:
    return EventType.parse(defined(**members))


def put(before: dict[str, Any], after: dict[str, Any], *, admin: bool = False, **more: Any) -> EventType:
    return replaced(event_type(**before), defined(**after), admin=admin, **more).event_type


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
    "another selector": (
        {"event_owner_selector": SELECTOR},
        {"event_owner_selector": SELECTOR | {"value": "grace"}},
        "event_owner_selector",
    ),
    "no selector": ({"event_owner_selector": SELECTOR}, {}, "event_owner_selector"),
}
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
    "from compact": (
        BUSINESS | {"cleanup_policy": "compact"},
        BUSINESS | {"cleanup_policy": "compact_and_delete"},
        "cleanup_policy",
    ),
    "back to delete": (BUSINESS | {"cleanup_policy": "compact_and_delete"}, BUSINESS, "cleanup_policy"),
}


@pytest.mark.parametrize(("before", "after"), ALLOWED.values(), ids=ALLOWED)
@pytest.mark.parametrize("admin", [False, True], ids=["owner", "admin"])
def test_an_owner_may_change(before: dict[str, Any], after: dict[str, Any], admin: bool) -> None:
    found = put(before, after, admin=admin)

    expected = event_type(**({name: before[name] for name in before if name in KEPT} | after))
    shown = {name: found.definition[name] for name in after if name != "default_statistic"}
    assert shown == {name: expected.definition[name] for name in shown}


@pytest.mark.parametrize(("before", "after", "field"), FOR_ADMINS.values(), ids=FOR_ADMINS)
def test_only_who_administers_may_change(before: dict[str, Any], after: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidEventType) as refused:
        put(before, after)

    assert refused.value.fields["field"] == field
    put(before, after, admin=True)


@pytest.mark.parametrize(("before", "after", "field"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("admin", [False, True], ids=["owner", "admin"])
def test_nobody_may_change(before: dict[str, Any], after: dict[str, Any], field: str, admin: bool) -> None:
    with pytest.raises(InvalidEventType) as refused:
        put(before, after, admin=admin)

    assert refused.value.fields["field"].startswith(field)


HASH: dict[str, Any] = {"partition_strategy": "hash", "partition_key_fields": ["a"]}
REORDERING: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "from hash": (HASH, {"partition_strategy": "random"}, "partition_strategy"),
    "from hash to user_defined": (HASH, {"partition_strategy": "user_defined"}, "partition_strategy"),
    "from user_defined": ({"partition_strategy": "user_defined"}, HASH, "partition_strategy"),
    "other key fields": (HASH, HASH | {"partition_key_fields": ["a", "b"]}, "partition_key_fields"),
}


@pytest.mark.parametrize(("before", "after", "field"), REORDERING.values(), ids=REORDERING)
@pytest.mark.parametrize("admin", [False, True], ids=["owner", "admin"])
def test_change_that_loses_the_order_of_events_is_refused_unless_allowed(
    before: dict[str, Any], after: dict[str, Any], field: str, admin: bool
) -> None:
    with pytest.raises(InvalidEventType, match="allow_reordering") as refused:
        put(before, after, admin=admin)

    assert refused.value.fields["field"] == field
    changed = put(before, after, admin=admin, allow_reordering=True)
    assert {name: changed.definition[name] for name in after} == after


def test_key_fields_change_in_strict_mode_as_in_nakadi() -> None:
    put(HASH, HASH | {"partition_key_fields": ["b"]}, limits=NAKADI)


def test_the_name_stays() -> None:
    with pytest.raises(InvalidEventType, match="name"):
        replaced(event_type(), defined() | {"name": "order.shipped"}, admin=True)


def test_authorization_is_not_taken_back() -> None:
    said = "Changing authorization object to `null` is not possible due to existing one"
    with pytest.raises(InvalidEventType) as refused:
        put({"authorization": LISTS}, {"authorization": None})

    assert refused.value.detail == said


def test_what_is_left_out_stays_where_it_is() -> None:
    stays = put(KEPT, {}).definition
    nulls = put(KEPT, {"annotations": None, "labels": None, "default_statistic": None, "options": None}).definition

    for found in (stays, nulls):
        assert {name: found[name] for name in KEPT} == KEPT


def test_what_a_hub_shows_can_be_sent_back() -> None:
    old = event_type(**KEPT, audience="company-internal", authorization=LISTS)
    shown = old.definition | {"partition_count": 3, "created_at": "then", "updated_at": "now"}

    done = replaced(old, shown, admin=False)

    assert (done.event_type, done.verdict) == (old, None)


def test_the_limits_hold_for_what_changes() -> None:
    with pytest.raises(InvalidEventType, match="retention_time"):
        replaced(event_type(), defined(options={"retention_time": 1}), admin=True, limits=NAKADI)


@pytest.mark.parametrize("given", [None, [], "x", 5], ids=repr)
def test_a_definition_is_an_object(given: Any) -> None:
    with pytest.raises(MalformedEventType):
        replaced(event_type(), given, admin=True)


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
def test_the_version_rises_with_what_differs(text: str, version: str) -> None:
    old = event_type(compatibility_mode="none")

    done = replaced(old, old.definition | {"schema": schema(text)}, admin=True)

    assert done.event_type.schema_version == version
    assert (done.verdict is None) == (text == TEXT)
    if done.verdict is None:
        assert done.event_type.definition["schema"] == old.definition["schema"]


def test_the_mode_that_an_event_type_has_judges_its_schema() -> None:
    fewer = schema('{"properties": {"a": {"type": "string"}}}')
    old = event_type()

    with pytest.raises(IncompatibleSchema) as refused:
        replaced(old, old.definition | {"schema": fewer, "compatibility_mode": "none"}, admin=True)

    assert refused.value.detail == (
        "Invalid schema: #/properties/b: properties cannot be removed; the mode that it has, forward, judges this: "
        "change `compatibility_mode` to none by itself first, and the schema then"
    )
    [change] = refused.value.fields["changes"]
    assert change["refused"]
    assert (change["pointer"], change["rule"], change["old"], change["new"]) == (
        "#/properties/b",
        "property-removed",
        {"type": "string"},
        None,
    )
    assert change["instead"]
    assert (change["producers"], change["consumers"]) == (True, True)


CONSUMERS = {"options": {"evolution": "consumers"}}


def test_evolution_that_an_event_type_has_judges_its_schema() -> None:
    less = {"schema": schema('{"properties": {"a": {"type": "string"}}}')}
    strict, free = event_type(), event_type(**CONSUMERS)

    with pytest.raises(IncompatibleSchema, match=r"change `options.evolution` to consumers by itself first") as refused:
        replaced(strict, strict.definition | CONSUMERS | less, admin=True)
    done = replaced(free, free.definition | {"options": {}} | less, admin=False).event_type

    assert (refused.value.fields["mode"], refused.value.fields["evolution"]) == ("forward", "nakadi")
    assert (done.schema_version, done.evolution) == ("1.1.0", "nakadi")


@pytest.mark.parametrize("mode", ["none", "compatible"])
def test_evolution_for_consumers_needs_the_mode_forward(mode: str) -> None:
    with pytest.raises(InvalidEventType, match=f"in the compatibility_mode forward alone, not in {mode}") as refused:
        event_type(compatibility_mode=mode, **CONSUMERS)

    assert refused.value.fields["field"] == "options.evolution"


@pytest.mark.parametrize("value", ["Consumers", "guideline", 1, ["consumers"]])
def test_evolution_is_one_of_two(value: Any) -> None:
    with pytest.raises(MalformedEventType, match="nakadi or consumers"):
        event_type(options={"evolution": value})


def test_what_is_refused_in_one_go_is_taken_in_the_order_that_is_told() -> None:
    old = event_type()
    less = {"schema": schema('{"properties": {"a": {"type": "string"}}}')}
    none = {"compatibility_mode": "none"}

    with pytest.raises(IncompatibleSchema, match="change `compatibility_mode` to none by itself first"):
        replaced(old, old.definition | none | less, admin=True)
    free = replaced(old, old.definition | none, admin=True).event_type
    done = replaced(free, free.definition | less, admin=True)

    assert (done.event_type.schema_version, done.event_type.compatibility_mode) == ("2.0.0", "none")


def test_on_the_way_to_compatible_the_schema_may_have_to_go_first() -> None:
    old = EventType.parse(defined() | {"schema": schema('{"properties": {"a": {}}}')})
    typed, strict = (
        {"schema": schema('{"properties": {"a": {"type": "string"}}}')},
        {"compatibility_mode": "compatible"},
    )

    with pytest.raises(IncompatibleSchema, match="change the schema by itself first, and `compatibility_mode` to"):
        replaced(old, old.definition | typed | strict, admin=True)
    told = replaced(old, old.definition | typed, admin=True).event_type
    done = replaced(told, told.definition | strict, admin=True)

    assert (done.event_type.schema_version, done.event_type.compatibility_mode) == ("1.1.0", "compatible")


def test_where_no_order_helps_this_is_told() -> None:
    less = {"schema": schema('{"properties": {"a": {"type": "string"}}}')}
    strict, free = event_type(compatibility_mode="compatible"), event_type(compatibility_mode="forward")

    for old, mode, told in (
        (strict, "forward", "; the mode that it has, compatible, judges this, and forward would refuse it too"),
        (free, "compatible", "; the mode that it has, forward, judges this, and compatible would refuse it too"),
        (free, "forward", ""),
    ):
        with pytest.raises(IncompatibleSchema) as refused:
            replaced(old, old.definition | less | {"compatibility_mode": mode}, admin=True)
        assert refused.value.detail == f"Invalid schema: #/properties/b: properties cannot be removed{told}"


def ordered(by: str, **members: Any) -> EventType:
    return event_type(ordering_key_fields=[by], **members)


def test_a_schema_without_an_ordering_key_is_told_with_all_else_that_it_breaks() -> None:
    old = ordered("b")

    with pytest.raises(InvalidEventType) as refused:
        replaced(old, old.definition | {"schema": schema('{"properties": {"a": {"type": "null"}}}')}, admin=True)

    missing = "must be paths in the schema, which has no 'b' at #/properties/b"
    broken = (
        "cannot be changed so: #/properties/a: types must be the same, #/properties/b: properties cannot be removed"
    )
    said = refused.value.fields
    assert refused.value.detail == f'Field "ordering_key_fields" {missing}\nField "schema" {broken}'
    assert said["violations"] == [
        {"field": "ordering_key_fields", "reason": missing},
        {"field": "schema", "reason": broken},
    ]
    assert [each["pointer"] for each in said["changes"]] == ["#/properties/a", "#/properties/b"]
    assert (said["producers"], said["consumers"]) == (False, False)


@pytest.mark.parametrize("mode", ["none", "NONE"])
def test_where_the_mode_takes_the_change_the_ordering_key_alone_is_wrong(mode: str) -> None:
    old = ordered("b", compatibility_mode="none")
    given = {"schema": schema('{"properties": {"a": {"type": "string"}}}'), "compatibility_mode": mode}

    with pytest.raises(InvalidEventType, match=r"^Field .ordering_key_fields. [^\n]*#/properties/b$") as refused:
        replaced(old, old.definition | given, admin=True)

    [change] = refused.value.fields["changes"]
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
def test_of_what_cannot_be_compared_no_changes_are_told(wrong: dict[str, Any]) -> None:
    old = ordered("b")

    with pytest.raises((InvalidEventType, UnsupportedMediaType)) as refused:
        replaced(old, old.definition | wrong, admin=True)

    assert "changes" not in refused.value.fields


def test_a_schema_may_be_closed_on_the_way_to_compatible() -> None:
    closed = schema(TEXT[:-1] + ', "additionalProperties": false, "required": ["a"]}')
    old = event_type()

    with pytest.raises(IncompatibleSchema):
        replaced(old, old.definition | {"schema": closed}, admin=True)
    done = replaced(old, old.definition | {"schema": closed, "compatibility_mode": "compatible"}, admin=False)

    assert done.event_type.compatibility_mode == "compatible"


def many(count: int, kind: str) -> dict[str, Any]:
    names = {f"p{n}": {"type": kind} for n in range(count)}
    return {"type": "json_schema", "schema": json.dumps({"properties": names})}


def test_of_thousands_of_changes_those_first_that_are_refused_are_told() -> None:
    old = an_event_type("order.placed", schema=many(20_000, "string"))
    new = {"properties": {"added": {}} | {f"p{n}": {"type": "integer"} for n in range(20_000)}}
    given = an_event_type("order.placed", schema={"type": "json_schema", "schema": json.dumps(new)})

    with pytest.raises(IncompatibleSchema) as refused:
        replaced(EventType.parse(old), given, admin=True)

    changes = refused.value.fields["changes"]
    assert (len(changes), all(change["refused"] for change in changes)) == (100, True)
    assert "and 19980 more" in refused.value.detail
    assert len(json.dumps([refused.value.detail, refused.value.fields])) < 100_000


def test_a_reference_that_is_spelled_in_thousands_of_ways_is_followed_once() -> None:
    def schema(values: int) -> dict[str, str]:
        names = [f"%{ord(letter):02x}" if n >> bit & 1 else letter for n in range(2_000) for bit, letter in LETTERS]
        spelled = ["".join(names[at : at + 11]) for at in range(0, len(names), 11)]
        properties = {f"p{n}": {"$ref": f"#/definitions/{name}"} for n, name in enumerate(spelled)}
        text = json.dumps({"properties": properties, "definitions": {"abcdefghijk": {"enum": [*range(values)]}}})
        return {"type": "json_schema", "schema": text}

    given = an_event_type("order.placed", schema=schema(20_001))
    with pytest.raises(IncompatibleSchema) as refused:
        replaced(EventType.parse(an_event_type("order.placed", schema=schema(20_000))), given, admin=True)

    [change] = refused.value.fields["changes"]
    assert (change["rule"], change["old"][-1], len(change["old"])) == ("enum", "…", 4_001)


LETTERS = tuple(enumerate("abcdefghijk"))
