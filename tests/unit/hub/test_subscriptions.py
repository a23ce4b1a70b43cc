from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from penstock.core.event_type import EventType
from penstock.core.limits import NAKADI
from penstock.core.subscription import Search, completed_subscription
from penstock.errors import InvalidSubscription, PenstockError, SubscriptionNotFound
from penstock.hub.subscriptions import Subscriptions, begin, grow, is_deletable
from penstock.storage import Store, open_store
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import an_event_type
from penstock.testing.store_contract import database_at
from tests.unit.hub.feeds import NAME, create_feed, fill_feed, find_feed
from tests.unit.hub.subscribing import P, Q, read_offsets


def asked(*names: str, **members: Any) -> dict[str, Any]:
    """Return a definition as the hub has it."""
    return completed_subscription({"owning_application": "shop", "event_types": list(names) or [NAME]} | members)


@pytest.fixture
def subscriptions(store: Store, clock: VirtualClock) -> Subscriptions:
    return Subscriptions(store, clock)


def test_of_one_application_event_types_and_group_there_is_one(subscriptions: Subscriptions, store: Store) -> None:
    create_feed(store), create_feed(store, "invoice")
    first, is_new = subscriptions.create(asked(NAME, "invoice", read_from="begin"))
    assert is_new

    assert subscriptions.create(asked("invoice", NAME, annotations={"a": "b"})) == (first, False)
    assert subscriptions.alike(asked("invoice", NAME)) == first
    others = [asked(NAME), asked(NAME, "invoice", consumer_group="x"), asked(NAME, "invoice", owning_application="x")]
    assert [subscriptions.alike(each) for each in others] == [None] * 3
    assert all(subscriptions.create(each)[1] for each in others)


def test_of_many_who_create_it_at_once_one_does_and_all_have_it(either_store: Store, migrated_url: str) -> None:
    create_feed(either_store)
    other, go = open_store(migrated_url), Barrier(4)

    def create(at: int) -> tuple[str, bool]:
        go.wait()
        subscription, is_new = Subscriptions((either_store, other)[at % 2], VirtualClock()).create(asked())
        return subscription.id, is_new

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(create, range(4)))
    other.close()

    assert len({made_id for made_id, _ in made}) == 1
    assert sum(is_new for _, is_new in made) == 1


def test_event_types_that_are_not_there_are_named(subscriptions: Subscriptions, store: Store) -> None:
    create_feed(store)

    for make in (subscriptions.create, subscriptions.sources):
        with pytest.raises(InvalidSubscription) as told:
            make(asked(NAME, "b", "a"))
        assert told.value.fields["missing"] == ["a", "b"]
    assert subscriptions.newest(Search(), limit=9, offset=0) == []


def test_there_is_an_end_to_partitions(store: Store, clock: VirtualClock) -> None:
    create_feed(store, partition_count=64), create_feed(store, "invoice", 37)

    with pytest.raises(InvalidSubscription, match="is 101, but the maximum partition count is 100"):
        Subscriptions(store, clock, NAKADI).create(asked(NAME, "invoice"))
    assert Subscriptions(store, clock, NAKADI).create(asked("invoice"))[1]


def test_what_is_changed_was_changed_later(subscriptions: Subscriptions, store: Store, clock: VirtualClock) -> None:
    create_feed(store)
    made, _ = subscriptions.create(asked())
    clock.advance(seconds=-9)

    subscriptions.replace(made.id, made.definition | {"annotations": {"a": "b"}})
    subscriptions.replace(made.id, made.definition)

    assert subscriptions.find(made.id) == made._replace(updated_at=made.updated_at + 2)


def test_what_it_may_not_be_is_not_stored(subscriptions: Subscriptions, store: Store) -> None:
    create_feed(store)
    made, _ = subscriptions.create(asked())

    def refuse() -> None:
        raise PenstockError("no")

    with pytest.raises(InvalidSubscription):
        subscriptions.replace(made.id, made.definition | {"read_from": "begin"})
    with pytest.raises(PenstockError):
        subscriptions.replace(made.id, made.definition | {"annotations": {"a": "b"}}, refuse)

    assert subscriptions.find(made.id) == made


@pytest.mark.parametrize("act", ["find", "delete", "replace"])
def test_one_that_is_not_there_is_not_found(subscriptions: Subscriptions, act: str) -> None:
    with pytest.raises(SubscriptionNotFound, match="nobody"):
        getattr(subscriptions, act)("nobody", *([{}] if act == "replace" else []))


def test_one_that_was_dropped_can_be_made_again(subscriptions: Subscriptions, store: Store) -> None:
    create_feed(store)
    first, _ = subscriptions.create(asked())
    subscriptions.delete(first.id)

    second, is_new = subscriptions.create(asked())

    assert is_new
    assert second.id != first.id
    with pytest.raises(SubscriptionNotFound):
        subscriptions.find(first.id)


@pytest.mark.parametrize(("read_from", "starts"), [("begin", [4, 4]), ("end", [9, 9])])
def test_it_begins_once_at_what_is_there_then(
    subscriptions: Subscriptions, store: Store, read_from: str, starts: list[int]
) -> None:
    fill_feed(store, partition_count=2, events=9)
    database_at(store.url).run("UPDATE penstock_partition SET floor = 4")
    made, _ = subscriptions.create(asked(read_from=read_from))
    assert read_offsets(store, made.id) == []

    for _ in range(2):
        with store.write() as tx:
            begin(tx, made, START_AT)
        assert read_offsets(store, made.id) == starts
        database_at(store.url).run("UPDATE penstock_partition SET floor = 5")


def test_one_that_begins_at_cursors_has_begun(subscriptions: Subscriptions, store: Store) -> None:
    fill_feed(store, partition_count=2, events=9)

    made, _ = subscriptions.create(asked(), {P: 3, Q: 0})

    assert read_offsets(store, made.id) == [3, 0]
    again, is_new = subscriptions.create(asked(), {P: 7, Q: 7})
    assert (again, is_new, read_offsets(store, made.id)) == (made, False, [3, 0])


def test_those_that_have_begun_have_partitions_that_are_added(subscriptions: Subscriptions, store: Store) -> None:
    fill_feed(store, partition_count=2, events=9)
    begun, _ = subscriptions.create(asked(), {P: 3, Q: 0})
    idle, _ = subscriptions.create(asked(consumer_group="idle"))
    feed = find_feed(store)

    with store.write() as tx:
        tx.feeds.update(feed, EventType.parse(an_event_type(NAME, partition_count=3)), START_AT)
        grow(tx, feed, 3, START_AT)
        grow(tx, find_feed(store), 2, START_AT)

    assert (read_offsets(store, begun.id), read_offsets(store, idle.id)) == ([3, 0, 0], [])
    assert [subscriptions.find(each.id).revision for each in (begun, idle)] == [1, 0]


@pytest.mark.parametrize(
    ("members", "goes"),
    [
        ({}, False),
        ({"owning_application": "nakadi_archiver"}, False),
        ({"consumer_group": "nakadi_to_s3"}, False),
        ({"owning_application": "nakadi_archiver", "consumer_group": "nakadi_to_s3"}, True),
    ],
    ids=["any", "of the archive's application", "of the archive's group", "the archive's own"],
)
def test_only_an_archives_goes_with_its_event_type(
    subscriptions: Subscriptions, store: Store, members: dict[str, str], *, goes: bool
) -> None:
    create_feed(store)

    assert is_deletable(subscriptions.create(asked(**members))[0]) is goes
