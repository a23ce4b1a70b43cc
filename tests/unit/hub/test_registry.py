from typing import Any

import msgspec
import pytest

from penstock.core.limits import NAKADI, PENSTOCK, Limits, limits_of
from penstock.errors import (
    ChangesSwitchedOff,
    EventTypeExists,
    EventTypeNotFound,
    GuidelinesBroken,
    IncompatibleSchema,
    Invalid,
    InvalidEventType,
    MalformedEventType,
    SchemaVersionNotFound,
)
from penstock.hub.hub import Hub
from penstock.hub.registry import Registry
from penstock.storage import Store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from tests.unit.hub.feeds import NAME, created
from tests.unit.hub.forwarding import ForwardingStore

REFUSING = limits_of(nakadi_strict=False, refuses_by_guidelines=True)


@pytest.fixture
def registry(forwarding: ForwardingStore, clock: VirtualClock) -> Registry:
    return Registry(forwarding, clock)


def test_an_event_type_is_created_at_the_time_of_the_clock(registry: Registry, clock: VirtualClock) -> None:
    created_at = clock()
    registry.create(an_event_type(NAME, partition_count=3, owner="us"))
    clock.advance(seconds=1)

    feed = registry.load(NAME)
    assert (feed.created_at, feed.partition_count, feed.event_type.definition["owner"]) == (created_at, 3, "us")


def test_a_definition_that_breaks_a_rule_reaches_no_database(registry: Registry, forwarding: ForwardingStore) -> None:
    with pytest.raises(InvalidEventType):
        registry.create({"name": "no category"})

    assert (forwarding.writes, forwarding.reads) == (0, 0)


def test_what_may_rule_it_out_is_asked_once_the_definition_is_right(
    registry: Registry, forwarding: ForwardingStore
) -> None:
    def check() -> None:
        raise ChangesSwitchedOff(retry_after=1)

    with pytest.raises(InvalidEventType):
        registry.create({"name": "no category"}, check)
    with pytest.raises(ChangesSwitchedOff):
        registry.create(an_event_type(NAME), check)

    assert (forwarding.writes, forwarding.reads) == (0, 0)


def test_what_could_be_is_checked_and_not_done(registry: Registry, forwarding: ForwardingStore) -> None:
    registry.create(an_event_type(NAME, partition_count=2))
    before, writes = registry.load(NAME), forwarding.writes

    assert registry.check(NAME, an_event_type(NAME, partition_count=4, labels={"a": "b"}), admin=True)
    assert not registry.check("more", an_event_type("more"), admin=True)

    assert (registry.load(NAME), forwarding.writes) == (before, writes)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ((NAME, an_event_type(NAME, partition_count=1), NAKADI), (InvalidEventType, "partition_count")),
        ((NAME, an_event_type(NAME, partition_count=9), NAKADI), (InvalidEventType, "partition_count")),
        ((NAME, an_event_type(NAME, partition_count="4"), NAKADI), (MalformedEventType, "partition_count")),
        ((NAME, an_event_type(NAME, partition_count=2), REFUSING), (GuidelinesBroken, None)),
        ((NAME, an_event_type("more", partition_count=2), PENSTOCK), (InvalidEventType, "name")),
        (("more", an_event_type(NAME), PENSTOCK), (InvalidEventType, "name")),
        (("more", an_event_type("more"), REFUSING), (GuidelinesBroken, None)),
        (("more", an_event_type("more", partition_count=9), NAKADI), (InvalidEventType, "partition_count")),
        (("more", [], PENSTOCK), (MalformedEventType, None)),
        ((NAME, [], PENSTOCK), (MalformedEventType, None)),
    ],
    ids=[
        *("fewer partitions", "too many", "a text", "against guidelines", "another name", "not the path's name"),
        *("new against guidelines", "new with too many", "no object", "no object for it"),
    ],
)
def test_what_would_be_refused_is_told_by_the_check(
    forwarding: ForwardingStore, clock: VirtualClock, asked: tuple[str, Any, Limits], told: tuple[type[Invalid], Any]
) -> None:
    name, definition, limits = asked
    Registry(forwarding, clock).create(an_event_type(NAME, partition_count=2))

    with pytest.raises(told[0]) as refused:
        Registry(forwarding, clock, limits).check(name, definition, admin=True)

    assert refused.value.fields.get("field") == told[1]


def test_a_taken_name_is_told(registry: Registry) -> None:
    registry.create(an_event_type(NAME))

    with pytest.raises(EventTypeExists):
        registry.create(an_event_type(NAME))


def test_a_change_is_made_again_where_another_came_before_it(
    registry: Registry, forwarding: ForwardingStore, clock: VirtualClock, store: Store
) -> None:
    registry.create(an_event_type(NAME, compatibility_mode="forward", schema=a_schema("a")))
    elsewhere = Registry(store, clock)

    def meanwhile(number: int) -> None:
        if number == 2:  # The first was the creation.
            elsewhere.replace(NAME, an_event_type(NAME, owner="them", schema=a_schema("a", "b")), admin=True)

    forwarding.at_write = meanwhile
    verdict = registry.add_schema(NAME, a_schema("a", "b", "c"))

    assert verdict is not None
    assert [change.pointer for change in verdict.changes] == ["#/properties/c"], "it is compared with what there is now"
    feed = registry.load(NAME)
    assert (feed.event_type.schema_version, feed.event_type.definition["owner"]) == ("1.2.0", "them")
    assert [each["version"] for each in registry.schemas(NAME, limit=9, offset=0)] == ["1.2.0", "1.1.0", "1.0.0"]


def test_a_change_is_made_again_where_another_of_that_name_has_taken_its_place(
    registry: Registry, forwarding: ForwardingStore, clock: VirtualClock, store: Store
) -> None:
    registry.create(an_event_type(NAME, compatibility_mode="forward", schema=a_schema("a")))
    before, elsewhere = registry.load(NAME), Registry(store, clock)

    def meanwhile(number: int) -> None:
        if number == 2:
            elsewhere.delete(NAME)
            elsewhere.create(an_event_type(NAME, owner="them", compatibility_mode="none", schema=a_schema("b")))
            assert elsewhere.load(NAME).revision == before.revision

    forwarding.at_write = meanwhile
    verdict = registry.add_schema(NAME, a_schema("a", "c"))

    assert verdict is not None
    assert [change.pointer for change in verdict.changes] == [f"#/properties/{name}" for name in "abc"]
    feed = registry.load(NAME)
    assert feed.id != before.id
    assert (feed.event_type.schema_version, feed.event_type.definition["owner"]) == ("2.0.0", "them")
    assert [each["version"] for each in registry.schemas(NAME, limit=9, offset=0)] == ["2.0.0", "1.0.0"]


def test_what_changes_nothing_leaves_no_trace(registry: Registry, clock: VirtualClock) -> None:
    definition = an_event_type(NAME, partition_count=2, owner="us", schema=a_schema("a"))
    registry.create(definition)
    before = registry.load(NAME)
    clock.advance(seconds=1)

    registry.replace(NAME, definition, admin=False)
    registry.add_schema(NAME, definition["schema"])
    registry.grow(NAME, 2)

    assert registry.load(NAME) == before, "neither its revision nor when it was changed"
    registry.replace(NAME, definition | {"owner": "them"}, admin=False)
    feed = registry.load(NAME)
    assert (feed.revision, feed.updated_at) == (before.revision + 1, clock())


def test_a_change_of_what_is_dropped_meanwhile_is_refused(
    registry: Registry, forwarding: ForwardingStore, clock: VirtualClock, store: Store
) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a")))

    def meanwhile(number: int) -> None:
        if number == 2:
            Registry(store, clock).delete(NAME)

    forwarding.at_write = meanwhile
    with pytest.raises(EventTypeNotFound):
        registry.grow(NAME, 4)


def test_no_transaction_is_open_while_a_schema_is_looked_at(registry: Registry, forwarding: ForwardingStore) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a")))
    writes = forwarding.writes

    with pytest.raises(IncompatibleSchema):
        registry.add_schema(NAME, a_schema("b"))
    with pytest.raises(InvalidEventType):
        registry.grow(NAME, 0)

    assert forwarding.writes == writes


def test_the_newest_version_that_says_the_same_is_found_however_old(registry: Registry) -> None:
    registry.create(an_event_type(NAME, compatibility_mode="none", schema=a_schema("a")))
    for number in range(50):
        registry.add_schema(NAME, a_schema(f"b{number}"))

    found = [registry.schema_like(NAME, a_schema(name))["version"] for name in ("a", *(f"b{n}" for n in range(50)))]
    assert found == [f"{number}.0.0" for number in range(1, 52)]
    with pytest.raises(SchemaVersionNotFound):
        registry.schema_like(NAME, a_schema("c"))


def test_removed_property_returns_only_as_what_it_was_in_any_earlier_version(registry: Registry) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a", "b"), options={"evolution": "consumers"}))
    for members in (("b",), ("b", "c")):
        registry.add_schema(NAME, a_schema(*members))
    number = a_schema("b", "c", a="number")

    with pytest.raises(IncompatibleSchema, match="cannot return as something else") as refused:
        registry.add_schema(NAME, number)
    compared = registry.compare(NAME, "latest", number)
    registry.add_schema(NAME, a_schema("a", "b", "c"))

    (change,) = [each for each in refused.value.fields["changes"] if each["refused"]]
    assert (change["rule"], change["pointer"]) == ("redefined-since", "#/properties/a")
    assert change["instead"] == "let it be as it was in version 1.0.0, or give it another name"
    assert [each["refused"] for each in compared.changes] == [False, True]
    assert registry.schema(NAME, "latest")["version"] == "1.3.0"
    assert registry.load(NAME).event_type.definition["options"]["evolution"] == "consumers"


def test_earlier_versions_with_another_major_number_are_not_looked_at(registry: Registry) -> None:
    registry.create(an_event_type(NAME, compatibility_mode="none", schema=a_schema("a", "b")))
    registry.add_schema(NAME, a_schema("b"))
    definition = registry.load(NAME).event_type.definition
    registry.replace(NAME, definition | {"compatibility_mode": "forward"}, admin=True)

    registry.add_schema(NAME, a_schema("b", a="number"))

    assert registry.schema(NAME, "latest")["version"] == "2.1.0"


def test_one_is_not_true_in_a_schema_that_is_looked_for(registry: Registry) -> None:
    registry.create(an_event_type(NAME, schema={"type": "json_schema", "schema": '{"enum": [{"a": 1}]}'}))

    assert registry.schema_like(NAME, {"type": "json_schema", "schema": '{ "enum": [{"a": 1.0}] }'})
    with pytest.raises(SchemaVersionNotFound):
        registry.schema_like(NAME, {"type": "json_schema", "schema": '{"enum": [{"a": true}]}'})


def a_schema(*members: str, **others: str) -> dict[str, str]:
    """Return a schema, as definitions hold one, of events with texts under these names, and with other types."""
    types = dict.fromkeys(members, "string") | others
    schema = {"properties": {name: {"type": kind} for name, kind in types.items()}}
    return {"type": "json_schema", "schema": msgspec.json.encode(schema).decode()}


def test_what_was_seen_is_recalled_without_asking_again(registry: Registry, forwarding: ForwardingStore) -> None:
    created(forwarding)
    assert not registry.knows(NAME)

    first = registry.recall(NAME)
    reads = forwarding.reads

    assert registry.knows(NAME)
    assert registry.recall(NAME) is first
    assert forwarding.reads == reads


def test_what_an_append_has_found_changed_is_not_prepared_for_the_old_again(
    forwarding: ForwardingStore, clock: VirtualClock, store: Store
) -> None:
    created(store)
    hub = Hub(forwarding, clock=clock)
    hub.publish(NAME, [a_new_event(partition=0)])
    with store.write() as tx:  # As another process does it.
        tx.feeds.delete(NAME)
    created(store)
    hub.publish(NAME, [a_new_event(partition=0)])
    before = forwarding.writes

    hub.publish(NAME, [a_new_event(partition=0)])
    assert forwarding.writes == before + 1

    with store.write() as tx:
        tx.feeds.delete(NAME)
    with pytest.raises(EventTypeNotFound):
        hub.publish(NAME, [a_new_event(partition=0)])
    assert not hub.is_light(NAME, 1)
    hub.stop()


def test_a_look_replaces_what_was_remembered(registry: Registry, store: Store) -> None:
    created(store)
    before = registry.recall(NAME)
    with store.write() as tx:  # As another process does it.
        tx.feeds.delete(NAME)
    created(store, partition_count=4)

    assert registry.recall(NAME) is before
    assert registry.load(NAME).partition_count == 4
    assert registry.recall(NAME).partition_count == 4


def test_a_look_that_finds_nothing_is_remembered_too(registry: Registry, store: Store) -> None:
    created(store)
    registry.recall(NAME)
    with store.write() as tx:
        tx.feeds.delete(NAME)

    with pytest.raises(EventTypeNotFound):
        registry.load(NAME)

    assert not registry.knows(NAME)
    with pytest.raises(EventTypeNotFound):
        registry.recall(NAME)


def test_what_another_look_has_found_can_be_handed_in(registry: Registry, store: Store) -> None:
    feed = created(store)

    assert registry.remember(NAME, feed) is registry.recall(NAME) is feed
    with pytest.raises(EventTypeNotFound):
        registry.remember(NAME, None)
    assert not registry.knows(NAME)


def test_what_is_deleted_is_forgotten(registry: Registry) -> None:
    registry.create(an_event_type(NAME))
    registry.recall(NAME)

    registry.delete(NAME)

    assert not registry.knows(NAME)
    assert list(registry.list()) == []
    with pytest.raises(EventTypeNotFound):
        registry.delete(NAME)


def test_after_a_backup_was_put_back_every_feed_is_looked_at_anew(registry: Registry) -> None:
    for name in ("a", "b"):
        registry.create(an_event_type(name))
        registry.recall(name)
    before = registry.recall("a")

    assert registry.restored() == 2

    assert not registry.knows("a")
    assert registry.recall("a").epoch > before.epoch
    assert registry.recall("a").revision > before.revision


def test_a_schema_without_an_ordering_key_is_compared_all_the_same(registry: Registry) -> None:
    registry.create(an_event_type(NAME, schema=a_schema("a", "b"), ordering_key_fields=["b"]))

    found = registry.compare(NAME, "latest", a_schema("c"))

    assert isinstance(found.refused, InvalidEventType)
    assert "no 'b' at #/properties/b" in found.refused.detail
    told = [(each["pointer"], each["refused"]) for each in found.changes]
    assert told == [("#/properties/a", True), ("#/properties/b", True), ("#/properties/c", False)]
    assert (found.version, found.producers, found.consumers) == ("1.0.0", False, True)
