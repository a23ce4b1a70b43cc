"""The contract of event types and their partitions: `penstock.storage.registry.RegistryRepository`."""

from typing import Any

import pytest

from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import EventTypeExists
from penstock.storage import Store
from penstock.storage.groups import Position
from penstock.storage.subscriptions import StoredSlot
from tests.store_contract.database import FIRST_AT, Contract, append, created, data_of, event_type, purge, row
from tests.store_contract.subscriptions import SOURCE, inserted, subscription


class FeedsContract(Contract):
    """Event types are created, changed and deleted, and none is mistaken for a later one of its name."""

    def test_event_types_are_found_as_given_and_listed_by_name(self, store: Store) -> None:
        given = event_type("a.z", 256, category="Business", owner="Käthe \\ \"\t'", beyond={"us": [1, None, 2.5]})
        with store.write() as tx:
            assert [tx.registry.find("a.z"), list(tx.registry.list())] == [None, []]
            tx.registry.insert(given, FIRST_AT)
        others = [created(store, name) for name in ("b", "B", "a-z", "a")]

        with store.write() as tx:
            feed = tx.registry.get("a.z")
            assert tx.registry.find("a.z", lock=True) == feed
            assert tx.registry.find("unknown", lock=True) is None
            assert tx.registry.list() == sorted([feed, *others], key=lambda each: each.name)
        assert (feed.event_type, feed.epoch, feed.created_at, feed.updated_at) == (given, 1, FIRST_AT, FIRST_AT)
        assert list(feed.partition_ids) == sorted(set(feed.partition_ids))
        assert feed.partition_count == 256

    def test_taken_name_is_refused(self, store: Store) -> None:
        first = created(store)

        with pytest.raises(EventTypeExists), store.write() as tx:
            tx.registry.insert(event_type(), FIRST_AT)

        with store.read() as tx:
            assert tx.registry.list() == [first]

    def test_changed_event_type_is_found_as_given(self, store: Store) -> None:
        feed, other = created(store, partitions=2), created(store, "other")
        given = event_type("order.placed", 2, owner="Käthe \\ \"\t'", beyond={"us": [1, None, 2.5]})

        changed = self._update(store, "order.placed", given.definition, 2, FIRST_AT + 7)

        assert changed.event_type == given != feed.event_type
        assert (changed.id, changed.epoch, changed.partition_ids) == (feed.id, feed.epoch, feed.partition_ids)
        assert (changed.created_at, changed.updated_at) == (FIRST_AT, FIRST_AT + 7)
        with store.read() as tx:
            assert tx.registry.list() == [changed, other]

    def test_each_change_raises_the_revision_that_heads_have(self, store: Store) -> None:
        feed, other = created(store), created(store, "other")

        revisions = [self._update(store, "order.placed", feed.event_type.definition, n).revision for n in (1, 3, 3)]

        assert revisions == [feed.revision + 1, feed.revision + 2, feed.revision + 3]
        with store.read() as tx:
            changed = tx.registry.find("order.placed")
            assert changed is not None
            heads = tx.log.find_heads([*changed.partition_ids, *other.partition_ids])
        assert [heads[each].revision for each in changed.partition_ids] == [revisions[-1]] * 3
        assert heads[other.partition_ids[0]].revision == other.revision

    def test_added_partitions_are_empty_and_the_others_keep_their_events(self, store: Store) -> None:
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

    def test_raised_epochs_are_new_for_present_dropped_and_later_feeds(self, store: Store) -> None:
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

    def test_feed_created_again_has_other_partitions_and_another_epoch(self, store: Store) -> None:
        kept, seen = created(store, "kept"), set[int]()
        append(store, row(kept.partition_ids[0], 0))
        for epoch in (1, 2, 3):
            feed = created(store, partitions=2)
            append(store, row(feed.partition_ids[1], 0))

            assert feed.epoch == epoch
            assert not seen & set(feed.partition_ids)
            seen |= set(feed.partition_ids)
            with store.write() as tx:
                assert [tx.log.find_heads([each])[each].next_offset for each in feed.partition_ids] == [0, 1]
                assert [tx.registry.delete("order.placed") for _ in range(2)] == [True, False]
            with store.read() as tx:
                assert tx.registry.list() == [kept]
                assert tx.log.find_heads([*feed.partition_ids, *kept.partition_ids]).keys() == {*kept.partition_ids}
            while epoch == 2 and purge(store):
                pass

    def test_purge_removes_dropped_events_little_by_little_and_nothing_else(self, store: Store) -> None:
        kept, dropped = created(store, "kept"), created(store, partitions=2)
        append(store, *(row(kept.partition_ids[0], offset) for offset in range(5)))
        for partition_id in dropped.partition_ids:
            append(store, *(row(partition_id, offset) for offset in range(25)))
        assert purge(store) == 0
        with store.write() as tx:
            tx.registry.delete("order.placed")

        removed = []
        while rows := purge(store):
            removed.append(rows)
            assert len(removed) < 100

        assert sum(removed) >= 50
        assert max(removed) <= 10
        with store.read() as tx:
            assert tx.log.read_columns(kept.partition_ids[0], 0, 100).rows == 5
            assert [tx.log.read_columns(each, 0, 100).rows for each in dropped.partition_ids] == [0, 0]

    @staticmethod
    def _update(store: Store, name: str, definition: dict[str, Any], partitions: int, at: int = FIRST_AT) -> StoredFeed:
        with store.write() as tx:
            feed = tx.registry.find(name, lock=True)
            assert feed is not None
            tx.registry.update(feed, EventType.of(definition, partitions), at)
            changed = tx.registry.find(name)
        assert changed is not None
        return changed

    def test_positions_of_subscriptions_alone_follow_a_raised_epoch(self, store: Store) -> None:
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
