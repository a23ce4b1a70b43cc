"""Definitions of event types: each field's rule and default."""

from typing import Any

import pytest

from penstock.core.definition import AUDIENCES, completed, partition_count_of
from penstock.core.limits import NAKADI, PENSTOCK
from penstock.errors import InvalidEventType, MalformedEventType, UnsupportedMediaType
from penstock.testing.factories import an_event_type

SCHEMA = {
    "type": "json_schema",
    "schema": '{"properties": {"id": {}, "customer": {"properties": {"name": {"type": "string"}}}}}',
}
STATISTIC = {"messages_per_minute": 0, "message_size": 1, "read_parallelism": 1, "write_parallelism": 1}
ADA = {"data_type": "user", "value": "ada"}
LISTS = {"admins": [ADA], "readers": [ADA], "writers": [ADA]}
BUSINESS = {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}
DATA = BUSINESS | {"category": "data"}


def given(**members: Any) -> dict[str, Any]:
    definition = {"name": "order.placed", "owning_application": "shop", "category": "undefined", "schema": SCHEMA}
    return definition | members


def test_the_defaults_are_nakadis() -> None:
    assert completed(given()) == given() | {
        "enrichment_strategies": [],
        "partition_strategy": "random",
        "partition_key_fields": [],
        "ordering_key_fields": [],
        "ordering_instance_ids": [],
        "compatibility_mode": "forward",
        "default_statistic": None,
        "options": {},
        "cleanup_policy": "delete",
        "authorization": None,
        "annotations": {},
        "labels": {},
    }


def test_nakadis_retention_is_two_days() -> None:
    assert completed(given(), NAKADI)["options"] == {"retention_time": 172_800_000}


TAKEN: dict[str, dict[str, Any]] = {
    "no owner": {"owning_application": ""},
    "another case": {"category": "Undefined", "cleanup_policy": "DELETE", "compatibility_mode": "None"},
    "key fields null": {"partition_key_fields": None},
    "maps null": {"annotations": None, "labels": None, "options": None, "default_statistic": None},
    "the least statistic": {"default_statistic": STATISTIC},
    "by hash": {"partition_strategy": "hash", "partition_key_fields": ["nowhere"]},
    "by the producer": {"partition_strategy": "user_defined"},
    "ordered": {"ordering_key_fields": ["id"], "ordering_instance_ids": ["customer.name"]},
    "ordered data": DATA | {"ordering_key_fields": ["data.id"], "ordering_instance_ids": ["data.customer.name"]},
    "ordered by a hub's metadata": BUSINESS | {"ordering_key_fields": ["metadata.received_at"]},
    "ordered by a trace": BUSINESS | {"ordering_key_fields": ["metadata.span_ctx.traceparent"]},
    "ordered by metadata": BUSINESS | {"ordering_key_fields": ["metadata.parent_eids"]},
    "retention": {"options": {"retention_time": 1}},
    "exactly once": {"options": {"publishing": "exactly-once"}},
    "compacted": BUSINESS | {"cleanup_policy": "compact"},
    "authorization": {"authorization": LISTS},
    "owners by path": {"event_owner_selector": {"type": "path", "name": "o", "value": "customer.name"}},
    "owners by metadata": {"event_owner_selector": {"type": "METADATA", "name": "o"}},
    "one owner": {"event_owner_selector": {"type": "static", "name": "o", "value": "x"}},
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
    "order of unknown metadata": (
        BUSINESS | {"ordering_key_fields": ["metadata.version_number"]},
        "ordering_key_fields",
    ),
    "order within metadata": (BUSINESS | {"ordering_key_fields": ["metadata.eid.x"]}, "ordering_key_fields"),
    "order of data": (DATA | {"ordering_key_fields": ["id"]}, "ordering_key_fields"),
    "instances without order": ({"ordering_instance_ids": ["id"]}, "ordering_instance_ids"),
    "unknown instances": (
        {"ordering_key_fields": ["id"], "ordering_instance_ids": ["nowhere"]},
        "ordering_instance_ids",
    ),
    "no retention": ({"options": {"retention_time": 0}}, "options.retention_time"),
    "half a statistic": ({"default_statistic": {"read_parallelism": 1}}, "default_statistic.messages_per_minute"),
    "no parallelism": (
        {"default_statistic": STATISTIC | {"read_parallelism": 0}},
        "default_statistic.read_parallelism",
    ),
    "no size": ({"default_statistic": STATISTIC | {"message_size": 0}}, "default_statistic.message_size"),
    "compacted undefined": ({"cleanup_policy": "compact"}, "cleanup_policy"),
    "nobody": ({"authorization": LISTS | {"readers": []}}, "authorization.readers"),
    "a list missing": ({"authorization": {"admins": [ADA], "readers": [ADA]}}, "authorization.writers"),
    "somebody twice": ({"authorization": LISTS | {"admins": [ADA, ADA]}}, "authorization.admins"),
    "half a name": ({"authorization": LISTS | {"admins": [{"value": "ada"}]}}, "authorization.admins"),
    "no partitions": ({"partition_count": 0}, "partition_count"),
    "too many partitions": ({"partition_count": 257}, "partition_count"),
    "an annotation": ({"annotations": {"a b": ""}}, "annotations[a b]"),
    "a label": ({"labels": {"a": "b c"}}, "labels[a]"),
    "owners nowhere": (
        {"event_owner_selector": {"type": "path", "name": "o", "value": "nowhere"}},
        "event_owner_selector.value",
    ),
    "owners without a name": (
        {"event_owner_selector": {"type": "static", "name": "", "value": "x"}},
        "event_owner_selector.name",
    ),
    "owners by metadata and value": (
        {"event_owner_selector": {"type": "metadata", "name": "o", "value": "x"}},
        "event_owner_selector.value",
    ),
    "a schema without a type": ({"schema": {"schema": "{}"}}, "schema.type"),
    "a schema without its text": ({"schema": {"type": "json_schema", "schema": None}}, "schema.schema"),
    "metadata of its own": (
        BUSINESS | {"schema": SCHEMA | {"schema": '{"properties": {"metadata": {}}}'}},
        "schema.schema",
    ),
}
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


@pytest.mark.parametrize("members", TAKEN.values(), ids=TAKEN)
def test_is_taken(members: dict[str, Any]) -> None:
    completed(given(**members))


@pytest.mark.parametrize(("members", "field"), BROKEN.values(), ids=BROKEN)
def test_is_refused_by_its_field(members: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidEventType) as refused:
        completed(given(**members))

    assert not isinstance(refused.value, MalformedEventType)
    assert refused.value.fields["field"] == field


@pytest.mark.parametrize(("members", "field"), MALFORMED.values(), ids=MALFORMED)
def test_is_malformed_by_its_field(members: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedEventType) as refused:
        completed(given(**members))

    assert refused.value.fields["field"] == field


def test_all_that_is_wrong_by_itself_is_told_together() -> None:
    with pytest.raises(InvalidEventType) as refused:
        completed({"name": "a b", "labels": {"": "x"}})

    told = refused.value.detail.splitlines()
    assert [line.split('"')[1] for line in told] == [
        "name", "owning_application", "category", "schema", "labels[]", "labels[]",
    ]  # fmt: skip
    assert [violation["field"] for violation in refused.value.fields["violations"]] == [
        line.split('"')[1] for line in told
    ]


def test_avro_is_not_spoken() -> None:
    with pytest.raises(UnsupportedMediaType, match="Avro"):
        completed(given(schema={"type": "avro_schema", "schema": "{}"}))


@pytest.mark.parametrize("retention", [10_799_999, 345_600_001])
def test_nakadis_bounds_of_retention_hold_where_they_are_asked_for(retention: int) -> None:
    completed(given(options={"retention_time": retention}), PENSTOCK)
    with pytest.raises(InvalidEventType):
        completed(given(options={"retention_time": retention}), NAKADI)


def test_nakadi_lets_nobody_choose_partitions_of_events_that_have_no_metadata() -> None:
    undefined = given(partition_strategy="user_defined")
    completed(undefined, PENSTOCK)
    completed(undefined | BUSINESS, NAKADI)
    with pytest.raises(InvalidEventType) as refused:
        completed(undefined, NAKADI)

    assert refused.value.fields["field"] == "partition_strategy"


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
def test_parallelism_says_how_many_partitions(members: dict[str, Any], partitions: int, nakadis: int) -> None:
    assert partition_count_of(completed(given(**members))) == partitions
    assert partition_count_of(completed(given(**members), NAKADI), NAKADI) == nakadis


def test_what_is_not_known_is_kept() -> None:
    assert completed(given(x={"y": [1]}))["x"] == {"y": [1]}
    assert completed(an_event_type(x=None))["x"] is None


def fields_of(refused: pytest.ExceptionInfo[InvalidEventType]) -> list[str]:
    return [violation["field"] for violation in refused.value.fields["violations"]]


@pytest.mark.parametrize(("value", "form"), [([], "an array"), (5, "a number"), (None, "null"), ("{}", "a string")])
def test_what_is_no_object_is_told_without_a_field(value: Any, form: str) -> None:
    with pytest.raises(MalformedEventType) as refused:
        completed(value)

    assert refused.value.detail == f"an event type is a JSON object, this is {form}"
    assert "field" not in refused.value.fields


def test_what_is_malformed_is_told_together_with_what_is_invalid() -> None:
    selector = {"event_owner_selector": {"type": "colour", "name": "o"}}
    text = {"type": "json_schema", "schema": '{"type": "string"}'}
    with pytest.raises(MalformedEventType) as refused:
        completed(given(name="", category="click", labels=[], schema=text, partition_count="4", **selector))

    told = ["name", "category", "labels", "partition_count", "event_owner_selector.type", "schema.schema"]
    assert fields_of(refused) == told
    assert refused.value.fields["field"] == "name"
    assert refused.value.detail.splitlines()[1].startswith('Field "category" must be one of undefined, business, data')


@pytest.mark.parametrize(
    "members",
    [
        {"default_statistic": 7},
        {"authorization": 7},
        {"event_owner_selector": 7},
        {"schema": 7},
        {"authorization": LISTS | {"admins": 7}},
        {"authorization": LISTS | {"admins": [7]}},
        {"authorization": LISTS | {"admins": [ADA | {"value": 7}]}},
        {"ordering_key_fields": [7]},
    ],
    ids=str,
)
def test_what_is_malformed_is_told_once(members: dict[str, Any]) -> None:
    with pytest.raises(InvalidEventType) as refused:
        completed(given(**members))
    assert len(fields_of(refused)) == 1


def test_fields_that_do_not_fit_together_are_told_together() -> None:
    wrong = {
        "cleanup_policy": "compact",
        "enrichment_strategies": ["metadata_enrichment"],
        "partition_strategy": "hash",
    }
    with pytest.raises(InvalidEventType) as refused:
        completed(given(ordering_key_fields=["a", "id", "b", "a"], **wrong))

    found = ["cleanup_policy", "enrichment_strategies", "partition_key_fields", *["ordering_key_fields"] * 2]
    assert fields_of(refused) == found
    assert type(refused.value) is InvalidEventType


@pytest.mark.parametrize(
    ("members", "path", "told"),
    [
        ({}, "customer.address", "'customer.address' at #/properties/customer/properties/address"),
        (DATA, "data.nowhere", "'data.nowhere' at #/properties/nowhere"),
        (DATA, "id", "'id'"),
        (BUSINESS, "metadata.nowhere", "'metadata.nowhere'"),
        (BUSINESS, "nowhere", "'nowhere' at #/properties/nowhere"),
    ],
    ids=["nested", "data", "beside data", "metadata", "business"],
)
def test_where_a_path_would_be_in_the_schema_is_told(members: dict[str, Any], path: str, told: str) -> None:
    with pytest.raises(InvalidEventType) as refused:
        completed(an_event_type("t", **members, ordering_key_fields=[path]))

    assert refused.value.fields["reason"] == f"must be paths in the schema, which has no {told}"
