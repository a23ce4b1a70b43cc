"""Groups of consumer groups: committed by processors and Spark, and reset by operators."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.core.groups.groups import CURSOR_SET, GroupReset, PositionCommit, ResetTarget
from penstock.core.log.start import Start
from penstock.errors import (
    BadParameter,
    GroupKindDiffers,
    GroupNotFound,
    OutcomeUnknown,
    PositionMoved,
    UnusablePosition,
)
from penstock.hub.groups.groups import Groups
from penstock.storage import Store
from penstock.storage.groups import GroupFilter, Position, PositionChange
from penstock.testing.clock import START_AT, VirtualClock
from tests.store_contract import database_at
from tests.unit.hub.feeds import NAME, create_feed, fill_feed, find_feed, insert_subscription, raise_epochs
from tests.unit.hub.forwarding import ForwardingStore, lose_answer

GROUP = "projection"
SECOND = 1_000_000


@pytest.fixture
def positions(store: Store, clock: VirtualClock) -> Groups:
    """Groups in nine events in each of four partitions, the first three gone by retention in partition 3."""
    feed = fill_feed(store, partition_count=4, events=9)
    create_feed(store, "empty", 2)
    database_at(store.url).run("UPDATE penstock_partition SET floor = 3 WHERE id = ?", feed.partition_ids[3])
    return Groups(store, clock)


def read_positions(store: Store, group: str = GROUP) -> dict[int, Position]:
    with store.read() as tx:
        return dict(tx.groups.find_positions(group, NAME, ""))


def test_positions_are_stored_with_the_epoch_of_the_feed(positions: Groups, store: Store) -> None:
    raise_epochs(store)
    epoch = find_feed(store).epoch

    stored = positions.commit(GROUP, "processor", [PositionCommit(NAME, 1, 9), PositionCommit(NAME, 0, 2)])

    assert stored == [Position(NAME, "", 0, epoch, 2), Position(NAME, "", 1, epoch, 9)]
    assert read_positions(store) == {0: Position(NAME, "", 0, epoch, 2), 1: Position(NAME, "", 1, epoch, 9)}


def test_position_from_before_a_restored_backup_is_not_the_expected_one(positions: Groups, store: Store) -> None:
    positions.commit(GROUP, "processor", [PositionCommit(NAME, 0, 2)])
    raise_epochs(store)

    with pytest.raises(PositionMoved) as refused:
        positions.commit(GROUP, None, [PositionCommit(NAME, 0, 3, is_conditional=True, expected=2)])
    with pytest.raises(UnusablePosition, match="which is now"):
        positions.commit(GROUP, None, [PositionCommit(NAME, 0, 3, epoch=1)])

    assert (refused.value.offset, refused.value.epoch) == (2, 1)


def test_refused_first_commit_creates_no_group(positions: Groups, store: Store) -> None:
    with pytest.raises(BadParameter):
        positions.commit(GROUP, None, [PositionCommit(NAME, 0, 2)])
    with pytest.raises(PositionMoved):
        positions.commit(GROUP, "spark", [PositionCommit(NAME, 0, 2, is_conditional=True, expected=1)])

    with store.read() as tx:
        assert tx.groups.list(GroupFilter(name=GROUP), 1) == []


def test_subscription_is_committed_and_reset_by_its_own_routes(positions: Groups, store: Store) -> None:
    insert_subscription(store, "s1", find_feed(store).id)

    with pytest.raises(GroupKindDiffers) as committed:
        positions.commit("s1", None, [PositionCommit(NAME, 0, 2)])
    with pytest.raises(GroupKindDiffers) as moved:
        positions.reset("s1", [GroupReset(ResetTarget("latest"))], None, dry_run=True)

    assert "POST /subscriptions/s1/cursors" in committed.value.reason
    assert "PATCH /subscriptions/s1/cursors" in moved.value.reason


@pytest.mark.usefixtures("positions")
def test_compared_commit_with_an_unknown_outcome_is_not_to_be_repeated(
    forwarding: ForwardingStore, store: Store, clock: VirtualClock
) -> None:
    forwarding.after_commit = lose_answer

    with pytest.raises(OutcomeUnknown):
        Groups(forwarding, clock).commit(GROUP, "spark", [PositionCommit(NAME, 0, 2, is_conditional=True)])

    assert read_positions(store) == {0: Position(NAME, "", 0, 1, 2)}


def test_reset_is_recorded_and_a_dry_run_changes_nothing(positions: Groups, store: Store, clock: VirtualClock) -> None:
    positions.commit(GROUP, "processor", [PositionCommit(NAME, 0, 2)])
    at = clock.advance(seconds=60)
    resets = [GroupReset(ResetTarget(offset=5), NAME, 1), GroupReset(ResetTarget("latest"), NAME, 0)]

    tried = positions.reset(GROUP, resets, "a bug", dry_run=True)
    assert read_positions(store) == {0: Position(NAME, "", 0, 1, 2)}
    moved = positions.reset(GROUP, resets, "a bug", dry_run=False)

    assert tried == moved
    assert [(each.place, each.came_from) for each in moved] == [
        (Position(NAME, "", 0, 1, 9), 2),
        (Position(NAME, "", 1, 1, 5), None),
    ]
    assert read_positions(store) == {0: Position(NAME, "", 0, 1, 9), 1: Position(NAME, "", 1, 1, 5)}
    with store.read() as tx:
        history = [each._replace(id=0) for each in tx.groups.list_changes(GROUP, before=None, limit=9)]
    assert history == [
        PositionChange(NAME, "", 1, "reset", 1, None, 5, "a bug", at),
        PositionChange(NAME, "", 0, "reset", 1, 2, 9, "a bug", at),
    ]


@pytest.mark.parametrize("name", ["nobody", "\x00"], ids=repr)
def test_unknown_group_is_not_reset(positions: Groups, name: str) -> None:
    with pytest.raises(GroupNotFound):
        positions.reset(name, [GroupReset(ResetTarget("latest"))], None, dry_run=False)


# The positions that a reset moves


def move(
    positions: Groups, store: Store, kind: str, places: list[Position], *resets: GroupReset
) -> dict[tuple[str, str, int], tuple[int | None, int]]:
    """Let a group of that kind have *places*; return where resets would move them from and to."""
    with store.write() as tx:
        tx.groups.lock(GROUP, kind=kind, at=START_AT)
        tx.groups.put(GROUP, places, START_AT)
    moved = positions.reset(GROUP, resets, None, dry_run=True)
    return {each.place[:3]: (each.came_from, each.place.offset) for each in moved}


def a_place(part: str, partition: int, offset: int = 5, *, source: str = NAME, epoch: int = 1) -> Position:
    return Position(source, part, partition, epoch, offset)


def test_reset_moves_all_partitions_of_all_event_types_of_a_processor(positions: Groups, store: Store) -> None:
    places = [a_place("", 0), a_place("", 1, 9, source="empty", epoch=0), a_place("", 0, source="gone")]

    assert move(positions, store, "processor", places, GroupReset(ResetTarget("earliest"))) == {
        (NAME, "", 0): (5, 0),
        (NAME, "", 1): (None, 0),
        (NAME, "", 2): (None, 0),
        (NAME, "", 3): (None, 3),
        ("empty", "", 0): (None, 0),
        ("empty", "", 1): (None, 0),
    }


def test_reset_moves_the_whole_views_of_a_cursor_set(positions: Groups, store: Store) -> None:
    places = [a_place("2/1", 3), a_place("8/4", 0), a_place("3/0", 2)]

    assert move(positions, store, CURSOR_SET, places, GroupReset(ResetTarget("latest"))) == {
        (NAME, "2/1", 1): (None, 9),
        (NAME, "2/1", 3): (5, 9),
        (NAME, "8/4", 0): (5, 9),
        (NAME, "3/0", 2): (5, 9),
    }


def test_reset_moves_a_processors_own_parts_where_they_are(positions: Groups, store: Store) -> None:
    places = [a_place("worker 7", 1), a_place("2/0", 2)]

    assert move(positions, store, "processor", places, GroupReset(ResetTarget("latest"), NAME)) == {
        (NAME, "worker 7", 1): (5, 9),
        (NAME, "2/0", 2): (5, 9),
    }
    own = GroupReset(ResetTarget(offset=1), NAME, 0, "worker 7")
    assert move(positions, store, "processor", places, own) == {(NAME, "worker 7", 0): (None, 1)}


def test_reset_by_name_gives_a_position_to_a_partition_without_one(positions: Groups, store: Store) -> None:
    assert move(positions, store, "spark", [], GroupReset(ResetTarget(offset=4), NAME, 2)) == {(NAME, "", 2): (None, 4)}
    assert move(positions, store, "spark", [], GroupReset(ResetTarget("latest"))) == {}


def test_each_item_of_a_reset_has_its_own_goal(positions: Groups, store: Store) -> None:
    times = [START_AT + 4 * SECOND, START_AT + 99 * SECOND, START_AT - SECOND]
    starts: list[Start] = [datetime.fromtimestamp(at / SECOND, UTC) for at in times]
    starts.append(timedelta(days=100_000))
    resets = [GroupReset(ResetTarget(start), NAME, partition) for partition, start in enumerate(starts)]
    all_of_it = GroupReset(ResetTarget(timedelta(days=999_999_999)), "empty")

    moved = move(positions, store, "processor", [a_place("", 0)], *resets, all_of_it)

    assert [offset for _, offset in moved.values()] == [0, 0, 4, 9, 0, 3]


NUMBERED = "partitions are numbered from 0 to 3"
UNUSABLE: dict[str, tuple[str, GroupReset, str]] = {
    "beyond": ("processor", GroupReset(ResetTarget(offset=10), NAME, 0), "10 is beyond its end, which is 9"),
    "negative": ("processor", GroupReset(ResetTarget(offset=-1), NAME, 0), "there is no offset -1"),
    "below the floor": (
        "processor", GroupReset(ResetTarget(offset=2), NAME, 3),
        "retention has removed what is before 3, and with that 2"),
    "partition too high": ("processor", GroupReset(ResetTarget("latest"), NAME, 4), NUMBERED),
    "partition too low": ("processor", GroupReset(ResetTarget("latest"), NAME, -1), NUMBERED),
    "no event type": ("processor", GroupReset(ResetTarget("latest"), "gone"), "there is no such event type"),
    "no name": ("processor", GroupReset(ResetTarget("latest"), "\x00"), "there is no such event type"),
    "no part": ("processor", GroupReset(ResetTarget("latest"), NAME, 0, "\x00"),
        "the slice that is named does not hold it"),
    "another view": (CURSOR_SET, GroupReset(ResetTarget("latest"), NAME, 0, "2/1"),
        "the slice that is named does not hold it"),
    "nowhere": (CURSOR_SET, GroupReset(ResetTarget("latest"), NAME),
        "the group has no position there: say in which slice it is to have one"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "reset", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_reset_is_refused_by_its_item(
    positions: Groups, store: Store, kind: str, reset: GroupReset, reason: str
) -> None:
    good = GroupReset(ResetTarget("latest"), "empty", 0, "1/0" if kind == CURSOR_SET else None)

    with pytest.raises(UnusablePosition) as refused:
        move(positions, store, kind, [], good, reset)

    assert (refused.value.item, refused.value.reason) == (1, reason)


def test_reset_that_names_a_partition_twice_is_refused(positions: Groups, store: Store) -> None:
    resets = GroupReset(ResetTarget("latest"), NAME), GroupReset(ResetTarget("earliest"), NAME, 2)

    with pytest.raises(UnusablePosition, match="named twice"):
        move(positions, store, "processor", [a_place("", 0)], *resets)
