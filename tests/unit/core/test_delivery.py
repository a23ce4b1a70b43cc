"""The vectors of Nakadi's contract for a subscription's stream (its digest, 5.6 and 5.7), on a clock of their own."""

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.core.assignment import Place
from penstock.core.delivery import Batch, Delivery
from penstock.core.stream_rules import Rules
from penstock.core.track import Read

P: Place = ("orders", 0)
Q: Place = ("orders", 1)
R: Place = ("orders", 2)


def rules(**given: Any) -> Rules:
    return Rules(
        **{"max_uncommitted": 10, "batch_limit": 1, "flush_s": 30, "commit_s": 60, "bytes_max": 1 << 20} | given
    )


class Play:
    """A stream, and a clock that goes on by hand."""

    def __init__(self, *places: Place, **given: Any) -> None:
        self.now = 100.0
        self.delivery = Delivery(rules(**given), self.now)
        for place in places:
            self.delivery.assign(place, 0, self.now)

    def add(self, count: int, place: Place = P, start: int = 0) -> "Play":
        offsets = range(start, start + count)
        self.delivery.add(place, Read([b"%d" % each for each in offsets], offsets, start + count))
        return self

    def take(self, after: float = 0.0) -> list[Batch]:
        self.now += after
        return list(self.delivery.take(self.now))

    def commit(self, offset: int, place: Place = P) -> "Play":
        self.delivery.commit(place, offset + 1, self.now)
        return self


def told(batches: Iterable[Batch]) -> list[str]:
    """Return batches in short: partition, last offset, events, and what is said besides."""
    return [
        f"{each.place[1]}:{each.position - 1}[{b' '.join(each.events).decode()}]"
        f"{'' if each.debug is None else ' ' + each.debug}"
        for each in batches
    ]


def test_what_is_sent_and_not_committed_has_an_end() -> None:
    play = Play(P, max_uncommitted=5).add(15)
    assert [batch.position for batch in play.take()] == [1, 2, 3, 4, 5]
    assert play.take() == []
    assert [batch.position for batch in play.commit(4).take()] == [6, 7, 8, 9, 10]
    assert [batch.position for batch in play.commit(6).take()] == [11, 12]
    assert play.delivery.uncommitted == {P: 12}


def test_the_window_is_of_all_partitions_and_of_offsets() -> None:
    play = Play(P, Q, max_uncommitted=5, batch_limit=3).add(4).add(4, Q)
    assert told(play.take()) == ["0:2[0 1 2] Stream started", "1:1[0 1]"]
    play.commit(0)
    assert told(play.take()) == ["0:3[3]"]


def test_batches_are_sent_when_they_are_full_or_after_a_while() -> None:
    play = Play(P, max_uncommitted=20, batch_limit=5, flush_s=1).add(12)
    assert told(play.take()) == ["0:4[0 1 2 3 4] Stream started", "0:9[5 6 7 8 9]"]
    assert play.delivery.due_at == play.now + 1
    assert play.take(0.9) == []
    assert told(play.take(0.1)) == ["0:11[10 11]"]
    assert told(play.take(1)) == ["0:11[]"]


def test_an_empty_partition_says_so() -> None:
    play = Play(P, flush_s=5)
    assert told(play.take(5)) == ["0:-1[] Stream started"]
    assert told(play.take(5)) == ["0:-1[]"]


def test_it_ends_when_nothing_is_committed_for_too_long() -> None:
    play = Play(P, commit_s=5).add(1)
    assert told(play.take()) == ["0:0[0] Stream started"]
    assert play.delivery.due_at == play.now + 5
    assert play.take(4.9) == []
    assert told(play.take(0.1)) == ["0:0[] Commit timeout reached"]
    assert (play.take(100), play.delivery.reason) == ([], "Commit timeout reached")


def test_it_is_known_when_it_ends_though_a_partition_is_let_go_of_at_this_moment() -> None:
    """Whoever sends asks while the next step is made by another thread."""
    play = Play(P, Q)

    class Track:
        ahead = 0

        @property
        def withdrawn_at(self) -> None:
            play.delivery.remove(Q, play.now)

    play.delivery._tracks[P] = Track()  # type: ignore[assignment]

    assert play.delivery.ends_at == float("inf")
    assert list(play.delivery.places) == [P]


def test_each_commit_gives_it_time() -> None:
    play = Play(P, commit_s=5).add(3)
    play.take()
    play.now += 4
    play.commit(0)
    assert play.take(4.9) == []
    assert play.commit(2).take(50) == [Batch(P, 3)], "there is nothing to be committed: only a keep-alive"
    play.add(1, start=3)
    play.take()
    assert play.take(4.9) == []
    assert told(play.take(0.1)) == ["0:3[] Commit timeout reached"]


def test_it_ends_after_its_time_with_what_it_has() -> None:
    play = Play(P, batch_limit=10, timeout_s=2).add(4)
    assert play.take() == []
    assert told(play.take(2)) == ["0:3[0 1 2 3] Stream started", "0:3[] Stream timeout reached"]


def test_it_ends_after_so_many_events_once_they_are_committed() -> None:
    play = Play(P, stream_limit=2, batch_limit=5).add(4)
    assert told(play.take()) == ["0:1[0 1] Stream started"]
    assert play.take(20) == []
    assert told(play.commit(1).take()) == ["0:1[] Stream limit in events reached: 2"]


def test_it_ends_after_so_many_keep_alives_of_every_partition() -> None:
    play = Play(P, Q, flush_s=1, keep_alive_limit=2, max_uncommitted=1).add(2)
    assert told(play.take()) == ["0:0[0] Stream started"]
    for _ in range(4):
        assert told(play.take(1)) == ["0:0[]", "1:-1[]"], "that the window is full is no reason"
    play.commit(0).take()
    play.commit(1)
    play.take(1)
    assert told(play.take(1))[-1] == "0:1[] Keep-alive limit reached: 2"


def test_what_is_left_out_is_passed_over() -> None:
    play = Play(P)
    play.delivery.add(P, Read([], [], 7))
    assert play.delivery.passed_over == {P: 7}
    assert play.delivery.wanted == {P: 7}
    play.delivery.add(P, Read([b"7", b"9"], [7, 9], 12))
    assert play.delivery.passed_over == {}
    assert told(play.take()) == ["0:7[7] Stream started", "0:11[9]"]
    assert play.delivery.uncommitted == {P: 12}


def test_a_commit_beyond_what_was_sent_goes_on_behind_it() -> None:
    play = Play(P, batch_limit=2).add(6)
    play.take()
    play.commit(3)
    assert told(play.add(2, start=6).take()) == ["0:7[6 7]"]
    play = Play(P, max_uncommitted=2).add(6)
    assert told(play.take()) == ["0:0[0] Stream started", "0:1[1]"]
    assert told(play.commit(3).take()) == ["0:4[4]", "0:5[5]"]


def test_one_that_is_to_go_elsewhere_is_let_go_when_all_is_committed() -> None:
    play = Play(P, Q, commit_s=5, batch_limit=2).add(4)
    play.take()
    play.delivery.withdraw(P, play.now)
    play.delivery.withdraw(Q, play.now)
    assert play.delivery.released == [Q]
    assert play.delivery.wanted == {}
    play.commit(3)
    assert play.delivery.released == [P, Q]
    play.delivery.remove(P, play.now)
    play.delivery.remove(Q, play.now)
    assert play.take(9.9) == []
    assert play.take(0.1) == [], "there is no partition on which it could be said"
    assert play.delivery.reason == "No partition was free for this stream"


def test_one_that_is_not_let_go_in_time_ends_the_stream() -> None:
    play = Play(P, Q, commit_s=5, batch_limit=2).add(2).add(2, Q)
    play.take()
    play.now += 3
    play.delivery.withdraw(P, play.now)
    play.commit(1, Q)
    assert play.take(4.9) == []
    assert told(play.take(0.1))[-1].endswith("Commit timeout reached")


def test_events_are_singled_out_up_to_an_offset() -> None:
    play = Play(P, batch_limit=3).add(7)
    play.delivery.single_out(P, 2)
    assert told(play.take()) == ["0:0[0] Stream started"]
    assert play.take() == []
    assert told(play.commit(0).take()) == ["0:1[1]"]
    assert told(play.commit(1).take()) == ["0:4[2 3 4]"]


def test_of_all_that_are_singled_out_one_event_is_on_its_way() -> None:
    """Else one that is guilty would have another fail with it, in a partition of which nothing was looked at."""
    play = Play(P, Q, R, batch_limit=3, flush_s=2).add(3).add(3, Q).add(3, R)
    play.delivery.single_out(P, 2)
    play.delivery.single_out(Q, 1)

    assert told(play.take()) == ["0:0[0] Stream started", "2:2[0 1 2]"]
    assert told(play.take(2)) == ["0:0[]", "1:-1[]", "2:2[]"]
    assert told(play.commit(2, R).commit(0).take()) == ["0:1[1]"]
    assert told(play.commit(1).add(2, start=3).take()) == ["0:4[2 3 4]", "1:0[0]"]
    assert told(play.commit(0, Q).add(2, Q, start=3).take()) == ["1:3[1 2 3]"]


def test_a_batch_spans_no_more_than_it_may() -> None:
    play = Play(P, batch_limit=10, timespan_s=2)
    play.delivery.add(P, Read([b"a", b"b", b"c"], range(3), 3, [10.0, 11.9, 12.0]))
    assert told(play.take()) == ["0:1[a b] Stream started"]
    assert play.take(29) == []
    assert told(play.take(1)) == ["0:2[c]"]


def test_it_holds_no_more_than_it_may() -> None:
    play = Play(P, Q, batch_limit=100, max_uncommitted=1000, bytes_max=400)
    play.delivery.add(P, Read([b"x" * 300], range(1), 1))
    assert play.take() == []
    play.delivery.add(Q, Read([b"y" * 100], range(1), 1))
    assert play.delivery.wanted == {}
    assert told(play.take())[0].endswith("] Stream started")
    assert play.delivery.wanted == {P: 1, Q: 1}


@pytest.mark.parametrize("after", [0.0, 1000.0])
def test_it_ends_once(after: float) -> None:
    play = Play(P, timeout_s=5).add(1)
    assert told(play.delivery.end("Consumption is blocked")) == ["0:-1[] Consumption is blocked"]
    assert play.delivery.end("Stream timeout reached") == ()
    assert play.take(after) == []


def test_what_was_left_out_before_a_batch_is_not_waited_for() -> None:
    play = Play(P, max_uncommitted=3, commit_s=5)
    play.delivery.add(P, Read([b"7", b"9"], [7, 9], 10))

    assert told(play.take()) == ["0:7[7] Stream started", "0:9[9]"]
    assert play.delivery.uncommitted == {P: 10}
    play.commit(9)

    assert play.delivery.uncommitted == {}
    assert play.take(6) == []


def test_what_was_left_out_can_be_committed_at_the_end_too() -> None:
    play = Play(P, Q)
    play.delivery.add(P, Read([], [], 7))
    play.delivery.add(Q, Read([b"0"], [0], 7))
    play.delivery.end("so be it")
    assert play.delivery.passed_over == {P: 7}, "of the other one something waits"


def test_a_partition_with_many_events_leaves_room_in_the_window_for_others() -> None:
    play = Play(P, Q, max_uncommitted=6, batch_limit=1).add(9).add(3, Q)
    assert told(play.take()) == ["0:0[0] Stream started", "1:0[0]", "0:1[1]", "1:1[1]", "0:2[2]", "1:2[2]"]


def test_whoever_commits_has_room_before_whoever_does_not() -> None:
    play = Play(P, Q, max_uncommitted=4, batch_limit=1).add(9).add(9, Q)
    play.take()
    assert told(play.commit(1, Q).take()) == ["1:2[2]", "1:3[3]"]


def test_of_what_was_read_one_batch_is_sent_before_others_are_read() -> None:
    play = Play(P, Q, max_uncommitted=4, batch_limit=1).add(9)
    assert told(play.delivery.take_one(P, play.now)) == ["0:0[0] Stream started"]
    assert play.delivery.take_one(Q, play.now) == []
    play.add(9, Q)
    assert told(play.delivery.take_one(Q, play.now)) == ["1:0[0]"]
    assert told(play.take()) == ["0:1[1]", "1:1[1]"]


def test_what_is_too_much_to_wait_is_sent_at_once() -> None:
    play = Play(P, Q, max_uncommitted=40, batch_limit=30, bytes_max=100).add(9)
    assert told(play.delivery.take_one(P, play.now)) == ["0:8[0 1 2 3 4 5 6 7 8] Stream started"]


def test_what_is_to_be_somebody_elses_has_a_time_of_its_own() -> None:
    play = Play(P, Q, commit_s=5).add(1).add(1, Q)
    play.take()
    play.delivery.withdraw(P, play.now)
    play.take(4)
    play.commit(0, Q)

    assert play.delivery.overdue(play.now) == []
    assert told(play.take(1))[-1].endswith("A partition was reassigned and not committed in time")
    assert play.delivery.overdue(play.now) == [P]


def test_events_that_are_singled_out_are_not_flushed_at_the_end() -> None:
    play = Play(P, batch_limit=5, timeout_s=10).add(9)
    play.delivery.single_out(P, 5)
    assert told(play.take()) == ["0:0[0] Stream started"]

    assert told(play.take(10)) == ["0:0[] Stream timeout reached"]


def test_one_event_alone_is_flushed_at_the_end_of_those_that_are_singled_out() -> None:
    play = Play(P, batch_limit=5, max_uncommitted=20, timeout_s=10).add(9)
    play.delivery.single_out(P, 5)

    assert told(play.take(10)) == ["0:0[0] Stream started", "0:0[] Stream timeout reached"]


def test_events_that_are_singled_out_wait_for_each_other_though_it_is_time_to_flush() -> None:
    play = Play(P, batch_limit=5, flush_s=2).add(7)
    play.delivery.single_out(P, 3)

    assert told(play.take(2)) == ["0:0[0] Stream started"]
    assert told(play.take(2)) == ["0:0[]"]
    assert told(play.commit(0).take(2)) == ["0:1[1]"]
    assert told(play.commit(1).take(2)) == ["0:2[2]"]
    assert play.take() == [], "what is behind them waits for the last of them, too"
    assert told(play.commit(2).take(2)) == ["0:6[3 4 5 6]"]


def test_too_much_that_may_not_be_sent_is_kept() -> None:
    play = Play(P, batch_limit=5, bytes_max=100).add(9)
    play.delivery.single_out(P, 5)
    assert told(play.take())[0] == "0:0[0] Stream started"

    assert play.take() == []
