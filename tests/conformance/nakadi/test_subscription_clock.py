"""Streams of subscriptions by a virtual clock, over a hub on SQLite: limits, timeouts and retries, to the moment.

A line in short is its partition, the number of its last event, the numbers of its events, and its debug text.
"""

import pytest

from penstock.errors import StreamNotFound, SubscriptionBusy
from tests.by_hand import NAME, Play, Scene, scene
from tests.failing import has_code

__all__ = ["scene"]

STARTED = "Stream started"
SEARCHING = {
    "nakadi.zalando.org/subscription-max-event-send-count": "3",
    "nakadi.zalando.org/subscription-unprocessable-event-policy": "SKIP_EVENT",
}


# How much is sent, and when


def test_full_window_sends_nothing_until_a_commit(scene: Scene) -> None:
    """HilaAT.whenWindowSizeIsSetItIsConsidered."""
    play = Play(scene.subscribe().put(*range(15)), max_uncommitted_events=5)
    assert play.take() == [f"0:0[0] {STARTED}", *(f"0:{n}[{n}]" for n in range(1, 5))]
    assert play.commit(4)
    assert play.take() == [f"0:{n}[{n}]" for n in range(5, 10)]
    assert play.commit(6)
    assert play.take() == ["0:10[10]", "0:11[11]"]
    assert play.take(30) == ["0:11[]"], "a keep-alive, and nothing else"


def test_batch_is_sent_when_it_is_full_or_its_flush_timeout_is_over(scene: Scene) -> None:
    """HilaAT.whenBatchLimitAndTimeoutAreSetTheyAreConsidered."""
    play = Play(scene.subscribe().put(*range(12)), max_uncommitted_events=20, batch_limit=5, batch_flush_timeout=1)
    assert play.take() == [f"0:4[0, 1, 2, 3, 4] {STARTED}", "0:9[5, 6, 7, 8, 9]"]
    assert play.take(0.75) == []
    assert play.take(0.25) == ["0:11[10, 11]"]


def test_defaults_are_a_window_of_10_batches_of_1_and_a_minute_to_commit(scene: Scene) -> None:
    """A window of 10, batches of 1, flushed after 30 s, a minute to commit."""
    play = Play(scene.subscribe().put(*range(20)))
    assert len(play.take()) == 10
    assert play.take(29.75) == []
    assert play.take(0.25) == ["0:9[]"]
    assert play.take(29.75) == []
    assert play.take(0.25)[-1] == "0:9[] Commit timeout reached"


def test_stream_without_a_timeout_ends_after_70_minutes(scene: Scene) -> None:
    """HilaAT.whenStreamTimeout0ThenInfiniteStreaming; a longer timeout than that is as none."""
    for asked in (0, 4_201):
        play = Play((scene.id and scene) or scene.subscribe(), stream_timeout=asked, batch_flush_timeout=10_000)
        assert play.take(2_999) == []
        assert play.take(4_200 - 2_999) == [f"0:-1[] {'Stream timeout reached'}"]


@pytest.mark.parametrize("asked", [0, None])
def test_flush_timeout_of_0_is_30_seconds(scene: Scene, asked: int | None) -> None:
    """HilaAT.whenNoEventsThenFirstOffsetIsBEGIN: the first line of an empty partition is before its first event."""
    play = Play(scene.subscribe(), batch_flush_timeout=asked)
    assert play.take(29.75) == []
    assert play.take(0.25) == [f"0:-1[] {STARTED}"]


def test_keep_alive_is_due_for_each_partition_by_itself(scene: Scene) -> None:
    play = Play(scene.subscribe(2), batch_flush_timeout=10)
    assert play.take(4) == []
    scene.put(0, partition=1)
    assert play.take() == [f"1:0[0] {STARTED}"]
    assert play.take(5.75) == []
    assert play.take(0.25) == ["0:-1[]"]
    assert play.take(4) == ["1:0[]"]


def test_batch_spans_at_most_its_timespan_by_the_hubs_clock(scene: Scene) -> None:
    """By the hub's clock."""
    scene.subscribe().put(0)
    scene.clock.advance(seconds=1.9)
    scene.put(1)
    scene.clock.advance(seconds=0.1)
    scene.put(2)
    play = Play(scene, batch_limit=10, batch_timespan=2, batch_flush_timeout=10)
    assert play.take() == [f"0:1[0, 1] {STARTED}"]
    assert play.take(10) == ["0:2[2]"]


# How it ends


def test_stream_timeout_ends_a_stream_with_all_committed(scene: Scene) -> None:
    """HilaAT.whenStreamTimeoutReachedSessionIsClosed."""
    play = Play(scene.subscribe().put(0), stream_timeout=20)
    play.take()
    assert play.commit(0)
    assert play.take(19.75) == []
    assert play.take(0.25) == ["0:0[] Stream timeout reached"]
    assert (scene.owners(), [*scene.look().sessions]) == ([None], [])


def test_stream_timeout_flushes_buffered_events(scene: Scene) -> None:
    """HilaAT.whenStreamTimeoutReachedThenEventsFlushed: the reason is a line of the first partition."""
    play = Play(scene.subscribe(2).put(0, 1).put(5, 6, partition=1), batch_limit=10, stream_timeout=20)
    assert play.take(19.75) == []
    assert play.take(0.25) == [f"0:1[0, 1] {STARTED}", "1:1[5, 6]", "0:1[] Stream timeout reached"]


def test_commit_timeout_runs_from_the_first_uncommitted_batch(scene: Scene) -> None:
    """HilaAT.whenCommitTimeoutReachedSessionIsClosed."""
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


def test_outdated_commit_does_not_restart_the_commit_timeout(scene: Scene) -> None:
    """An outdated one is no commit."""
    play = Play(scene.subscribe().put(0, 1), commit_timeout=5)
    play.take()
    assert play.commit(0)
    play.take(4)
    assert not play.commit(0)
    assert play.take(1) == ["0:1[] Commit timeout reached"]


def test_lease_restarts_the_commit_timeout(scene: Scene) -> None:
    play = Play(scene.subscribe().put(0), commit_timeout=5)
    play.take()
    play.now += 4
    scene.hub.subscriptions.streams.extend(scene.id, play.id)
    assert play.take() == []
    assert play.take(4.75) == []
    assert play.take(0.25) == ["0:0[] Commit timeout reached"]


def test_stream_without_a_partition_ends_after_twice_its_commit_timeout(scene: Scene) -> None:
    auto = Play(scene.subscribe(), commit_timeout=5)
    assert auto.take() == []
    direct = Play(scene, 0)
    assert auto.take() == [], "it lets go of what is asked for"
    assert scene.owners() == [direct.id]
    assert auto.take(9.75) == []
    assert auto.take(0.25) == ["0:-1[] No partition was free for this stream"]


def test_stream_that_keeps_a_reassigned_partition_ends_after_its_commit_timeout(scene: Scene) -> None:
    """The time runs from the reassignment; commits of other partitions do not extend it."""
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
    assert scene.held_seconds() == [], "it has had its time: the successor waits no longer"
    assert direct.take() == [f"0:2[2] {STARTED}"], "from the committed offset on"


ENDS = {
    "Resetting subscription cursors": lambda scene: scene.hub.subscriptions.resets.begin(scene.id, {(NAME, 0): 0}),
    "The subscription was deleted": lambda scene: scene.hub.subscriptions.delete(scene.id),
    "Consumption is blocked": lambda scene: scene.hub.admin.settings.block("CONSUMER_ET", NAME),
    "The subscription has other partitions by now: begin another stream": lambda scene: scene.hub.registry.grow(
        NAME, 3
    ),
    "The hub is stopping: go on with another one": lambda scene: scene.hub.drain(),
}


@pytest.mark.parametrize("reason", ENDS)
def test_last_line_of_a_stream_has_the_reason(scene: Scene, reason: str) -> None:
    """It has the last offset that was sent of the first partition."""
    play = Play(scene.subscribe(2).put(0, 1))
    play.take()
    ENDS[reason](scene)
    scene.hub.subscriptions.local_streams.notify_changed(scene.id)
    assert play.take() == [f"0:1[] {reason}"]
    assert play.stream.reason == reason


# Where it begins


def test_events_removed_during_a_stream_are_counted_in_the_next_batch(scene: Scene) -> None:
    """Events that were read before are sent."""
    scene.subscribe().put(*range(9))
    play = Play(scene, max_uncommitted_events=2)
    assert play.take() == [f"0:0[0] {STARTED}", "0:1[1]"]
    scene.lose(6)
    assert play.commit(1)
    assert play.take() == ["0:2[2]", "0:3[3]"]
    assert play.commit(3)
    assert play.take() == ["0:6[6] skipped events due to retention time passed, count: 2", "0:7[7]"]


# Resets, and lags


def test_reset_excludes_other_resets_and_new_streams(scene: Scene) -> None:
    play = Play(scene.subscribe().put(0))
    play.take()
    resets, wanted = scene.hub.subscriptions.resets, {(NAME, 0): 1}
    assert resets.begin(scene.id, wanted)
    with pytest.raises(SubscriptionBusy, check=has_code("reset-under-way")):
        resets.begin(scene.id, wanted)
    with pytest.raises(SubscriptionBusy, check=has_code("reset-under-way")):
        Play(scene)
    assert not resets.finish(scene.id, wanted), "a stream has not ended yet"
    assert play.take() == ["0:0[] Resetting subscription cursors"]
    assert resets.finish(scene.id, wanted)
    assert scene.offsets() == wanted
    Play(scene).stream.close()


def test_lag_is_the_age_of_the_next_event_by_the_hubs_clock(scene: Scene) -> None:
    scene.subscribe().put(0)
    feed, _ = scene.hub.log.find_heads(NAME)
    scene.clock.advance(seconds=42)
    assert scene.hub.subscriptions.find_ages({feed.partition_ids[0]: 0}) == {feed.partition_ids[0]: 42_000_000}
    assert scene.hub.subscriptions.find_ages({feed.partition_ids[0]: 1}) == {}


# What cannot be processed


def fail(scene: Scene, batch_limit: int = 3, window: int = 3) -> list[str]:
    """Return the lines of a stream that commits nothing until it ends."""
    play = Play(scene, batch_limit=batch_limit, max_uncommitted_events=window, commit_timeout=1)
    found = play.take()
    assert play.take(1)[-1].endswith("Commit timeout reached")
    return found


def test_search_for_a_poison_event_sends_one_event_at_a_time(scene: Scene) -> None:
    """HilaAT.testDlqModeOnlySendsSingleEventAndNotMore: event, keep-alive, keep-alive, and the reason."""
    scene.subscribe(annotations=SEARCHING).put(*range(5))
    for _ in range(3):
        assert fail(scene) == [f"0:2[0, 1, 2] {STARTED}"]
    play = Play(scene, batch_limit=3, max_uncommitted_events=100, batch_flush_timeout=2, commit_timeout=5)
    assert play.take() == [f"0:0[0] {STARTED}"]
    assert [play.take(2), play.take(2), play.take(1)] == [["0:0[]"], ["0:0[]"], ["0:0[] Commit timeout reached"]]


def test_event_that_fails_as_often_as_allowed_is_skipped(scene: Scene) -> None:
    """HilaAT.whenCommitFailsThreeTimesAndSingleBatchEventFailsThreeTimesThenEventSkipped."""
    scene.subscribe(annotations=SEARCHING).put(*range(5))
    found = [fail(scene) for _ in range(7)]
    assert found == [[f"0:2[0, 1, 2] {STARTED}"]] * 3 + [[f"0:0[0] {STARTED}"]] * 3 + [[f"0:1[1] {STARTED}"]]


def test_search_goes_on_after_a_commit_to_the_end_of_the_batch(scene: Scene) -> None:
    """HilaAT.whenIsLookingForDeadLetterAndCommitComesThenContinueLooking."""
    scene.subscribe(annotations=SEARCHING).put(*range(22))
    for _ in range(3):
        fail(scene, batch_limit=10, window=20)
    play = Play(scene, batch_limit=10, max_uncommitted_events=20, commit_timeout=1)
    play.take()
    assert play.commit(0)
    assert play.take() == ["0:1[1]"]
    play.take(1)
    assert [fail(scene, batch_limit=10, window=20) for _ in range(2)] == [[f"0:1[1] {STARTED}"]] * 2
    play = Play(scene, batch_limit=10, max_uncommitted_events=20, batch_flush_timeout=5)
    assert play.take() == [f"0:2[2] {STARTED}"]
    for number in range(2, 9):
        assert play.commit(number)
        assert play.take() == [f"0:{number + 1}[{number + 1}]"]
    assert play.commit(9)
    assert play.take() == [f"0:19{list(range(10, 20))}"]
    assert play.take(5) == ["0:21[20, 21]"]


def test_stream_that_committed_an_event_has_not_failed(scene: Scene) -> None:
    """Failures are counted in a row."""
    scene.subscribe(annotations=SEARCHING).put(*range(5))
    for _ in range(2):
        fail(scene)
    play = Play(scene, batch_limit=3, commit_timeout=1)
    play.take()
    assert play.commit(0)
    play.take(1)
    assert fail(scene) == [f"0:3[1, 2, 3] {STARTED}"]


def test_batches_are_whole_again_after_one_without_a_poison_event(scene: Scene) -> None:
    """HilaAT.whenIsLookingForDeadLetterAndSendAllEventsOneByOneThenBackToNormalBatchSize."""
    scene.subscribe(annotations=SEARCHING).put(*range(20))
    for _ in range(3):
        assert fail(scene, batch_limit=10, window=10) == [f"0:9{list(range(10))} {STARTED}"]
    play = Play(scene, batch_limit=10, max_uncommitted_events=10)
    found = play.take()
    for number in range(10):
        assert play.commit(number)
        found += play.take()
    assert found == [f"0:0[0] {STARTED}", *(f"0:{n}[{n}]" for n in range(1, 10)), f"0:19{list(range(10, 20))}"]


def test_reset_forgets_failures(scene: Scene) -> None:
    """HilaAT.whenCursorsAreResetTheDLQStateIsResetAsWell."""
    scene.subscribe(annotations=SEARCHING).put(*range(5))
    assert [fail(scene) for _ in range(4)] == [[f"0:2[0, 1, 2] {STARTED}"]] * 3 + [[f"0:0[0] {STARTED}"]]
    beginning = {(NAME, 0): 0}
    scene.hub.subscriptions.resets.begin(scene.id, beginning)
    assert scene.hub.subscriptions.resets.finish(scene.id, beginning)
    assert fail(scene) == [f"0:2[0, 1, 2] {STARTED}"]
