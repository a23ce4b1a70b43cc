from collections.abc import Iterable
from random import Random

import pytest

from penstock.errors import BadParameter, HandlerFailed, ProcessorUnhealthy
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Health, Rules
from penstock.processing.engine.stream import Call
from penstock.processing.outcomes import Failure, Outcome, done, done_to, retry, skip_to
from tests.unit.processing.engine.items import Thing, batch, begin, engine, indices, settle_next, things

BROKEN = Failure("ValueError", "it cannot be")


def settle(running: Engine, calls: Iterable[Call], result: Outcome | Failure = done(), now: float = 0.0) -> None:  # noqa: B008
    for call in calls:
        running.settle(call, result, now, 0.001)


def handle_all(running: Engine, now: float = 0.0) -> list[tuple[str, list[int]]]:
    """Let all that can be handled succeed; return the calls."""
    found = []
    while calls := running.take(100, now):
        found += [(call.stream, indices(call)) for call in calls]
        settle(running, calls, now=now)
    return found


def test_events_of_several_batches_are_one_call() -> None:
    running = begin(2, "S1E0", "S2E0")
    running.ingest(batch(4, things("S1E1", "S1E2")), 0.0)

    assert handle_all(running) == [("S1", [0, 1, 2]), ("S2", [0])]
    assert running.positions() == {"t": 4}
    assert running.handled == 4
    assert running.is_idle


def test_batch_without_events_moves_the_position() -> None:
    running = engine()
    running.ingest(batch(7), 0.0)
    assert running.positions() == {"t": 7}


def test_repeat_changes_nothing() -> None:
    """The sequence S1E0, S1E1, S1E2, S1E1, S1E3."""
    running = engine(is_dense=True)
    seen = []
    for at, name in enumerate(("S1E0", "S1E1", "S1E2", "S1E1", "S1E3")):
        running.ingest(batch(at + 1, things(name)), 0.0)
        seen += handle_all(running)

    assert seen == [("S1", [0]), ("S1", [1]), ("S1", [2]), ("S1", [3])]
    assert (running.repeats, running.positions()) == (1, {"t": 5})


@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("before", ["nothing", "as a repeat", "parked", "in another tranche"])
@pytest.mark.parametrize("index", [-1, 2**63 - 1])
def test_impossible_index_is_refused_and_no_position_passes_it(before: str, index: int, *, is_dense: bool) -> None:
    running = engine("t", "u", is_dense=is_dense, attempts_max=1, exhausted="park")
    if before != "nothing":
        running.ingest(batch(1, things("S1E0"), "u" if before == "in another tranche" else "t"), 0.0)
    if before == "as a repeat":
        handle_all(running)
    elif before == "parked":
        settle(running, running.take(1, 0.0), BROKEN)
    completed = running.positions()["t"]

    with pytest.raises(BadParameter, match=rf"index is '{index} of S1 in t'; allowed: indices from 0 on"):
        running.ingest(batch(2, things("S2E0", f"S1E{index}", "S2E1")), 0.0)

    assert [each for each in handle_all(running) if each[0] == "S2"] == [("S2", [0])], "what came before it is whole"
    running.ingest(batch(3, things("S2E2")), 0.0)
    handle_all(running)
    assert running.positions()["t"] == completed
    assert not running.is_idle


@pytest.mark.parametrize("failed", [False, True])
def test_repeat_of_events_in_a_running_call_is_not_handed_out_twice(failed: bool) -> None:
    running = begin(2, "S1E0", "S1E1", is_dense=True)
    calls = running.take(1, 0.0)
    running.ingest(batch(3, things("S1E1")), 0.0)
    assert running.take(1, 0.0) == [], "never two calls at once"

    settle(running, calls, BROKEN if failed else done())

    assert handle_all(running, 100.0) == ([("S1", [0, 1])] if failed else [])
    assert running.positions() == {"t": 3}


def test_waiting_repeat_holds_its_batch_until_it_is_done() -> None:
    running = begin(2, "S1E0", "S1E1", is_dense=True)
    running.ingest(batch(3, things("S1E0")), 0.0)
    settle_next(running, done_to(1))

    assert running.positions() == {"t": 0}
    assert handle_all(running) == [("S1", [1])]
    assert running.positions() == {"t": 3}


def test_held_tranche_holds_back_no_other_tranche() -> None:
    running = engine("a", "b")
    running.ingest(batch(1, [Thing("A", 0)], "a"), 0.0)
    settle(running, running.take(1, 0.0), BROKEN)
    running.ingest(batch(1, [Thing("B", 0)], "b"), 0.0)
    handle_all(running)

    assert running.positions() == {"a": 0, "b": 1}


def test_event_beyond_its_attempts_stops_the_processor() -> None:
    running = begin(1, "S1E0", attempts_max=2)
    settle(running, running.take(1, 0.0), BROKEN)

    with pytest.raises(HandlerFailed, match="S1: the event at 0 has failed 2 times, the last time with ValueError"):
        settle(running, running.take(1, 10.0), BROKEN, 10.0)
    assert running.positions() == {"t": 0}


def test_delays_grow_while_a_stream_fails_and_start_over_after_a_success() -> None:
    running = begin(2, "S1E0", "S1E1")
    tried: list[float] = []
    now = 0.0
    while len(tried) < 4:
        settle(running, running.take(1, now), BROKEN, now)
        tried.append(now)
        now = running.due or now
    assert tried == [0.0, 1.0, 3.0, 7.0]

    [call] = running.take(1, now)
    assert call.attempt == 5
    running.settle(call, done_to(1), now, 0.001)
    settle(running, running.take(1, now), BROKEN, now)
    assert running.due == now + 1.0


@pytest.mark.parametrize("result", [BROKEN, retry(1.0)], ids=["failing", "stalled"])
def test_streams_in_trouble_leave_most_handlers_to_healthy_ones(result: Outcome | Failure) -> None:
    running = engine(concurrency=8)
    running.ingest(batch(20, [Thing(f"F{n}", n) for n in range(20)]), 0.0)
    for _ in range(3):
        settle(running, running.take(8, 0.0), result)
    running.ingest(batch(60, [Thing(f"H{n}", n) for n in range(20, 60)]), 10.0)

    calls = running.take(8, 10.0)

    assert sum(call.stream.startswith("F") for call in calls) == 2
    settle(running, calls, now=10.0)
    assert len(handle_all(running, 10.0)) == 60 - 8


def test_failing_and_healthy_streams_alternate_with_one_handler() -> None:
    running = begin(3, "F1E0", "F2E1", "F3E2", concurrency=1)
    for _ in range(3):
        settle(running, running.take(1, 0.0), BROKEN)
    running.ingest(batch(6, things("H1E3", "H2E4", "H3E5")), 10.0)

    order = []
    for _ in range(6):
        [call] = running.take(1, 10.0)
        order.append(call.stream[0])
        running.settle(call, done(), 10.0, 0.001)
    assert "".join(order) in ("FHFHFH", "HFHFHF")


def test_stream_that_holds_the_position_comes_first() -> None:
    running = begin(1, "S1E0", concurrency=1)
    [call] = running.take(1, 0.0)
    running.ingest(batch(4, things("S2E1", "S3E2", "S4E3")), 0.0)
    running.settle(call, done_to(0, after_seconds=1.0), 0.0, 0.001)

    assert [call.stream for call in running.take(1, 2.0)] == ["S1"]


def test_overdue_call_has_failed_and_its_stream_waits_for_its_end() -> None:
    running = begin(2, "S1E0", "S2E1", timeout=5.0, concurrency=1)
    [slow] = running.take(1, 0.0)
    assert running.mark_overdue(5.0) == []
    assert running.mark_overdue(6.0) == [slow]
    assert running.mark_overdue(7.0) == []

    assert running.busy.measure(8.0)["failing"].oldest_seconds == 8.0
    [other] = running.take(1, 8.0)
    assert other.stream == "S2", "others go on in the meantime"
    running.settle(other, done(), 8.0, 0.001)
    running.ingest(batch(3, things("S1E2")), 9.0)
    assert running.take(8, 99.0) == [], "not before it has ended"

    running.settle(slow, BROKEN, 100.0, 100.0)
    assert running.due == 101.0
    assert [indices(call) for call in running.take(8, 101.0)] == [[0, 2]]


def test_overdue_call_that_succeeds_has_succeeded() -> None:
    running = begin(1, "S1E0", timeout=5.0)
    [slow] = running.take(1, 0.0)
    running.mark_overdue(6.0)
    running.settle(slow, done(), 7.0, 7.0)

    assert running.positions() == {"t": 1}
    assert running.busy.measure(8.0)["failing"].streams == 0


@pytest.mark.parametrize("is_given_up", [False, True], ids=["", "the first tranche is given up meanwhile"])
def test_dense_stream_is_parked_in_each_of_its_tranches(*, is_given_up: bool) -> None:
    running = engine("a", "b", is_dense=True, attempts_max=1, exhausted="park")
    running.ingest(batch(3, things("S1E0", "S1E1"), "a"), 0.0)
    running.ingest(batch(5, things("S1E2"), "b"), 0.0)
    settle(running, running.take(1, 0.0), BROKEN)

    assert running.positions() == {"a": 3, "b": 5}
    assert running.busy.measure(20.0)["failing"].streams == 0, "it is nobody's trouble until it is tried again"
    spans = [(each.tranche, each.index, each.next, each.events) for each in running.parking.streams["S1"].values()]
    assert spans == [("a", 0, 2, 2), ("b", 2, 3, 1)]
    running.retry("S1")
    [first] = running.list_replays()
    running.replay(first, batch(3, things("S1E0", "S1E1"), "a"), 0.0)
    if is_given_up:
        running.close("a")
        running.forget("a")
    assert handle_all(running) == ([] if is_given_up else [("S1", [0, 1])])
    [second] = running.list_replays()
    running.replay(second, batch(5, things("S1E2"), "b"), 0.0)
    assert handle_all(running) == [("S1", [2])]
    assert not running.parking.streams


def test_call_without_end_stops_the_processor_or_is_parked() -> None:
    running = begin(1, "S1E0", timeout=5.0, attempts_max=1)
    running.take(1, 0.0)
    with pytest.raises(HandlerFailed, match="the handler was not done after 5 s"):
        running.mark_overdue(6.0)

    running = begin(1, "S1E0", timeout=5.0, attempts_max=1, exhausted="park")
    [slow] = running.take(1, 0.0)
    running.mark_overdue(6.0)
    assert running.positions() == {"t": 1}
    assert running.parking.streams["S1"]["t"].tag == "timeout"
    running.settle(slow, done(), 7.0, 7.0)
    assert running.busy.active == {}
    assert "S1" in running.parking.streams, "its end comes too late"


def test_missing_index_is_awaited_where_all_are_required() -> None:
    running = begin(3, "S1E0", "S1E2", "S2E1", is_dense=True, require_all=True)

    assert handle_all(running) == [("S1", [0])]
    assert running.find_missing() == {"S1": (1, 2), "S2": (0, 1)}
    assert running.positions() == {"t": 0}
    running.ingest(batch(4, things("S1E1")), 0.0)
    assert handle_all(running) == [("S1", [1, 2])]
    running.advance_stream("S2", 1)
    assert handle_all(running) == [("S2", [1])]
    assert running.positions() == {"t": 4}


def test_failed_call_that_was_passed_over_meanwhile_is_ignored() -> None:
    running = begin(1, "S1E0", attempts_max=1)
    calls = running.take(1, 0.0)
    running.advance_stream("S1", 1)
    settle(running, calls, BROKEN)

    assert running.positions() == {"t": 1}
    assert running.take(1, 100.0) == []
    assert running.busy.failing == {}


def test_all_events_cannot_be_required_of_a_source_with_gaps() -> None:
    with pytest.raises(BadParameter, match="require_all is True; allowed: False of a source whose indices have gaps"):
        engine(require_all=True)


def test_gap_ends_a_span_where_events_are_not_required() -> None:
    running = begin(3, "S1E3", "S1E4", "S1E7", is_dense=True)

    assert handle_all(running) == [("S1", [3, 4]), ("S1", [7])]
    assert running.positions() == {"t": 3}


def test_skipped_indices_are_not_handed_out() -> None:
    running = begin(1, "S1E0")
    settle(running, running.take(1, 0.0), skip_to(5))
    running.ingest(batch(8, things("S1E3", "S1E4", "S1E7", "S2E6")), 0.0)

    assert handle_all(running) == [("S1", [7]), ("S2", [6])]
    assert running.positions() == {"t": 8}
    assert running.repeats == 2
    assert not running._streams


def test_rest_of_a_call_comes_again_at_once_or_after_its_delay() -> None:
    running = begin(3, "S1E0", "S1E1", "S1E2")
    settle(running, running.take(1, 0.0), done_to(1))
    assert running.handled == 1
    settle_next(running, done_to(2, after_seconds=3.0))
    assert running.take(1, 2.9) == []
    [call] = running.take(1, 3.0)
    assert indices(call) == [2]


def test_deferring_handler_stalls_and_does_not_fail() -> None:
    running = begin(1, "S1E0")
    for now in (0.0, 2.0):
        settle(running, running.take(1, now), retry(2.0, tag="not yet"), now)

    figures = running.busy.measure(4.0)
    assert (figures["stalled"].streams, figures["stalled"].attempts, figures["stalled"].oldest_seconds) == (1, 2, 4.0)
    assert figures["failing"].streams == 0
    assert running.busy.stalled["S1"].tag == "not yet"
    settle(running, running.take(1, 4.0), BROKEN, 4.0)
    assert [running.busy.measure(5.0)[state].streams for state in ("stalled", "failing")] == [0, 1], "one at a time"


def test_call_without_progress_is_delayed_like_a_failure() -> None:
    running = begin(1, "S1E0")
    settle(running, running.take(1, 0.0), done_to(0))
    assert running.due == 1.0
    settle(running, running.take(1, 1.0), done_to(0), 1.0)
    assert running.due == 3.0


def test_events_of_a_call_are_limited() -> None:
    running = engine(events_per_call=2)
    running.ingest(batch(5, [Thing("S1", n) for n in range(5)]), 0.0)

    assert handle_all(running) == [("S1", [0, 1]), ("S1", [2, 3]), ("S1", [4])]


def test_read_ahead_is_limited() -> None:
    running = engine(batches_ahead=2, events_ahead=5)
    assert running.room("t") == 5
    running.ingest(batch(3, things("S1E0", "S1E1", "S1E2")), 0.0)
    assert running.room("t") == 2
    running.ingest(batch(4, things("S2E3")), 0.0)
    assert running.room("t") == 0, "two batches"
    [first, _] = running.take(2, 0.0)
    running.settle(first, done(), 0.0, 0.001)
    assert running.room("t") == 4


def test_resting_streams_are_remembered_up_to_a_limit() -> None:
    running = engine(is_dense=True, remember=10)
    for number in range(100):
        running.ingest(batch(number + 1, [Thing(f"S{number}", 0)]), 0.0)
        handle_all(running)
        assert len(running._streams) <= 15

    running.ingest(batch(101, things("S99E0")), 0.0)
    assert handle_all(running) == []
    assert running.repeats == 1


def test_resting_streams_of_feeds_are_forgotten() -> None:
    running = engine()
    for number in range(100):
        running.ingest(batch(number + 1, [Thing(f"S{number}", number)]), 0.0)
        handle_all(running)
        assert len(running._streams) == 0


def test_processor_without_progress_for_too_long_is_unhealthy() -> None:
    running = engine(health=Health(failing_seconds_max=60.0, stalled_seconds_max=30.0))
    running.ingest(batch(2, things("S1E0", "S2E1")), 0.0)
    first, second = running.take(2, 0.0)
    running.settle(first, BROKEN, 1.0, 1.0)
    running.settle(second, retry(100.0), 1.0, 1.0)
    running.check_health(30.0)
    settle(running, running.take(1, 20.0), BROKEN, 20.0)

    with pytest.raises(ProcessorUnhealthy, match=r"streams make no progress: S2 stalled at 1 for 31 s, 1 attempts\. "):
        running.check_health(31.0)
    with pytest.raises(ProcessorUnhealthy, match=r"S1 failing at 0 for 61 s, 2 attempts, ValueError: it cannot be; S2"):
        running.check_health(61.0)


@pytest.mark.parametrize(
    "health", [Health(failing_seconds_max=60.0), Health(stalled_seconds_max=60.0)], ids=["failing", "stalled"]
)
def test_stream_that_fails_and_defers_in_turns_keeps_its_age(health: Health) -> None:
    running = begin(2, "S1E0", "S1E1", health=health, events_per_call=1)
    settle(running, running.take(1, 0.0), BROKEN)
    settle(running, running.take(1, 10.0), done(), 10.0)
    results = [BROKEN, retry(1.0), BROKEN, retry(1.0)]
    for now, result in zip((20.0, 40.0, 60.0, 80.0), results, strict=True):
        running.check_health(now)
        settle(running, running.take(1, now), result, now)
    assert running.busy.stalled["S1"].attempts == 2
    running.check_health(80.0)

    settle(running, running.take(1, 101.0), BROKEN if health.failing_seconds_max else retry(1.0), 101.0)
    with pytest.raises(ProcessorUnhealthy, match=r"S1 (failing|stalled) at 1 for \d+ s, 3 attempts"):
        running.check_health(101.0)
    settle(running, running.take(1, 102.0), done(), 102.0)
    assert running.busy.measure(200.0)["failing"].streams == running.busy.measure(200.0)["stalled"].streams == 0


def test_outcomes_are_measured_by_tag_and_their_counts_added() -> None:
    running = engine()
    results: list[Outcome | Failure] = [done(sent=2), done(tag="skipped"), BROKEN, done(sent=3, kept=1)]
    for at, result in enumerate(results):
        running.ingest(batch(at + 1, [Thing(f"S{at}", at)]), 0.0)
        settle(running, running.take(1, 0.0), result)

    assert running.counts == {"sent": 5, "kept": 1}
    found = {kind: latency.histogram().count for kind, latency in running.latency.items()}
    assert found == {"ok": 2, "skipped": 1, "ValueError": 1}


def test_dropped_retry_is_not_taken_for_later_events() -> None:
    running = engine("t", "u", attempts_max=1, exhausted="park")
    running.ingest(batch(1, things("S1E0")), 0.0)
    settle(running, running.take(1, 0.0), BROKEN)
    running.retry("S1")
    [replay] = running.list_replays()
    running.replay(replay, batch(1, things("S1E0")), 0.0)
    running.drop("S1")
    running.ingest(batch(1, things("S1E5"), "u"), 0.0)

    assert handle_all(running) == [("S1", [5])]
    assert running.positions() == {"t": 1, "u": 1}


def test_all_streams_are_remembered_where_all_events_are_required() -> None:
    running = engine(remember=2, require_all=True, is_dense=True)
    running.ingest(batch(10, [Thing(f"S{n}", 0) for n in range(10)]), 0.0)
    handle_all(running)
    running.ingest(batch(20, [Thing(f"S{n}", 1) for n in range(10)]), 0.0)
    handle_all(running)
    assert running.find_missing() == {}
    assert running.positions() == {"t": 20}


def give_up_call() -> tuple[Engine, Call]:
    """Return an engine with a stream that was parked while its call goes on."""
    running = engine("a", attempts_max=1, exhausted="park", timeout=1.0)
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    [call] = running.take(1, 0.0)
    assert running.mark_overdue(2.0) == [call]
    assert "S1" in running.parking.streams
    return running, call


def test_parked_stream_has_no_second_call_while_the_first_goes_on() -> None:
    running, call = give_up_call()
    running.drop("S1")
    running.ingest(batch(2, things("S1E1"), "a"), 2.0)
    assert running.take(1, 2.0) == []
    assert running.mark_overdue(9.0) == []
    running.settle(call, done(), 3.0, 3.0)
    assert handle_all(running, 3.0) == [("S1", [1])]
    assert running.positions() == {"a": 2}


def test_tranche_is_active_while_a_parked_call_goes_on() -> None:
    running, call = give_up_call()
    assert running.is_active("a")
    running.settle(call, BROKEN, 3.0, 3.0)
    assert not running.is_active("a")


def test_call_that_has_not_begun_is_not_overdue() -> None:
    running = begin(2, "S1E0", "S2E0", timeout=1.0)
    first, second = running.take(2, 0.0)
    second.called = float("inf")
    assert running.mark_overdue(5.0) == [first]
    second.called = 5.0
    assert running.mark_overdue(5.5) == []
    assert running.mark_overdue(6.5) == [second]


def test_patient_engine_parks_a_stream_when_its_call_has_ended() -> None:
    running = Engine(Rules(attempts_max=1, exhausted="park", timeout=1.0), Random(1), is_dense=False, is_patient=True)
    running.open("t", 0)
    running.ingest(batch(2, things("S1E0", "S2E0")), 0.0)
    first, second = running.take(2, 0.0)
    running.mark_overdue(2.0)
    assert not running.parking.streams
    running.settle(first, done(), 3.0, 3.0)
    running.settle(second, BROKEN, 3.0, 3.0)
    assert set(running.parking.streams) == {"S2"}
    assert running.positions() == {"t": 2}


@pytest.mark.parametrize("is_patient", [False, True])
def test_outcome_of_an_overdue_call_counts_after_it_has_stopped_the_processor(is_patient: bool) -> None:
    rules = Rules(attempts_max=1, exhausted="stop", timeout=1.0)
    running = Engine(rules, Random(1), is_dense=False, is_patient=is_patient)
    running.open("t", 0)
    running.ingest(batch(1, things("S1E0")), 0.0)
    [call] = running.take(1, 0.0)
    with pytest.raises(HandlerFailed):
        running.mark_overdue(2.0)
    foreseen = running.predict([(call, done())])
    assert (foreseen.positions, foreseen.gone) == ({"t": 1}, set())
    running.settle(call, done(), 3.0, 3.0)
    assert running.positions() == {"t": 1}
    assert running.take(1, 3.0) == []
