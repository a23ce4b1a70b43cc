import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.log.cursor import FIRST, LAST
from penstock.errors import BadParameter
from penstock.wire.log.reader.pages import FeedEvent, Page
from penstock.wire.log.reader.partitions import Discovery, Partition, ReadState, share


def found(*partitions: Partition) -> Discovery:
    return Discovery(2, partitions, "t")


def open_course(
    cursors: dict[int, str], *partitions: Partition, chosen: set[int] | None = None, start: str = FIRST
) -> ReadState:
    state = ReadState(cursors, chosen, start, {})
    state.update_partitions(found(*partitions))
    return state


def end(state: ReadState, partition: int) -> None:
    """Read *partition* and find nothing more."""
    cursor = state.cursors[partition]
    state.record({partition: cursor}, Page([], {partition: cursor}))


@given(st.integers(0, 300), st.integers(1, 40))
def test_shares_are_contiguous_cover_each_partition_once_and_differ_by_one_at_most(count: int, workers: int) -> None:
    shares = [share(count, workers, worker) for worker in range(workers)]

    assert [partition for each in shares for partition in each] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= (1 if count % workers else 0)


@pytest.mark.parametrize(("workers", "worker"), [(0, 0), (2, 2), (2, -1)])
def test_worker_that_does_not_exist_has_no_share(workers: int, worker: int) -> None:
    with pytest.raises(BadParameter):
        share(4, workers, worker)


CLOSED, CHILD, HEIR = Partition(1, closed=True), Partition(4, starts_after=3), Partition(3, cursor_from=(1,))
BEGINNINGS: dict[str, tuple[dict[int, str], tuple[Partition, ...], set[int] | None, dict[int, str]]] = {
    "a whole feed at the requested start": ({}, (Partition(0), Partition(1)), None, {0: LAST, 1: LAST}),
    "a new partition at its beginning": ({0: "x"}, (Partition(0), Partition(1)), None, {0: "x", 1: FIRST}),
    "a share with its own partitions and their heirs": (
        {0: "x", 1: "y", 2: "z"}, (Partition(0), CLOSED, CHILD, HEIR), {1}, {1: "y", 4: FIRST, 3: "y"}),
    "an heir at the cursor of its nearest ancestor": (
        {0: "old", 1: "parent", 2: "own"}, (Partition(3, cursor_from=(1, 0)), Partition(2, cursor_from=(0,))), None,
        {3: "parent", 2: "own"}),
    "an heir in a share without cursors of others": (
        {0: "theirs", 1: "mine"}, (Partition(5, cursor_from=(0, 1)),), {1}, {5: "mine"}),
}  # fmt: skip


@pytest.mark.parametrize(("given_", "partitions", "chosen", "cursors"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_read_begins(
    given_: dict[int, str], partitions: tuple[Partition, ...], chosen: set[int] | None, cursors: dict[int, str]
) -> None:
    assert open_course(given_, *partitions, chosen=chosen, start=LAST).cursors == cursors


def test_partition_added_during_a_read_is_read_from_its_beginning() -> None:
    state = open_course({}, Partition(0), start=LAST)

    state.update_partitions(found(Partition(0), Partition(1)))

    assert state.cursors == {0: LAST, 1: FIRST}


def test_children_wait_until_their_parent_has_been_read_to_its_end() -> None:
    partitions = Partition(0, closed=True), Partition(1, closed=True, starts_after=0), Partition(2, starts_after=1)
    state = open_course({0: "x"}, *partitions)

    assert state.list_readable() == [0]
    state.record({0: "x"}, Page([FeedEvent(0, msgspec.Raw(b"{}"))], {0: "y"}))
    assert state.list_readable() == [0]
    state.record({0: "y"}, Page([], {0: "z"}))  # A filter has left everything out: more may follow.
    assert state.list_readable() == [0]
    end(state, 0)
    assert state.list_readable() == [1]
    end(state, 1)
    assert state.list_readable() == [2]


def test_readers_of_one_feed_share_the_ends_of_partitions() -> None:
    ends: dict[int, str] = {}
    partitions = found(Partition(0, closed=True), Partition(1, starts_after=0))
    first = ReadState({0: "x"}, None, FIRST, ends)
    first.update_partitions(partitions)
    end(first, 0)

    second = ReadState({0: "x"}, None, FIRST, ends)
    second.update_partitions(partitions)
    third = ReadState({0: "earlier"}, None, FIRST, ends)
    third.update_partitions(partitions)

    assert second.list_readable() == [1]
    assert third.list_readable() == [0]


def test_open_partition_never_ends_and_child_waits_for_no_parent_outside_of_its_share() -> None:
    state = open_course({}, Partition(0))
    end(state, 0)

    assert state.list_readable() == [0]
    partitions = Partition(0, closed=True), Partition(1, starts_after=0)
    assert open_course({1: "x"}, *partitions, chosen={1}).list_readable() == [1]


def test_missing_partitions_are_named() -> None:
    with pytest.raises(BadParameter, match=r"\[9\].*\[0, 1\]"):
        open_course({9: "x"}, Partition(0), Partition(1), chosen={9})
