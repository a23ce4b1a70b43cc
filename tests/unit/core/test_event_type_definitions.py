"""Definitions of event types: defaults, the rule of each field, and all violations reported together."""

import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.registry import EventTypeOptions
from penstock.core.registry.definition import (
    AUDIENCES,
    MEMBERS,
    NAKADI,
    PENSTOCK,
    STATISTICS,
    UnknownMember,
    complete_definition,
    find_wrong_annotations,
    find_wrong_labels,
    is_name,
    partition_count_of,
    unknown_members,
)
from penstock.core.registry.event_type import EventType
from penstock.errors import InvalidEventType, UnsupportedFormat
from penstock.testing.factories import an_event_type
from tests.exhaustive import examples
from tests.failing import has_code

SCHEMA = {
    "type": "json_schema",
    "schema": '{"properties": {"id": {}, "customer": {"properties": {"name": {"type": "string"}}}}}',
}
REFERRING = SCHEMA | {
    "schema": '{"definitions": {"o": {"properties": {"n": {}}}}, "properties": {"a": {"$ref": "#/definitions/o"}, '
    '"b": {"allOf": [{"properties": {"m": {}}}, {"$ref": "#"}]}}}'
}
STATISTIC = {"messages_per_minute": 0, "message_size": 1, "read_parallelism": 1, "write_parallelism": 1}
ADA = {"data_type": "user", "value": "ada"}
LISTS = {"admins": [ADA], "readers": [ADA], "writers": [ADA]}
BUSINESS = {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}
DATA = BUSINESS | {"category": "data"}


def define(**members: Any) -> dict[str, Any]:
    definition = {"name": "order.placed", "owning_application": "shop", "category": "undefined", "schema": SCHEMA}
    return definition | members


def select_owner(kind: str, *, name: str = "o", **more: Any) -> dict[str, Any]:
    return {"event_owner_selector": {"type": kind, "name": name} | more}


def test_defaults_are_those_of_nakadi() -> None:
    assert complete_definition(define()) == define() | {
        "enrichment_strategies": [], "partition_strategy": "random", "partition_key_fields": [],
        "ordering_key_fields": [], "ordering_instance_ids": [], "compatibility_mode": "forward",
        "default_statistic": None, "options": {}, "cleanup_policy": "delete", "authorization": None,
        "annotations": {}, "labels": {},
    }  # fmt: skip
    assert complete_definition(define(), NAKADI)["options"] == {"retention_time": 172_800_000}


ACCEPTED: dict[str, dict[str, Any]] = {
    "no owner": {"owning_application": ""},
    "another case": {"category": "Undefined", "cleanup_policy": "DELETE", "compatibility_mode": "None"},
    "key fields null": {"partition_key_fields": None},
    "maps null": {"annotations": None, "labels": None, "options": None, "default_statistic": None},
    "the least statistic": {"default_statistic": STATISTIC},
    "by hash": {"partition_strategy": "hash", "partition_key_fields": ["nowhere"]},
    "by the producer": {"partition_strategy": "user_defined"},
    "ordered": {"ordering_key_fields": ["id"], "ordering_instance_ids": ["customer.name"]},
    "ordered through references": {"schema": REFERRING, "ordering_key_fields": ["a.n", "b.m", "b.b.b.m", "b.a.n"]},
    "ordered data": DATA | {"ordering_key_fields": ["data.id"], "ordering_instance_ids": ["data.customer.name"]},
    "ordered by a hub's metadata": BUSINESS | {"ordering_key_fields": ["metadata.received_at"]},
    "ordered by a trace": BUSINESS | {"ordering_key_fields": ["metadata.span_ctx.traceparent"]},
    "ordered by metadata": BUSINESS | {"ordering_key_fields": ["metadata.parent_eids"]},
    "retention": {"options": {"retention_time": 1}},
    "exactly once": {"options": {"publishing": "exactly-once"}},
    "compacted": BUSINESS | {"cleanup_policy": "compact"},
    "authorization": {"authorization": LISTS},
    "owners by path": select_owner("path", value="customer.name"),
    "owners by metadata": select_owner("METADATA"),
    "one owner": select_owner("static", value="x"),
    "enrichment in capitals": BUSINESS | {"enrichment_strategies": ["METADATA_ENRICHMENT"]},
    "compatible": {"compatibility_mode": "compatible"},
    "partitions": {"partition_count": 256},
} | {audience: {"audience": audience} for audience in AUDIENCES}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": None}, "name"),
    "an empty name": ({"name": ""}, "name"),
    "a long name": ({"name": "x" * 256}, "name"),
    "a name with a space": ({"name": "order placed"}, "name"),
    "no owner at all": ({"owning_application": None}, "owning_application"),
    "no category": ({"category": None}, "category"),
    "no schema": ({"schema": None}, "schema"),
    "enrichment null": ({"enrichment_strategies": None}, "enrichment_strategies"),
    "enrichment of undefined": ({"enrichment_strategies": ["metadata_enrichment"]}, "enrichment_strategies"),
    "business without enrichment": ({"category": "business"}, "enrichment_strategies"),
    "enrichment twice": (BUSINESS | {"enrichment_strategies": ["metadata_enrichment"] * 2}, "enrichment_strategies"),
    "strategy null": ({"partition_strategy": None}, "partition_strategy"),
    "unknown strategy": ({"partition_strategy": "round_robin"}, "partition_strategy"),
    "hash of nothing": ({"partition_strategy": "hash"}, "partition_key_fields"),
    "an empty path": ({"partition_key_fields": [""]}, "partition_key_fields"),
    "unknown order": ({"ordering_key_fields": ["nowhere"]}, "ordering_key_fields"),
    "order of unknown metadata": (BUSINESS | {"ordering_key_fields": ["metadata.version_number"]},
        "ordering_key_fields"),
    "order within metadata": (BUSINESS | {"ordering_key_fields": ["metadata.eid.x"]}, "ordering_key_fields"),
    "order of data": (DATA | {"ordering_key_fields": ["id"]}, "ordering_key_fields"),
    "instances without order": ({"ordering_instance_ids": ["id"]}, "ordering_instance_ids"),
    "unknown instances": ({"ordering_key_fields": ["id"], "ordering_instance_ids": ["nowhere"]},
        "ordering_instance_ids"),
    "no retention": ({"options": {"retention_time": 0}}, "options.retention_time"),
    "half a statistic": ({"default_statistic": {"read_parallelism": 1}}, "default_statistic.messages_per_minute"),
    "no parallelism": ({"default_statistic": STATISTIC | {"read_parallelism": 0}},
        "default_statistic.read_parallelism"),
    "no size": ({"default_statistic": STATISTIC | {"message_size": 0}}, "default_statistic.message_size"),
    "compacted undefined": ({"cleanup_policy": "compact"}, "cleanup_policy"),
    "nobody": ({"authorization": LISTS | {"readers": []}}, "authorization.readers"),
    "a list missing": ({"authorization": {"admins": [ADA], "readers": [ADA]}}, "authorization.writers"),
    "somebody twice": ({"authorization": LISTS | {"admins": [ADA, ADA]}}, "authorization.admins"),
    "a name that is a number within lists": (
        {"authorization": LISTS | {"admins": [ADA | {"value": 7}]}}, "authorization.admins"),
    "half a name": ({"authorization": LISTS | {"admins": [{"value": "ada"}]}}, "authorization.admins"),
    "no partitions": ({"partition_count": 0}, "partition_count"),
    "too many partitions": ({"partition_count": 257}, "partition_count"),
    "an annotation": ({"annotations": {"a b": ""}}, "annotations[a b]"),
    "a label": ({"labels": {"a": "b c"}}, "labels[a]"),
    "owners nowhere": (select_owner("path", value="nowhere"), "event_owner_selector.value"),
    "owners without a name": (select_owner("static", name="", value="x"), "event_owner_selector.name"),
    "owners by metadata and value": (select_owner("metadata", value="x"), "event_owner_selector.value"),
    "a schema without a type": ({"schema": {"schema": "{}"}}, "schema.type"),
    "a schema without its text": ({"schema": {"type": "json_schema", "schema": None}}, "schema.schema"),
    "metadata of its own": (BUSINESS | {"schema": SCHEMA | {"schema": '{"properties": {"metadata": {}}}'}},
        "schema.schema"),
}  # fmt: skip
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "a name that is a number": ({"name": 5}, "name"),
    "an unknown category": ({"category": "event"}, "category"),
    "an unknown mode": ({"compatibility_mode": "backward"}, "compatibility_mode"),
    "an unknown policy": ({"cleanup_policy": "keep"}, "cleanup_policy"),
    "an unknown audience": ({"audience": "everybody"}, "audience"),
    "an unknown selector": ({"event_owner_selector": {"type": "x", "name": "o"}}, "event_owner_selector.type"),
    "unknown enrichment": (BUSINESS | {"enrichment_strategies": ["metadata_enrichment", "x"]}, "enrichment_strategies"),
    "a strategy that is a number": ({"partition_strategy": 5}, "partition_strategy"),
    "fields that are a text": ({"partition_key_fields": "id"}, "partition_key_fields"),
    "fields that are numbers": ({"ordering_key_fields": [1]}, "ordering_key_fields"),
    "a statistic that is a list": ({"default_statistic": []}, "default_statistic"),
    "a selector that is a number": ({"event_owner_selector": 7}, "event_owner_selector"),
    "a schema that is a number": ({"schema": 7}, "schema"),
    "authorization that is a number": ({"authorization": 7}, "authorization"),
    "lists of numbers": ({"authorization": LISTS | {"admins": [7]}}, "authorization.admins"),
    "a count that is a text": ({"partition_count": "3"}, "partition_count"),
    "a count that is true": ({"partition_count": True}, "partition_count"),
    "labels that are a list": ({"labels": ["a"]}, "labels"),
    "lists that are texts": ({"authorization": LISTS | {"admins": "ada"}}, "authorization.admins"),
    "a schema that is an object": ({"schema": {"type": "json_schema", "schema": {}}}, "schema.schema"),
    "options that are a list": ({"options": []}, "options"),
    "annotations that are an empty list": ({"annotations": []}, "annotations"),
    "a schema of another type": ({"schema": {"type": "xml", "schema": "{}"}}, "schema.type"),
    "unknown publishing": ({"options": {"publishing": "twice"}}, "options.publishing"),
    "retention in words": ({"options": {"retention_time": "2 days"}}, "options.retention_time"),
}


def test_definition_is_accepted() -> None:
    for members in ACCEPTED.values():
        complete_definition(define(**members))


def refusal(definition: Any) -> InvalidEventType:
    with pytest.raises(InvalidEventType) as refused:
        complete_definition(definition)
    return refused.value


@pytest.mark.parametrize(("members", "field"), BROKEN.values(), ids=BROKEN)
def test_invalid_field_is_named(members: dict[str, Any], field: str) -> None:
    error = refusal(define(**members))

    assert error.code == "invalid-event-type"
    assert error.field == field


@pytest.mark.parametrize(("members", "field"), MALFORMED.values(), ids=MALFORMED)
def test_field_of_another_type_is_named(members: dict[str, Any], field: str) -> None:
    error = refusal(define(**members))

    assert error.code == "malformed-event-type"
    assert error.field == field
    assert len(error.violations) == 1


def test_definition_other_than_an_object_is_malformed() -> None:
    rows: list[tuple[Any, str]] = [([], "an array"), (5, "a number"), (None, "null"), ("{}", "a string")]
    for value, form in rows:
        error = refusal(value)

        assert error.code == "malformed-event-type"
        assert error.detail == f"an event type is a JSON object, this is {form}"
        assert "field" not in error.fields
        with pytest.raises(InvalidEventType, check=has_code("malformed-event-type")):
            EventType.parse(value)


def test_schema_in_avro_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, check=has_code("unsupported-media-type"), match="Avro"):
        complete_definition(define(schema={"type": "avro_schema", "schema": "{}"}))


TEXT_SCHEMA = {"type": "json_schema", "schema": '{"type": "string"}'}
WRONG_TOGETHER: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "alone": ({"name": "a b", "labels": {"": "x"}}, "invalid-event-type",
        ["name", "owning_application", "category", "schema", "labels[]", "labels[]"]),
    "malformed and invalid": (define(name="", category="click", labels=[], schema=TEXT_SCHEMA, partition_count="4",
        **select_owner("colour")), "malformed-event-type",
        ["name", "category", "labels", "partition_count", "event_owner_selector.type", "schema.schema"]),
    "together": (define(cleanup_policy="compact", enrichment_strategies=["metadata_enrichment"],
        partition_strategy="hash", ordering_key_fields=["a", "id", "b", "a"]), "invalid-event-type",
        ["cleanup_policy", "enrichment_strategies", "partition_key_fields", *["ordering_key_fields"] * 2]),
}  # fmt: skip


@pytest.mark.parametrize(("definition", "code", "fields"), WRONG_TOGETHER.values(), ids=WRONG_TOGETHER)
def test_all_violations_are_reported_together(definition: dict[str, Any], code: str, fields: list[str]) -> None:
    error = refusal(definition)

    assert error.code == code
    assert [violation["field"] for violation in error.violations] == fields
    assert error.field == fields[0]
    assert [line.split('"')[:2] for line in error.detail.splitlines()] == [["Field ", field] for field in fields]


def test_allowed_values_are_listed_where_another_is_refused() -> None:
    detail = refusal(define(category="click")).detail
    assert detail == 'Field "category" must be one of undefined, business, data, not "click"'
    assert "1 to 256" in refusal(define(partition_count=257)).detail


@pytest.mark.parametrize(
    ("members", "path", "place"),
    [
        ({}, "customer.address", "'customer.address' at #/properties/customer/properties/address"),
        (DATA, "data.nowhere", "'data.nowhere' at #/properties/nowhere"),
        (DATA, "id", "'id'"),
        (BUSINESS, "metadata.nowhere", "'metadata.nowhere'"),
        (BUSINESS, "nowhere", "'nowhere' at #/properties/nowhere"),
    ],
    ids=["nested", "data", "beside data", "metadata", "business"],
)
def test_path_that_the_schema_lacks_is_refused_with_its_place(members: dict[str, Any], path: str, place: str) -> None:
    error = refusal(an_event_type("t", **members, ordering_key_fields=[path]))

    assert error.reason == f"must be paths in the schema, which has no {place}"


def test_nakadis_limits_hold_in_strict_mode_alone() -> None:
    assert PENSTOCK.partitions_max == 256
    assert (PENSTOCK.retention_ms, PENSTOCK.retention_default_ms, PENSTOCK.strict) == ((None, None), None, False)
    assert (NAKADI.partitions_max, NAKADI.stream_bytes_max, NAKADI.strict) == (8, 50_000_000, True)
    with pytest.raises(AttributeError):
        PENSTOCK.partitions_max = 8  # type: ignore[misc]
    assert msgspec.structs.replace(PENSTOCK, partitions_max=8).partitions_max == 8
    for retention in (10_799_999, 345_600_001):
        complete_definition(define(options={"retention_time": retention}), PENSTOCK)
        with pytest.raises(InvalidEventType):
            complete_definition(define(options={"retention_time": retention}), NAKADI)
    for retention in (10_800_000, 345_600_000):
        complete_definition(define(options={"retention_time": retention}), NAKADI)


def test_producers_of_undefined_events_choose_no_partitions_in_strict_mode() -> None:
    undefined = define(partition_strategy="user_defined")
    complete_definition(undefined, PENSTOCK)
    complete_definition(undefined | BUSINESS, NAKADI)
    with pytest.raises(InvalidEventType) as refused:
        complete_definition(undefined, NAKADI)

    assert refused.value.field == "partition_strategy"


@pytest.mark.parametrize(
    ("members", "partitions", "nakadis"),
    [
        ({}, 1, 1),
        ({"default_statistic": STATISTIC | {"read_parallelism": 3}}, 3, 3),
        ({"default_statistic": STATISTIC | {"write_parallelism": 12}}, 12, 8),
        ({"default_statistic": STATISTIC | {"write_parallelism": 1000}}, 256, 8),
        ({"partition_count": 5, "default_statistic": STATISTIC}, 5, 5),
    ],
    ids=["none", "readers", "writers", "very many", "said"],
)
def test_partition_count_follows_from_parallelism(members: dict[str, Any], partitions: int, nakadis: int) -> None:
    assert partition_count_of(complete_definition(define(**members))) == partitions
    assert partition_count_of(complete_definition(define(**members), NAKADI), NAKADI) == nakadis


def test_categories_may_be_written_in_any_case() -> None:
    categories = ("undefined", "business", "data", "BUSINESS", "Data")
    found = [EventType.parse(an_event_type(category=category)).category for category in categories]

    assert found == ["undefined", "business", "data", "business", "data"]


def test_unknown_members_are_kept_and_those_of_the_store_are_not() -> None:
    found = EventType.parse(an_event_type(x=[1, None], created_at="then", updated_at="now", partition_count=3))

    assert found.definition["x"] == [1, None]
    assert not {"created_at", "updated_at", "partition_count"} & found.definition.keys()
    assert found.partition_count == 3
    assert complete_definition(an_event_type(x=None))["x"] is None


def test_stored_definition_is_read_as_it_was_parsed() -> None:
    found = EventType.parse(an_event_type(category="data", partition_count=2))

    assert EventType.of(found.definition, 2) == found


FIELDS = [*an_event_type(), "options", "annotations", "labels", "authorization", "audience", "ordering_key_fields"]
VALUES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.none())
)


@settings(max_examples=examples(25, 100))
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_any_definition_is_valid_or_refused(definition: dict[str, Any]) -> None:
    with suppress(InvalidEventType):
        found = EventType.parse(an_event_type() | definition)
        assert 1 <= found.partition_count <= 256


def test_small_events_are_light_once_the_validator_is_compiled() -> None:
    schema = '{"title": "light", "required": ["a"]}'
    found = EventType.parse(an_event_type(schema={"type": "json_schema", "schema": schema}))
    assert not found.is_light(10)

    assert found.validator.find_first_invalid([{}]) == 0

    assert found.is_light(10)
    assert not found.is_light(1 << 30)


# Names, labels and annotations.


def test_name_consists_of_parts_with_dots_between() -> None:
    for name in ["a", "a.b", "A-1_x.2b", "order.placed", "a" * 255]:
        assert is_name(name)
        assert EventType.parse(an_event_type(name)).name == name


def test_other_texts_are_no_names() -> None:
    rows: list[str] = ["", ".", "a.", ".a", "a..b", "1a", "_a", "a b", "a/b", "é", "a\n", "a\x00", "a" * 256]
    for name in rows:
        assert not is_name(name)
        error = refusal(define(name=name))
        assert error.field == "name"
        is_too_long = re.search("the length of the name must be >= 1 and <= 255", error.detail) is not None
        assert is_too_long == (len(name) in (0, 256))


GOOD_KEYS = ["a", "A-b_c.9", "team/contact", "datalake.example.org/on", "x" * 63, "a" * 253 + "/n"]
BAD_KEYS = {
    "": "Key cannot be empty",
    "-a": "Key name should start and end with a letter or a digit",
    "a-": "Key name should start and end",
    "a b": "Key name should start and end",
    "ä": "Key name should start and end",
    "x" * 64: "Key name cannot be longer than 63 characters",
    "/a": "Key prefix should be a DNS name",
    "Team/a": "Key prefix should be a DNS name in lower case",
    "a..b/c": "Key prefix should be a DNS name",
    "a/b/c": "Key prefix should be a DNS name",
    "team/": "Key name should start and end",
    "a" * 254 + "/n": "Key prefix cannot be longer than 253 characters",
}


def test_key_of_a_label_is_a_name_with_an_optional_prefix() -> None:
    for key in GOOD_KEYS:
        assert not [*find_wrong_annotations({key: ""}), *find_wrong_labels({key: ""})]


def test_other_keys_are_refused_with_the_reason() -> None:
    for key, reason in BAD_KEYS.items():
        for found in (list(find_wrong_annotations({key: "x"})), list(find_wrong_labels({key: "x"}))):
            assert any(wrong[0] == key and reason in wrong[1] for wrong in found)


def test_values_of_labels_are_names_and_those_of_annotations_short_texts() -> None:
    long: list[Any] = ["any text, with: signs", "ä" * 1000]
    short: list[Any] = ["", "a", "A-b_c.9", "x" * 63]
    wrong: list[Any] = ["x" * 1001, 5, None, ["a"]]
    for check, good, bad in (
        (find_wrong_annotations, [*long, *short], wrong),
        (find_wrong_labels, short, [*wrong[1:], "-a", "a b", "ä", "x" * 64]),
    ):
        assert not [each for value in good for each in check({"a": value})]
        for value in bad:
            assert [key for key, _ in check({"a": value})] == ["a"]


# Members that nothing knows.


@pytest.mark.parametrize(
    ("definition", "at", "meant"),
    [
        ({"partition_stratgy": "hash"}, ("partition_stratgy",), "partition_strategy"),
        ({"partitionKeyFields": []}, ("partitionKeyFields",), "partition_key_fields"),
        ({"Owning_Application": ""}, ("Owning_Application",), "owning_application"),
        ({"partitions": 4}, ("partitions",), "partition_count"),
        ({"retention_time": 1}, ("retention_time",), "options.retention_time"),
        ({"options": {"retention_tiem": 1}}, ("options", "retention_tiem"), "options.retention_time"),
        ({"options": {"labels": {}}}, ("options", "labels"), "labels"),
        ({"authorization": {"reader": []}}, ("authorization", "reader"), "authorization.readers"),
        ({"default_statistic": {"": 1}}, ("default_statistic", ""), None),
        ({"x-team": "a"}, ("x-team",), None),
        ({"version": "1.0.0"}, ("version",), None),
    ],
    ids=str,
)
def test_unknown_member_is_reported_with_the_one_that_was_meant(
    definition: dict[str, Any], at: tuple[str, ...], meant: str | None
) -> None:
    [stranger] = unknown_members(definition)
    assert stranger == UnknownMember(at, meant)
    assert meant is None or meant in str(stranger)


def test_members_of_the_owner_are_not_searched_for_unknown_ones() -> None:
    for odd in ({"options": 7}, {"schema": "text"}, {"labels": {"a": "b"}, "annotations": {"c": "d"}}):
        assert not list(unknown_members(odd))


def test_members_of_a_definition_are_all_known() -> None:
    named = {"audience": "external-public", "partition_count": 1, "max_event_bytes": 65_536}
    found = complete_definition(an_event_type("a", **named, **select_owner("static", value="b")))

    assert not list(unknown_members(found))
    assert MEMBERS["default_statistic"] == {*STATISTICS}
    assert found.keys() | {"created_at", "updated_at"} == MEMBERS[""]
    assert EventTypeOptions.__annotations__.keys() - MEMBERS[""] == {"more"}
