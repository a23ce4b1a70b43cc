"""Cursor sets: consumer groups whose cursors the hub keeps, and the list of all consumer groups."""

from typing import Any

import pytest

from penstock.core.groups.groups import TotalLag
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark, parse_cursor
from penstock.errors import BadPartitionCount, EventTypeNotFound, GroupKindDiffers, GroupNotFound
from penstock.hub.groups.groups import Groups
from penstock.storage import Store
from penstock.storage.groups import GroupFilter, Position
from penstock.storage.statements import SqlRunner
from penstock.testing.clock import START_AT, VirtualClock
from tests.failing import has_code
from tests.unit.hub.feeds import NAME, create_feed, fill_feed, find_feed, insert_subscription, raise_epochs


@pytest.fixture
def groups(store: Store, clock: VirtualClock) -> Groups:
    return Groups(store, clock)


def a_cursor(view: FeedView, *offsets: int, epoch: int = 1) -> str:
    return FeedCursor(feed_mark(NAME), epoch, view, offsets).encode()


def test_stored_cursors_are_resumed_at_their_partition_count(store: Store, groups: Groups) -> None:
    feed = create_feed(store, partition_count=4)
    whole, merged, sliced = FeedView(4, 3, 4), FeedView(2, 1, 4), FeedView(8, 5, 4)

    groups.store_cursors(feed, "mine", [(whole, {3: 7}), (merged, {1: 5, 3: 9}), (sliced, {1: 6})])

    assert groups.resume(NAME, "mine", 4, [3]) == {3: a_cursor(whole, 7)}
    assert groups.resume(NAME, "mine", 2, [1]) == {1: a_cursor(merged, 5, 9)}
    assert groups.resume(NAME, "mine", 8, [5]) == {5: a_cursor(sliced, 6)}


@pytest.mark.parametrize(
    ("name", "n", "partitions", "missing"),
    [("yours", 2, [0], 0), ("mine", 1, [0], 0), ("mine", 2, [1], 1), ("mine", 2, [0, 1], 1)],
    ids=["another group", "another count", "another partition", "one of two"],
)
def test_cursor_that_was_not_stored_is_not_found(
    store: Store, groups: Groups, *, name: str, n: int, partitions: list[int], missing: int
) -> None:
    groups.store_cursors(create_feed(store, partition_count=2), "mine", [(FeedView(2, 0, 2), {0: 7})])

    with pytest.raises(GroupNotFound, check=has_code("cursor-set-not-found")) as refused:
        groups.resume(NAME, name, n, partitions)

    assert refused.value.fields == {"event_type": NAME, "cursorset": name, "n": n, "partition": missing}


def test_unknown_event_type_or_count_is_refused(store: Store, groups: Groups) -> None:
    create_feed(store, partition_count=4)

    with pytest.raises(EventTypeNotFound):
        groups.resume("unheard.of", "mine", 1, [0])
    with pytest.raises(EventTypeNotFound):
        groups.list(GroupFilter("unheard.of"), 9)
    with pytest.raises(BadPartitionCount):
        groups.resume(NAME, "mine", 3, [0])


def test_cursor_from_before_a_restored_backup_keeps_its_epoch(store: Store, groups: Groups) -> None:
    """So that the next read reports the restored backup, instead of reading on in another history."""
    feed = create_feed(store, partition_count=2)
    view = FeedView(1, 0, 2)
    groups.store_cursors(feed, "mine", [(view, {0: 7, 1: 8})])
    raise_epochs(store)
    now = find_feed(store)
    assert now.epoch > feed.epoch

    def resume_epoch() -> int:
        return parse_cursor(groups.resume(NAME, "mine", 1, [0])[0], "cursor0", NAME).epoch

    assert resume_epoch() == feed.epoch
    groups.store_cursors(now, "mine", [(view, {1: 3})])
    assert resume_epoch() == feed.epoch, "a place of the old history is still in it"
    groups.store_cursors(now, "mine", [(view, {0: 2, 1: 3})])
    assert groups.resume(NAME, "mine", 1, [0]) == {0: a_cursor(view, 2, 3, epoch=now.epoch)}


def test_merged_cursor_begins_at_the_beginning_of_partitions_that_were_not_stored(store: Store, groups: Groups) -> None:
    groups.store_cursors(create_feed(store, partition_count=2), "mine", [(FeedView(1, 0, 2), {1: 8})])

    assert groups.resume(NAME, "mine", 1, [0]) == {0: a_cursor(FeedView(1, 0, 2), 0, 8)}


@pytest.mark.parametrize("name", ["nobody", "", "gr\u00fcn", "\x00"], ids=repr)
def test_unknown_group_is_not_found(groups: Groups, name: str) -> None:
    for call in (groups.find, groups.delete, lambda name: groups.list_interventions(name, before=None, limit=9)):
        with pytest.raises(GroupNotFound):
            call(name)


def test_lag_of_a_group_is_measured_by_the_hubs_clock(store: Store, groups: Groups, clock: VirtualClock) -> None:
    feed = fill_feed(store, partition_count=2, events=9)
    groups.store_cursors(feed, "late", [(FeedView(2, 0, 2), {0: 2}), (FeedView(1, 0, 2), {0: 5, 1: 9})])
    groups.store_cursors(feed, "prompt", [(FeedView(2, 0, 2), {0: 9})])
    insert_subscription(store, "unbegun", feed.id)
    clock.advance(seconds=60)

    late, prompt, unbegun = groups.measure(groups.list(GroupFilter(), 9))

    assert (late.behind, prompt.behind, unbegun.behind) == ((7, 58_000_000, 2 + 9), (0, 0, 9), None)
    standings = [(each.slice, each.tranche, each.gap) for each in late.standings]
    assert standings == [("1/0", 0, 4), ("1/0", 1, 0), ("2/0", 0, 7)]
    assert late.at == START_AT + 60_000_000


def test_lag_of_many_groups_takes_two_queries(store: Store, groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = fill_feed(store, partition_count=2, events=1)
    for number in range(9):
        groups.store_cursors(feed, f"group {number}", [(FeedView(2, p, 2), {p: 0}) for p in range(2)])
    queries: list[str] = []
    run = SqlRunner.run

    def note(statements: SqlRunner, name: str, /, **values: Any) -> Any:
        queries.append(name)
        return run(statements, name, **values)

    monkeypatch.setattr(SqlRunner, "run", note)

    assert [each.behind for each in groups.measure(groups.list(GroupFilter(), 99))] == [TotalLag(2, 0, 0)] * 9
    assert queries == ["groups_list", "group_standings"]


def test_cursors_are_not_stored_under_the_name_of_a_group_of_another_kind(store: Store, groups: Groups) -> None:
    feed = create_feed(store)
    with store.write() as tx:
        tx.groups.lock("projection", kind="processor", at=START_AT)
        tx.groups.put("projection", [Position(NAME, "", 0, 1, 7)], START_AT)

    with pytest.raises(GroupKindDiffers) as refused:
        groups.store_cursors(feed, "projection", [(FeedView(1, 0, 1), {0: 3})])

    assert refused.value.kind == "processor"
    with store.read() as tx:
        assert tx.groups.find_positions("projection", NAME, "1/0") == {}


def test_cursor_set_is_deleted_as_a_group_and_a_subscription_is_not(store: Store, groups: Groups) -> None:
    feed = create_feed(store)
    groups.store_cursors(feed, "mine", [(FeedView(1, 0, 1), {0: 7})])
    insert_subscription(store, "s1", feed.id)
    assert groups.list_interventions("mine", before=None, limit=9) == []

    groups.delete("mine")
    with pytest.raises(GroupKindDiffers) as refused:
        groups.delete("s1")

    assert refused.value.reason == "DELETE /subscriptions/s1 deletes it"
    assert groups.list(GroupFilter(), 9) == [groups.find("s1")]
