from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.core.position import Commit, Goal, Reset
from penstock.errors import (
    BadParameter,
    DatabaseUnavailable,
    GroupKindDiffers,
    GroupNotFound,
    OutcomeUnknown,
    PositionMoved,
    UnusablePosition,
)
from penstock.hub.positions import Positions
from penstock.storage import Store
from penstock.storage.groups import Intervention, Place
from penstock.storage.opening import Opening
from penstock.storage.store import Position, Tx
from penstock.testing.clock import VirtualClock
from tests.unit.hub.feeds import NAME, filled, found, subscribed
from tests.unit.hub.forwarding import ForwardingStore

GROUP = "projection"


@pytest.fixture
def positions(store: Store, clock: VirtualClock) -> Positions:
    filled(store, partition_count=2, events=9)
    return Positions(store, clock)


def stands(store: Store, group: str = GROUP) -> dict[int, Position]:
    with store.read() as tx:
        return dict(tx.positions.find(group, NAME, ""))


def test_positions_are_stored_with_the_feeds_epoch(positions: Positions, store: Store) -> None:
    with store.write() as tx:
        tx.feeds.raise_epochs()
    epoch = found(store).epoch

    stored = positions.commit(GROUP, "processor", [Commit(NAME, 1, 9), Commit(NAME, 0, 2)])

    assert stored == [Place(NAME, "", 0, epoch, 2), Place(NAME, "", 1, epoch, 9)]
    assert stands(store) == {0: Position(0, epoch, 2), 1: Position(1, epoch, 9)}


def test_what_stands_there_from_before_a_backup_was_put_back_is_not_what_is_expected(
    positions: Positions, store: Store
) -> None:
    positions.commit(GROUP, "processor", [Commit(NAME, 0, 2)])
    with store.write() as tx:
        tx.feeds.raise_epochs()

    with pytest.raises(PositionMoved) as told:
        positions.commit(GROUP, None, [Commit(NAME, 0, 3, compares=True, expected=2)])
    with pytest.raises(UnusablePosition, match="which is now"):
        positions.commit(GROUP, None, [Commit(NAME, 0, 3, epoch=1)])

    assert (told.value.fields["offset"], told.value.fields["epoch"]) == (2, 1)


def test_a_group_that_cannot_be_made_is_not_there_afterwards(positions: Positions, store: Store) -> None:
    with pytest.raises(BadParameter):
        positions.commit(GROUP, None, [Commit(NAME, 0, 2)])
    with pytest.raises(PositionMoved):
        positions.commit(GROUP, "spark", [Commit(NAME, 0, 2, compares=True, expected=1)])

    with store.read() as tx:
        assert tx.groups.find(GROUP) is None


def test_a_subscription_is_committed_and_reset_by_routes_of_its_own(positions: Positions, store: Store) -> None:
    subscribed(store, "s1", found(store).id)

    with pytest.raises(GroupKindDiffers) as committed:
        positions.commit("s1", None, [Commit(NAME, 0, 2)])
    with pytest.raises(GroupKindDiffers) as moved:
        positions.reset("s1", [Reset(Goal("end"))], None, dry_run=True)

    assert "POST /subscriptions/s1/cursors" in committed.value.fields["reason"]
    assert "PATCH /subscriptions/s1/cursors" in moved.value.fields["reason"]


@pytest.mark.parametrize(
    ("compares", "told"), [(False, DatabaseUnavailable), (True, OutcomeUnknown)], ids=["blindly", "compared"]
)
def test_a_commit_whose_end_is_not_known_is_repeated_where_that_does_no_harm(
    positions: Positions, store: Store, clock: VirtualClock, *, compares: bool, told: type[Exception]
) -> None:
    class Breaking(ForwardingStore):
        @contextmanager
        def write(self, *, patient: bool = True, opening: Opening | None = None) -> Iterator[Tx]:
            with super().write(patient=patient, opening=opening) as tx:
                yield tx
            raise OutcomeUnknown(reason="the connection broke")

    del positions
    with pytest.raises(told):
        Positions(Breaking(store), clock).commit(GROUP, "spark", [Commit(NAME, 0, 2, compares=compares)])
    assert stands(store) == {0: Position(0, 1, 2)}


def test_a_reset_records_what_it_has_done_and_a_dry_run_does_nothing(
    positions: Positions, store: Store, clock: VirtualClock
) -> None:
    positions.commit(GROUP, "processor", [Commit(NAME, 0, 2)])
    at = clock.advance(seconds=60)
    wanted = [Reset(Goal(offset=5), NAME, 1), Reset(Goal("end"), NAME, 0)]

    tried = positions.reset(GROUP, wanted, "a bug", dry_run=True)
    assert stands(store) == {0: Position(0, 1, 2)}
    moved = positions.reset(GROUP, wanted, "a bug", dry_run=False)

    assert tried == moved
    assert [(each.place, each.came_from) for each in moved] == [
        (Place(NAME, "", 0, 1, 9), 2),
        (Place(NAME, "", 1, 1, 5), None),
    ]
    assert stands(store) == {0: Position(0, 1, 9), 1: Position(1, 1, 5)}
    with store.read() as tx:
        history = [each._replace(id=0) for each in tx.groups.history(GROUP, before=None, limit=9)]
    assert history == [
        Intervention(NAME, "", 1, "reset", 1, None, 5, "a bug", at),
        Intervention(NAME, "", 0, "reset", 1, 2, 9, "a bug", at),
    ]


@pytest.mark.parametrize("name", ["nobody", "\x00"], ids=repr)
def test_nobody_can_be_reset_who_is_not_there(positions: Positions, name: str) -> None:
    with pytest.raises(GroupNotFound):
        positions.reset(name, [Reset(Goal("end"))], None, dry_run=False)
