"""Event types: created, shown, listed, replaced and deleted.

Here is an example of each rule; the unit tests of event types have all that it allows and refuses.
"""

import re
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import JANE, ON_SQLITE, pick
from tests.nakadi import DAY_MS, SCHEMA, EventType, Nakadi, business, json_schema, problem, statistic

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LISTS = ("admins", "readers", "writers")
EVERYBODY = {name: [{"data_type": "service", "value": "shop"}, JANE] for name in LISTS}
ENRICHED = {"enrichment_strategies": ["metadata_enrichment"]}
SELECTOR = {"type": "path", "name": "retailer_id", "value": "foo"}
DEFAULTS = {
    "enrichment_strategies": [],
    "partition_strategy": "random",
    "partition_key_fields": [],
    "ordering_key_fields": [],
    "ordering_instance_ids": [],
    "compatibility_mode": "forward",
    "default_statistic": None,
    "cleanup_policy": "delete",
    "authorization": None,
    "annotations": {},
    "labels": {},
}
WHOLE = ENRICHED | {
    "category": "business",
    "partition_strategy": "hash",
    "partition_key_fields": ["foo"],
    "ordering_key_fields": ["foo"],
    "ordering_instance_ids": ["foo"],
    "compatibility_mode": "none",
    "default_statistic": statistic(3) | {"messages_per_minute": 0},
    "options": {"retention_time": 3 * DAY_MS},
    "cleanup_policy": "compact",
    "authorization": EVERYBODY,
    "annotations": {"nakadi.io/internal-event-type": "true", "criticality": "low", "long": "é !\n\t{}".ljust(1000)},
    "labels": {"cost-center": "2018", "interval.label/size": ""},
    "audience": "component-internal",
    "event_owner_selector": SELECTOR,
}


# Creating


def test_omitted_fields_have_nakadis_defaults(nakadi: Nakadi) -> None:
    """EventTypeAT.whenPOSTValidEventTypeThenOk; nulls are shown, but for audience and event_owner_selector."""
    given = pick(nakadi.definition(), {"name": "", "owning_application": "", "category": "", "schema": ""})
    answer = nakadi.http.post("/event-types", json=given)
    assert (answer.status_code, answer.content) == (201, b"")
    shown = EventType(nakadi.http, given["name"]).shown()
    schema = shown.pop("schema")
    assert pick(shown, DEFAULTS) == DEFAULTS
    assert not shown.keys() & {"audience", "event_owner_selector"}
    assert (schema["type"], schema["schema"], schema["version"]) == ("json_schema", SCHEMA, "1.0.0")
    assert shown["created_at"] == shown["updated_at"]
    assert all(MOMENT.fullmatch(each) for each in (shown["created_at"], schema["created_at"]))


def test_all_fields_are_shown_as_they_were_sent(nakadi: Nakadi) -> None:
    """EventTypeAT.whenPOSTEventTypeWithAuthorizationThenOk, …WithAnnotationsAndLabelsThenOk, …SetOnCreateThenOK."""
    text = '{\n\t"properties" : { "foo":{"type" :"string"} }  ,"description":"é\\u00e9"}\n'
    shown = nakadi.create(**WHOLE, schema=json_schema(text)).shown()
    assert pick(shown, WHOLE) == WHOLE
    assert shown["schema"]["schema"] == text, "with its spaces"


@pytest.mark.parametrize(
    "suffix", [".ps", ".v1.placed", ".1a", "-x_Y.z-", ".".ljust(218, "x")], ids=lambda suffix: suffix[:9]
)
def test_name_with_dots_or_of_255_characters_is_one_path_segment(nakadi: Nakadi, suffix: str) -> None:
    """EventTypeAT.whenGetEventTypeWithRegisteredExtensionThenOk."""
    name = nakadi.definition()["name"] + suffix
    assert nakadi.create(name=name).shown()["name"] == name


@pytest.mark.parametrize(
    ("statistic", "count"),
    [
        (None, 1),
        (statistic(1) | {"messages_per_minute": 10**9, "message_size": 10**6}, 1),
        (statistic(1) | {"read_parallelism": 4}, 4),
        (statistic(3) | {"write_parallelism": 5}, 5),
    ],
    ids=["absent", "much", "read", "write"],
)
def test_number_of_partitions_is_the_larger_parallelism(nakadi: Nakadi, statistic: Any, count: int) -> None:
    assert len(nakadi.create(default_statistic=statistic).partitions()) == count


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "a" * 256}, "the length of the name must be"),
    *(({"name": name}, 'Field "name"') for name in ("", "a b", "a..b", "a/b")),
    *(({field: None}, f'Field "{field}') for field in ("name", "owning_application", "category", "schema")),
    ({"schema": {"schema": SCHEMA}}, 'Field "schema.type"'),
    ({"schema": {"type": "json_schema", "schema": None}}, 'Field "schema.schema"'),
    ({"category": "business"}, "enrichment_strategies"),
    ({"partition_strategy": "whatever"}, "whatever"),
    ({"partition_strategy": "hash"}, "partition_key_fields"),
    ({"ordering_key_fields": ["nowhere"]}, "ordering_key_fields"),
    ({"category": "data", "ordering_key_fields": ["foo"]} | ENRICHED, "ordering_key_fields"),
    ({"cleanup_policy": "compact"}, "cleanup_policy"),
    ({"default_statistic": statistic(1) | {"message_size": 0}}, 'Field "default_statistic.'),
    ({"authorization": {}}, "authorization"),
    ({"authorization": EVERYBODY | {"readers": []}}, "authorization"),
    ({"event_owner_selector": SELECTOR | {"value": "nowhere"}}, "event_owner_selector"),
    ({"event_owner_selector": SELECTOR | {"type": "metadata"}}, "event_owner_selector"),
    ({"annotations": {"a": "x" * 1001}}, 'Field "annotations[a]"'),
    *(({"annotations": {key: ""}}, f'Field "annotations[{key}]"') for key in ("a b", "a_b/c")),
    *(({"labels": {"a": text}}, 'Field "labels[a]"') for text in ("a b", "a" * 64)),
]
"""A definition for each rule, and the text of its refusal."""


@ON_SQLITE
@pytest.mark.parametrize(("members", "text"), REFUSED, ids=ascii)
def test_definition_that_breaks_a_rule_is_refused_by_its_field(
    nakadi: Nakadi, members: dict[str, Any], text: str
) -> None:
    """EventTypeAT.rejectTooLongEventTypeNames, whenEventAuthSelectorCreateWithMetadataAndValueThen422."""
    assert text in nakadi.refuse(**members)


@ON_SQLITE
def test_refusal_has_a_line_for_each_violation(nakadi: Nakadi) -> None:
    """EventTypeAT.whenPOSTEventTypeWithInvalidAnnotationOrLabelThenError: an empty key breaks two rules."""
    lines = nakadi.refuse(name=None, owning_application=None, labels={"": "x"}).strip().splitlines()
    assert sorted(line.split('"')[1] for line in lines) == ["labels[]", "labels[]", "name", "owning_application"]
    assert all(re.fullmatch(r'Field "[a-z_\[\]]+" .+', line) for line in lines)
    assert 'Field "labels[]" Key cannot be empty' in lines


@ON_SQLITE
@pytest.mark.parametrize("path", ["foo", "metadata.eid", "deep.er"])
def test_ordering_field_may_lie_in_objects_and_in_metadata(nakadi: Nakadi, path: str) -> None:
    schema = {"properties": {"foo": {"type": "string"}, "deep": {"properties": {"er": {"type": "string"}}}}}
    created = nakadi.create(category="business", ordering_key_fields=[path], schema=json_schema(schema))
    assert created.shown()["ordering_key_fields"] == [path]


def test_partition_key_may_be_absent_from_the_schema(nakadi: Nakadi) -> None:
    created = nakadi.create(partition_strategy="hash", partition_key_fields=["nowhere"])
    assert created.shown()["partition_key_fields"] == ["nowhere"]


# Listing


def test_list_holds_whole_event_types_sorted_by_name(nakadi: Nakadi) -> None:
    """EventTypeAT.whenGETThenListsEventTypes."""
    created = [nakadi.create() for _ in range(3)]
    listed = nakadi.http.get("/event-types").json()
    assert all(each.shown() in listed for each in created)
    names = [each["name"] for each in listed]
    assert names == sorted(names)


def test_list_is_filtered_by_writer_and_by_owner(nakadi: Nakadi) -> None:
    """EventTypeAT.whenGETWithQueryEThenListsEventTypes."""
    owner = f"{nakadi.definition()['name']}-owner"
    writer = {"data_type": "service", "value": owner}
    wanted = nakadi.create(owning_application=owner, authorization=EVERYBODY | {"writers": [JANE, writer]})
    nakadi.create(owning_application=owner, authorization=EVERYBODY | {"readers": [writer]})
    nakadi.create(owning_application="other", authorization=EVERYBODY | {"writers": [writer]})

    def listed(**arguments: Any) -> list[str]:
        return [each["name"] for each in nakadi.http.get("/event-types", params=arguments).json()]

    assert listed(writer=f"service:{owner}", owning_application=owner) == [wanted.name]
    assert len(listed(writer=f"service:{owner}")) == len(listed(owning_application=owner)) == 2
    assert listed(writer=f"user:{owner}") == []


@ON_SQLITE
def test_malformed_writer_is_answered_400(nakadi: Nakadi) -> None:
    for writer in ("nobody", "", ":", "service:", ":x"):
        problem(nakadi.http.get("/event-types", params={"writer": writer}), 400)


@ON_SQLITE
def test_registry_lists_strategies(nakadi: Nakadi) -> None:
    assert nakadi.http.get("/registry/enrichment-strategies").json() == ["metadata_enrichment"]
    assert nakadi.http.get("/registry/partition-strategies").json() == ["hash", "user_defined", "random"]


# Replacing


def test_unchanged_event_type_can_be_put_back(nakadi: Nakadi) -> None:
    """EventTypeAT.whenPUTValidEventTypeThenOK."""
    created = nakadi.create(**WHOLE)
    before, after = created.shown(), created.changed()
    assert after.pop("updated_at") >= before.pop("updated_at")
    assert after == before
    assert created.get("/schemas").json()["items"] == [before["schema"]], "it makes no version"


def test_replacement_changes_the_fields_that_may_change(nakadi: Nakadi) -> None:
    """EventTypeAT.whenEventAuthSelectorSetOnUpdateThenOK, whenUpdateRetentionTime…."""
    created = nakadi.create(annotations={"a": "b"}, labels={"c": "d"})
    before = created.shown()
    members = {
        "owning_application": "another",
        "annotations": {"x": "y"},
        "labels": {},
        "ordering_key_fields": ["foo"],
        "ordering_instance_ids": ["foo"],
        "audience": "company-internal",
        "authorization": EVERYBODY,
        "event_owner_selector": SELECTOR,
        "partition_key_fields": ["foo"],
        "options": {"retention_time": 4 * DAY_MS},
        "compatibility_mode": "forward",
    }
    shown = created.changed(**members)
    assert pick(shown, members) == members
    assert shown["updated_at"] > before["updated_at"]
    assert shown["created_at"] == before["created_at"]


@pytest.mark.parametrize("how", ["absent", "null"])
def test_fields_that_a_replacement_leaves_out_stay(nakadi: Nakadi, how: str) -> None:
    """EventTypeAT.whenPUTEventTypeWithoutAnnotationsAndLabels…Kept, whenUpdateRetentionTimeWithNullValueNoChange."""
    members = {
        "annotations": {"a": "b"},
        "labels": {"c": "d"},
        "default_statistic": statistic(2),
        "options": {"retention_time": 3 * DAY_MS},
    }
    created = nakadi.create(**members)
    shown = created.changed(*members) if how == "absent" else created.changed(**dict.fromkeys(members))
    assert pick(shown, members) == members
    assert created.changed(options={"retention_time": None})["options"]["retention_time"] == 3 * DAY_MS


CREATED = {"authorization": EVERYBODY, "audience": "external-partner", "default_statistic": statistic(2)}
KEPT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"name": "another"}),
    ({"category": "business"}, {"category": "undefined", "enrichment_strategies": []}),
    ({"category": "business"}, {"category": "data"}),
    ({"category": "business"}, {"enrichment_strategies": []}),
    ({}, ENRICHED | {"category": "data"}),
    ({}, ENRICHED | {"category": "business"}),
    ({"compatibility_mode": "forward"}, {"category": "business"}),
    ({}, {"partition_strategy": "random123"}),
    ({}, {"partition_strategy": None}),
    (CREATED, {"authorization": None}),
    (CREATED, {"audience": None}),
    (CREATED, {"default_statistic": statistic(3)}),
    *(
        ({"category": "business", "cleanup_policy": before}, {"cleanup_policy": after})
        for before, after in [
            ("delete", "compact"), ("compact", "delete"), ("compact", "compact_and_delete"),
            ("compact_and_delete", "delete"), ("compact_and_delete", "compact"),
        ]
    ),
    ({}, {"owning_application": "another", "schema": json_schema({"properties": {}})}),
]  # fmt: skip
"""An event type, and a replacement that is refused."""


@ON_SQLITE
@pytest.mark.parametrize(("created", "members"), KEPT, ids=ascii)
def test_replacement_that_is_refused_changes_nothing(
    nakadi: Nakadi, created: dict[str, Any], members: dict[str, Any]
) -> None:
    """EventTypeAT.whenUpdateETAuthObjectThen422, whenUpdatePartitioningStrategyToNonExistingStrategyThen422."""
    event_type = nakadi.create(**created)
    before = event_type.shown()
    problem(event_type.put(**members), 422)
    assert event_type.shown() == before


def test_replacement_of_an_unknown_event_type_is_answered_404(nakadi: Nakadi) -> None:
    problem(nakadi.http.put("/event-types/nowhere", json=nakadi.definition(name="nowhere")), 404)


def test_undefined_event_type_becomes_business_with_its_enrichment(nakadi: Nakadi) -> None:
    created = nakadi.create(compatibility_mode="forward")
    created.publish({"foo": "before"})
    assert created.changed(category="business", **ENRICHED)["category"] == "business"
    created.refuse({"foo": "after"})
    created.publish(business(foo="after"))


def test_random_event_type_becomes_hashed(nakadi: Nakadi) -> None:
    """EventTypeAT.whenUpdatePartitioningStrategyFromRandomThenOK."""
    created = nakadi.create(partitions=2)
    shown = created.changed(partition_strategy="hash", partition_key_fields=["foo"])
    assert (shown["partition_strategy"], shown["partition_key_fields"]) == ("hash", ["foo"])
    problem(created.put(partition_key_fields=[]), 422)
    created.publish({"foo": "Hello"})


def test_cleanup_policy_delete_becomes_compact_and_delete(nakadi: Nakadi) -> None:
    """EventTypeAT.whenUpdateCleanupPolicyDeleteToDeleteCompactJourney."""
    created = nakadi.create(category="business", compatibility_mode="forward")
    created.publish(business(foo="without a key"))
    assert created.changed(cleanup_policy="compact_and_delete")["cleanup_policy"] == "compact_and_delete"
    [item] = created.refuse(business(foo="without a key"))
    assert "partition_compaction_key" in item["detail"]
    created.publish(business(foo="with a key", meta={"partition_compaction_key": "a"}))


# Deleting


def test_deleted_event_type_is_not_found(nakadi: Nakadi) -> None:
    """EventTypeAT.whenDELETEEventTypeThenOK, UserJourneyAT.testEventTypeDeletion."""
    created = nakadi.create()
    created.publish({"foo": "bar"})
    created.drop()
    for path in ("", "/partitions", "/schemas", "/events"):
        problem(created.get(path), 404)
    problem(created.hand_in({"foo": "bar"}), 404)
    problem(nakadi.http.delete(created.path), 404)
    assert created.name not in [each["name"] for each in nakadi.http.get("/event-types").json()]


def test_recreated_event_type_starts_empty_with_offsets_of_its_own(nakadi: Nakadi) -> None:
    """The middle part of an offset tells the old one from the new one."""
    created = nakadi.create()
    problem(nakadi.post(name=created.name), 409)
    created.publish({"foo": "old"})
    old = created.newest()
    created.drop()
    again = nakadi.create(name=created.name)
    again.publish({"foo": "new"})
    assert again.newest() != old
    assert all(offset.endswith("-000000000000000000") for offset in again.newest().values())
    assert again.events(1) == [{"foo": "new"}]
    assert again.shown()["schema"]["version"] == "1.0.0"
