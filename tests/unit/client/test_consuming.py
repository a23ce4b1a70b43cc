from typing import Any

import pytest

from penstock.client.consuming import Commit, Consumed, Consuming, End, Extend, GiveBack, Over, Step, Wait
from penstock.client.subscription_batch import SubscriptionBatch
from penstock.errors import CommitRefused, ConnectionLost, Forbidden, ServerError, StreamNotFound, SubscriptionNotFound
from tests.unit.client.batches import batch
from tests.unit.client.consumed_hub import ConsumedHub

AWAY = ConnectionLost(url="u", reason="reset")
START = 1000.0
P0, P1, P2 = ("a.b", 0), ("a.b", 1), ("a.b", 2)


class Play:
    """A consumer with one stream, whose hub and whose handlers are the test."""

    def __init__(self) -> None:
        self.now = START
        self.consuming = Consuming(commit_s=60.0, grace_s=10.0, patience_s=20.0, delay_max=4.0, clock=lambda: self.now)
        self.consuming.began("s1")

    def arrived(self, *batches: SubscriptionBatch[Any]) -> None:
        for each in batches:
            self.consuming.arrived(each)

    def next(self) -> SubscriptionBatch[Any]:
        found = self.consuming.next()
        assert found is not None
        return found

    def handled(self, *batches: SubscriptionBatch[Any]) -> None:
        """Have these arrive and handled, one after the other."""
        for each in batches:
            self.arrived(each)
            assert self.next() is each
            self.consuming.handled(each)

    def fails(self, failing: SubscriptionBatch[Any]) -> None:
        self.arrived(failing)
        assert self.next() is failing
        self.consuming.failed(failing)

    def does(self, expected: object) -> None:
        """The next step is *expected*, and succeeds."""
        step = self.consuming.step()
        assert step == expected
        self.consuming.done(step)

    def fails_to(self, expected: object, error: Any) -> None:
        step = self.consuming.step()
        assert step == expected
        self.consuming.undone(step, error)

    def waits(self) -> float | None:
        step = self.consuming.step()
        assert isinstance(step, Wait), step
        return step.seconds

    @property
    def consumed(self) -> Consumed:
        return self.consuming.consumed


@pytest.fixture
def play() -> Play:
    return Play()


def test_a_partition_is_handled_one_batch_after_the_other_and_others_meanwhile(play: Play) -> None:
    first, second, other = batch(last=1), batch(last=2), batch(partition=1)
    play.arrived(first, second, other)

    assert play.next() is first
    assert play.next() is other
    assert play.consuming.next() is None
    play.consuming.handled(first)
    assert play.next() is second


def test_partitions_have_their_turns(play: Play) -> None:
    batches = [batch(partition=number, last=last) for last in (1, 2) for number in (0, 1)]
    play.arrived(*batches)

    for each in batches:
        assert play.next() is each
        play.consuming.handled(each)


def test_what_is_handled_meanwhile_is_committed_at_once(play: Play) -> None:
    first, second, third = batch(last=1, count=2), batch(partition=1), batch(last=2)
    play.handled(first, second)
    step = play.consuming.step()
    play.handled(third)

    assert step == Commit("s1", (first, second))
    play.consuming.done(step)
    play.does(Commit("s1", (third,)))

    assert play.waits() is None
    assert play.consumed == Consumed(batches=3, events=4)


def test_a_failure_ends_the_stream_once_what_was_handled_is_committed(play: Play) -> None:
    before, failing = batch(last=1), batch(last=2)
    play.handled(before)
    play.fails(failing)

    play.does(Commit("s1", (before,)))
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.does(GiveBack("s1", {P0}, {P0}))
    assert 0.05 <= (play.waits() or 0) <= 0.1
    play.now += 0.1
    play.does(GiveBack("s1", set(), {P0}))
    assert play.waits() is None
    assert play.consumed == Consumed(batches=1, events=1, failures=1)


def test_behind_a_failure_nothing_of_its_partition_is_handled(play: Play) -> None:
    failing, behind, later = batch(last=1), batch(last=2), batch(last=3)
    play.arrived(failing, behind)
    play.next()
    play.consuming.failed(failing)
    play.arrived(later)

    assert play.consuming.next() is None


def test_other_partitions_go_on_with_the_stream_that_has_ended(play: Play) -> None:
    failing, other, behind = batch(last=1), batch(partition=1, last=1), batch(partition=1, last=2)
    play.arrived(failing, other, behind)
    play.next()
    play.next()
    play.consuming.failed(failing)
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.consuming.began("s2")
    play.does(GiveBack("s1", {P0, P1}, {P0}))
    play.now += 0.1
    play.does(GiveBack("s1", {P1}, {P0}))

    play.consuming.handled(other)
    play.does(Commit("s1", (other,)))
    assert play.next() is behind
    play.consuming.handled(behind)
    play.does(Commit("s1", (behind,)))
    play.does(GiveBack("s1", set(), {P0}))


def test_pauses_after_failures_double_until_something_succeeds(play: Play) -> None:
    pauses = []
    for number in range(1, 9):
        stream = f"f{number}"
        play.consuming.began(stream)
        play.fails(batch(stream))
        play.does(End(stream))
        play.consuming.ended(stream)
        play.does(GiveBack(stream, {P0}, {P0}))
        pauses.append(play.waits() or 0)
        play.now += pauses[-1]
        play.does(GiveBack(stream, set(), {P0}))
        if number == 7:
            play.handled(batch("s1"))
            play.consuming.done(play.consuming.step())

    for number, pause in enumerate(pauses[:7]):
        longest = min(4.0, 0.1 * 2**number)
        assert longest / 2 <= pause <= longest
    assert pauses[7] <= 0.1


def test_parked_events_that_fail_hold_nothing_up_that_is_in_order(play: Play) -> None:
    parked, ordinary = batch(token="parked-1-0-x"), batch(last=5)
    play.arrived(parked, ordinary)
    play.next()
    play.consuming.failed(parked)

    assert play.next() is ordinary


def test_parked_events_are_committed_beside_others_of_their_partition(play: Play) -> None:
    ordinary, parked = batch(last=5), batch(last=5, token="parked-1-0-x")
    play.handled(ordinary, parked)

    play.does(Commit("s1", (ordinary, parked)))


@pytest.mark.parametrize("has_ended", [False, True], ids=["its stream lasts", "its stream has ended"])
def test_a_slow_handler_keeps_its_lease(play: Play, has_ended: bool) -> None:
    play.arrived(batch())
    play.next()
    if has_ended:
        play.consuming.ended("s1")
        play.does(GiveBack("s1", {P0}, set()))

    for _ in range(3):
        assert play.waits() == 20.0
        play.now += 20.0
        play.does(Extend("s1"))


def test_a_lease_is_not_extended_where_nothing_is_outstanding(play: Play) -> None:
    play.handled(done := batch())
    play.does(Commit("s1", (done,)))
    play.now += 3600.0

    assert play.waits() is None
    play.arrived(batch(last=1))
    assert play.waits() == 20.0


def test_a_lease_that_cannot_be_extended_now_is_extended_soon(play: Play) -> None:
    play.arrived(batch())
    play.now += 20.0
    play.fails_to(Extend("s1"), AWAY)

    assert 0.05 <= (play.waits() or 0) <= 0.1
    play.now += 0.1
    play.does(Extend("s1"))


def test_a_partition_of_a_new_stream_waits_for_the_handler_of_the_old_one(play: Play) -> None:
    old, behind, again = batch(last=1), batch(last=2), batch("s2", last=1)
    play.arrived(old, behind)
    play.next()
    play.consuming.ended("s1")
    play.consuming.began("s2")
    play.arrived(again)

    assert play.consuming.next() is None
    play.consuming.handled(old)
    assert play.next() is again, "what the old stream was sent behind it is sent by the new one"
    play.fails_to(Commit("s1", (old,)), CommitRefused(event_type="a.b", partition="0", offset=1, reason="other"))
    assert play.consumed.too_late == 1
    play.consuming.handled(again)
    play.does(GiveBack("s1", set(), set()))
    play.does(Commit("s2", (again,)))


def test_what_a_lost_stream_has_left_is_not_handled(play: Play) -> None:
    done, running, waiting = batch(partition=1), batch(last=1), batch(last=2)
    play.handled(done)
    play.arrived(running, waiting)
    play.next()
    play.fails_to(Commit("s1", (done,)), StreamNotFound(stream="s1"))

    play.consuming.handled(running)
    assert play.consuming.next() is None
    play.arrived(batch(last=3))
    assert play.consuming.next() is None
    play.does(End("s1"))
    play.consuming.ended("s1")
    assert play.waits() is None
    assert play.consumed == Consumed(too_late=2)


def test_a_cursor_that_is_refused_does_not_hold_up_others(play: Play) -> None:
    refused, other = batch(), batch(partition=1)
    play.handled(refused, other)
    error = CommitRefused(event_type="a.b", partition="0", offset=0, reason="another stream has it by now")
    play.fails_to(Commit("s1", (refused, other)), error)

    play.does(Commit("s1", (other,)))
    assert play.consumed == Consumed(batches=1, events=1, too_late=1)


def test_a_commit_is_tried_again_while_the_hub_is_away(play: Play) -> None:
    done = batch()
    play.handled(done)
    for number in range(8):
        play.fails_to(Commit("s1", (done,)), AWAY)
        longest = min(4.0, 0.1 * 2**number)
        pause = play.waits() or 0
        assert longest / 2 <= pause <= longest
        play.now += pause

    play.does(Commit("s1", (done,)))
    assert play.consumed.batches == 1


@pytest.mark.parametrize(
    "error", [SubscriptionNotFound(subscription="x"), Forbidden(action="read")], ids=lambda error: error.code
)
def test_a_commit_that_can_never_be_done_ends_the_consumer(play: Play, error: Any) -> None:
    done = batch()
    play.handled(done)
    play.fails_to(Commit("s1", (done,)), error)

    play.does(End("s1"))
    play.consuming.read_all()
    play.does(GiveBack("s1", set(), set()))
    assert play.consuming.step() == Over()
    assert play.consuming.error is error
    assert play.consumed.reason == "failed"


def test_stopped_it_lets_handlers_end_commits_and_gives_the_rest_back(play: Play) -> None:
    done, running, waiting = batch(partition=1), batch(last=1), batch(last=2)
    play.handled(done)
    play.arrived(running, waiting)
    play.next()
    play.consuming.stop("stopped")

    assert play.consuming.next() is None
    play.does(Commit("s1", (done,)))
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.does(GiveBack("s1", {P0}, set()))
    assert play.waits() == 10.0
    play.consuming.handled(running)
    play.does(Commit("s1", (running,)))
    play.does(GiveBack("s1", set(), set()))
    assert play.consuming.step() == Over()
    assert play.consumed == Consumed(batches=2, events=2, reason="stopped")


def test_a_handler_that_does_not_end_in_time_keeps_its_partition(play: Play) -> None:
    play.arrived(batch(), batch(partition=1))
    play.next()
    play.consuming.stop("cancelled")
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.does(GiveBack("s1", {P0}, set()))
    play.now += 10.0

    assert play.consuming.step() == Over()


def test_a_failure_when_it_is_stopped_is_given_back_at_once(play: Play) -> None:
    failing = batch()
    play.arrived(failing)
    play.next()
    play.consuming.stop("stopped")
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.does(GiveBack("s1", {P0}, set()))
    play.consuming.failed(failing)

    play.does(GiveBack("s1", set(), {P0}))
    assert play.consuming.step() == Over()


def test_what_was_handled_is_tried_to_be_committed_for_as_long_as_patience_lasts(play: Play) -> None:
    play.handled(done := batch())

    assert stopped_while_the_hub_is_away(play) == {Commit("s1", (done,))}
    assert play.now == pytest.approx(START + 20.0)


def test_where_nothing_is_to_be_committed_a_hub_that_is_away_holds_it_up_for_5_seconds(play: Play) -> None:
    play.consuming.ended("s1")

    assert stopped_while_the_hub_is_away(play) == {GiveBack("s1", frozenset(), frozenset())}
    assert play.now == pytest.approx(START + 5.0)


def test_patience_begins_when_the_last_handler_has_ended_and_anew_with_each_success(play: Play) -> None:
    play.arrived(slow := batch())
    play.next()
    play.consuming.stop("stopped")
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.does(GiveBack("s1", {P0}, set()))
    play.now += 9.0
    play.consuming.handled(slow)
    play.fails_to(Commit("s1", (slow,)), AWAY)
    play.now += 19.0
    play.does(Commit("s1", (slow,)))

    assert stopped_while_the_hub_is_away(play) == {GiveBack("s1", frozenset(), frozenset())}
    assert play.now == pytest.approx(START + 9.0 + 19.0 + 5.0)


def stopped_while_the_hub_is_away(play: Play) -> set[Step]:
    """Stop it and have it end while no hub answers; return what it has tried to do."""
    play.consuming.stop("stopped")
    tried: set[Step] = set()
    while (step := play.consuming.step()) != Over():
        if isinstance(step, Wait):
            assert step.seconds
            play.now += step.seconds
        else:
            tried.add(step)
            play.consuming.undone(step, AWAY)
    return tried


def test_a_hub_that_cannot_be_given_anything_back_is_not_asked_again(play: Play) -> None:
    play.fails(batch())
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.fails_to(GiveBack("s1", {P0}, {P0}), ServerError(status=404, body="", url="u"))
    play.now += 0.1
    play.fails_to(GiveBack("s1", set(), {P0}), ServerError(status=404, body="", url="u"))

    assert play.waits() is None


@pytest.mark.parametrize("is_first", [True, False], ids=["at first", "later"])
def test_a_stream_that_is_lost_is_not_given_back_again(play: Play, is_first: bool) -> None:
    running, failing = batch(), batch(partition=1)
    play.arrived(running)
    assert play.next() is running
    play.fails(failing)
    play.does(End("s1"))
    play.consuming.ended("s1")
    if not is_first:
        play.does(GiveBack("s1", {P0, P1}, {P1}))
        play.now += 0.1
    play.fails_to(GiveBack("s1", {P0, P1} if is_first else {P0}, {P1}), StreamNotFound(stream="s1"))

    assert play.waits() is None
    play.now += 1000.0
    assert play.waits() is None, "its handler runs, but there is no lease to be extended"
    play.consuming.handled(running)
    assert play.waits() is None
    assert play.consumed == Consumed(failures=1, too_late=1)


def test_a_stream_that_is_lost_keeps_no_consumer_beyond_its_grace(play: Play) -> None:
    running, done = batch(), batch(partition=1)
    play.arrived(running)
    assert play.next() is running
    play.handled(done)
    play.fails_to(Commit("s1", (done,)), StreamNotFound(stream="s1"))
    play.does(End("s1"))
    play.consuming.ended("s1")
    play.consuming.stop("stopped")
    assert play.waits() == 10.0

    play.now += 10.0

    assert play.consuming.step() == Over()


def test_a_stream_that_begins_when_it_is_stopped_ends(play: Play) -> None:
    play.consuming.stop("stopped")
    play.consuming.began("s2")
    play.does(End("s1"))
    play.does(End("s2"))


def test_the_first_error_is_what_it_has_failed_with(play: Play) -> None:
    first, second = ValueError("first"), ValueError("second")
    play.consuming.fail(first)
    play.consuming.fail(second)

    assert play.consuming.error is first


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_everything_is_handled_before_it_is_committed(seed: int) -> None:
    hub = ConsumedHub(seed)
    for _ in range(300):
        hub.turn()

    hub.is_calm = True
    for _ in range(3_000):
        if hub.is_all_committed:
            break
        hub.turn()

    assert hub.is_all_committed
    hub.consuming.stop("stopped")
    for _ in range(100):
        hub.turn()
    assert hub.consuming.step() == Over()
    assert not hub.known
    assert set(hub.owner.values()) == {None}
