"""The contract of event types and their partitions: `penstock.storage.store.Feeds`."""

import pytest

from penstock.errors import EventTypeExists
from penstock.storage import Store
from penstock.testing.store_contract.database import FIRST_AT, Contract, append, created, event_type, row


class FeedsContract(Contract):
    """Event types come, go and come again; nothing of them is ever mistaken for another."""

    def test_an_unknown_name_finds_nothing(self, store: Store) -> None:
        with store.read() as tx:
            assert tx.feeds.find("order.placed") is None
            assert list(tx.feeds.list()) == []

    def test_an_event_type_is_found_as_it_was_given(self, store: Store) -> None:
        given = event_type(
            "order.placed", 3, category="Business", owner="Käthe \\ \"\t'", beyond={"us": [1, None, 2.5]}
        )

        with store.write() as tx:
            tx.feeds.insert(given, FIRST_AT)

        with store.read() as tx:
            feed = tx.feeds.find("order.placed")
        assert feed is not None
        assert feed.event_type == given
        assert (feed.epoch, feed.partition_count) == (1, 3)
        assert (feed.created_at, feed.updated_at) == (FIRST_AT, FIRST_AT)

    def test_partitions_are_in_their_order_beyond_ten(self, store: Store) -> None:
        feed = created(store, partitions=256)

        assert list(feed.partition_ids) == sorted(set(feed.partition_ids))
        assert feed.partition_count == 256

    def test_event_types_are_listed_by_name(self, store: Store) -> None:
        for name in ("b", "a.z", "B", "a-z", "a"):
            created(store, name)

        with store.read() as tx:
            names = [feed.name for feed in tx.feeds.list()]
        assert names == sorted(names) == ["B", "a", "a-z", "a.z", "b"]

    def test_a_name_is_taken_once(self, store: Store) -> None:
        first = created(store)

        with pytest.raises(EventTypeExists), store.write() as tx:
            tx.feeds.insert(event_type(), FIRST_AT)

        with store.read() as tx:
            assert tx.feeds.find("order.placed") == first

    def test_an_undone_creation_leaves_nothing(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError), store.write() as tx:
            tx.feeds.insert(event_type(), FIRST_AT)
            raise ZeroDivisionError

        with store.read() as tx:
            assert tx.feeds.find("order.placed") is None

    def test_a_dropped_event_type_is_gone_with_its_heads(self, store: Store) -> None:
        feed, kept = created(store), created(store, "kept")
        append(store, row(feed.partition_ids[0], 0), row(kept.partition_ids[0], 0))

        with store.write() as tx:
            assert tx.feeds.delete("order.placed")

        with store.read() as tx:
            assert tx.feeds.find("order.placed") is None
            assert tx.events.heads([feed.partition_ids[0], kept.partition_ids[0]]).keys() == {kept.partition_ids[0]}
        with store.write() as tx:
            assert not tx.feeds.delete("order.placed")

    def test_a_feed_created_again_is_another(self, store: Store) -> None:
        seen: set[int] = set()
        for epoch in (1, 2, 3):
            feed = created(store, partitions=2)
            append(store, row(feed.partition_ids[1], 0))

            assert feed.epoch == epoch
            assert not seen & set(feed.partition_ids)
            with store.read() as tx:
                assert [head.next_offset for head in tx.events.heads(feed.partition_ids).values()] in ([0, 1], [1, 0])
            seen |= set(feed.partition_ids)
            with store.write() as tx:
                tx.feeds.delete("order.placed")

    def test_a_partition_number_is_not_used_again_after_a_purge(self, store: Store) -> None:
        first = created(store)
        with store.write() as tx:
            tx.feeds.delete("order.placed")
        while self._purge(store, 10):
            pass

        assert not set(created(store).partition_ids) & set(first.partition_ids)

    def test_a_purge_removes_what_was_dropped_little_by_little_and_nothing_else(self, store: Store) -> None:
        kept, dropped = created(store, "kept"), created(store, partitions=2)
        append(store, *(row(kept.partition_ids[0], offset) for offset in range(5)))
        for partition_id in dropped.partition_ids:
            append(store, *(row(partition_id, offset) for offset in range(25)))
        with store.write() as tx:
            tx.feeds.delete("order.placed")

        removed = []
        while rows := self._purge(store, 10):
            removed.append(rows)
            assert len(removed) < 100

        assert sum(removed) >= 50
        assert max(removed) <= 11  # A partition that is forgotten counts as one.
        with store.read() as tx:
            assert tx.events.columns(kept.partition_ids[0], 0, 100).rows == 5
            assert [tx.events.columns(each, 0, 100).rows for each in dropped.partition_ids] == [0, 0]

    def test_a_purge_with_nothing_to_do_removes_nothing(self, store: Store) -> None:
        feed = created(store)
        append(store, row(feed.partition_ids[0], 0))

        assert self._purge(store, 10) == 0

    @staticmethod
    def _purge(store: Store, rows: int) -> int:
        with store.write() as tx:
            return tx.feeds.purge(rows)
