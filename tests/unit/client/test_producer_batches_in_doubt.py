"""Resolution of a batch in doubt: the producer shuts the batch out, then asks the hub if it is stored."""

import pytest

from penstock.client.log.publishing import Event
from penstock.client.producers.options import PublishResult, Resolution
from penstock.core.producers import OffsetRange
from penstock.errors import Forbidden, OutOfSequence, PenstockError, ProducerFenced, ServerStateRegressed
from penstock.wire import producers as wire
from tests.failing import has_code
from tests.unit.client.play import Play, in_doubt, producer_reply, stored_reply, unsafe
from tests.unit.wire.script import Reply, problem

PRODUCER, EVENTS = "/partitions/3/producers/g", "POST /partitions/3/events"


def behind(epoch: int | None) -> Reply:
    """Return the refusal of a hub to which the epoch to be shut out is unknown."""
    return problem(412, "claim-refused", current_epoch=epoch, next_sequence=None, producer_group="g", partition=3)


def test_batch_behind_the_hubs_numbers_is_compared_by_sending_it_again() -> None:
    event = Event({"n": 1})
    play = in_doubt(event).then(producer_reply(next_sequence=1), stored_reply(4, 4, outcome="duplicate"))

    assert play.send(event) == PublishResult(3, 0, 0, 1, (OffsetRange(4, 4),), duplicate=True, attempts=0)

    assert play.asked == [f"GET {PRODUCER}", EVENTS]
    assert (event.published_offset, play.state.next, play.state.epoch) == (4, 1, 0)


def test_batch_ahead_of_the_hubs_numbers_is_shut_out_by_a_new_epoch_first() -> None:
    event = Event({"n": 1})
    fenced = unsafe(412, "producer-fenced", False, current_epoch=1)
    play = in_doubt(event).then(producer_reply(), producer_reply(epoch=1), fenced, stored_reply(4, 4, epoch=1))

    assert play.send(event) == PublishResult(3, 1, 0, 1, (OffsetRange(4, 4),), duplicate=False, attempts=1)

    assert play.asked == [f"GET {PRODUCER}", f"PUT {PRODUCER}", EVENTS, EVENTS]
    claim = play.bodies[0]
    assert claim.pop("claim_id")
    assert claim == {"epoch": "next", "if_epoch": 0}
    assert [each.headers[wire.EPOCH] for each in play.script.requests[2:]] == ["0", "1"]


def test_resolution_that_failed_goes_on_after_the_shut_out() -> None:
    event = Event({"n": 1})
    play = in_doubt(event).then(producer_reply(), producer_reply(epoch=1), problem(403, "forbidden"))
    with pytest.raises(Forbidden):
        play.send(event)

    fenced = unsafe(412, "producer-fenced", True, (4, 4), current_epoch=1)
    assert play.then(fenced).send(event).offsets == (OffsetRange(4, 4),)

    assert play.asked == [EVENTS]


def test_republishing_shuts_the_batch_out_without_asking_for_its_fate() -> None:
    event = Event({"n": 1})
    play = in_doubt(event, on_unknown="republish").then(producer_reply(epoch=1), stored_reply(4, 4, epoch=1))

    assert play.send(event).epoch == 1

    assert play.asked == [f"PUT {PRODUCER}", EVENTS]


def test_batch_of_an_epoch_unknown_to_the_hub_is_shut_out_by_the_epoch_above() -> None:
    event = Event({"n": 1})
    play = in_doubt(event).then(producer_reply(), behind(None), producer_reply(epoch=1), stored_reply(4, 4, epoch=1))

    assert play.send(event).epoch == 1

    assert play.asked == [f"GET {PRODUCER}", f"PUT {PRODUCER}", f"PUT {PRODUCER}", EVENTS]
    first, second = play.bodies[:2]
    assert (first["epoch"], first["if_epoch"], second["epoch"]) == ("next", 0, 1)
    assert "if_epoch" not in second


def test_copy_stored_before_the_shut_out_is_found() -> None:
    event = Event({"n": 1})
    taken = wire.PreviousEpoch(0, 1, 4)
    fenced = unsafe(412, "producer-fenced", True, (4, 4), current_epoch=1)
    play = in_doubt(event).then(producer_reply(), behind(None), producer_reply(epoch=1, previous=taken), fenced)

    assert play.send(event).offsets == (OffsetRange(4, 4),)
    assert (play.state.epoch, play.state.next) == (1, 0), "it has taken no number of the new epoch"


def test_numbers_of_another_epoch_do_not_speak_for_the_batch() -> None:
    event = Event({"n": 1})
    refused = problem(412, "claim-refused", current_epoch=1, next_sequence=1, producer_group="g", partition=3)
    fenced = unsafe(412, "producer-fenced", False, current_epoch=1)
    play = in_doubt(event).then(producer_reply(epoch=1, next_sequence=1), refused, fenced)

    with pytest.raises(ProducerFenced):
        play.send(event)

    assert play.asked == [f"GET {PRODUCER}", f"PUT {PRODUCER}", EVENTS]


@pytest.mark.parametrize("current", [None, 0])
def test_hub_that_lost_acknowledged_events_is_reported_as_regressed(current: int | None) -> None:
    play = Play(producer_reply(epoch=2), Reply(200, b"{}"), stored_reply(4, 5, epoch=2))
    play.send({"n": 1}, {"n": 2})
    event = doubt_in(play, Event({"n": 3}))

    with pytest.raises(ServerStateRegressed) as told:
        play.then(producer_reply(epoch=2, next_sequence=2), behind(current), producer_reply(epoch=3)).send(event)

    fields = {name: told.value.fields[name] for name in ("missing", "expected", "received", "outcome")}
    assert fields == {"missing": 2, "expected": 0, "received": 2, "outcome": "not_stored"}
    assert play.state.unresolved is None


def doubt_in(play: Play, event: Event) -> Event:
    with pytest.raises(PenstockError):
        play.then(*[problem(500, "outcome-unknown")] * 3).send(event)
    assert play.state.status == "unresolved"
    return event


@pytest.mark.parametrize("is_stored", [True, False, None], ids=str)
def test_fenced_producer_reports_the_fate_of_its_batch(is_stored: bool | None) -> None:
    resolutions: list[Resolution] = []
    event = Event({"n": 1})
    ranges = [(4, 4)] if is_stored else []
    refused = problem(412, "claim-refused", current_epoch=7, next_sequence=0, producer_group="g", partition=3)
    fenced = unsafe(412, "producer-fenced", is_stored, *ranges, current_epoch=7)
    play = in_doubt(event, on_resolution=resolutions.append).then(producer_reply(), refused, fenced)

    with pytest.raises(ProducerFenced) as poisoned:
        play.send(Event({"n": 2}))

    assert poisoned.value.current_epoch == 7
    assert resolutions == [Resolution(3, 0, 0, 1, is_stored, tuple(OffsetRange(*each) for each in ranges))]
    assert (play.state.unresolved is None) == (is_stored is not None)


def test_batch_that_the_hub_forgot_is_reported_as_unknown_once() -> None:
    resolutions: list[Resolution] = []
    event = Event({"n": 1})
    forgotten = unsafe(412, "producer-fenced", None, current_epoch=1)
    play = in_doubt(event, on_resolution=resolutions.append).then(producer_reply(), producer_reply(epoch=1), forgotten)

    for _ in range(2):
        with pytest.raises(OutOfSequence, check=has_code("sequence-too-old")):
            play.send(event)

    assert resolutions == [Resolution(3, 0, 0, 1, None, ())]
    with pytest.raises(OutOfSequence, check=has_code("sequence-too-old")):
        play.script.play(play.protocol.resolve(play.state, play.call()))
