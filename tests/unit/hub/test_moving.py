import sqlite3
from contextlib import closing

import pytest

from penstock.core.consumer_group import CURSOR_SET
from penstock.core.position import Goal, Reset
from penstock.errors import UnusablePosition
from penstock.hub.moving import Moving
from penstock.storage import Store
from penstock.storage.groups import Place
from penstock.testing.clock import START_AT
from tests.unit.hub.feeds import NAME, created, filled

GROUP = "group"
Found = dict[tuple[str, str, int], tuple[int | None, int]]


@pytest.fixture
def moving(store: Store) -> Store:
    """A feed with nine events in each of four partitions, the first three gone by retention in partition 3."""
    feed = filled(store, partition_count=4, events=9)
    created(store, "empty", 2)
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as database:
        database.execute("UPDATE penstock_partition SET floor = 3 WHERE id = ?", (feed.partition_ids[3],))
        database.commit()
    return store


def moved(store: Store, kind: str, places: list[Place], *resets: Reset) -> Found:
    with store.write() as tx:
        tx.groups.lock(GROUP, kind=kind, at=START_AT)
        tx.groups.put(GROUP, places, START_AT)
        found = Moving(tx, kind, tx.groups.standings([GROUP])).moved(resets)
    return {each.place[:3]: (each.came_from, each.place.offset) for each in found}


def here(part: str, partition: int, offset: int = 5, *, source: str = NAME, epoch: int = 1) -> Place:
    return Place(source, part, partition, epoch, offset)


def test_all_partitions_of_all_that_a_processor_reads_are_moved(moving: Store) -> None:
    places = [here("", 0), here("", 1, 9, source="empty", epoch=0), here("", 0, source="gone")]

    assert moved(moving, "processor", places, Reset(Goal("begin"))) == {
        (NAME, "", 0): (5, 0),
        (NAME, "", 1): (None, 0),
        (NAME, "", 2): (None, 0),
        (NAME, "", 3): (None, 3),
        ("empty", "", 0): (None, 0),
        ("empty", "", 1): (None, 0),
    }


def test_the_views_of_a_cursor_set_are_moved_whole(moving: Store) -> None:
    places = [here("2/1", 3), here("8/4", 0), here("3/0", 2)]

    assert moved(moving, CURSOR_SET, places, Reset(Goal("end"))) == {
        (NAME, "2/1", 1): (None, 9),
        (NAME, "2/1", 3): (5, 9),
        (NAME, "8/4", 0): (5, 9),
        (NAME, "3/0", 2): (5, 9),
    }


def test_a_part_of_a_processors_own_is_moved_where_it_stands(moving: Store) -> None:
    places = [here("worker 7", 1), here("2/0", 2)]

    assert moved(moving, "processor", places, Reset(Goal("end"), NAME)) == {
        (NAME, "worker 7", 1): (5, 9),
        (NAME, "2/0", 2): (5, 9),
    }
    assert moved(moving, "processor", places, Reset(Goal(offset=1), NAME, 0, "worker 7")) == {
        (NAME, "worker 7", 0): (None, 1)
    }


def test_what_a_processor_has_not_read_can_be_given_a_position(moving: Store) -> None:
    assert moved(moving, "spark", [], Reset(Goal(offset=4), NAME, 2)) == {(NAME, "", 2): (None, 4)}
    assert moved(moving, "spark", [], Reset(Goal("end"))) == {}


def test_each_item_has_a_goal_of_its_own(moving: Store) -> None:
    second = 1_000_000
    resets = [
        Reset(Goal(at=START_AT + 4 * second), NAME, 0),
        Reset(Goal(at=START_AT + 99 * second), NAME, 1),
        Reset(Goal(at=START_AT - second), NAME, 2),
        Reset(Goal(at=START_AT - second), NAME, 3),
        Reset(Goal(at=0), "empty"),
    ]

    assert [offset for _, offset in moved(moving, "processor", [here("", 0)], *resets).values()] == [0, 0, 4, 9, 0, 3]


@pytest.mark.parametrize(
    ("kind", "reset", "reason"),
    [
        ("processor", Reset(Goal(offset=10), NAME, 0), "10 is beyond its end, which is 9"),
        ("processor", Reset(Goal(offset=-1), NAME, 0), "there is no offset -1"),
        ("processor", Reset(Goal(offset=2), NAME, 3), "retention has removed what is before 3, and with that 2"),
        ("processor", Reset(Goal("end"), NAME, 4), "partitions are numbered from 0 to 3"),
        ("processor", Reset(Goal("end"), "gone"), "there is no such event type"),
        ("processor", Reset(Goal("end"), "\x00"), "there is no such event type"),
        ("processor", Reset(Goal("end"), NAME, 0, "\x00"), "the slice that is named does not hold it"),
        (CURSOR_SET, Reset(Goal("end"), NAME, 0, "2/1"), "the slice that is named does not hold it"),
        (CURSOR_SET, Reset(Goal("end"), NAME), "the group has no position there: say in which slice it is to have one"),
    ],
    ids=["beyond", "before", "gone", "no partition", "no feed", "no name", "no slice", "another view", "nowhere"],
)
def test_what_cannot_be_moved_is_named(moving: Store, kind: str, reset: Reset, reason: str) -> None:
    with pytest.raises(UnusablePosition) as told:
        moved(moving, kind, [], Reset(Goal("end"), "empty", 0, "1/0" if kind == CURSOR_SET else None), reset)

    assert (told.value.fields["item"], told.value.fields["reason"]) == (1, reason)


def test_one_that_is_named_twice_is_refused(moving: Store) -> None:
    with pytest.raises(UnusablePosition, match="named twice"):
        moved(moving, "processor", [here("", 0)], Reset(Goal("end"), NAME), Reset(Goal("begin"), NAME, 2))
