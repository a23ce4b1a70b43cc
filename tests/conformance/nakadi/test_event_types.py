"""Event types: their fields and defaults, how they are created, listed and deleted."""

import re
from typing import Any

import pytest

from tests.nakadi import DAY_MS, SCHEMA, EventType, Nakadi, json_schema, only, problem, statistic

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SOMEBODY = {"data_type": "user", "value": "jane"}
OTHERS = [{"data_type": "service", "value": "shop"}, {"data_type": "team", "value": "a"}]
EVERYBODY = {"admins": [SOMEBODY, *OTHERS], "readers": [*OTHERS, SOMEBODY], "writers": [SOMEBODY]}
ENRICHED = {"enrichment_strategies": ["metadata_enrichment"]}


def test_an_event_type_is_created_with_201_and_an_empty_body(nakadi: Nakadi) -> None:
    """1.2, 10; EventTypeAT.whenPOSTValidEventTypeThenOk."""
    answer = nakadi.post()
    assert (answer.status_code, answer.content) == (201, b"")


def test_what_is_not_given_has_its_default(nakadi: Nakadi) -> None:
    """2.1, 0.2: nulls are written, but for audience and event_owner_selector."""
    given = {"name": nakadi.definition()["name"], "owning_application": "me", "category": "undefined"}
    assert nakadi.http.post("/event-types", json=given | {"schema": json_schema("{}")}).status_code == 201
    shown = EventType(nakadi.http, given["name"]).shown()
    assert {name: shown[name] for name in given} == given
    defaults = {
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
    assert {name: shown[name] for name in defaults} == defaults
    assert "audience" not in shown
    assert "event_owner_selector" not in shown
    assert shown["schema"].keys() >= {"type", "schema", "version", "created_at"}
    assert shown["schema"]["version"] == "1.0.0"


def test_times_are_iso_8601_with_milliseconds_and_z(nakadi: Nakadi) -> None:
    """0.2."""
    shown = nakadi.create().shown()
    assert all(MOMENT.fullmatch(each) for each in (shown["created_at"], shown["updated_at"]))
    assert MOMENT.fullmatch(shown["schema"]["created_at"])
    assert shown["created_at"] == shown["updated_at"]


def test_the_schema_comes_back_as_it_was_given_spaces_included(nakadi: Nakadi) -> None:
    """2.3; UserJourneyAT."""
    text = '{\n\t"properties" : { "foo":{"type" :"string"} }  ,"description":"é\\u00e9"}\n'
    assert nakadi.create(schema=json_schema(text)).shown()["schema"]["schema"] == text


def test_every_field_is_kept(nakadi: Nakadi) -> None:
    """2.1; EventTypeAT.whenPOSTEventTypeWithAuthorizationThenOk and …WithAnnotationsAndLabelsThenOk."""
    given = {
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
        "annotations": {"nakadi.io/internal-event-type": "true", "criticality": "low"},
        "labels": {"cost-center": "2018", "interval.label/size": ""},
        "audience": "component-internal",
        "event_owner_selector": {"type": "path", "name": "retailer_id", "value": "foo"},
    } | ENRICHED
    shown = nakadi.create(**given).shown()
    assert {name: shown[name] for name in given} == given


def test_the_list_holds_whole_event_types_sorted_by_name(nakadi: Nakadi) -> None:
    """1.2; EventTypeAT.whenGETThenListsEventTypes."""
    created = [nakadi.create() for _ in range(3)]
    listed = nakadi.http.get("/event-types").json()
    assert all(each.shown() in listed for each in created)
    names = [each["name"] for each in listed]
    assert names == sorted(names)


def test_the_list_is_filtered_by_writer_and_by_owner(nakadi: Nakadi) -> None:
    """1.2; EventTypeAT.whenGETWithQueryEThenListsEventTypes."""
    owner = f"{nakadi.definition()['name']}-owner"
    writer = {"data_type": "service", "value": owner}
    wanted = nakadi.create(owning_application=owner, authorization=EVERYBODY | {"writers": [SOMEBODY, writer]})
    nakadi.create(owning_application=owner, authorization=EVERYBODY | {"readers": [writer]})
    nakadi.create(owning_application="other", authorization=EVERYBODY | {"writers": [writer]})

    def listed(**arguments: Any) -> list[str]:
        return [each["name"] for each in nakadi.http.get("/event-types", params=arguments).json()]

    assert listed(writer=f"service:{owner}", owning_application=owner) == [wanted.name]
    assert len(listed(writer=f"service:{owner}")) == 2
    assert len(listed(owning_application=owner)) == 2
    assert listed(writer=f"user:{owner}") == []


@pytest.mark.parametrize("writer", ["nobody", "", ":", "service:", ":x"])
def test_a_malformed_writer_is_answered_400(nakadi: Nakadi, writer: str) -> None:
    """1.2."""
    problem(nakadi.http.get("/event-types", params={"writer": writer}), 400)


@pytest.mark.parametrize("suffix", [".ps", ".json", ".v1.placed", ".1a", "-x_Y.z-"])
def test_a_name_with_dots_is_matched_whole(nakadi: Nakadi, suffix: str) -> None:
    """0.2; EventTypeAT.whenGetEventTypeWithRegisteredExtensionThenOk."""
    name = nakadi.definition()["name"] + suffix
    assert nakadi.create(name=name).shown()["name"] == name


def test_a_name_is_taken_once(nakadi: Nakadi) -> None:
    """1.2, 6."""
    taken = nakadi.create()
    problem(nakadi.post(name=taken.name), 409)


def test_a_name_too_long_is_told_its_length(nakadi: Nakadi) -> None:
    """2.1; EventTypeAT.rejectTooLongEventTypeNames."""
    assert "the length of the name must be" in nakadi.refuse(name="a" * 256)
    longest = nakadi.definition()["name"].ljust(255, "x")
    assert nakadi.create(name=longest).shown()["name"] == longest


@pytest.mark.parametrize("name", ["", "1a", "a b", "a.", ".a", "a..b", "a.-b", "é", "a/b", "_a"])
def test_a_name_follows_its_pattern(nakadi: Nakadi, name: str) -> None:
    """2.1."""
    assert 'Field "name"' in nakadi.refuse(name=name)


@pytest.mark.parametrize("field", ["name", "owning_application", "category", "schema"])
def test_a_field_that_is_required_is_missed_by_name(nakadi: Nakadi, field: str) -> None:
    """2.1, 6: bean validation."""
    without = {name: value for name, value in nakadi.definition().items() if name != field}
    for body in (without, without | {field: None}):
        assert f'Field "{field}' in problem(nakadi.http.post("/event-types", json=body), 422)["detail"]


@pytest.mark.parametrize("part", ["type", "schema"])
def test_a_schema_has_a_type_and_a_text(nakadi: Nakadi, part: str) -> None:
    """2.1: both are required."""
    without = {name: value for name, value in json_schema(SCHEMA).items() if name != part}
    for schema in (without, without | {part: None}):
        assert f'Field "schema.{part}"' in nakadi.refuse(schema=schema)
        problem(nakadi.create().post("/schemas", schema), 422)


def test_the_owning_application_may_be_empty(nakadi: Nakadi) -> None:
    """2.1."""
    assert nakadi.create(owning_application="").shown()["owning_application"] == ""


def test_all_that_is_wrong_is_told_line_by_line(nakadi: Nakadi) -> None:
    """6: one line per error, each naming its field."""
    detail = nakadi.refuse(name=None, owning_application=None, enrichment_strategies=None)
    lines = detail.strip().splitlines()
    assert sorted(line.split('"')[1] for line in lines) == ["enrichment_strategies", "name", "owning_application"]
    assert all(re.fullmatch(r'Field "[a-z_]+" .+', line) for line in lines)


def test_a_field_within_a_field_is_told_by_its_path(nakadi: Nakadi) -> None:
    """6."""
    assert 'Field "default_statistic.' in nakadi.refuse(default_statistic=statistic(1) | {"message_size": 0})


@pytest.mark.parametrize(
    "members",
    [
        {"enrichment_strategies": None},
        {"enrichment_strategies": ["metadata_enrichment"]},
        {"category": "business"},
        {"category": "data", "enrichment_strategies": []},
        {"category": "business", "enrichment_strategies": ["metadata_enrichment"] * 2},
        {"partition_strategy": None},
        {"partition_strategy": "whatever"},
        {"partition_strategy": "hash"},
        {"partition_strategy": "hash", "partition_key_fields": None},
        {"ordering_key_fields": ["nowhere"]},
        {"ordering_key_fields": ["foo"], "ordering_instance_ids": ["nowhere"]},
        {"ordering_instance_ids": ["foo"]},
        {"cleanup_policy": "compact"},
        {"cleanup_policy": "compact_and_delete"},
        {"event_owner_selector": {"type": "path", "name": "retailer", "value": "nowhere"}},
        {"event_owner_selector": {"type": "static", "name": "", "value": "nike"}},
    ],
)
def test_a_rule_that_is_broken_is_answered_422(nakadi: Nakadi, members: dict[str, Any]) -> None:
    """2.1, 2.9; compaction not for undefined."""
    nakadi.refuse(**members)


def test_an_unknown_partition_strategy_is_told_by_name(nakadi: Nakadi) -> None:
    """2.1, 2.9: a text, not an enum: 422."""
    assert "whatever" in nakadi.refuse(partition_strategy="whatever")


@pytest.mark.parametrize("missing", ["messages_per_minute", "message_size", "read_parallelism", "write_parallelism"])
def test_a_statistic_is_whole_or_not_there(nakadi: Nakadi, missing: str) -> None:
    """2.1."""
    for value in (None, -1):
        nakadi.refuse(default_statistic=statistic(1) | {missing: value})
    nakadi.refuse(default_statistic={name: value for name, value in statistic(1).items() if name != missing})


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (None, 1),
        (statistic(1) | {"messages_per_minute": 10**9, "message_size": 10**6}, 1),
        (statistic(1) | {"read_parallelism": 4}, 4),
        (statistic(1) | {"write_parallelism": 5}, 5),
        (statistic(3) | {"write_parallelism": 2}, 3),
    ],
    ids=["absent", "much", "read", "write", "both"],
)
def test_the_partitions_follow_from_the_parallelism_alone(
    nakadi: Nakadi, given: dict[str, int] | None, count: int
) -> None:
    """2.1: the larger of the two."""
    assert [each["partition"] for each in nakadi.create(default_statistic=given).partitions()] == [
        str(number) for number in range(count)
    ]


@pytest.mark.parametrize(
    "authorization",
    [
        {},
        {name: [] for name in EVERYBODY},
        EVERYBODY | {"readers": []},
        EVERYBODY | {"admins": None},
        {name: value for name, value in EVERYBODY.items() if name != "writers"},
        EVERYBODY | {"writers": [SOMEBODY, *OTHERS, SOMEBODY]},
        EVERYBODY | {"writers": [{"data_type": "user"}]},
        EVERYBODY | {"writers": [{"data_type": None, "value": "jane"}]},
    ],
)
def test_an_authorization_names_somebody_once_in_each_list(nakadi: Nakadi, authorization: dict[str, Any]) -> None:
    """2.1."""
    assert "authorization" in nakadi.refuse(authorization=authorization)


def test_an_owner_selector_by_metadata_has_no_value(nakadi: Nakadi) -> None:
    """2.1; EventTypeAT.whenEventAuthSelectorCreateWithMetadataAndValueThen422."""
    selector = {"type": "metadata", "name": "retailer_id"}
    nakadi.refuse(event_owner_selector=selector | {"value": "x"})
    assert nakadi.create(event_owner_selector=selector).shown()["event_owner_selector"].items() >= selector.items()


@pytest.mark.parametrize("selector", [{"type": "path", "value": "foo"}, {"type": "static", "value": "nike"}])
def test_an_owner_selector_is_kept(nakadi: Nakadi, selector: dict[str, str]) -> None:
    """2.1; EventTypeAT.whenEventAuthSelectorSetOnCreateThenOK."""
    selector = selector | {"name": "retailer_id"}
    assert nakadi.create(event_owner_selector=selector).shown()["event_owner_selector"] == selector


@pytest.mark.parametrize(
    "path",
    ["foo", "metadata.eid", "deep.er"],
)
def test_ordering_fields_are_looked_for_in_the_effective_schema(nakadi: Nakadi, path: str) -> None:
    """2.1, 2.4: dots lead into objects, and metadata is there."""
    schema = {"properties": {"foo": {"type": "string"}, "deep": {"properties": {"er": {"type": "string"}}}}}
    created = nakadi.create(category="business", ordering_key_fields=[path], schema=json_schema(schema))
    assert created.shown()["ordering_key_fields"] == [path]


def test_the_effective_schema_of_a_data_change_has_its_fields_under_data(nakadi: Nakadi) -> None:
    """2.1, 2.3."""
    assert nakadi.create(category="data", ordering_key_fields=["data.foo"]).shown()["ordering_key_fields"]
    nakadi.refuse(category="data", ordering_key_fields=["foo"], **ENRICHED)


def test_partition_keys_are_not_looked_for_in_the_schema(nakadi: Nakadi) -> None:
    """2.4; 11, no. 3."""
    created = nakadi.create(partition_strategy="hash", partition_key_fields=["nowhere"])
    assert created.shown()["partition_key_fields"] == ["nowhere"]


# 2.2


@pytest.mark.parametrize("attached", ["annotations", "labels"])
def test_an_empty_key_is_told_two_lines(nakadi: Nakadi, attached: str) -> None:
    """2.2; EventTypeAT.whenPOSTEventTypeWithInvalidAnnotationOrLabelThenError."""
    lines = nakadi.refuse(**{attached: {"": "value"}}).strip().splitlines()
    assert lines[0] == f'Field "{attached}[]" Key cannot be empty'
    assert lines[1].startswith(f'Field "{attached}[]" Key name should start and end with a letter or a digit')


@pytest.mark.parametrize("attached", ["annotations", "labels"])
@pytest.mark.parametrize(
    "key",
    ["-a", "a-", "a b", "é", "a" * 64, "/a", "Upper.case/a", "a_b/c", "x/", "a/b/c", "p" * 254 + "/a"],
    ids=lambda key: key[:12],
)
def test_a_key_that_is_none_is_refused_by_name(nakadi: Nakadi, attached: str, key: str) -> None:
    """2.2."""
    assert f'Field "{attached}[{key}]"' in nakadi.refuse(**{attached: {key: "value"}})


@pytest.mark.parametrize("attached", ["annotations", "labels"])
@pytest.mark.parametrize(
    "key", ["a", "A", "0", "a-_.b", "a" * 63, "nakadi.io/a", "a.b-c.d/E"], ids=lambda key: key[:12]
)
def test_a_key_may_have_a_prefix(nakadi: Nakadi, attached: str, key: str) -> None:
    """2.2."""
    assert nakadi.create(**{attached: {key: "value"}}).shown()[attached] == {key: "value"}


def test_an_annotation_takes_any_text_up_to_1000_characters(nakadi: Nakadi) -> None:
    """2.2."""
    text = "é !\n\t{}".ljust(1000, "x")
    assert nakadi.create(annotations={"a": text, "b": ""}).shown()["annotations"] == {"a": text, "b": ""}
    nakadi.refuse(annotations={"a": text + "x"})


@pytest.mark.parametrize("value", ["-a", "a-", "a b", "é", "a" * 64], ids=lambda value: value[:12])
def test_a_label_is_a_name_or_empty(nakadi: Nakadi, value: str) -> None:
    """2.2."""
    assert 'Field "labels[a]"' in nakadi.refuse(labels={"a": value})
    assert nakadi.create(labels={"a": "", "b": "x" * 63}).shown()["labels"] == {"a": "", "b": "x" * 63}


# 2.9: deleting


def test_a_deleted_event_type_is_gone(nakadi: Nakadi) -> None:
    """1.2; EventTypeAT.whenDELETEEventTypeThenOK, UserJourneyAT.testEventTypeDeletion."""
    created = nakadi.create()
    created.publish({"foo": "bar"})
    created.drop()
    problem(created.get(), 404)
    problem(created.get("/partitions"), 404)
    problem(created.get("/schemas"), 404)
    problem(created.hand_in({"foo": "bar"}), 404)
    problem(nakadi.http.delete(created.path), 404)
    assert created.name not in [each["name"] for each in nakadi.http.get("/event-types").json()]


def test_an_event_type_created_again_begins_anew(nakadi: Nakadi) -> None:
    """2.9; what lies in an old cursor's middle part is the epoch (12), so that it is not taken for a new one."""
    created = nakadi.create()
    created.publish({"foo": "old"})
    assert created.shown()["schema"]["version"] == "1.0.0"
    old = created.newest()
    created.drop()
    again = nakadi.create(name=created.name)
    assert again.shown()["schema"]["version"] == "1.0.0"
    again.publish({"foo": "new"})
    assert again.newest() != old
    assert all(offset.endswith("-000000000000000000") for offset in again.newest().values())
    assert again.events(1) == [{"foo": "new"}]


def test_what_does_not_exist_cannot_be_replaced(nakadi: Nakadi) -> None:
    """1.2."""
    problem(nakadi.http.put("/event-types/nowhere", json=nakadi.definition(name="nowhere")), 404)


def test_the_strategies_to_choose_from_are_listed(nakadi: Nakadi) -> None:
    """1.1."""
    assert nakadi.http.get("/registry/enrichment-strategies").json() == ["metadata_enrichment"]
    assert nakadi.http.get("/registry/partition-strategies").json() == ["hash", "user_defined", "random"]


def test_the_schema_that_acceptance_tests_give_is_kept(nakadi: Nakadi) -> None:
    """8: their default event type."""
    shown = nakadi.create().shown()
    assert only([shown["schema"]["schema"]]) == SCHEMA
    assert shown["options"]["retention_time"] == 172_800_000
