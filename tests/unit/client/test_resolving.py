"""What became of a batch of which nothing is known: it is found out once no copy of it can be stored any more."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.event import Event
from penstock.client.producer_options import PublishResult, Resolution
from penstock.core.producer import Range
from penstock.errors import Forbidden, PenstockError, ProducerFenced, SequenceTooOld, ServerStateRegressed
from penstock.wire import producers as wire
from tests.unit.client.play import Play, left_unknown, shown, stored, unsafe
from tests.unit.wire.script import Reply, problem

PRODUCER = "/partitions/3/producers/g"


def behind(epoch: int | None) -> Reply:
    """The hub has never heard of the epoch that is to be shut out, or not any more."""
    return problem(412, "claim-refused", current_epoch=epoch, next_sequence=None, producer_group="g", partition=3)


def test_where_the_numbers_are_past_the_batch_is_compared() -> None:
    event = Event({"n": 1})
    play = left_unknown(event).then(shown(next_sequence=1), stored(4, 4, outcome="duplicate"))

    assert play.send(event) == PublishResult(3, 0, 0, 1, (Range(4, 4),), duplicate=True, attempts=0)

    assert play.asked == ["GET /partitions/3/producers/g", "POST /partitions/3/events"]
    assert (event.published_offset, play.lane.next, play.lane.epoch) == (4, 1, 0)


def test_where_they_are_not_it_is_shut_out_first() -> None:
    event = Event({"n": 1})
    fenced = unsafe(412, "producer-fenced", False, current_epoch=1)
    play = left_unknown(event).then(shown(), shown(epoch=1), fenced, stored(4, 4, epoch=1))

    assert play.send(event) == PublishResult(3, 1, 0, 1, (Range(4, 4),), duplicate=False, attempts=1)

    of_group, batches = "/partitions/3/producers/g", "POST /partitions/3/events"
    assert play.asked == [f"GET {of_group}", f"PUT {of_group}", batches, batches]
    claim = play.bodies[0]
    assert claim.pop("claim_id")
    assert claim == {"owner_level": "next", "if_epoch": 0}
    assert [each.headers[wire.EPOCH] for each in play.script.requests[2:]] == ["0", "1"]


def test_once_it_is_shut_out_only_the_rest_is_asked_again() -> None:
    event = Event({"n": 1})
    play = left_unknown(event).then(shown(), shown(epoch=1), problem(403, "forbidden"))
    with pytest.raises(Forbidden):
        play.send(event)

    fenced = unsafe(412, "producer-fenced", True, (4, 4), current_epoch=1)
    assert play.then(fenced).send(event).offsets == (Range(4, 4),)

    assert play.asked == ["POST /partitions/3/events"]


def test_to_republish_it_only_shuts_out() -> None:
    event = Event({"n": 1})
    play = left_unknown(event, on_unknown="republish").then(shown(epoch=1), stored(4, 4, epoch=1))

    assert play.send(event).epoch == 1

    assert play.asked == ["PUT /partitions/3/producers/g", "POST /partitions/3/events"]


def test_what_the_hub_has_never_heard_of_is_shut_out_by_the_epoch_above_it() -> None:
    event = Event({"n": 1})
    play = left_unknown(event).then(shown(), behind(None), shown(epoch=1), stored(4, 4, epoch=1))

    assert play.send(event).epoch == 1

    assert play.asked == [f"GET {PRODUCER}", f"PUT {PRODUCER}", f"PUT {PRODUCER}", "POST /partitions/3/events"]
    first, second = play.bodies[:2]
    assert (first["owner_level"], first["if_epoch"], second["owner_level"]) == ("next", 0, 1)
    assert "if_epoch" not in second


def test_a_copy_that_came_in_between_is_found() -> None:
    event = Event({"n": 1})
    taken = wire.Ended(0, 1, 4)
    fenced = unsafe(412, "producer-fenced", True, (4, 4), current_epoch=1)
    play = left_unknown(event).then(shown(), behind(None), shown(epoch=1, previous=taken), fenced)

    assert play.send(event).offsets == (Range(4, 4),)


@pytest.mark.parametrize("current", [None, 0])
def test_what_the_hub_had_acknowledged_and_has_not_any_more_is_told(current: int | None) -> None:
    play = Play(shown(epoch=2), Reply(200, b"{}"), stored(4, 5, epoch=2))
    play.send({"n": 1}, {"n": 2})
    event = left_unknown_by(play, Event({"n": 3}))

    with pytest.raises(ServerStateRegressed) as told:
        play.then(shown(epoch=2, next_sequence=2), behind(current), shown(epoch=3)).send(event)

    fields = {name: told.value.fields[name] for name in ("missing", "expected", "received", "outcome")}
    assert fields == {"missing": 2, "expected": 0, "received": 2, "outcome": "not_stored"}
    assert play.lane.doubtful is None


def left_unknown_by(play: Play, event: Event) -> Event:
    with pytest.raises(PenstockError):
        play.then(*[problem(500, "outcome-unknown")] * 3).send(event)
    assert play.lane.standing == "unresolved"
    return event


Told = Callable[[Resolution], None]


@pytest.mark.parametrize(
    ("stored_", "raised"), [(True, ProducerFenced), (False, ProducerFenced), (None, ProducerFenced)], ids=str
)
def test_who_is_shut_out_is_told_what_was_found_out_all_the_same(stored_: Any, raised: type[PenstockError]) -> None:
    told: list[Resolution] = []
    event = Event({"n": 1})
    ranges = [(4, 4)] if stored_ else []
    refused = problem(412, "claim-refused", current_epoch=7, next_sequence=0, producer_group="g", partition=3)
    fenced = unsafe(412, "producer-fenced", stored_, *ranges, current_epoch=7)
    play = left_unknown(event, on_resolution=told.append).then(shown(), refused, fenced)

    with pytest.raises(raised) as poisoned:
        play.send(Event({"n": 2}))

    assert poisoned.value.fields["current_epoch"] == 7
    assert told == [Resolution(3, 0, 0, 1, stored_, (Range(4, 4),) if stored_ else ())]
    assert (play.lane.doubtful is None) == (stored_ is not None)


def test_what_nobody_knows_any_more_is_told_as_that() -> None:
    told: list[Resolution] = []
    event = Event({"n": 1})
    forgotten = unsafe(412, "producer-fenced", None, current_epoch=1)
    play = left_unknown(event, on_resolution=told.append).then(shown(), shown(epoch=1), forgotten)

    for _ in range(2):
        with pytest.raises(SequenceTooOld):
            play.send(event)

    assert told == [Resolution(3, 0, 0, 1, None, ())]
    with pytest.raises(SequenceTooOld):
        play.script.play(play.producing.resolve(play.lane, play.operation()))
