"""Closing a producer waits for calls in flight and fails those that have not begun."""

from penstock.client import CloseReport
from penstock.errors import BadParameter, Conflict
from tests.faults.either import Handle
from tests.faults.proxy import Held
from tests.faults.scene import Scene, failure_of, ids, stored
from tests.promises.scene import until


def test_closing_at_once_reports_partitions_with_a_call_in_flight(scene: Scene) -> None:
    mine, other = scene.producer(), scene.producer(group="other")
    mine.send(ids(1), partition=0)
    scene.line.does(held := Held())
    other.properties(0)
    sending = other.begin(ids(2), partition=0)
    held.wait()

    failure_of(lambda: mine.close(-1), BadParameter, parameter="timeout")
    assert mine.close(0) == CloseReport([], [])
    assert other.close(0) == CloseReport([0], [0])

    held.let_go()
    assert sending.result(300) == stored(0, (1, 1))


def test_closing_waits_for_the_call_in_flight_and_fails_those_behind_it(scene: Scene, mine: Handle) -> None:
    scene.line.does(held := Held())
    first = mine.begin(ids(1), partition=0)
    held.wait()
    second = mine.begin(ids(2), partition=0)
    until(lambda: mine.waiting(0) == 1, "the second waits for its turn")

    assert mine.close(0.05).unfinished == [0]
    held.let_go()

    assert first.result(300) == stored(0, (0, 0))
    failure_of(lambda: second.result(300), Conflict, outcome="not_stored")
    failure_of(lambda: mine.send(ids(3), partition=0), Conflict)
    assert mine.close().unfinished == []
    assert scene.log() == [1]
