"""A refused batch is not stored, uses no number and stops nothing; closing stops calls that have not begun."""

from penstock.client import CloseReport, Event
from penstock.errors import BadParameter, BodyTooLarge, Conflict, EventTooLarge, InvalidEvent
from tests.faults.either import Handle
from tests.faults.proxy import Held
from tests.faults.scene import Scene, failure_of, ids, stored
from tests.promises.scene import until


def test_invalid_event_uses_no_number(scene: Scene, mine: Handle) -> None:
    scene.change(schema={"type": "json_schema", "schema": '{"required": ["id"]}'}, compatibility_mode="none")
    mine.send(ids(1), partition=0)

    failure_of(lambda: mine.send([{"id": 2}, {"x": 3}], partition=0), InvalidEvent, line=2, outcome="not_stored")

    assert mine.send(ids(4), partition=0) == stored(1, (1, 1))
    assert scene.log() == [1, 4]


def test_too_large_batch_is_refused_and_its_portions_are_stored(mine: Handle) -> None:
    events = [Event({"id": number, "text": "x" * 900_000}) for number in range(60)]

    failure_of(lambda: mine.send(events, partition=0), BodyTooLarge, partition=0, outcome="not_stored")
    failure_of(lambda: mine.send({"id": 1, "text": "x" * 1_100_000}, partition=0), EventTooLarge, outcome="not_stored")

    assert mine.send(events[:2], partition=0) == stored(0, (0, 1))


def test_producer_publishes_to_partitions_that_are_added(wide: Scene) -> None:
    mine = wide.producer()
    mine.send(ids(1), partition=3)
    path = f"/event-types/{wide.name}/partition-count"
    assert wide.http.put(path, json={"partition_count": 6}).status_code == 204
    wide.feed.partitions = 6

    assert mine.send(ids(2), partition=3) == stored(1, (1, 1), partition=3)
    assert mine.send(ids(3), partition=5) == stored(0, (0, 0), partition=5)
    assert (wide.log(3), wide.log(5)) == ([1, 2], [3])


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
