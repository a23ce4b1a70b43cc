"""The contract of staged publishing: `penstock.storage.staging.Staging`."""

import pytest

from penstock.core.registry.event_type import StoredFeed
from penstock.storage import Store
from penstock.storage.staging import Batch, BatchKey, Chunk, Kept, Upload
from tests.store_contract.database import FIRST_AT, Contract, created

AWKWARD = 'it\'s \\ a "name" %s :x ? 東京 🚰'
DIGEST = b"\x00\xff0123456789abcd"
LARGE = (1 << 53) - 1


class StagingContract(Contract):
    """Uploads wait until a batch takes them, and a batch is as far as was last said."""

    def test_an_upload_is_found_by_its_name_and_event_type(self, store: Store) -> None:
        key = key_of(created(store))
        upload = opened(store, key, "u")

        assert upload.batch_id is None
        with store.read() as tx:
            assert tx.staging.find("order.placed", "other") is None
            assert tx.staging.find("other", "u") is None

    def test_for_an_event_type_that_is_gone_there_is_no_upload(self, store: Store) -> None:
        key = key_of(created(store))
        with store.write() as tx:
            tx.feeds.delete("order.placed")

        with store.write() as tx:
            assert not tx.staging.open(key, "u", FIRST_AT)

    def test_uploads_that_wait_are_counted(self, store: Store) -> None:
        key, other = key_of(created(store)), key_of(created(store, "other"))
        for number in range(3):
            opened(store, key, f"u{number}")

        with store.read() as tx:
            found = [tx.staging.count(each.event_type_id, limit) for each in (key, other) for limit in (2, 9)]
        assert found == [2, 3, 0, 0]

    def test_a_chunk_is_kept_once_as_it_came_first(self, store: Store) -> None:
        upload = opened(store, key_of(created(store)), "u")
        first = Kept(upload.id, 0, 7, DIGEST, None)
        with store.write() as tx:
            assert tx.staging.touch(upload, FIRST_AT)
            assert tx.staging.add(first, b"\x00a\xff") == first
            assert tx.staging.add(first._replace(events=8, digest=DIGEST[::-1], rejected="[]"), b"b") == first
            assert tx.staging.add(first._replace(number=1, rejected=AWKWARD), b"") == Kept(
                upload.id, 1, 7, DIGEST, AWKWARD
            )

        with store.read() as tx:
            assert tx.staging.body(Chunk(upload.id, 0, 7)) == (b"\x00a\xff", None)
            assert tx.staging.body(Chunk(upload.id, 1, 7)) == (b"", AWKWARD)
            assert tx.staging.body(Chunk(upload.id, 2, 7)) is None

    def test_only_uploads_of_the_same_batch_are_held(self, store: Store) -> None:
        key = key_of(created(store), AWKWARD, LARGE, AWKWARD)
        ids = {name: opened(store, key, name).id for name in ("b", "a")}
        for name, other in (
            ("group", key._replace(group="x")),
            ("number", key._replace(number=1)),
            ("query", key._replace(query="x")),
            ("event type", key_of(created(store, "other"), AWKWARD, LARGE, AWKWARD)),
        ):
            opened(store, other, name)

        with store.write() as tx:
            assert tx.staging.hold(key, ["a", "b", "group", "number", "query", "event type", "unknown"]) == ids
            assert tx.staging.hold(key, []) == {}

    def test_chunks_are_published_in_the_order_of_their_batch(self, store: Store) -> None:
        key = key_of(created(store))
        first, second = (filled(store, key, name, chunks=3) for name in ("z", "a"))
        with store.write() as tx:
            tx.staging.begin(key, [second.id, first.id], 6, FIRST_AT)

        batch = newest(store, key)
        order = [Chunk(upload.id, number, 1) for upload in (second, first) for number in range(3)]
        with store.read() as tx:
            assert tx.staging.next(batch.id, 9) == order
            assert tx.staging.next(batch.id, 2) == order[:2]
            assert [each[:3] for each in tx.staging.chunks([first.id, second.id])] == sorted(order)

    def test_a_batch_is_as_far_as_was_said_and_forgets_what_is_published(self, store: Store) -> None:
        key = key_of(created(store), AWKWARD, LARGE, AWKWARD)
        upload = filled(store, key, "u", chunks=3)
        with store.write() as tx:
            tx.staging.begin(key, [upload.id], 3, FIRST_AT)
        begun = newest(store, key)
        assert begun == Batch(begun.id, LARGE, AWKWARD, 3, 0, 0, 0, "{}", FIRST_AT, FIRST_AT)
        assert not begun.is_done

        further = begun._replace(done=2, events=2, rejected=1, offsets=AWKWARD, updated_at=FIRST_AT + 1)
        advance(store, further, [Chunk(upload.id, 0, 1), Chunk(upload.id, 1, 1)])
        assert newest(store, key) == further
        with store.read() as tx:
            assert tx.staging.next(begun.id, 9) == [Chunk(upload.id, 2, 1)]
            assert tx.staging.body(Chunk(upload.id, 0, 1)) is None

        advance(store, further._replace(done=3), [Chunk(upload.id, 2, 1)])
        assert newest(store, key).is_done
        with store.read() as tx:
            assert tx.staging.find("order.placed", "u") is None
            assert tx.staging.next(begun.id, 9) == []

    def test_an_upload_that_a_batch_has_taken_takes_nothing_more(self, store: Store) -> None:
        key = key_of(created(store))
        upload = filled(store, key, "u")
        with store.write() as tx:
            tx.staging.begin(key, [upload.id], 1, FIRST_AT)

        with store.write() as tx:
            assert not tx.staging.touch(upload, FIRST_AT)
            assert tx.staging.hold(key, ["u"]) == {}
            assert tx.staging.count(key.event_type_id, 9) == 0
            tx.staging.drop(upload)
        with store.read() as tx:
            found = tx.staging.find("order.placed", "u")
        assert found is not None
        assert found.batch_id == newest(store, key).id

    def test_batches_are_found_by_number_and_listed_newest_first(self, store: Store) -> None:
        key = key_of(created(store))
        for number in (3, 10, 9):
            begun(store, key._replace(number=number))
        begun(store, key._replace(group="other", number=99))

        with store.read() as tx:
            assert [each.number for each in tx.staging.batches(key.event_type_id, "g", 2)] == [10, 9]
            found = [tx.staging.batch(key.event_type_id, "g", number) for number in (None, 3, 4)]
        assert [each and each.number for each in found] == [10, 3, None]

    def test_a_number_is_one_batch(self, store: Store) -> None:
        key = key_of(created(store))
        begun(store, key)

        with pytest.raises(Exception, match=r"(?i)unique"):
            begun(store, key._replace(query="other"))

    def test_locked_batches_are_those_that_there_are(self, store: Store) -> None:
        feed = created(store)
        batch = begun(store, key_of(feed))

        with store.write() as tx:
            assert tx.staging.lock([batch.id, 999], feed.partition_ids) == {batch.id: batch}

    def test_what_waits_for_too_long_is_removed_little_by_little(self, store: Store) -> None:
        key = key_of(created(store))
        old, taken = filled(store, key, "old", chunks=5), filled(store, key._replace(number=1), "taken")
        young = filled(store, key, "young", at=FIRST_AT + 10)
        with store.write() as tx:
            tx.staging.begin(key._replace(number=1), [taken.id], 1, FIRST_AT)

        with store.write() as tx:
            assert tx.staging.expire(FIRST_AT + 10, 9) == 1
            assert tx.staging.expire(FIRST_AT + 10, 9) == 0
        rounds = 0
        while removed(store, uploads=9, chunks=2):
            rounds += 1
        assert rounds == 3
        with store.read() as tx:
            assert [tx.staging.find("order.placed", name) is None for name in ("old", "taken", "young")] == [
                True, False, False,
            ]  # fmt: skip
            assert tx.staging.chunks([old.id]) == []
            assert len(tx.staging.chunks([taken.id, young.id])) == 2

    def test_an_upload_that_was_dropped_takes_nothing_and_is_removed(self, store: Store) -> None:
        key = key_of(created(store))
        upload = filled(store, key, "u")
        with store.write() as tx:
            tx.staging.drop(upload)
            assert not tx.staging.touch(upload, FIRST_AT)
            assert tx.staging.hold(key, ["u"]) == {}

        assert removed(store)
        assert not removed(store)

    def test_with_its_event_type_a_batch_is_forgotten_and_an_upload_nobodys(self, store: Store) -> None:
        key = key_of(created(store))
        waiting, taken = filled(store, key, "waiting"), filled(store, key, "taken")
        with store.write() as tx:
            tx.staging.begin(key, [taken.id], 1, FIRST_AT)
        batch = newest(store, key)
        with store.write() as tx:
            tx.feeds.delete("order.placed")

        with store.write() as tx:
            assert tx.staging.lock([batch.id], []) == {}
            assert not tx.staging.touch(waiting, FIRST_AT)
        while removed(store):
            pass
        with store.read() as tx:
            assert tx.staging.chunks([waiting.id, taken.id]) == []

    def test_published_batches_are_forgotten_on_demand_and_but_for_the_newest(self, store: Store) -> None:
        key = key_of(created(store))
        for number in range(5):
            begun(store, key._replace(number=number))
        unfinished = filled(store, key._replace(number=5), "u")
        with store.write() as tx:
            tx.staging.begin(key._replace(number=5), [unfinished.id], 1, FIRST_AT)
            assert tx.staging.forget_old(4, 9) == 2
            assert [each.number for each in tx.staging.batches(key.event_type_id, "g", 9)] == [5, 4, 3, 2]
            assert tx.staging.forget_old(4, 9) == 0

        with store.write() as tx:
            assert tx.staging.forget(key.event_type_id, "other", unfinished=True) == 0
            assert tx.staging.forget(key.event_type_id, "g", unfinished=False) == 3
            assert [each.number for each in tx.staging.batches(key.event_type_id, "g", 9)] == [5]

    def test_what_tasks_publish_directly_is_one_chunk_and_keeps_its_manifest(self, store: Store) -> None:
        key = key_of(created(store))
        with store.write() as tx:
            tx.staging.begin_direct(key, 12, LARGE, FIRST_AT)
        begun = newest(store, key)
        assert begun == Batch(begun.id, 0, "q", 1, 0, 0, 0, "{}", FIRST_AT, FIRST_AT, 12, LARGE)
        assert begun.is_direct
        assert not begun.is_done

        done = begun._replace(done=1, events=7, offsets=AWKWARD)
        advance(store, done, [])
        assert newest(store, key) == done
        assert done.is_done

    def test_only_on_demand_is_forgotten_what_tasks_have_not_published_to_its_end(self, store: Store) -> None:
        key = key_of(created(store))
        staged = filled(store, key, "u")
        with store.write() as tx:
            tx.staging.begin(key, [staged.id], 1, FIRST_AT)
            tx.staging.begin_direct(key._replace(number=1), 2, 0, FIRST_AT)

            assert tx.staging.forget(key.event_type_id, "g", unfinished=False) == 0
            assert tx.staging.forget(key.event_type_id, "g", unfinished=True) == 1
            assert [each.number for each in tx.staging.batches(key.event_type_id, "g", 9)] == [0]


def key_of(feed: StoredFeed, group: str = "g", number: int = 0, query: str = "q") -> BatchKey:
    """Return the key of a batch for *feed*."""
    return BatchKey(feed.id, group, number, query)


def opened(store: Store, key: BatchKey, name: str, at: int = FIRST_AT) -> Upload:
    """Begin an upload and return it."""
    with store.write() as tx:
        assert tx.staging.open(key, name, at)
        feed = next(each for each in tx.feeds.list() if each.id == key.event_type_id)
        found = tx.staging.find(feed.name, name)
    assert found is not None
    return found


def filled(store: Store, key: BatchKey, name: str, *, chunks: int = 1, at: int = FIRST_AT) -> Upload:
    """Begin an upload of so many chunks of one event each, and return it."""
    upload = opened(store, key, name, at)
    with store.write() as tx:
        for number in range(chunks):
            tx.staging.add(Kept(upload.id, number, 1, DIGEST, None), b"x")
    return upload


def begun(store: Store, key: BatchKey) -> Batch:
    """Begin a batch without chunks, which is published by that, and return it."""
    with store.write() as tx:
        tx.staging.begin(key, [], 0, FIRST_AT)
    return newest(store, key)


def newest(store: Store, key: BatchKey) -> Batch:
    """Return the batch of that key."""
    with store.read() as tx:
        batch = tx.staging.batch(key.event_type_id, key.group, key.number)
    assert batch is not None
    return batch


def advance(store: Store, batch: Batch, published: list[Chunk]) -> None:
    """Note how far a batch is."""
    with store.write() as tx:
        assert tx.staging.lock([batch.id], [])
        tx.staging.advance(batch, published, batch.updated_at)


def removed(store: Store, *, uploads: int = 9, chunks: int = 9) -> int:
    """Remove some of what is nobody's."""
    with store.write() as tx:
        return tx.staging.remove(uploads, chunks)
