"""Streams of a subscription, on a virtual clock: cases of Nakadi's acceptance tests, and more."""

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.delivery import DeliveryBatch, DeliveryRules, EventChunk, SubscriptionDelivery

P: FeedPartition = ("orders", 0)
Q: FeedPartition = ("orders", 1)
R: FeedPartition = ("orders", 2)


RULES = {"max_uncommitted": 10, "batch_limit": 1, "flush_timeout": 30, "commit_timeout": 60, "bytes_max": 1 << 20}


class Play:
    """A stream, and a clock that the test advances."""

    def __init__(self, *places: FeedPartition, **given: Any) -> None:
        self.now = 100.0
        self.delivery = SubscriptionDelivery(DeliveryRules(**RULES | given), self.now)
        for place in places:
            self.delivery.assign(place, 0, self.now)

    def add(self, count: int, place: FeedPartition = P, start: int = 0) -> "Play":
        offsets = range(start, start + count)
        self.delivery.add(place, EventChunk([b"%d" % each for each in offsets], offsets, start + count))
        return self

    def take(self, after: float = 0.0) -> list[DeliveryBatch]:
        self.now += after
        return list(self.delivery.take(self.now))

    def commit(self, offset: int, place: FeedPartition = P) -> "Play":
        self.delivery.commit(place, offset + 1, self.now)
        return self


def shown(batches: Iterable[DeliveryBatch]) -> list[str]:
    """Return batches in short: partition, last offset, events, and the reason of an end."""
    return [
        f"{each.place[1]}:{each.position - 1}[{b' '.join(each.events).decode()}]"
        f"{'' if each.debug is None else ' ' + each.debug}"
        for each in batches
    ]


def test_uncommitted_events_are_limited() -> None:
    play = Play(P, max_uncommitted=5).add(15)
    assert [batch.position for batch in play.take()] == [1, 2, 3, 4, 5]
    assert play.take() == []
    assert [batch.position for batch in play.commit(4).take()] == [6, 7, 8, 9, 10]
    assert [batch.position for batch in play.commit(6).take()] == [11, 12]
    assert play.delivery.uncommitted == {P: 12}


def test_uncommitted_events_of_all_partitions_share_one_limit() -> None:
    play = Play(P, Q, max_uncommitted=5, batch_limit=3).add(4).add(4, Q)
    assert shown(play.take()) == ["0:2[0 1 2] Stream started", "1:1[0 1]"]
    play.commit(0)
    assert shown(play.take()) == ["0:3[3]"]


def test_batches_are_sent_when_full_or_when_the_flush_timeout_passes() -> None:
    play = Play(P, max_uncommitted=20, batch_limit=5, flush_timeout=1).add(12)
    assert shown(play.take()) == ["0:4[0 1 2 3 4] Stream started", "0:9[5 6 7 8 9]"]
    assert play.delivery.due_at == play.now + 1
    assert play.take(0.9) == []
    assert shown(play.take(0.1)) == ["0:11[10 11]"]
    assert shown(play.take(1)) == ["0:11[]"]


def test_empty_partition_gets_keep_alives() -> None:
    play = Play(P, flush_timeout=5)
    assert shown(play.take(5)) == ["0:-1[] Stream started"]
    assert shown(play.take(5)) == ["0:-1[]"]


def test_short_flush_timeout_sends_events_soon_and_keep_alives_a_second_apart() -> None:
    play = Play(P, max_uncommitted=7, batch_limit=5, flush_timeout=0.1)
    assert play.delivery.due_at == play.now + 1
    assert shown(play.add(1).take(0.1)) == ["0:0[0] Stream started"]
    assert play.add(1, start=1).take(0.05) == []
    assert play.delivery.due_at == pytest.approx(play.now + 0.05)
    assert shown(play.take(0.05)) == ["0:1[1]"]
    assert shown(play.add(6, start=2).take()) == ["0:6[2 3 4 5 6]"]
    assert play.take(0.9) == [], "the window has no room for the last"
    assert play.delivery.due_at == pytest.approx(play.now + 0.1)
    assert shown(play.take(0.1)) == ["0:6[]"]
    assert shown(play.commit(6).take(0.1)) == ["0:7[7]"]


def test_stream_ends_when_the_commit_timeout_passes() -> None:
    play = Play(P, commit_timeout=5).add(1)
    assert shown(play.take()) == ["0:0[0] Stream started"]
    assert play.delivery.due_at == play.now + 5
    assert play.take(4.9) == []
    assert shown(play.take(0.1)) == ["0:0[] Commit timeout reached"]
    assert (play.take(100), play.delivery.reason) == ([], "Commit timeout reached")


def test_later_batches_do_not_restart_the_commit_timeout() -> None:
    play = Play(P, commit_timeout=5).add(1)
    play.take()
    assert shown(play.add(1, start=1).take(3)) == ["0:1[1]"]
    assert play.delivery.ends_at == play.now + 2
    assert shown(play.take(2)) == ["0:1[] Commit timeout reached"]


def test_partition_is_read_until_a_batch_or_the_window_is_full() -> None:
    for limits in ({"batch_limit": 3}, {"batch_limit": 9, "max_uncommitted": 3}):
        play = Play(P, Q, **limits)
        assert play.add(2).delivery.wanted_offsets == {P: 2, Q: 0}
        assert play.add(1, start=2).delivery.wanted_offsets == {Q: 0}


def test_offsets_without_events_behind_uncommitted_events_are_not_committed() -> None:
    play = Play(P).add(1)
    play.take()
    play.delivery.add(P, EventChunk([], [], 9))
    assert play.delivery.filtered_positions == {}
    assert play.commit(0).delivery.filtered_positions == {P: 9}


def test_end_is_known_while_another_thread_removes_a_partition() -> None:
    play = Play(P, Q)

    class Track:
        ahead = 0

        @property
        def withdrawn_at(self) -> None:
            play.delivery.remove(Q, play.now)

    play.delivery._queues[P] = Track()  # type: ignore[assignment]

    assert play.delivery.ends_at == float("inf")
    assert list(play.delivery.places) == [P]


def test_commit_restarts_the_commit_timeout() -> None:
    play = Play(P, commit_timeout=5).add(3)
    play.take()
    play.now += 4
    play.commit(0)
    assert play.take(4.9) == []
    assert play.commit(2).take(50) == [DeliveryBatch(P, 3)], "there is nothing to be committed: only a keep-alive"
    play.add(1, start=3)
    play.take()
    assert play.take(4.9) == []
    assert shown(play.take(0.1)) == ["0:3[] Commit timeout reached"]


def test_stream_timeout_flushes_and_ends_the_stream() -> None:
    play = Play(P, batch_limit=10, timeout=2).add(4)
    assert play.take() == []
    assert shown(play.take(2)) == ["0:3[0 1 2 3] Stream started", "0:3[] Stream timeout reached"]


def test_stream_limit_ends_the_stream_once_its_events_are_committed() -> None:
    play = Play(P, stream_limit=2, batch_limit=5).add(4)
    assert shown(play.take()) == ["0:1[0 1] Stream started"]
    assert play.take(20) == []
    assert shown(play.commit(1).take()) == ["0:1[] Stream limit in events reached: 2"]


def test_keep_alive_limit_ends_the_stream_once_every_partition_has_reached_it() -> None:
    assert shown(Play(P, flush_timeout=1, keep_alive_limit=1).take(1))[-1] == "0:-1[] Keep-alive limit reached: 1"
    play = Play(P, Q, flush_timeout=1, keep_alive_limit=2, max_uncommitted=1).add(2)
    assert shown(play.take()) == ["0:0[0] Stream started"]
    for _ in range(4):
        assert shown(play.take(1)) == ["0:0[]", "1:-1[]"], "that the window is full is no reason"
    play.commit(0).take()
    play.commit(1)
    play.take(1)
    assert shown(play.take(1))[-1] == "0:1[] Keep-alive limit reached: 2"


def test_offsets_without_events_are_passed_over() -> None:
    play = Play(P)
    play.delivery.add(P, EventChunk([], [], 7))
    assert play.delivery.filtered_positions == {P: 7}
    assert play.delivery.wanted_offsets == {P: 7}
    play.delivery.add(P, EventChunk([b"7", b"9"], [7, 9], 12))
    assert play.delivery.filtered_positions == {}
    assert shown(play.take()) == ["0:7[7] Stream started", "0:11[9]"]
    assert play.delivery.uncommitted == {P: 12}


def test_commit_beyond_the_sent_events_skips_to_its_offset() -> None:
    play = Play(P, batch_limit=2).add(6)
    play.take()
    play.commit(3)
    assert shown(play.add(2, start=6).take()) == ["0:7[6 7]"]
    play = Play(P, max_uncommitted=2).add(6)
    assert shown(play.take()) == ["0:0[0] Stream started", "0:1[1]"]
    assert shown(play.commit(3).take()) == ["0:4[4]", "0:5[5]"]


def test_withdrawn_partition_is_released_once_all_is_committed() -> None:
    play = Play(P, Q, commit_timeout=5, batch_limit=2).add(4)
    play.take()
    play.delivery.withdraw(P, play.now)
    play.delivery.withdraw(Q, play.now)
    assert play.delivery.released_partitions == [Q]
    assert play.delivery.wanted_offsets == {}
    play.commit(3)
    assert play.delivery.released_partitions == [P, Q]
    play.delivery.remove(P, play.now)
    play.delivery.remove(Q, play.now)
    assert play.delivery.ends_at == play.now + 10
    assert (play.take(9.9), play.delivery.reason) == ([], None)
    assert play.take(0.1) == [], "there is no partition on which it could be said"
    assert play.delivery.reason == "No partition was free for this stream"


def test_withdrawn_partition_that_is_not_committed_in_time_ends_the_stream() -> None:
    play = Play(P, Q, commit_timeout=5, batch_limit=2).add(2).add(2, Q)
    play.take()
    play.now += 3
    play.delivery.withdraw(P, play.now)
    play.commit(1, Q)
    assert play.take(4.9) == []
    assert shown(play.take(0.1))[-1].endswith("Commit timeout reached")


def test_events_are_sent_one_by_one_up_to_an_offset() -> None:
    play = Play(P, batch_limit=3).add(7)
    play.delivery.single_out(P, 2)
    assert shown(play.take()) == ["0:0[0] Stream started"]
    assert play.take() == []
    assert shown(play.commit(0).take()) == ["0:1[1]"]
    assert shown(play.commit(1).take()) == ["0:4[2 3 4]"]


def test_one_event_at_a_time_is_sent_across_partitions_that_send_one_by_one() -> None:
    """Otherwise an event that fails would have another fail with it, in another partition."""
    play = Play(P, Q, R, batch_limit=3, flush_timeout=2).add(3).add(3, Q).add(3, R)
    play.delivery.single_out(P, 2)
    play.delivery.single_out(Q, 1)

    assert shown(play.take()) == ["0:0[0] Stream started", "2:2[0 1 2]"]
    assert shown(play.take(2)) == ["0:0[]", "1:-1[]", "2:2[]"]
    assert shown(play.commit(2, R).commit(0).take()) == ["0:1[1]"]
    assert shown(play.commit(1).add(2, start=3).take()) == ["0:4[2 3 4]", "1:0[0]"]
    assert shown(play.commit(0, Q).add(2, Q, start=3).take()) == ["1:3[1 2 3]"]


def test_batch_spans_no_longer_than_its_timespan() -> None:
    play = Play(P, batch_limit=10, timespan_seconds=2)
    play.delivery.add(P, EventChunk([b"a", b"b", b"c"], range(3), 3, [10.0, 11.9, 12.0]))
    assert shown(play.take()) == ["0:1[a b] Stream started"]
    assert play.take(29) == []
    assert shown(play.take(1)) == ["0:2[c]"]
    play = Play(P, batch_limit=2, timespan_seconds=2)
    play.delivery.add(P, EventChunk([b"a", b"b", b"c", b"d"], range(4), 4, [0.0, 5.0, 6.0, 7.0]))
    assert shown(play.take()) == ["0:0[a] Stream started", "0:2[b c]"]


def test_memory_of_a_stream_is_limited() -> None:
    play = Play(P, Q, batch_limit=100, max_uncommitted=1000, bytes_max=400)
    play.delivery.add(P, EventChunk([b"x" * 300], range(1), 1))
    assert play.take() == []
    play.delivery.add(Q, EventChunk([b"y" * 100], range(1), 1))
    assert play.delivery.wanted_offsets == {}
    [batch] = play.take()
    assert (batch.place, len(batch.events)) == (P, 1), "the partition with the most bytes is flushed"
    assert play.delivery.wanted_offsets == {P: 1, Q: 1}


@pytest.mark.parametrize("after", [0.0, 1000.0])
def test_stream_ends_once(after: float) -> None:
    play = Play(P, timeout=5).add(1)
    assert shown(play.delivery.end("Consumption is blocked")) == ["0:-1[] Consumption is blocked"]
    assert play.delivery.end("Stream timeout reached") == ()
    assert play.take(after) == []


def test_offsets_without_events_need_no_commit() -> None:
    play = Play(P, max_uncommitted=3, commit_timeout=5)
    play.delivery.add(P, EventChunk([b"7", b"9"], [7, 9], 10))

    assert shown(play.take()) == ["0:7[7] Stream started", "0:9[9]"]
    assert play.delivery.uncommitted == {P: 10}
    play.commit(9)

    assert play.delivery.uncommitted == {}
    assert play.take(6) == []


def test_offsets_without_events_are_passed_over_at_the_end_unless_events_wait() -> None:
    play = Play(P, Q)
    play.delivery.add(P, EventChunk([], [], 7))
    play.delivery.add(Q, EventChunk([b"0"], [0], 7))
    play.delivery.end("so be it")
    assert play.delivery.filtered_positions == {P: 7}, "of the other one something waits"


def test_partitions_share_the_limit_of_uncommitted_events_fairly() -> None:
    play = Play(P, Q, max_uncommitted=6, batch_limit=1).add(9).add(3, Q)
    assert shown(play.take()) == ["0:0[0] Stream started", "1:0[0]", "0:1[1]", "1:1[1]", "0:2[2]", "1:2[2]"]


def test_partition_that_commits_gets_the_room_before_one_that_does_not() -> None:
    play = Play(P, Q, max_uncommitted=4, batch_limit=1).add(9).add(9, Q)
    play.take()
    assert shown(play.commit(1, Q).take()) == ["1:2[2]", "1:3[3]"]


def test_one_batch_of_a_partition_is_sent_before_others_are_read() -> None:
    play = Play(P, Q, max_uncommitted=4, batch_limit=1).add(9)
    assert shown(play.delivery.take_one(P, play.now)) == ["0:0[0] Stream started"]
    assert play.delivery.take_one(Q, play.now) == []
    play.add(9, Q)
    assert shown(play.delivery.take_one(Q, play.now)) == ["1:0[0]"]
    assert shown(play.take()) == ["0:1[1]", "1:1[1]"]


def test_events_beyond_the_memory_limit_are_sent_at_once() -> None:
    play = Play(P, Q, max_uncommitted=40, batch_limit=30, bytes_max=100).add(9)
    assert shown(play.delivery.take_one(P, play.now)) == ["0:8[0 1 2 3 4 5 6 7 8] Stream started"]


def test_withdrawn_partition_has_a_commit_timeout_of_its_own() -> None:
    play = Play(P, Q, commit_timeout=5).add(1).add(1, Q)
    play.take()
    play.delivery.withdraw(P, play.now)
    play.take(4)
    play.commit(0, Q)

    assert play.delivery.find_overdue(play.now) == []
    assert shown(play.take(1))[-1].endswith("A partition was reassigned and not committed in time")
    assert play.delivery.find_overdue(play.now) == [P]


def test_events_sent_one_by_one_are_not_flushed_at_the_end() -> None:
    play = Play(P, batch_limit=5, timeout=10).add(9)
    play.delivery.single_out(P, 5)
    assert shown(play.take()) == ["0:0[0] Stream started"]

    assert shown(play.take(10)) == ["0:0[] Stream timeout reached"]


def test_first_event_of_those_sent_one_by_one_is_flushed_at_the_end() -> None:
    play = Play(P, batch_limit=5, max_uncommitted=20, timeout=10).add(9)
    play.delivery.single_out(P, 5)

    assert shown(play.take(10)) == ["0:0[0] Stream started", "0:0[] Stream timeout reached"]


def test_events_sent_one_by_one_wait_for_commits_when_the_flush_timeout_passes() -> None:
    play = Play(P, batch_limit=5, flush_timeout=2).add(7)
    play.delivery.single_out(P, 3)

    assert shown(play.take(2)) == ["0:0[0] Stream started"]
    assert shown(play.take(2)) == ["0:0[]"]
    assert shown(play.commit(0).take(2)) == ["0:1[1]"]
    assert shown(play.commit(1).take(2)) == ["0:2[2]"]
    assert play.take() == [], "what is behind them waits for the last of them, too"
    assert shown(play.commit(2).take(2)) == ["0:6[3 4 5 6]"]


def test_events_sent_one_by_one_stay_in_memory_beyond_its_limit() -> None:
    play = Play(P, batch_limit=5, bytes_max=100).add(9)
    play.delivery.single_out(P, 5)
    assert shown(play.take())[0] == "0:0[0] Stream started"

    assert play.take() == []


def test_limits_that_are_left_out_end_no_stream() -> None:
    play = Play(P, flush_timeout=1)
    for offset in range(100):
        assert [batch.events for batch in play.add(1, start=offset).take()] == [[b"%d" % offset]]
        play.commit(offset)
    for _ in range(100):
        assert [len(batch.events) for batch in play.take(1)] == [0]
    assert play.take(365 * 24 * 3600.0), "a keep-alive after a year"
    assert play.delivery.reason is None
