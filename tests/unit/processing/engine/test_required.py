"""Where all events are required, a stream that was parked goes on with the index that comes next, wherever it lies."""

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.outcome import done
from tests.unit.processing.engine.items import batch, things
from tests.unit.processing.engine.test_set_aside import BROKEN, all_required, broken_at, handled, replay


def parked(log: dict[str, list[list[str]]], index: int) -> Engine:
    """Return an engine that has read all of a *log*, in which the event of that *index* has failed."""
    running = all_required(*log)
    for tranche, batches in log.items():
        for end, names in enumerate(batches, 1):
            running.ingest(batch(end, things(*names), tranche), 0.0)
    broken_at(running, index)
    running.retry("S1")
    return running


def test_what_comes_late_is_found_behind_what_was_parked() -> None:
    running = parked({"t": [["S1E0", "S1E1", "S1E3"]]}, 1)
    running.ingest(batch(2, things("S1E2")), 0.0)
    assert running.positions() == {"t": 2}

    replay(running, 1, ["S1E0", "S1E1", "S1E3"])
    assert handled(running) == [1]
    assert running.missing() == {}, "it may be in what is to be read again"
    replay(running, 2, ["S1E2"])
    assert handled(running) == [2, 3]
    assert not running.parking.streams


def test_what_comes_when_all_was_read_again_is_read_then() -> None:
    running = parked({"t": [["S1E0", "S1E1", "S1E3"]]}, 1)
    replay(running, 1, ["S1E0", "S1E1", "S1E3"])
    assert handled(running) == [1]
    [asked] = running.replays()
    running.replay(asked, batch(1)._replace(is_tail=True), 0.0)
    assert (running.replays(), running.missing()) == ([], {"S1": (2, 3)})

    running.ingest(batch(2, things("S1E2")), 0.0)
    assert running.missing() == {}
    replay(running, 2, ["S1E2"])
    assert handled(running) == [2, 3]
    assert not running.parking.streams


def test_what_comes_while_a_page_is_read_is_not_taken_for_gone() -> None:
    running = parked({"t": [["S1E0", "S1E1", "S1E3"]]}, 1)
    replay(running, 1, ["S1E0", "S1E1", "S1E3"])
    assert handled(running) == [1]
    [asked] = running.replays()
    running.ingest(batch(2, things("S1E2")), 0.0)
    running.replay(asked, batch(1)._replace(is_tail=True), 0.0)

    replay(running, 2, ["S1E2"])
    assert handled(running) == [2, 3]


def test_what_was_not_taken_in_yet_is_read_once_more_when_it_is() -> None:
    running = parked({"t": [["S1E0", "S1E1"]]}, 1)
    replay(running, 2, ["S1E0", "S1E1", "S1E2"])
    running.ingest(batch(2, things("S1E2")), 0.0)
    assert handled(running) == [1]

    assert [asked.since for asked in running.replays()] == [0]
    replay(running, 2, ["S1E0", "S1E1", "S1E2"])
    assert handled(running) == [2]
    assert not running.parking.streams


def test_what_lies_in_two_tranches_in_turns_is_handled_in_turns() -> None:
    running = parked({"a": [["S1E0", "S1E2"]], "b": [["S1E1", "S1E3"]]}, 0)
    pages = {"a": ["S1E0", "S1E2"], "b": ["S1E1", "S1E3"]}
    for _ in range(2):
        [asked] = running.replays()
        replay(running, 1, pages[asked.tranche], asked.tranche)

    assert handled(running) == [0, 1, 2, 3]
    assert not running.parking.streams
    assert running.positions() == {"a": 1, "b": 1}


def test_a_page_need_not_be_in_order() -> None:
    running = parked({"t": [["S1E2", "S1E0", "S1E1", "S1E1"]]}, 0)
    replay(running, 1, ["S1E2", "S1E0", "S1E1", "S1E1"])

    assert handled(running) == [0, 1, 2]


def test_it_is_read_again_from_its_oldest_batch_on() -> None:
    running = parked({"t": [["S1E0", "S1E3"], ["S1E1", "S1E2"]]}, 1)

    [asked] = running.replays()
    assert asked.since == 0, "the event at 3 lies there"


def test_what_is_approved_while_it_is_tried_again_is_not_waited_for_once_it_has_failed_anew() -> None:
    running = parked({"t": [["S1E0", "S1E2"]]}, 0)
    replay(running, 1, ["S1E0", "S1E2"])
    assert handled(running) == [0]
    [asked] = running.replays()
    running.replay(asked, batch(1)._replace(is_tail=True), 0.0)
    running.go_on("S1", 2)
    [call] = running.take(1, 0.0)
    running.settle(call, BROKEN, 0.0, 0.001)
    running.retry("S1")

    replay(running, 1, ["S1E0", "S1E2"])
    assert handled(running) == [2]


def test_what_fails_again_keeps_the_spans_that_are_left_of_it() -> None:
    running = parked({"a": [["S1E0", "S1E3"], ["S1E1"]], "b": [["S1E2"]]}, 0)
    pages = {("a", 0): (1, ["S1E0", "S1E3"]), ("a", 1): (2, ["S1E1"]), ("b", 0): (1, ["S1E2"])}
    replay(running, *pages["a", 0], "a")
    [call] = running.take(1, 0.0)
    running.settle(call, done(), 0.0, 0.001)
    while not (calls := running.take(1, 0.0)):
        [asked] = running.replays()
        replay(running, *pages[asked.tranche, int(asked.since)], asked.tranche)
    running.settle(calls[0], BROKEN, 0.0, 0.001)

    spans = running.parking.streams["S1"]
    assert {tranche: (span.index, span.since) for tranche, span in spans.items()} == {"a": (1, 0), "b": (1, 0)}


def test_all_of_what_waits_is_dropped_and_what_comes_then_is_handled() -> None:
    running = parked({"a": [["S1E0", "S1E3"]], "b": [["S1E2"]]}, 0)
    running.drop("S1")
    running.ingest(batch(2, things("S1E1", "S1E4"), "a"), 0.0)

    assert handled(running) == [4]
