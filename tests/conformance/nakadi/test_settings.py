"""Administration: the blacklist, administrators, features, storages and timelines."""

from typing import Any

import pytest

from tests.conformance.nakadi.hubs import JANE, ON_SQLITE, block, switch, unblock
from tests.nakadi import DAY_MS, EventType, Nakadi, json_schema, problem

pytestmark = pytest.mark.usefixtures("restored")
KINDS = {
    "CONSUMER_APP": ("consumers", "apps"),
    "CONSUMER_ET": ("consumers", "event_types"),
    "PRODUCER_APP": ("producers", "apps"),
    "PRODUCER_ET": ("producers", "event_types"),
}
LISTS = ("admins", "readers", "writers")


@pytest.mark.parametrize("kind", KINDS)
def test_blacklist_shows_each_block_once_until_it_is_lifted(nakadi: Nakadi, kind: str) -> None:
    """SettingsControllerAT.testGetBlacklist, testBlacklistConsumerByEventType, testWhitelistConsumer…."""
    side, things = KINDS[kind]
    name = nakadi.definition()["name"]

    def count() -> int:
        shown = nakadi.http.get("/settings/blacklist").json()
        things_of_both = {"event_types", "apps"}
        assert {each: set(shown[each]) for each in shown} == dict.fromkeys(("producers", "consumers"), things_of_both)
        return int(shown[side][things].count(name))

    assert count() == 0
    for _ in range(2):
        block(nakadi, name, kind)
        assert count() == 1
    for _ in range(2):
        unblock(nakadi, name, kind)
        assert count() == 0


@ON_SQLITE
def test_unknown_kind_of_block_is_answered_400(nakadi: Nakadi) -> None:
    for kind in ("CONSUMER", "consumer_et", "x"):
        problem(nakadi.http.put(f"/settings/blacklist/{kind}/x"), 400)


@pytest.mark.parametrize("kind", ["PRODUCER_ET", "PRODUCER_APP"])
def test_blocked_producer_may_read_and_not_publish(nakadi: Nakadi, kind: str) -> None:
    """BlockEventPublishingAT.whenPublishingToBlockedEventTypeThen403: 200, 403, 200."""
    created = nakadi.create()
    name = created.name if kind == "PRODUCER_ET" else "unauthenticated"
    created.publish({"foo": "a"})
    block(nakadi, name, kind)
    assert problem(created.hand_in({"foo": "b"}), 403)["detail"] == "Application or event type is blocked"
    problem(created.hand_in("["), 403)
    assert created.events(1) == [{"foo": "a"}]
    unblock(nakadi, name, kind)
    created.publish({"foo": "c"})
    assert created.events(2) == [{"foo": "a"}, {"foo": "c"}]


def test_administrators_are_replaced_by_three_lists_that_all_name_someone(strict: Nakadi) -> None:
    """SettingsControllerAT.testGetAdmins, testPostAdmins, testPostNotAdminsThen422; they cannot be removed again."""
    lists: dict[str, Any] = {name: [JANE] for name in LISTS} | {"writers": [JANE, {"data_type": "team", "value": "a"}]}
    answer = strict.http.post("/settings/admins", json=lists)
    assert (answer.status_code, answer.content) == (200, b"")
    shown = strict.http.get("/settings/admins").json()
    assert set(shown) == set(LISTS)
    assert all(each in shown[name] for name in LISTS for each in lists[name])
    for name in LISTS:
        without = {each: lists[each] for each in LISTS if each != name}
        for wrong in (without, without | {name: []}, without | {name: None}):
            problem(strict.http.post("/settings/admins", json=wrong), 422)
    assert strict.http.get("/settings/admins").json() == shown


# Features


def test_feature_is_switched_on_and_off(nakadi: Nakadi) -> None:
    feature = "return_body_on_create_update_event_type"

    def enabled() -> bool:
        items = nakadi.http.get("/settings/features").json()["items"]
        assert all(set(each) == {"feature", "enabled"} for each in items)
        return bool({each["feature"]: each["enabled"] for each in items}[feature])

    assert not enabled()
    switch(nakadi, feature)
    assert enabled()
    definition = nakadi.definition()
    answer = nakadi.http.post("/event-types", json=definition)
    created = EventType(nakadi.http, definition["name"])
    assert (answer.status_code, answer.json()) == (201, created.shown())
    answer = created.put(labels={"a": "b"})
    assert (answer.status_code, answer.json()) == (200, created.shown())
    switch(nakadi, feature, on=False)
    assert not enabled()


@ON_SQLITE
@pytest.mark.parametrize(
    "body",
    [
        {"feature": "disable_everything", "enabled": True},
        {"feature": "disable_event_type_creation", "enabled": "yes"},
        {"feature": "disable_event_type_creation"},
        {"feature": "disable_event_type_creation", "enabled": True, "enable": True},
        {"enabled": True},
        [],
    ],
    ids=str,
)
def test_malformed_switch_is_answered_400(nakadi: Nakadi, body: Any) -> None:
    """SettingsControllerAT.testInvalidFeatureToggle: an unknown feature, or an unknown field."""
    problem(nakadi.http.post("/settings/features", json=body), 400)


def test_disabled_writes_leave_event_types_as_they_are_and_events_flow(nakadi: Nakadi) -> None:
    """FeatureFlagsAT.whenDbWriteOperationsInactiveThen503s; a definition is validated first."""
    created = nakadi.create()
    switch(nakadi, "disable_db_write_operations")
    problem(nakadi.post(), 503)
    problem(nakadi.post(name=None), 422)
    problem(created.put(), 503)
    problem(created.post("/schemas", json_schema("{}")), 503)
    problem(nakadi.http.delete(created.path), 503)
    problem(created.http.put(f"{created.path}/partition-count", json={"partition_count": 2}), 503)
    created.publish({"foo": "a"})
    assert created.events(1) == [{"foo": "a"}]
    switch(nakadi, "disable_db_write_operations", on=False)
    created.changed()


def test_creation_and_deletion_of_event_types_can_be_disabled(nakadi: Nakadi) -> None:
    created = nakadi.create()
    switch(nakadi, "disable_event_type_creation")
    problem(nakadi.post(), 501)
    problem(nakadi.post(name=None), 501)
    switch(nakadi, "disable_event_type_creation", on=False)
    switch(nakadi, "disable_event_type_deletion")
    problem(nakadi.http.delete(created.path), 403)
    nakadi.create()
    switch(nakadi, "disable_event_type_deletion", on=False)
    created.drop()


# Storages and timelines


@ON_SQLITE
def test_only_storage_is_the_default_one(nakadi: Nakadi) -> None:
    [storage] = nakadi.http.get("/storages").json()
    assert (storage["id"], storage["default"]) == ("default", True)
    assert nakadi.http.get("/storages/default").json() == storage
    assert nakadi.http.put("/storages/default/default").status_code == 200
    problem(nakadi.http.get("/storages/another"), 404)
    problem(nakadi.http.put("/storages/default/another"), 404)
    problem(nakadi.http.delete("/storages/another"), 404)
    problem(nakadi.http.delete("/storages/default"), 403)
    problem(nakadi.http.post("/storages", json={"id": "another", "storage_type": "kafka"}), 422)


@ON_SQLITE
def test_event_type_has_one_timeline(nakadi: Nakadi) -> None:
    """TimelinesControllerAT.testCreateNextTimeline; another one is answered 422."""
    created = nakadi.create(options={"retention_time": DAY_MS})
    [timeline] = created.get("/timelines").json()
    assert {"id", "event_type", "order", "storage_id", "created_at", "switched_at", "cleaned_up_at"} <= set(timeline)
    assert (timeline["event_type"], timeline["order"], timeline["storage_id"]) == (created.name, 1, "default")
    assert timeline["cleaned_up_at"] is None
    problem(created.post("/timelines", {"storage_id": "default"}), 422)
    problem(EventType(nakadi.http, "nowhere").get("/timelines"), 404)
