"""What an idempotent producer is for, and what it does not do (digest of idempotent publishing, 4.9, C1 to C9)."""

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
    RetryPolicy,
)
from penstock.core.event import NewEvent
from penstock.errors import (
    AlreadyPublished,
    BadParameter,
    Conflict,
    InvalidEvent,
    MalformedEvent,
    PartitionNotFound,
    PartitionRefused,
    PartitionRequired,
    PayloadMismatch,
    ProducerNotFound,
    RetriesExhausted,
)
from tests.faults.proxy import Held, lost, refusing, unanswered
from tests.faults.scene import Scene, failure_of, ids, stored
from tests.promises.scene import until

TWICE = {"retry": RetryPolicy(max_attempts=2, max_delay=0.02)}


@pytest.mark.parametrize("kind", [IdempotentProducer, AsyncIdempotentProducer])
def test_c1_it_is_a_class_of_its_own_that_nothing_switches_on_or_off(kind: type[Any]) -> None:
    given = inspect.signature(kind.__init__).parameters
    assert [name for name in given if "idempotent" in name or "enable" in name] == []
    assert [name for name in inspect.signature(Client.publish).parameters if "idempotent" in name] == []
    for name in ("event_type", "producer_group"):
        assert vars(kind)[name].fset is None, "it stays what it was made with"
    settable = {name for name, value in vars(kind).items() if isinstance(value, property) and value.fset}
    assert settable == set()
    assert list(inspect.signature(IdempotentProducer.__init__).parameters) == list(
        inspect.signature(AsyncIdempotentProducer.__init__).parameters
    )


def test_c1_what_it_is_made_with_is_copied(scene: Scene) -> None:
    options = {0: PartitionPublishingOptions(owner_level=4)}
    mine = scene.producer(partition_options=options)
    options[0] = PartitionPublishingOptions(owner_level=9)

    assert mine.properties(0).owner_level == 4
    with pytest.raises(AttributeError):
        options[0].owner_level = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("producer_group", ""),
        ("producer_group", "a b"),
        ("delivery_timeout", 0),
        ("delivery_timeout", float("nan")),
        ("attempt_timeout", -1.0),
        ("cancel_grace", -0.1),
        ("on_unknown", "ignore"),
        ("producer_group", ".."),
        ("partition_options", {"0": PartitionPublishingOptions()}),
        ("partition_options", {-1: PartitionPublishingOptions()}),
        ("partition_options", {0: {"owner_level": 4}}),
    ],
)
def test_c1_what_it_cannot_be_made_with(kind: str, name: str, value: Any) -> None:
    with Client("http://localhost:1") as client, pytest.raises(BadParameter) as refused:
        IdempotentProducer(client, "order.placed", **{name: value})
    with pytest.raises(BadParameter) as refused_too:
        AsyncIdempotentProducer(AsyncClient("http://localhost:1"), "order.placed", **{name: value})
    assert refused.value.fields["parameter"] == refused_too.value.fields["parameter"] == name


def test_c1_it_is_made_with_a_client_of_its_kind() -> None:
    with Client("http://localhost:1") as client:
        for kind, given in ((AsyncIdempotentProducer, client), (IdempotentProducer, AsyncClient("http://localhost:1"))):
            with pytest.raises(BadParameter, match="Client"):
                kind(given, "order.placed")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"owner_level": -1}, {"starting_sequence": -1}, {"owner_level": "4"}])
def test_c8_options_that_none_can_have(given: dict[str, Any]) -> None:
    with pytest.raises(BadParameter) as refused:
        PartitionPublishingOptions(**given)
    assert refused.value.fields["parameter"] in given


def test_c2_it_publishes_to_a_partition_and_nowhere_else(scene: Scene) -> None:
    mine = scene.producer()
    given = inspect.signature(IdempotentProducer.send).parameters

    failure_of(lambda: mine.send(ids(1)), PartitionRequired, event_type=scene.name)
    with pytest.raises(TypeError, match="key"):
        mine.send(ids(1), partition=0, key="k")
    for partition in (-1, "0", True, 1.0):
        failure_of(lambda given=partition: mine.send(ids(1), partition=given), BadParameter, parameter="partition")

    assert set(given) == {"self", "events", "partition", "cancel", "timeout"}
    assert scene.line.asked == []


def test_c2_a_batch_has_its_partition(wide: Scene) -> None:
    mine = wide.producer()
    batch = mine.batch(2, *ids(1))

    failure_of(lambda: mine.send(batch, partition=1), BadParameter, parameter="partition")

    assert mine.send(batch, partition=2) == stored(0, (0, 0), partition=2)
    assert wide.log(2) == [1]


def test_c2_a_batch_of_another_event_type(scene: Scene, wide: Scene) -> None:
    batch = wide.producer().batch(0, *ids(1))

    failure_of(lambda: scene.producer().send(batch), BadParameter, parameter="events")

    assert scene.log() == []


def test_c4_a_fork_is_another_process(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would give the same numbers to different events."""
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    parent = os.getpid()

    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    failure_of(lambda: mine.send(ids(2), partition=0), Conflict)

    monkeypatch.undo()
    assert mine.send(ids(2), partition=0) == stored(1, (1, 1))


def test_c6_an_event_that_cannot_be_sent_is_called_by_its_place(scene: Scene) -> None:
    mine = scene.producer()

    failure_of(
        lambda: mine.send([{"id": 1}, {"id": 2}, "x"], partition=0), MalformedEvent, line=3, outcome="not_stored"
    )

    assert mine.send(ids(1), partition=0) == stored(0, (0, 0))


def test_c2_a_key_of_an_events_own_decides_nothing(wide: Scene) -> None:
    """It comes with the event; where it would have to go elsewhere, the hub says so."""
    mine = wide.producer()
    own = NewEvent.of(b'{"id":2}', key="k", headers={"h": "1"})

    mine.send([Event({"id": 1}, key="k"), own], partition=3)

    assert wide.log(3) == [1, 2]
    failure_of(
        lambda: mine.send(NewEvent.of(b'{"id":3}', partition=1), partition=3),
        PartitionRefused,
        partition=3,
        outcome="not_stored",
    )


def test_c3_partitions_are_independent(wide: Scene) -> None:
    """One is poisoned, one in doubt, one busy: the others go on."""
    mine = wide.producer(**TWICE)
    mine.send(ids(1), partition=0)
    wide.raw().appends(1, [2])
    failure_of(lambda: mine.send(ids(3), partition=0), PayloadMismatch)
    wide.line.does(lost, lost)
    failure_of(lambda: mine.send(ids(4), partition=1), RetriesExhausted, outcome="unknown")
    wide.line.does(held := Held())
    busy = mine.begin(ids(5), partition=2)
    held.wait()

    for number in range(3):
        assert mine.send(ids(6 + number), partition=3) == stored(number, (number, number), partition=3)

    held.let_go()
    assert busy.result(300) == stored(0, (0, 0), partition=2)
    assert [wide.log(partition) for partition in range(4)] == [[1, 2], [], [5], [6, 7, 8]]
    assert mine.close().unresolved == [1]


def test_c3_groups_and_plain_publishers_are_independent(scene: Scene) -> None:
    one, other = scene.producer(group="one"), scene.producer(group="other")
    one.send(ids(1), partition=0)
    scene.feed.publish({"id": 2})
    other.send(ids(3), partition=0)
    scene.feed.publish({"id": 4})

    assert one.send(ids(5), partition=0) == stored(1, (4, 4))
    assert other.send(ids(6), partition=0) == stored(1, (5, 5))
    assert scene.log() == [1, 2, 3, 4, 5, 6]


def test_c3_a_group_that_nobody_named_is_one_for_all_partitions(wide: Scene) -> None:
    mine, other = wide.producer(group=None), wide.producer(group=None)
    sent = [mine.begin(ids(partition), partition=partition) for partition in range(4)]
    assert [each.result(300).count for each in sent] == [1, 1, 1, 1]

    other.send(ids(9), partition=0)

    assert mine.group is not None and other.group not in (None, mine.group)
    assert {mine.properties(partition).producer_group for partition in range(4)} == {mine.group}


def test_c4_events_and_batches_know_nothing_of_numbers(wide: Scene) -> None:
    """They are made, kept, and sent in any order and to any partition: numbers are given when they are sent."""
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


def test_c4_many_threads_need_no_coordination(wide: Scene) -> None:
    mine = wide.producer()
    with ThreadPoolExecutor(6) as threads:
        sent = list(threads.map(lambda n: mine.send(ids(10 * n, 10 * n + 1), partition=n % 2), range(24)))

    for partition in range(2):
        own = sorted(each.first_sequence for each in sent if each.partition == partition)
        assert own == list(range(0, 24, 2))
        by_number = sorted((each for each in sent if each.partition == partition), key=lambda each: each.first_sequence)
        assert [each.offsets[0].first for each in by_number] == own
        assert sorted(wide.log(partition)) == [10 * n + at for n in range(partition, 24, 2) for at in range(2)]


def test_c4_nothing_is_published_of_nothing(scene: Scene) -> None:
    mine = scene.producer()

    for nothing in ([], iter(()), mine.batch(0)):
        assert mine.send(nothing, partition=0) == PublishResult(0, 0, 0, 0, (), duplicate=False, attempts=0)

    assert [each.method for each in scene.line.asked] == ["GET"], "the event type's category, for the batch"


def test_c5_numbers_come_with_success_alone(scene: Scene) -> None:
    scene.change(schema={"type": "json_schema", "schema": '{"required": ["id"]}'}, compatibility_mode="none")
    mine = scene.producer(**TWICE)
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
    assert good.published_sequence == 0
    assert bad.published_sequence is None
    assert batch.starting_published_sequence is None
    whole = mine.batch(0, *ids(2, 3))
    assert mine.send(whole) == whole.result == stored(1, (1, 2), epoch=2)
    assert (whole.starting_published_sequence, list(whole.published_sequences)) == (1, [1, 2])
    assert scene.log() == [1, 2, 3]


@pytest.mark.parametrize(
    ("status", "code"), [(403, "forbidden"), (404, "not-found"), (400, "bad-parameter"), (413, "body-too-large")]
)
def test_c6_what_cannot_pass_is_not_tried_again(scene: Scene, status: int, code: str) -> None:
    """None of its numbers is used up."""
    mine = scene.producer()
    scene.line.does(refusing(status, code))

    with pytest.raises(Exception, match=code) as caught:
        mine.send(ids(1), partition=0)

    assert (caught.value.fields["outcome"], caught.value.fields["partition"]) == ("not_stored", 0)
    assert len(scene.line.batches) == 1
    assert mine.send(ids(2), partition=0) == stored(0, (0, 0))


def test_c7_properties(wide: Scene) -> None:
    mine = wide.producer()
    assert mine.properties(1) == PublishingProperties(1, "mine", 0, None, 0, None)
    mine.send(ids(1, 2, 3), partition=1)
    wide.feed.publish({"id": 4}, partition=1)
    mine.send(ids(5), partition=1)
    asked = len(wide.line.asked)

    assert mine.properties(1) == PublishingProperties(1, "mine", 0, 3, 4, 4)

    assert len(wide.line.asked) == asked, "it is known"
    assert mine.properties(1, refresh=True) == mine.properties(1)
    assert mine.properties(0) == PublishingProperties(0, "mine", 0, None, 0, None)
    another = wide.producer()
    another.send(ids(6), partition=1)
    assert mine.properties(1).owner_level == 0
    assert mine.properties(1, refresh=True) == PublishingProperties(1, "mine", 1, 0, 1, 5)


def test_c7_properties_of_what_cannot_be(scene: Scene) -> None:
    mine = scene.producer()
    failure_of(lambda: mine.properties(3), PartitionNotFound, partition=3)
    failure_of(lambda: mine.properties(-1), BadParameter, parameter="partition")
    mine.properties(0)
    scene.rows("DELETE FROM penstock_producer WHERE partition_id IN ({mine})")
    failure_of(lambda: mine.properties(0, refresh=True), ProducerNotFound)
    mine.close()
    failure_of(lambda: mine.properties(0), Conflict)


def test_c8_first_number_of_ones_own(wide: Scene) -> None:
    options = {0: PartitionPublishingOptions(starting_sequence=1000), 1: PartitionPublishingOptions(owner_level=5)}
    mine = wide.producer(partition_options=options)

    assert mine.send(ids(1, 2), partition=0) == stored(1000, (0, 1))
    assert mine.send(ids(3), partition=1) == stored(0, (0, 0), epoch=5, partition=1)
    assert mine.send(ids(4), partition=2) == stored(0, (0, 0), partition=2)

    assert mine.properties(0).last_published_sequence == 1001
    shown = wide.raw(partition=0).shown()
    assert (shown["owner_level"], shown["next_sequence"]) == (0, 1002)


def test_c8_it_is_no_part_of_later_epochs(scene: Scene) -> None:
    mine = scene.producer(partition_options={0: PartitionPublishingOptions(starting_sequence=1000)}, **TWICE)
    scene.line.does(lost, lost)
    failure_of(lambda: mine.send(ids(1), partition=0), RetriesExhausted, outcome="unknown")

    assert mine.send(ids(2), partition=0) == stored(0, (0, 0), epoch=1)


def test_c9_what_is_published_is_not_published_again(wide: Scene) -> None:
    mine, other = wide.producer(), wide.producer(group="other")
    event, batch = Event({"id": 1}), mine.batch(1, *ids(2, 3))
    mine.send(event, partition=0)
    mine.send(batch)
    asked = len(wide.line.asked)

    for producer in (mine, other):
        failure_of(lambda to=producer: to.send(event, partition=0), AlreadyPublished, partition=0, sequence=0)
        failure_of(lambda to=producer: to.send([{"id": 4}, event], partition=2), AlreadyPublished)
        failure_of(lambda to=producer: to.send(batch), AlreadyPublished, partition=1, sequence=0)
    failure_of(lambda: batch.try_add({"id": 5}), AlreadyPublished)
    failure_of(lambda: mine.send([Event(1), *batch.events], partition=1), AlreadyPublished)

    assert len(wide.line.asked) == asked
    assert wide.log(0) + wide.log(1) == [1, 2, 3]


def test_c9_nor_by_two_calls_at_one_time(scene: Scene) -> None:
    mine = scene.producer()
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
    failure_of(lambda: again.result(300), AlreadyPublished, partition=0, sequence=0, outcome="not_stored")
    assert third.result(300) == stored(1, (1, 2)) == batch.result
    assert scene.log() == [1, 2, 3]


def test_c9_nothing_is_there_twice_in_one_set(scene: Scene) -> None:
    mine = scene.producer()
    one, two = Event({"id": 1}), Event({"id": 2})
    batch = mine.batch(0, one, two)

    failure_of(lambda: mine.send([one, two, one], partition=0), BadParameter, parameter="events")
    failure_of(lambda: batch.try_add(one), BadParameter, parameter="event")

    assert mine.send(batch) == stored(0, (0, 1))


def test_c9_equal_events_are_different_events(scene: Scene) -> None:
    mine = scene.producer()
    same = {"id": 1}

    mine.send([same, same, {"id": 1}], partition=0)
    mine.send(same, partition=0)

    assert scene.log() == [1, 1, 1, 1]


def test_c9_an_event_that_was_changed_since_is_another(scene: Scene) -> None:
    """A mapping that is used again is what it holds when it is handed in."""
    mine = scene.producer(**TWICE)
    event = {"id": 1}
    scene.line.does(lost, unanswered)
    failure_of(lambda: mine.send(event, partition=0), RetriesExhausted, outcome="unknown")
    event["id"] = 2

    assert mine.send(event, partition=0) == stored(1, (1, 1))

    assert scene.log() == [1, 2]
