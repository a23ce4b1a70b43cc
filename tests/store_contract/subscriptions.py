"""The contract of subscriptions: `penstock.storage.subscriptions.SubscriptionRepository`."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import SubscriptionSearch
from penstock.storage import Store
from penstock.storage.groups import GroupFilter, Position, PositionChange
from penstock.storage.subscriptions import StoredSession, StoredSlot, StoredSubscription
from tests.store_contract.database import FIRST_AT, Contract, Database, created

SOURCE: FeedPartition = ("order.placed", 0)
AWKWARD = 'it\'s \\ a "name" %s :x ? 東京 🚰 \n'
LEASE_US = 10_000_000
ALL = SubscriptionSearch()


class SubscriptionsContract(Contract):
    """A subscription is found as last stored, and deleted with all of its rows."""

    def test_nothing_is_found_of_an_unknown_subscription(self, store: Store) -> None:
        with store.write() as tx:
            own = tx.subscriptions
            assert [own.find("s"), own.find(identity="s"), own.find("s", lock=True)] == [None, None, None]
            assert [own.list_slots("s"), own.list_sessions("s"), own.list_readers("order.placed")] == [[], [], []]
            assert own.list_sessions(hub_id="hub") == []
            assert own.find_revisions(["s"]) == own.find_revisions([]) == {}
            tx.groups.delete("s")

    def test_subscription_is_found_as_given_by_id_and_identity_and_an_identity_is_taken_once(
        self, store: Store
    ) -> None:
        feeds = [created(store, name) for name in ("order.placed", "invoice")]
        given = subscription(AWKWARD, owning_application=AWKWARD, annotations={AWKWARD: AWKWARD}, more=[1.5, None])

        assert inserted(store, given, [feed.id for feed in feeds], "alike")
        assert not inserted(store, subscription("second", consumer_group="x"), [feeds[0].id], "alike")

        with store.write() as tx:
            assert tx.subscriptions.find(AWKWARD) == tx.subscriptions.find(AWKWARD, lock=True) == given
            assert tx.subscriptions.find(identity="alike") == given
            assert [tx.subscriptions.list_readers(feed.name) for feed in feeds] == [[AWKWARD]] * 2
            [found] = tx.groups.list(GroupFilter(name=AWKWARD), 9)
            assert [tx.subscriptions.find("second"), tx.groups.list(GroupFilter(name="second"), 1)] == [None, []]
        assert found.kind == "subscription"

    def test_readers_of_an_event_type_are_sorted_by_code_points(self, store: Store) -> None:
        feed, other = created(store), created(store, "invoice")
        names = ["a", "B", "é", "\uffee", "\U0001f6b0", "10", "9"]
        for name in names:
            inserted(store, subscription(name), [feed.id])
        inserted(store, subscription("other"), [other.id])

        with store.read() as tx:
            assert tx.subscriptions.list_readers("order.placed") == sorted(names)
            assert tx.subscriptions.list_readers("nothing") == []

    def test_definition_and_reset_of_one_subscription_change_and_its_revision_by_itself(self, store: Store) -> None:
        feed = created(store)
        for name in ("s", "kept"):
            inserted(store, subscription(name), [feed.id])
        definition = subscription("s", labels={"a": AWKWARD}).definition

        for until in (1 << 60, None):
            given = StoredSubscription("s", definition, FIRST_AT, FIRST_AT + 9, 0, until)
            with store.write() as tx:
                tx.subscriptions.update(given)
                assert tx.subscriptions.find("s") == given
        with store.write() as tx:
            assert [tx.subscriptions.revise("s") for _ in range(3)] == [1, 2, 3]

        with store.read() as tx:
            assert tx.subscriptions.find("s") == given._replace(revision=3)
            assert tx.subscriptions.find("kept") == subscription("kept")
            assert tx.subscriptions.find_revisions(["kept", "s", "nobody"]) == {"kept": 0, "s": 3}

    def test_event_type_that_a_subscription_reads_is_not_deleted(self, store: Store) -> None:
        feed, other = created(store), created(store, "invoice")
        inserted(store, subscription("s"), [feed.id, other.id])

        with pytest.raises(Exception, match=r"(?i)foreign key"), store.write() as tx:
            tx.registry.delete("invoice")

        with store.write() as tx:
            assert tx.registry.find("invoice") == other
            tx.groups.delete("s")
            assert tx.registry.delete("invoice")

    def test_deleted_subscription_leaves_no_row_in_any_table(self, store: Store, database: Database) -> None:
        feed = created(store)
        for name in ("s", "kept"):
            inserted(store, subscription(name), [feed.id])
            with store.write() as tx:
                tx.subscriptions.put_slots(name, [slot(SOURCE)])
                seen_at = tx.subscriptions.see_hub("hub")
                tx.subscriptions.put_session(session(f"stream of {name}", seen_at, subscription=name))
                tx.subscriptions.park(name, SOURCE, "key", 3, attempts=2, at=FIRST_AT)
                change = PositionChange(SOURCE[0], "", 0, "reset", 1, 7, 9, None, FIRST_AT)
                tx.groups.put(name, [slot(SOURCE).position], FIRST_AT, [change])

        with store.write() as tx:
            tx.groups.delete("s")

        tables = ("group", "position", "subscription", "subscription_source", "session", "slot", "parked",
                  "parked_event", "intervention")  # fmt: skip
        assert [database.run(f"SELECT count(*) FROM penstock_{each}")[0][0] for each in tables] == [1] * len(tables)
        with store.read() as tx:
            assert [each.id for each in tx.subscriptions.list_sessions("kept")] == ["stream of kept"]

    # Lists

    def test_subscriptions_are_listed_newest_first_or_by_id_page_by_page(self, store: Store) -> None:
        feed = created(store)
        for name, at in {"b": 1, "c": 2, "a": 2, "d": 0}.items():
            inserted(store, subscription(name, at=FIRST_AT + at), [feed.id])

        assert [listed(store), listed(store, limit=2)] == [["c", "a", "b", "d"], ["c", "a"]]
        assert [listed(store, limit=2, offset=3), listed(store, offset=4)] == [["d"], []]
        assert [after(store), after(store, limit=2)] == [["a", "b", "c", "d"], ["a", "b"]]
        assert [after(store, id="c"), after(store, id="d")] == [["d"], []]

    @pytest.mark.parametrize(
        ("search", "found"),
        [
            (SubscriptionSearch(), "cab"),
            (SubscriptionSearch(owning_application="shop"), "ca"),
            (SubscriptionSearch(owning_application="SHOP"), ""),
            (SubscriptionSearch(event_types=["order.placed"]), "ca"),
            (SubscriptionSearch(event_types=["invoice"]), "cb"),
            (SubscriptionSearch(event_types=["invoice", "order.placed", "invoice"]), "c"),
            (SubscriptionSearch(event_types=["invoice", "nothing"]), ""),
            (SubscriptionSearch(reader=("service", "x")), "cb"),
            (SubscriptionSearch(reader=("user", "x")), ""),
            (SubscriptionSearch(reader=("user", AWKWARD)), "b"),
            (SubscriptionSearch(reader=("service", AWKWARD)), ""),
            (SubscriptionSearch("shop", ["invoice"], ("service", "x")), "c"),
            (SubscriptionSearch("shop", ["invoice"], ("user", AWKWARD)), ""),
        ],
        ids=[
            "all", "by owner", "an owner in other letters", "that read one", "that read the other", "that read both",
            "that read one that is not there", "by reader", "a reader of another type", "an awkward reader",
            "the parts of two readers", "all of it", "all of it but one",
        ],
    )  # fmt: skip
    def test_search_finds_subscriptions_that_meet_all_of_its_conditions(
        self, store: Store, search: SubscriptionSearch, found: str
    ) -> None:
        placed, invoice = created(store), created(store, "invoice")
        service = {"data_type": "service", "value": "x"}
        of_b = [service, {"data_type": "user", "value": AWKWARD}]
        for name, owner, readers, feeds in (
            ("a", "shop", None, [placed]),
            ("c", "shop", [service], [placed, invoice]),
            ("b", AWKWARD, of_b, [invoice]),
        ):
            authorization = readers and {"admins": [{"data_type": "user", "value": "y"}], "readers": readers}
            given = subscription(name, owning_application=owner, authorization=authorization)
            inserted(store, given._replace(created_at=FIRST_AT + (name == "c") - (name == "b")), [f.id for f in feeds])

        assert "".join(listed(store, search)) == found
        assert "".join(after(store, search)) == "".join(sorted(found))


class StreamsContract(Contract):
    """A subscription has slots, positions and sessions."""

    def test_slots_are_listed_in_their_order_with_their_positions(self, store: Store) -> None:
        begun(store, "other", SOURCE)
        given = [
            slot(("é", 0)),
            slot(("b", 10), offset=1 << 60, epoch=7),
            slot(("B", 1), owner="x", successor="y", sent=1 << 61, failed=3, single_until=1 << 62),
            slot(("b", 9)),
        ]

        begun(store, "s", given=given)

        with store.read() as tx:
            found = tx.subscriptions.list_slots("s")
            at_b = tx.groups.find_positions("s", "b", "")
        assert found == [given[2], given[3], given[1], given[0]]
        assert at_b == {9: Position("b", "", 9, 1, 5), 10: Position("b", "", 10, 7, 1 << 60)}

    def test_slots_and_positions_of_a_partition_are_stored_apart(self, store: Store) -> None:
        places = [SOURCE, ("order.placed", 1), (AWKWARD, 0)]
        for name in ("s", "other"):
            begun(store, name, *places)

        with store.write() as tx:
            tx.subscriptions.put_slots("s", [slot(SOURCE, owner="x", failed=2, offset=99, epoch=99)])
            tx.subscriptions.put_slots("s", [])
            moved = {places[1]: 1 << 60, places[2]: 0, ("unknown", 0): 7}
            tx.groups.put("s", [slot(*each).position for each in moved.items()], FIRST_AT + 9)
            tx.groups.put("s", [], FIRST_AT + 99)

        with store.read() as tx:
            assert set(tx.subscriptions.list_slots("s")) == {
                slot(SOURCE, owner="x", failed=2),
                slot(places[1], offset=1 << 60, committed_at=FIRST_AT + 9),
                slot(places[2], offset=0, committed_at=FIRST_AT + 9),
            }
            assert set(tx.subscriptions.list_slots("other")) == set(map(slot, places))

    def test_sessions_are_listed_by_id_as_given(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        begun(store, "other", SOURCE)
        wants = frozenset([SOURCE, (AWKWARD, 17)])
        with store.write() as tx:
            seen_at = tx.subscriptions.see_hub("hub")
            given = [
                session("b", seen_at, wants=wants, secret=bytes(range(256)), extensions=3, batch_limit=1 << 30),
                session("B", 0, hub_id="unknown"),
                session("a", seen_at),
            ]
            for each in given:
                tx.subscriptions.put_session(each)
            tx.subscriptions.put_session(session("c", seen_at, subscription="other"))

        assert sessions(store) == [given[1], given[2], given[0]]
        with store.read() as tx:
            assert {each.id for each in tx.subscriptions.list_sessions(hub_id="hub")} == {"a", "b", "c"}
        assert [type(each.secret) for each in sessions(store)] == [bytes] * 3

    def test_sessions_are_changed_and_deleted_one_by_one(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        with store.write() as tx:
            own, seen_at = tx.subscriptions, tx.subscriptions.see_hub("hub")
            for name in "abcd":
                own.put_session(session(name, seen_at))
            own.put_session(session("a", seen_at, holds_until=1 << 60))
            own.put_session(session("b", seen_at, extensions=2))
            own.delete_sessions(["c", "unknown"])
            own.delete_sessions([])

        a, b, d = (session(name, seen_at) for name in "abd")
        assert sessions(store) == [a._replace(holds_until=1 << 60), b._replace(extensions=2), d]
        with store.read() as tx:
            assert {each.id for each in tx.subscriptions.list_sessions(hub_id="hub")} == {"b", "d"}

    def test_count_of_sessions_includes_those_of_living_hubs_that_have_not_ended(
        self, store: Store, database: Database
    ) -> None:
        begun(store, "s", SOURCE)
        with store.write() as tx:
            own, now = tx.subscriptions, tx.subscriptions.see_hub("hub")
            own.see_hub("dead hub")
            for each in ("a", "b", "c"):
                own.put_session(session(each, 0, hub_id="hub"))
            own.put_session(session("c", 0, hub_id="hub", holds_until=1 << 60))
            own.put_session(session("d", 0, hub_id="dead hub"))
            own.put_session(session("e", 0, hub_id="unknown hub"))
        database.run("UPDATE penstock_hub SET seen_at = ? WHERE id = 'dead hub'", now - 2 * LEASE_US)

        with store.read() as tx:
            assert tx.subscriptions.count_sessions(LEASE_US) == 2

    def test_hub_is_seen_by_the_database_clock_and_never_earlier_than_before(
        self, store: Store, database: Database
    ) -> None:
        begun(store, "s", SOURCE)
        with store.write() as tx:
            before, first, after_it = tx.now(), tx.subscriptions.see_hub("hub"), tx.now()
            tx.subscriptions.put_session(session("a", first))
        assert FIRST_AT < before <= first <= after_it

        with store.write() as tx:
            second = tx.subscriptions.see_hub("hub")
        assert [each.seen_at for each in sessions(store)] == [second]
        assert second >= first

        database.run("UPDATE penstock_hub SET seen_at = ?", 1 << 60)
        with store.write() as tx:
            assert tx.subscriptions.see_hub("hub") == 1 << 60
            assert tx.now() < 1 << 60

    def test_sweep_forgets_old_hubs_without_sessions(self, store: Store, database: Database) -> None:
        begun(store, "s", SOURCE)
        with store.write() as tx:
            for name in ("streaming", "idle", "new"):
                tx.subscriptions.see_hub(name)
            tx.subscriptions.put_session(session("a", 0, hub_id="streaming"))
        database.run("UPDATE penstock_hub SET seen_at = 7 WHERE id <> 'new'")

        for before, left in ((7, ["idle", "new", "streaming"]), (8, ["new", "streaming"])):
            with store.write() as tx:
                tx.subscriptions.sweep(before)
            assert sorted(name for (name,) in database.run("SELECT id FROM penstock_hub")) == left

    @pytest.mark.parametrize(
        ("seen_ago", "holds_for", "is_abandoned"),
        [(0, None, False), (LEASE_US // 2, None, False), (LEASE_US + 1, None, True), (None, None, True),
         (0, -1, True), (0, LEASE_US, False), (LEASE_US + 1, LEASE_US, False), (None, LEASE_US, False)],
        ids=["it streams", "it was seen", "its hub is gone", "nobody knows its hub", "its time is over",
             "it may commit", "it may commit, though its hub is gone", "it may commit, though nobody knows its hub"],
    )  # fmt: skip
    def test_subscription_is_abandoned_once_the_time_of_one_of_its_sessions_is_over(
        self, store: Store, database: Database, seen_ago: int | None, holds_for: int | None, *, is_abandoned: bool
    ) -> None:
        for name in ("s", "other", "idle"):
            begun(store, name, SOURCE)
        with store.write() as tx:
            own, now = tx.subscriptions, tx.subscriptions.see_hub("other hub")
            own.put_session(session("b", 0, subscription="other", hub_id="other hub"))
            own.put_session(session("a too", 0, hub_id="other hub"))
            own.put_session(session("a", 0, holds_until=None if holds_for is None else now + holds_for))
            if seen_ago is not None:
                own.see_hub("hub")
        if seen_ago is not None:
            database.run("UPDATE penstock_hub SET seen_at = ? WHERE id = 'hub'", now - seen_ago)

        with store.read() as tx:
            wanted = ["s"] if is_abandoned else []
            assert tx.subscriptions.list_abandoned(["s", "other", "idle", "unknown"], lease_us=LEASE_US) == wanted
            assert tx.subscriptions.list_abandoned(["other"], lease_us=LEASE_US) == []
            assert tx.subscriptions.list_abandoned([], lease_us=LEASE_US) == []


def subscription(name: str, *, at: int = FIRST_AT, **members: Any) -> StoredSubscription:
    """Return a subscription that has not begun."""
    definition = {"owning_application": "shop", "event_types": ["order.placed"], "consumer_group": name}
    return StoredSubscription(name, definition | members, at, at, 0, None)


def slot(place: FeedPartition, offset: int = 5, **others: Any) -> StoredSlot:
    """Return a partition that nobody has."""
    return StoredSlot(place, None, None, None, 0, 0, 1, offset, FIRST_AT)._replace(**others)


def session(name: str, seen_at: int, *, hub_id: str = "hub", **others: Any) -> StoredSession:
    found = StoredSession(name, "s", hub_id, frozenset(), 10, 60_000, b"\x00secret", FIRST_AT, 0, None, seen_at)
    return found._replace(**others)


def inserted(
    store: Store, given: StoredSubscription, event_type_ids: Sequence[int], identity: str | None = None
) -> bool:
    """Create a subscription in a transaction of its own; tell whether it was."""
    with store.write() as tx:
        return tx.subscriptions.insert(given, identity or f"like {given.id}", event_type_ids)


def begun(store: Store, name: str, *places: FeedPartition, given: Sequence[StoredSlot] = ()) -> None:
    """Create a subscription that reads nothing, and begin it."""
    with store.write() as tx:
        assert tx.subscriptions.insert(subscription(name), f"like {name}", [])
        slots = given or list(map(slot, places))
        tx.groups.put(name, [each.position for each in slots], FIRST_AT)
        tx.subscriptions.put_slots(name, slots)


def sessions(store: Store) -> Sequence[StoredSession]:
    with store.read() as tx:
        return tx.subscriptions.list_sessions("s")


def listed(store: Store, search: SubscriptionSearch = ALL, *, limit: int = 99, offset: int = 0) -> list[str]:
    with store.read() as tx:
        return [each.id for each in tx.subscriptions.list(search, limit=limit, offset=offset)]


def after(store: Store, search: SubscriptionSearch = ALL, *, id: str = "", limit: int = 99) -> list[str]:
    with store.read() as tx:
        return [each.id for each in tx.subscriptions.list(search, after=id, limit=limit)]
