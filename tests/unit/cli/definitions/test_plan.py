"""The plan of `apply` for an event type: its steps, its body, and the predicted refusals."""

import json
from typing import Any

import pytest

from penstock.cli.definitions.checks import EventTypePlan, make_plan
from penstock.cli.failures import CommandFailure
from penstock.client.registry import fill_definition
from penstock.core.registry.event_type import EventType

STATISTIC = {"messages_per_minute": 1, "message_size": 1, "read_parallelism": 2, "write_parallelism": 2}


def schema(**properties: Any) -> dict[str, str]:
    return {"type": "json_schema", "schema": json.dumps({"properties": properties})}


FILE = fill_definition({"name": "a", "category": "business", "owning_application": "shop", "schema": schema(n={})})


def registered(given: dict[str, Any]) -> dict[str, Any]:
    """Return what a hub shows of a definition that was created with it."""
    event_type = EventType.parse(given)
    times = {"created_at": "2026-11-20T00:00:00.000Z", "updated_at": "2026-11-20T00:00:00.000Z"}
    return event_type.definition | times | {"partition_count": event_type.partition_count}


def plan(more: dict[str, Any], given: dict[str, Any] = FILE) -> EventTypePlan:
    return make_plan(FILE | more, registered(given))


def test_missing_event_type_is_created_and_a_shown_one_needs_no_step() -> None:
    assert make_plan(FILE, None) == EventTypePlan("a", ("create",), FILE)

    shown = registered(FILE | {"partition_count": 4, "labels": {"team": "a"}})

    assert make_plan(shown, shown).steps == ()


STEPS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...], list[str]]] = [
    ({}, FILE, (), []),
    ({"labels": {}, "authorization": None, "partition_strategy": "RANDOM"}, FILE, (), []),
    ({"partition_count": 4}, FILE | {"partition_count": 4}, (), []),
    ({}, FILE | {"partition_count": 4}, (), []),
    ({}, FILE | {"labels": {"team": "a"}, "annotations": {"b": "c"}, "options": {"retention_time": 7}}, (), []),
    ({"default_statistic": STATISTIC}, FILE | {"default_statistic": STATISTIC}, (), []),
    ({"default_statistic": STATISTIC}, FILE | {"partition_count": 2}, (), []),
    ({"schema": {"type": "json_schema", "schema": ' {"properties" : {"n":{}}}'}}, FILE, (), []),
    ({"schema": schema(n={"enum": [True]})}, FILE | {"schema": schema(n={"enum": [1]})}, ("replace",), []),
    ({"owning_application": "till"}, FILE, ("replace",), ['~ #/owning_application: "shop" -> "till"']),
    ({"labels": {"team": "b"}}, FILE | {"labels": {"team": "a"}}, ("replace",), ['~ #/labels/team: "a" -> "b"']),
    ({}, FILE | {"ordering_key_fields": ["n"]}, ("replace",), ['~ #/ordering_key_fields: ["n"] -> []']),
    ({}, FILE | {"colour": "red"}, ("replace",), ['- #/colour: "red"']),
    ({"colour": "red"}, FILE, ("replace",), ['+ #/colour: "red"']),
    ({"default_statistic": STATISTIC | {"message_size": 9}}, FILE | {"default_statistic": STATISTIC},
     ("replace",), ["~ #/default_statistic/message_size: 1 -> 9"]),
]  # fmt: skip


@pytest.mark.parametrize(("file", "given", "steps", "told"), STEPS)
def test_members_that_differ_are_replaced(
    file: dict[str, Any], given: dict[str, Any], steps: tuple[str, ...], told: list[str]
) -> None:
    found = plan(file, given)

    assert (found.steps, [str(each) for each in found.differences]) == (steps, told)
    if not steps:
        assert (found.schemas, found.refused) == (None, ())


def test_different_schema_is_replaced_and_an_equal_one_keeps_its_text() -> None:
    found = plan({"schema": schema(n={}, m={})})

    assert (found.steps, found.differences) == (("replace",), ())
    assert found.schemas == (FILE["schema"]["schema"], schema(n={}, m={})["schema"])

    found = plan({"schema": {"type": "json_schema", "schema": '{"properties":{"n":{}}}'}, "labels": {"a": "b"}})

    assert found.body["schema"]["schema"] == FILE["schema"]["schema"]


def test_partitions_are_added_in_a_step_of_their_own() -> None:
    found = plan({"partition_count": 8, "owning_application": "till"})

    assert (found.steps, found.partitions) == (("replace", "grow"), (1, 8))
    assert "partition_count" not in found.body


@pytest.mark.parametrize("before", [FILE, FILE | {"default_statistic": STATISTIC}])
def test_partitions_are_added_by_the_statistic_too(before: dict[str, Any]) -> None:
    found = plan({"default_statistic": STATISTIC | {"write_parallelism": 4}}, before)

    assert (found.steps, found.partitions and found.partitions[1], found.refused) == (("grow",), 4, ())


@pytest.mark.parametrize(
    ("file", "given", "why"),
    [
        ({"category": "data"}, FILE, "category can change from undefined to business alone, not from business to data"),
        ({"cleanup_policy": "compact"}, FILE, "cleanup_policy can change from delete to compact_and_delete alone"),
        ({}, FILE | {"audience": "external-public"}, "audience may not become null once it is set"),
        ({"partition_count": 2}, FILE | {"partition_count": 4}, "it has 4 partitions, and cannot have fewer: not 2"),
        ({"schema": schema(m={})}, FILE, "Invalid schema: #/properties/n: properties cannot be removed"),
    ],
)
def test_refusal_of_the_hub_is_predicted(file: dict[str, Any], given: dict[str, Any], why: str) -> None:
    [refused] = plan(file, given).refused

    assert refused.startswith(why)


def test_refused_plan_lists_its_differences() -> None:
    found = plan({"schema": schema(m={}), "owning_application": "till"}, FILE | {"labels": {"team": "a"}})

    assert [str(each) for each in found.differences] == ['~ #/owning_application: "shop" -> "till"']


def test_hub_without_a_known_member_is_reported_as_another_version() -> None:
    shown = {member: value for member, value in registered(FILE).items() if member != "compatibility_mode"}

    with pytest.raises(CommandFailure, match="the hub shows a without 'compatibility_mode'"):
        make_plan(FILE, shown)
