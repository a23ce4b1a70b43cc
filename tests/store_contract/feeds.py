"""The contract of event types and their partitions: `penstock.storage.registry.RegistryRepository`."""

from typing import Any

import pytest

from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import EventTypeExists
from penstock.storage import Store
from penstock.storage.groups import Position
from penstock.storage.subscriptions import StoredSlot
from tests.store_contract.database import FIRST_AT, Contract, append, created, data_of, event_type, row
from tests.store_contract.subscriptions import SOURCE, inserted, subscription


class FeedsContract(Contract):
    """Event types come, go and come again; nothing of them is ever mistaken for another."""

    def test_an_unknown_name_finds_nothing(self, store: Store) -> None:
        with store.read() as tx:
            assert tx.registry.find("order.placed") is None
            assert list(tx.registry.list()) == []

    def test_an_event_type_is_found_as_it_was_given(self, store: Store) -> None:
        given = event_type(
            "order.placed", 3, category="Business", owner="Käthe \\ \"\t'", beyond={"us": [1, None, 2.5]}
        )

        with store.write() as tx:
            tx.registry.insert(given, FIRST_AT)

        with store.read() as tx:
            feed = tx.registry.find("order.placed")
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
            names = [feed.name for feed in tx.registry.list()]
        assert names == sorted(names) == ["B", "a", "a-z", "a.z", "b"]

    def test_a_name_is_taken_once(self, store: Store) -> None:
        first = created(store)

        with pytest.raises(EventTypeExists), store.write() as tx:
            tx.registry.insert(event_type(), FIRST_AT)

        with store.read() as tx:
            assert tx.registry.find("order.placed") == first

    def test_an_undone_creation_leaves_nothing(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError), store.write() as tx:
            tx.registry.insert(event_type(), FIRST_AT)
            raise ZeroDivisionError

        with store.read() as tx:
            assert tx.registry.find("order.placed") is None

    def test_a_locked_feed_is_the_one_that_is_found(self, store: Store) -> None:
        feed = created(store)

        with store.write() as tx:
            assert tx.registry.find("order.placed", lock=True) == feed
            assert tx.registry.find("unknown", lock=True) is None

    def test_a_changed_event_type_is_found_as_it_was_given(self, store: Store) -> None:
        feed, other = created(store, partitions=2), created(store, "other")
        given = event_type("order.placed", 2, owner="Käthe \\ \"\t'", beyond={"us": [1, None, 2.5]})

        changed = self._update(store, "order.placed", given.definition, 2, FIRST_AT + 7)

        assert changed.event_type == given != feed.event_type
        assert (changed.id, changed.epoch, changed.partition_ids) == (feed.id, feed.epoch, feed.partition_ids)
        assert (changed.created_at, changed.updated_at) == (FIRST_AT, FIRST_AT + 7)
        with store.read() as tx:
            assert tx.registry.list() == [changed, other]

    def test_every_change_raises_the_revision_that_heads_tell(self, store: Store) -> None:
        feed, other = created(store), created(store, "other")

        revisions = [self._update(store, "order.placed", feed.event_type.definition, n).revision for n in (1, 3, 3)]

        assert revisions == [feed.revision + 1, feed.revision + 2, feed.revision + 3]
        with store.read() as tx:
            changed = tx.registry.find("order.placed")
            assert changed is not None
            heads = tx.log.find_heads([*changed.partition_ids, *other.partition_ids])
        assert [heads[each].revision for each in changed.partition_ids] == [revisions[-1]] * 3
        assert heads[other.partition_ids[0]].revision == other.revision

    def test_added_partitions_are_empty_and_the_others_keep_numbers_and_events(self, store: Store) -> None:
        feed = created(store, partitions=2)
        created(store, "between")  # So the store's numbers do not go on where the feed's own end.
        append(store, row(feed.partition_ids[0], 0, b'{"n":0}'), row(feed.partition_ids[1], 0, b'{"n":1}'))

        grown = self._update(store, "order.placed", feed.event_type.definition, 12)

        assert (grown.partition_count, len(set(grown.partition_ids))) == (12, 12)
        assert grown.partition_ids[:2] == feed.partition_ids
        append(store, row(grown.partition_ids[0], 1, b'{"n":2}'), row(grown.partition_ids[11], 0, b'{"n":3}'))
        with store.read() as tx:
            found = [data_of(tx.log.read_columns(each, 0, 9)) for each in grown.partition_ids]
            heads = tx.log.find_heads(grown.partition_ids)
        assert found == [[b'{"n":0}', b'{"n":2}'], [b'{"n":1}'], *([[]] * 9), [b'{"n":3}']]
        assert [heads[each].next_offset for each in grown.partition_ids] == [2, 1, *([0] * 9), 1]

    def test_an_undone_change_changes_nothing(self, store: Store) -> None:
        feed = created(store)

        with pytest.raises(ZeroDivisionError), store.write() as tx:
            tx.registry.update(feed, event_type("order.placed", 3, owner="them"), FIRST_AT + 7)
            raise ZeroDivisionError

        with store.read() as tx:
            assert tx.registry.list() == [feed]

    def test_raised_epochs_are_new_for_feeds_that_are_and_that_were_and_that_will_be(self, store: Store) -> None:
        kept, dropped = created(store, "kept"), created(store, "dropped")
        with store.write() as tx:
            assert tx.registry.delete("dropped")

        with store.write() as tx:
            assert tx.registry.raise_epochs() == 1

        with store.read() as tx:
            raised = tx.registry.find("kept")
        assert raised is not None
        assert raised.epoch > kept.epoch
        assert raised.revision > kept.revision
        assert raised.partition_ids == kept.partition_ids
        assert created(store, "dropped").epoch > dropped.epoch
        assert created(store, "new").epoch > 1, "one of that name may have come after the backup"

    def test_a_dropped_event_type_is_gone_with_its_heads(self, store: Store) -> None:
        feed, kept = created(store), created(store, "kept")
        append(store, row(feed.partition_ids[0], 0), row(kept.partition_ids[0], 0))

        with store.write() as tx:
            assert tx.registry.delete("order.placed")

        with store.read() as tx:
            assert tx.registry.find("order.placed") is None
            assert tx.log.find_heads([feed.partition_ids[0], kept.partition_ids[0]]).keys() == {kept.partition_ids[0]}
        with store.write() as tx:
            assert not tx.registry.delete("order.placed")

    def test_a_feed_created_again_is_another(self, store: Store) -> None:
        seen: set[int] = set()
        for epoch in (1, 2, 3):
            feed = created(store, partitions=2)
            append(store, row(feed.partition_ids[1], 0))

            assert feed.epoch == epoch
            assert not seen & set(feed.partition_ids)
            with store.read() as tx:
                assert [head.next_offset for head in tx.log.find_heads(feed.partition_ids).values()] in ([0, 1], [1, 0])
            seen |= set(feed.partition_ids)
            with store.write() as tx:
                tx.registry.delete("order.placed")

    def test_a_partition_number_is_not_used_again_after_a_purge(self, store: Store) -> None:
        first = created(store)
        with store.write() as tx:
            tx.registry.delete("order.placed")
        while self._purge(store, 10):
            pass

        assert not set(created(store).partition_ids) & set(first.partition_ids)

    def test_a_purge_removes_what_was_dropped_little_by_little_and_nothing_else(self, store: Store) -> None:
        kept, dropped = created(store, "kept"), created(store, partitions=2)
        append(store, *(row(kept.partition_ids[0], offset) for offset in range(5)))
        for partition_id in dropped.partition_ids:
            append(store, *(row(partition_id, offset) for offset in range(25)))
        with store.write() as tx:
            tx.registry.delete("order.placed")

        removed = []
        while rows := self._purge(store, 10):
            removed.append(rows)
            assert len(removed) < 100

        assert sum(removed) >= 50
        assert max(removed) <= 11  # A partition that is forgotten counts as one.
        with store.read() as tx:
            assert tx.log.read_columns(kept.partition_ids[0], 0, 100).rows == 5
            assert [tx.log.read_columns(each, 0, 100).rows for each in dropped.partition_ids] == [0, 0]

    def test_a_purge_with_nothing_to_do_removes_nothing(self, store: Store) -> None:
        feed = created(store)
        append(store, row(feed.partition_ids[0], 0))

        assert self._purge(store, 10) == 0

    @staticmethod
    def _update(store: Store, name: str, definition: dict[str, Any], partitions: int, at: int = FIRST_AT) -> StoredFeed:
        with store.write() as tx:
            feed = tx.registry.find(name, lock=True)
            assert feed is not None
            tx.registry.update(feed, EventType.of(definition, partitions), at)
            changed = tx.registry.find(name)
        assert changed is not None
        return changed

    @staticmethod
    def _purge(store: Store, rows: int) -> int:
        with store.write() as tx:
            return tx.registry.sweep(rows)

    def test_a_subscription_stays_where_it_is_when_a_backup_was_put_back(self, store: Store) -> None:
        feed = created(store)
        inserted(store, subscription("s"), [feed.id])
        with store.write() as tx:
            slot = StoredSlot(SOURCE, None, None, None, 0, 0, feed.epoch, 7, 0)
            tx.groups.put("s", [slot.position], FIRST_AT)
            tx.subscriptions.put_slots("s", [slot])
            tx.groups.lock("set", kind="cursorset", at=FIRST_AT)
            tx.groups.put("set", [Position("order.placed", "1/0", 0, feed.epoch, 7)], FIRST_AT)

        with store.write() as tx:
            tx.registry.raise_epochs()

        with store.read() as tx:
            now = tx.registry.find("order.placed")
            assert now is not None
            assert now.epoch > feed.epoch
            assert [(slot.epoch, slot.offset) for slot in tx.subscriptions.list_slots("s")] == [(now.epoch, 7)]
            assert tx.groups.find_positions("set", "order.placed", "1/0")[0].epoch == feed.epoch
