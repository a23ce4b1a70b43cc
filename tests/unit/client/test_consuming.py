"""Consuming without I/O: batches in turn, commits, failures, leases, lost streams, and stopping."""

from typing import Any

import pytest

from penstock.client.subscriptions.consumer_state import (
    CommitBatches,
    Consumed,
    ConsumerState,
    ConsumerStep,
    EndStream,
    ExtendLease,
    Finished,
    ReleaseStream,
    Wait,
)
from penstock.client.subscriptions.stream_protocol import SubscriptionBatch
from penstock.errors import CommitRefused, ConnectionLost, Forbidden, ServerError, StreamNotFound, SubscriptionNotFound
from tests.exhaustive import seeds
from tests.unit.client.batches import batch
from tests.unit.client.consumed_hub import ConsumedHub

AWAY = ConnectionLost(url="u", reason="reset")
START = 1000.0
P0, P1, P2 = ("a.b", 0), ("a.b", 1), ("a.b", 2)


class Play:
    """A consumer with one stream, whose hub and whose handlers are the test."""

    def __init__(self) -> None:
        self.now = START
        self.consuming = ConsumerState(
            commit_timeout=60.0, grace_seconds=10.0, retry_timeout=20.0, delay_seconds_max=4.0, clock=lambda: self.now
        )
        self.consuming.begin_stream("s1")

    def arrived(self, *batches: SubscriptionBatch[Any]) -> None:
        for each in batches:
            self.consuming.add_batch(each)

    def next(self) -> SubscriptionBatch[Any]:
        found = self.consuming.next()
        assert found is not None
        return found

    def begins(self, first: SubscriptionBatch[Any], *others: SubscriptionBatch[Any]) -> None:
        """Have these arrive, and the handling of the first begin."""
        self.arrived(first, *others)
        assert self.next() is first

    def handled(self, *batches: SubscriptionBatch[Any]) -> None:
        """Have these arrive and handled, one after the other."""
        for each in batches:
            self.begins(each)
            self.consuming.finish_batch(each)

    def fails(self, failing: SubscriptionBatch[Any]) -> None:
        self.begins(failing)
        self.consuming.fail_batch(failing)

    def does(self, expected: object) -> None:
        """The next step is *expected*, and succeeds."""
        step = self.consuming.next_step()
        assert step == expected
        self.consuming.complete_step(step)

    def ends(self) -> None:
        """The stream is ended."""
        self.does(EndStream("s1"))
        self.consuming.end_stream("s1")

    def ends_stream(self, keep: set[Any], failed: set[Any]) -> None:
        """The stream is ended, and given back but for the partitions in *keep*."""
        self.ends()
        self.does(ReleaseStream("s1", keep, failed))

    def fails_to(self, expected: object, error: Any) -> None:
        step = self.consuming.next_step()
        assert step == expected
        self.consuming.fail_step(step, error)

    def waits(self) -> float | None:
        step = self.consuming.next_step()
        assert isinstance(step, Wait), step
        return step.seconds

    @property
    def consumed(self) -> Consumed:
        return self.consuming.consumed


@pytest.fixture
def play() -> Play:
    return Play()


def test_batches_of_a_partition_are_handled_one_by_one_beside_other_partitions(play: Play) -> None:
    first, second, other = batch(last=1), batch(last=2), batch(partition=1)
    play.arrived(first, second, other)

    assert play.next() is first
    assert play.next() is other
    assert play.consuming.next() is None
    play.consuming.finish_batch(first)
    assert play.next() is second


def test_partitions_are_handled_in_turn(play: Play) -> None:
    batches = [batch(partition=number, last=last) for last in (1, 2) for number in (0, 1)]

    play.arrived(*batches)
    for each in batches:
        assert play.next() is each
        play.consuming.finish_batch(each)


def test_batches_handled_during_a_commit_are_committed_next(play: Play) -> None:
    first, second, third = batch(last=1, count=2), batch(partition=1), batch(last=2)
    play.handled(first, second)
    step = play.consuming.next_step()
    play.handled(third)

    assert step == CommitBatches("s1", (first, second))
    play.consuming.complete_step(step)
    play.does(CommitBatches("s1", (third,)))

    assert play.waits() is None
    assert play.consumed == Consumed(batches=3, events=4)


def test_failed_batch_ends_the_stream_after_the_commit_of_handled_ones(play: Play) -> None:
    before, failing = batch(last=1), batch(last=2)
    play.handled(before)
    play.fails(failing)

    play.does(CommitBatches("s1", (before,)))
    play.ends_stream({P0}, {P0})
    assert 0.05 <= (play.waits() or 0) <= 0.1
    play.now += 0.1
    play.does(ReleaseStream("s1", set(), {P0}))
    assert play.waits() is None
    assert play.consumed == Consumed(batches=1, events=1, failures=1)


def test_batches_behind_a_failed_one_are_not_handled(play: Play) -> None:
    failing, behind, later = batch(last=1), batch(last=2), batch(last=3)
    play.begins(failing, behind)
    play.consuming.fail_batch(failing)
    play.arrived(later)

    assert play.consuming.next() is None


def test_other_partitions_continue_after_a_failure_ended_their_stream(play: Play) -> None:
    failing, other, behind = batch(last=1), batch(partition=1, last=1), batch(partition=1, last=2)
    play.begins(failing, other, behind)
    play.next()
    play.consuming.fail_batch(failing)
    play.ends()
    play.consuming.begin_stream("s2")
    play.does(ReleaseStream("s1", {P0, P1}, {P0}))
    play.now += 0.1
    play.does(ReleaseStream("s1", {P1}, {P0}))

    play.consuming.finish_batch(other)
    play.does(CommitBatches("s1", (other,)))
    assert play.next() is behind
    play.consuming.finish_batch(behind)
    play.does(CommitBatches("s1", (behind,)))
    play.does(ReleaseStream("s1", set(), {P0}))


def test_pause_after_failures_doubles_until_a_success(play: Play) -> None:
    pauses = []
    for number in range(1, 9):
        stream = f"f{number}"
        play.consuming.begin_stream(stream)
        play.fails(batch(stream))
        play.does(EndStream(stream))
        play.consuming.end_stream(stream)
        play.does(ReleaseStream(stream, {P0}, {P0}))
        pauses.append(play.waits() or 0)
        play.now += pauses[-1]
        play.does(ReleaseStream(stream, set(), {P0}))
        if number == 7:
            play.handled(batch("s1"))
            play.consuming.complete_step(play.consuming.next_step())

    for number, pause in enumerate(pauses[:7]):
        longest = min(4.0, 0.1 * 2**number)
        assert longest / 2 <= pause <= longest
    assert pauses[7] <= 0.1


def test_parked_batch_is_committed_beside_others_and_holds_up_none_when_it_fails(play: Play) -> None:
    ordinary, parked = batch(last=5), batch(last=5, token="parked-1-0-x")
    play.handled(ordinary, parked)

    play.does(CommitBatches("s1", (ordinary, parked)))

    parked, ordinary = batch(token="parked-1-0-x"), batch(last=5)
    play.begins(parked, ordinary)
    play.consuming.fail_batch(parked)

    assert play.next() is ordinary


@pytest.mark.parametrize("has_ended", [False, True], ids=["its stream lasts", "its stream has ended"])
def test_lease_is_extended_while_a_handler_runs(play: Play, has_ended: bool) -> None:
    play.begins(batch())
    if has_ended:
        play.consuming.end_stream("s1")
        play.does(ReleaseStream("s1", {P0}, set()))

    for _ in range(3):
        assert play.waits() == 20.0
        play.now += 20.0
        play.does(ExtendLease("s1"))


def test_lease_is_not_extended_without_outstanding_batches(play: Play) -> None:
    play.handled(done := batch())
    play.does(CommitBatches("s1", (done,)))
    play.now += 3600.0

    assert play.waits() is None
    play.arrived(batch(last=1))
    assert play.waits() == 20.0


def test_lease_extension_is_retried_soon_after_a_failure(play: Play) -> None:
    play.arrived(batch())
    play.now += 20.0
    play.fails_to(ExtendLease("s1"), AWAY)

    assert 0.05 <= (play.waits() or 0) <= 0.1
    play.now += 0.1
    play.does(ExtendLease("s1"))


def test_new_streams_batch_waits_for_the_old_streams_handler_of_its_partition(play: Play) -> None:
    old, behind, again = batch(last=1), batch(last=2), batch("s2", last=1)
    play.begins(old, behind)
    play.consuming.end_stream("s1")
    play.consuming.begin_stream("s2")
    play.arrived(again)

    assert play.consuming.next() is None
    play.consuming.finish_batch(old)
    assert play.next() is again, "what the old stream was sent behind it is sent by the new one"
    play.fails_to(CommitBatches("s1", (old,)), CommitRefused(event_type="a.b", partition="0", offset=1, reason="other"))
    assert play.consumed.too_late == 1
    play.consuming.finish_batch(again)
    play.does(ReleaseStream("s1", set(), set()))
    play.does(CommitBatches("s2", (again,)))


def test_batches_of_a_lost_stream_are_not_handled(play: Play) -> None:
    done, running, waiting = batch(partition=1), batch(last=1), batch(last=2)
    play.handled(done)
    play.begins(running, waiting)
    play.fails_to(CommitBatches("s1", (done,)), StreamNotFound(stream="s1"))

    play.consuming.finish_batch(running)
    assert play.consuming.next() is None
    play.arrived(batch(last=3))
    assert play.consuming.next() is None
    play.ends()
    assert play.waits() is None
    assert play.consumed == Consumed(too_late=2)


def test_refused_cursor_holds_up_no_other_commit(play: Play) -> None:
    refused, other = batch(), batch(partition=1)
    play.handled(refused, other)
    error = CommitRefused(event_type="a.b", partition="0", offset=0, reason="another stream has it by now")
    play.fails_to(CommitBatches("s1", (refused, other)), error)

    play.does(CommitBatches("s1", (other,)))
    assert play.consumed == Consumed(batches=1, events=1, too_late=1)


def test_commit_is_retried_while_the_hub_is_away(play: Play) -> None:
    done = batch()
    play.handled(done)
    for number in range(8):
        play.fails_to(CommitBatches("s1", (done,)), AWAY)
        longest = min(4.0, 0.1 * 2**number)
        pause = play.waits() or 0
        assert longest / 2 <= pause <= longest
        play.now += pause

    play.does(CommitBatches("s1", (done,)))
    assert play.consumed.batches == 1


@pytest.mark.parametrize(
    "error", [SubscriptionNotFound(subscription="x"), Forbidden(action="read")], ids=lambda error: error.code
)
def test_permanent_error_of_a_commit_ends_the_consumer(play: Play, error: Any) -> None:
    done = batch()
    play.handled(done)
    play.fails_to(CommitBatches("s1", (done,)), error)

    play.does(EndStream("s1"))
    play.consuming.end_all_streams()
    play.does(ReleaseStream("s1", set(), set()))
    assert play.consuming.next_step() == Finished()
    assert play.consuming.error is error
    assert play.consumed.reason == "failed"


def test_stopping_waits_for_handlers_commits_and_gives_the_rest_back(play: Play) -> None:
    done, running, waiting = batch(partition=1), batch(last=1), batch(last=2)
    play.handled(done)
    play.begins(running, waiting)
    play.consuming.stop("stopped")

    assert play.consuming.next() is None
    play.does(CommitBatches("s1", (done,)))
    play.ends_stream({P0}, set())
    assert play.waits() == 10.0
    play.consuming.finish_batch(running)
    play.does(CommitBatches("s1", (running,)))
    play.does(ReleaseStream("s1", set(), set()))
    assert play.consuming.next_step() == Finished()
    assert play.consumed == Consumed(batches=2, events=2, reason="stopped")


def test_handler_that_outlasts_the_grace_keeps_its_partition(play: Play) -> None:
    play.begins(batch(), batch(partition=1))
    play.consuming.stop("cancelled")
    play.ends_stream({P0}, set())
    play.now += 10.0

    assert play.consuming.next_step() == Finished()


def test_batch_that_fails_while_stopping_is_given_back_at_once(play: Play) -> None:
    failing = batch()
    play.begins(failing)
    play.consuming.stop("stopped")
    play.ends_stream({P0}, set())
    play.consuming.fail_batch(failing)

    play.does(ReleaseStream("s1", set(), {P0}))
    assert play.consuming.next_step() == Finished()


def test_commit_while_stopping_is_retried_until_patience_ends(play: Play) -> None:
    play.handled(done := batch())

    assert stop_while_the_hub_is_away(play) == {CommitBatches("s1", (done,))}
    assert play.now == pytest.approx(START + 20.0)


def test_stopping_without_commits_waits_5_seconds_for_an_absent_hub(play: Play) -> None:
    play.consuming.end_stream("s1")

    assert stop_while_the_hub_is_away(play) == {ReleaseStream("s1", frozenset(), frozenset())}
    assert play.now == pytest.approx(START + 5.0)


def test_patience_starts_with_the_last_handlers_end_and_anew_with_each_success(play: Play) -> None:
    play.begins(slow := batch())
    play.consuming.stop("stopped")
    play.ends_stream({P0}, set())
    play.now += 9.0
    play.consuming.finish_batch(slow)
    play.fails_to(CommitBatches("s1", (slow,)), AWAY)
    play.now += 19.0
    play.does(CommitBatches("s1", (slow,)))

    assert stop_while_the_hub_is_away(play) == {ReleaseStream("s1", frozenset(), frozenset())}
    assert play.now == pytest.approx(START + 9.0 + 19.0 + 5.0)


def stop_while_the_hub_is_away(play: Play) -> set[ConsumerStep]:
    """Stop it and have it end while no hub answers; return what it has tried to do."""
    play.consuming.stop("stopped")
    tried: set[ConsumerStep] = set()
    while (step := play.consuming.next_step()) != Finished():
        if isinstance(step, Wait):
            assert step.seconds
            play.now += step.seconds
        else:
            tried.add(step)
            play.consuming.fail_step(step, AWAY)
    return tried


def test_hub_without_release_is_asked_once_a_stream(play: Play) -> None:
    play.fails(batch())
    play.ends()
    play.fails_to(ReleaseStream("s1", {P0}, {P0}), ServerError(status=404, body="", url="u"))
    play.now += 0.1
    play.fails_to(ReleaseStream("s1", set(), {P0}), ServerError(status=404, body="", url="u"))

    assert play.waits() is None


@pytest.mark.parametrize("is_first", [True, False], ids=["at first", "later"])
def test_lost_stream_is_not_given_back_again(play: Play, is_first: bool) -> None:
    running, failing = batch(), batch(partition=1)
    play.begins(running)
    play.fails(failing)
    play.ends()
    if not is_first:
        play.does(ReleaseStream("s1", {P0, P1}, {P1}))
        play.now += 0.1
    play.fails_to(ReleaseStream("s1", {P0, P1} if is_first else {P0}, {P1}), StreamNotFound(stream="s1"))

    assert play.waits() is None
    play.now += 1000.0
    assert play.waits() is None, "its handler runs, but there is no lease to be extended"
    play.consuming.finish_batch(running)
    assert play.waits() is None
    assert play.consumed == Consumed(failures=1, too_late=1)


def test_lost_stream_keeps_no_consumer_beyond_its_grace(play: Play) -> None:
    running, done = batch(), batch(partition=1)
    play.begins(running)
    play.handled(done)
    play.fails_to(CommitBatches("s1", (done,)), StreamNotFound(stream="s1"))
    play.ends()
    play.consuming.stop("stopped")
    assert play.waits() == 10.0

    play.now += 10.0

    assert play.consuming.next_step() == Finished()


def test_stream_that_begins_while_stopping_is_ended(play: Play) -> None:
    play.consuming.stop("stopped")
    play.consuming.begin_stream("s2")
    play.does(EndStream("s1"))
    play.does(EndStream("s2"))


def test_consumer_fails_with_its_first_error(play: Play) -> None:
    first, second = ValueError("first"), ValueError("second")
    play.consuming.fail(first)
    play.consuming.fail(second)

    assert play.consuming.error is first


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_random_faults_commit_only_handled_events_and_leave_no_partition_owned(seed: int) -> None:
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
    assert hub.consuming.next_step() == Finished()
    assert not hub.known
    assert set(hub.owner.values()) == {None}
