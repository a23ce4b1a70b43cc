"""The contract of idempotent producers, as the table in docs/guides/idempotent-publishing.md lists it."""

import inspect
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.client import (
    AsyncClient,
    AsyncIdempotentProducer,
    Client,
    Event,
    IdempotentProducer,
    PartitionPublishingOptions,
    PublishingProperties,
    PublishResult,
)
from penstock.core.events.event import NewEvent
from penstock.errors import (
    AlreadyUsed,
    BadParameter,
    Conflict,
    InvalidEvent,
    MalformedEvent,
    PartitionNotFound,
    PayloadMismatch,
    ProducerNotFound,
    RetriesExhausted,
)
from tests.faults.either import Handle
from tests.faults.proxy import Held, lost, refusing, unanswered
from tests.faults.scene import NOT_STORED, Scene, failure_of, ids, starting, stored
from tests.promises.scene import until

# Creation


def test_idempotent_publishing_is_a_class_that_no_option_switches_on_or_off() -> None:
    sync, async_ = (
        inspect.signature(kind.__init__).parameters for kind in (IdempotentProducer, AsyncIdempotentProducer)
    )
    assert list(sync) == list(async_)
    named = [*sync, *inspect.signature(Client.publish).parameters]
    assert [name for name in named if "idempotent" in name or "enable" in name] == []


def test_producer_copies_its_options(scene: Scene) -> None:
    options = {0: PartitionPublishingOptions(epoch=4)}
    mine = scene.producer(partition_options=options)
    options[0] = PartitionPublishingOptions(epoch=9)

    assert mine.properties(0).epoch == 4
    with pytest.raises(AttributeError):
        options[0].epoch = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("producer_group", ""),
        ("producer_group", "a b"),
        ("producer_group", ".."),
        ("delivery_timeout", 0),
        ("delivery_timeout", float("nan")),
        ("attempt_timeout", -1.0),
        ("cancel_grace_seconds", -0.1),
        ("on_unknown", "ignore"),
        ("partition_options", {"0": PartitionPublishingOptions()}),
        ("partition_options", {-1: PartitionPublishingOptions()}),
        ("partition_options", {0: {"epoch": 4}}),
    ],
)
def test_producer_with_an_invalid_option_is_refused(name: str, value: Any) -> None:
    with Client("http://localhost:1") as client:
        for kind, given in ((IdempotentProducer, client), (AsyncIdempotentProducer, AsyncClient("http://localhost:1"))):
            with pytest.raises(BadParameter) as refused:
                kind(given, "order.placed", **{name: value})  # type: ignore[arg-type]
            assert refused.value.parameter == name


@pytest.mark.parametrize("given", [{"epoch": -1}, {"starting_sequence": -1}, {"epoch": "4"}])
def test_partition_options_with_an_invalid_value_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadParameter) as refused:
        PartitionPublishingOptions(**given)
    assert refused.value.parameter in given


def test_producer_with_a_client_of_the_other_kind_is_refused() -> None:
    with Client("http://localhost:1") as client:
        for kind, given in ((AsyncIdempotentProducer, client), (IdempotentProducer, AsyncClient("http://localhost:1"))):
            with pytest.raises(BadParameter, match="Client"):
                kind(given, "order.placed")  # type: ignore[arg-type]


def test_partition_begins_with_the_number_and_the_epoch_that_are_asked_for(wide: Scene) -> None:
    options = {0: PartitionPublishingOptions(starting_sequence=1000), 1: PartitionPublishingOptions(epoch=5)}
    mine = wide.producer(partition_options=options)

    assert mine.send(ids(1, 2), partition=0) == stored(1000, (0, 1))
    assert mine.send(ids(3), partition=1) == stored(0, (0, 0), epoch=5, partition=1)
    assert mine.send(ids(4), partition=2) == stored(0, (0, 0), partition=2)

    assert mine.properties(0).last_published_sequence == 1001
    shown = wide.raw(partition=0).shown()
    assert (shown["epoch"], shown["next_sequence"]) == (0, 1002)


def test_epoch_after_the_first_begins_with_number_0(scene: Scene) -> None:
    mine = scene.producer(**starting(None, 1000))
    scene.leave_in_doubt(mine, ids(1))

    assert mine.send(ids(2), partition=0) == stored(0, (0, 0), epoch=1)


# Partitions


def test_send_without_a_valid_partition_is_refused(scene: Scene, mine: Handle) -> None:
    failure_of(lambda: mine.send(ids(1)), BadParameter, event_type=scene.name)
    with pytest.raises(TypeError, match="key"):
        mine.send(ids(1), partition=0, key="k")
    for partition in (-1, "0", True, 1.0):
        failure_of(lambda given=partition: mine.send(ids(1), partition=given), BadParameter, parameter="partition")  # type: ignore[misc]

    parameters = inspect.signature(IdempotentProducer.send).parameters
    assert set(parameters) == {"self", "events", "partition", "cancel", "timeout"}
    assert scene.line.asked == []


def test_batch_is_sent_to_its_own_partition_and_event_type_only(wide: Scene, scene: Scene) -> None:
    mine = wide.producer()
    batch = mine.batch(2, *ids(1))

    failure_of(lambda: mine.send(batch, partition=1), BadParameter, parameter="partition")
    failure_of(lambda: scene.producer().send(batch), BadParameter, parameter="events")

    assert mine.send(batch, partition=2) == stored(0, (0, 0), partition=2)
    assert (wide.log(2), scene.log()) == ([1], [])


def test_key_of_an_event_does_not_choose_its_partition(wide: Scene) -> None:
    """The key is stored with the event; the hub refuses an event that names another partition."""
    mine = wide.producer()
    own = NewEvent.of(b'{"id":2}', key="k", headers={"h": "1"})

    mine.send([Event({"id": 1}, key="k"), own], partition=3)

    assert wide.log(3) == [1, 2]
    elsewhere, told = NewEvent.of(b'{"id":3}', partition=1), {"partition": 3, "outcome": "not_stored"}
    error = failure_of(lambda: mine.send(elsewhere, partition=3), InvalidEvent, **told)
    assert error.code == "partition-refused"


def test_partitions_are_independent(wide: Scene) -> None:
    """Partition 0 is poisoned, 1 in doubt, 2 busy: 3 goes on."""
    mine = wide.producer()
    mine.send(ids(1), partition=0)
    wide.raw().appends(1, [2])
    failure_of(lambda: mine.send(ids(3), partition=0), PayloadMismatch)
    wide.leave_in_doubt(mine, ids(4), NOT_STORED, partition=1)
    wide.line.does(held := Held())
    busy = mine.begin(ids(5), partition=2)
    held.wait()

    for number in range(3):
        assert mine.send(ids(6 + number), partition=3) == stored(number, (number, number), partition=3)

    held.let_go()
    assert busy.result(300) == stored(0, (0, 0), partition=2)
    assert [wide.log(partition) for partition in range(4)] == [[1, 2], [], [5], [6, 7, 8]]
    assert mine.close().unresolved == [1]


# Groups


def test_unnamed_group_is_the_same_for_all_partitions(wide: Scene) -> None:
    mine, other = wide.producer(group=None), wide.producer(group=None)
    sent = [mine.begin(ids(partition), partition=partition) for partition in range(4)]
    assert [each.result(300).count for each in sent] == [1, 1, 1, 1]

    other.send(ids(9), partition=0)

    assert mine.group is not None and other.group not in (None, mine.group)
    assert {mine.properties(partition).producer_group for partition in range(4)} == {mine.group}


def test_producer_is_refused_in_a_forked_process(mine: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parent and child would give the same numbers to different events."""
    mine.send(ids(1), partition=0)
    parent = os.getpid()

    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    failure_of(lambda: mine.send(ids(2), partition=0), Conflict)

    monkeypatch.undo()
    assert mine.send(ids(2), partition=0) == stored(1, (1, 1))


# Numbers


def test_events_and_batches_are_numbered_when_they_are_sent(wide: Scene) -> None:
    mine = wide.producer()
    events = [Event(each) for each in ids(*range(6))]
    first, second = mine.batch(1, *events[:2]), mine.batch(1, events[2], {"id": 7})

    mine.send(second)
    mine.send(events[4:], partition=2)
    mine.send(events[3], partition=1)
    mine.send(first)

    assert [event.published_sequence for event in events] == [3, 4, 0, 2, 0, 1]
    assert [event.published_partition for event in events] == [1, 1, 1, 1, 2, 2]
    assert (wide.log(1), wide.log(2)) == ([2, 7, 3, 0, 1], [4, 5])


def test_threads_share_a_producer_without_coordination(wide: Scene) -> None:
    mine = wide.producer()
    with ThreadPoolExecutor(6) as threads:
        sent = list(threads.map(lambda n: mine.send(ids(10 * n, 10 * n + 1), partition=n % 2), range(24)))

    for partition in range(2):
        own = sorted((each.first_sequence, each.offsets[0].first) for each in sent if each.partition == partition)
        assert own == [(number, number) for number in range(0, 24, 2)]
        assert sorted(wide.log(partition)) == [10 * n + at for n in range(partition, 24, 2) for at in range(2)]


def test_send_of_nothing_asks_for_nothing(scene: Scene, mine: Handle) -> None:
    for nothing in ([], iter(()), mine.batch(0)):
        assert mine.send(nothing, partition=0) == PublishResult(0, 0, 0, 0, (), duplicate=False, attempts=0)

    assert [each.method for each in scene.line.asked] == ["GET"], "the event type's category, for the batch"


def test_events_and_batches_know_their_numbers_after_success_only(scene: Scene, mine: Handle) -> None:
    scene.change(schema={"type": "json_schema", "schema": '{"required": ["id"]}'}, compatibility_mode="none")
    good, bad = Event({"id": 1}), Event({"no": 1})
    batch = mine.batch(0, good, bad)
    for fates, kind, outcome in (
        ([], InvalidEvent, "not_stored"),
        ([lost], InvalidEvent, "unknown"),
        ([lost, unanswered], RetriesExhausted, "unknown"),
    ):
        scene.line.does(*fates)
        failure_of(lambda: mine.send(batch), kind, partition=0, outcome=outcome)
        assert (good.published_sequence, bad.published_sequence, batch.starting_published_sequence) == (None,) * 3
        assert good.published_group is good.published_epoch is good.published_offset is None
        mine.resolve(0)

    assert mine.send(good, partition=0) == stored(0, (0, 0), epoch=2)

    assert (good.published_group, good.published_partition, good.published_offset) == ("mine", 0, 0)
    assert (good.published_sequence, bad.published_sequence, batch.starting_published_sequence) == (0, None, None)
    whole = mine.batch(0, *ids(2, 3))
    assert mine.send(whole) == whole.result == stored(1, (1, 2), epoch=2)
    assert (whole.starting_published_sequence, list(whole.published_sequences)) == (1, [1, 2])
    assert scene.log() == [1, 2, 3]


def test_publishing_properties_tell_group_epoch_and_last_number(wide: Scene) -> None:
    mine = wide.producer()
    assert mine.properties(1) == PublishingProperties(1, "mine", 0, None, 0, None)
    mine.send(ids(1, 2, 3), partition=1)
    wide.feed.publish({"id": 4}, partition=1)
    mine.send(ids(5), partition=1)
    asked = len(wide.line.asked)

    assert mine.properties(1) == PublishingProperties(1, "mine", 0, 3, 4, 4)

    assert len(wide.line.asked) == asked, "they are known"
    assert mine.properties(1, refresh=True) == mine.properties(1)
    assert mine.properties(0) == PublishingProperties(0, "mine", 0, None, 0, None)
    wide.producer().send(ids(6), partition=1)
    assert mine.properties(1).epoch == 0
    assert mine.properties(1, refresh=True) == PublishingProperties(1, "mine", 1, 0, 1, 5)


def test_publishing_properties_of_a_partition_that_has_none_are_refused(scene: Scene, mine: Handle) -> None:
    failure_of(lambda: mine.properties(3), PartitionNotFound, partition=3)
    failure_of(lambda: mine.properties(-1), BadParameter, parameter="partition")
    mine.properties(0)
    scene.rows("DELETE FROM penstock_producer WHERE partition_id IN ({mine})")
    failure_of(lambda: mine.properties(0, refresh=True), ProducerNotFound)
    mine.close()
    failure_of(lambda: mine.properties(0), Conflict)


# Failures


@pytest.mark.parametrize(("status", "code"), [(403, "forbidden"), (413, "body-too-large")])
def test_permanent_error_fails_the_call_at_once_and_uses_no_number(
    scene: Scene, mine: Handle, status: int, code: str
) -> None:
    scene.line.does(refusing(status, code))

    with pytest.raises(Exception, match=code) as caught:
        mine.send(ids(1), partition=0)

    assert (caught.value.fields["outcome"], caught.value.fields["partition"]) == ("not_stored", 0)
    assert len(scene.line.batches) == 1
    assert mine.send(ids(2), partition=0) == stored(0, (0, 0))


def test_malformed_event_is_named_by_its_line(mine: Handle) -> None:
    events, told = [{"id": 1}, {"id": 2}, "x"], {"line": 3, "outcome": "not_stored"}
    failure_of(lambda: mine.send(events, partition=0), MalformedEvent, **told)

    assert mine.send(ids(1), partition=0) == stored(0, (0, 0))


# Repeats by the caller


def test_published_event_or_batch_is_refused_by_every_producer(wide: Scene) -> None:
    mine, other = wide.producer(), wide.producer(group="other")
    event, batch = Event({"id": 1}), mine.batch(1, *ids(2, 3))
    mine.send(event, partition=0)
    mine.send(batch)
    asked = len(wide.line.asked)

    for producer in (mine, other):
        failure_of(lambda to=producer: to.send(event, partition=0), AlreadyUsed, partition=0, sequence=0)  # type: ignore[misc]
        failure_of(lambda to=producer: to.send([{"id": 4}, event], partition=2), AlreadyUsed)  # type: ignore[misc]
        failure_of(lambda to=producer: to.send(batch), AlreadyUsed, partition=1, sequence=0)  # type: ignore[misc]
    failure_of(lambda: batch.try_add({"id": 5}), AlreadyUsed)
    failure_of(lambda: mine.send([Event(1), *batch.events], partition=1), AlreadyUsed)

    assert len(wide.line.asked) == asked
    assert wide.log(0) + wide.log(1) == [1, 2, 3]


def test_event_is_published_by_one_of_two_calls_at_a_time(scene: Scene, mine: Handle) -> None:
    event, batch = Event({"id": 1}), mine.batch(0, *ids(2, 3))
    scene.line.does(held := Held())
    first = mine.begin(event, partition=0)
    held.wait()
    again = mine.begin([event, {"id": 9}], partition=0)
    third = mine.begin(batch)
    until(lambda: mine.waiting(0) == 2, "both wait for their turn")
    failure_of(lambda: mine.send(batch), Conflict)
    held.let_go()

    assert first.result(300).count == 1
    failure_of(lambda: again.result(300), AlreadyUsed, partition=0, sequence=0, outcome="not_stored")
    assert third.result(300) == stored(1, (1, 2)) == batch.result
    assert scene.log() == [1, 2, 3]


def test_event_is_refused_twice_in_one_set(mine: Handle) -> None:
    one, two = Event({"id": 1}), Event({"id": 2})
    batch = mine.batch(0, one, two)

    failure_of(lambda: mine.send([one, two, one], partition=0), BadParameter, parameter="events")
    failure_of(lambda: batch.try_add(one), BadParameter, parameter="event")

    assert mine.send(batch) == stored(0, (0, 1))
