"""Direct publishing, in a real hub over both databases: a batch is complete when it holds what its tasks counted."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.core.claim import Claim
from penstock.core.event import NewEvent
from penstock.core.producer import Stamp
from penstock.errors import (
    BatchIncomplete,
    BatchNotFound,
    BatchOfAnotherMode,
    BatchOfAnotherQuery,
    BatchSuperseded,
    BatchUnfinished,
    EventTypeNotFound,
    PartitionRefused,
    PayloadMismatch,
    ProducerFenced,
    TooManyProducers,
)
from penstock.hub import direct, sequencing
from penstock.hub.append import Published
from penstock.hub.hub import Hub
from penstock.hub.staged import BatchName
from penstock.hub.stamped import Who
from penstock.storage import Store
from penstock.storage.staging import Batch
from penstock.testing.factories import an_event_type

NAME = "order.placed"
FIRST = BatchName(NAME, "g", 0)


@pytest.fixture
def hub(either_store: Store) -> Iterator[Hub]:
    hub = Hub(either_store)
    hub.create_event_type(an_event_type(NAME, partition_count=2, partition_strategy="user_defined"))
    yield hub
    hub.stop()


def sent(hub: Hub, batch: Batch, partition: int, numbers: range, name: BatchName = FIRST) -> Published:
    """Publish events that are *numbers*, under these numbers."""
    assert batch.epoch is not None
    events = [NewEvent.of(b'{"n":%d}' % number) for number in numbers]
    stamp = Stamp(batch.epoch, numbers.start)
    published = hub.produce(Who(name.event_type, partition, name.group), stamp, events, trims=True).result()
    assert published is not None
    return published


def offsets(batch: Batch) -> object:
    return json.loads(batch.offsets)


def test_a_batch_is_published_by_its_tasks_and_completed(hub: Hub) -> None:
    begun = hub.direct.begin(FIRST, "q")
    assert (begun.partitions, begun.epoch, begun.is_done) == (2, 0, False)
    sent(hub, begun, 1, range(3))
    sent(hub, begun, 1, range(3, 5))

    done = hub.direct.complete(FIRST, "q", {1: 5})

    assert done.is_done
    assert (done.events, offsets(done)) == (5, {"1": [[0, 4]]})
    assert hub.staging.batch(FIRST) == done


def test_offsets_are_those_of_the_batch_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "NUMBERS_AT_ONCE", 2)
    begun = hub.direct.begin(FIRST, "q")
    for number in range(4):
        sent(hub, begun, 0, range(number, number + 1))
        if number == 1:
            hub.publish(NAME, [NewEvent.of(b"{}", partition=0)])

    assert offsets(hub.direct.complete(FIRST, "q", {0: 4})) == {"0": [[0, 1], [3, 4]]}


def test_what_is_sent_again_is_stored_once(hub: Hub) -> None:
    begun = hub.direct.begin(FIRST, "q")
    sent(hub, begun, 0, range(4))
    assert hub.direct.begin(FIRST, "q") == begun

    assert sent(hub, begun, 0, range(6)).events == 2
    with pytest.raises(PayloadMismatch):
        hub.produce(Who(NAME, 0, "g"), Stamp(0, 0), [NewEvent.of(b'{"n":-1}')]).result()
    assert hub.direct.complete(FIRST, "q", {0: 6}).events == 6


def test_a_batch_that_is_complete_stays_as_it_is_and_shuts_out_who_comes_late(hub: Hub) -> None:
    begun = hub.direct.begin(FIRST, "q")
    sent(hub, begun, 0, range(2))
    done = hub.direct.complete(FIRST, "q", {0: 2})

    assert hub.direct.complete(FIRST, "q", {0: 99}) == done
    assert hub.direct.begin(FIRST, "q") == done
    for partition in range(2):
        with pytest.raises(ProducerFenced):
            sent(hub, begun, partition, range(2, 3))


def test_epochs_grow_from_batch_to_batch_in_all_partitions(hub: Hub) -> None:
    epochs = []
    for number in (0, 1, 5):
        name = FIRST._replace(number=number)
        begun = hub.direct.begin(name, "q")
        epochs.append(begun.epoch)
        sent(hub, begun, 0, range(2))
        hub.direct.complete(name, "q", {0: 2})

    assert epochs == [0, 1, 2]


@pytest.mark.parametrize("counts", [{0: 1}, {0: 3}, {}, {0: 2, 1: 1}, {0: 2, 9: 1}])
def test_other_counts_do_not_complete_a_batch(hub: Hub, counts: dict[int, int]) -> None:
    begun = hub.direct.begin(FIRST, "q")
    sent(hub, begun, 0, range(2))

    with pytest.raises(BatchIncomplete) as told:
        hub.direct.complete(FIRST, "q", counts)
    at = told.value.fields["partition"]
    assert (told.value.fields["counted"], told.value.fields["stored"]) == (counts.get(at, 0), 0 if at else 2)
    assert not hub.staging.batch(FIRST).is_done
    hub.direct.complete(FIRST, "q", {0: 2})


def test_batches_come_in_their_order_and_are_of_one_query(hub: Hub) -> None:
    hub.direct.begin(FIRST, "q")
    later = FIRST._replace(number=1)
    with pytest.raises(BatchUnfinished):
        hub.direct.begin(later, "q")
    with pytest.raises(BatchNotFound):
        hub.direct.complete(FIRST._replace(group="other"), "q", {})
    for call in (hub.direct.begin, lambda *told: hub.direct.complete(*told, {})):
        with pytest.raises(BatchOfAnotherQuery):
            call(FIRST, "other")
    hub.direct.complete(FIRST, "q", {})
    hub.direct.complete(hub_begun(hub, later), "q", {})

    hub.staging.forget(NAME, "g")
    hub.direct.complete(hub_begun(hub, FIRST._replace(number=3)), "q", {})
    with pytest.raises(BatchSuperseded):
        hub.direct.begin(FIRST._replace(number=2), "q")
    with pytest.raises(EventTypeNotFound):
        hub.direct.begin(FIRST._replace(event_type="other"), "q")


def hub_begun(hub: Hub, name: BatchName) -> BatchName:
    hub.direct.begin(name, "q")
    return name


def test_a_batch_is_published_to_its_end_in_the_mode_it_was_begun_in(hub: Hub) -> None:
    hub.direct.begin(FIRST, "q")
    with pytest.raises(BatchOfAnotherMode, match="in mode direct"):
        hub.staging.open(FIRST, "q")
    hub.direct.complete(FIRST, "q", {})
    assert hub.staging.publish(FIRST, "q", []).appended == 0, "it is published"

    staged = FIRST._replace(number=1)
    hub.staging.publish(staged, "q", [])
    assert hub.direct.begin(staged, "q").is_done


def test_what_was_begun_is_forgotten_on_demand_and_begins_anew(hub: Hub) -> None:
    begun = hub.direct.begin(FIRST, "q")
    sent(hub, begun, 0, range(3))
    assert hub.staging.forget(NAME, "g") == 0
    assert hub.staging.forget(NAME, "g", unfinished=True) == 1

    again = hub.direct.begin(FIRST, "q")
    assert again.epoch == 1
    with pytest.raises(ProducerFenced):
        sent(hub, begun, 0, range(3, 4))
    sent(hub, again, 0, range(2))
    assert offsets(hub.direct.complete(FIRST, "q", {0: 2})) == {"0": [[3, 4]]}


def test_a_group_that_has_published_otherwise_goes_on_above_that(hub: Hub) -> None:
    hub.producers.claim(Who(NAME, 1, "g"), Claim(level=7))
    begun = hub.direct.begin(FIRST, "q")

    assert begun.epoch == 7, "nothing was published in it"
    hub.producers.claim(Who(NAME, 0, "g"), Claim(level=9))
    with pytest.raises(ProducerFenced, match="epoch 9 by now"):
        hub.direct.complete(FIRST, "q", {})


def test_producers_of_batches_never_expire(hub: Hub) -> None:
    hub.direct.begin(FIRST, "q")

    for partition in range(2):
        assert hub.producers.find(Who(NAME, partition, "g")).expires_at is None


def test_a_forgotten_producer_begins_anew(hub: Hub) -> None:
    begun = hub.direct.begin(FIRST, "q")
    hub.direct.complete(FIRST, "q", {})
    hub.producers.forget(Who(NAME, 0, "g"))

    again = hub.direct.begin(FIRST._replace(number=1), "q")
    assert again.epoch == begun.epoch + 2  # type: ignore[operator]


def test_there_are_only_so_many_groups(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 1)
    hub.direct.begin(FIRST, "q")
    with pytest.raises(TooManyProducers):
        hub.direct.begin(FIRST._replace(group="other"), "q")
    assert hub.staging.batches(NAME, "other", 9) == []


def test_partitions_that_come_later_are_not_of_the_batch(hub: Hub) -> None:
    """A key that falls in another partition by now still goes where the manifest says, for this batch alone."""
    name = FIRST._replace(event_type="by.key")
    hub.create_event_type(
        an_event_type("by.key", partition_count=1, partition_strategy="hash", partition_key_fields=["n"])
    )
    begun = hub.direct.begin(name, "q")
    sent(hub, begun, 0, range(2), name)
    hub.grow_event_type("by.key", 8)

    assert hub.direct.begin(name, "q") == begun
    sent(hub, begun, 0, range(2, 20), name)
    assert offsets(hub.direct.complete(name, "q", {0: 20})) == {"0": [[0, 19]]}

    later = hub.direct.begin(name._replace(number=1), "q")
    assert later.partitions == 8
    with pytest.raises(PartitionRefused, match="belongs to partition"):
        sent(hub, later, 0, range(20), name)


def test_who_begins_a_batch_at_the_same_time_gets_the_same_manifest(hub: Hub) -> None:
    with ThreadPoolExecutor(8) as racers:
        found = [each.result() for each in [racers.submit(hub.direct.begin, FIRST, "q") for _ in range(24)]]

    assert set(found) == {hub.staging.batch(FIRST)}
