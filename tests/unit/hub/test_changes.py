"""Changes are events of the audit log, committed with the change: who made them, from where, before and after."""

import json
from base64 import b64encode
from typing import Any

import pytest

from penstock.core.access import Attribute, Caller, Resource, Sender
from penstock.core.events.event import EVENT_BYTES_MAX, NewEvent
from penstock.core.groups.groups import GroupReset, PositionCommit, ResetTarget
from penstock.core.groups.parking import ParkedChanges, ParkedStream
from penstock.core.producers import EpochClaim
from penstock.core.subscriptions.definition import complete_subscription
from penstock.errors import AccessDenied, EventTypeExists, Forbidden, InvalidEventType, PublishingRestricted
from penstock.hub.admin.permissions import AccessPolicy
from penstock.hub.admin.settings import Feature
from penstock.hub.hub import Hub
from penstock.hub.log.publish import ProducerName
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from tests.failing import has_code
from tests.unit.hub.feeds import read_data

NAME = "order.placed"
AUDIT, OF_EVENT_TYPES, OF_SUBSCRIPTIONS = "nakadi.audit.log", "nakadi.event.type.log", "nakadi.subscription.log"
JANE = Sender(Caller("user", "jane"), "10.0.0.7")
WHO = {"user": "jane", "user_type": "user", "address": "10.0.0.7"}
ADA = {"data_type": "user", "value": "ada"}


@pytest.fixture
def audited(hub: Hub) -> Hub:
    """A hub that records changes."""
    hub.admin.settings.switch("audit_log_collection", on=True)
    return hub


def read_log(hub: Hub, name: str = AUDIT) -> list[dict[str, Any]]:
    """Return the events of a log without their metadata, and without the switches that began it."""
    feed = hub.registry.load(name)
    events = [json.loads(line) for each in feed.partition_ids for line in read_data(hub.store, each)]
    return [
        {key: value for key, value in each.items() if key != "metadata"}
        for each in events
        if each.get("resource_type") != "feature"
    ]


def describe(event: dict[str, Any]) -> tuple[str, str, str]:
    return event["resource_type"], event["resource_id"], event["action"]


def test_nothing_is_recorded_until_a_feature_says_so(hub: Hub) -> None:
    hub.registry.create(an_event_type(NAME), JANE)

    assert [feed.name for feed in hub.registry.list()] == [NAME]


def test_each_change_of_an_event_type_is_recorded_with_its_definition_before_and_after(audited: Hub) -> None:
    definition = an_event_type(NAME, partition_count=1)
    audited.registry.create(definition, JANE)
    created = audited.registry.load(NAME).event_type.whole
    audited.registry.replace(NAME, definition | {"owning_application": "other"}, by=JANE)
    audited.registry.replace(NAME, definition | {"owning_application": "other"}, by=JANE)  # It changes nothing.
    audited.registry.grow(NAME, 2, JANE)
    grown = audited.registry.load(NAME).event_type.whole
    audited.registry.delete(NAME, JANE)

    events = read_log(audited)

    assert [describe(each) for each in events] == [
        ("event_type", NAME, action) for action in ("created", "updated", "updated", "deleted")
    ]
    assert all(each.items() >= WHO.items() and len(each["user_hash"]) == 64 for each in events)
    assert "previous_object" not in events[0]
    assert events[0]["new_object"] == events[1]["previous_object"] == created
    assert events[1]["new_object"]["owning_application"] == "other"
    assert [each["new_object"]["partition_count"] for each in events[:3]] == [1, 1, 2]
    assert events[3]["previous_object"] == grown
    assert "new_object" not in events[3]
    for event in events:
        for side in ("previous", "new"):
            assert (f"{side}_text" in event) == (f"{side}_object" in event)
            if f"{side}_text" in event:
                assert json.loads(event[f"{side}_text"]) == event[f"{side}_object"]


def test_change_that_is_refused_is_not_recorded(audited: Hub) -> None:
    audited.registry.create(an_event_type(NAME), JANE)
    with pytest.raises(EventTypeExists):
        audited.registry.create(an_event_type(NAME), JANE)

    assert len(read_log(audited)) == 1


def test_each_change_of_settings_is_recorded_once(audited: Hub) -> None:
    settings = audited.admin.settings
    for _ in range(2):
        settings.block("CONSUMER_APP", "billing", JANE)
    settings.unblock("CONSUMER_APP", "billing", JANE)
    settings.replace_administrators({key: [ADA] for key in ("admins", "readers", "writers")}, JANE)
    settings.add_member("admins", Attribute("service", "deploy"), JANE)

    events = read_log(audited)

    assert [describe(each) for each in events] == [
        ("blacklist_entry", "CONSUMER_APP:billing", "created"),
        ("blacklist_entry", "CONSUMER_APP:billing", "deleted"),
        ("admins", "admins", "updated"),
        ("admins", "admins", "updated"),
    ]
    assert events[2]["previous_object"] == {"admins": [], "readers": [], "writers": []}
    assert events[2]["new_object"] == events[3]["previous_object"] == {
        "admins": [ADA], "readers": [ADA], "writers": [ADA]
    }  # fmt: skip
    assert events[3]["new_object"]["admins"] == [ADA, {"data_type": "service", "value": "deploy"}]


def test_beginning_and_end_of_the_audit_log_are_in_it(hub: Hub) -> None:
    for on in (True, False):
        hub.admin.settings.switch("audit_log_collection", on=on, by=JANE)
    hub.registry.create(an_event_type(NAME), JANE)

    found = [json.loads(line) for each in hub.registry.load(AUDIT).partition_ids for line in read_data(hub.store, each)]
    assert [each["new_object"]["enabled"] for each in found] == [True, False]
    assert found[0]["metadata"]["event_type"] == AUDIT


def test_audit_log_that_the_hub_begins_itself_names_the_hub(hub: Hub) -> None:
    hub.admin.permissions.enforce(AccessPolicy())

    [began] = [
        json.loads(line) for each in hub.registry.load(AUDIT).partition_ids for line in read_data(hub.store, each)
    ]

    assert describe(began) == ("feature", "audit_log_collection", "updated")
    assert (began["user_type"], began["user"], began["address"]) == ("hub", "penstock", "")


def test_restore_of_a_backup_is_recorded_with_the_epochs_of_all_feeds(audited: Hub) -> None:
    audited.registry.create(an_event_type(NAME))
    before = {feed.name: feed.epoch for feed in audited.registry.list()}
    audited.registry.raise_epochs(JANE)

    event = read_log(audited)[-1]

    assert describe(event) == ("database", "epochs", "updated")
    assert event.items() >= WHO.items()
    assert event["previous_object"] == {"epochs": before}
    assert event["new_object"] == {"epochs": {feed.name: feed.epoch for feed in audited.registry.list()}}
    assert event["new_object"]["epochs"].keys() == {NAME, AUDIT}
    assert all(event["new_object"]["epochs"][name] > before[name] for name in before)


def test_definition_that_no_event_can_hold_is_recorded_by_its_digest(audited: Hub) -> None:
    for size in (300_000, EVENT_BYTES_MAX):
        audited.registry.create(an_event_type(f"t.{size}", remarks="x" * size), JANE)

    with_object, abridged = read_log(audited)

    assert with_object["new_object"]["name"] == "t.300000"
    assert abridged["new_object"]["too_large"] is True
    assert abridged["new_object"]["bytes"] > EVENT_BYTES_MAX
    assert "new_text" in abridged


def test_hub_that_authenticates_records_changes_unless_an_operator_has_switched_it_off(
    hub: Hub, migrated_url: str
) -> None:
    hub.admin.permissions.enforce(AccessPolicy())
    assert hub.admin.settings.is_on("audit_log_collection")

    hub.admin.settings.switch("audit_log_collection", on=False)
    again = Hub(open_store(migrated_url))
    again.admin.permissions.enforce(AccessPolicy())
    assert not again.admin.settings.is_on("audit_log_collection")
    again.stop()


def test_audit_log_is_for_administrators_of_the_hub_and_readers_of_all_data(hub: Hub) -> None:
    root, auditor, stranger = (Caller("service", name) for name in ("root", "auditor", "stranger"))
    hub.admin.permissions.enforce(AccessPolicy(frozenset([root]), "open"))
    lists = {"admins": [ADA], "readers": [{"data_type": "service", "value": "auditor"}], "writers": [ADA]}
    hub.admin.settings.replace_administrators(lists)

    log = Resource("event_type", AUDIT)
    for caller in (root, auditor):
        hub.admin.permissions.check(caller, "read", log)
    with pytest.raises(AccessDenied):
        hub.admin.permissions.check(stranger, "read", log)
    with pytest.raises(AccessDenied):
        hub.admin.permissions.check(auditor, "admin", log)


def test_nobody_but_the_hub_publishes_to_its_logs_or_creates_them(audited: Hub) -> None:
    event = NewEvent.of(
        b'{"metadata":{"eid":"038fc871-1d2c-4e2e-aa29-1579e8f2e71f","occurred_at":"2026-11-29T00:00:00Z"}}'
    )
    with pytest.raises(PublishingRestricted, check=has_code("events-of-the-hub")):
        audited.log.publish(AUDIT, [event])
    with pytest.raises(InvalidEventType, match="creates that itself"):
        audited.registry.create(an_event_type("nakadi.access.log"), JANE)


@pytest.mark.parametrize(
    ("feature", "name"),
    [("audit_log_collection", AUDIT), ("kpi_collection", OF_EVENT_TYPES), ("kpi_collection", OF_SUBSCRIPTIONS)],
)
def test_log_is_deleted_only_when_nothing_is_recorded_in_it(hub: Hub, feature: Feature, name: str) -> None:
    hub.admin.settings.switch(feature, on=True)
    with pytest.raises(Forbidden, match=feature):
        hub.registry.delete(name)

    hub.admin.settings.switch(feature, on=False)
    hub.registry.delete(name)


def test_event_type_log_has_each_change_in_brief(hub: Hub) -> None:
    hub.admin.settings.switch("kpi_collection", on=True)
    lists = {each: [ADA] for each in ("admins", "readers", "writers")}
    hub.registry.create(an_event_type(NAME, authorization=lists), JANE)
    hub.registry.delete(NAME, JANE)

    event = {"event_type": NAME, "category": "undefined", "authz": "enabled", "compatibility_mode": "forward"}
    assert [each | {"compatibility_mode": "forward"} for each in read_log(hub, OF_EVENT_TYPES)] == [
        event | {"status": "created"},
        event | {"status": "deleted"},
    ]


def test_each_change_of_a_subscription_is_recorded(hub: Hub) -> None:
    for feature in ("audit_log_collection", "kpi_collection"):
        hub.admin.settings.switch(feature, on=True)
    hub.registry.create(an_event_type(NAME, partition_count=2))
    given = {"owning_application": "shop", "event_types": [NAME], "read_from": "begin"}
    definition = complete_subscription(given)
    found, _ = hub.subscriptions.create(definition, by=JANE)
    hub.subscriptions.create(definition, by=JANE)  # It is found.
    hub.subscriptions.replace(found.id, given | {"labels": {"team": "x"}}, by=JANE)
    hub.subscriptions.replace(found.id, given | {"labels": {"team": "x"}}, by=JANE)  # It changes nothing.
    hub.subscriptions.delete(found.id, JANE)

    events = [each for each in read_log(hub) if each["resource_type"] == "subscription"]

    assert [describe(each) for each in events] == [
        ("subscription", found.id, action) for action in ("created", "updated", "deleted")
    ]
    assert all(each.items() >= WHO.items() for each in events)
    assert events[0]["new_object"] == events[1]["previous_object"] == definition
    assert events[1]["new_object"] == events[2]["previous_object"]
    assert events[2]["previous_object"]["labels"] == {"team": "x"}
    assert [each["status"] for each in read_log(hub, OF_SUBSCRIPTIONS)] == ["created", "updated", "deleted"]


def test_reset_of_a_subscription_is_recorded_with_its_positions(audited: Hub) -> None:
    audited.registry.create(an_event_type(NAME, partition_count=1))
    audited.log.publish(NAME, [NewEvent.of(b"{}")] * 3)
    given = {"owning_application": "shop", "event_types": [NAME], "read_from": "begin"}
    found = audited.subscriptions.create(complete_subscription(given))[0].id
    assert audited.subscriptions.resets.begin(found, {(NAME, 0): 2})
    assert audited.subscriptions.resets.finish(found, {(NAME, 0): 2}, "a wrong price", by=JANE)

    event = read_log(audited)[-1]

    assert describe(event) == ("cursors", found, "updated")
    assert event.items() >= WHO.items()
    assert event["reason"] == "a wrong price"
    place = {"event_type": NAME, "partition": "0"}
    assert event["previous_object"] == {"items": [place | {"offset": 0}]}
    assert event["new_object"] == {"items": [place | {"offset": 2}]}


def test_requests_for_parked_streams_are_recorded_and_parking_is_not(audited: Hub) -> None:
    audited.registry.create(an_event_type(NAME, partition_count=1))
    stream = ParkedStream(NAME, 0, "a", 1, 2, 1, 3, "ValueError", "no", "1:0")
    audited.groups.commit("mail", "processor", [PositionCommit(NAME, 0, 0)], parked=ParkedChanges([stream]))
    [found] = audited.groups.parked.list("mail", after=0, limit=9)
    audited.groups.parked.retry("mail", found.id, sender=JANE)
    audited.groups.parked.skip("mail", found.id, "a test", sender=JANE)

    retried, skipped = (each for each in read_log(audited) if each["resource_type"] == "parked_key")

    assert describe(retried) == describe(skipped) == ("parked_key", str(found.id), "updated")
    assert (retried["new_object"]["request"], skipped["previous_object"]["request"]) == ("retry", "retry")
    assert (skipped["new_object"]["stream"], skipped["reason"]) == ("a", "a test")


def test_reset_and_deletion_of_a_group_are_recorded_and_commits_are_not(audited: Hub) -> None:
    audited.registry.create(an_event_type(NAME, partition_count=1))
    audited.log.publish(NAME, [NewEvent.of(b"{}")] * 3)
    epoch = audited.registry.load(NAME).epoch
    commit = PositionCommit(NAME, 0, 2, epoch=epoch)
    audited.groups.commit("mail", "processor", [commit])
    for dry_run in (True, False):
        audited.groups.reset("mail", [GroupReset(ResetTarget("earliest"), NAME)], "again", dry_run=dry_run, sender=JANE)
    audited.groups.delete("mail", sender=JANE)

    moved, deleted = (each for each in read_log(audited) if each["resource_type"] == "group")

    assert (describe(moved), describe(deleted)) == (("group", "mail", "updated"), ("group", "mail", "deleted"))
    place = {"event_type": NAME, "slice": "", "partition": "0"}
    assert moved["previous_object"] == {"items": [place | {"offset": 2}]}
    assert moved["new_object"] == {"items": [place | {"offset": 0}]}
    assert deleted["previous_object"] == {"kind": "processor", "owner": None, "items": [place | {"offset": 0}]}


def test_tokens_are_recorded_without_anything_by_which_a_secret_could_be_found(audited: Hub) -> None:
    tokens = audited.admin.tokens
    first = tokens.create(Caller("service", "billing"), expires_in_seconds=60, by=JANE)
    second = tokens.rotate(first.token.id, overlap_seconds=10, by=JANE)
    tokens.revoke(first.token.id, JANE)

    events = read_log(audited)

    assert [describe(each) for each in events] == [
        ("token", first.token.id, "created"),
        ("token", second.token.id, "created"),
        ("token", first.token.id, "updated"),
        ("token", first.token.id, "deleted"),
    ]
    assert events[2]["previous_object"]["expires_at"] > events[2]["new_object"]["expires_at"]
    assert all(each["new_object"]["caller"] == "service:billing" for each in events[:3])
    said = json.dumps(events)
    for each in (first, second):
        assert each.secret not in said
        assert each.token.digest.hex() not in said
        assert b64encode(each.token.digest).decode() not in said


def test_end_of_a_producer_is_recorded_once(audited: Hub) -> None:
    audited.registry.create(an_event_type(NAME, partition_count=1))
    who = ProducerName(NAME, 0, "shop")
    audited.producers.claim(who, EpochClaim())
    for _ in range(2):
        audited.producers.forget(who, JANE)

    [event] = [each for each in read_log(audited) if each["resource_type"] == "producer"]

    assert describe(event) == ("producer", "shop", "deleted")
    assert event["previous_object"] == {"event_type": NAME, "partition": "0", "group": "shop", "epoch": 0}
