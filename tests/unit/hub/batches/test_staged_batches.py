"""Staged batches: tasks hand in uploads, and the named ones are published as one batch, once, whatever fails."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from penstock.core.events.event import NewEvent
from penstock.core.events.partitioning import hash_partition
from penstock.errors import (
    BatchNotFound,
    BatchRefused,
    DatabaseUnavailable,
    InvalidEvent,
    LimitReached,
    OutcomeUnknown,
    PenstockError,
)
from penstock.hub.batches import batches as staging
from penstock.hub.batches.batches import BatchOutcome, UploadManifest, digest_of
from penstock.hub.batches.ledger import BatchTurns, key_of
from penstock.hub.hub import Hub
from penstock.hub.log.publish import BatchName, BatchPiece, NewEvents, PublishRequest
from penstock.storage import Store
from penstock.storage.batches import BatchKey, ChunkKey
from penstock.storage.log.events import Frame
from penstock.testing.clock import START_AT
from penstock.testing.factories import an_event_type
from tests.failing import has_code
from tests.store_contract.database import together
from tests.unit.hub.feeds import create_feed
from tests.unit.hub.forwarding import ForwardingStore, fail_at

NAME = "order.placed"
FIRST = BatchName(NAME, "g", 0)
SCHEMA = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
PIECE = 10
"""How many events go into the log in one transaction here."""


def make_hub(store: Store, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setattr(type(store), "batch_events_max", PIECE)
    hub = Hub(ForwardingStore(store))
    definition = an_event_type(NAME, partition_count=2, partition_strategy="user_defined", schema=a_schema())
    hub.registry.create(definition)
    return hub


@pytest.fixture
def hub(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = make_hub(store, monkeypatch)
    yield hub
    hub.stop()


@pytest.fixture
def either_hub(either_store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub over SQLite and over PostgreSQL in turn."""
    hub = make_hub(either_store, monkeypatch)
    yield hub
    hub.stop()


def a_schema(**more: Any) -> dict[str, str]:
    return {"type": "json_schema", "schema": json.dumps(SCHEMA | more)}


def make_events(numbers: range) -> list[NewEvent]:
    """Return events that are numbers, the odd ones in partition 1."""
    return [NewEvent.of(b'{"n":%d}' % number, partition=number % 2) for number in numbers]


def upload(
    hub: Hub, *chunks: Sequence[NewEvent], name: BatchName = FIRST, query: str = "q", rejects: bool = False
) -> UploadManifest:
    """Hand in chunks, and return the upload as a batch names it."""
    opened = hub.batches.open(name, query)
    assert isinstance(opened, str)
    digests, valid = [], 0
    for number, chunk in enumerate(chunks):
        digest = digest_of(b"".join(bytes(each.data) for each in chunk))
        kept, _ = hub.batches.add(name.event_type, opened, number, NewEvents(chunk), digest, rejects=rejects)
        digests.append(digest)
        valid += kept.events
    return UploadManifest(opened, len(chunks), valid, digest_of(b"".join(digests)))


def upload_numbers(hub: Hub, count: int, chunk: int = 4) -> UploadManifest:
    """Hand in the events 0 to *count*, so many in a chunk."""
    return upload(hub, *[make_events(range(at, min(at + chunk, count))) for at in range(0, count, chunk)])


def publish(hub: Hub, *parts: UploadManifest, name: BatchName = FIRST, query: str = "q") -> BatchOutcome:
    return hub.batches.publish(name, query, parts)


def read_numbers(hub: Hub) -> dict[int, list[int]]:
    """Return the numbers in the log, by partition, in their order."""
    feed, heads = hub.log.find_heads(NAME)
    found = {}
    with hub.store.read() as tx:
        for number, partition_id in enumerate(feed.partition_ids):
            stop = heads[partition_id].next_offset
            body = tx.log.read_lines(partition_id, 0, stop, Frame("", "\n", ""), None).body
            found[number] = [json.loads(line)["n"] for line in body.splitlines()]
    return found


def split(count: int) -> dict[int, list[int]]:
    """Return the numbers 0 to *count* as partitions have them."""
    return {0: [*range(0, count, 2)], 1: [*range(1, count, 2)]}


def fail_at_write(hub: Hub, number: int) -> None:
    """Let the database be away at one of the next writes, from 1."""
    store: Any = hub.store
    store.at_write = fail_at(number, after=store.writes)


# A batch is published once


def test_batch_is_published_in_the_order_of_its_named_uploads(either_hub: Hub) -> None:
    upload(either_hub, make_events(range(100, 104)))
    second = upload(either_hub, make_events(range(4, 6)), make_events(range(6, 8)))
    first = upload(either_hub, make_events(range(4)))
    assert read_numbers(either_hub) == {0: [], 1: []}

    done = publish(either_hub, first, second)

    assert read_numbers(either_hub) == split(8)
    assert done.appended == done.batch.events == 8
    assert json.loads(done.batch.offsets) == {"0": [[0, 3]], "1": [[0, 3]]}
    with pytest.raises((BatchRefused, BatchNotFound)):
        either_hub.batches.add(NAME, first.name, 1, NewEvents(make_events(range(1))), b"0" * 16, rejects=False)


def test_batch_that_is_published_again_stays_the_same_whatever_is_handed_in(hub: Hub) -> None:
    before = publish(hub, upload_numbers(hub, 4))

    assert hub.batches.open(FIRST, "q") == before.batch
    assert publish(hub, UploadManifest("0" * 32, 1, 99, b"0" * 16)) == BatchOutcome(before.batch, 0)
    assert hub.batches.get_batch(FIRST) == before.batch
    assert read_numbers(hub) == split(4)


def test_empty_batch_is_in_the_ledger(hub: Hub) -> None:
    assert publish(hub, upload(hub)).batch.is_done
    assert publish(hub, name=FIRST._replace(number=1)).batch.is_done
    assert [each.number for each in hub.batches.list_batches(NAME, "g", 9)] == [1, 0]


@pytest.mark.parametrize("failing", [[1, 2, 3, 4], [3, 3, 3], [5]], ids=str)
def test_interrupted_batch_is_published_on_from_whole_pieces(either_hub: Hub, failing: list[int]) -> None:
    """The writes of an attempt: one that looks the batch up, and one for each piece that is left."""
    part = upload_numbers(either_hub, 32)

    for number in failing:
        fail_at_write(either_hub, number)
        with pytest.raises(DatabaseUnavailable):
            publish(either_hub, part)
        assert sum(map(len, read_numbers(either_hub).values())) % 8 == 0
    done = publish(either_hub, part)

    assert read_numbers(either_hub) == split(32)
    assert (done.batch.events, done.batch.chunks) == (32, 8)


def test_offsets_of_a_batch_leave_out_events_that_came_between_its_pieces(hub: Hub) -> None:
    part = upload_numbers(hub, 20)
    fail_at_write(hub, 3)
    with pytest.raises(DatabaseUnavailable):
        publish(hub, part)
    hub.log.publish(NAME, [NewEvent.of(b'{"n":99}', partition=0)])

    done = publish(hub, part)

    assert json.loads(done.batch.offsets) == {"0": [[0, 3], [5, 10]], "1": [[0, 9]]}
    assert done.batch.events == 20


def test_concurrent_publishers_in_two_hubs_publish_a_batch_once(either_hub: Hub) -> None:
    other = Hub(either_hub.store)
    part = upload_numbers(either_hub, 80)

    done = together(*(partial(publish, hub, part) for hub in [either_hub, other] * 2))

    assert read_numbers(either_hub) == split(80)
    assert sum(each.appended for each in done) == 80
    assert {each.batch.id for each in done} == {done[0].batch.id}


def test_piece_of_a_batch_has_its_turn_once(store: Store) -> None:
    key = BatchKey(create_feed(store).id, "g", 0, "q")
    with store.write() as tx:
        tx.batches.begin(key, START_AT, upload_ids=[], chunks=3)
        [batch] = tx.batches.list(key.event_type_id, key.group, number=key.number)
    assert batch is not None

    def piece(**changes: int) -> BatchPiece:
        return BatchPiece(batch._replace(**changes), [ChunkKey(1, 0)], ())

    with store.write() as tx:
        turns = BatchTurns(tx, [piece(), piece(), piece(id=99)], [])
        assert [turns.take(each) for each in (piece(), piece(), piece(id=99))] == [True, False, False]
        assert not BatchTurns(tx, [piece(done=1)], []).take(piece(done=1))


def test_commit_with_an_unknown_outcome_is_looked_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    part = upload_numbers(hub, 4)
    submit: Callable[..., Any] = hub.committer.submit

    def lose(request: Any) -> Any:
        future = submit(request)
        future.exception()
        future._exception = OutcomeUnknown(reason="the line broke")
        return future

    monkeypatch.setattr(hub.batches, "_submit", lose)

    assert publish(hub, part).batch.is_done
    assert read_numbers(hub) == split(4)


def test_batch_without_progress_fails_after_some_attempts(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    part = upload_numbers(hub, 4)
    monkeypatch.setattr(hub.batches, "_plan_request", lambda *_: None)

    with pytest.raises(DatabaseUnavailable, match="makes no progress"):
        publish(hub, part)


# Batches follow each other


@pytest.mark.parametrize(
    ("name", "query", "code"),
    [
        (FIRST, "other", "batch-of-another-query"),
        (FIRST._replace(number=8), "other", "batch-of-another-query"),
        (FIRST._replace(number=3), "q", "batch-superseded"),
        (FIRST._replace(event_type="other"), "q", "event-type-not-found"),
    ],
)
def test_impossible_batch_is_refused_before_and_after_its_uploads(
    hub: Hub, name: BatchName, query: str, code: str
) -> None:
    late = upload(hub, make_events(range(100, 102)), name=FIRST._replace(number=3))
    for number in (0, 5):
        each = FIRST._replace(number=number)
        publish(hub, upload(hub, make_events(range(2)), name=each), name=each)
    before = read_numbers(hub)

    with pytest.raises(PenstockError, check=has_code(code)):
        hub.batches.open(name, query)
    with pytest.raises(PenstockError, check=has_code(code)):
        publish(hub, late, name=name, query=query)
    assert read_numbers(hub) == before


def test_batches_of_other_groups_are_independent(hub: Hub) -> None:
    for group, query in (("g", "q"), ("h", "r")):
        name = BatchName(NAME, group, 0)
        publish(hub, upload(hub, make_events(range(2)), name=name, query=query), name=name, query=query)

    assert read_numbers(hub) == {0: [0, 0], 1: [1, 1]}


def test_batch_is_refused_until_the_one_before_is_published_to_its_end(hub: Hub) -> None:
    part, next_one = upload_numbers(hub, 16), FIRST._replace(number=1)
    fail_at_write(hub, 3)
    with pytest.raises(DatabaseUnavailable):
        publish(hub, part)

    with pytest.raises(BatchRefused) as refused:
        publish(hub, name=next_one)
    assert refused.value.newest == 0
    with pytest.raises(BatchRefused):
        hub.batches.open(next_one, "q")
    assert not isinstance(hub.batches.open(FIRST, "q"), str), "its uploads are settled"
    publish(hub)
    assert publish(hub, name=next_one).batch.is_done
    assert read_numbers(hub) == split(16)


def test_forgotten_batches_let_another_query_publish(hub: Hub) -> None:
    publish(hub, upload_numbers(hub, 2))

    assert hub.batches.forget(NAME, "g") == 1
    with pytest.raises(BatchNotFound):
        hub.batches.get_batch(FIRST)
    publish(hub, upload(hub, make_events(range(2)), query="new"), query="new")
    assert read_numbers(hub) == {0: [0, 0], 1: [1, 1]}


def test_event_type_that_was_created_again_has_no_batches(hub: Hub) -> None:
    publish(hub, upload_numbers(hub, 2))
    waiting = upload(hub, make_events(range(2)), name=FIRST._replace(number=1))
    definition = hub.registry.load(NAME).event_type.definition
    hub.registry.delete(NAME)
    hub.registry.create({**definition, "partition_count": 2})

    with pytest.raises(BatchNotFound):
        hub.batches.get_batch(FIRST)
    with pytest.raises(BatchNotFound, check=has_code("upload-not-found")):
        publish(hub, waiting, name=FIRST._replace(number=1))
    publish(hub, upload_numbers(hub, 4))
    assert read_numbers(hub) == split(4)


# Events are validated when they are handed in, and placed when they are published


def test_invalid_event_refuses_its_chunk(hub: Hub) -> None:
    opened = hub.batches.open(FIRST, "q")
    assert isinstance(opened, str)
    wrong = [*make_events(range(2)), NewEvent.of(b'{"n":"x"}', partition=0)]

    with pytest.raises(InvalidEvent, match="line 3"):
        hub.batches.add(NAME, opened, 0, NewEvents(wrong), b"0" * 16, rejects=False)
    with hub.store.read() as tx:
        feed = tx.registry.get(NAME)
        assert tx.batches.lock_uploads(key_of(feed, FIRST, "q"), [opened])[opened].chunks == []


def test_rejected_events_are_kept_once_their_batch_is_published(either_hub: Hub) -> None:
    wrong = NewEvent.of(b'{"n":"x"}', partition=0, key="k", headers={"h": "1"})
    part = upload(either_hub, [*make_events(range(2)), wrong], [wrong], rejects=True)
    assert part.events == 2
    with either_hub.store.read() as tx:
        assert tx.outbox.count(9).rejected == 0

    done = publish(either_hub, part)
    publish(either_hub, part)

    assert (done.batch.events, done.batch.rejected) == (2, 2)
    assert read_numbers(either_hub) == split(2)
    with either_hub.store.read() as tx:
        rows = tx.outbox.list_rejected(9, newest=False)
    assert [(row.event_type, row.data, row.key, row.headers, row.partition) for row in rows] == [
        (NAME, '{"n":"x"}', "k", '{"h":"1"}', 0)
    ] * 2
    assert "Integer" in rows[0].reason


def test_events_valid_when_handed_in_are_published_under_a_stricter_schema(hub: Hub) -> None:
    part = upload_numbers(hub, 2)
    hub.registry.add_schema(NAME, a_schema(required=["n", "more"]))

    publish(hub, part)

    assert read_numbers(hub) == split(2)


def test_event_type_that_changes_while_a_batch_is_published_has_its_events_placed_again(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = hub.registry.load(NAME).event_type.definition
    hashed = {**definition, "partition_strategy": "hash", "partition_key_fields": ["n"]}
    hub.registry.replace(NAME, hashed, allow_reordering=True)
    part = upload(hub, [NewEvent.of(b'{"n":%d}' % n, key=f"k{n % 2}" if n % 3 else None) for n in range(40)])
    submitted: Any = hub.batches._submit

    def submit_after_growth(request: PublishRequest) -> Any:
        monkeypatch.setattr(hub.batches, "_submit", submitted)
        hub.registry.grow(NAME, 8)
        return submitted(request)

    monkeypatch.setattr(hub.batches, "_submit", submit_after_growth)
    done = publish(hub, part)

    assert done.appended == 40
    found = read_numbers(hub)
    assert found == {
        partition: [n for n in range(40) if hash_partition((f"k{n % 2}" if n % 3 else str(n),), 8) == partition]
        for partition in range(8)
    }
    assert any(found[partition] for partition in range(2, 8)), "among the partitions that there are now"


def test_events_are_placed_and_completed_anew_where_the_event_type_has_changed_meanwhile(hub: Hub) -> None:
    name = BatchName("order.changed", "g", 0)
    strategy: dict[str, Any] = {"partition_strategy": "hash", "partition_key_fields": ["n"]}
    hub.registry.create(an_event_type(name.event_type, category="business", **strategy))
    metadata = b'"metadata":{"eid":"105a76d8-db49-4144-ace7-e683e8f4ba46","occurred_at":"2026-11-20T10:00:00Z"}'
    part = upload(hub, [NewEvent.of(b'{"n":%d,%s}' % (n, metadata)) for n in range(8)], name=name)
    hub.registry.grow(name.event_type, 4)

    done = publish(hub, part, name=name)

    assert len(json.loads(done.batch.offsets)) > 1, "among the partitions that there are now"
    feed, heads = hub.log.find_heads(name.event_type)
    with hub.store.read() as tx:
        partition = next(number for number, each in enumerate(feed.partition_ids) if heads[each].next_offset)
        body = tx.log.read_lines(feed.partition_ids[partition], 0, 1, Frame("", "\n", ""), None).body
    assert json.loads(body)["metadata"]["partition"] == str(partition)


def test_batch_that_the_changed_event_type_refuses_can_be_published_after_another_change(hub: Hub) -> None:
    part = upload_numbers(hub, 2)
    definition = hub.registry.load(NAME).event_type.definition
    hashed = {**definition, "partition_strategy": "hash", "partition_key_fields": ["missing"]}
    hub.registry.replace(NAME, hashed, allow_reordering=True)
    with pytest.raises(InvalidEvent, check=has_code("partition-refused")):
        publish(hub, part)
    assert read_numbers(hub) == {0: [], 1: []}

    keyed = {**hub.registry.load(NAME).event_type.definition, "partition_key_fields": ["n"]}
    hub.registry.replace(NAME, keyed, allow_reordering=True)
    assert publish(hub).batch.events == 2


def test_staged_event_without_metadata_is_refused_once_its_event_type_needs_metadata(hub: Hub) -> None:
    part = upload_numbers(hub, 2)
    definition = hub.registry.load(NAME).event_type.definition
    enriched = {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}
    hub.registry.replace(NAME, {**definition, **enriched})

    with pytest.raises(InvalidEvent, match="no metadata, which events of the category business need"):
        publish(hub, part)

    assert read_numbers(hub) == {0: [], 1: []}


# Uploads


def test_upload_other_than_its_part_says_is_refused(hub: Hub) -> None:
    part = upload_numbers(hub, 4, chunk=2)
    other = upload(hub, make_events(range(2)), name=FIRST._replace(group="other"))
    for wrong in ({"chunks": 1}, {"chunks": 3}, {"events": 5}, {"digest": b"0" * 16}):
        with pytest.raises(BatchRefused, check=has_code("upload-incomplete")):
            publish(hub, part._replace(**wrong))
    for unknown in (part._replace(name="0" * 32), other):
        with pytest.raises(BatchNotFound, check=has_code("upload-not-found")):
            publish(hub, unknown)
    with pytest.raises(BatchRefused, check=has_code("upload-incomplete"), match="named twice"):
        publish(hub, part, part)
    with pytest.raises(BatchNotFound):
        hub.batches.get_batch(FIRST)

    assert publish(hub, part).batch.events == 4


def test_repeated_chunk_is_kept_once_and_another_one_of_its_number_refused(hub: Hub) -> None:
    part, events = upload_numbers(hub, 2), make_events(range(2))
    same = digest_of(b"".join(bytes(each.data) for each in events))

    kept, _ = hub.batches.add(NAME, part.name, 0, NewEvents(events), same, rejects=False)
    assert kept.events == 2
    with pytest.raises(BatchRefused, check=has_code("chunk-differs")):
        hub.batches.add(NAME, part.name, 0, NewEvents(make_events(range(3))), b"1" * 16, rejects=False)


def test_dropped_upload_is_not_found(hub: Hub) -> None:
    part = upload_numbers(hub, 2)
    hub.batches.drop(NAME, part.name)

    with pytest.raises(BatchNotFound, check=has_code("upload-not-found")):
        publish(hub, part)
    for name in (part.name, "\0"):
        with pytest.raises(BatchNotFound, check=has_code("upload-not-found")):
            hub.batches.drop(NAME, name)


def test_waiting_uploads_are_limited(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "UPLOADS_MAX", 2)
    part = upload_numbers(hub, 2)
    upload(hub)

    with pytest.raises(LimitReached, check=has_code("too-many-uploads")):
        hub.batches.open(FIRST, "q")
    publish(hub, part)
    assert isinstance(hub.batches.open(FIRST._replace(number=1), "q"), str)
