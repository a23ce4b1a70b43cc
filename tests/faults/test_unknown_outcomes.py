"""A call that ended without knowing what became of its batch: the next one finds out, before anything else."""

from typing import Any

import pytest

from penstock.client import Event, Resolution, RetryPolicy
from penstock.core.producer import Range
from penstock.errors import Blocked, Forbidden, RetriesExhausted
from tests.faults.either import Handle
from tests.faults.proxy import (
    Fate,
    Stuck,
    Visit,
    Which,
    answering,
    is_batch,
    is_claim,
    is_question,
    lost,
    refusing,
    unanswered,
)
from tests.faults.scene import Scene, failure_of, ids, stored

STRICT = {"type": "json_schema", "schema": '{"required": ["name"]}'}
ONCE = {"retry": RetryPolicy(max_attempts=1)}
TWICE = {"retry": RetryPolicy(max_attempts=2, max_delay=0.02)}
STORED: list[Fate] = [lost, unanswered]
NOT_STORED: list[Fate] = [lost, lost]


def left_unknown(scene: Scene, mine: Handle, events: Any, fates: list[Fate], **options: Any) -> None:
    """Send *events*; the call ends without knowing what became of them."""
    scene.line.does(*fates)
    options = {"partition": 0} | options
    call = lambda: mine.send(events, **options)  # noqa: E731
    failure_of(call, RetriesExhausted, partition=0, attempts=len(fates), outcome="unknown")


def test_f07_all_attempts_unknown_and_it_was_stored(scene: Scene) -> None:
    """Handing it in again succeeds, with the numbers it had."""
    mine = scene.producer(**TWICE)
    batch = mine.batch(0, *ids(1, 2))
    left_unknown(scene, mine, batch, STORED, partition=None)
    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (None, [])

    assert mine.send(batch) == stored(0, (0, 1), duplicate=True, attempts=0)

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (0, [0, 1])
    assert scene.log() == [1, 2]
    assert mine.send(ids(3), partition=0) == stored(2, (2, 2)), "in the same epoch: nobody had to be shut out"


def test_f07_plain_events_are_known_again_too(scene: Scene) -> None:
    mine = scene.producer(**TWICE)
    events = ids(1, 2)
    left_unknown(scene, mine, events, STORED)

    assert mine.send(events, partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)

    assert scene.log() == [1, 2]


def test_f07_plain_events_in_different_sets(scene: Scene) -> None:
    """They are the same as long as they are the same objects, whatever is sent between."""
    mine = scene.producer(**TWICE)
    events = ids(1, 2, 3, 4)
    left_unknown(scene, mine, events[:3], STORED)

    assert mine.send(ids(5), partition=0) == stored(3, (3, 3))
    assert mine.send(events[:2], partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)
    assert mine.send(events[2:], partition=0) == stored(2, (2, 2), (4, 4))

    assert scene.log() == [1, 2, 3, 5, 4]
    assert mine.send(events[:1], partition=0) == stored(5, (5, 5)), "it was told that it was stored: this is another"


def test_f07_equal_events_are_others(scene: Scene) -> None:
    """Whoever makes an event anew wants it stored beside the one that failed."""
    mine = scene.producer(**TWICE)
    left_unknown(scene, mine, Event({"id": 1}), STORED)

    assert mine.send(Event({"id": 1}), partition=0) == stored(1, (1, 1))
    assert mine.send(ids(1), partition=0) == stored(2, (2, 2))

    assert scene.log() == [1, 1, 1]


def test_f07_batch_that_is_added_to(scene: Scene) -> None:
    mine = scene.producer(**TWICE)
    batch = mine.batch(0, *ids(1, 2))
    left_unknown(scene, mine, batch, STORED, partition=None)
    assert batch.try_add({"id": 3})

    assert mine.send(batch) == stored(0, (0, 2))

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (0, [0, 1, 2])


def test_f07_somebody_in_between_says_come_again_to_what_was_stored(scene: Scene) -> None:
    """Only the hub's own word says that nothing is stored."""
    mine = scene.producer(**ONCE)
    scene.line.does(passed_and_answered)

    failure_of(lambda: mine.send(ids(1), partition=0), RetriesExhausted, outcome="unknown")

    assert mine.send(ids(2), partition=0) == stored(1, (1, 1))
    assert scene.log() == [1, 2]


def passed_and_answered(visit: Visit) -> None:
    """The hub carries it out, and who stands before it asks to come again."""
    visit.forward()
    answering(503, b"<html>fetch failed</html>", Retry_After="0", content_type="text/html")(visit)


def test_f07_in_different_sets(scene: Scene) -> None:
    """Those of a failed call that come back are not sent again, in whichever company they come."""
    mine = scene.producer(**TWICE)
    first, second, third, fourth = events = [Event(each) for each in ids(1, 2, 3, 4)]
    left_unknown(scene, mine, events[:3], STORED)

    assert mine.send([fourth, second], partition=0) == stored(3, (3, 3), (1, 1))
    assert mine.send([third], partition=0) == stored(2, (2, 2), duplicate=True, attempts=0)
    assert mine.send([first], partition=0) == stored(0, (0, 0), duplicate=True, attempts=0)

    assert [event.published_sequence for event in events] == [0, 1, 2, 3]
    assert [event.published_offset for event in events] == [0, 1, 2, 3]
    assert scene.log() == [1, 2, 3, 4]


def test_f07_a_set_that_is_refused_may_hold_one_that_is_stored(scene: Scene) -> None:
    """Nobody is told that it is not: whoever believed that would publish it a second time."""
    mine = scene.producer(**TWICE)
    known, new = Event({"id": 1}), Event({"id": 2})
    left_unknown(scene, mine, known, STORED)
    mine.resolve(0)
    scene.line.does(refusing(403, "forbidden"))

    failure_of(lambda: mine.send([known, new], partition=0), Forbidden, outcome="unknown")

    failure_of(lambda: refused(scene, mine, new), Forbidden, outcome="not_stored")
    assert mine.send([known, new], partition=0) == stored(0, (0, 1))
    assert scene.log() == [1, 2]


def refused(scene: Scene, mine: Handle, event: Event) -> None:
    scene.line.does(refusing(403, "forbidden"))
    mine.send(event, partition=0)


def test_f08_all_attempts_unknown_and_it_was_not_stored(scene: Scene) -> None:
    """It is stored once, in the next epoch: nothing of the one before can be any more."""
    mine = scene.producer(**TWICE)
    mine.send(ids(1), partition=0)
    batch = mine.batch(0, *ids(2, 3))
    left_unknown(scene, mine, batch, NOT_STORED, partition=None)

    assert mine.send(batch) == stored(0, (1, 2), epoch=1)

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (0, [0, 1])
    assert scene.log() == [1, 2, 3]
    assert mine.send(ids(4), partition=0) == stored(2, (3, 3), epoch=1)


@pytest.mark.parametrize(("fates", "is_stored"), [(STORED, True), (NOT_STORED, False)], ids=["stored", "not-stored"])
def test_f09_the_next_call_has_other_events(scene: Scene, fates: list[Fate], is_stored: bool) -> None:
    told: list[Resolution] = []
    mine = scene.producer(**TWICE, on_resolution=told.append)
    left_unknown(scene, mine, ids(1, 2), fates)

    found = mine.send(ids(3), partition=0)

    assert found == (stored(2, (2, 2)) if is_stored else stored(0, (0, 0), epoch=1))
    lies = (Range(0, 1),) if is_stored else ()
    assert told == [Resolution(0, 0, 0, 2, is_stored, lies)]
    assert scene.log() == ([1, 2, 3] if is_stored else [3])


@pytest.mark.parametrize(("fates", "is_stored"), [(STORED, True), (NOT_STORED, False)], ids=["stored", "not-stored"])
def test_f09_it_can_be_asked_for_by_itself(scene: Scene, fates: list[Fate], is_stored: bool) -> None:
    mine = scene.producer(**TWICE)
    assert mine.resolve(0) is None
    left_unknown(scene, mine, ids(1, 2), fates)

    lies = (Range(0, 1),) if is_stored else ()
    assert mine.resolve(0) == Resolution(0, 0, 0, 2, is_stored, lies)

    assert mine.resolve(0) is None
    assert mine.properties(0).owner_level == (0 if is_stored else 1)


def test_f09_closing_tells_what_is_left_open(wide: Scene) -> None:
    mine = wide.producer(**TWICE)
    wide.line.does(*NOT_STORED)
    failure_of(lambda: mine.send(ids(1), partition=2), RetriesExhausted, partition=2, outcome="unknown")
    mine.send(ids(2), partition=3)

    report = mine.close()

    assert (report.unresolved, report.unfinished) == ([2], [])


def test_f10_republished(scene: Scene) -> None:
    """It is only seen to that the first copy comes no more: where it had come already, there are two, as documented."""
    mine = scene.producer(**TWICE, on_unknown="republish")
    events = [Event(each) for each in ids(1, 2)]
    left_unknown(scene, mine, events, STORED)

    assert mine.send(events, partition=0) == stored(0, (2, 3), epoch=1)

    assert scene.log() == [1, 2, 1, 2]
    assert scene.raw().found(0, epoch=0, count=2)["stored"] is True


def test_f10_republished_where_it_is_only_late(scene: Scene) -> None:
    mine = scene.producer(**TWICE, on_unknown="republish")
    event = Event({"id": 1})
    stuck = Stuck()
    left_unknown(scene, mine, event, [stuck, lost])
    assert mine.send(event, partition=0) == stored(0, (0, 0), epoch=1)

    status, said = stuck.deliver()

    assert (status, said["type"]) == (412, "urn:penstock:problem:producer-fenced")
    assert scene.log() == [1]


def test_f11b_stuck_copy_delivered_after_it_was_found_out(scene: Scene) -> None:
    mine = scene.producer(**TWICE)
    events = [Event(each) for each in ids(1, 2)]
    stuck = Stuck()
    left_unknown(scene, mine, events, [stuck, lost])
    assert mine.send(events, partition=0) == stored(0, (0, 1), epoch=1)

    status, said = stuck.deliver()

    assert (status, said["type"], said["committed"]) == (412, "urn:penstock:problem:producer-fenced", False)
    assert scene.log() == [1, 2]
    assert mine.send(ids(3), partition=0) == stored(2, (2, 2), epoch=1)


def test_f11b_stuck_copy_delivered_just_before_the_claim(scene: Scene) -> None:
    """It comes after it was asked for, and before it is shut out: the claim has the last word."""
    mine = scene.producer(**TWICE)
    events = [Event(each) for each in ids(1, 2)]
    stuck = Stuck()
    left_unknown(scene, mine, events, [stuck, lost])

    def late(visit: Visit) -> None:
        assert stuck.deliver()[0] == 200
        visit.answer(visit.forward())

    scene.line.does(late, to=is_claim)

    assert mine.send(events, partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)

    assert scene.log() == [1, 2]
    assert mine.send(ids(3), partition=0) == stored(0, (2, 2), epoch=1)


@pytest.mark.parametrize(("fates", "is_stored"), [(STORED, True), (NOT_STORED, False)], ids=["stored", "not-stored"])
@pytest.mark.parametrize("which", [is_question, is_claim, is_batch], ids=["question", "claim", "repeat"])
def test_f22_what_is_asked_is_asked_again(scene: Scene, which: Which, fates: list[Fate], is_stored: bool) -> None:
    """That no answer to it comes changes nothing of what is found out."""
    mine = scene.producer(**TWICE)
    events = ids(1, 2)
    left_unknown(scene, mine, events, fates)
    scene.line.does(unanswered, to=which)

    found = mine.send(events, partition=0)

    again = stored(0, (0, 1), duplicate=True, attempts=0)
    assert found == (again if is_stored else stored(0, (0, 1), epoch=1))
    assert scene.log() == [1, 2]


@pytest.mark.parametrize(
    ("which", "fates"),
    [
        pytest.param(is_question, STORED, id="question-stored"),
        pytest.param(is_question, NOT_STORED, id="question-not-stored"),
        pytest.param(is_claim, NOT_STORED, id="claim-not-stored"),
        pytest.param(is_batch, STORED, id="repeat-stored"),
        pytest.param(is_batch, NOT_STORED, id="repeat-not-stored"),
    ],
)
def test_f22_what_cannot_be_found_out_now_is_found_out_later(scene: Scene, which: Which, fates: list[Fate]) -> None:
    """Wherever finding out breaks off, the next call begins with it again."""
    mine = scene.producer(**TWICE)
    events = [Event(each) for each in ids(1, 2)]
    left_unknown(scene, mine, events, fates)
    scene.line.does(refusing(403, "forbidden"), to=which)

    failure_of(lambda: mine.send(ids(3), partition=0), Forbidden, partition=0, outcome="not_stored")
    mine.send(events, partition=0)

    assert scene.log() == [1, 2]
    assert [each.published_offset for each in events] == [0, 1]


def test_f22_what_came_just_before_the_claim_is_found_out_later(scene: Scene) -> None:
    """The claim is granted, and then nothing more can be asked: that it is granted is no reason to forget the batch."""
    mine = scene.producer(**TWICE)
    events = [Event(each) for each in ids(1, 2)]
    stuck = Stuck()
    left_unknown(scene, mine, events, [stuck, lost])

    def late(visit: Visit) -> None:
        assert stuck.deliver()[0] == 200
        scene.line.does(refusing(403, "forbidden"), to=lambda _: True)
        visit.answer(visit.forward())

    scene.line.does(late, to=is_claim)
    failure_of(lambda: mine.send(ids(3), partition=0), Forbidden, partition=0)

    assert mine.send(events, partition=0) == stored(0, (0, 1), duplicate=True, attempts=0)

    assert scene.log() == [1, 2]


def test_f46_schema_tightened_between_attempts(scene: Scene) -> None:
    """What is stored was valid when it came."""
    scene.change(compatibility_mode="none")
    mine = scene.producer()

    def tightened(visit: Visit) -> None:
        visit.forward()
        scene.change(schema=STRICT)
        visit.hang_up()

    scene.line.does(tightened)

    assert mine.send(ids(1, 2), partition=0) == stored(0, (0, 1), duplicate=True, attempts=2)

    assert scene.log() == [1, 2]


def test_f46_permission_revoked_between_attempts(scene: Scene) -> None:
    """The refusal speaks for the second attempt alone: what became of the first is found out when that is allowed."""
    mine = scene.producer()
    event = Event({"id": 1})
    blocked = f"/settings/blacklist/PRODUCER_ET/{scene.name}"

    def revoked(visit: Visit) -> None:
        visit.forward()
        assert scene.http.put(blocked).status_code == 204
        visit.hang_up()

    scene.line.does(revoked)
    failure_of(lambda: mine.send(event, partition=0), Blocked, partition=0, outcome="unknown")
    assert scene.http.delete(blocked).status_code == 204

    assert mine.send(event, partition=0) == stored(0, (0, 0), duplicate=True, attempts=0)

    assert scene.log() == [1]
