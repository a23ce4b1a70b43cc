"""Parked streams are dropped or retried; where all events are required, they continue with the next index."""

from random import Random

import pytest

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.parking import Parked
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.stream import Call
from penstock.processing.outcomes import Failure, Outcome, done, retry, skip_to
from tests.unit.processing.engine.items import Thing, batch, begin, engine, indices, settle_next, things

BROKEN = Failure("ValueError", "it cannot be")


def park_and_retry(**rules: object) -> tuple[Engine, Call]:
    """Return an engine with a stream that was parked, and the call that tries it again."""
    running = begin(1, "S1E0", exhausted="park", **rules)
    while not running.parking.streams:
        [call] = running.take(1, 0.0) or running.take(1, running.due or 0.0)
        running.settle(call, BROKEN, 0.0, 0.001)
    running.retry("S1")
    [replay] = running.list_replays()
    running.replay(replay, batch(1, things("S1E0")), 0.0)
    [call] = running.take(1, 0.0)
    return running, call


def list_troubles(running: Engine) -> list[str]:
    return [*running.busy.failing, *running.busy.stalled]


def test_stream_dropped_between_two_attempts_is_in_no_trouble() -> None:
    running, call = park_and_retry(attempts_max=3)
    running.settle(call, BROKEN, 0.0, 0.001)
    assert list_troubles(running) == ["S1"]

    running.drop("S1")

    assert list_troubles(running) == []
    assert running.list_known() == set()


@pytest.mark.parametrize("is_overdue", [False, True], ids=["in time", "overdue"])
@pytest.mark.parametrize("new", [[], things("S1E1")], ids=["nothing follows", "an event follows"])
@pytest.mark.parametrize("result", [BROKEN, retry(60.0), done()], ids=["failed", "deferred", "done"])
def test_outcome_of_a_call_whose_stream_was_dropped_is_ignored(
    result: Outcome | Failure, new: list[Thing], *, is_overdue: bool
) -> None:
    running, call = park_and_retry(attempts_max=1, timeout=1.0)
    running.drop("S1")
    running.ingest(batch(2, new), 0.0)
    if is_overdue:
        assert running.mark_overdue(5.0) == [call]
        assert list_troubles(running) == []
    running.settle(call, result, 6.0, 6.0)

    assert not running.parking.streams
    assert list_troubles(running) == []
    assert running.list_known() == ({"S1"} if new else set())
    assert [(indices(each), each.attempt) for each in running.take(8, 6.0)] == ([([1], 1)] if new else [])


def test_events_skipped_by_a_retry_are_not_handed_out_later() -> None:
    running, call = park_and_retry(attempts_max=1)
    running.settle(call, skip_to(5), 0.0, 0.001)
    assert not running.parking.streams

    running.ingest(batch(9, things("S1E3", "S1E4", "S1E7")), 0.0)

    assert handle_all(running) == [7]
    assert running.list_known() == set()


def test_retry_goes_on_behind_a_page_without_events_of_its_stream() -> None:
    running, call = park_and_retry(attempts_max=1)
    running.ingest(batch(2, things("S1E1")), 0.0)
    running.settle(call, done(), 0.0, 0.001)

    replay(running, 2, ["S2E0"])
    assert handle_all(running) == []
    replay(running, 3, ["S1E1"])

    assert handle_all(running) == [1]
    assert not running.parking.streams


def test_skip_of_events_that_have_come_is_not_remembered() -> None:
    running, call = park_and_retry(attempts_max=1)
    running.ingest(batch(2, things("S1E1")), 0.0)
    assert running.parking.streams["S1"]["t"].next == 2

    running.settle(call, skip_to(2), 0.0, 0.001)

    assert running.list_known() == set()


def test_parked_stream_of_a_released_tranche_is_not_kept_nor_fresh_when_it_returns() -> None:
    running = engine("a", "b", attempts_max=1, exhausted="park")
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    running.ingest(batch(1, things("S2E0"), "b"), 0.0)
    for call in running.take(2, 0.0):
        running.settle(call, BROKEN, 0.0, 0.001)
    kept_by_another = running.parking.streams["S1"]["a"]

    running.forget("a")
    assert running.parking.find_changes().keys() == {("S2", "b")}, "else what another has parked would be taken away"
    running.open("a", 1)
    running.parking.load([kept_by_another])

    assert not running.parking.is_fresh("S1"), "else nobody could have it tried again"
    assert running.parking.is_fresh("S2"), "its tranche was never another's"


def make_required_engine(*tranches: str) -> Engine:
    return engine(
        *tranches, is_dense=True, require_all=True, attempts_max=1, exhausted="park", events_per_call=1, remember=2
    )


def handle_all(running: Engine) -> list[int]:
    """Let all that can be handled succeed, what is tried again too; return the indices."""
    found = []
    while calls := running.take(1, 0.0):
        found += indices(calls[0])
        running.settle(calls[0], done(), 0.0, 0.001)
    return found


def break_at(running: Engine, index: int) -> None:
    """Handle one event after the other up to *index*, which is parked with what waits."""
    while not running.parking.streams:
        [call] = running.take(1, 0.0)
        running.settle(call, BROKEN if call.index == index else done(), 0.0, 0.001)


def replay(running: Engine, end: int, names: list[str], tranche: str = "t") -> None:
    [asked] = running.list_replays()
    assert asked.tranche == tranche
    running.replay(asked, batch(end, things(*names), tranche), 0.0)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_required_stream_continues_behind_its_parked_events(is_dropped: bool) -> None:
    running = make_required_engine()
    running.ingest(batch(1, things("S1E0", "S1E1", "S1E2")), 0.0)
    break_at(running, 1)
    if is_dropped:
        running.drop("S1")
    else:
        running.retry("S1")
        replay(running, 1, ["S1E0", "S1E1", "S1E2"])
        assert running.find_missing() == {}, "it only waits for its turn"
        assert handle_all(running) == [1, 2]

    running.ingest(batch(2, things("S1E3", "S1E5")), 0.0)

    assert handle_all(running) == [3]
    assert running.find_missing() == {"S1": (4, 5)}
    running.ingest(batch(3, things("S1E2", "S1E4")), 0.0)
    assert handle_all(running) == [4, 5]
    assert running.positions() == {"t": 3}


def test_required_call_that_is_given_back_is_repeated_with_the_parked_events() -> None:
    running = make_required_engine()
    running.ingest(batch(1, things("S1E0", "S1E1")), 0.0)
    break_at(running, 1)
    running.retry("S1")
    replay(running, 1, ["S1E0", "S1E1"])
    [call] = running.take(1, 0.0)
    running.give_back(call)

    assert handle_all(running) == [1]


def test_required_stream_dropped_during_a_call_continues_behind_all_parked_events() -> None:
    running = make_required_engine()
    running.ingest(batch(1, things("S1E0", "S1E1")), 0.0)
    break_at(running, 0)
    running.ingest(batch(2, things("S1E2")), 0.0)
    running.retry("S1")
    replay(running, 1, ["S1E0", "S1E1"])
    [call] = running.take(1, 0.0)
    running.drop("S1")
    running.ingest(batch(3, things("S1E3")), 0.0)
    running.settle(call, done(), 0.0, 0.001)

    assert handle_all(running) == [3]
    assert running.positions() == {"t": 3}


def test_stream_parked_in_several_tranches_continues_behind_the_last_of_its_events() -> None:
    running = make_required_engine("a", "b")
    running.ingest(batch(1, things("S1E0", "S1E1"), "a"), 0.0)
    break_at(running, 0)
    running.ingest(batch(1, things("S1E2"), "b"), 0.0)
    running.ingest(batch(2, things("S1E3"), "a"), 0.0)
    running.retry("S1")
    replay(running, 1, ["S1E0", "S1E1"], "a")
    assert handle_all(running) == [0, 1]
    replay(running, 1, ["S1E2"], "b")
    assert handle_all(running) == [2]
    replay(running, 2, ["S1E3"], "a")
    assert handle_all(running) == [3]
    running.ingest(batch(3, things("S1E4"), "a"), 0.0)

    assert handle_all(running) == [4]
    assert running.positions() == {"a": 3, "b": 1}


def test_retried_streams_are_forgotten_like_others() -> None:
    running = engine(is_dense=True, attempts_max=1, exhausted="park", remember=2)
    for n in range(6):
        name = f"S{n}E0"
        running.ingest(batch(n + 1, things(name)), 0.0)
        [call] = running.take(1, 0.0)
        running.settle(call, BROKEN, 0.0, 0.001)
        running.retry(call.stream)
        replay(running, n + 1, [name])
        assert handle_all(running) == [0]

    assert len(running.list_known()) <= 3


@pytest.mark.parametrize("is_dense", [False, True])
def test_parked_call_of_a_dropped_stream_keeps_nothing(
    is_dense: bool,
) -> None:
    running = begin(1, "S1E0", is_dense=is_dense, attempts_max=1, exhausted="park", timeout=1.0)
    [call] = running.take(1, 0.0)
    running.mark_overdue(2.0)
    running.drop("S1")
    running.ingest(batch(2, things("S1E1")), 2.0)

    assert running.predict([(call, done())]).gone == {"S1"}


def begin_beyond(*ahead: tuple[str, int], waiting: Parked, is_dense: bool = False) -> Engine:
    """Return an engine that begins behind another life: how far S1 is done by tranche, and what is parked of it."""
    running = Engine(Rules(exhausted="park", attempts_max=1), Random(7), is_dense=is_dense)
    for tranche, index in ahead:
        running.open(tranche, 0, {"S1": index}, is_exact=False)
    if waiting.tranche not in dict(ahead):
        running.open(waiting.tranche, 0, {}, is_exact=False)
    running.parking.load([waiting])
    return running


def test_progress_in_one_tranche_does_not_affect_events_parked_in_another() -> None:
    running = begin_beyond(("a", 44), waiting=Parked("S1", "b", 0, 2, 2, 0, "parked", "", 0))
    running.retry("S1")

    replay(running, 1, ["S1E0", "S1E1"], "b")

    assert handle_all(running) == [0, 1]
    assert not running.parking.retried
    assert running.find_next_index("S1", "a") == 44


@pytest.mark.parametrize("first", ["a", "b"])
def test_progress_of_a_stream_is_known_for_each_of_its_tranches(first: str) -> None:
    ahead = sorted([("a", 44), ("b", 1)], key=lambda each: each[0] != first)
    running = begin_beyond(*ahead, waiting=Parked("S2", "b", 0, 1, 1, 1, "ValueError", "", 0))
    assert running.list_known() == {"S1", "S2"}
    assert [running.find_next_index("S1", each) for each in ("a", "b")] == [44, 1]

    running.ingest(batch(1, things("S1E0", "S1E1", "S1E2"), "b"), 0.0)
    assert handle_all(running) == [1, 2]
    running.ingest(batch(1, things("S1E43", "S1E44"), "a"), 0.0)
    assert handle_all(running) == [44]


@pytest.mark.parametrize("is_dense", [False, True])
def test_events_parked_by_others_wait_for_events_in_a_running_call(is_dense: bool) -> None:
    running = engine("a", attempts_max=1, exhausted="park", is_dense=is_dense)
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    [call] = running.take(1, 0.0)
    running.open("b", 0)
    running.parking.load([Parked("S1", "b", 1, 3, 2, 1, "ValueError", "", 0)])
    running.retry("S1")
    assert not running.list_replays()
    assert not running.predict([(call, done())]).parked
    running.settle(call, done(), 0.0, 0.001)
    assert running.positions() == {"a": 1, "b": 0}
    assert running.parking.streams["S1"]["b"].index == 1

    replay(running, 1, ["S1E1", "S1E2"], "b")

    assert handle_all(running) == [1, 2]
    assert not running.parking.streams


@pytest.mark.parametrize("is_dense", [False, True])
def test_retry_of_skipped_events_is_over(is_dense: bool) -> None:
    running = begin(1, "S1E0", is_dense=is_dense)
    settle_next(running, skip_to(5))
    running.parking.load([Parked("S1", "t", 1, 3, 2, 1, "ValueError", "", 1)])
    running.retry("S1")

    replay(running, 2, ["S1E1", "S1E2"])
    assert handle_all(running) == []
    running.replay(*running.list_replays(), batch(2)._replace(is_tail=True), 0.0)

    assert not running.parking.streams


@pytest.mark.parametrize("result", [BROKEN, done()])
def test_later_events_join_a_running_call_though_others_have_parked_the_stream(
    result: Outcome | Failure,
) -> None:
    running = engine("a", attempts_max=1, exhausted="park", events_per_call=1)
    running.ingest(batch(1, things("S1E0", "S1E1"), "a"), 0.0)
    [call] = running.take(1, 0.0)
    running.open("b", 0)
    running.parking.load([Parked("S1", "b", 7, 8, 1, 1, "ValueError", "", 0)])
    running.ingest(batch(2, things("S1E2"), "a"), 0.0)
    assert running.parking.streams["S1"].keys() == {"b"}, "else what is held would count as done where that is kept"
    running.settle(call, done(), 0.0, 0.001)
    settle_next(running, result)

    failed = {each.tranche: (each.index, each.next, each.events) for each in running.parking.streams["S1"].values()}
    assert failed == {"b": (7, 8, 1)} | ({"a": (1, 3, 2)} if result is BROKEN else {})
    assert handle_all(running) == ([] if result is BROKEN else [2])
    running.ingest(batch(3, things("S1E3"), "a"), 0.0)
    assert handle_all(running) == []
    running.retry("S1")
    replay(running, 1, ["S1E7"], "b")
    assert handle_all(running) == [7]
    replay(running, 3, ["S1E0", "S1E1", "S1E2", "S1E3"], "a")
    assert handle_all(running) == ([1, 2, 3] if result is BROKEN else [3])
    assert running.positions() == {"a": 3, "b": 0}


def test_skip_in_one_tranche_does_not_affect_events_parked_in_another() -> None:
    running = engine("a", attempts_max=1, exhausted="park")
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    settle_next(running, skip_to(5))
    running.open("b", 0)
    running.parking.load([Parked("S1", "b", 0, 2, 2, 1, "ValueError", "", 0)])
    running.retry("S1")

    replay(running, 1, ["S1E0", "S1E1"], "b")

    assert handle_all(running) == [0, 1]
    assert not running.parking.streams


def test_page_that_comes_during_a_parked_call_waits_for_its_end() -> None:
    running = begin(1, "S1E0", attempts_max=1, exhausted="park", timeout=5.0)
    settle_next(running, BROKEN)
    running.retry("S1")
    [asked] = running.list_replays()
    running.drop("S1")
    running.ingest(batch(2, things("S1E1")), 0.0)
    [call] = running.take(1, 0.0)
    running.mark_overdue(6.0)
    running.retry("S1")

    running.replay(asked, batch(2, things("S1E0", "S1E1")), 6.0)

    assert not running.take(2, 6.0), "two calls at once"
    running.settle(call, done(), 7.0, 1.0)
    assert handle_all(running) == [1]


def test_dropped_dense_stream_holds_back_no_batch_of_another_tranche() -> None:
    running = engine("a", attempts_max=1, exhausted="park", is_dense=True)
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    [call] = running.take(1, 0.0)
    running.open("b", 0)
    running.parking.load([Parked("S1", "b", 1, 3, 2, 1, "ValueError", "", 0)])

    running.drop("S1")
    running.settle(call, done(), 0.0, 0.001)

    assert running.positions() == {"a": 1, "b": 0}
    assert running.is_idle


def test_page_that_comes_during_a_call_of_another_tranche_is_read_again() -> None:
    running = engine("a", attempts_max=1, exhausted="park")
    waiting = Parked("S1", "b", 0, 1, 1, 1, "ValueError", "", 0)
    running.ingest(batch(1, things("S1E0"), "a"), 0.0)
    [call] = running.take(1, 0.0)
    running.open("b", 0)
    running.parking.load([waiting])
    running.retry("S1")

    running.replay(waiting, batch(1, things("S1E0"), "b"), 0.0)
    running.settle(call, done(), 0.0, 0.001)

    assert running.positions() == {"a": 1, "b": 0}
    replay(running, 1, ["S1E0"], "b")
    assert handle_all(running) == [0]
    assert not running.parking.streams


def park_at(log: dict[str, list[list[str]]], index: int) -> Engine:
    """Return an engine that has read all of a *log*, in which the event of that *index* has failed."""
    running = make_required_engine(*log)
    for tranche, batches in log.items():
        for end, names in enumerate(batches, 1):
            running.ingest(batch(end, things(*names), tranche), 0.0)
    break_at(running, index)
    running.retry("S1")
    return running


def test_late_event_is_found_behind_parked_ones() -> None:
    running = park_at({"t": [["S1E0", "S1E1", "S1E3"]]}, 1)
    running.ingest(batch(2, things("S1E2")), 0.0)
    assert running.positions() == {"t": 2}

    replay(running, 1, ["S1E0", "S1E1", "S1E3"])
    assert handle_all(running) == [1]
    assert running.find_missing() == {}, "it may be in what is to be read again"
    replay(running, 2, ["S1E2"])
    assert handle_all(running) == [2, 3]
    assert not running.parking.streams


def test_late_event_after_the_replay_is_read_then() -> None:
    running = park_at({"t": [["S1E0", "S1E1", "S1E3"]]}, 1)
    replay(running, 1, ["S1E0", "S1E1", "S1E3"])
    assert handle_all(running) == [1]
    [asked] = running.list_replays()
    running.replay(asked, batch(1)._replace(is_tail=True), 0.0)
    assert (running.list_replays(), running.find_missing()) == ([], {"S1": (2, 3)})

    running.ingest(batch(2, things("S1E2")), 0.0)
    assert running.find_missing() == {}
    replay(running, 2, ["S1E2"])
    assert handle_all(running) == [2, 3]
    assert not running.parking.streams


def test_event_that_comes_during_a_replay_is_not_taken_for_missing() -> None:
    running = park_at({"t": [["S1E0", "S1E1", "S1E3"]]}, 1)
    replay(running, 1, ["S1E0", "S1E1", "S1E3"])
    assert handle_all(running) == [1]
    [asked] = running.list_replays()
    running.ingest(batch(2, things("S1E2")), 0.0)
    running.replay(asked, batch(1)._replace(is_tail=True), 0.0)

    replay(running, 2, ["S1E2"])
    assert handle_all(running) == [2, 3]


def test_event_not_taken_in_yet_is_replayed_once_more_later() -> None:
    running = park_at({"t": [["S1E0", "S1E1"]]}, 1)
    replay(running, 2, ["S1E0", "S1E1", "S1E2"])
    running.ingest(batch(2, things("S1E2")), 0.0)
    assert handle_all(running) == [1]

    assert [asked.since for asked in running.list_replays()] == [0]
    replay(running, 2, ["S1E0", "S1E1", "S1E2"])
    assert handle_all(running) == [2]
    assert not running.parking.streams


def test_events_alternating_between_two_tranches_are_handled_alternately() -> None:
    running = park_at({"a": [["S1E0", "S1E2"]], "b": [["S1E1", "S1E3"]]}, 0)
    pages = {"a": ["S1E0", "S1E2"], "b": ["S1E1", "S1E3"]}
    for _ in range(2):
        [asked] = running.list_replays()
        replay(running, 1, pages[asked.tranche], asked.tranche)

    assert handle_all(running) == [0, 1, 2, 3]
    assert not running.parking.streams
    assert running.positions() == {"a": 1, "b": 1}


def test_page_of_a_replay_need_not_be_in_order() -> None:
    running = park_at({"t": [["S1E2", "S1E0", "S1E1", "S1E1"]]}, 0)
    replay(running, 1, ["S1E2", "S1E0", "S1E1", "S1E1"])

    assert handle_all(running) == [0, 1, 2]


def test_replay_begins_at_the_oldest_batch_of_the_stream() -> None:
    running = park_at({"t": [["S1E0", "S1E3"], ["S1E1", "S1E2"]]}, 1)

    [asked] = running.list_replays()
    assert asked.since == 0, "the event at 3 lies there"


def test_approved_gap_stays_approved_after_a_failed_retry() -> None:
    running = park_at({"t": [["S1E0", "S1E2"]]}, 0)
    replay(running, 1, ["S1E0", "S1E2"])
    assert handle_all(running) == [0]
    [asked] = running.list_replays()
    running.replay(asked, batch(1)._replace(is_tail=True), 0.0)
    running.advance_stream("S1", 2)
    settle_next(running, BROKEN)
    running.retry("S1")

    replay(running, 1, ["S1E0", "S1E2"])
    assert handle_all(running) == [2]


def test_failed_retry_keeps_the_remaining_spans() -> None:
    running = park_at({"a": [["S1E0", "S1E3"], ["S1E1"]], "b": [["S1E2"]]}, 0)
    pages = {("a", 0): (1, ["S1E0", "S1E3"]), ("a", 1): (2, ["S1E1"]), ("b", 0): (1, ["S1E2"])}
    replay(running, *pages["a", 0], "a")
    settle_next(running, done())
    while not (calls := running.take(1, 0.0)):
        [asked] = running.list_replays()
        replay(running, *pages[asked.tranche, int(asked.since)], asked.tranche)
    running.settle(calls[0], BROKEN, 0.0, 0.001)

    spans = running.parking.streams["S1"]
    assert {tranche: (span.index, span.since) for tranche, span in spans.items()} == {"a": (1, 0), "b": (1, 0)}


def test_dropped_stream_handles_only_later_events() -> None:
    running = park_at({"a": [["S1E0", "S1E3"]], "b": [["S1E2"]]}, 0)
    running.drop("S1")
    running.ingest(batch(2, things("S1E1", "S1E4"), "a"), 0.0)

    assert handle_all(running) == [4]
