"""The registry of event types: definitions are created, changed and checked, and recalled without a query."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.core.registry.definition import NAKADI, PENSTOCK, Limits, limits_of
from penstock.errors import (
    EventTypeExists,
    EventTypeInUse,
    EventTypeNotFound,
    HubUnavailable,
    IncompatibleSchema,
    InvalidEventType,
    NotOffered,
    PublishingRestricted,
    SchemaVersionNotFound,
)
from penstock.hub.admin.settings import Settings
from penstock.hub.hub import Hub
from penstock.hub.registry import Registry
from penstock.storage import Store
from penstock.storage.groups import GroupFilter, Position
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from tests.failing import has_code
from tests.unit.hub.feeds import NAME, create_feed, insert_subscription, into_outbox, make_registry, recreate_feed
from tests.unit.hub.forwarding import ForwardingStore

REFUSING = limits_of(nakadi_strict=False, refuses_by_guidelines=True)


@pytest.fixture
def settings(store: Store) -> Settings:
    return Settings(store, lambda: None)


@pytest.fixture
def registry(forwarding: ForwardingStore, clock: VirtualClock, settings: Settings) -> Registry:
    return Registry(forwarding, clock, settings)


def a_schema(*members: str, **others: str) -> dict[str, str]:
    """Return a schema, as definitions hold one, of events with texts under these names, and with other types."""
    types = dict.fromkeys(members, "string") | others
    schema = {"properties": {name: {"type": kind} for name, kind in types.items()}}
    return {"type": "json_schema", "schema": msgspec.json.encode(schema).decode()}


def read_versions(registry: Registry) -> list[str]:
    return [each["version"] for each in registry.list_schemas(NAME, limit=9, offset=0)]


def interfere_at(forwarding: ForwardingStore, number: int, act: Callable[[], object]) -> None:
    """Let another hub *act* before a write."""
    forwarding.at_write = lambda each: act() if each == number else None


# Creating


def test_event_type_is_created_at_the_time_of_the_clock_and_its_name_is_taken(
    registry: Registry, clock: VirtualClock
) -> None:
    created_at = clock()
    registry.create(an_event_type(NAME, partition_count=3, owner="us"))
    clock.advance(seconds=1)

    feed = registry.load(NAME)
    assert (feed.created_at, feed.partition_count, feed.event_type.definition["owner"]) == (created_at, 3, "us")
    with pytest.raises(EventTypeExists):
        registry.create(an_event_type(NAME))


def test_refused_definition_reaches_no_database_and_is_refused_before_changes_are(
    registry: Registry, forwarding: ForwardingStore, settings: Settings
) -> None:
    for is_off in (False, True):
        settings.switch("disable_db_write_operations", on=is_off)
        with pytest.raises(InvalidEventType):
            registry.create({"name": "no category"})
    with pytest.raises(HubUnavailable, check=has_code("changes-switched-off")):
        registry.create(an_event_type(NAME))

    assert (forwarding.writes, forwarding.reads) == (0, 0)


# Checking


def test_check_of_a_possible_definition_changes_nothing(registry: Registry, forwarding: ForwardingStore) -> None:
    registry.create(an_event_type(NAME, partition_count=2))
    before, writes = registry.load(NAME), forwarding.writes

    registry.check(NAME, an_event_type(NAME, partition_count=4, labels={"a": "b"}))
    registry.check("more", an_event_type("more"))

    assert (registry.load(NAME), forwarding.writes) == (before, writes)


REFUSED: dict[str, tuple[str, Any, Limits, str, str | None]] = {
    "fewer partitions": (NAME, an_event_type(NAME, partition_count=1), NAKADI, "invalid-event-type", "partition_count"),
    "too many": (NAME, an_event_type(NAME, partition_count=9), NAKADI, "invalid-event-type", "partition_count"),
    "a text": (NAME, an_event_type(NAME, partition_count="4"), NAKADI, "malformed-event-type", "partition_count"),
    "against guidelines": (NAME, an_event_type(NAME, partition_count=2), REFUSING, "guidelines-broken", None),
    "another name": (NAME, an_event_type("more", partition_count=2), PENSTOCK, "invalid-event-type", "name"),
    "no object": (NAME, [], PENSTOCK, "malformed-event-type", None),
    "new, not the path's name": ("more", an_event_type(NAME), PENSTOCK, "invalid-event-type", "name"),
    "new, against guidelines": ("more", an_event_type("more"), REFUSING, "guidelines-broken", None),
    "new, too many": (
        "more",
        an_event_type("more", partition_count=9),
        NAKADI,
        "invalid-event-type",
        "partition_count",
    ),
    "new, no object": ("more", [], PENSTOCK, "malformed-event-type", None),
}


@pytest.mark.parametrize(("name", "definition", "limits", "code", "field"), REFUSED.values(), ids=REFUSED)
def test_check_of_an_impossible_definition_is_refused_by_its_field(
    registry: Registry, forwarding: ForwardingStore, *,
    name: str, definition: Any, limits: Limits, code: str, field: str | None
) -> None:  # fmt: skip
    registry.create(an_event_type(NAME, partition_count=2))

    with pytest.raises(InvalidEventType, check=has_code(code)) as refused:
        make_registry(forwarding, VirtualClock(), limits).check(name, definition)

    assert refused.value.fields.get("field") == field


# Changing


def test_change_is_compared_with_the_change_that_came_before_it(
    registry: Registry, forwarding: ForwardingStore, clock: VirtualClock, store: Store
) -> None:
    registry.create(an_event_type(NAME, compatibility_mode="forward", schema=a_schema("a")))
    definition = an_event_type(NAME, owner="them", schema=a_schema("a", "b"))
    interfere_at(forwarding, 2, lambda: make_registry(store, clock).replace(NAME, definition))

    verdict = registry.add_schema(NAME, a_schema("a", "b", "c"))

    assert verdict is not None
    assert [change.pointer for change in verdict.changes] == ["#/properties/c"]
    feed = registry.load(NAME)
    assert (feed.event_type.schema_version, feed.event_type.definition["owner"]) == ("1.2.0", "them")
    assert read_versions(registry) == ["1.2.0", "1.1.0", "1.0.0"]


def test_change_is_compared_with_the_event_type_that_has_taken_its_name(
    registry: Registry, forwarding: ForwardingStore, clock: VirtualClock, store: Store
) -> None:
    registry.create(an_event_type(NAME, compatibility_mode="forward", schema=a_schema("a")))
    before, elsewhere = registry.load(NAME), make_registry(store, clock)

    def create_again() -> None:
        elsewhere.delete(NAME)
        elsewhere.create(an_event_type(NAME, owner="them", compatibility_mode="none", schema=a_schema("b")))
        assert elsewhere.load(NAME).revision == before.revision

    interfere_at(forwarding, 2, create_again)
    verdict = registry.add_schema(NAME, a_schema("a", "c"))

    assert verdict is not None
    assert [change.pointer for change in verdict.changes] == [f"#/properties/{name}" for name in "abc"]
    feed = registry.load(NAME)
    assert feed.id != before.id
    assert (feed.event_type.schema_version, feed.event_type.definition["owner"]) == ("2.0.0", "them")
    assert read_versions(registry) == ["2.0.0", "1.0.0"]


def test_change_of_an_event_type_that_is_dropped_meanwhile_is_refused(
    registry: Registry, forwarding: ForwardingStore, clock: VirtualClock, store: Store
) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a")))
    interfere_at(forwarding, 2, lambda: make_registry(store, clock).delete(NAME))

    with pytest.raises(EventTypeNotFound):
        registry.grow(NAME, 4)


def test_change_without_effect_keeps_revision_and_time(registry: Registry, clock: VirtualClock) -> None:
    definition = an_event_type(NAME, partition_count=2, owner="us", schema=a_schema("a"))
    registry.create(definition)
    before = registry.load(NAME)
    clock.advance(seconds=1)

    registry.replace(NAME, definition)
    registry.add_schema(NAME, definition["schema"])
    registry.grow(NAME, 2)
    assert registry.load(NAME) == before

    registry.replace(NAME, definition | {"owner": "them"})
    feed = registry.load(NAME)
    assert (feed.revision, feed.updated_at) == (before.revision + 1, clock())


def test_refused_change_opens_no_transaction(registry: Registry, forwarding: ForwardingStore) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a")))
    writes = forwarding.writes

    with pytest.raises(IncompatibleSchema):
        registry.add_schema(NAME, a_schema("b"))
    with pytest.raises(InvalidEventType):
        registry.grow(NAME, 0)

    assert forwarding.writes == writes


# Schemas


def test_newest_version_of_the_same_schema_is_found_however_old(registry: Registry) -> None:
    names = ["a", *(f"b{number}" for number in range(25))]
    registry.create(an_event_type(NAME, compatibility_mode="none", schema=a_schema("a")))
    for name in names[1:]:
        registry.add_schema(NAME, a_schema(name))

    versions = [registry.find_equal_schema(NAME, a_schema(name))["version"] for name in names]

    assert versions == [f"{number}.0.0" for number in range(1, 27)]
    with pytest.raises(SchemaVersionNotFound):
        registry.find_equal_schema(NAME, a_schema("c"))


def test_true_is_not_1_when_a_schema_is_searched(registry: Registry) -> None:
    registry.create(an_event_type(NAME, schema={"type": "json_schema", "schema": '{"enum": [{"a": 1}]}'}))

    assert registry.find_equal_schema(NAME, {"type": "json_schema", "schema": '{ "enum": [{"a": 1.0}] }'})
    with pytest.raises(SchemaVersionNotFound):
        registry.find_equal_schema(NAME, {"type": "json_schema", "schema": '{"enum": [{"a": true}]}'})


def test_removed_property_returns_only_as_it_was_in_an_earlier_version(registry: Registry) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a", "b"), options={"evolution": "consumers"}))
    for members in (("b",), ("b", "c")):
        registry.add_schema(NAME, a_schema(*members))
    number = a_schema("b", "c", a="number")

    with pytest.raises(IncompatibleSchema, match="cannot return as something else") as refused:
        registry.add_schema(NAME, number)
    compared = registry.compare(NAME, "latest", number)
    registry.add_schema(NAME, a_schema("a", "b", "c"))

    (change,) = [each for each in refused.value.changes if each["refused"]]
    assert (change["rule"], change["pointer"]) == ("redefined-since", "#/properties/a")
    assert change["instead"] == "let it be as it was in version 1.0.0, or give it another name"
    assert [each["refused"] for each in compared.changes] == [False, True]
    assert registry.find_schema(NAME, "latest")["version"] == "1.3.0"
    assert registry.load(NAME).event_type.definition["options"]["evolution"] == "consumers"


def test_removed_property_returns_as_anything_under_another_major_version(registry: Registry) -> None:
    registry.create(an_event_type(NAME, compatibility_mode="none", schema=a_schema("a", "b")))
    registry.add_schema(NAME, a_schema("b"))
    definition = registry.load(NAME).event_type.definition
    registry.replace(NAME, definition | {"compatibility_mode": "forward"})

    registry.add_schema(NAME, a_schema("b", a="number"))

    assert registry.find_schema(NAME, "latest")["version"] == "2.1.0"


def test_schema_without_its_ordering_key_is_compared_and_refused(registry: Registry) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a", "b"), ordering_key_fields=["b"]))

    found = registry.compare(NAME, "latest", a_schema("c"))

    assert isinstance(found.refused, InvalidEventType)
    assert "no 'b' at #/properties/b" in found.refused.detail
    changes = [(each["pointer"], each["refused"]) for each in found.changes]
    assert changes == [("#/properties/a", True), ("#/properties/b", True), ("#/properties/c", False)]
    assert (found.version, found.producers, found.consumers) == ("1.0.0", False, True)


# Recalling


def test_known_event_type_is_recalled_without_a_query(registry: Registry, forwarding: ForwardingStore) -> None:
    create_feed(forwarding)
    assert NAME not in registry.remembered

    first = registry.recall(NAME)
    reads = forwarding.reads

    assert NAME in registry.remembered
    assert registry.recall(NAME) is first
    assert forwarding.reads == reads


def test_load_replaces_the_recalled_event_type(registry: Registry, store: Store) -> None:
    create_feed(store)
    before = registry.recall(NAME)
    recreate_feed(store, partition_count=4)

    assert registry.recall(NAME) is before
    assert registry.load(NAME).partition_count == registry.recall(NAME).partition_count == 4

    with store.write() as tx:
        tx.registry.delete(NAME)
    with pytest.raises(EventTypeNotFound):
        registry.load(NAME)
    assert NAME not in registry.remembered
    with pytest.raises(EventTypeNotFound):
        registry.recall(NAME)


def test_event_type_found_elsewhere_is_remembered(registry: Registry, store: Store) -> None:
    feed = create_feed(store)

    assert registry.remember(NAME, feed) is registry.recall(NAME) is feed
    with pytest.raises(EventTypeNotFound):
        registry.remember(NAME, None)
    assert NAME not in registry.remembered


def test_deleted_event_type_is_forgotten(registry: Registry) -> None:
    registry.create(an_event_type(NAME))
    registry.recall(NAME)

    registry.delete(NAME)

    assert NAME not in registry.remembered
    assert list(registry.list()) == []
    with pytest.raises(EventTypeNotFound):
        registry.delete(NAME)


def test_restored_backup_raises_epochs_and_forgets_all_event_types(registry: Registry) -> None:
    for name in ("a", "b"):
        registry.create(an_event_type(name))
        registry.recall(name)
    before = registry.recall("a")

    assert registry.raise_epochs() == 2

    assert "a" not in registry.remembered
    assert registry.recall("a").epoch > before.epoch
    assert registry.recall("a").revision > before.revision


# Publishing to an event type that another process changes


@pytest.fixture
def hub(forwarding: ForwardingStore, clock: VirtualClock) -> Hub:
    hub = Hub(forwarding, clock=clock)
    hub.registry.create(an_event_type(NAME))
    return hub


def a_json_schema(schema: dict[str, Any]) -> dict[str, str]:
    return {"type": "json_schema", "schema": json.dumps(schema)}


def test_change_found_by_an_append_is_remembered_for_the_next_publish(
    hub: Hub, forwarding: ForwardingStore, store: Store
) -> None:
    hub.log.publish(NAME, [a_new_event()])
    recreate_feed(store)
    hub.log.publish(NAME, [a_new_event(partition=0)])
    before = forwarding.writes

    hub.log.publish(NAME, [a_new_event(partition=0)])
    assert forwarding.writes == before + 1

    with store.write() as tx:
        tx.registry.delete(NAME)
    with pytest.raises(EventTypeNotFound):
        hub.log.publish(NAME, [a_new_event(partition=0)])
    assert not hub.registry.is_light(NAME, 1)


def test_exactly_once_event_type_takes_the_outbox_and_no_plain_publish(hub: Hub) -> None:
    hub.registry.create(an_event_type("once", options={"publishing": "exactly-once"}))

    for publish in (hub.log.publish, hub.log.submit):
        with pytest.raises(PublishingRestricted):
            publish("once", [a_new_event()])

    into_outbox(hub.store, [("once", "{}")])
    assert hub.log.settle("once")


def test_plain_publish_prepared_before_the_event_type_became_exactly_once_is_refused(hub: Hub, store: Store) -> None:
    hub.log.publish(NAME, [a_new_event()])
    recreate_feed(store, options={"publishing": "exactly-once"})

    with pytest.raises(PublishingRestricted):
        hub.log.publish(NAME, [a_new_event()])

    assert [head.next_offset for head in hub.log.find_heads(NAME)[1].values()] == [0]


def test_publish_is_light_once_its_event_type_is_known_and_compiled(hub: Hub) -> None:
    name = "order.light"
    hub.registry.create(an_event_type(name, schema=a_json_schema({"title": name})))
    assert not hub.registry.is_light(name, 100)
    hub.registry.load(name)
    assert not hub.registry.is_light(name, 100), "its schema is yet to be compiled"

    hub.log.publish(name, [a_new_event()])

    assert hub.registry.is_light(name, 100)
    hub.registry.delete(name)
    assert not hub.registry.is_light(name, 100)


def test_large_publish_under_a_costly_schema_is_not_light(hub: Hub) -> None:
    schema = {"additionalProperties": {"items": {"allOf": [{"maximum": limit} for limit in range(1, 990)]}}}
    hub.registry.create(an_event_type("order.heavy", schema=a_json_schema(schema)))

    hub.log.publish("order.heavy", [a_new_event()])

    assert hub.registry.is_light("order.heavy", 100)
    assert not hub.registry.is_light("order.heavy", 160_000)


# Features and deletions


def test_features_rule_out_creations_and_changes(hub: Hub) -> None:
    hub.admin.settings.switch("disable_event_type_creation", on=True)

    hub.registry.check(NAME, an_event_type(NAME))
    for create in (lambda: hub.registry.check("more", an_event_type("more")),
                   lambda: hub.registry.create(an_event_type("more"))):  # fmt: skip
        with pytest.raises(NotOffered):
            create()
    hub.admin.settings.switch("disable_db_write_operations", on=True)
    with pytest.raises(HubUnavailable, check=has_code("changes-switched-off")):
        hub.registry.check(NAME, an_event_type(NAME))


def let_read(hub: Hub, kind: str, *groups: str) -> None:
    """Let consumer groups of that kind have a position in the event type."""
    for group in groups:
        if kind == "subscription":
            insert_subscription(hub.store, group, hub.registry.load(NAME).id)
        with hub.store.write() as tx:
            tx.groups.lock(group, kind=kind, at=START_AT, shared=True)
            tx.groups.put(group, [Position(NAME, "1/0", 0, 1, 0)], START_AT)


def test_event_type_of_a_subscription_is_not_deleted(hub: Hub) -> None:
    hub.registry.create(an_event_type("order.sent"))
    let_read(hub, "subscription", "b", "a")
    let_read(hub, "cursorset", "a cursor set")

    with pytest.raises(EventTypeInUse) as refused:
        hub.registry.delete(NAME)

    assert refused.value.fields == {"event_type": NAME, "subscriptions": ["a", "b"]}
    assert hub.registry.load(NAME).name == NAME
    assert len(hub.groups.list(GroupFilter(NAME), 9)) == 3
    hub.registry.delete("order.sent")


@pytest.mark.parametrize("kind", ["cursorset", "subscription"])
def test_deletion_of_an_event_type_removes_the_positions_of_its_readers(hub: Hub, kind: str) -> None:
    let_read(hub, kind, "mine")
    hub.admin.settings.switch("delete_event_type_with_subscriptions", on=kind == "subscription")

    hub.registry.delete(NAME)

    assert not any(each.sources for each in hub.groups.list(GroupFilter(), 9))
    with pytest.raises(EventTypeNotFound):
        hub.registry.load(NAME)
