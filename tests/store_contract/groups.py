"""The contract of consumer groups: `penstock.storage.groups.GroupRepository`."""

from typing import Any

import pytest

from penstock.core.groups.groups import SUBSCRIPTION, GroupProgress, PartitionExtent, measure_lag
from penstock.errors import Unavailable
from penstock.storage import Store
from penstock.storage.groups import GroupFilter, GroupMeasurement, GroupSummary, Position, PositionChange
from penstock.storage.subscriptions import StoredSubscription
from tests.store_contract.database import (
    FIRST_AT,
    PATIENCE_SECONDS,
    Blocked,
    Contract,
    Database,
    append,
    created,
    row,
    together,
)

GROUP, SOURCE = "group 1", "order.placed"
ROUNDS = 20


class GroupsContract(Contract):
    """Groups have sources, positions, a lag and interventions."""

    def test_groups_are_listed_with_their_sources_page_by_page(self, store: Store) -> None:
        created(store, "order.sent")
        for name, sources in {"b": ["order.placed", "invoice"], "B": ["order.sent"], "a": ["order.placed"]}.items():
            stored(store, name, *(Position(source, "1/0", tranche, 1, 7) for source in sources for tranche in range(2)))
        first, second, third = (
            GroupSummary("B", "processor", ("order.sent",)),
            GroupSummary("a", "processor", ("order.placed",)),
            GroupSummary("b", "processor", ("invoice", "order.placed")),
        )

        assert listed(store) == [first, second, third]
        assert listed(store, limit=2) == [first, second]
        assert listed(store, after="B") == [second, third]
        assert listed(store, source="order.placed") == [second, third]
        assert listed(store, source="order.placed", after="a", kind="processor") == [third]
        assert listed(store, source="nothing") == listed(store, kind="spark") == []

    def test_subscription_is_listed_with_its_event_types_before_it_has_begun(self, store: Store) -> None:
        first, second = created(store), created(store, "invoice")
        definition = {"owning_application": "shop", "event_types": ["order.placed", "invoice"], "consumer_group": "x"}
        with store.write() as tx:
            assert tx.subscriptions.insert(
                StoredSubscription("s1", definition, FIRST_AT, FIRST_AT, 0, None), "identity", [first.id, second.id]
            )
            tx.groups.lock("s1", owner="service:shop")
        found = GroupSummary("s1", "subscription", ("invoice", "order.placed"), definition, "service:shop")

        assert listed(store) == listed(store, source="invoice", kind="subscription") == [found]
        with store.read() as tx:
            assert tx.groups.list(GroupFilter(name="s1"), 9) == [found]
            assert tx.groups.list_standings(["s1"]) == []

    def test_last_position_stored_holds_by_group_source_slice_and_tranche(self, store: Store) -> None:
        places = [(GROUP, SOURCE, "4/1"), ("other", SOURCE, "4/1"), (GROUP, "other", "4/1"), (GROUP, SOURCE, "other")]
        for offset, (group, source, part) in enumerate(places):
            stored(store, group, *(Position(source, part, tranche, 1, offset) for tranche in (10, 2)))
        last = [Position(SOURCE, "4/1", 2, 2, 1 << 60), Position(SOURCE, "4/1", 2, 1, 0)]

        for position in last:
            stored(store, GROUP, position)
            with store.read() as tx:
                found = [tx.groups.find_positions(*place) for place in places]
                assert found[0] == {2: position, 10: Position(SOURCE, "4/1", 10, 1, 0)}
                assert [each[2].offset for each in found[1:]] == [1, 2, 3]
                assert tx.groups.find_positions("nobody", SOURCE, "4/1") == {}

    def test_group_outlives_the_positions_that_go_with_a_dropped_event_type(self, store: Store) -> None:
        created(store, SOURCE)
        stored(store, GROUP, Position(SOURCE, "", 0, 1, 7), Position("kept", "", 0, 1, 7))
        stored(store, "other", Position(SOURCE, "", 0, 1, 7))
        with store.write() as tx:
            tx.registry.delete(SOURCE)

        assert listed(store) == [GroupSummary(GROUP, "processor", ("kept",)), GroupSummary("other", "processor", ())]
        assert listed(store, source=SOURCE) == listed(store, name="group") == []
        assert listed(store, name="other") == [GroupSummary("other", "processor", ())]
        with store.read() as tx:
            assert tx.groups.find_positions(GROUP, SOURCE, "") == {}
            assert tx.groups.find_positions(GROUP, "kept", "")

    def test_standings_have_the_extent_of_each_partition_and_the_time_of_the_next_event(
        self, store: Store, database: Database
    ) -> None:
        feed = created(store, partitions=3)
        ids = feed.partition_ids
        append(store, *(row(ids[0], n) for n in range(9)), *(row(ids[1], n, received_at=FIRST_AT) for n in range(4)))
        database.run("UPDATE penstock_partition SET floor = 2 WHERE id = ?", ids[1])
        stored(store, "b", *(Position(SOURCE, "", tranche, 1, offset) for tranche, offset in ((2, 0), (1, 1), (0, 7))))
        stored(
            store,
            "a",
            Position(SOURCE, "2/1", 0, 0, 9),
            Position("gone", "", 5, 3, 4),
            Position(SOURCE, "2/0", 0, 1, 9),
        )
        stored(store, "c", Position(SOURCE, "", 0, 1, 0))

        with store.read() as tx:
            found = tx.groups.list_standings(["b", "a", "nobody"])
            assert tx.groups.list_standings([]) == []

        whole = PartitionExtent(1, 0, 9)
        assert found == [
            GroupProgress("a", "gone", "", 5, 3, 4, FIRST_AT, None, None),
            GroupProgress("a", SOURCE, "2/0", 0, 1, 9, FIRST_AT, whole, None),
            GroupProgress("a", SOURCE, "2/1", 0, 0, 9, FIRST_AT, whole, FIRST_AT),
            GroupProgress("b", SOURCE, "", 0, 1, 7, FIRST_AT, whole, FIRST_AT + 7),
            GroupProgress("b", SOURCE, "", 1, 1, 1, FIRST_AT, PartitionExtent(1, 2, 4), FIRST_AT),
            GroupProgress("b", SOURCE, "", 2, 1, 0, FIRST_AT, PartitionExtent(1, 0, 0), None),
        ]

    def test_measured_groups_are_as_far_behind_as_their_positions_say(self, store: Store, database: Database) -> None:
        feed = created(store, partitions=2)
        ids = feed.partition_ids
        append(store, *(row(ids[0], n) for n in range(9)), *(row(ids[1], n, received_at=FIRST_AT) for n in range(4)))
        database.run("UPDATE penstock_partition SET floor = 2 WHERE id = ?", ids[1])
        stored(store, "up to date", Position(SOURCE, "", 0, 1, 9), Position(SOURCE, "", 1, 1, 4))
        stored(store, "slices", *(Position(SOURCE, f"4/{n}", n % 2, 1, n) for n in range(4)), kind="cursorset")
        stored(store, "old epoch", Position(SOURCE, "", 0, 0, 9))
        stored(store, "behind the floor", Position(SOURCE, "", 1, 1, 0))
        stored(store, "beside", Position(SOURCE, "", 0, 1, 8), Position("gone", "", 5, 3, 4))
        stored(store, "without positions")

        with store.read(timeout=60) as tx:
            measured, total = tx.groups.measure(9)
            standings = tx.groups.list_standings([each.name for each in measured])

        assert total == len(measured) == 5
        for each in measured:
            own = [standing for standing in standings if standing.group == each.name]
            lag = measure_lag(own, FIRST_AT + 100)
            age = 0 if each.received_at is None else FIRST_AT + 100 - each.received_at
            assert (each.gap, age) == (lag.gap, lag.lag)
            assert each.stuck == len({standing.tranche for standing in own if standing.stuck_reason is not None})
            assert each.committed_at == FIRST_AT
        assert [(each.name, each.gap, each.stuck) for each in measured] == [
            ("slices", 11, 1),
            ("old epoch", 9, 1),
            ("behind the floor", 2, 1),
            ("beside", 1, 1),
            ("up to date", 0, 0),
        ]
        with store.read() as tx:
            assert tx.groups.measure(2) == (measured[:2], 5)

    def test_measured_group_stands_since_events_wait_and_nothing_is_committed(self, store: Store) -> None:
        ids = created(store, partitions=3).partition_ids
        append(store, *(row(each, n, received_at=FIRST_AT + 10 * n) for each in ids for n in range(4)))
        with store.write() as tx:
            tx.groups.lock("g", kind="processor", at=FIRST_AT)
            tx.groups.put("g", [Position(SOURCE, "", 0, 1, 4), Position(SOURCE, "", 1, 1, 3)], FIRST_AT)
            tx.groups.put("g", [Position(SOURCE, "", 2, 1, 1)], FIRST_AT + 35)

        with store.read() as tx:
            [measured] = tx.groups.measure(1).groups

        assert (measured.gap, measured.received_at, measured.stands_since) == (4, FIRST_AT + 10, FIRST_AT + 30)

    def test_measured_subscription_has_its_application(self, store: Store) -> None:
        feed = created(store)
        definition = {"owning_application": "shop", "event_types": [SOURCE], "consumer_group": "x"}
        with store.write() as tx:
            assert tx.subscriptions.insert(
                StoredSubscription("s1", definition, FIRST_AT, FIRST_AT, 0, None), "identity", [feed.id]
            )
            assert tx.groups.measure(9) == ([], 0), "it has not begun"
            tx.groups.put("s1", [Position(SOURCE, "", 0, 1, 0)], FIRST_AT + 7)

            assert tx.groups.measure(9) == (
                [GroupMeasurement("s1", SUBSCRIPTION, "shop", 0, None, FIRST_AT + 7, 0, None)],
                1,
            )

    def test_measured_event_types_have_their_events_and_the_newest(self, store: Store, database: Database) -> None:
        assert _measured_event_types(store) == ([], 0)
        most, least = created(store, "most", partitions=2), created(store, "least", partitions=2)
        created(store, "empty")
        append(
            store,
            *(row(most.partition_ids[p], n) for p in range(2) for n in range(5)),
            row(least.partition_ids[1], 0, "🚰".encode()),
        )
        database.run("UPDATE penstock_partition SET floor = 2 WHERE id = ?", most.partition_ids[0])

        found = [("most", 8, FIRST_AT + 4, 2), ("least", 1, FIRST_AT, len("🚰".encode())), ("empty", 0, None, None)]
        assert _measured_event_types(store) == (found, 3)
        assert _measured_event_types(store, 1) == (found[:1], 3)

    def test_statement_that_takes_longer_than_allowed_is_ended(self, store: Store) -> None:
        feed = created(store, partitions=100)
        append(store, *(row(each, 0) for each in feed.partition_ids))
        stored(store, GROUP, *(Position(SOURCE, str(n), n % 100, 1, 0) for n in range(20_000)))

        with pytest.raises(Unavailable, match=r"took longer than 0\.001 s"), store.read(timeout=0.001) as tx:
            tx.groups.measure(9)

        with store.read() as tx:
            assert tx.groups.measure(9).total == 1

    def test_group_is_created_by_its_first_lock_and_keeps_its_kind(self, store: Store) -> None:
        with store.write() as tx:
            assert tx.groups.lock(GROUP) is None
            assert tx.groups.lock(GROUP, kind="spark", at=FIRST_AT) == ("spark", None)
            assert tx.groups.lock(GROUP, kind="processor", at=FIRST_AT) == ("spark", None)
            assert tx.groups.lock(GROUP) == ("spark", None)
            assert tx.groups.lock(GROUP, kind="cursorset", at=FIRST_AT, shared=True) == ("spark", None)

    def test_interventions_of_a_group_are_listed_newest_first(self, store: Store) -> None:
        stored(store, GROUP)
        stored(store, "other")
        done = [PositionChange(SOURCE, "2/1", 1, "reset", 3, None, n, f"réason {n}", FIRST_AT + n) for n in range(3)]
        done.append(PositionChange("invoice", "", 0, "reset", 1, 7, 9, None, FIRST_AT))
        with store.write() as tx:
            tx.groups.put(GROUP, [], FIRST_AT, done[:2])
            tx.groups.put("other", [], FIRST_AT, done[:1])
            tx.groups.put(GROUP, [], FIRST_AT, done[2:])

        with store.read() as tx:
            newest = tx.groups.list_changes(GROUP, before=None, limit=9)
            ids = [each.id for each in newest]
            assert [each._replace(id=0) for each in newest] == done[::-1]
            assert ids == sorted(ids, reverse=True)
            assert tx.groups.list_changes(GROUP, before=ids[1], limit=1) == [newest[2]]
            assert tx.groups.list_changes("nobody", before=None, limit=9) == []

    def test_interventions_before_a_time_are_deleted_a_few_at_a_time(self, store: Store) -> None:
        with store.write() as tx:
            tx.groups.lock("a", kind="processor", at=FIRST_AT)
            done = [PositionChange(SOURCE, "", 0, "reset", 3, None, n, None, FIRST_AT + n) for n in range(4)]
            tx.groups.put("a", [], FIRST_AT, done)

            assert [tx.groups.expire_changes(FIRST_AT + 3, 2) for _ in range(3)] == [2, 1, 0]

            assert [each.went_to for each in tx.groups.list_changes("a", before=None, limit=9)] == [3]

    def test_deleted_group_loses_its_positions_and_interventions(self, store: Store) -> None:
        for name in (GROUP, "kept"):
            stored(store, name, Position(SOURCE, "", 0, 1, 7))
            with store.write() as tx:
                tx.groups.put(name, [], FIRST_AT, [PositionChange(SOURCE, "", 0, "reset", 1, 7, 9, None, FIRST_AT)])

        with store.write() as tx:
            assert tx.groups.lock(GROUP) == ("processor", None)
            tx.groups.delete(GROUP)

        assert [each.name for each in listed(store)] == ["kept"]
        with store.read() as tx:
            assert tx.groups.find_positions(GROUP, SOURCE, "") == {}
            assert tx.groups.list_changes(GROUP, before=None, limit=9) == []
            assert tx.groups.find_positions("kept", SOURCE, "")
            assert tx.groups.list_changes("kept", before=None, limit=9)


class GroupsTogether(Contract):
    """A lock of a group has one holder where several transactions write at once, and none deadlocks."""

    def test_positions_of_a_locked_group_are_stored_after_its_lock(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        stored(store, GROUP, Position(SOURCE, "", 0, 1, 7))

        with store.write() as tx:
            tx.groups.lock(GROUP)
            storing = blocked(_store, other, GROUP, "", (1, 0))
            assert not tx.groups.find_positions(GROUP, SOURCE, "").keys() - {0}
        storing.result(PATIENCE_SECONDS)

        assert set(_found(store, "")) == {0, 1}

    def test_shared_locks_of_a_group_do_not_wait_for_each_other(self, store: Store, other: Store) -> None:
        stored(store, GROUP)
        with store.write() as tx:
            tx.groups.lock(GROUP, kind="processor", at=FIRST_AT, shared=True)
            tx.groups.put(GROUP, [Position(SOURCE, "2/0", 0, 1, 7)], FIRST_AT)
            _store(other, GROUP, "2/1", (1,))

        assert (set(_found(store, "2/0")), set(_found(store, "2/1"))) == ({0}, {1})

    @pytest.mark.parametrize("is_locked", [True, False], ids=["locked", "stored"])
    def test_group_deleted_while_another_waits_for_it_is_created_again(
        self, store: Store, other: Store, blocked: Blocked, *, is_locked: bool
    ) -> None:
        stored(store, GROUP, Position(SOURCE, "", 0, 1, 7))

        def lock() -> None:
            with other.write() as tx:
                assert tx.groups.lock(GROUP, kind="spark", at=FIRST_AT) == ("spark", None)

        with store.write() as tx:
            tx.groups.lock(GROUP)
            tx.groups.delete(GROUP)
            waiting = blocked(lock) if is_locked else blocked(_store, other, GROUP, "", (1,))
        waiting.result(PATIENCE_SECONDS)

        assert listed(store) == [
            GroupSummary(GROUP, "spark" if is_locked else "cursorset", () if is_locked else (SOURCE,))
        ]

    def test_concurrent_commits_resets_and_deletions_never_deadlock(self, store: Store, other: Store) -> None:
        def put(store: Store, slices: list[str]) -> None:
            for n in range(ROUNDS):
                with store.write() as tx:
                    tx.groups.lock(GROUP, kind="processor", at=FIRST_AT)
                    tx.groups.put(GROUP, [Position(SOURCE, each, 3 - p, 1, n) for each in slices for p in range(4)], n)

        def stores(store: Store, tranches: tuple[int, ...]) -> None:
            for _ in range(ROUNDS):
                _store(store, GROUP, "a", tranches)

        def drop() -> None:
            for _ in range(ROUNDS):
                created(other, SOURCE)
                with other.write() as tx:
                    tx.registry.delete(SOURCE)

        def forget() -> None:
            for _ in range(ROUNDS):
                with store.write() as tx:
                    if tx.groups.lock(GROUP):
                        tx.groups.delete(GROUP)

        together(
            lambda: put(store, ["b", "a"]),
            lambda: put(other, ["a"]),
            lambda: stores(store, (3, 2, 1)),
            lambda: stores(other, (0, 1, 2)),
            drop,
            forget,
        )


def stored(store: Store, name: str, *places: Position, kind: str = "processor") -> None:
    with store.write() as tx:
        tx.groups.lock(name, kind=kind, at=FIRST_AT)
        tx.groups.put(name, places, FIRST_AT)


def _measured_event_types(store: Store, limit: int = 9) -> tuple[Any, int]:
    with store.read() as tx:
        return tx.registry.measure(limit)


def listed(store: Store, *, limit: int = 9, **which: str) -> list[GroupSummary]:
    with store.read() as tx:
        return list(tx.groups.list(GroupFilter(**which), limit))


def _store(store: Store, group: str, slice: str, tranches: tuple[int, ...]) -> None:
    with store.write() as tx:
        tx.groups.lock(group, kind="cursorset", at=FIRST_AT, shared=True)
        tx.groups.put(group, [Position(SOURCE, slice, tranche, 1, 7) for tranche in tranches], FIRST_AT)


def _found(store: Store, slice: str) -> dict[int, Position]:
    with store.read() as tx:
        return dict(tx.groups.find_positions(GROUP, SOURCE, slice))
