"""The contract of idempotent producers where several transactions write at once."""

from contextlib import closing
from functools import partial
from typing import Any

import pytest

from penstock.core.producers import ProducerState, StoredBatch
from penstock.storage import Store
from penstock.storage.producers import AppendedBatch, BatchRef, Producer, ProducerKey
from penstock.storage.store import Tx
from tests.store_contract.database import (
    FIRST_AT,
    PATIENCE_SECONDS,
    Blocked,
    Contract,
    Database,
    created,
    together,
)
from tests.store_contract.produced import ADD, found
from tests.store_contract.producers import NEW, a_batch, forgotten, inserted, locked, looked, only, produced

ROUNDS = 20
GONE = ProducerState(epoch=3, begin=0, next=0, is_expired=True)
Found = dict[ProducerKey, Producer | None]


class ProducersTogether(Contract):
    """A lock of a producer has one holder, no transactions deadlock, and no producer is overlooked."""

    def test_lock_waits_for_the_holder_and_finds_what_it_has_stored(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        key = (created(store).partition_ids[0], "g")
        producer_id = inserted(store, key)

        with store.write() as tx:
            lock(tx, key)
            tx.producers.append_batches([AppendedBatch(producer_id, 0, a_batch(0, 10, 4))], FIRST_AT + 9)
            waiting = blocked(locked, other, key)
        producer = waiting.result(PATIENCE_SECONDS)[key]

        assert producer == only(store, key)
        assert producer is not None
        assert (producer.state, producer.updated_at) == (ProducerState(0, 0, 4, 13), FIRST_AT + 9)

    def test_lock_does_not_wait_for_other_producers_of_the_partition(self, store: Store, other: Store) -> None:
        partition_id = created(store).partition_ids[0]
        for name in ("g", "h"):
            inserted(store, (partition_id, name))

        with store.write() as tx:
            lock(tx, (partition_id, "g"))
            assert locked(other, (partition_id, "h"), (partition_id, "unknown")).keys() == {
                (partition_id, "h"),
                (partition_id, "unknown"),
            }

    def test_event_type_is_not_deleted_while_a_producer_of_it_is_locked(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        key = (created(store).partition_ids[0], "unknown")

        def drop() -> bool:
            with other.write() as tx:
                return tx.registry.delete("order.placed")

        with store.write() as tx:
            lock(tx, key)
            dropping = blocked(drop)
            tx.log.find_heads([key[0]], lock=True)
            tx.producers.insert(key, NEW, FIRST_AT, claim_id=None, is_pinned=False)
        assert dropping.result(PATIENCE_SECONDS)

        assert locked(store, key) == {}

    def test_producer_inserted_meanwhile_is_not_inserted_again(self, store: Store, other: Store) -> None:
        key = (created(store).partition_ids[0], "g")

        with other.write() as late:
            with store.write() as tx:
                tx.log.find_heads([key[0]], lock=True)
                tx.producers.insert(key, ProducerState(7, 0, 0), FIRST_AT, claim_id=None, is_pinned=False)
                assert lock(late, key) == {key: None}
            late.log.find_heads([key[0]], lock=True)
            assert late.producers.insert(key, NEW, FIRST_AT, claim_id=None, is_pinned=False) is None
            assert lock(late, key) == {key: only(store, key)}

        assert only(store, key).state.epoch == 7

    def test_producer_inserted_while_others_are_locked_is_not_returned(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        """It is inserted after the others were looked for to be locked, and before they are looked at."""
        partition_id = created(store).partition_ids[0]
        held, new, unknown = ((partition_id, name) for name in ("a", "b", "c"))
        inserted(store, held)

        with store.write() as tx:
            lock(tx, held)
            waiting = blocked(locked, other, held, new, unknown)
            inserted(store, new)
        found = waiting.result(PATIENCE_SECONDS)

        assert found == {held: only(store, held), unknown: None}
        assert locked(other, new) == {new: only(store, new)}

    def test_concurrent_locks_in_order_never_deadlock(self, store: Store, other: Store) -> None:
        partition_ids = [each for name in ("a", "b") for each in created(store, name, partitions=2).partition_ids]
        keys = [(partition_id, name) for partition_id in partition_ids for name in ("Z", "a", "é")]
        for key in reversed(keys):  # So they do not lie in their order.
            inserted(store, key)
        subsets = [keys, keys[::2], keys[1::2], keys[5:]]

        def write(store: Store, wanted: list[ProducerKey]) -> None:
            for _ in range(ROUNDS):
                with store.write() as tx:
                    producers = [each for each in lock(tx, *wanted).values() if each]
                    assert len(producers) == len(wanted)
                    tx.producers.append_batches(
                        [AppendedBatch(each.id, 0, a_batch(each.state.next, 0, 2)) for each in producers], 0
                    )

        together(*(partial(write, *each) for each in zip([store, other] * 2, subsets, strict=True)))

        numbers = {key: producer and producer.state.next for key, producer in looked(store, *keys).items()}
        assert numbers == {key: 2 * ROUNDS * sum(key in subset for subset in subsets) for key in keys}

    def test_sweep_does_not_wait_for_locked_producers(self, store: Store, other: Store, blocked: Blocked) -> None:
        """A sweep would lock them unsorted, and other transactions lock them sorted."""
        partition_id = created(store).partition_ids[0]
        first, second = ((partition_id, name) for name in ("a", "b"))
        for key in (second, first):
            inserted(store, key, GONE, at=FIRST_AT - 1)

        with store.write() as tx:
            lock(tx, first)
            locking = blocked(locked, other, first, second)
            assert forgotten(other, FIRST_AT) == 1

        assert locking.result(PATIENCE_SECONDS) == {first: only(store, first), second: None}
        assert forgotten(store, FIRST_AT) == 1
        assert looked(store, first, second) == {first: None, second: None}

    def test_concurrent_sweeps_of_the_same_batches_never_deadlock(
        self, store: Store, other: Store, blocked: Blocked
    ) -> None:
        key = (created(store).partition_ids[0], "g")
        producer_id = inserted(store, key, GONE)
        produced(store, *(AppendedBatch(producer_id, 3, a_batch(n, n, 1)) for n in range(3)))
        batches = [BatchRef(producer_id, 3, n) for n in range(3)]

        def forget() -> None:
            with other.write() as tx:
                tx.producers.sweep(batches[::-1], 0)

        with store.write() as tx:
            tx.producers.sweep(batches[:1], 0)
            forgetting = blocked(forget)
            tx.producers.sweep(batches, 0)
        forgetting.result(PATIENCE_SECONDS)

        assert found(store, producer_id, 3, 0, 9) == []

    @pytest.mark.parametrize("first", [0, 2, 3, 4], ids=["the same", "its middle", "its end", "the next"])
    def test_database_refuses_a_number_that_a_concurrent_append_has_taken(
        self, store: Store, database: Database, blocked: Blocked, first: int
    ) -> None:
        """Neither has locked the producer, so the hub's own rules are not asked."""
        producer_id = inserted(store, (created(store).partition_ids[0], "g"))
        mine, its = a_batch(0, 10, 4), a_batch(first, 20, 4)

        with closing(database.connect()) as connection:
            with store.write() as tx:
                tx.producers.append_batches([AppendedBatch(producer_id, 0, mine)], FIRST_AT)
                adding = blocked(add, database, connection, producer_id, its)
            refusal = adding.exception(PATIENCE_SECONDS)

        assert (refusal is None) == (first == 4)
        assert found(store, producer_id, 0, 0, 99) == ([mine, its] if first == 4 else [mine])

    @pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
    def test_database_refuses_numbers_under_an_isolation_that_hides_other_appends(
        self, store: Store, database: Database, isolation: str
    ) -> None:
        producer_id = inserted(store, (created(store).partition_ids[0], "g"))

        with closing(database.connect()) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            connection.execute("SELECT count(*) FROM penstock_produced")  # What it sees is settled by now.
            produced(store, AppendedBatch(producer_id, 0, a_batch(0, 10, 4)))
            with pytest.raises(Exception, match="penstock: numbers of a producer are given under READ COMMITTED only"):
                add(database, connection, producer_id, a_batch(2, 20, 4))

        assert found(store, producer_id, 0, 0, 99) == [a_batch(0, 10, 4)]


def lock(tx: Tx, *keys: ProducerKey) -> Found:
    return dict(tx.producers.find(sorted(keys), lock=sorted({partition_id for partition_id, _ in keys})))


def add(database: Database, connection: Any, producer_id: int, batch: StoredBatch) -> None:
    """Record a batch of epoch 0 by plain SQL."""
    given = (producer_id, 0, batch.first, batch.end - batch.first, batch.first_offset, FIRST_AT, batch.digests)
    connection.execute(ADD.replace("?", database.mark), given)
    connection.commit()
