"""The contract of transactions, in all repositories at once: `Store.write` and `Store.read`."""

from contextlib import closing
from typing import Any

import pytest

from penstock.core.access import Caller
from penstock.core.producers import ProducerState
from penstock.core.registry.event_type import StoredFeed
from penstock.storage import Store
from penstock.storage.admin import StoredToken
from penstock.storage.batches import BatchKey, StoredChunk
from penstock.storage.groups import Position, PositionChange
from penstock.storage.producers import AppendedBatch
from penstock.storage.store import Tx
from tests.store_contract.database import FIRST_AT, Contract, Database, append, created, event_type, row
from tests.store_contract.producers import a_batch
from tests.store_contract.subscriptions import SOURCE, session, slot, subscription

TABLES = (
    "event_type", "partition", "schema", "event", "outbox", "rejected", "group", "position", "intervention", "setting",
    "token", "publisher", "producer", "produced", "upload", "chunk", "batch", "subscription", "subscription_source",
    "slot", "session", "hub", "parked", "parked_event",
)  # fmt: skip
"""The tables that `write_everywhere` changes."""


class TransactionsContract(Contract):
    """A transaction is stored whole or not at all, and others see it once it is committed."""

    def test_undone_transaction_changes_no_table_and_a_committed_one_all_of_its_own(
        self, store: Store, database: Database
    ) -> None:
        feed = created(store, partitions=2)
        append(store, row(feed.partition_ids[0], 0))
        with closing(database.connect()) as service:
            for name in ("a", "b", "b"):
                database.insert(service, name, "{}")
            service.commit()
        with store.write() as tx:
            tx.outbox.reject([(tx.outbox.take("b", 1, 99).rows[0], "why")], FIRST_AT)
        before = dump(database)

        with pytest.raises(ZeroDivisionError), store.write() as tx:
            write_everywhere(tx, feed)
            raise ZeroDivisionError
        assert dump(database) == before
        with store.read() as tx:
            assert sorted(tx.outbox.find_waiting(None)) == ["a", "b"]
            assert tx.log.find_heads(feed.partition_ids)[feed.partition_ids[0]].next_offset == 1

        with store.write() as tx:
            write_everywhere(tx, feed)
        after = dump(database)
        assert {name for name in TABLES if after[name] != before[name]} == set(TABLES)

    def test_other_process_sees_a_transaction_once_it_is_committed(self, store: Store, other: Store) -> None:
        feed = created(store, partitions=2)

        def look() -> list[Any]:
            with other.read() as tx:
                return [
                    [each.next_offset for each in tx.log.find_heads(feed.partition_ids).values()],
                    [each["version"] for each in tx.registry.list_schemas(feed, limit=9, offset=0)],
                    tx.settings.list(),
                ]

        before = look()
        with store.write() as tx:
            tx.log.find_heads(feed.partition_ids, lock=True)
            tx.log.append([row(each, 0) for each in feed.partition_ids])
            change_schema(tx, feed)
            tx.settings.put("a", "x", "1")
            assert look() == before == [[0, 0], ["1.0.0"], []]

        assert look() == [[1, 1], ["2.0.0", "1.0.0"], [("a", "x", "1")]]

    def test_read_sees_the_latest_commit_at_each_statement(self, store: Store, other: Store) -> None:
        partition_id = created(store).partition_ids[0]

        with other.read() as tx:
            seen = []
            for offset in range(3):
                append(store, row(partition_id, offset))
                seen.append(tx.log.find_heads([partition_id])[partition_id].next_offset)

        assert seen == [1, 2, 3]


def change_schema(tx: Tx, feed: StoredFeed) -> None:
    """Give an event type another version of its schema."""
    schema = {"type": "json_schema", "schema": '{"title":"x"}', "version": "2.0.0"}
    tx.registry.update(feed, type(feed.event_type).of(feed.event_type.definition | {"schema": schema}, 3), FIRST_AT + 7)


def write_everywhere(tx: Tx, feed: StoredFeed) -> None:
    """Change all `TABLES` of a database in which two event types' rows wait and one is rejected."""
    tx.registry.insert(event_type("new"), FIRST_AT)
    change_schema(tx, feed)
    partition_id = feed.partition_ids[0]
    tx.log.find_heads([partition_id], lock=True)
    tx.log.append([row(partition_id, 1)])
    assert len(tx.outbox.take("a", 9, 99).rows) == 1
    assert tx.outbox.retry_rejected() == 1
    tx.groups.lock("g", kind="processor", at=FIRST_AT)
    change = PositionChange("order.placed", "", 0, "reset", 1, 7, 9, None, FIRST_AT)
    tx.groups.put("g", [Position("order.placed", "", 0, 1, 7)], FIRST_AT, [change])
    tx.settings.put("a", "x", "1")
    tx.access.insert_token(StoredToken("t", b"x" * 32, Caller("service", "x"), FIRST_AT, None, None))
    tx.access.note_publishers({("order.placed", "x"): FIRST_AT}, 0)
    producer_id = tx.producers.insert(
        (partition_id, "g"), ProducerState(0, 0, 0), FIRST_AT, claim_id=None, is_pinned=False
    )
    assert producer_id is not None
    tx.producers.append_batches([AppendedBatch(producer_id, 0, a_batch(0, 0, 1))], FIRST_AT)
    key = BatchKey(feed.id, "g", 0, "q")
    tx.batches.open_upload(key, "u", FIRST_AT)
    upload = tx.batches.find_upload("order.placed", "u")
    assert upload is not None
    tx.batches.add_chunk(StoredChunk(upload.id, 0, 1, b"0123456789abcdef", None), b"x", FIRST_AT)
    tx.batches.begin(key, FIRST_AT, upload_ids=[upload.id], chunks=1)
    assert tx.subscriptions.insert(subscription("s"), "like s", [feed.id])
    tx.groups.put("s", [slot(SOURCE).position], FIRST_AT)
    tx.subscriptions.put_slots("s", [slot(SOURCE)])
    tx.subscriptions.put_session(session("stream", tx.subscriptions.see_hub("hub")))
    tx.subscriptions.park("s", SOURCE, "key", 3, attempts=2, at=FIRST_AT)


def dump(database: Database) -> dict[str, list[Any]]:
    """Return the rows of `TABLES`."""
    return {name: sorted(database.run(f"SELECT * FROM penstock_{name}"), key=repr) for name in TABLES}
