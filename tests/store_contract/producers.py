"""The contract of idempotent producers: `penstock.storage.producers.ProducerRepository`, who they are and how long."""

from typing import Any

import pytest

from penstock.core.producers import EpochEnd, ProducerState, StoredBatch, digests_of
from penstock.storage import Store
from penstock.storage.producers import AppendedBatch, Producer, ProducerKey
from tests.store_contract.database import FIRST_AT, Contract, created

AWKWARD = 'it\'s \\ a "name" %s :x ? 東京 🚰 \n'
NAMES = ("\U0001f6b0", "\uffee", "é", "a", "a-z", "a.z", "A", "a a", "~", "ab", "a:", "z", "Z", "10", "9")
"""Sorted otherwise by languages, by UTF-16 and where case or signs do not count."""
NEW = ProducerState(epoch=0, begin=0, next=0)
GONE = ProducerState(epoch=1, begin=0, next=0, is_expired=True)
FULL = ProducerState(epoch=7, begin=5, next=5, previous=EpochEnd(epoch=3, next=9, last_offset=12))


class ProducersContract(Contract):
    """A producer is kept by partition and name as last stored, and goes with its partition."""

    def test_unknown_producer_is_none_and_one_of_an_unknown_partition_is_left_out(self, store: Store) -> None:
        kept, dropped = created(store, "kept").partition_ids[0], created(store).partition_ids[0]
        keys = [(kept, "g"), (kept, "unknown"), (dropped, "g"), (dropped, "unknown"), (999_999, "g")]
        for key in (keys[0], keys[2]):
            inserted(store, key)
        assert looked(store, *keys[:4]).keys() == set(keys[:4])
        with store.write() as tx:
            tx.registry.delete("order.placed")
        again = created(store).partition_ids[0]

        found = {keys[0]: only(store, keys[0]), keys[1]: None, (again, "g"): None}
        assert looked(store, *keys, (again, "g")) == locked(store, *keys, (again, "g")) == found
        assert looked(store) == {}

    @pytest.mark.parametrize(
        ("state", "others"),
        [
            (ProducerState(0, 0, 0), {}),
            (ProducerState(3, 5, 5), {"claim_id": AWKWARD}),
            (FULL, {"is_pinned": True}),
            (ProducerState(7, 0, 0, previous=EpochEnd(3, 9, None)), {}),
            (ProducerState(7, 0, 0, is_expired=True), {}),
            (ProducerState((1 << 53) - 1, 1 << 60, 1 << 60, previous=EpochEnd((1 << 53) - 2, 1 << 61, 1 << 62)), {}),
        ],
        ids=["new", "claimed", "pinned, with an epoch before", "that had no events", "expired", "very large"],
    )
    def test_producer_is_found_as_given(self, store: Store, state: ProducerState, others: dict[str, Any]) -> None:
        key = (created(store).partition_ids[0], AWKWARD)

        producer_id = inserted(store, key, state, **others)

        wanted = Producer(producer_id, *key, state, others.get("claim_id"), others.get("is_pinned", False), FIRST_AT)
        assert looked(store, key) == locked(store, key) == {key: wanted}
        assert (type(only(store, key).is_pinned), type(only(store, key).state.is_expired)) == (bool, bool)

    def test_next_number_follows_the_last_batch_of_the_epoch(self, store: Store) -> None:
        key = (created(store).partition_ids[0], "g")
        producer_id = inserted(store, key, FULL)
        produced(
            store, *(AppendedBatch(producer_id, epoch, a_batch(first, 0, 1)) for epoch in (3, 8) for first in (7, 90))
        )
        assert only(store, key).state == FULL

        produced(
            store, AppendedBatch(producer_id, 7, a_batch(5, 20, 2)), AppendedBatch(producer_id, 7, a_batch(7, 30, 3))
        )

        with store.read() as tx:
            [idle] = tx.producers.list_idle(FIRST_AT + 1, limit=9)
        assert [idle, *listed(store, key[0])] == [only(store, key), locked_only(store, key)]
        assert idle.state == FULL._replace(next=10, last_offset=32)

    def test_producer_was_last_heard_of_at_its_last_change_or_append(self, store: Store) -> None:
        key = (created(store).partition_ids[0], "g")
        producer_id = inserted(store, key, at=FIRST_AT + 5)
        produced(store, AppendedBatch(producer_id, 0, a_batch(0, 0, 1)), at=FIRST_AT + 3)
        assert only(store, key).updated_at == FIRST_AT + 5

        produced(store, AppendedBatch(producer_id, 0, a_batch(1, 1, 1)), at=FIRST_AT + 9)

        assert only(store, key).updated_at == FIRST_AT + 9

    def test_taken_name_of_a_partition_is_not_inserted_again(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        keys = [(first, "g"), (first, "G"), (first, "g "), (second, "g")]
        ids = [inserted(store, key, ProducerState(epoch, 0, 0)) for epoch, key in enumerate(keys)]

        again = [insert(store, key, ProducerState(9, 9, 9)) for key in keys]

        assert again == [None] * 4
        found = [only(store, key) for key in keys]
        assert [(each.id, each.state.epoch) for each in found] == list(zip(ids, range(4), strict=True))
        assert len(set(ids)) == 4

    def test_changed_producer_is_found_as_given(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        other = begun(store, (second, "g"))
        producer_id = inserted(store, (first, "g"), claim_id="before")
        produced(store, AppendedBatch(producer_id, 0, a_batch(0, 0, 4)))

        for state, claim_id, is_pinned in [
            (FULL, "mine", True),
            (ProducerState(8, 0, 0, previous=EpochEnd(7, 5, None)), None, False),
            (ProducerState(8, 0, 0, is_expired=True), None, False),
            (ProducerState(9, 2, 2), AWKWARD, True),
        ]:
            given = Producer(producer_id, first, "g", state, claim_id, is_pinned, FIRST_AT + state.epoch)
            with store.write() as tx:
                tx.producers.update(given)
            assert looked(store, (first, "g"), (second, "g")) == {(first, "g"): given, (second, "g"): other}

    def test_numbers_of_a_producer_with_batches_cannot_be_changed(self, store: Store) -> None:
        key = (created(store).partition_ids[0], "g")
        producer_id = inserted(store, key)
        produced(store, AppendedBatch(producer_id, 0, a_batch(0, 10, 4)))

        with store.write() as tx:
            tx.producers.update(only(store, key)._replace(state=ProducerState(0, 0, 99, 99)))

        assert only(store, key).state == ProducerState(0, 0, 4, 13)

    def test_producers_are_listed_by_code_points_page_by_page_and_unexpired_ones_counted(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        ids = {name: inserted(store, (first, name), FULL, is_pinned=name == "a") for name in NAMES}
        inserted(store, (first, "gone"), GONE)
        inserted(store, (second, "another"))
        produced(store, AppendedBatch(ids["é"], 7, a_batch(5, 20, 2)), AppendedBatch(ids["9"], 3, a_batch(0, 0, 1)))

        pages, after = [], ""
        while page := listed(store, first, after, 5):
            pages.append(page)
            after = page[-1].name

        assert [len(page) for page in pages] == [5, 5, 5, 1]
        assert [each.name for page in pages for each in page] == sorted([*NAMES, "gone"])
        found = {each.name: each for page in pages for each in page}
        assert found == {name: only(store, (first, name)) for name in found}
        assert (found["é"].state.next, found["gone"].state.is_expired) == (7, True)
        assert [each.name for each in listed(store, second)] == ["another"]
        assert listed(store, first, "\U0010ffff") == []
        with store.read() as tx:
            assert [tx.producers.count(each) for each in (first, second, 999_999)] == [len(NAMES), 1, 0]

    def test_idle_producers_are_unpinned_and_unexpired_and_were_not_heard_of_since(self, store: Store) -> None:
        feed, dropped = created(store, partitions=2), created(store, "dropped").partition_ids[0]
        first, second = feed.partition_ids
        since = FIRST_AT + 10
        inserted(store, (second, "a"))
        inserted(store, (first, "z"))
        produced(store, AppendedBatch(inserted(store, (first, "b")), 0, a_batch(0, 0, 1)), at=since - 1)
        produced(
            store, AppendedBatch(inserted(store, (first, "of an epoch before"), FULL), 3, a_batch(0, 0, 1)), at=since
        )
        idle = [(first, "b"), (first, "of an epoch before"), (first, "z"), (second, "a")]
        inserted(store, (first, "pinned"), is_pinned=True)
        inserted(store, (first, "expired"), GONE)
        inserted(store, (first, "just begun"), at=since)
        produced(store, AppendedBatch(inserted(store, (first, "just appended")), 0, a_batch(0, 0, 1)), at=since)
        inserted(store, (dropped, "g"))
        with store.write() as tx:
            tx.registry.delete("dropped")

        with store.read() as tx:
            found = tx.producers.list_idle(since, limit=9)
            assert tx.producers.list_idle(since, limit=2) == found[:2]
            assert tx.producers.list_idle(FIRST_AT, limit=9) == []

        assert [(each.partition_id, each.name) for each in found] == idle
        assert found == [only(store, key) for key in idle]

    def test_sweep_forgets_producers_that_expired_before_a_time(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        gone = ProducerState(4, 0, 0, is_expired=True)
        ids = {
            name: inserted(store, (partition_id, name), state, at=at)
            for name, state, at in [
                ("as long ago", gone, FIRST_AT - 99),
                ("just then", gone, FIRST_AT),
                ("not expired", FULL, FIRST_AT - 99),
                ("still with a batch", gone, FIRST_AT - 99),
                ("long ago", gone, FIRST_AT - 1),
            ]
        }
        produced(store, AppendedBatch(ids["still with a batch"], 4, a_batch(0, 0, 1)), at=FIRST_AT - 99)

        assert (forgotten(store, FIRST_AT), forgotten(store, FIRST_AT)) == (2, 0)

        left = {"just then", "not expired", "still with a batch"}
        assert {each.name for each in listed(store, partition_id)} == left
        assert looked(store, (partition_id, "long ago")) == {(partition_id, "long ago"): None}
        assert inserted(store, (partition_id, "long ago")) > max(ids.values())

    def test_sweep_forgets_all_producers_of_dropped_partitions_without_batches(self, store: Store) -> None:
        kept, dropped = created(store, "kept").partition_ids[0], created(store).partition_ids[0]
        for partition_id in (kept, dropped):
            inserted(store, (partition_id, "pinned"), is_pinned=True, at=FIRST_AT + 99)
            produced(store, AppendedBatch(inserted(store, (partition_id, "g")), 0, a_batch(0, 0, 1)))
        with store.write() as tx:
            tx.registry.delete("order.placed")

        assert forgotten(store, FIRST_AT) == 1  # The other one has a batch.

        assert [each.name for each in listed(store, kept)] == ["g", "pinned"]
        assert [each.name for each in listed(store, dropped)] == ["g"]

    def test_added_partitions_have_no_producers_and_the_others_keep_theirs(self, store: Store) -> None:
        feed = created(store)
        kept = begun(store, (feed.partition_ids[0], "g"), FULL)
        with store.write() as tx:
            tx.registry.update(feed, type(feed.event_type).of(feed.event_type.definition, 2), FIRST_AT)
            grown = tx.registry.find("order.placed")
        assert grown is not None

        keys = [(each, "g") for each in grown.partition_ids]

        assert looked(store, *keys) == {keys[0]: kept, keys[1]: None}


def insert(store: Store, key: ProducerKey, state: ProducerState = NEW, **others: Any) -> int | None:
    """Record a producer in a transaction of its own; *others* are claim_id, is_pinned, at."""
    given = {"claim_id": others.get("claim_id"), "is_pinned": others.get("is_pinned", False)}
    with store.write() as tx:
        tx.log.find_heads([key[0]], lock=True)
        return tx.producers.insert(key, state, others.get("at", FIRST_AT), **given)


def inserted(store: Store, key: ProducerKey, state: ProducerState = NEW, **others: Any) -> int:
    """Record a producer that there was not, and return its id."""
    found = insert(store, key, state, **others)
    assert found is not None
    return found


def produced(store: Store, *batches: AppendedBatch, at: int = FIRST_AT) -> None:
    with store.write() as tx:
        tx.producers.append_batches(batches, at)


def a_batch(first: int, first_offset: int, events: int) -> StoredBatch:
    """Return a batch whose events are told apart by their numbers."""
    return StoredBatch(first, first_offset, digests_of(b"%d" % number for number in range(first, first + events)))


def looked(store: Store, *keys: ProducerKey) -> dict[ProducerKey, Producer | None]:
    with store.read() as tx:
        return dict(tx.producers.find(sorted(keys)))


def locked(store: Store, *keys: ProducerKey) -> dict[ProducerKey, Producer | None]:
    """Lock producers and let go of them."""
    with store.write() as tx:
        return dict(tx.producers.find(sorted(keys), lock=sorted({partition_id for partition_id, _ in keys})))


def only(store: Store, key: ProducerKey) -> Producer:
    found = looked(store, key)[key]
    assert found is not None
    return found


def begun(store: Store, key: ProducerKey, state: ProducerState = NEW) -> Producer:
    inserted(store, key, state)
    return only(store, key)


def locked_only(store: Store, key: ProducerKey) -> Producer:
    found = locked(store, key)[key]
    assert found is not None
    return found


def listed(store: Store, partition_id: int, after: str = "", limit: int = 100) -> list[Producer]:
    with store.read() as tx:
        return list(tx.producers.list(partition_id, after=after, limit=limit))


def forgotten(store: Store, before: int) -> int:
    with store.write() as tx:
        return tx.producers.sweep((), before)
