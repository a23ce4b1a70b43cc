"""The contract of consumer groups' places: `penstock.storage.groups.GroupRepository`."""

from penstock.storage import Store
from penstock.storage.groups import Position
from tests.store_contract.database import FIRST_AT, Contract, created

GROUP, SOURCE, SLICE = "group 1", "order.placed", "4/1"


class PositionsContract(Contract):
    """A place is kept by group, source, slice and tranche, and the last one stored holds."""

    def test_an_unknown_group_stands_nowhere(self, store: Store) -> None:
        assert _found(store) == {}

    def test_positions_are_found_by_tranche(self, store: Store) -> None:
        _store(store, at(10, 1, 7), at(2, 1, 0))

        assert _found(store) == {2: at(2, 1, 0), 10: at(10, 1, 7)}

    def test_the_last_one_stored_holds_forward_and_back(self, store: Store) -> None:
        _store(store, at(0, 1, 7), at(1, 1, 7))

        _store(store, at(0, 2, 1 << 60))
        assert _found(store) == {0: at(0, 2, 1 << 60), 1: at(1, 1, 7)}

        _store(store, at(0, 1, 3))
        assert _found(store)[0] == at(0, 1, 3)

    def test_groups_sources_and_slices_are_apart(self, store: Store) -> None:
        given = [(GROUP, SOURCE, SLICE), ("other", SOURCE, SLICE), (GROUP, "other", SLICE), (GROUP, SOURCE, "other")]
        for offset, (group, source, part) in enumerate(given):
            with store.write() as tx:
                tx.groups.lock(group, kind="cursorset", at=FIRST_AT)
                tx.groups.put(group, [Position(source, part, 0, 1, offset)], FIRST_AT)

        with store.read() as tx:
            assert [tx.groups.find_positions(*each)[0].offset for each in given] == [0, 1, 2, 3]

    def test_an_undone_store_changes_nothing(self, store: Store) -> None:
        _store(store, at(0, 1, 7))

        try:
            with store.write() as tx:
                tx.groups.put(GROUP, [at(0, 1, 9)], FIRST_AT)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

        assert _found(store)[0].offset == 7

    def test_a_dropped_event_type_takes_its_positions_along(self, store: Store) -> None:
        created(store, SOURCE)
        _store(store, at(0, 1, 7))
        with store.write() as tx:
            tx.groups.put(GROUP, [at(0, 1, 7)._replace(source="kept")], FIRST_AT)

        with store.write() as tx:
            tx.registry.delete(SOURCE)

        assert _found(store) == {}
        with store.read() as tx:
            assert tx.groups.find_positions(GROUP, "kept", SLICE)


def at(tranche: int, epoch: int, offset: int) -> Position:
    """Return a position in the slice of these tests."""
    return Position(SOURCE, SLICE, tranche, epoch, offset)


def _store(store: Store, *positions: Position) -> None:
    with store.write() as tx:
        assert tx.groups.lock(GROUP, kind="cursorset", at=FIRST_AT, shared=True) == ("cursorset", None)
        tx.groups.put(GROUP, positions, FIRST_AT)


def _found(store: Store) -> dict[int, Position]:
    with store.read() as tx:
        return dict(tx.groups.find_positions(GROUP, SOURCE, SLICE))
