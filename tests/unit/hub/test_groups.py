from typing import Any

import pytest

from penstock.core.consumer_group import Behind
from penstock.core.cursor import Cursor, View, feed_mark, parse_cursor
from penstock.errors import BadPartitionCount, CursorSetNotFound, EventTypeNotFound, GroupKindDiffers, GroupNotFound
from penstock.hub.groups import Groups
from penstock.storage import Store
from penstock.storage.groups import Intervention, Listed, Place, Which
from penstock.storage.statements import Statements
from penstock.testing.clock import START_AT, VirtualClock
from tests.unit.hub.feeds import NAME, created, filled, found, subscribed


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
    mine, yours = Listed("mine", "cursorset", (NAME, "order.sent")), Listed("yours", "cursorset", ("order.sent",))

    assert groups.list(Which(), 9) == groups.list(Which("order.sent"), 9) == [mine, yours]
    assert groups.list(Which(NAME), 9) == [mine]
    assert groups.find("mine") == mine
    with pytest.raises(EventTypeNotFound):
        groups.list(Which("unheard.of"), 9)


@pytest.mark.parametrize("name", ["nobody", "", "gr\u00fcn", "\x00"], ids=repr)
def test_a_group_that_is_not_there_is_told(groups: Groups, name: str) -> None:
    with pytest.raises(GroupNotFound):
        groups.find(name)
    with pytest.raises(GroupNotFound):
        groups.history(name, before=None, limit=9)
    with pytest.raises(GroupNotFound):
        groups.delete(name)


def test_how_far_groups_are_behind_is_told_by_the_hubs_clock(store: Store, groups: Groups, clock: VirtualClock) -> None:
    feed = filled(store, partition_count=2, events=9)
    groups.store_cursors(feed, "late", [(View(2, 0, 2), {0: 2}), (View(1, 0, 2), {0: 5, 1: 9})])
    groups.store_cursors(feed, "prompt", [(View(2, 0, 2), {0: 9})])
    subscribed(store, "unbegun", feed.id)
    clock.advance(seconds=60)

    late, prompt, unbegun = groups.look(groups.list(Which(), 9))

    assert (late.behind, prompt.behind, unbegun.behind) == ((7, 58_000_000), (0, 0), None)
    stands = [(each.slice, each.tranche, each.gap) for each in late.standings]
    assert stands == [("1/0", 0, 4), ("1/0", 1, 0), ("2/0", 0, 7)]
    assert late.at == START_AT + 60_000_000


def test_fifty_groups_take_no_more_queries_than_one(
    store: Store, groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = filled(store, partition_count=2, events=1)
    for number in range(50):
        groups.store_cursors(feed, f"group {number}", [(View(2, p, 2), {p: 0}) for p in range(2)])
    queries: list[str] = []
    run = Statements.run

    def counted(statements: Statements, name: str, /, **given: Any) -> Any:
        queries.append(name)
        return run(statements, name, **given)

    monkeypatch.setattr(Statements, "run", counted)

    found = groups.look(groups.list(Which(), 99))

    assert [each.behind for each in found] == [Behind(2, 0)] * 50
    assert queries == ["groups_list", "group_standings"]


def test_a_cursor_set_is_not_kept_under_the_name_of_another_group(store: Store, groups: Groups) -> None:
    feed = created(store)
    with store.write() as tx:
        tx.groups.lock("projection", kind="processor", at=START_AT)
        tx.groups.put("projection", [Place(NAME, "", 0, 1, 7)], START_AT)

    with pytest.raises(GroupKindDiffers) as told:
        groups.store_cursors(feed, "projection", [(View(1, 0, 1), {0: 3})])

    assert told.value.fields["kind"] == "processor"
    with store.read() as tx:
        assert tx.positions.find("projection", NAME, "1/0") == {}


def test_a_group_is_forgotten_with_its_history_but_a_subscription_is_not(store: Store, groups: Groups) -> None:
    feed = created(store)
    groups.store_cursors(feed, "mine", [(View(1, 0, 1), {0: 7})])
    subscribed(store, "s1", feed.id)
    done = Intervention(NAME, "1/0", 0, "reset", 1, 7, 0, None, START_AT)
    with store.write() as tx:
        tx.groups.intervene("mine", [done])
    assert [each._replace(id=0) for each in groups.history("mine", before=None, limit=9)] == [done]

    groups.delete("mine")
    with pytest.raises(GroupKindDiffers) as told:
        groups.delete("s1")

    assert told.value.fields["reason"] == "DELETE /subscriptions/s1 deletes it"
    assert [each.name for each in groups.list(Which(), 9)] == ["s1"]
