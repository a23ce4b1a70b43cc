"""Subscriptions: created once for each application, event types and group; begun at a position; deleted."""

from contextlib import closing
from functools import partial
from typing import Any

import pytest

from penstock.core.registry.definition import NAKADI
from penstock.core.registry.event_type import EventType
from penstock.core.subscriptions.definition import SubscriptionSearch, complete_subscription
from penstock.errors import InvalidSubscription, PenstockError, SubscriptionNotFound
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.slots import add_partitions, begin_subscription, is_deleted_with_event_type
from penstock.hub.subscriptions.subscriptions import SubscriptionServices
from penstock.storage import Store, open_store
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import an_event_type
from tests.store_contract.database import database_at, together
from tests.unit.hub.feeds import NAME, create_feed, fill_feed, find_feed
from tests.unit.hub.subscribing import P, Q, read_offsets


def define(*names: str, **members: Any) -> dict[str, Any]:
    """Return a definition as the hub has it."""
    return complete_subscription({"owning_application": "shop", "event_types": list(names) or [NAME]} | members)


@pytest.fixture
def subscriptions(store: Store, clock: VirtualClock) -> SubscriptionServices:
    return Hub(store, clock=clock).subscriptions


def test_subscription_is_unique_for_its_application_event_types_and_group(
    subscriptions: SubscriptionServices, store: Store
) -> None:
    create_feed(store), create_feed(store, "invoice")
    first, is_new = subscriptions.create(define(NAME, "invoice", read_from="begin"))
    assert is_new

    assert subscriptions.create(define("invoice", NAME, annotations={"a": "b"})) == (first, False)
    assert subscriptions.find_same(define("invoice", NAME)) == first
    others = [
        define(NAME),
        define(NAME, "invoice", consumer_group="x"),
        define(NAME, "invoice", owning_application="x"),
    ]
    assert [subscriptions.find_same(each) for each in others] == [None] * 3
    assert all(subscriptions.create(each)[1] for each in others)


def test_concurrent_creations_make_one_subscription(migrated_postgres_url: str) -> None:
    with closing(open_store(migrated_postgres_url)) as store, closing(open_store(migrated_postgres_url)) as other:
        create_feed(store)
        hubs = [Hub(each, clock=VirtualClock()) for each in [store, other] * 2]

        made = together(*(partial(hub.subscriptions.create, define()) for hub in hubs))

    assert len({subscription.id for subscription, _ in made}) == 1
    assert sum(is_new for _, is_new in made) == 1


def test_missing_event_types_of_a_subscription_are_named(subscriptions: SubscriptionServices, store: Store) -> None:
    create_feed(store)

    for make in (subscriptions.create, subscriptions.load_sources):
        with pytest.raises(InvalidSubscription) as refused:
            make(define(NAME, "b", "a"))
        assert refused.value.missing == ["a", "b"]
    assert subscriptions.list_newest(SubscriptionSearch(), limit=9, offset=0) == []


def test_partitions_of_a_subscription_are_limited(store: Store, clock: VirtualClock) -> None:
    create_feed(store, partition_count=64), create_feed(store, "invoice", 37)
    subscriptions = Hub(store, clock=clock, limits=NAKADI).subscriptions

    with pytest.raises(InvalidSubscription, match="is 101, but the maximum partition count is 100"):
        subscriptions.create(define(NAME, "invoice"))
    assert subscriptions.create(define("invoice"))[1]


def test_change_of_a_subscription_is_later_than_the_one_before_by_any_clock(
    subscriptions: SubscriptionServices, store: Store, clock: VirtualClock
) -> None:
    create_feed(store)
    made, _ = subscriptions.create(define())
    clock.advance(seconds=-9)

    subscriptions.replace(made.id, made.definition | {"annotations": {"a": "b"}})
    subscriptions.replace(made.id, made.definition)

    assert subscriptions.find(made.id) == made._replace(updated_at=made.updated_at + 2)


def test_refused_change_of_a_subscription_is_not_stored(subscriptions: SubscriptionServices, store: Store) -> None:
    create_feed(store)
    made, _ = subscriptions.create(define())

    def refuse() -> None:
        raise PenstockError("no")

    with pytest.raises(InvalidSubscription):
        subscriptions.replace(made.id, made.definition | {"read_from": "begin"})
    with pytest.raises(PenstockError):
        subscriptions.replace(made.id, made.definition | {"annotations": {"a": "b"}}, refuse)

    assert subscriptions.find(made.id) == made


@pytest.mark.parametrize("act", ["find", "delete", "replace"])
def test_unknown_subscription_is_not_found(subscriptions: SubscriptionServices, act: str) -> None:
    with pytest.raises(SubscriptionNotFound, match="nobody"):
        getattr(subscriptions, act)("nobody", *([{}] if act == "replace" else []))


def test_deleted_subscription_can_be_created_again_under_another_id(
    subscriptions: SubscriptionServices, store: Store
) -> None:
    create_feed(store)
    first, _ = subscriptions.create(define())
    subscriptions.delete(first.id)

    second, is_new = subscriptions.create(define())

    assert is_new
    assert second.id != first.id
    with pytest.raises(SubscriptionNotFound):
        subscriptions.find(first.id)


@pytest.mark.parametrize(("read_from", "starts"), [("begin", [4, 4]), ("end", [9, 9])])
def test_subscription_begins_once_at_the_begin_or_the_end(
    subscriptions: SubscriptionServices, store: Store, read_from: str, starts: list[int]
) -> None:
    fill_feed(store, partition_count=2, events=9)
    database_at(store.url).run("UPDATE penstock_partition SET floor = 4")
    made, _ = subscriptions.create(define(read_from=read_from))
    assert read_offsets(store, made.id) == []

    for _ in range(2):
        with store.write() as tx:
            begin_subscription(tx, made, START_AT)
        assert read_offsets(store, made.id) == starts
        database_at(store.url).run("UPDATE penstock_partition SET floor = 5")


def test_subscription_with_cursors_has_begun_and_has_added_partitions(
    subscriptions: SubscriptionServices, store: Store
) -> None:
    fill_feed(store, partition_count=2, events=9)
    begun, _ = subscriptions.create(define(), {P: 3, Q: 0})
    assert read_offsets(store, begun.id) == [3, 0]
    again, is_new = subscriptions.create(define(), {P: 7, Q: 7})
    assert (again, is_new, read_offsets(store, begun.id)) == (begun, False, [3, 0])
    idle, _ = subscriptions.create(define(consumer_group="idle"))
    feed = find_feed(store)

    with store.write() as tx:
        tx.registry.update(feed, EventType.parse(an_event_type(NAME, partition_count=3)), START_AT)
        add_partitions(tx, feed, 3, START_AT)
        add_partitions(tx, find_feed(store), 2, START_AT)

    assert (read_offsets(store, begun.id), read_offsets(store, idle.id)) == ([3, 0, 0], [])
    assert [subscriptions.find(each.id).revision for each in (begun, idle)] == [1, 0]


ARCHIVER, ARCHIVE = {"owning_application": "nakadi_archiver"}, {"consumer_group": "nakadi_to_s3"}


@pytest.mark.parametrize(
    ("members", "goes"), [({}, False), (ARCHIVER, False), (ARCHIVE, False), (ARCHIVER | ARCHIVE, True)], ids=str
)
def test_only_an_archives_subscription_is_deleted_with_its_event_type(
    subscriptions: SubscriptionServices, store: Store, members: dict[str, str], *, goes: bool
) -> None:
    create_feed(store)

    assert is_deleted_with_event_type(subscriptions.create(define(**members))[0]) is goes
