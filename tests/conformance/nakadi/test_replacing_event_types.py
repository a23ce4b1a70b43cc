"""Event types that are put anew: what of them may change, and what stays."""

from typing import Any

import pytest

from tests.nakadi import DAY_MS, SCHEMA, Nakadi, business, json_schema, problem, statistic

EVERYBODY = {name: [{"data_type": "user", "value": "jane"}] for name in ("admins", "readers", "writers")}
SOMEBODY_ELSE = {name: [{"data_type": "user", "value": "joe"}] for name in ("admins", "readers", "writers")}
SELECTOR = {"type": "path", "name": "retailer_id", "value": "foo"}


def test_a_whole_body_can_be_put_back(nakadi: Nakadi) -> None:
    """0.2, 1.2; EventTypeAT.whenPUTValidEventTypeThenOK: 200, an empty body."""
    created = nakadi.create(
        category="business",
        partition_strategy="hash",
        partition_key_fields=["foo"],
        default_statistic=statistic(2),
        authorization=EVERYBODY,
        annotations={"a": "b"},
        labels={"c": "d"},
        audience="external-public",
        event_owner_selector=SELECTOR,
    )
    before = created.shown()
    after = created.changed()
    for each in (before, after):
        del each["updated_at"]
    assert after == before
    assert created.get("/schemas").json()["items"] == [before["schema"]]


def test_a_change_moves_updated_at_alone(nakadi: Nakadi) -> None:
    """0.2."""
    created = nakadi.create()
    before = created.shown()
    after = created.changed(owning_application="another")
    assert after["updated_at"] > before["updated_at"]
    assert after["created_at"] == before["created_at"]


@pytest.mark.parametrize(
    "members",
    [
        {"owning_application": "another"},
        {"annotations": {"x": "y"}},
        {"labels": {"x": "y"}},
        {"annotations": {}, "labels": {}},
        {"ordering_key_fields": ["foo"], "ordering_instance_ids": ["foo"]},
        {"audience": "company-internal"},
        {"authorization": SOMEBODY_ELSE},
        {"event_owner_selector": SELECTOR},
        {"partition_key_fields": ["foo"]},
        {"options": {"retention_time": 4 * DAY_MS}},
    ],
)
def test_what_may_change_changes(nakadi: Nakadi, members: dict[str, Any]) -> None:
    """2.8; EventTypeAT.whenEventAuthSelectorSetOnUpdateThenOK, whenUpdateRetentionTime…."""
    created = nakadi.create(annotations={"a": "b"}, labels={"c": "d"})
    shown = created.changed(**members)
    assert {name: shown[name] for name in members} == members


@pytest.mark.parametrize("absent", [False, True])
def test_annotations_and_labels_stay_where_none_are_given(nakadi: Nakadi, absent: bool) -> None:
    """2.2; EventTypeAT.whenPUTEventTypeWithoutAnnotationsAndLabelsThenOriginalValuesAreKept."""
    created = nakadi.create(annotations={"a": "b"}, labels={"c": "d"})
    shown = created.changed("annotations", "labels") if absent else created.changed(annotations=None, labels=None)
    assert (shown["annotations"], shown["labels"]) == ({"a": "b"}, {"c": "d"})
    assert created.changed(annotations={"x": "y"})["annotations"] == {"x": "y"}


@pytest.mark.parametrize("options", [None, {}, {"retention_time": None}])
def test_the_retention_stays_where_none_is_given(nakadi: Nakadi, options: Any) -> None:
    """2.8; EventTypeAT.whenUpdateRetentionTimeWithNullValueNoChange."""
    created = nakadi.create(options={"retention_time": 3 * DAY_MS})
    assert created.changed(options=options)["options"]["retention_time"] == 3 * DAY_MS
    assert created.changed("options")["options"]["retention_time"] == 3 * DAY_MS


def test_an_authorization_that_is_set_cannot_become_null(nakadi: Nakadi) -> None:
    """2.8; EventTypeAT.whenUpdateETAuthObjectThen422."""
    created = nakadi.create(authorization=EVERYBODY)
    for answer in (created.put(authorization=None), created.put("authorization")):
        detail = problem(answer, 422)["detail"]
        assert detail == "Changing authorization object to `null` is not possible due to existing one"
    assert created.shown()["authorization"] == EVERYBODY
    unset = nakadi.create()
    assert unset.changed(authorization=EVERYBODY)["authorization"] == EVERYBODY


def test_an_audience_that_is_set_cannot_become_null(nakadi: Nakadi) -> None:
    """2.8."""
    created = nakadi.create(audience="external-partner")
    problem(created.put(audience=None), 422)
    problem(created.put("audience"), 422)
    assert created.changed(audience="company-internal")["audience"] == "company-internal"


def test_the_name_is_that_of_the_path(nakadi: Nakadi) -> None:
    """2.8."""
    created = nakadi.create()
    problem(created.put(name="another"), 422)


@pytest.mark.parametrize(
    ("before", "after"),
    [("undefined", "data"), ("business", "undefined"), ("business", "data"), ("data", "business")],
)
def test_the_category_cannot_change(nakadi: Nakadi, before: str, after: str) -> None:
    """2.8."""
    strategies = [] if after == "undefined" else ["metadata_enrichment"]
    created = nakadi.create(category=before, compatibility_mode="forward")
    problem(created.put(category=after, enrichment_strategies=strategies), 422)
    assert created.shown()["category"] == before


@pytest.mark.parametrize("mode", ["none", "forward"])
def test_undefined_becomes_business_with_its_enrichment(nakadi: Nakadi, mode: str) -> None:
    """2.8."""
    created = nakadi.create(compatibility_mode=mode)
    problem(created.put(category="business"), 422)
    created.publish({"foo": "before"})
    shown = created.changed(category="business", enrichment_strategies=["metadata_enrichment"])
    assert (shown["category"], shown["enrichment_strategies"]) == ("business", ["metadata_enrichment"])
    created.refuse({"foo": "after"})
    created.publish(business(foo="after"))


def test_undefined_becomes_business_in_no_compatible_mode(nakadi: Nakadi) -> None:
    """2.8."""
    created = nakadi.create(compatibility_mode="compatible")
    problem(created.put(category="business", enrichment_strategies=["metadata_enrichment"]), 422)


@pytest.mark.parametrize(("category", "strategies"), [("undefined", ["metadata_enrichment"]), ("business", [])])
def test_the_enrichment_cannot_change(nakadi: Nakadi, category: str, strategies: list[str]) -> None:
    """2.8."""
    problem(nakadi.create(category=category).put(enrichment_strategies=strategies), 422)


def test_a_random_event_type_becomes_hashed(nakadi: Nakadi) -> None:
    """2.8; EventTypeAT.whenUpdatePartitioningStrategyFromRandomThenOK."""
    created = nakadi.create(partitions=2)
    shown = created.changed(partition_strategy="hash", partition_key_fields=["foo"])
    assert (shown["partition_strategy"], shown["partition_key_fields"]) == ("hash", ["foo"])
    problem(created.put(partition_key_fields=[]), 422)
    created.publish({"foo": "Hello"})


def test_a_partition_strategy_must_be_one(nakadi: Nakadi) -> None:
    """2.8; EventTypeAT.whenUpdatePartitioningStrategyToNonExistingStrategyThen422."""
    created = nakadi.create()
    problem(created.put(partition_strategy="random123"), 422)
    problem(created.put(partition_strategy=None), 422)


@pytest.mark.parametrize("name", ["read_parallelism", "write_parallelism"])
def test_the_parallelism_stays(nakadi: Nakadi, name: str) -> None:
    """2.8, 10: equal, or left out; only the two parallelisms are compared."""
    created = nakadi.create(default_statistic=statistic(2))
    problem(created.put(default_statistic=statistic(2) | {name: 3}), 422)
    assert created.changed("default_statistic")["default_statistic"] == statistic(2)
    assert created.changed(default_statistic=None)["default_statistic"] == statistic(2)
    created.changed(default_statistic=statistic(2) | {"message_size": 9, "messages_per_minute": 9})
    assert len(created.partitions()) == 2


def test_delete_becomes_compact_and_delete(nakadi: Nakadi) -> None:
    """2.8; EventTypeAT.whenUpdateCleanupPolicyDeleteToDeleteCompactJourney."""
    created = nakadi.create(category="business", compatibility_mode="forward")
    created.publish(business(foo="without a key"))
    assert created.changed(cleanup_policy="compact_and_delete")["cleanup_policy"] == "compact_and_delete"
    item = created.refuse(business(foo="without a key"))[0]
    assert (item["publishing_status"], item["step"]) == ("failed", "validating")
    assert "partition_compaction_key" in item["detail"]
    created.publish(business(foo="with one", meta={"partition_compaction_key": "a"}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("delete", "compact"),
        ("compact", "delete"),
        ("compact", "compact_and_delete"),
        ("compact_and_delete", "delete"),
        ("compact_and_delete", "compact"),
    ],
)
def test_no_other_cleanup_policy_can_change(nakadi: Nakadi, before: str, after: str) -> None:
    """2.8."""
    created = nakadi.create(category="business", cleanup_policy=before)
    problem(created.put(cleanup_policy=after), 422)
    assert created.shown()["cleanup_policy"] == before


@pytest.mark.parametrize("after", ["none", "forward", "compatible"])
@pytest.mark.parametrize("before", ["none", "forward", "compatible"])
def test_an_admin_may_set_any_mode(nakadi: Nakadi, before: str, after: str) -> None:
    """2.8, 2.9: under the default plugin everybody is one."""
    created = nakadi.create(compatibility_mode=before)
    assert created.changed(compatibility_mode=after)["compatibility_mode"] == after


def test_a_schema_changes_with_its_version(nakadi: Nakadi) -> None:
    """2.6; UserJourneyAT.userJourneyM1: an optional property takes 1.0.0 to 1.1.0."""
    created = nakadi.create()
    schema = {"properties": {"foo": {"type": "string"}, "bar": {"type": "string"}}}
    shown = created.changed(schema=json_schema(schema))
    assert shown["schema"]["version"] == "1.1.0"
    created.publish({"foo": "a", "bar": "b"})


def test_the_same_schema_makes_no_version(nakadi: Nakadi) -> None:
    """2.6."""
    created = nakadi.create()
    before = created.shown()["schema"]
    assert created.changed(schema=json_schema(SCHEMA), labels={"a": "b"})["schema"] == before


def test_nothing_changes_where_something_is_refused(nakadi: Nakadi) -> None:
    """2.8."""
    created = nakadi.create()
    before = created.shown()
    problem(created.put(owning_application="another", schema=json_schema({"properties": {}})), 422)
    problem(created.put(owning_application="another", category="data"), 422)
    assert created.shown() == before
