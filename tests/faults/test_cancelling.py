"""A call is cancelled at any point by any means: its batch is stored or not, or the caller is told that it may be."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from penstock.client import EventBatch, PublishResult, RetryPolicy
from penstock.errors import BadParameter, PublishCancelled, RetriesExhausted, ServerError
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import examples, exhaustive
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
from tests.faults.scene import MANY_ATTEMPTS, Scene, failure_of, ids, scene_on, stored
from tests.promises.scene import until

COME_AGAIN = refusing(503, "unavailable", retry_after=25)
"""The hub asks to come again later than any test waits."""
STORED_NOW = stored(0, (0, 1))
STORED_IN_THE_NEXT_EPOCH = stored(0, (0, 1), epoch=1)
FOUND = stored(0, (0, 1), duplicate=True, attempts=0)
"""The results of sending the batch again."""


@pytest.fixture(params=[exhaustive(each) if each == "anyio-event" else each for each in MEANS])  # As asyncio's.
def means(request: pytest.FixtureRequest) -> Means:
    found: Means = request.param
    return found


@pytest.fixture
def scene(hub: LiveHub, means: Means) -> Iterator[Scene]:
    """A feed with one partition, and the client that these means cancel."""
    with scene_on(hub.database, hub.port, MEANS[means]) as scene:
        yield scene


class Call:
    """A call that sends a batch of two events and can be cancelled."""

    def __init__(self, scene: Scene, means: Means) -> None:
        self.scene = scene
        self.means = means
        self.use(scene.producer(retry=MANY_ATTEMPTS))

    def use(self, mine: Handle) -> Handle:
        """Take another producer for the calls to come, and a batch of that."""
        self.mine = mine
        self.batch = mine.batch(0, *ids(1, 2))
        return mine

    def begin(self, until_: Callable[[], Any] | None = None) -> Sending:
        """Send the batch, and wait until the call is where it is to be cancelled."""
        self.sending = self.scene.client.sending(self.mine, self.means, self.batch)
        if until_ is not None:
            until(until_, "the call is where it is to be cancelled")
        return self.sending

    def hold(self, held: Held, to: Any = None) -> Held:
        """Send the batch, and wait until a request of the call is held."""
        self.scene.line.does(held, to=to)
        self.begin()
        held.wait()
        return held

    def assert_cancelled(self, outcome: Literal["not_stored", "unknown"]) -> None:
        """Assert that the call has ended as cancelled, and its batch is as it was."""
        if self.means == "task":
            with pytest.raises(TaskCancelled):
                self.sending.result()
        else:
            failure_of(self.sending.result, PublishCancelled, partition=0, outcome=outcome)
        assert (self.batch.starting_published_sequence, list(self.batch.published_sequences)) == (None, [])

    def assert_succeeded(self, expected: PublishResult) -> None:
        """Assert that the batch is published, and its caller is told so; a cancelled task ends as such."""
        if self.means == "task":
            with pytest.raises(TaskCancelled):
                self.sending.result()
        else:
            assert self.sending.result() == expected
        assert self.batch.result == expected

    def assert_partition_is_free(self, again: PublishResult | None = None) -> None:
        """Assert that the batch can be sent *again*, and then two calls have their turns one after the other."""
        if again is not None:
            assert self.mine.send(self.batch) == again
        before = self.scene.log()
        until(lambda: self.mine.is_free(0), "the partition is free")
        self.scene.line.does(held := Held())
        first = self.mine.begin(ids(101), partition=0)
        held.wait()
        second = self.mine.begin(ids(102), partition=0)
        until(lambda: self.mine.waiting(0) == 1, "the second call waits for its turn")
        held.let_go()
        assert (first.result(300).count, second.result(300).count) == (1, 1)
        assert self.mine.is_free(0)
        assert self.scene.log() == [*before, 101, 102]


@pytest.fixture
def call(scene: Scene, means: Means) -> Call:
    return Call(scene, means)


@pytest.fixture
def is_pausing(caplog: pytest.LogCaptureFixture) -> Callable[[], bool]:
    """Returns whether a client waits until it may come again."""
    return lambda: any("trying again in 25" in record.getMessage() for record in caplog.records)


# Before the batch is sent


@pytest.mark.parametrize("means", ["thread-event", "asyncio-event", "anyio-event"], indirect=True)
def test_call_cancelled_before_it_begins_sends_nothing(scene: Scene, call: Call, means: Means) -> None:
    asked = len(scene.line.asked)

    call.sending = scene.client.sending(call.mine, means, call.batch, is_cancelled=True)

    call.assert_cancelled("not_stored")
    assert scene.line.asked[asked:] == []
    call.assert_partition_is_free()


@pytest.mark.parametrize(("kind", "token"), [("sync", asyncio.Event), ("async", threading.Event)])
def test_cancel_event_of_the_wrong_kind_is_refused(sqlite_hub: LiveHub, kind: Kind, token: Any) -> None:
    """A client that waited for it in the wrong way would block its event loop."""
    with scene_on(sqlite_hub.database, sqlite_hub.port, kind) as scene:
        mine = scene.producer()

        failure_of(lambda: mine.send(ids(1), partition=0, cancel=token()), BadParameter, parameter="cancel")

        assert scene.line.asked == []


def test_call_cancelled_while_it_waits_for_its_turn_leaves_the_queue(scene: Scene, call: Call) -> None:
    scene.line.does(held := Held())
    first = call.mine.begin(ids(0), partition=0)
    held.wait()
    call.begin(lambda: call.mine.waiting(0) == 1).cancel()

    call.assert_cancelled("not_stored")
    assert call.mine.waiting(0) == 0
    held.let_go()
    assert first.result(300) == stored(0, (0, 0))
    call.assert_partition_is_free(again=stored(1, (1, 2)))


@pytest.mark.parametrize("which", ["claim", "category"])
def test_call_cancelled_while_it_claims_or_asks_for_the_category_is_not_stored(
    scene: Scene, call: Call, which: str
) -> None:
    """The claim may be granted all the same: the next call repeats it with the same id."""
    if which == "category":
        call.mine.properties(0)
        call.mine.inner._partitions.protocol._category = None
    held = call.hold(
        Held(), to=is_claim if which == "claim" else lambda visit: visit.path == f"/event-types/{scene.name}"
    )
    call.sending.cancel()

    call.assert_cancelled("not_stored")
    held.let_go(hung_up if which == "claim" else None)
    assert scene.line.batches == []
    call.assert_partition_is_free(again=STORED_NOW)


def test_call_cancelled_between_claims_of_an_unnamed_group_lets_the_next_one_claim(
    scene: Scene, call: Call, is_pausing: Callable[[], bool]
) -> None:
    call.use(scene.producer(group=None, retry=MANY_ATTEMPTS))
    scene.line.does(COME_AGAIN, to=is_claim)
    call.begin(is_pausing).cancel()

    call.assert_cancelled("not_stored")
    call.assert_partition_is_free(again=STORED_NOW)


def test_call_cancelled_while_it_resolves_an_unknown_outcome_leaves_that_unknown(scene: Scene, call: Call) -> None:
    """The doubt is about the earlier batch alone."""
    mine = call.use(scene.producer(retry=RetryPolicy(max_attempts=1)))
    earlier, later = call.batch, mine.batch(0, *ids(3))
    scene.line.does(unanswered)
    failure_of(lambda: mine.send(earlier), RetriesExhausted, outcome="unknown")
    cases: list[tuple[EventBatch, Literal["not_stored", "unknown"]]] = [(later, "not_stored"), (earlier, "unknown")]
    for batch, outcome in cases:
        call.batch = batch
        held = call.hold(Held(), to=is_question)
        call.sending.cancel()

        call.assert_cancelled(outcome)
        held.let_go(hung_up)
    assert mine.send(earlier) == FOUND
    assert mine.send(later) == stored(2, (2, 2))
    call.assert_partition_is_free()


# In flight


def test_call_cancelled_in_flight_succeeds_if_the_answer_comes(scene: Scene, call: Call) -> None:
    call.mine.send(ids(0), partition=0)
    held = call.hold(Held())
    call.sending.cancel()
    held.let_go()

    call.assert_succeeded(stored(1, (1, 2)))
    assert list(call.batch.published_sequences) == [1, 2]
    assert len(scene.line.batches) == 2
    call.assert_partition_is_free()


def test_call_cancelled_in_flight_fails_if_the_batch_is_refused(call: Call) -> None:
    held = call.hold(Held(before=True))
    call.sending.cancel()
    held.let_go(answering(413, b"too much"))

    if call.means == "task":
        with pytest.raises(TaskCancelled):
            call.sending.result()
    else:
        failure_of(call.sending.result, ServerError, outcome="not_stored")
    call.assert_partition_is_free(again=STORED_NOW)


def test_call_cancelled_in_flight_does_not_come_again(scene: Scene, call: Call) -> None:
    """The hub asks to: nothing is in flight then, and the call waits neither for that time nor for the grace period."""
    call.use(scene.producer(retry=MANY_ATTEMPTS, cancel_grace_seconds=400.0))
    held = call.hold(Held(before=True))
    call.sending.cancel()
    held.let_go(COME_AGAIN)

    call.assert_cancelled("not_stored")
    call.assert_partition_is_free(again=STORED_NOW)


@pytest.mark.parametrize("fate", [ignored, swallowed])
def test_call_cancelled_in_flight_is_of_unknown_outcome_without_an_answer(scene: Scene, call: Call, fate: Fate) -> None:
    call.use(scene.producer(retry=MANY_ATTEMPTS, cancel_grace_seconds=0.2))
    scene.line.does(fate)
    call.begin(lambda: scene.log() if fate is swallowed else scene.line.batches).cancel()

    call.assert_cancelled("unknown")
    call.assert_partition_is_free(again=FOUND if fate is swallowed else STORED_IN_THE_NEXT_EPOCH)


def test_call_cancelled_in_flight_is_not_waited_for_after_the_grace_period(scene: Scene, call: Call) -> None:
    """The answer that comes later is nobody's."""
    mine = call.use(scene.producer(retry=MANY_ATTEMPTS, cancel_grace_seconds=0.0))
    held = call.hold(Held())
    call.sending.cancel()
    call.assert_cancelled("unknown")

    result = mine.send(ids(3), partition=0)
    held.let_go()

    assert result == stored(2, (2, 2))
    call.assert_partition_is_free(again=FOUND)


@pytest.mark.parametrize("means", ["task"], indirect=True)
def test_task_cancelled_twice_in_flight_does_not_wait_for_the_answer(scene: Scene, call: Call) -> None:
    call.use(scene.producer(retry=MANY_ATTEMPTS, cancel_grace_seconds=30.0))
    held = call.hold(Held())
    call.sending.cancel()

    call.sending.cancel()

    call.assert_cancelled("unknown")
    held.let_go(hung_up)
    assert call.mine.send(call.batch) == FOUND


@pytest.mark.parametrize("means", ["thread-event"], indirect=True)
def test_call_interrupted_in_flight_changes_nothing_by_its_late_answer(scene: Scene, call: Call) -> None:
    """Ctrl-C ends a call that could be cancelled, too."""
    call.mine.properties(0)
    scene.line.does(held := Held())

    class Interrupting(threading.Event):
        def is_set(self) -> bool:
            if held.reached.is_set():
                raise KeyboardInterrupt
            return False

    with pytest.raises(KeyboardInterrupt):
        call.mine.send(call.batch, cancel=Interrupting())
    following = call.mine.begin(ids(3), partition=0)
    until(following.done, "it does not wait for the call that was interrupted")
    held.let_go()

    assert following.result() == stored(2, (2, 2))
    assert call.mine.send(call.batch) == FOUND
    assert call.mine.send(ids(4), partition=0) == stored(3, (3, 3))
    assert scene.log() == [1, 2, 3, 4]


# Between two attempts, and after the last


@pytest.mark.parametrize("fates", [[], [lost], [unanswered]], ids=["not stored", "lost", "unanswered"])
def test_call_cancelled_between_attempts_has_the_outcome_of_those_before(
    scene: Scene, call: Call, is_pausing: Callable[[], bool], fates: list[Fate]
) -> None:
    scene.line.does(*fates, COME_AGAIN)
    call.begin(is_pausing).cancel()

    call.assert_cancelled("unknown" if fates else "not_stored")
    again = STORED_NOW if not fates else FOUND if fates == [unanswered] else STORED_IN_THE_NEXT_EPOCH
    call.assert_partition_is_free(again=again)


def test_call_cancelled_after_its_answer_has_succeeded(call: Call) -> None:
    assert call.begin().result() == STORED_NOW

    call.sending.cancel()

    assert call.sending.result() == call.batch.result == STORED_NOW
    call.assert_partition_is_free()


def test_call_cancelled_while_its_answer_is_read_has_succeeded(scene: Scene, call: Call) -> None:
    rounds = examples(8, 20)
    for number in range(rounds):
        call.batch = call.mine.batch(0, *ids(number))
        held = call.hold(Held())
        held.let_go()
        call.sending.cancel()
        try:
            assert call.sending.result() == call.batch.result
        except TaskCancelled:
            assert call.means == "task"
        assert call.batch.starting_published_sequence == number
    assert scene.log() == list(range(rounds))
    call.assert_partition_is_free()
