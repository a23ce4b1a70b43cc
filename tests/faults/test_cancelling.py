"""A call that is cancelled, at whatever point, by whatever means: what became of its batch is certain, or told."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from penstock.client import EventBatch, PublishResult, RetryPolicy
from penstock.errors import BadParameter, PublishCancelled, RetriesExhausted, ServerError
from penstock.testing.live_hub import LiveHub
from tests.faults.either import MEANS, Handle, Kind, Means, Sending, TaskCancelled
from tests.faults.proxy import (
    Fate,
    Held,
    answering,
    hung_up,
    ignored,
    is_claim,
    is_question,
    lost,
    refusing,
    swallowed,
    unanswered,
)
from tests.faults.scene import Scene, failure_of, ids, scene_on, stored
from tests.promises.scene import until

Begin = Callable[[Handle, EventBatch], Sending]
LONG = refusing(503, "unavailable", retry_after=25)
"""Come again later than anybody waits here."""


@pytest.fixture(params=list(MEANS))
def means(request: pytest.FixtureRequest) -> Means:
    found: Means = request.param
    return found


@pytest.fixture
def scene(hub: LiveHub, means: Means) -> Iterator[Scene]:
    """A feed with one partition, and the client that these means are of."""
    with scene_on(hub.database, hub.port, MEANS[means]) as scene:
        yield scene


@pytest.fixture
def begin(scene: Scene, means: Means) -> Begin:
    return lambda mine, batch: scene.client.sending(mine, means, batch)


def cancelled(sending: Sending, means: Means, outcome: Literal["not_stored", "unknown"], batch: EventBatch) -> None:
    """See that a call has ended as cancelled, and its batch is as it was."""
    if means == "task":
        with pytest.raises(TaskCancelled):
            sending.result()
    else:
        failure_of(sending.result, PublishCancelled, partition=0, outcome=outcome)
    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (None, [])


def succeeded(sending: Sending, means: Means, batch: EventBatch, expected: PublishResult) -> None:
    """See that a batch is published, and that its caller is told so; a task that was cancelled ends as such."""
    if means == "task":
        with pytest.raises(TaskCancelled):
            sending.result()
    else:
        assert sending.result() == expected
    assert batch.result == expected
    assert list(batch.published_sequences) == [expected.first_sequence + at for at in range(expected.count)]


def goes_on(scene: Scene, mine: Handle) -> None:
    """See that the partition is free, and that two calls have their turns one after the other."""
    before = scene.log()
    until(lambda: mine.is_free(0), "the partition is free")
    scene.line.does(held := Held())
    first = mine.begin(ids(101), partition=0)
    held.wait()
    second = mine.begin(ids(102), partition=0)
    until(lambda: mine.waiting(0) == 1, "the second waits for its turn")
    held.let_go()
    assert (first.result(300).count, second.result(300).count) == (1, 1)
    assert mine.is_free(0)
    assert scene.log() == [*before, 101, 102]


def is_pausing(caplog: pytest.LogCaptureFixture) -> bool:
    """Tell whether a client waits until it may ask again, for long."""
    return any("trying again in 25" in record.getMessage() for record in caplog.records)


def test_x1_while_it_waits_for_its_turn(scene: Scene, means: Means, begin: Begin) -> None:
    mine = scene.producer()
    batch = mine.batch(0, *ids(2))
    scene.line.does(held := Held())
    first = mine.begin(ids(1), partition=0)
    held.wait()
    sending = begin(mine, batch)
    until(lambda: mine.waiting(0) == 1, "it waits for its turn")

    sending.cancel()

    cancelled(sending, means, "not_stored", batch)
    assert mine.waiting(0) == 0
    held.let_go()
    assert first.result(300) == stored(0, (0, 0))
    assert mine.send(batch) == stored(1, (1, 1))
    goes_on(scene, mine)


def test_x2_while_an_epoch_is_claimed(scene: Scene, means: Means, begin: Begin) -> None:
    """It may be granted all the same: the next call makes the claim again, with the same id."""
    mine = scene.producer()
    batch = mine.batch(0, *ids(1))
    scene.line.does(held := Held(), to=is_claim)
    sending = begin(mine, batch)
    held.wait()

    sending.cancel()

    cancelled(sending, means, "not_stored", batch)
    held.let_go(hung_up)
    assert scene.line.batches == []
    assert mine.send(batch) == stored(0, (0, 0))
    goes_on(scene, mine)


def test_x2_between_two_claims_of_a_group_that_nobody_named(
    scene: Scene, means: Means, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    mine = scene.producer(group=None)
    batch = mine.batch(0, *ids(1))
    scene.line.does(LONG, to=is_claim)
    sending = begin(mine, batch)
    until(lambda: is_pausing(caplog), "it waits until it may ask again")

    sending.cancel()

    cancelled(sending, means, "not_stored", batch)
    assert mine.begin(batch).result(300) == stored(0, (0, 0)), "nobody waits for the one that was cancelled"
    goes_on(scene, mine)


def test_x2_while_it_is_found_out_what_became_of_the_last_batch(scene: Scene, means: Means, begin: Begin) -> None:
    """What is in doubt stays in doubt, and is no doubt about others."""
    mine = scene.producer(retry=RetryPolicy(max_attempts=1))
    earlier, batch = mine.batch(0, *ids(1)), mine.batch(0, *ids(2))
    scene.line.does(unanswered)
    failure_of(lambda: mine.send(earlier), RetriesExhausted, outcome="unknown")
    for each, outcome in ((batch, "not_stored"), (earlier, "unknown")):
        scene.line.does(held := Held(), to=is_question)
        sending = begin(mine, each)
        held.wait()

        sending.cancel()

        cancelled(sending, means, outcome, each)
        held.let_go(hung_up)
    assert mine.send(earlier) == stored(0, (0, 0), duplicate=True, attempts=0)
    assert mine.send(batch) == stored(1, (1, 1))
    goes_on(scene, mine)


def test_x3_before_anything_is_written(scene: Scene, means: Means, begin: Begin) -> None:
    mine = scene.producer()
    mine.properties(0)
    batch = mine.batch(0, *ids(1))
    mine.inner._lanes.producing._category = None
    scene.line.does(held := Held(), to=lambda visit: visit.path == f"/event-types/{scene.name}")
    sending = begin(mine, batch)
    held.wait()

    sending.cancel()

    cancelled(sending, means, "not_stored", batch)
    held.let_go()
    assert scene.line.batches == []
    assert mine.send(batch) == stored(0, (0, 0))
    goes_on(scene, mine)


@pytest.mark.parametrize("means", ["thread-event", "asyncio-event", "anyio-event"], indirect=True)
def test_x3_before_it_was_called(scene: Scene, means: Means) -> None:
    mine = scene.producer()
    batch = mine.batch(0, *ids(1))
    asked = len(scene.line.asked)

    sending = scene.client.sending(mine, means, batch, is_cancelled=True)

    cancelled(sending, means, "not_stored", batch)
    assert scene.line.asked[asked:] == []
    goes_on(scene, mine)


def test_x4_in_flight_and_the_answer_comes_in_time(scene: Scene, means: Means, begin: Begin) -> None:
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    batch = mine.batch(0, *ids(2, 3))
    scene.line.does(held := Held())
    sending = begin(mine, batch)
    held.wait()

    sending.cancel()
    held.let_go()

    succeeded(sending, means, batch, stored(1, (1, 2)))
    assert len(scene.line.batches) == 2
    goes_on(scene, mine)


def test_x4_in_flight_and_it_is_refused_in_time(scene: Scene, means: Means, begin: Begin) -> None:
    mine = scene.producer()
    batch = mine.batch(0, *ids(1))
    scene.line.does(held := Held(before=True))
    sending = begin(mine, batch)
    held.wait()

    sending.cancel()
    held.let_go(answering(413, b"too much"))

    with pytest.raises(TaskCancelled if means == "task" else ServerError) as caught:
        sending.result()
    assert means == "task" or caught.value.fields["outcome"] == "not_stored"
    assert mine.send(batch) == stored(0, (0, 0))
    goes_on(scene, mine)


def test_x4_in_flight_and_it_is_told_to_come_again(scene: Scene, means: Means, begin: Begin) -> None:
    """Nothing is in flight then: nobody waits until it may be tried again."""
    mine = scene.producer(cancel_grace=400.0)
    batch = mine.batch(0, *ids(1))
    scene.line.does(held := Held(before=True))
    sending = begin(mine, batch)
    held.wait()

    began = time.monotonic()
    sending.cancel()
    held.let_go(LONG)

    cancelled(sending, means, "not_stored", batch)
    assert time.monotonic() - began < 300
    assert mine.send(batch) == stored(0, (0, 0))
    goes_on(scene, mine)


@pytest.mark.parametrize("fate", [ignored, swallowed])
def test_x5_in_flight_and_no_answer_comes(scene: Scene, means: Means, begin: Begin, fate: Fate) -> None:
    mine = scene.producer(cancel_grace=0.2)
    mine.send(ids(1), partition=0)
    batch = mine.batch(0, *ids(2, 3))
    scene.line.does(fate)
    sending = begin(mine, batch)
    until(lambda: len(scene.line.batches) == 2, "it is in flight")

    sending.cancel()

    cancelled(sending, means, "unknown", batch)
    again = stored(1, (1, 2), duplicate=True, attempts=0)
    assert mine.send(batch) == (again if fate is swallowed else stored(0, (1, 2), epoch=1))
    goes_on(scene, mine)


def test_x5_its_answer_comes_when_nobody_waits_any_longer(scene: Scene, means: Means, begin: Begin) -> None:
    """The next call does not wait for it either, and whoever it was for is not told by it."""
    mine = scene.producer(cancel_grace=0.0)
    batch = mine.batch(0, *ids(1))
    scene.line.does(held := Held())
    sending = begin(mine, batch)
    held.wait()
    sending.cancel()
    cancelled(sending, means, "unknown", batch)

    found = mine.send(ids(2), partition=0)
    held.let_go()

    assert found == stored(1, (1, 1))
    assert mine.send(batch) == stored(0, (0, 0), duplicate=True, attempts=0)
    goes_on(scene, mine)


@pytest.mark.parametrize("fate", [lost, unanswered])
def test_x6_between_two_attempts_the_first_of_which_may_have_stored_it(
    scene: Scene, means: Means, begin: Begin, caplog: pytest.LogCaptureFixture, fate: Fate
) -> None:
    mine = scene.producer()
    batch = mine.batch(0, *ids(1, 2))
    scene.line.does(fate, LONG)
    sending = begin(mine, batch)
    until(lambda: is_pausing(caplog), "it waits until it may try again")

    sending.cancel()

    cancelled(sending, means, "unknown", batch)
    again = stored(0, (0, 1), duplicate=True, attempts=0)
    assert mine.send(batch) == (again if fate is unanswered else stored(0, (0, 1), epoch=1))
    goes_on(scene, mine)


def test_x6_between_two_attempts_neither_of_which_has_stored_it(
    scene: Scene, means: Means, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    mine = scene.producer()
    batch = mine.batch(0, *ids(1, 2))
    scene.line.does(LONG)
    sending = begin(mine, batch)
    until(lambda: is_pausing(caplog), "it waits until it may try again")

    sending.cancel()

    cancelled(sending, means, "not_stored", batch)
    assert mine.send(batch) == stored(0, (0, 1))
    goes_on(scene, mine)


def test_x4_interrupted_in_flight(hub: LiveHub) -> None:
    """Ctrl-C ends a call that could be cancelled too, and what comes of it late changes nothing."""
    with scene_on(hub.database, hub.port, "sync") as scene:
        mine = scene.producer()
        mine.properties(0)
        batch = mine.batch(0, *ids(1))
        scene.line.does(held := Held())

        class Interrupting(threading.Event):
            def is_set(self) -> bool:
                if held.reached.is_set():
                    raise KeyboardInterrupt
                return False

        with pytest.raises(KeyboardInterrupt):
            mine.send(batch, cancel=Interrupting())
        following = mine.begin(ids(2), partition=0)
        until(following.done, "it does not wait for the one that was interrupted")
        held.let_go()

        assert following.result() == stored(1, (1, 1))
        assert mine.send(batch) == stored(0, (0, 0), duplicate=True, attempts=0)
        assert mine.send(ids(3), partition=0) == stored(2, (2, 2))
        assert scene.log() == [1, 2, 3]


@pytest.mark.parametrize(("kind", "token"), [("sync", asyncio.Event), ("async", threading.Event)])
def test_x1_by_what_cannot_be_waited_for(hub: LiveHub, kind: Kind, token: Any) -> None:
    """It is refused at once: waited for in the wrong way, it would hold up the event loop."""
    with scene_on(hub.database, hub.port, kind) as scene:
        mine = scene.producer()

        failure_of(lambda: mine.send(ids(1), partition=0, cancel=token()), BadParameter, parameter="cancel")

        assert scene.line.asked == []


def test_x7_after_the_answer(scene: Scene, means: Means, begin: Begin) -> None:
    mine = scene.producer()
    batch = mine.batch(0, *ids(1, 2))
    sending = begin(mine, batch)
    assert sending.result() == stored(0, (0, 1))

    sending.cancel()

    assert sending.result() == batch.result == stored(0, (0, 1))
    goes_on(scene, mine)


def test_x7_while_the_answer_is_read(scene: Scene, means: Means, begin: Begin) -> None:
    """However narrowly: the batch is published, and known to be."""
    mine = scene.producer()
    for number in range(20):
        batch = mine.batch(0, *ids(number))
        scene.line.does(held := Held())
        sending = begin(mine, batch)
        held.wait()
        held.let_go()
        sending.cancel()
        try:
            assert sending.result() == batch.result
        except TaskCancelled:
            assert means == "task"
        assert batch.starting_published_sequence == number
    assert scene.log() == list(range(20))
    goes_on(scene, mine)


@pytest.mark.parametrize("means", ["task"], indirect=True)
def test_x5_a_task_that_is_cancelled_twice_waits_no_longer(scene: Scene, means: Means, begin: Begin) -> None:
    mine = scene.producer(cancel_grace=30.0)
    batch = mine.batch(0, *ids(1))
    scene.line.does(held := Held())
    sending = begin(mine, batch)
    held.wait()
    sending.cancel()

    sending.cancel()

    cancelled(sending, means, "unknown", batch)
    held.let_go(hung_up)
    assert mine.send(batch) == stored(0, (0, 0), duplicate=True, attempts=0)
    goes_on(scene, mine)
