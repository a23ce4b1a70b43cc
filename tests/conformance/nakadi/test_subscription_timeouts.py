"""Streams of subscriptions that end by the clock, or wait for it (5.6 and 5.7), on a hub whose clock is real.

What of this can be told without one is in test_subscription_clock.py once more, to the moment.
"""

import time

import pytest

from tests.nakadi import BEFORE_FIRST, Nakadi, offset
from tests.scenes import scene
from tests.served import until
from tests.subscribing import event_type_of, filled, numbered, put, subscribe, told

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
STARTED = "Stream started"


@scene
def test_what_is_buffered_is_sent_when_the_time_of_a_stream_is_over(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenStreamTimeoutReachedThenEventsFlushed: one batch of 4, one that says why."""
    found = filled(nakadi, 4).read(batch_limit=10, batch_flush_timeout=600, stream_timeout=2)
    assert told(found) == [f"3[0, 1, 2, 3] {STARTED}", "3[] Stream timeout reached"]


@scene
def test_a_stream_ends_after_its_time_though_all_is_committed(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenStreamTimeoutReachedSessionIsClosed."""
    subscription = filled(nakadi, 1)
    with subscription.stream(stream_timeout=2) as consumer:
        consumer.done(consumer.batch())
        assert told(consumer.rest()) == ["0[] Stream timeout reached"]
    assert [each["state"] for each in subscription.partitions()] == ["unassigned"]


@scene
def test_what_was_sent_can_be_committed_after_the_stream_has_ended(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenStreamTimeoutReachedPossibleToCommit: as long as its time to commit lasts."""
    subscription = filled(nakadi, 1)
    with subscription.stream(stream_timeout=1, commit_timeout=60) as consumer:
        batch = consumer.batch()
        assert consumer.reason() == "Stream timeout reached"
    [held] = subscription.partitions()
    assert (held["state"], held["stream_id"]) == ("assigned", consumer.id)
    consumer.done(batch)
    assert subscription.committed() == [offset(0)]
    assert [each["state"] for each in subscription.partitions()] == ["unassigned"]
    assert consumer.commit(batch).status_code == 422, "with nothing left to commit, the stream is forgotten"


@scene
def test_a_stream_ends_when_nothing_is_committed_in_time(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenCommitTimeoutReachedSessionIsClosed: told at the last offset that was sent."""
    subscription = filled(nakadi, 1)
    with subscription.stream(commit_timeout=1, batch_flush_timeout=30) as consumer:
        batch = consumer.next()
        assert told([batch]) == [f"0[0] {STARTED}"]
        assert told(consumer.rest()) == ["0[] Commit timeout reached"]
        assert consumer.commit(batch).status_code == 422
    assert subscription.committed() == [BEFORE_FIRST]


@scene
def test_batches_are_as_large_as_they_may_or_as_late(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenBatchLimitAndTimeoutAreSetTheyAreConsidered: 5, 5, and after a second 2."""
    subscription = filled(nakadi, 12)
    with subscription.stream(batch_limit=5, batch_flush_timeout=1, max_uncommitted_events=20) as consumer:
        assert told(consumer.batches(2)) == [f"4[0, 1, 2, 3, 4] {STARTED}", "9[5, 6, 7, 8, 9]"]
        assert told([consumer.next()]) == ["11[10, 11]"]


@scene
def test_the_first_line_of_an_empty_partition_is_before_its_first_event(nakadi: Nakadi) -> None:
    """5.6; HilaAT.whenNoEventsThenFirstOffsetIsBEGIN: a keep-alive."""
    subscription = filled(nakadi, 0)
    with subscription.stream(batch_flush_timeout=1) as consumer:
        first = consumer.next()
        assert (first.offset, first.events, first.debug) == (BEFORE_FIRST, None, STARTED)
        assert told([consumer.next()]) == ["-1[]"]


@scene
def test_a_stream_timeout_of_0_is_none(nakadi: Nakadi) -> None:
    """5.6; HilaAT.whenStreamTimeout0ThenInfiniteStreaming."""
    subscription = filled(nakadi, 1)
    with subscription.stream(stream_timeout=0, batch_flush_timeout=1) as consumer:
        consumer.done(consumer.batch())
        assert told(consumer.next() for _ in range(2)) == ["0[]", "0[]"]


@scene
def test_so_many_keep_alives_of_every_partition_end_a_stream(nakadi: Nakadi) -> None:
    """5.6, 11 no. 27: and it says so."""
    found = filled(nakadi, 0, partitions=2).read(batch_flush_timeout=1, stream_keep_alive_limit=2)
    assert sorted(each.partition for each in found[:-1]) == ["0", "0", "1", "1"]
    assert {each.events for each in found} == {None}
    assert found[-1].debug == "Keep-alive limit reached: 2"


@scene
def test_a_keep_alive_for_want_of_a_commit_does_not_count(nakadi: Nakadi) -> None:
    """11, no. 24: what waits is there, and the window is full."""
    subscription = filled(nakadi, 3)
    with subscription.stream(batch_flush_timeout=1, stream_keep_alive_limit=1, max_uncommitted_events=1) as consumer:
        found = [consumer.next() for _ in range(3)]
        assert told(found) == [f"0[0] {STARTED}", "0[]", "0[]"]
        consumer.done(found[0])
        assert told([consumer.batch()]) == ["1[1]"]


@scene
def test_a_batch_flush_timeout_of_0_is_the_default(nakadi: Nakadi) -> None:
    """11, no. 9: not a keep-alive as often as there is time."""
    found = filled(nakadi, 0).read(batch_flush_timeout=0, stream_timeout=2)
    assert told(found) == ["-1[] Stream timeout reached"]


@scene
def test_a_batch_spans_no_more_time_than_it_may(nakadi: Nakadi) -> None:
    """5.6: by when its events were received."""
    created = numbered(nakadi)
    subscription = subscribe(created)
    put(created, 0, 1)
    time.sleep(1.1)
    put(created, 2)
    with subscription.stream(batch_limit=10, batch_timespan=1, batch_flush_timeout=2) as consumer:
        assert told(consumer.batches(2)) == [f"1[0, 1] {STARTED}", "2[2]"]


@scene
def test_each_commit_gives_a_stream_its_time_anew(nakadi: Nakadi) -> None:
    """5.7: the clock starts at the last commit."""
    subscription = filled(nakadi, 3)
    began_at = time.monotonic()
    with subscription.stream(commit_timeout=3, batch_flush_timeout=1) as consumer:
        first, second, _ = consumer.batches(3)
        consumer.next()
        consumer.done(first)
        consumer.next()
        consumer.done(second)
        assert told(consumer.rest())[-1] == "2[] Commit timeout reached"
    assert time.monotonic() - began_at > 4.5


@scene
def test_a_lease_can_be_begun_anew_without_a_commit(nakadi: Nakadi) -> None:
    """A decision: for handlers that are slow."""
    subscription = filled(nakadi, 1)
    lease = f"{subscription.path}/streams/{{}}/lease"
    with subscription.stream(commit_timeout=3, batch_flush_timeout=1) as consumer:
        batch = consumer.next()
        for _ in range(4):
            assert told([consumer.next()]) == ["0[]"], "a second each"
            answer = nakadi.http.post(lease.format(consumer.id))
            assert (answer.status_code, answer.content) == (204, b"")
        consumer.done(batch)


@scene
def test_a_partition_waits_for_the_commit_of_one_who_has_left(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenConnectionIsClosedByClientNakadiRecognizesIt: no longer than its time to commit."""
    subscription = filled(nakadi, 2)
    with subscription.stream(commit_timeout=2, batch_flush_timeout=30) as consumer:
        assert told([consumer.next()]) == [f"0[0] {STARTED}"]
    began_at = time.monotonic()
    with subscription.joined(commit_timeout=2, batch_flush_timeout=1) as consumer:
        assert consumer.batch().numbers == [0], "it was not committed: it comes again"
    assert time.monotonic() - began_at < 28


@scene
def test_one_who_has_left_with_all_committed_is_in_no_ones_way(nakadi: Nakadi) -> None:
    """5.7, 12: its leaving is noticed at once, whatever the timeouts."""
    subscription = filled(nakadi, 2)
    with subscription.stream(batch_flush_timeout=60, batch_limit=2) as consumer:
        consumer.done(consumer.batch())
    until(lambda: subscription.partitions()[0]["state"] == "unassigned")
    put(event_type_of(subscription), 2)
    with subscription.stream(batch_flush_timeout=60) as consumer:
        assert consumer.next().numbers == [2]
