"""Staged publishing, in a real hub over both databases: whatever fails between, a batch is published once."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.core.event import NewEvent
from penstock.errors import (
    BatchNotFound,
    BatchOfAnotherQuery,
    BatchSuperseded,
    BatchUnfinished,
    ChunkDiffers,
    DatabaseUnavailable,
    EventTypeNotFound,
    InvalidEvent,
    OutcomeUnknown,
    PartitionRefused,
    PenstockError,
    TooManyUploads,
    UploadIncomplete,
    UploadNotFound,
    UploadTaken,
)
from penstock.hub import staging
from penstock.hub.hub import Hub
from penstock.hub.publish import Handed
from penstock.hub.staged import BatchName
from penstock.hub.staging import Done, Part, digest_of
from penstock.storage import Store
from penstock.storage.store import Frame
from penstock.testing.factories import an_event_type
from tests.unit.hub.forwarding import ForwardingStore

NAME = "order.placed"
FIRST = BatchName(NAME, "g", 0)
SCHEMA = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
PIECE = 10
"""How many events go into the log in one transaction here."""


@pytest.fixture
def forwarding(either_store: Store) -> ForwardingStore:
    return ForwardingStore(either_store)


@pytest.fixture
def hub(forwarding: ForwardingStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(type(forwarding._store), "batch_events_max", PIECE)
    hub = Hub(forwarding)
    hub.create_event_type(an_event_type(NAME, partition_count=2, partition_strategy="user_defined", schema=schema()))
    yield hub
    hub.stop()


def schema(**more: Any) -> dict[str, str]:
    return {"type": "json_schema", "schema": json.dumps(SCHEMA | more)}


def events(numbers: range) -> list[NewEvent]:
    """Events that are numbers, the odd ones in partition 1."""
    return [NewEvent.of(b'{"n":%d}' % number, partition=number % 2) for number in numbers]


def handed_in(
    hub: Hub, chunks: Sequence[Sequence[NewEvent]], name: BatchName = FIRST, query: str = "q", *, rejects: bool = False
) -> Part:
    """Hand in chunks, and return the upload as a batch names it."""
    upload = hub.staging.open(name, query)
    assert isinstance(upload, str)
    digests, valid = [], 0
    for number, chunk in enumerate(chunks):
        digest = digest_of(b"".join(bytes(each.data) for each in chunk))
        kept, _ = hub.staging.add(name.event_type, upload, number, Handed(chunk), digest, rejects=rejects)
        digests.append(digest)
        valid += kept.events
    return Part(upload, len(chunks), valid, digest_of(b"".join(digests)))


def published(hub: Hub, *parts: Part, name: BatchName = FIRST, query: str = "q") -> Done:
    return hub.staging.publish(name, query, parts)


def stored(hub: Hub) -> dict[int, list[int]]:
    """The numbers in the log, by partition, in their order."""
    feed, heads = hub.heads(NAME)
    found = {}
    with hub.store.read() as tx:
        for number, partition_id in enumerate(feed.partition_ids):
            stop = heads[partition_id].next_offset
            body = tx.events.lines(partition_id, 0, stop, Frame("", "\n", ""), None).body
            found[number] = [json.loads(line)["n"] for line in body.splitlines()]
    return found


def test_a_batch_is_published_in_the_order_of_its_uploads(hub: Hub) -> None:
    second = handed_in(hub, [events(range(4, 6)), events(range(6, 8))])
    first = handed_in(hub, [events(range(4))])
    assert stored(hub) == {0: [], 1: []}

    done = published(hub, first, second)

    assert stored(hub) == {0: [0, 2, 4, 6], 1: [1, 3, 5, 7]}
    assert done.appended == done.batch.events == 8
    assert json.loads(done.batch.offsets) == {"0": [[0, 3]], "1": [[0, 3]]}


def test_a_batch_that_is_published_again_is_what_it_was_whatever_is_handed_in(hub: Hub) -> None:
    before = published(hub, handed_in(hub, [events(range(4))]))

    assert hub.staging.open(FIRST, "q") == before.batch
    assert published(hub, Part("0" * 32, 1, 99, b"0" * 16)) == Done(before.batch, 0)
    assert hub.staging.batch(FIRST) == before.batch
    assert stored(hub) == {0: [0, 2], 1: [1, 3]}


def test_uploads_that_are_not_named_are_not_published(hub: Hub) -> None:
    handed_in(hub, [events(range(100, 104))])
    published(hub, handed_in(hub, [events(range(2))]))

    assert stored(hub) == {0: [0], 1: [1]}


def test_an_empty_batch_is_in_the_ledger(hub: Hub) -> None:
    assert published(hub, handed_in(hub, [])).batch.is_done
    assert published(hub, name=FIRST._replace(number=1)).batch.is_done
    assert [each.number for each in hub.staging.batches(NAME, "g", 9)] == [1, 0]


@pytest.mark.parametrize("failing", range(8))
def test_a_large_batch_goes_on_where_it_was(hub: Hub, forwarding: ForwardingStore, failing: int) -> None:
    part = handed_in(hub, [events(range(at, at + 4)) for at in range(0, 32, 4)])
    before = forwarding.writes

    def fail(number: int) -> None:
        if number == before + 1 + failing:
            raise DatabaseUnavailable(reason="away", retry_after=1)

    forwarding.at_write = fail
    if failing < 5:
        with pytest.raises(DatabaseUnavailable):
            published(hub, part)
        seen = stored(hub)
        assert sum(map(len, seen.values())) % 8 == 0, "a piece is there as a whole"

    done = published(hub, part)

    assert stored(hub) == {0: [*range(0, 32, 2)], 1: [*range(1, 32, 2)]}
    assert (done.batch.events, done.batch.chunks) == (32, 8)


def test_many_who_publish_one_batch_publish_it_once(hub: Hub) -> None:
    part = handed_in(hub, [events(range(at, at + 4)) for at in range(0, 80, 4)])

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: published(hub, part), range(4)))

    assert stored(hub) == {0: [*range(0, 80, 2)], 1: [*range(1, 80, 2)]}
    assert sum(each.appended for each in done) == 80
    assert {each.batch.id for each in done} == {done[0].batch.id}


def test_two_hubs_publish_one_batch_once(hub: Hub, forwarding: ForwardingStore) -> None:
    other = Hub(forwarding)
    part = handed_in(hub, [events(range(at, at + 4)) for at in range(0, 80, 4)])

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda each: published(each, part), [hub, other]))

    assert stored(hub) == {0: [*range(0, 80, 2)], 1: [*range(1, 80, 2)]}
    assert sum(each.appended for each in done) == 80


def test_a_commit_of_which_nobody_knows_is_looked_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    part = handed_in(hub, [events(range(4))])
    submit: Callable[..., Any] = hub._committer.submit

    def lose(request: Any) -> Any:
        future = submit(request)
        future.exception()
        future._exception = OutcomeUnknown(reason="the line broke")
        return future

    monkeypatch.setattr(hub.staging, "_submit", lose)

    assert published(hub, part).batch.is_done
    assert stored(hub) == {0: [0, 2], 1: [1, 3]}


def test_a_batch_that_gets_no_further_is_told(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    part = handed_in(hub, [events(range(4))])
    monkeypatch.setattr(hub.staging, "_request", lambda *_: None)

    with pytest.raises(DatabaseUnavailable, match="does not get any further"):
        published(hub, part)


@pytest.mark.parametrize(
    ("name", "query", "error"),
    [
        (FIRST, "other", BatchOfAnotherQuery),
        (FIRST._replace(number=8), "other", BatchOfAnotherQuery),
        (FIRST._replace(number=3), "q", BatchSuperseded),
        (FIRST._replace(event_type="other"), "q", EventTypeNotFound),
    ],
)
def test_a_batch_that_cannot_be_is_refused_before_and_after_its_uploads(
    hub: Hub, name: BatchName, query: str, error: type[PenstockError]
) -> None:
    late = handed_in(hub, [events(range(100, 102))], FIRST._replace(number=3))
    for number in (0, 5):
        published(
            hub, handed_in(hub, [events(range(2))], FIRST._replace(number=number)), name=FIRST._replace(number=number)
        )
    before = stored(hub)

    with pytest.raises(error):
        hub.staging.open(name, query)
    with pytest.raises(error):
        published(hub, late, name=name, query=query)
    assert stored(hub) == before


def test_groups_and_event_types_do_not_know_each_other(hub: Hub) -> None:
    for group, query in (("g", "q"), ("h", "r")):
        name = BatchName(NAME, group, 0)
        published(hub, handed_in(hub, [events(range(2))], name, query), name=name, query=query)

    assert stored(hub) == {0: [0, 0], 1: [1, 1]}


def test_a_batch_waits_for_the_one_before(hub: Hub, forwarding: ForwardingStore) -> None:
    part = handed_in(hub, [events(range(at, at + 8)) for at in range(0, 32, 8)])
    before = forwarding.writes

    def fail(number: int) -> None:
        if number == before + 3:
            raise DatabaseUnavailable(reason="away", retry_after=1)

    forwarding.at_write = fail
    with pytest.raises(DatabaseUnavailable):
        published(hub, part)

    with pytest.raises(BatchUnfinished) as refused:
        published(hub, name=FIRST._replace(number=1))
    assert refused.value.fields["newest"] == 0
    with pytest.raises(BatchUnfinished):
        hub.staging.open(FIRST._replace(number=1), "q")
    assert not isinstance(hub.staging.open(FIRST, "q"), str), "what it is made of is settled"
    published(hub)
    assert published(hub, name=FIRST._replace(number=1)).batch.is_done
    assert stored(hub)[0] == [*range(0, 32, 2)]


def test_who_forgets_the_batches_lets_another_query_go_on(hub: Hub) -> None:
    published(hub, handed_in(hub, [events(range(2))]))

    assert hub.staging.forget(NAME, "g") == 1
    with pytest.raises(BatchNotFound):
        hub.staging.batch(FIRST)
    published(hub, handed_in(hub, [events(range(2))], query="new"), query="new")
    assert stored(hub) == {0: [0, 0], 1: [1, 1]}


def test_an_invalid_event_refuses_its_chunk(hub: Hub) -> None:
    upload = hub.staging.open(FIRST, "q")
    assert isinstance(upload, str)
    wrong = [*events(range(2)), NewEvent.of(b'{"n":"x"}', partition=0)]

    with pytest.raises(InvalidEvent, match="line 3"):
        hub.staging.add(NAME, upload, 0, Handed(wrong), b"0" * 16, rejects=False)
    with hub.store.read() as tx:
        found = tx.staging.find(NAME, upload)
        assert found is not None
        assert tx.staging.chunks([found.id]) == []


def test_what_is_rejected_is_kept_among_the_rejected_once_it_is_published(hub: Hub) -> None:
    wrong = NewEvent.of(b'{"n":"x"}', partition=0, key="k", headers={"h": "1"})
    part = handed_in(hub, [[*events(range(2)), wrong], [wrong]], rejects=True)
    assert part.events == 2
    with hub.store.read() as tx:
        assert tx.rejected.count(9) == 0

    done = published(hub, part)
    published(hub, part)

    assert (done.batch.events, done.batch.rejected) == (2, 2)
    assert stored(hub) == {0: [0], 1: [1]}
    with hub.store.read() as tx:
        rows = tx.rejected.list(9, newest=False)
    assert [(row.event_type, row.data, row.key, row.headers, row.partition) for row in rows] == [
        (NAME, '{"n":"x"}', "k", '{"h":"1"}', 0)
    ] * 2
    assert "Integer" in rows[0].reason


def test_what_was_valid_when_it_was_handed_in_is_published(hub: Hub) -> None:
    part = handed_in(hub, [events(range(2))])
    hub.add_schema(NAME, schema(required=["n", "more"]))

    published(hub, part)

    assert stored(hub) == {0: [0], 1: [1]}


def test_events_are_placed_and_completed_when_they_are_published(hub: Hub) -> None:
    name = BatchName("order.changed", "g", 0)
    hub.create_event_type(
        an_event_type(name.event_type, category="business", partition_strategy="hash", partition_key_fields=["n"])
    )
    metadata = b'"metadata":{"eid":"105a76d8-db49-4144-ace7-e683e8f4ba46","occurred_at":"2026-11-20T10:00:00Z"}'
    part = handed_in(hub, [[NewEvent.of(b'{"n":%d,%s}' % (n, metadata)) for n in range(8)]], name)
    hub.grow_event_type(name.event_type, 4)

    done = published(hub, part, name=name)

    assert len(json.loads(done.batch.offsets)) > 1, "by as many partitions as there are now"
    feed, heads = hub.heads(name.event_type)
    with hub.store.read() as tx:
        partition = next(number for number, each in enumerate(feed.partition_ids) if heads[each].next_offset)
        body = tx.events.lines(feed.partition_ids[partition], 0, 1, Frame("", "\n", ""), None).body
    assert json.loads(body)["metadata"]["partition"] == str(partition)


def test_an_event_type_that_takes_no_such_events_any_more_is_told_and_nothing_is_lost(hub: Hub) -> None:
    part = handed_in(hub, [events(range(2))])
    definition = hub.event_type(NAME).event_type.definition
    hashed = {**definition, "partition_strategy": "hash", "partition_key_fields": ["missing"]}
    hub.replace_event_type(NAME, hashed, allow_reordering=True)
    with pytest.raises(PartitionRefused):
        published(hub, part)
    assert stored(hub) == {0: [], 1: []}

    keyed = {**hub.event_type(NAME).event_type.definition, "partition_key_fields": ["n"]}
    hub.replace_event_type(NAME, keyed, allow_reordering=True)
    assert published(hub).batch.events == 2


def test_staged_event_without_metadata_is_refused_once_its_event_type_needs_metadata(hub: Hub) -> None:
    part = handed_in(hub, [events(range(2))])
    definition = hub.event_type(NAME).event_type.definition
    hub.replace_event_type(
        NAME, {**definition, "category": "business", "enrichment_strategies": ["metadata_enrichment"]}
    )

    with pytest.raises(InvalidEvent, match="no metadata, which events of the category business need"):
        published(hub, part)

    assert stored(hub) == {0: [], 1: []}


def test_an_upload_has_to_be_what_is_said(hub: Hub) -> None:
    part = handed_in(hub, [events(range(2)), events(range(2, 4))])
    other = handed_in(hub, [events(range(2))], FIRST._replace(group="other"))
    for wrong, error in (
        (part._replace(chunks=1), UploadIncomplete),
        (part._replace(chunks=3), UploadIncomplete),
        (part._replace(events=5), UploadIncomplete),
        (part._replace(digest=b"0" * 16), UploadIncomplete),
        (part._replace(name="0" * 32), UploadNotFound),
        (other, UploadNotFound),
    ):
        with pytest.raises(error):
            published(hub, wrong)
    with pytest.raises(UploadIncomplete, match="named twice"):
        published(hub, part, part)
    with pytest.raises(BatchNotFound):
        hub.staging.batch(FIRST)

    assert published(hub, part).batch.events == 4


def test_a_chunk_is_handed_in_once_and_not_after_it_is_published(hub: Hub) -> None:
    part = handed_in(hub, [events(range(2))])
    chunk = Handed(events(range(2)))
    same = digest_of(b"".join(bytes(each.data) for each in chunk.events))
    kept, _ = hub.staging.add(NAME, part.name, 0, chunk, same, rejects=False)
    assert kept.events == 2
    with pytest.raises(ChunkDiffers):
        hub.staging.add(NAME, part.name, 0, Handed(events(range(3))), b"1" * 16, rejects=False)

    published(hub, part)
    with pytest.raises((UploadTaken, UploadNotFound)):
        hub.staging.add(NAME, part.name, 1, chunk, same, rejects=False)


def test_an_upload_that_was_dropped_is_gone(hub: Hub) -> None:
    part = handed_in(hub, [events(range(2))])
    hub.staging.drop(NAME, part.name)

    with pytest.raises(UploadNotFound):
        published(hub, part)
    with pytest.raises(UploadNotFound):
        hub.staging.drop(NAME, part.name)


def test_there_are_not_too_many_uploads(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "UPLOADS_MAX", 2)
    part = handed_in(hub, [events(range(2))])
    handed_in(hub, [])

    with pytest.raises(TooManyUploads):
        hub.staging.open(FIRST, "q")
    published(hub, part)
    assert isinstance(hub.staging.open(FIRST._replace(number=1), "q"), str)


def test_an_event_type_that_was_created_again_has_no_batches(hub: Hub) -> None:
    part = handed_in(hub, [events(range(2))])
    published(hub, part)
    waiting = handed_in(hub, [events(range(2))], FIRST._replace(number=1))
    definition = hub.event_type(NAME).event_type.definition
    hub.delete_event_type(NAME)
    hub.create_event_type({**definition, "partition_count": 2})

    with pytest.raises(BatchNotFound):
        hub.staging.batch(FIRST)
    with pytest.raises(UploadNotFound):
        published(hub, waiting, name=FIRST._replace(number=1))
    published(hub, handed_in(hub, [events(range(4))]))
    assert stored(hub) == {0: [0, 2], 1: [1, 3]}
