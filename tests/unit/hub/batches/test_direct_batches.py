"""Direct batches: tasks publish their events themselves, and a batch is complete when it has what they counted."""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from penstock.core.events.event import NewEvent
from penstock.core.producers import EpochClaim, ProducerStamp
from penstock.errors import (
    BatchFenced,
    BatchNotFound,
    BatchUnfinished,
    EventTypeNotFound,
    InvalidEvent,
    LimitReached,
    PayloadMismatch,
    ProducerFenced,
)
from penstock.hub.batches import direct
from penstock.hub.hub import Hub
from penstock.hub.log.publish import AppendResult, BatchName, ProducerName
from penstock.hub.producers import sequencing
from penstock.storage import Store
from penstock.storage.batches import LedgerBatch
from penstock.testing.factories import an_event_type
from tests.failing import has_code
from tests.store_contract.database import together
from tests.unit.hub.feeds import read_data

NAME = "order.placed"
FIRST = BatchName(NAME, "g", 0)


def make_hub(store: Store) -> Hub:
    hub = Hub(store)
    hub.registry.create(an_event_type(NAME, partition_count=2, partition_strategy="user_defined"))
    return hub


@pytest.fixture
def hub(store: Store) -> Iterator[Hub]:
    hub = make_hub(store)
    yield hub
    hub.stop()


@pytest.fixture
def either_hub(either_store: Store) -> Iterator[Hub]:
    """A hub over SQLite and over PostgreSQL in turn."""
    hub = make_hub(either_store)
    yield hub
    hub.stop()


def send(hub: Hub, batch: LedgerBatch, partition: int, numbers: range, name: BatchName = FIRST) -> AppendResult:
    """Publish events that are *numbers*, under these sequence numbers."""
    assert batch.epoch is not None
    events = [NewEvent.of(b'{"n":%d}' % number) for number in numbers]
    stamp = ProducerStamp(batch.epoch, numbers.start)
    published = hub.producers.submit(
        ProducerName(name.event_type, partition, name.group), stamp, events, trims=True
    ).result()
    assert published is not None
    return published


def read_offsets(batch: LedgerBatch) -> object:
    return json.loads(batch.offsets)


def begin_and_complete(hub: Hub, number: int, events: int = 0) -> int | None:
    """Publish a batch of that number, and return its epoch."""
    name = FIRST._replace(number=number)
    begun = hub.batches.direct.begin(name, "q")
    if events:
        send(hub, begun, 0, range(events))
    hub.batches.direct.complete(name, "q", {0: events})
    return begun.epoch


def test_batch_is_published_by_its_tasks_and_then_stays_the_same(either_hub: Hub) -> None:
    begun = either_hub.batches.direct.begin(FIRST, "q")
    assert (begun.partitions, begun.epoch, begun.is_done) == (2, 0, False)
    send(either_hub, begun, 1, range(3))
    send(either_hub, begun, 1, range(3, 5))

    done = either_hub.batches.direct.complete(FIRST, "q", {1: 5})

    assert done.is_done
    assert (done.events, read_offsets(done)) == (5, {"1": [[0, 4]]})
    assert either_hub.batches.get_batch(FIRST) == done
    assert (
        either_hub.batches.direct.complete(FIRST, "q", {0: 99}) == either_hub.batches.direct.begin(FIRST, "q") == done
    )
    for partition in range(2):
        with pytest.raises(ProducerFenced):
            send(either_hub, begun, partition, range(5, 6))


def test_repeated_events_are_stored_once_and_other_events_refused(either_hub: Hub) -> None:
    begun = either_hub.batches.direct.begin(FIRST, "q")
    send(either_hub, begun, 0, range(4))
    assert either_hub.batches.direct.begin(FIRST, "q") == begun

    assert send(either_hub, begun, 0, range(6)).events == 2
    with pytest.raises(PayloadMismatch):
        either_hub.producers.submit(
            ProducerName(NAME, 0, "g"), ProducerStamp(0, 0), [NewEvent.of(b'{"n":-1}')]
        ).result()
    assert either_hub.batches.direct.complete(FIRST, "q", {0: 6}).events == 6


def test_concurrent_begins_of_a_batch_have_the_same_manifest(either_hub: Hub) -> None:
    found = together(*[partial(either_hub.batches.direct.begin, FIRST, "q")] * 4)

    assert set(found) == {either_hub.batches.get_batch(FIRST)}


def test_offsets_of_a_batch_leave_out_events_that_came_between(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "NUMBERS_AT_ONCE", 2)
    begun = hub.batches.direct.begin(FIRST, "q")
    for number in range(4):
        send(hub, begun, 0, range(number, number + 1))
        if number == 1:
            hub.log.publish(NAME, [NewEvent.of(b"{}", partition=0)])

    assert read_offsets(hub.batches.direct.complete(FIRST, "q", {0: 4})) == {"0": [[0, 1], [3, 4]]}


def test_epoch_grows_with_each_batch(hub: Hub) -> None:
    assert [begin_and_complete(hub, number, events=2) for number in (0, 1, 5)] == [0, 1, 2]


@pytest.mark.parametrize("counts", [{0: 1}, {0: 3}, {}, {0: 2, 1: 1}, {0: 2, 9: 1}])
def test_batch_with_other_counts_is_not_complete(hub: Hub, counts: dict[int, int]) -> None:
    begun = hub.batches.direct.begin(FIRST, "q")
    send(hub, begun, 0, range(2))

    with pytest.raises(BatchUnfinished, check=has_code("batch-incomplete")) as refused:
        hub.batches.direct.complete(FIRST, "q", counts)
    at = refused.value.partition
    assert (refused.value.counted, refused.value.stored) == (counts.get(at, 0), 0 if at else 2)
    assert not hub.batches.get_batch(FIRST).is_done
    hub.batches.direct.complete(FIRST, "q", {0: 2})


def test_batches_of_a_group_are_begun_in_order_by_one_query(hub: Hub) -> None:
    hub.batches.direct.begin(FIRST, "q")
    with pytest.raises(BatchUnfinished):
        hub.batches.direct.begin(FIRST._replace(number=1), "q")
    with pytest.raises(BatchNotFound):
        hub.batches.direct.complete(FIRST._replace(group="other"), "q", {})
    for call in (hub.batches.direct.begin, lambda *batch: hub.batches.direct.complete(*batch, {})):
        with pytest.raises(BatchFenced, check=has_code("batch-of-another-query")):
            call(FIRST, "other")
    hub.batches.direct.complete(FIRST, "q", {})
    begin_and_complete(hub, 1)

    hub.batches.forget(NAME, "g")
    begin_and_complete(hub, 3)
    with pytest.raises(BatchFenced, check=has_code("batch-superseded")):
        hub.batches.direct.begin(FIRST._replace(number=2), "q")
    with pytest.raises(EventTypeNotFound):
        hub.batches.direct.begin(FIRST._replace(event_type="other"), "q")


def test_batch_is_published_to_its_end_in_the_mode_in_which_it_was_begun(hub: Hub) -> None:
    hub.batches.direct.begin(FIRST, "q")
    with pytest.raises(BatchUnfinished, check=has_code("batch-of-another-mode"), match="in mode direct"):
        hub.batches.open(FIRST, "q")
    hub.batches.direct.complete(FIRST, "q", {})
    assert hub.batches.publish(FIRST, "q", []).appended == 0, "it is published"

    staged = FIRST._replace(number=1)
    hub.batches.publish(staged, "q", [])
    assert hub.batches.direct.begin(staged, "q").is_done


def test_unfinished_batch_is_forgotten_on_demand_and_begins_again_in_the_next_epoch(either_hub: Hub) -> None:
    begun = either_hub.batches.direct.begin(FIRST, "q")
    send(either_hub, begun, 0, range(3))
    either_hub.admin.settings.switch("audit_log_collection", on=True)
    assert either_hub.batches.forget(NAME, "g") == 0
    assert either_hub.batches.forget(NAME, "g", unfinished=True) == 1
    log = either_hub.registry.load("nakadi.audit.log")
    _, deletion = [json.loads(line) for each in log.partition_ids for line in read_data(either_hub.store, each)]
    assert (deletion["resource_type"], deletion["resource_id"], deletion["action"]) == ("batches", "g", "deleted")
    assert deletion["previous_object"].items() >= {"event_type": NAME, "batches": 1}.items()

    again = either_hub.batches.direct.begin(FIRST, "q")
    assert again.epoch == 1
    with pytest.raises(ProducerFenced):
        send(either_hub, begun, 0, range(3, 4))
    send(either_hub, again, 0, range(2))
    assert read_offsets(either_hub.batches.direct.complete(FIRST, "q", {0: 2})) == {"0": [[3, 4]]}


def test_batch_continues_the_epochs_of_its_group_and_a_later_claim_fences_it(hub: Hub) -> None:
    hub.producers.claim(ProducerName(NAME, 1, "g"), EpochClaim(epoch=7))

    assert hub.batches.direct.begin(FIRST, "q").epoch == 7, "nothing was published in it"
    hub.producers.claim(ProducerName(NAME, 0, "g"), EpochClaim(epoch=9))
    with pytest.raises(ProducerFenced, match="its epoch is now 9"):
        hub.batches.direct.complete(FIRST, "q", {})


def test_producers_of_batches_never_expire(hub: Hub) -> None:
    hub.batches.direct.begin(FIRST, "q")

    for partition in range(2):
        assert hub.producers.find(ProducerName(NAME, partition, "g")).expires_at is None


def test_batch_of_a_forgotten_producer_begins_in_a_later_epoch(hub: Hub) -> None:
    epoch = begin_and_complete(hub, 0)
    assert epoch is not None
    hub.producers.forget(ProducerName(NAME, 0, "g"))

    assert hub.batches.direct.begin(FIRST._replace(number=1), "q").epoch == epoch + 2


def test_groups_that_publish_batches_are_limited(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 1)
    hub.batches.direct.begin(FIRST, "q")

    with pytest.raises(LimitReached, check=has_code("too-many-producers")):
        hub.batches.direct.begin(FIRST._replace(group="other"), "q")
    assert hub.batches.list_batches(NAME, "other", 9) == []


def test_partitions_added_during_a_batch_are_used_by_the_next_one(hub: Hub) -> None:
    """A key that falls in an added partition still goes where the manifest says, for this batch alone."""
    name = FIRST._replace(event_type="by.key")
    strategy = {"partition_strategy": "hash", "partition_key_fields": ["n"]}
    hub.registry.create(an_event_type("by.key", partition_count=1, **strategy))
    begun = hub.batches.direct.begin(name, "q")
    send(hub, begun, 0, range(2), name)
    hub.registry.grow("by.key", 8)

    assert hub.batches.direct.begin(name, "q") == begun
    send(hub, begun, 0, range(2, 20), name)
    assert read_offsets(hub.batches.direct.complete(name, "q", {0: 20})) == {"0": [[0, 19]]}

    later = hub.batches.direct.begin(name._replace(number=1), "q")
    assert later.partitions == 8
    with pytest.raises(InvalidEvent, check=has_code("partition-refused"), match="belongs to partition"):
        send(hub, later, 0, range(20), name)
