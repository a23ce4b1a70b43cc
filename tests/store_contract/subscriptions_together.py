"""The contract of subscriptions where several transactions write at once: a lock has one holder."""

import pytest

from penstock.storage import Store
from penstock.storage.groups import GroupFilter
from penstock.storage.subscriptions import StoredSubscription
from tests.store_contract.database import FIRST_AT, PATIENCE_SECONDS, Blocked, Contract, created
from tests.store_contract.subscriptions import SOURCE, begun, inserted, slot, subscription


class SubscriptionsTogether(Contract):
    """An identity has one subscription, and only the holder of its lock changes it."""

    @pytest.mark.parametrize("wins", [True, False], ids=["the first wins", "the first is undone"])
    def test_one_of_two_concurrent_inserts_of_an_identity_wins(
        self, store: Store, other: Store, blocked: Blocked, *, wins: bool
    ) -> None:
        feed = created(store)

        try:
            with store.write() as tx:
                assert tx.subscriptions.insert(subscription("first"), "alike", [feed.id])
                inserting = blocked(inserted, other, subscription("second"), [feed.id], "alike")
                if not wins:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert inserting.result(PATIENCE_SECONDS) is not wins

        with store.read() as tx:
            assert tx.subscriptions.list_readers("order.placed") == ["first" if wins else "second"]
            lost = "second" if wins else "first"
            assert [tx.subscriptions.find(lost), tx.groups.list(GroupFilter(name=lost), 1)] == [None, []]

    def test_losing_insert_finds_the_winning_one_in_its_transaction(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        def insert() -> StoredSubscription | None:
            with other.write() as tx:
                assert not tx.subscriptions.insert(subscription("second"), "alike", [])
                return tx.subscriptions.find(identity="alike")

        with store.write() as tx:
            tx.subscriptions.insert(subscription("first"), "alike", [])
            inserting = blocked(insert)
        assert inserting.result(PATIENCE_SECONDS) == subscription("first")

    def test_lock_waits_for_the_holder_and_finds_what_it_has_stored(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        begun(store, "s", SOURCE)

        def lock() -> tuple[StoredSubscription | None, int]:
            with other.write() as tx:
                return tx.subscriptions.find("s", lock=True), tx.subscriptions.list_slots("s")[0].offset

        with store.write() as tx:
            tx.subscriptions.find("s", lock=True)
            locking = blocked(lock)
            tx.subscriptions.revise("s")
            tx.groups.put("s", [slot(SOURCE, offset=9).position], FIRST_AT)
            assert not locking.done()
        assert locking.result(PATIENCE_SECONDS) == (subscription("s")._replace(revision=1), 9)

    def test_lock_of_a_subscription_that_is_deleted_meanwhile_finds_none(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        begun(store, "s", SOURCE)

        def lock() -> StoredSubscription | None:
            with other.write() as tx:
                return tx.subscriptions.find("s", lock=True)

        with store.write() as tx:
            tx.subscriptions.find("s", lock=True)
            locking = blocked(lock)
            tx.groups.delete("s")
        assert locking.result(PATIENCE_SECONDS) is None

    def test_lock_delays_neither_reads_nor_other_subscriptions(self, store: Store, other: Store) -> None:
        for name in ("s", "other"):
            begun(store, name, SOURCE)

        with store.write() as tx:
            tx.subscriptions.find("s", lock=True)
            tx.subscriptions.revise("s")
            with other.write() as its:
                assert its.subscriptions.find("other", lock=True) == subscription("other")
                assert its.subscriptions.revise("other") == 1
                assert its.subscriptions.find("s") == subscription("s")
                assert its.subscriptions.find_revisions(["s"]) == {"s": 0}
                assert its.subscriptions.list_slots("s") == [slot(SOURCE)]
                its.subscriptions.see_hub("hub")

    def test_key_being_parked_survives_an_acknowledgement_in_another_subscription(
        self, store: Store, other: Store
    ) -> None:
        """What is parked has no event for a moment, while somebody else forgets keys that have none."""
        for name in ("s", "other"):
            begun(store, name, SOURCE)
        with other.write() as its:
            its.subscriptions.park("other", SOURCE, "key", 3, attempts=2, at=FIRST_AT)
            [parked] = its.subscriptions.list_parked("other")

        with store.write() as tx:
            tx.subscriptions.find("s", lock=True)
            tx.subscriptions.park("s", SOURCE, "key", 3, attempts=2, at=FIRST_AT)
            with other.write() as its:
                its.subscriptions.find("other", lock=True)
                its.subscriptions.acknowledge_parked({parked.id: 3})

        with store.read() as tx:
            assert [each.events for each in tx.subscriptions.list_parked("s")] == [1]
            assert tx.subscriptions.list_parked("other") == []

    def test_event_type_of_a_subscription_being_created_is_not_deleted(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        feed = created(store)

        def drop() -> None:
            with other.write() as tx:
                tx.registry.delete("order.placed")

        with store.write() as tx:
            tx.subscriptions.insert(subscription("s"), "like s", [feed.id])
            dropping = blocked(drop)
        with pytest.raises(Exception, match="foreign key"):
            dropping.result(PATIENCE_SECONDS)

        with store.read() as tx:
            assert tx.subscriptions.list_readers("order.placed") == ["s"]
