"""Streams of subscriptions by a clock that is moved by hand, over a hub on SQLite (5.6, 5.7 and 5.11): to the moment.

What is told in short is: partition, number of the last event, numbers of the events, and what is said besides.
"""

import pytest

from penstock.errors import NoFreeSlots, ResetUnderWay, StreamNotFound, StreamsInTheWay
from tests.by_hand import NAME, Play, Scene, scene

__all__ = ["scene"]

STARTED = "Stream started"
SEARCHING = {
    "nakadi.zalando.org/subscription-max-event-send-count": "3",
    "nakadi.zalando.org/subscription-unprocessable-event-policy": "SKIP_EVENT",
}


# How much is sent, and when


def test_the_window(scene: Scene) -> None:
    """5.7; HilaAT.whenWindowSizeIsSetItIsConsidered."""
    play = Play(scene.subscribe().put(*range(15)), max_uncommitted_events=5)
    assert play.take() == [f"0:0[0] {STARTED}", *(f"0:{n}[{n}]" for n in range(1, 5))]
    assert play.commit(4)
    assert play.take() == [f"0:{n}[{n}]" for n in range(5, 10)]
    assert play.commit(6)
    assert play.take() == ["0:10[10]", "0:11[11]"]
    assert play.take(30) == ["0:11[]"], "a keep-alive, and nothing else"


def test_batches_by_size_and_by_time(scene: Scene) -> None:
    """5.7; HilaAT.whenBatchLimitAndTimeoutAreSetTheyAreConsidered."""
    play = Play(scene.subscribe().put(*range(12)), max_uncommitted_events=20, batch_limit=5, batch_flush_timeout=1)
    assert play.take() == [f"0:4[0, 1, 2, 3, 4] {STARTED}", "0:9[5, 6, 7, 8, 9]"]
    assert play.take(0.75) == []
    assert play.take(0.25) == ["0:11[10, 11]"]


def test_the_defaults(scene: Scene) -> None:
    """5.6: a window of 10, batches of 1, flushed after 30 s, a minute to commit."""
    play = Play(scene.subscribe().put(*range(20)))
    assert len(play.take()) == 10
    assert play.take(29.75) == []
    assert play.take(0.25) == ["0:9[]"]
    assert play.take(29.75) == []
    assert play.take(0.25)[-1] == "0:9[] Commit timeout reached"


def test_a_stream_ends_by_itself_after_about_an_hour(scene: Scene) -> None:
    """5.6, 0.1: no later than 70 minutes; what is asked for beyond that is left to the hub, too."""
    for asked in (0, 4_201):
        play = Play((scene.id and scene) or scene.subscribe(), stream_timeout=asked, batch_flush_timeout=10_000)
        assert play.take(2_999) == []
        assert play.take(4_200 - 2_999) == [f"0:-1[] {'Stream timeout reached'}"]


@pytest.mark.parametrize("asked", [0, None])
def test_a_flush_timeout_of_none_is_30_seconds(scene: Scene, asked: int | None) -> None:
    """11, no. 9."""
    play = Play(scene.subscribe(), batch_flush_timeout=asked)
    assert play.take(29.75) == []
    assert play.take(0.25) == [f"0:-1[] {STARTED}"]


def test_keep_alives_are_of_each_partition_since_it_has_last_sent_something(scene: Scene) -> None:
    """5.7."""
    play = Play(scene.subscribe(2), batch_flush_timeout=10)
    assert play.take(4) == []
    scene.put(0, partition=1)
    assert play.take() == [f"1:0[0] {STARTED}"]
    assert play.take(5.75) == []
    assert play.take(0.25) == ["0:-1[]"]
    assert play.take(4) == ["1:0[]"]


def test_a_batch_spans_so_much_time_in_which_it_was_received(scene: Scene) -> None:
    """5.6: by the hub's clock."""
    scene.subscribe().put(0)
    scene.clock.advance(seconds=1.9)
    scene.put(1)
    scene.clock.advance(seconds=0.1)
    scene.put(2)
    play = Play(scene, batch_limit=10, batch_timespan=2, batch_flush_timeout=10)
    assert play.take() == [f"0:1[0, 1] {STARTED}"]
    assert play.take(10) == ["0:2[2]"]


# How it ends


def test_at_its_time_what_is_buffered_is_sent(scene: Scene) -> None:
    """5.7; HilaAT.whenStreamTimeoutReachedThenEventsFlushed: within the window, and said on the first partition."""
    play = Play(scene.subscribe(2).put(0, 1).put(5, 6, partition=1), batch_limit=10, stream_timeout=20)
    assert play.take(19.75) == []
    assert play.take(0.25) == [f"0:1[0, 1] {STARTED}", "1:1[5, 6]", "0:1[] Stream timeout reached"]


def test_time_to_commit_begins_with_what_is_sent_first(scene: Scene) -> None:
    """5.7; HilaAT.whenCommitTimeoutReachedSessionIsClosed: and not again with what is sent after it."""
    play = Play(scene.subscribe().put(0), commit_timeout=5)
    assert play.take() == [f"0:0[0] {STARTED}"]
    play.take(3)
    scene.put(1)
    assert play.take() == ["0:1[1]"]
    assert play.take(1.75) == []
    assert play.take(0.25) == ["0:1[] Commit timeout reached"]
    assert not scene.look().sessions
    with pytest.raises(StreamNotFound):
        play.commit(0)


def test_time_to_commit_begins_anew_with_each_commit(scene: Scene) -> None:
    """5.7; and not while there is nothing to commit."""
    play = Play(scene.subscribe().put(0, 1), commit_timeout=5)
    play.take()
    play.take(4)
    assert play.commit(0)
    assert play.take(4.75) == []
    assert play.commit(1)
    assert play.take(4.75) == []
    assert play.take(100) == ["0:1[]"]
    scene.put(2)
    assert play.take() == ["0:2[2]"]
    assert play.take(4.75) == []
    assert play.take(0.25) == ["0:2[] Commit timeout reached"]


def test_a_commit_that_moves_nothing_gives_no_time(scene: Scene) -> None:
    """5.7: an outdated one is no commit."""
    play = Play(scene.subscribe().put(0, 1), commit_timeout=5)
    play.take()
    assert play.commit(0)
    play.take(4)
    assert not play.commit(0)
    assert play.take(1) == ["0:1[] Commit timeout reached"]


def test_a_lease_that_is_begun_anew_gives_time(scene: Scene) -> None:
    """A decision."""
    play = Play(scene.subscribe().put(0), commit_timeout=5)
    play.take()
    play.now += 4
    scene.hub.streams.extend(scene.id, play.id)
    assert play.take() == []
    assert play.take(4.75) == []
    assert play.take(0.25) == ["0:0[] Commit timeout reached"]


def test_so_many_keep_alives_in_a_row_of_every_partition(scene: Scene) -> None:
    """5.6; 11, no. 24."""
    play = Play(
        scene.subscribe(2).put(0, 1), batch_flush_timeout=10, stream_keep_alive_limit=2, max_uncommitted_events=1
    )
    assert play.take() == [f"0:0[0] {STARTED}"]
    for _ in range(3):
        assert play.take(10) == ["0:0[]", "1:-1[]"], "what waits for a commit does not count"
    assert play.commit(0)
    assert play.take() == ["0:1[1]"]
    assert play.commit(1)
    assert play.take(10) == ["0:1[]", "1:-1[]"]
    assert play.take(10) == ["0:1[]", "1:-1[]", "0:1[] Keep-alive limit reached: 2"]


def test_as_many_events_as_were_asked_for_end_it_once_they_are_committed(scene: Scene) -> None:
    """5.6."""
    play = Play(scene.subscribe().put(*range(9)), stream_limit=3, batch_limit=2, batch_flush_timeout=10)
    assert play.take() == [f"0:1[0, 1] {STARTED}", "0:2[2]"]
    assert play.take(10) == ["0:2[]"]
    assert play.commit(1)
    assert play.take() == []
    assert play.commit(2)
    assert play.take() == ["0:2[] Stream limit in events reached: 3"]
    assert scene.owners() == [None]


def test_what_was_sent_can_be_committed_for_as_long_as_there_was_time(scene: Scene) -> None:
    """5.7; HilaAT.whenStreamTimeoutReachedPossibleToCommit."""
    play = Play(scene.subscribe().put(0), stream_timeout=20, commit_timeout=60)
    play.take(5)
    assert play.take(15) == ["0:0[] Stream timeout reached"]
    [seconds] = scene.held_seconds()
    assert 39 < seconds <= 40, "the event was sent 20 seconds before"
    assert scene.owners() == [play.id]
    assert play.commit(0)
    assert (scene.owners(), scene.held_seconds(), scene.offsets()) == ([None], [], {(NAME, 0): 1})


def test_one_for_whom_no_partition_is_left_ends_after_twice_its_time_to_commit(scene: Scene) -> None:
    """5.8; 11, no. 23."""
    auto = Play(scene.subscribe(), commit_timeout=5)
    assert auto.take() == []
    direct = Play(scene, 0)
    assert auto.take() == [], "it lets go of what is asked for"
    assert scene.owners() == [direct.id]
    assert auto.take(9.75) == []
    assert auto.take(0.25) == ["0:-1[] No partition was free for this stream"]


def test_one_that_does_not_let_go_ends_after_its_time_to_commit(scene: Scene) -> None:
    """5.8: since the partition was to go; others do not matter."""
    auto = Play(scene.subscribe(2).put(0, 1, 2), commit_timeout=5)
    auto.take()
    assert auto.commit(0)
    auto.take(3)
    direct = Play(scene, 0, commit_timeout=5)
    assert auto.take() == []
    assert auto.take(1.75) == []
    assert auto.commit(1)
    assert auto.take(3) == []
    assert direct.take() == []
    assert auto.take(0.25) == ["0:2[] A partition was reassigned and not committed in time"]
    assert scene.held_seconds() == [], "it has had its time: the heir waits no longer"
    assert direct.take() == [f"0:2[2] {STARTED}"], "from the committed offset on"


def test_what_is_on_its_way_is_sent_no_more(scene: Scene) -> None:
    """5.8: the new owner begins once all is committed."""
    auto = Play(scene.subscribe(2).put(0), commit_timeout=50)
    auto.take()
    direct = Play(scene, 0)
    scene.put(1)
    assert auto.take() == []
    assert direct.take() == []
    assert auto.commit(0)
    assert auto.take() == []
    assert direct.take() == [f"0:1[1] {STARTED}"]


ENDS = {
    "Resetting subscription cursors": lambda scene: scene.hub.streams.begin_reset(scene.id, {(NAME, 0): 0}),
    "The subscription was deleted": lambda scene: scene.hub.subscriptions.delete(scene.id),
    "Consumption is blocked": lambda scene: scene.hub.settings.block("CONSUMER_ET", NAME),
    "The subscription has other partitions by now: begin another stream": lambda scene: scene.hub.grow_event_type(
        NAME, 3
    ),
    "The hub is stopping: go on with another one": lambda scene: scene.hub.drain(),
}


@pytest.mark.parametrize("reason", ENDS)
def test_every_end_says_why(scene: Scene, reason: str) -> None:
    """5.6; 11, nos. 25 and 27: at the last offset that was sent of the first partition."""
    play = Play(scene.subscribe(2).put(0, 1))
    play.take()
    ENDS[reason](scene)
    scene.hub.streams.live.changed(scene.id)
    assert play.take() == [f"0:1[] {reason}"]
    assert play.stream.reason == reason


# Where it begins


def test_what_retention_has_removed_is_counted(scene: Scene) -> None:
    """5.6, 5.7: and the stream goes on at the oldest event that there is."""
    scene.subscribe().put(*range(5))
    scene.hub.streams.begin_reset(scene.id, {})
    scene.lose(3)
    play = Play(scene)
    skipped = "skipped events due to retention time passed, count: 3"
    assert play.take() == [f"0:3[3] {STARTED}; {skipped}", "0:4[4]"]


def test_what_is_removed_while_it_is_read_is_counted_too(scene: Scene) -> None:
    """5.7: in the next batch; what was read before is sent."""
    scene.subscribe().put(*range(9))
    play = Play(scene, max_uncommitted_events=2)
    assert play.take() == [f"0:0[0] {STARTED}", "0:1[1]"]
    scene.lose(6)
    assert play.commit(1)
    assert play.take() == ["0:2[2]", "0:3[3]"]
    assert play.commit(3)
    assert play.take() == ["0:6[6] skipped events due to retention time passed, count: 2", "0:7[7]"]


# Resets, and lags


def test_nobody_resets_or_streams_while_somebody_resets(scene: Scene) -> None:
    """5.5, 5.6: 409."""
    play = Play(scene.subscribe().put(0))
    play.take()
    streams, wanted = scene.hub.streams, {(NAME, 0): 1}
    assert streams.begin_reset(scene.id, wanted)
    with pytest.raises(ResetUnderWay):
        streams.begin_reset(scene.id, wanted)
    with pytest.raises(ResetUnderWay):
        Play(scene)
    assert not streams.end_reset(scene.id, wanted), "a stream has not ended yet"
    assert play.take() == ["0:0[] Resetting subscription cursors"]
    assert streams.end_reset(scene.id, wanted)
    assert scene.offsets() == wanted
    Play(scene).stream.close()


def test_a_reset_for_which_streams_do_not_end_sets_nothing(scene: Scene) -> None:
    """5.5: an error, and nothing written."""
    play = Play(scene.subscribe().put(0))
    play.take()
    streams, wanted = scene.hub.streams, {(NAME, 0): 1}
    streams.begin_reset(scene.id, wanted)
    with scene.hub.store.write() as tx:
        tx.subscriptions.lock(scene.id)
        tx.subscriptions.reset_until(scene.id, tx.subscriptions.now())
    with pytest.raises(StreamsInTheWay):
        streams.end_reset(scene.id, wanted)
    assert scene.offsets() == {(NAME, 0): 0}


def test_a_lag_is_told_in_seconds_of_the_hub(scene: Scene) -> None:
    """5.9."""
    scene.subscribe().put(0)
    feed, _ = scene.hub.heads(NAME)
    scene.clock.advance(seconds=42)
    assert scene.hub.streams.ages({feed.partition_ids[0]: 0}) == {feed.partition_ids[0]: 42_000_000}
    assert scene.hub.streams.ages({feed.partition_ids[0]: 1}) == {}


def test_a_stream_that_has_ended_takes_no_slot(scene: Scene) -> None:
    """5.7, 5.8: another one comes in, and gets its partition when the time is over, or all is committed."""
    one = Play(scene.subscribe().put(0), stream_timeout=10)
    with pytest.raises(NoFreeSlots):
        Play(scene)
    one.take(5)
    one.take(5)
    other = Play(scene)
    assert other.take() == []
    assert one.commit(0)
    scene.put(1)
    assert other.take() == [f"0:1[1] {STARTED}"]


# What cannot be processed


def failed(scene: Scene, batch_limit: int = 3, window: int = 3) -> list[str]:
    """What a stream is sent that commits nothing."""
    play = Play(scene, batch_limit=batch_limit, max_uncommitted_events=window, commit_timeout=1)
    found = play.take()
    assert play.take(1)[-1].endswith("Commit timeout reached")
    return found


def test_one_event_alone_is_outstanding(scene: Scene) -> None:
    """HilaAT.testDlqModeOnlySendsSingleEventAndNotMore: event, keep-alive, keep-alive, and why."""
    scene.subscribe(annotations=SEARCHING).put(*range(5))
    for _ in range(3):
        assert failed(scene) == [f"0:2[0, 1, 2] {STARTED}"]
    play = Play(scene, batch_limit=3, max_uncommitted_events=100, batch_flush_timeout=2, commit_timeout=5)
    assert play.take() == [f"0:0[0] {STARTED}"]
    assert [play.take(2), play.take(2), play.take(1)] == [["0:0[]"], ["0:0[]"], ["0:0[] Commit timeout reached"]]


def test_an_event_is_left_out_that_fails_as_often(scene: Scene) -> None:
    """HilaAT.whenCommitFailsThreeTimesAndSingleBatchEventFailsThreeTimesThenEventSkipped."""
    scene.subscribe(annotations=SEARCHING).put(*range(5))
    found = [failed(scene) for _ in range(7)]
    assert found == [[f"0:2[0, 1, 2] {STARTED}"]] * 3 + [[f"0:0[0] {STARTED}"]] * 3 + [[f"0:1[1] {STARTED}"]]


def test_the_search_goes_on_behind_a_commit(scene: Scene) -> None:
    """HilaAT.whenIsLookingForDeadLetterAndCommitComesThenContinueLooking."""
    scene.subscribe(annotations=SEARCHING).put(*range(22))
    for _ in range(3):
        failed(scene, batch_limit=10, window=20)
    play = Play(scene, batch_limit=10, max_uncommitted_events=20, commit_timeout=1)
    play.take()
    assert play.commit(0)
    assert play.take() == ["0:1[1]"]
    play.take(1)
    assert [failed(scene, batch_limit=10, window=20) for _ in range(2)] == [[f"0:1[1] {STARTED}"]] * 2
    play = Play(scene, batch_limit=10, max_uncommitted_events=20, batch_flush_timeout=5)
    assert play.take() == [f"0:2[2] {STARTED}"]
    for number in range(2, 9):
        assert play.commit(number)
        assert play.take() == [f"0:{number + 1}[{number + 1}]"]
    assert play.commit(9)
    assert play.take() == [f"0:19{list(range(10, 20))}"]
    assert play.take(5) == ["0:21[20, 21]"]


def test_whoever_leaves_with_something_committed_has_not_failed(scene: Scene) -> None:
    """5.11: the count is of failures in a row."""
    scene.subscribe(annotations=SEARCHING).put(*range(5))
    for _ in range(2):
        failed(scene)
    play = Play(scene, batch_limit=3, commit_timeout=1)
    play.take()
    assert play.commit(0)
    play.take(1)
    assert failed(scene) == [f"0:3[1, 2, 3] {STARTED}"]
