"""Administration: who is blocked, who administers, which features are on, storages and timelines."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.nakadi import DAY_MS, EventType, Nakadi, json_schema, problem
from tests.served import as_new

KINDS = {
    "CONSUMER_APP": ("consumers", "apps"),
    "CONSUMER_ET": ("consumers", "event_types"),
    "PRODUCER_APP": ("producers", "apps"),
    "PRODUCER_ET": ("producers", "event_types"),
}
SOMEBODY = {"data_type": "user", "value": "jane"}


@pytest.fixture(autouse=True)
def restored(nakadi: Nakadi, strict: Nakadi) -> Iterator[None]:
    yield
    as_new(nakadi.http)
    as_new(strict.http)


def switch(nakadi: Nakadi, feature: str, *, on: bool) -> None:
    answer = nakadi.http.post("/settings/features", json={"feature": feature, "enabled": on})
    assert (answer.status_code, answer.content) == (204, b"")


# The blacklist


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_blocked_is_shown(nakadi: Nakadi, kind: str) -> None:
    """1.5; SettingsControllerAT.testGetBlacklist, testBlacklistConsumerByEventType, testWhitelistConsumer…."""
    side, things = KINDS[kind]
    path, name = f"/settings/blacklist/{kind}", nakadi.definition()["name"]

    def blocked() -> list[str]:
        shown = nakadi.http.get("/settings/blacklist").json()
        assert {each: set(shown[each]) for each in shown} == {
            "producers": {"event_types", "apps"},
            "consumers": {"event_types", "apps"},
        }
        found: list[str] = shown[side][things]
        return found

    assert name not in blocked()
    for _ in range(2):
        assert nakadi.http.put(f"{path}/{name}").status_code == 204
        assert blocked().count(name) == 1
    for _ in range(2):
        assert nakadi.http.delete(f"{path}/{name}").status_code == 204
        assert name not in blocked()


@pytest.mark.parametrize("kind", ["CONSUMER", "consumer_et", "x"])
def test_kinds_of_blocks_are_written_exactly_so(nakadi: Nakadi, kind: str) -> None:
    """0.2: one of two enums that are."""
    problem(nakadi.http.put(f"/settings/blacklist/{kind}/x"), 400)


@pytest.mark.parametrize("kind", ["PRODUCER_ET", "PRODUCER_APP"])
def test_who_is_blocked_cannot_publish(nakadi: Nakadi, kind: str) -> None:
    """3.2, 7; BlockEventPublishingAT.whenPublishingToBlockedEventTypeThen403: 200, 403, 200."""
    created = nakadi.create()
    blocked = created.name if kind == "PRODUCER_ET" else "unauthenticated"
    created.publish({"foo": "a"})
    assert nakadi.http.put(f"/settings/blacklist/{kind}/{blocked}").status_code == 204
    detail = problem(created.hand_in({"foo": "b"}), 403)["detail"]
    assert detail == "Application or event type is blocked"
    problem(created.hand_in("["), 403)
    assert nakadi.http.delete(f"/settings/blacklist/{kind}/{blocked}").status_code == 204
    created.publish({"foo": "c"})
    assert created.events(2) == [{"foo": "a"}, {"foo": "c"}]


def test_a_producer_that_is_blocked_may_read(nakadi: Nakadi) -> None:
    """7."""
    created = nakadi.create()
    created.publish({"foo": "a"})
    assert nakadi.http.put(f"/settings/blacklist/PRODUCER_ET/{created.name}").status_code == 204
    assert created.events(1) == [{"foo": "a"}]


# Administrators; those of the strict hub, since they cannot be taken away again


def test_administrators_are_shown_in_three_lists(nakadi: Nakadi) -> None:
    """1.5; SettingsControllerAT.testGetAdmins."""
    shown = nakadi.http.get("/settings/admins").json()
    assert set(shown) == {"admins", "readers", "writers"}
    assert all(set(each) == {"data_type", "value"} for name in shown for each in shown[name])


def test_administrators_are_replaced(strict: Nakadi) -> None:
    """1.5; SettingsControllerAT.testPostAdmins: 200, an empty body."""
    lists = {"admins": [SOMEBODY], "readers": [SOMEBODY], "writers": [SOMEBODY, {"data_type": "team", "value": "a"}]}
    answer = strict.http.post("/settings/admins", json=lists)
    assert (answer.status_code, answer.content) == (200, b"")
    shown = strict.http.get("/settings/admins").json()
    assert all(each in shown[name] for name, held in lists.items() for each in held)


@pytest.mark.parametrize("name", ["admins", "readers", "writers"])
def test_each_list_names_somebody(strict: Nakadi, name: str) -> None:
    """1.5; SettingsControllerAT.testPostNotAdminsThen422."""
    lists: dict[str, Any] = {each: [SOMEBODY] for each in ("admins", "readers", "writers")}
    before = strict.http.get("/settings/admins").json()
    for wrong in ([], None):
        problem(strict.http.post("/settings/admins", json=lists | {name: wrong}), 422)
    del lists[name]
    problem(strict.http.post("/settings/admins", json=lists), 422)
    assert strict.http.get("/settings/admins").json() == before


# Features


def test_features_are_listed_and_switched(nakadi: Nakadi) -> None:
    """1.5."""
    feature = "return_body_on_create_update_event_type"

    def enabled() -> bool:
        items = nakadi.http.get("/settings/features").json()["items"]
        assert all(set(each) == {"feature", "enabled"} for each in items)
        return bool({each["feature"]: each["enabled"] for each in items}[feature])

    assert not enabled()
    switch(nakadi, feature, on=True)
    assert enabled()
    switch(nakadi, feature, on=False)
    assert not enabled()


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
def test_a_switch_that_is_none_is_answered_400(nakadi: Nakadi, body: Any) -> None:
    """1.5; SettingsControllerAT.testInvalidFeatureToggle: an unknown feature, or an unknown field."""
    problem(nakadi.http.post("/settings/features", json=body), 400)


def test_nothing_changes_while_changes_are_switched_off(nakadi: Nakadi) -> None:
    """1.2, 2.9; FeatureFlagsAT.whenDbWriteOperationsInactiveThen503s."""
    created = nakadi.create()
    switch(nakadi, "disable_db_write_operations", on=True)
    problem(nakadi.post(), 503)
    problem(created.put(), 503)
    problem(created.post("/schemas", json_schema("{}")), 503)
    problem(nakadi.http.delete(created.path), 503)
    problem(created.http.put(f"{created.path}/partition-count", json={"partition_count": 2}), 503)
    assert created.shown()
    created.publish({"foo": "a"})
    assert created.events(1) == [{"foo": "a"}]
    switch(nakadi, "disable_db_write_operations", on=False)
    created.changed()


def test_a_definition_is_looked_at_before_changes_are(nakadi: Nakadi) -> None:
    """2.9: bean validation, then the flag of writes."""
    switch(nakadi, "disable_db_write_operations", on=True)
    problem(nakadi.post(name=None), 422)


def test_event_types_are_not_created_where_that_is_switched_off(nakadi: Nakadi) -> None:
    """1.2, 2.9, 6."""
    switch(nakadi, "disable_event_type_creation", on=True)
    problem(nakadi.post(), 501)
    problem(nakadi.post(name=None), 501)
    switch(nakadi, "disable_event_type_creation", on=False)
    nakadi.create()


def test_event_types_are_not_deleted_where_that_is_switched_off(nakadi: Nakadi) -> None:
    """2.9, 6."""
    created = nakadi.create()
    switch(nakadi, "disable_event_type_deletion", on=True)
    problem(nakadi.http.delete(created.path), 403)
    switch(nakadi, "disable_event_type_deletion", on=False)
    created.drop()


def test_an_event_type_is_returned_where_that_is_switched_on(nakadi: Nakadi) -> None:
    """1.2; 11, no. 5."""
    switch(nakadi, "return_body_on_create_update_event_type", on=True)
    definition = nakadi.definition()
    answer = nakadi.http.post("/event-types", json=definition)
    created = EventType(nakadi.http, definition["name"])
    assert (answer.status_code, answer.json()) == (201, created.shown())
    answer = created.put(labels={"a": "b"})
    assert (answer.status_code, answer.json()) == (200, created.shown())


# Storages and timelines: 1.5, 7


def test_there_is_one_storage(nakadi: Nakadi) -> None:
    """7: a fixed one is enough for clients."""
    (storage,) = nakadi.http.get("/storages").json()
    assert (storage["id"], storage["default"]) == ("default", True)
    assert nakadi.http.get("/storages/default").json() == storage
    assert nakadi.http.put("/storages/default/default").status_code == 200
    problem(nakadi.http.get("/storages/another"), 404)
    problem(nakadi.http.put("/storages/default/another"), 404)
    problem(nakadi.http.delete("/storages/another"), 404)
    problem(nakadi.http.delete("/storages/default"), 403)
    problem(nakadi.http.post("/storages", json={"id": "another", "storage_type": "kafka"}), 422)


def test_there_is_one_timeline(nakadi: Nakadi) -> None:
    """7; TimelinesControllerAT.testCreateNextTimeline; a decision: another one is answered 422."""
    created = nakadi.create(options={"retention_time": DAY_MS})
    (timeline,) = created.get("/timelines").json()
    assert {"id", "event_type", "order", "storage_id", "created_at", "switched_at", "cleaned_up_at"} <= set(timeline)
    assert (timeline["event_type"], timeline["order"], timeline["storage_id"]) == (created.name, 1, "default")
    assert timeline["cleaned_up_at"] is None
    problem(created.post("/timelines", {"storage_id": "default"}), 422)
    problem(EventType(nakadi.http, "nowhere").get("/timelines"), 404)
