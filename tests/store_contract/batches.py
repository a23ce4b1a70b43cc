"""The contract of uploads and batches: `penstock.storage.batches.BatchRepository`."""

import pytest

from penstock.core.registry.event_type import StoredFeed
from penstock.storage import Store
from penstock.storage.batches import BatchKey, ChunkBody, ChunkKey, LedgerBatch, StagedUpload, StoredChunk
from tests.store_contract.database import FIRST_AT, Contract, Database, created

AWKWARD = 'it\'s \\ a "name" %s :x ? 東京 🚰'
DIGEST = b"\x00\xff0123456789abcd"
LARGE = (1 << 53) - 1


class BatchesContract(Contract):
    """Uploads wait until a batch takes them, and a batch keeps its progress."""

    def test_waiting_uploads_are_found_by_event_type_and_name_and_counted(self, store: Store) -> None:
        key, other = key_of(created(store)), key_of(created(store, "other"))
        for number in range(3):
            assert opened(store, key, f"u{number}").batch_id is None

        with store.read() as tx:
            found = [tx.batches.count_uploads(each.event_type_id, limit) for each in (key, other) for limit in (2, 9)]
            assert found == [2, 3, 0, 0]
            assert tx.batches.find_upload("order.placed", "other") is tx.batches.find_upload("other", "u0") is None
        with store.write() as tx:
            tx.registry.delete("order.placed")
        with store.write() as tx:
            assert not tx.batches.open_upload(key, "u", FIRST_AT), "its event type is gone"

    def test_chunk_is_kept_as_first_uploaded(self, store: Store) -> None:
        key = key_of(created(store))
        upload = opened(store, key, "u")
        first = StoredChunk(upload.id, 0, 7, DIGEST, None)
        with store.write() as tx:
            add = tx.batches.add_chunk
            assert add(first, b"\x00a\xff", FIRST_AT) == first
            assert add(first._replace(events=8, digest=DIGEST[::-1], rejected="[]"), b"b", FIRST_AT) == first
            second = first._replace(number=1, rejected=AWKWARD)
            assert add(second, b"", FIRST_AT) == second
            tx.batches.begin(key, FIRST_AT, upload_ids=[upload.id], chunks=2)

        assert next_chunks(store, newest(store, key)) == [
            ChunkBody(upload.id, 0, 7, b"\x00a\xff", None),
            ChunkBody(upload.id, 1, 7, b"", AWKWARD),
        ]

    def test_uploads_of_one_batch_are_locked_with_their_chunks_by_number(self, store: Store) -> None:
        key = key_of(created(store), AWKWARD, LARGE, AWKWARD)
        ids = {name: filled(store, key, name, chunks=3).id for name in ("z", "a")}
        for name, other in (
            ("group", key._replace(group="x")),
            ("number", key._replace(number=1)),
            ("query", key._replace(query="x")),
            ("event type", key_of(created(store, "other"), AWKWARD, LARGE, AWKWARD)),
        ):
            opened(store, other, name)

        with store.write() as tx:
            locked = tx.batches.lock_uploads(key, ["a", "z", "group", "number", "query", "event type", "unknown"])
            assert tx.batches.lock_uploads(key, []) == {}

        assert {name: upload.chunks for name, upload in locked.items()} == {
            name: [StoredChunk(upload_id, number, 1, DIGEST, None) for number in range(3)]
            for name, upload_id in ids.items()
        }

    def test_chunks_are_read_in_the_order_of_their_batch_within_limits(self, store: Store) -> None:
        key = key_of(created(store))
        first, second = (filled(store, key, name, chunks=3) for name in ("z", "a"))
        with store.write() as tx:
            tx.batches.begin(key, FIRST_AT, upload_ids=[second.id, first.id], chunks=6)

        batch = newest(store, key)
        order = [ChunkBody(upload.id, number, 1, b"x", None) for upload in (second, first) for number in range(3)]
        assert next_chunks(store, batch) == order
        assert next_chunks(store, batch, limit=2) == order[:2]
        assert next_chunks(store, batch, events_max=4) == order[:4]
        assert next_chunks(store, batch, events_max=0) == order[:1], "one at least"

    def test_batch_keeps_its_progress_and_forgets_published_chunks(self, store: Store) -> None:
        key = key_of(created(store), AWKWARD, LARGE, AWKWARD)
        upload = filled(store, key, "u", chunks=3)
        with store.write() as tx:
            tx.batches.begin(key, FIRST_AT, upload_ids=[upload.id], chunks=3)
        begun = newest(store, key)
        assert begun == LedgerBatch(begun.id, LARGE, AWKWARD, 3, 0, 0, 0, "{}", FIRST_AT, FIRST_AT)
        assert not begun.is_done

        further = begun._replace(done=2, events=2, rejected=1, offsets=AWKWARD, updated_at=FIRST_AT + 1)
        advance(store, further, [ChunkKey(upload.id, 0), ChunkKey(upload.id, 1)])
        assert newest(store, key) == further
        assert [each.key for each in next_chunks(store, begun)] == [ChunkKey(upload.id, 2)]

        advance(store, further._replace(done=3), [ChunkKey(upload.id, 2)])
        assert newest(store, key).is_done
        with store.read() as tx:
            assert tx.batches.find_upload("order.placed", "u") is None
        assert next_chunks(store, begun) == []

    def test_upload_of_a_batch_takes_no_more_chunks_and_cannot_be_dropped(self, store: Store) -> None:
        key = key_of(created(store))
        upload = filled(store, key, "u")
        with store.write() as tx:
            tx.batches.begin(key, FIRST_AT, upload_ids=[upload.id], chunks=1)

        with store.write() as tx:
            assert tx.batches.add_chunk(StoredChunk(upload.id, 9, 1, DIGEST, None), b"x", FIRST_AT) is None
            assert tx.batches.lock_uploads(key, ["u"]) == {}
            assert tx.batches.count_uploads(key.event_type_id, 9) == 0
            tx.batches.drop_upload(upload)
        with store.read() as tx:
            found = tx.batches.find_upload("order.placed", "u")
        assert found is not None
        assert found.batch_id == newest(store, key).id

    def test_batches_are_found_by_number_and_listed_newest_first(self, store: Store) -> None:
        feed = created(store)
        key = key_of(feed)
        batches = {number: begun(store, key._replace(number=number)) for number in (3, 10, 9)}
        begun(store, key._replace(group="other", number=99))
        with pytest.raises(Exception, match=r"(?i)unique"):
            begun(store, key._replace(number=9, query="other"))

        with store.write() as tx:
            assert list(tx.batches.list(key.event_type_id, "g", limit=2)) == [batches[10], batches[9]]
            found = [list(tx.batches.list(key.event_type_id, "g", number=number)) for number in (None, 3, 4)]
            assert found == [[batches[10]], [batches[3]], []]
            assert tx.batches.lock([batches[9].id, 999], feed.partition_ids) == {batches[9].id: batches[9]}

    def test_sweep_removes_old_uploads_in_limited_steps(self, store: Store, database: Database) -> None:
        key = key_of(created(store))
        filled(store, key, "old", chunks=5)
        taken = filled(store, key._replace(number=1), "taken")
        young = filled(store, key, "young", at=FIRST_AT + 10)
        with store.write() as tx:
            tx.batches.begin(key._replace(number=1), FIRST_AT, upload_ids=[taken.id], chunks=1)

        assert swept(store, FIRST_AT + 10, chunks=2) == 1 + 1, "one is dropped, and removed in part"
        rounds = 1
        while swept(store, FIRST_AT + 10, chunks=2):
            rounds += 1
        assert rounds == 3
        with store.read() as tx:
            assert [tx.batches.find_upload("order.placed", name) is None for name in ("old", "taken", "young")] == [
                True, False, False,
            ]  # fmt: skip
        assert database.run("SELECT upload_id FROM penstock_chunk ORDER BY upload_id") == [(taken.id,), (young.id,)]

    def test_dropped_upload_takes_no_chunks_and_is_swept(self, store: Store) -> None:
        key = key_of(created(store))
        upload = filled(store, key, "u")
        with store.write() as tx:
            tx.batches.drop_upload(upload)
            assert tx.batches.add_chunk(StoredChunk(upload.id, 9, 1, DIGEST, None), b"x", FIRST_AT) is None
            assert tx.batches.lock_uploads(key, ["u"]) == {}

        assert swept(store)
        assert not swept(store)

    def test_batches_and_uploads_of_a_deleted_event_type_are_swept(self, store: Store, database: Database) -> None:
        key = key_of(created(store))
        waiting, taken = filled(store, key, "waiting"), filled(store, key, "taken")
        with store.write() as tx:
            tx.batches.begin(key, FIRST_AT, upload_ids=[taken.id], chunks=1)
        batch = newest(store, key)
        with store.write() as tx:
            tx.registry.delete("order.placed")

        with store.write() as tx:
            assert tx.batches.lock([batch.id], []) == {}
            assert tx.batches.add_chunk(StoredChunk(waiting.id, 9, 1, DIGEST, None), b"x", FIRST_AT) is None
        while swept(store):
            pass
        assert database.run("SELECT count(*) FROM penstock_chunk") == [(0,)]

    def test_published_batches_are_deleted_on_demand_and_swept_except_the_newest(self, store: Store) -> None:
        key = key_of(created(store))
        for number in range(5):
            begun(store, key._replace(number=number))
        unfinished = filled(store, key._replace(number=5), "u")
        with store.write() as tx:
            tx.batches.begin(key._replace(number=5), FIRST_AT, upload_ids=[unfinished.id], chunks=1)
        assert swept(store, kept=4) == 2
        with store.read() as tx:
            assert [each.number for each in tx.batches.list(key.event_type_id, "g", limit=9)] == [5, 4, 3, 2]
        assert swept(store, kept=4) == 0

        with store.write() as tx:
            assert tx.batches.delete(key.event_type_id, "other") == 0
            assert tx.batches.delete(key.event_type_id, "g") == 3
            assert [each.number for each in tx.batches.list(key.event_type_id, "g", limit=9)] == [5]

    def test_published_batches_of_groups_that_publish_no_more_are_swept(self, store: Store) -> None:
        feed = created(store)
        for group in ("idle", "active", "unfinished"):
            begun(store, key_of(feed, group))
        with store.write() as tx:
            tx.batches.begin(key_of(feed, "active", 1), FIRST_AT + 1, upload_ids=[], chunks=0)
            tx.batches.begin(key_of(feed, "unfinished", 1), FIRST_AT, upload_ids=[], chunks=1)

        assert swept(store, idle_before=FIRST_AT) == 0
        assert swept(store, idle_before=FIRST_AT + 1) == 2
        with store.read() as tx:
            left = {
                group: [each.number for each in tx.batches.list(feed.id, group, limit=9)]
                for group in ("idle", "active", "unfinished")
            }
        assert left == {"idle": [], "active": [1, 0], "unfinished": [1]}


def key_of(feed: StoredFeed, group: str = "g", number: int = 0, query: str = "q") -> BatchKey:
    return BatchKey(feed.id, group, number, query)


def opened(store: Store, key: BatchKey, name: str, at: int = FIRST_AT) -> StagedUpload:
    with store.write() as tx:
        assert tx.batches.open_upload(key, name, at)
        feed = next(each for each in tx.registry.list() if each.id == key.event_type_id)
        found = tx.batches.find_upload(feed.name, name)
    assert found is not None
    return found


def filled(store: Store, key: BatchKey, name: str, *, chunks: int = 1, at: int = FIRST_AT) -> StagedUpload:
    """Begin an upload of so many chunks of one event each, and return it."""
    upload = opened(store, key, name, at)
    with store.write() as tx:
        for number in range(chunks):
            assert tx.batches.add_chunk(StoredChunk(upload.id, number, 1, DIGEST, None), b"x", at)
    return upload


def begun(store: Store, key: BatchKey) -> LedgerBatch:
    """Begin a batch without chunks, which is complete at once, and return it."""
    with store.write() as tx:
        tx.batches.begin(key, FIRST_AT, upload_ids=[], chunks=0)
    return newest(store, key)


def newest(store: Store, key: BatchKey) -> LedgerBatch:
    with store.read() as tx:
        [batch] = tx.batches.list(key.event_type_id, key.group, number=key.number)
    return batch


def advance(store: Store, batch: LedgerBatch, published: list[ChunkKey]) -> None:
    with store.write() as tx:
        assert tx.batches.lock([batch.id], [])
        tx.batches.advance(batch, published, batch.updated_at)


def next_chunks(store: Store, batch: LedgerBatch, *, limit: int = 9, events_max: int = 99) -> list[ChunkBody]:
    """Return the first chunks of a batch that are not published."""
    with store.read() as tx:
        return list(tx.batches.read_chunks(batch.id, limit=limit, events_max=events_max))


def swept(store: Store, before: int = FIRST_AT, *, idle_before: int = 0, kept: int = 9, chunks: int = 9) -> int:
    with store.write() as tx:
        return tx.batches.sweep(before, idle_before=idle_before, kept=kept, uploads=9, chunks=chunks, batches=9)
