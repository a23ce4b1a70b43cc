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
    """A subscription is what was last said of it, and goes with all that is known of it."""

    def test_of_one_that_nobody_has_made_nothing_is_known(self, store: Store) -> None:
        with store.write() as tx:
            own = tx.subscriptions
            assert [own.find("s"), own.find(identity="s"), own.find("s", lock=True)] == [None, None, None]
            assert [own.list_slots("s"), own.list_sessions("s"), own.list_readers("order.placed")] == [[], [], []]
            assert own.list_sessions(hub_id="hub") == []
            assert own.find_revisions(["s"]) == own.find_revisions([]) == {}
            tx.groups.delete("s")

    def test_one_is_found_as_it_was_given(self, store: Store) -> None:
        feeds = [created(store, name) for name in ("order.placed", "invoice")]
        given = subscription(AWKWARD, owning_application=AWKWARD, annotations={AWKWARD: AWKWARD}, more=[1.5, None])

        assert inserted(store, given, [feed.id for feed in feeds])

        with store.write() as tx:
            assert tx.subscriptions.find(AWKWARD) == tx.subscriptions.find(AWKWARD, lock=True) == given
            assert tx.subscriptions.find(identity=f"like {AWKWARD}") == given
            assert (
                tx.subscriptions.list_readers("order.placed") == tx.subscriptions.list_readers("invoice") == [AWKWARD]
            )
            [found] = tx.groups.list(GroupFilter(name=AWKWARD), 9)
        assert found.kind == "subscription"

    def test_an_identity_is_taken_once(self, store: Store) -> None:
        feed = created(store)
        assert inserted(store, subscription("first"), [feed.id], "alike")

        assert not inserted(store, subscription("second", consumer_group="x"), [feed.id], "alike")

        with store.read() as tx:
            assert tx.subscriptions.find(identity="alike") == subscription("first")
            assert tx.subscriptions.list_readers("order.placed") == ["first"]
            assert [tx.subscriptions.find("second"), tx.groups.list(GroupFilter(name="second"), 1)] == [None, []]

    def test_readers_are_sorted_by_code_points(self, store: Store) -> None:
        feed, other = created(store), created(store, "invoice")
        names = ["a", "B", "é", "\uffee", "\U0001f6b0", "10", "9"]
        for name in names:
            inserted(store, subscription(name), [feed.id])
        inserted(store, subscription("other"), [other.id])

        with store.read() as tx:
            assert tx.subscriptions.list_readers("order.placed") == sorted(names)
            assert tx.subscriptions.list_readers("nothing") == []

    def test_what_it_is_can_change(self, store: Store) -> None:
        feed = created(store)
        for name in ("s", "kept"):
            inserted(store, subscription(name), [feed.id])
        definition = subscription("s", labels={"a": AWKWARD}).definition

        with store.write() as tx:
            tx.subscriptions.update(subscription("s")._replace(definition=definition, updated_at=FIRST_AT + 9))

        with store.read() as tx:
            assert tx.subscriptions.find("s") == StoredSubscription("s", definition, FIRST_AT, FIRST_AT + 9, 0, None)
            assert tx.subscriptions.find("kept") == subscription("kept")

    def test_its_revision_moves_by_itself(self, store: Store) -> None:
        feed = created(store)
        for name in ("s", "kept"):
            inserted(store, subscription(name), [feed.id])

        with store.write() as tx:
            assert [tx.subscriptions.revise("s") for _ in range(3)] == [1, 2, 3]

        with store.read() as tx:
            assert tx.subscriptions.find_revisions(["kept", "s", "nobody"]) == {"kept": 0, "s": 3}
            found = tx.subscriptions.find("s")
        assert found is not None
        assert found.revision == 3

    def test_its_streams_make_way_until_they_need_no_longer(self, store: Store) -> None:
        inserted(store, subscription("s"), [created(store).id])

        for until in (1 << 60, None):
            with store.write() as tx:
                tx.subscriptions.update(subscription("s")._replace(resetting_until=until))
                found = tx.subscriptions.find("s")
            assert found is not None
            assert found.resetting_until == until

    def test_an_event_type_does_not_go_while_it_is_read(self, store: Store) -> None:
        feed, other = created(store), created(store, "invoice")
        inserted(store, subscription("s"), [feed.id, other.id])

        with pytest.raises(Exception, match=r"(?i)foreign key"), store.write() as tx:
            tx.registry.delete("invoice")

        with store.write() as tx:
            assert tx.registry.find("invoice") == other
            tx.groups.delete("s")
            assert tx.registry.delete("invoice")

    def test_one_goes_with_all_that_is_known_of_it(self, store: Store, database: Database) -> None:
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

    def test_an_undone_one_is_not_there(self, store: Store) -> None:
        feed = created(store)

        with pytest.raises(ZeroDivisionError), store.write() as tx:
            assert tx.subscriptions.insert(subscription("s"), "like s", [feed.id])
            raise ZeroDivisionError

        with store.read() as tx:
            assert [tx.subscriptions.find("s"), tx.groups.list(GroupFilter(name="s"), 1)] == [None, []]

    # Lists

    def test_the_newest_are_listed_first_page_by_page(self, store: Store) -> None:
        feed = created(store)
        for name, at in {"b": 1, "c": 2, "a": 2, "d": 0}.items():
            inserted(store, subscription(name, at=FIRST_AT + at), [feed.id])

        assert listed(store) == ["c", "a", "b", "d"]
        assert listed(store, limit=2) == ["c", "a"]
        assert listed(store, limit=2, offset=3) == ["d"]
        assert listed(store, offset=4) == []

    def test_they_are_listed_by_id_page_by_page(self, store: Store) -> None:
        feed = created(store)
        for name in ("b", "c", "a"):
            inserted(store, subscription(name), [feed.id])

        assert after(store) == ["a", "b", "c"]
        assert after(store, limit=2) == ["a", "b"]
        assert after(store, id="b") == ["c"]
        assert after(store, id="c") == []

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
    def test_those_are_found_that_are_all_that_is_looked_for(
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
    """Where a subscription stands, and who streams it."""

    def test_partitions_are_found_in_their_order_with_their_positions(self, store: Store) -> None:
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

    def test_what_is_put_leaves_positions_alone(self, store: Store) -> None:
        begun(store, "s", SOURCE, ("order.placed", 1))
        begun(store, "other", SOURCE)

        with store.write() as tx:
            tx.subscriptions.put_slots("s", [slot(SOURCE, owner="x", failed=2, offset=99, epoch=99)])
            tx.subscriptions.put_slots("s", [])

        with store.read() as tx:
            assert tx.subscriptions.list_slots("s") == [slot(SOURCE, owner="x", failed=2), slot(("order.placed", 1))]
            assert tx.subscriptions.list_slots("other") == [slot(SOURCE)]

    def test_what_is_moved_leaves_owners_alone(self, store: Store) -> None:
        places = [SOURCE, ("order.placed", 1), (AWKWARD, 0)]
        begun(store, "s", given=[slot(each, owner="x") for each in places])
        begun(store, "other", *places)

        with store.write() as tx:
            moved = {SOURCE: 1 << 60, (AWKWARD, 0): 0, ("unknown", 0): 7}
            tx.groups.put("s", [slot(*each).position for each in moved.items()], FIRST_AT + 9)
            tx.groups.put("s", [], FIRST_AT + 99)

        with store.read() as tx:
            assert set(tx.subscriptions.list_slots("s")) == {
                slot(SOURCE, owner="x", offset=1 << 60, committed_at=FIRST_AT + 9),
                slot(("order.placed", 1), owner="x"),
                slot((AWKWARD, 0), owner="x", offset=0, committed_at=FIRST_AT + 9),
            }
            assert set(tx.subscriptions.list_slots("other")) == set(map(slot, places))

    def test_streams_are_found_sorted_as_they_were_opened(self, store: Store) -> None:
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

    def test_streams_end_and_are_given_time_and_are_forgotten_each_by_itself(self, store: Store) -> None:
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

    def test_counted_sessions_are_those_that_living_hubs_are_streaming(self, store: Store, database: Database) -> None:
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

    def test_a_hub_is_seen_when_it_says_so_and_time_does_not_go_back(self, store: Store, database: Database) -> None:
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

    def test_hubs_are_forgotten_of_which_nothing_is_known(self, store: Store, database: Database) -> None:
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
    def test_those_are_abandoned_that_have_a_stream_which_is_over(
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
            assert tx.subscriptions.list_abandoned(["s", "other", "idle", "unknown"], lease=LEASE_US) == wanted
            assert tx.subscriptions.list_abandoned(["other"], lease=LEASE_US) == []
            assert tx.subscriptions.list_abandoned([], lease=LEASE_US) == []


def subscription(name: str, *, at: int = FIRST_AT, **members: Any) -> StoredSubscription:
    """Return a subscription that has not begun."""
    definition = {"owning_application": "shop", "event_types": ["order.placed"], "consumer_group": name}
    return StoredSubscription(name, definition | members, at, at, 0, None)


def slot(place: FeedPartition, offset: int = 5, **others: Any) -> StoredSlot:
    """Return a partition that nobody has."""
    return StoredSlot(place, None, None, None, 0, 0, 1, offset, FIRST_AT)._replace(**others)


def session(name: str, seen_at: int, *, hub_id: str = "hub", **others: Any) -> StoredSession:
    """Return a stream."""
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
    """Return the streams of the subscription "s"."""
    with store.read() as tx:
        return tx.subscriptions.list_sessions("s")


def listed(store: Store, search: SubscriptionSearch = ALL, *, limit: int = 99, offset: int = 0) -> list[str]:
    """Return the ids of the newest."""
    with store.read() as tx:
        return [each.id for each in tx.subscriptions.list(search, limit=limit, offset=offset)]


def after(store: Store, search: SubscriptionSearch = ALL, *, id: str = "", limit: int = 99) -> list[str]:
    """Return ids in their order."""
    with store.read() as tx:
        return [each.id for each in tx.subscriptions.list(search, after=id, limit=limit)]
