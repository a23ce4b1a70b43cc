import pytest

from penstock.core.cursor import Cursor, View, feed_mark, parse_cursor
from penstock.errors import BadPartitionCount, CursorSetNotFound, EventTypeNotFound
from penstock.hub.groups import Groups
from penstock.storage import Store
from penstock.storage.store import Group
from penstock.testing.clock import VirtualClock
from tests.unit.hub.feeds import NAME, created, found


@pytest.fixture
def groups(store: Store, clock: VirtualClock) -> Groups:
    return Groups(store, clock)


def cursor(view: View, *offsets: int, epoch: int = 1) -> str:
    return Cursor(feed_mark(NAME), epoch, view, offsets).encode()


def test_cursors_come_back_as_they_were_at_any_n(store: Store, groups: Groups) -> None:
    feed = created(store, partition_count=4)
    whole, merged, sliced = View(4, 3, 4), View(2, 1, 4), View(8, 5, 4)

    groups.store_cursors(feed, "mine", [(whole, {3: 7}), (merged, {1: 5, 3: 9}), (sliced, {1: 6})])

    assert groups.resume(NAME, "mine", 4, [3]) == {3: cursor(whole, 7)}
    assert groups.resume(NAME, "mine", 2, [1]) == {1: cursor(merged, 5, 9)}
    assert groups.resume(NAME, "mine", 8, [5]) == {5: cursor(sliced, 6)}


def test_a_name_an_n_and_a_partition_are_each_their_own(store: Store, groups: Groups) -> None:
    feed = created(store, partition_count=2)
    groups.store_cursors(feed, "mine", [(View(2, 0, 2), {0: 7})])

    for name, n, partition in (("yours", 2, 0), ("mine", 1, 0), ("mine", 2, 1)):
        with pytest.raises(CursorSetNotFound) as told:
            groups.resume(NAME, name, n, [partition])
        assert told.value.fields == {"event_type": NAME, "cursorset": name, "n": n, "partition": partition}


def test_one_partition_that_is_not_kept_is_enough_to_be_told(store: Store, groups: Groups) -> None:
    feed = created(store, partition_count=2)
    groups.store_cursors(feed, "mine", [(View(2, 0, 2), {0: 7})])

    with pytest.raises(CursorSetNotFound) as told:
        groups.resume(NAME, "mine", 2, [0, 1])

    assert told.value.fields["partition"] == 1


def test_a_feed_that_does_not_exist_or_cannot_be_seen_so_is_told(store: Store, groups: Groups) -> None:
    created(store, partition_count=4)

    with pytest.raises(EventTypeNotFound):
        groups.resume("unheard.of", "mine", 1, [0])
    with pytest.raises(BadPartitionCount):
        groups.resume(NAME, "mine", 3, [0])


def test_what_was_stored_before_a_backup_was_put_back_keeps_its_epoch(store: Store, groups: Groups) -> None:
    """So that the read that follows says what has happened, instead of going on in another history."""
    feed = created(store, partition_count=2)
    groups.store_cursors(feed, "mine", [(View(1, 0, 2), {0: 7, 1: 8})])
    with store.write() as tx:
        tx.feeds.raise_epochs()
    now = found(store)
    assert now.epoch > feed.epoch

    assert parse_cursor(groups.resume(NAME, "mine", 1, [0])[0], "cursor0", NAME).epoch == feed.epoch

    groups.store_cursors(now, "mine", [(View(1, 0, 2), {1: 3})])
    mixed = parse_cursor(groups.resume(NAME, "mine", 1, [0])[0], "cursor0", NAME)
    assert mixed.epoch == feed.epoch, "a place of the old history is still in it"

    groups.store_cursors(now, "mine", [(View(1, 0, 2), {0: 2, 1: 3})])
    assert groups.resume(NAME, "mine", 1, [0]) == {0: cursor(View(1, 0, 2), 2, 3, epoch=now.epoch)}


def test_a_partition_of_a_merged_view_that_was_never_stored_begins_at_its_beginning(
    store: Store, groups: Groups
) -> None:
    feed = created(store, partition_count=2)
    groups.store_cursors(feed, "mine", [(View(1, 0, 2), {1: 8})])

    assert groups.resume(NAME, "mine", 1, [0]) == {0: cursor(View(1, 0, 2), 0, 8)}


def test_groups_are_listed_with_what_they_have_read(store: Store, groups: Groups) -> None:
    first, second = created(store), created(store, "order.sent")
    groups.store_cursors(first, "mine", [(View(1, 0, 1), {0: 7})])
    groups.store_cursors(second, "mine", [(View(1, 0, 1), {0: 7})])
    groups.store_cursors(second, "yours", [(View(1, 0, 1), {0: 7})])
    mine, yours = Group("mine", "cursorset", (NAME, "order.sent")), Group("yours", "cursorset", ("order.sent",))

    assert groups.list(None) == groups.list("order.sent") == [mine, yours]
    assert groups.list(NAME) == [mine]
    with pytest.raises(EventTypeNotFound):
        groups.list("unheard.of")
