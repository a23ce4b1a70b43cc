"""Permissions: blocks, lists, owners, and how changes reach every hub."""

from collections.abc import Iterator
from itertools import product
from typing import Any, get_args
from unittest.mock import Mock

import pytest

from penstock.core.access import (
    HUB,
    UNAUTHENTICATED,
    Attribute,
    Caller,
    Permission,
    Resource,
    Rights,
    Sender,
)
from penstock.core.registry.event_type import EventType
from penstock.core.subscriptions.definition import complete_subscription
from penstock.errors import AccessDenied, Blocked, DatabaseUnavailable
from penstock.hub.admin.permissions import AccessPolicy
from penstock.hub.admin.settings import KEPT_SECONDS_MAX
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import an_event_type
from tests.failing import has_code

NAME = "order.placed"
EVENT_TYPE, OTHER = Resource("event_type", NAME), Resource("event_type", "order.sent")
ADMIN, READER, WRITER, STRANGER = (Caller("service", name) for name in ("admin", "reader", "writer", "stranger"))
ROOT = Caller("user", "root")
OF_EVENTS = ("view", "read", "write", "admin")


def a_list(*callers: Caller) -> list[dict[str, str]]:
    return [{"data_type": each.data_type, "value": each.value} for each in callers]


AUTHORIZATION = {"admins": a_list(ADMIN), "readers": a_list(READER), "writers": a_list(WRITER)}


@pytest.fixture
def elsewhere(hub: Hub, migrated_url: str, clock: VirtualClock) -> Iterator[Hub]:
    """Another hub over the same database."""
    found = Hub(open_store(migrated_url), clock=clock)
    found.admin.permissions.enforce(AccessPolicy())
    yield found
    found.stop()


def enforce(hub: Hub, **policy: Any) -> None:
    hub.admin.permissions.enforce(AccessPolicy(frozenset([Attribute(ROOT.data_type, ROOT.value)]), **policy))


def find_allowed(hub: Hub, caller: Caller, resource: Resource = EVENT_TYPE) -> set[str]:
    """Return the operations that *caller* may do by what the database says now."""
    hub.admin.permissions.refresh()
    allowed = set()
    for permission in get_args(Permission):
        try:
            hub.admin.permissions.check(caller, permission, resource)
        except (AccessDenied, Blocked):
            continue
        allowed.add(permission)
    return allowed


# Blocks hold on every hub.


def test_every_caller_may_do_everything_where_nobody_is_asked(hub: Hub) -> None:
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))

    assert find_allowed(hub, UNAUTHENTICATED) == find_allowed(hub, STRANGER, HUB) == set(get_args(Permission))


OF_ALL, OF_ONE = {(UNAUTHENTICATED, EVENT_TYPE), (READER, EVENT_TYPE)}, {(READER, EVENT_TYPE), (READER, OTHER)}
BLOCKS: dict[str, tuple[str, str, str, set[tuple[Caller, Resource]]]] = {
    "readers of an event type": ("CONSUMER_ET", NAME, "read", OF_ALL),
    "writers of an event type": ("PRODUCER_ET", NAME, "write", OF_ALL),
    "a reading application": ("CONSUMER_APP", "reader", "read", OF_ONE),
    "a writing application": ("PRODUCER_APP", "reader", "write", OF_ONE),
    "an application with the name of an event type": ("CONSUMER_APP", NAME, "read", set()),
    "an event type with the name of an application": ("CONSUMER_ET", "reader", "read", set()),
}


@pytest.mark.parametrize(("kind", "name", "permission", "refused"), BLOCKS.values(), ids=BLOCKS)
def test_block_refuses_one_operation_of_its_event_type_or_application_until_it_is_lifted(
    hub: Hub, kind: str, name: str, permission: str, refused: set[tuple[Caller, Resource]]
) -> None:
    everything, pairs = find_allowed(hub, UNAUTHENTICATED), [*product((UNAUTHENTICATED, READER), (EVENT_TYPE, OTHER))]
    hub.admin.settings.block(kind, name)

    for who in pairs:
        assert find_allowed(hub, *who) == (everything - {permission} if who in refused else everything), who
    if refused is not OF_ONE:
        assert find_allowed(hub, READER, HUB) == everything

    hub.admin.settings.unblock(kind, name)
    assert [find_allowed(hub, *who) for who in pairs] == [everything] * 4


def test_blocked_caller_is_refused_in_the_words_of_nakadi(hub: Hub) -> None:
    hub.admin.settings.block("CONSUMER_ET", NAME)

    with pytest.raises(Blocked) as refused:
        hub.admin.permissions.check(READER, "read", EVENT_TYPE)

    assert refused.value.detail == "Application or event type is blocked"
    assert refused.value.fields == {"event_type": NAME, "application": "reader"}


def test_block_is_told_also_to_those_on_no_list(hub: Hub) -> None:
    enforce(hub)
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    hub.admin.settings.block("CONSUMER_ET", NAME)
    hub.admin.permissions.refresh()

    with pytest.raises(Blocked):
        hub.admin.permissions.check(STRANGER, "read", EVENT_TYPE)


# Lists hold where callers are known.


def test_lists_of_an_event_type_say_who_may_do_what(hub: Hub) -> None:
    enforce(hub)
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    found = {each.value: find_allowed(hub, each) & {*OF_EVENTS} for each in (ADMIN, READER, WRITER, STRANGER, ROOT)}

    assert found == {
        "admin": {"view", "admin"},
        "reader": {"view", "read"},
        "writer": {"view", "write"},
        "stranger": set(),
        "root": {*OF_EVENTS},
    }


@pytest.mark.parametrize("member", [Attribute("*", "*"), Attribute("service", "*")])
def test_wildcard_in_a_list_means_everybody(hub: Hub, member: Attribute) -> None:
    enforce(hub)
    readers = [{"data_type": member.data_type, "value": member.value}]
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION | {"readers": readers}))

    assert find_allowed(hub, STRANGER) & {*OF_EVENTS} == {"view", "read"}
    assert ("read" in find_allowed(hub, Caller("user", "jane"))) == (member.data_type == "*")


@pytest.mark.parametrize("default_access", ["open", "closed"])
def test_event_type_is_public_where_nobody_is_asked_or_everybody_is_a_listed_reader(
    hub: Hub, default_access: Any
) -> None:
    lists = {
        "everybody.reads": [Attribute("*", "*")],
        "services.read": [Attribute("service", "*")],
        "one.reads": [READER],
    }
    event_types = [
        EventType.parse(an_event_type(name, authorization=AUTHORIZATION | {"readers": a_list(*readers)}))
        for name, readers in lists.items()
    ]
    event_types.append(EventType.parse(an_event_type("nobody.listed")))

    before = [hub.admin.permissions.is_public(each) for each in event_types]
    enforce(hub, default_access=default_access)

    assert before == [True] * 4
    assert [hub.admin.permissions.is_public(each) for each in event_types] == [True, False, False, False]


def test_caller_of_another_type_with_the_name_of_a_member_is_a_stranger(hub: Hub) -> None:
    enforce(hub)
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))

    assert find_allowed(hub, Caller("user", "reader")) & {*OF_EVENTS} == set()


@pytest.mark.parametrize(
    ("default", "stranger", "owner"), [("open", {*OF_EVENTS}, {*OF_EVENTS}), ("closed", set(), {*OF_EVENTS})]
)
def test_event_type_without_authorization_follows_the_policy(
    hub: Hub, default: str, stranger: set[str], owner: set[str]
) -> None:
    enforce(hub, default_access=default)
    hub.registry.create(an_event_type(NAME), Sender(WRITER, "::1"))

    assert find_allowed(hub, STRANGER) & {*OF_EVENTS} == stranger
    assert find_allowed(hub, WRITER) & {*OF_EVENTS} == owner
    assert find_allowed(hub, ROOT) & {*OF_EVENTS} == {*OF_EVENTS}


def test_lists_of_the_hub_hold_for_every_event_type(hub: Hub) -> None:
    enforce(hub, default_access="closed")
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    boss, sees, writes = (Caller("user", name) for name in ("boss", "sees", "writes"))
    hub.admin.settings.replace_administrators(
        {"admins": a_list(boss), "readers": a_list(sees), "writers": a_list(writes)}
    )

    assert find_allowed(hub, boss) >= {*OF_EVENTS}
    assert find_allowed(hub, sees) & {*OF_EVENTS} == {"view", "read"}
    assert find_allowed(hub, writes) & {*OF_EVENTS} == {"view", "write"}
    assert find_allowed(hub, boss, HUB) >= {"administer", "monitor", "create"}
    assert find_allowed(hub, sees, HUB) == {"view", "monitor", "create", "read"}
    assert find_allowed(hub, STRANGER, HUB) == {"view", "create"}
    given = {"owning_application": "shop", "event_types": [NAME]}
    subscription, _ = hub.subscriptions.create(complete_subscription(given), by=Sender(WRITER, "::1"))
    of_subscription = Resource("subscription", subscription.id)
    assert find_allowed(hub, boss, of_subscription) >= {*OF_EVENTS}
    assert find_allowed(hub, sees, of_subscription) & {*OF_EVENTS} == {"view"}, "it takes no events from others"


def test_lists_of_a_subscription_say_who_may_do_what(hub: Hub) -> None:
    enforce(hub, default_access="closed")
    hub.registry.create(an_event_type(NAME))
    given = {"owning_application": "shop", "event_types": [NAME]}
    lists = {"admins": a_list(ADMIN), "readers": a_list(READER)}
    listed, _ = hub.subscriptions.create(complete_subscription(given | {"authorization": lists}))
    owned, _ = hub.subscriptions.create(
        complete_subscription(given | {"consumer_group": "own"}), by=Sender(WRITER, "::1")
    )
    of_listed, of_owned = (Resource("subscription", each.id) for each in (listed, owned))

    assert find_allowed(hub, ADMIN, of_listed) & {*OF_EVENTS} == {"view", "admin"}
    assert find_allowed(hub, READER, of_listed) & {*OF_EVENTS} == {"view", "read"}
    assert find_allowed(hub, STRANGER, of_listed) & {*OF_EVENTS} == set()
    assert find_allowed(hub, WRITER, of_owned) >= {"view", "read", "admin"}
    assert find_allowed(hub, READER, of_owned) & {*OF_EVENTS} == set()


def test_nobody_administers_the_hub_by_the_rights_to_an_event_type(hub: Hub) -> None:
    enforce(hub)
    hub.registry.create(an_event_type(NAME), Sender(WRITER, "::1"))

    assert find_allowed(hub, WRITER) == {*OF_EVENTS, "create", "own"}
    assert find_allowed(hub, ROOT) == set(get_args(Permission))


def test_refusal_names_operation_and_resource_in_the_words_of_nakadi(hub: Hub) -> None:
    enforce(hub)
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    hub.admin.permissions.refresh()

    with pytest.raises(AccessDenied, check=has_code("access-denied")) as refused:
        hub.admin.permissions.check(STRANGER, "read", EVENT_TYPE)

    assert refused.value.detail == f"Access on READ event-type:{NAME} denied"


# Every change reaches the other hubs.


def test_every_change_of_rights_reaches_other_hubs(hub: Hub, elsewhere: Hub) -> None:
    def may_read(resource: Resource = EVENT_TYPE) -> bool:
        return "read" in find_allowed(elsewhere, STRANGER, resource)

    assert not elsewhere.admin.permissions.knows(EVENT_TYPE)
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    assert not may_read()
    hub.registry.replace(NAME, an_event_type(NAME, authorization=AUTHORIZATION | {"readers": a_list(STRANGER)}))
    assert may_read()
    hub.registry.replace(NAME, an_event_type(NAME, authorization=AUTHORIZATION))
    assert not may_read()

    lists = {"admins": a_list(ADMIN), "readers": a_list(READER)}
    given = {"owning_application": "shop", "event_types": [NAME], "authorization": lists}
    subscription, _ = hub.subscriptions.create(complete_subscription(given))
    resource = Resource("subscription", subscription.id)
    assert not may_read(resource)
    changed = subscription.definition | {"authorization": lists | {"readers": a_list(STRANGER)}}
    hub.subscriptions.replace(subscription.id, changed)
    assert may_read(resource)
    hub.subscriptions.delete(subscription.id)
    elsewhere.admin.permissions.refresh()
    assert not elsewhere.admin.permissions.knows(resource)
    hub.registry.delete(NAME)
    elsewhere.admin.permissions.refresh()
    assert not elsewhere.admin.permissions.knows(EVENT_TYPE)


def test_waiting_readers_are_woken_when_rights_change_or_a_token_expires(
    hub: Hub, elsewhere: Hub, clock: VirtualClock
) -> None:
    woken = []
    elsewhere.log.watch.wait({}, lambda: woken.append("woken"))
    elsewhere.admin.permissions.refresh()
    assert not woken

    hub.admin.tokens.create(READER, expires_in_seconds=10)
    elsewhere.admin.permissions.refresh()
    assert woken
    woken.clear()
    clock.advance(seconds=9)
    elsewhere.admin.permissions.refresh()
    assert not woken
    clock.advance(seconds=2)
    elsewhere.admin.permissions.refresh()
    assert woken == ["woken"]


def test_verdict_is_remembered_until_settings_or_rights_change(hub: Hub) -> None:
    enforce(hub)
    permissions = hub.admin.permissions
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    permissions.refresh()

    def is_remembered() -> bool:
        return permissions.are_allowed_again(READER, "read", [EVENT_TYPE])

    assert not is_remembered()
    permissions.check(READER, "read", EVENT_TYPE)
    assert is_remembered()
    permissions.refresh()
    assert is_remembered(), "nothing has changed"
    hub.admin.settings.block("CONSUMER_ET", NAME)
    assert not is_remembered()
    hub.admin.settings.unblock("CONSUMER_ET", NAME)
    permissions.check(READER, "read", EVENT_TYPE)
    assert is_remembered()
    hub.registry.replace(NAME, an_event_type(NAME, authorization=AUTHORIZATION | {"readers": a_list(WRITER)}))
    permissions.refresh()
    assert not is_remembered()
    with pytest.raises(AccessDenied):
        permissions.check(READER, "read", EVENT_TYPE)


def test_verdict_is_not_remembered_while_settings_cannot_be_read(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    permissions, settings = hub.admin.permissions, hub.admin.settings
    settings.start()
    permissions.check(READER, "read", EVENT_TYPE)
    read_at = settings.monotonic()

    monkeypatch.setattr(settings, "monotonic", lambda: read_at + KEPT_SECONDS_MAX - 1)
    assert permissions.are_allowed_again(READER, "read", [EVENT_TYPE])

    monkeypatch.setattr(settings, "monotonic", lambda: read_at + KEPT_SECONDS_MAX + 1)
    assert not permissions.are_allowed_again(READER, "read", [EVENT_TYPE])
    with pytest.raises(DatabaseUnavailable):
        permissions.check(READER, "read", EVENT_TYPE)


def test_rights_cost_no_query(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    enforce(hub)
    hub.start()
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    secret = hub.admin.tokens.create(READER).secret.encode()
    hub.admin.permissions.refresh()
    monkeypatch.setattr(hub.store, "read", None)

    hub.admin.permissions.check(READER, "read", EVENT_TYPE)
    found = hub.admin.tokens.find(secret)
    assert found is not None
    assert found.caller == READER


def test_lists_that_have_not_changed_are_not_decoded_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    enforce(hub)
    hub.registry.create(an_event_type(NAME, authorization=AUTHORIZATION))
    hub.admin.permissions.refresh()
    decode = Mock(wraps=Rights.of)
    monkeypatch.setattr(Rights, "of", decode)
    others = AUTHORIZATION | {"readers": a_list(STRANGER)}
    hub.registry.create(an_event_type(OTHER.name, authorization=others))
    hub.admin.permissions.refresh()

    assert decode.call_count == 1
    assert find_allowed(hub, READER) >= {"view", "read"}
    assert find_allowed(hub, STRANGER, OTHER) >= {"view", "read"}
