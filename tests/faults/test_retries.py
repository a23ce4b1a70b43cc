"""A batch that is sent again, since something went wrong on its way: its events are stored once."""

import pytest

from penstock.client import Event
from penstock.errors import RetriesExhausted, ServerError
from tests.faults.proxy import (
    Fate,
    Held,
    Stuck,
    Visit,
    answering,
    cut,
    ignored,
    is_claim,
    lost,
    swallowed,
    twice,
    unanswered,
)
from tests.faults.scene import Scene, failure_of, ids, stored

HASTY = 0.3
"""Seconds without an answer after which an attempt is given up: longer than a hub takes for anything here."""


@pytest.mark.parametrize("fate", [lost, ignored])
def test_f01_request_lost_before_the_hub(scene: Scene, fate: Fate) -> None:
    mine = scene.producer(attempt_timeout=HASTY)
    scene.line.does(fate)

    assert mine.send(ids(1, 2), partition=0) == stored(0, (0, 1), attempts=2)

    assert scene.log() == [1, 2]
    assert len(scene.numbers_sent()) == 2 and len(set(scene.numbers_sent())) == 1


@pytest.mark.parametrize("fate", [unanswered, swallowed])
def test_f02_response_lost_after_commit(scene: Scene, fate: Fate) -> None:
    mine = scene.producer(attempt_timeout=HASTY)
    batch = mine.batch(0, *ids(1, 2, 3))
    scene.line.does(fate)

    assert mine.send(batch) == stored(0, (0, 2), duplicate=True, attempts=2)

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (0, [0, 1, 2])
    assert scene.log() == [1, 2, 3]
    assert len(scene.numbers_sent()) == 2 and len(set(scene.numbers_sent())) == 1
    assert mine.send(ids(4), partition=0) == stored(3, (3, 3))


@pytest.mark.parametrize("count", [1, 400], ids=["small", "large"])
def test_f05_connection_reset_in_the_middle_of_the_body(scene: Scene, count: int) -> None:
    """A large one is still being sent when that happens."""
    mine = scene.producer()
    scene.line.does(cut)
    events = [{"id": number, "text": "x" * 20_000} for number in range(count)]

    assert mine.send(events, partition=0) == stored(0, (0, count - 1), attempts=2)

    assert scene.log() == list(range(count))


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504])
def test_f02_somebody_in_between_answers_to_what_was_stored(scene: Scene, status: int) -> None:
    mine = scene.producer()

    def answered(visit: Visit) -> None:
        visit.forward()
        answering(status, b"<html>", Retry_After="0")(visit)

    scene.line.does(answered)

    assert mine.send(ids(1, 2), partition=0) == stored(0, (0, 1), duplicate=True, attempts=2)
    assert scene.log() == [1, 2]


@pytest.mark.parametrize(
    ("status", "times"), [(503, 1), (503, 4), (429, 2), (408, 1), (425, 1), (500, 1), (502, 1), (504, 1)]
)
def test_f06_told_to_come_again(scene: Scene, status: int, times: int) -> None:
    mine = scene.producer()
    scene.line.does(*[answering(status, Retry_After="0")] * times)

    assert mine.send(ids(1, 2), partition=0) == stored(0, (0, 1), attempts=times + 1)

    assert scene.log() == [1, 2]
    assert len(scene.numbers_sent()) == times + 1 and len(set(scene.numbers_sent())) == 1


def test_f06_it_waits_as_long_as_it_is_told_to(scene: Scene) -> None:
    mine = scene.producer()
    scene.line.does(answering(429, Retry_After="1"))

    assert mine.send(ids(1), partition=0).attempts == 2

    first, second = [each.at for each in scene.line.batches]
    assert second - first >= 1


def test_f11a_stuck_copy_delivered_after_the_client_moved_on_in_the_same_epoch(scene: Scene) -> None:
    mine = scene.producer()
    scene.line.does(stuck := Stuck())
    assert mine.send(ids(1, 2), partition=0) == stored(0, (0, 1), attempts=2)
    assert mine.send(ids(3), partition=0) == stored(2, (2, 2))

    status, said = stuck.deliver()

    assert (status, said["outcome"], said["offsets"]) == (200, "duplicate", {"first": 0, "last": 1})
    assert mine.send(ids(4), partition=0) == stored(3, (3, 3))
    assert scene.log() == [1, 2, 3, 4]


def test_f11a_stuck_copy_delivered_while_the_next_try_is_answered(scene: Scene) -> None:
    mine = scene.producer()
    scene.line.does(stuck := Stuck(), held := Held(before=True))
    sending = mine.begin(ids(1, 2), partition=0)
    held.wait()

    assert stuck.deliver()[1]["outcome"] == "appended"
    held.let_go()

    assert sending.result(300) == stored(0, (0, 1), duplicate=True, attempts=2)
    assert scene.log() == [1, 2]


def test_f12_nothing_overtakes_since_one_batch_at_a_time_is_under_way(scene: Scene) -> None:
    mine = scene.producer()
    scene.line.does(held := Held(before=True), lost, unanswered)
    first = mine.begin(ids(0), partition=0)
    held.wait()
    others = [mine.begin(ids(number), partition=0) for number in range(1, 5)]
    held.let_go()

    found = [first.result(300), *(each.result(300) for each in others)]

    assert sorted(each.first_sequence for each in found) == [0, 1, 2, 3, 4]
    assert scene.line.busiest == 1
    by_number = sorted(zip([each.first_sequence for each in found], range(5), strict=True))
    assert scene.log() == [number for _, number in by_number]


def test_f22_answer_to_the_first_claim_lost(scene: Scene) -> None:
    """The claim is made again with the same id: it is granted the same epoch."""
    scene.line.does(unanswered, swallowed, to=is_claim)
    mine = scene.producer(attempt_timeout=HASTY)

    assert mine.send(ids(1), partition=0) == stored(0, (0, 0))

    claims = [each.body for each in scene.line.asked if each.method == "PUT"]
    assert len(claims) == 3 and len(set(claims)) == 1
    assert scene.raw().shown()["owner_level"] == 0


def test_f22_answer_to_a_later_claim_lost(scene: Scene) -> None:
    """What the epoch before ended with is kept."""
    scene.producer().send(ids(1, 2), partition=0)
    scene.line.does(unanswered, to=is_claim)
    mine = scene.producer()

    assert mine.send(ids(3), partition=0) == stored(0, (2, 2), epoch=1)

    shown = scene.raw().shown()
    assert (shown["owner_level"], shown["previous"]) == (1, {"epoch": 0, "next_sequence": 2, "last_offset": 1})


def test_f22_a_group_that_nobody_named_is_had_in_the_end(scene: Scene) -> None:
    scene.line.does(unanswered, lost, to=is_claim)
    mine = scene.producer(group=None)

    assert mine.send(ids(1), partition=0) == stored(0, (0, 0))

    assert mine.group is not None
    assert scene.raw(mine.group).shown()["next_sequence"] == 1


def test_f22_who_waits_for_a_group_waits_no_longer_than_its_own_time(scene: Scene) -> None:
    scene.line.does(held := Held(before=True), to=is_claim)
    mine = scene.producer(group=None)
    first = mine.begin(ids(1), partition=0)
    held.wait()

    failure_of(lambda: mine.send(ids(2), partition=1, timeout=0.2), RetriesExhausted, partition=1, outcome="not_stored")

    held.let_go()
    assert first.result(300) == stored(0, (0, 0))


def test_f37_authentication_expires_between_attempts(scene: Scene) -> None:
    """A 401 is tried again once: by then the client's own authentication may have another token."""
    mine = scene.producer()
    mine.send(ids(1), partition=0)
    scene.line.does(answering(401))

    assert mine.send(ids(2), partition=0) == stored(1, (1, 1), attempts=2)

    assert len(set(scene.numbers_sent()[1:])) == 1
    assert scene.log() == [1, 2]


def test_f37_authentication_that_never_comes(scene: Scene) -> None:
    mine = scene.producer()
    scene.line.does(answering(401), answering(401))
    event = Event({"id": 1})

    failure_of(lambda: mine.send(event, partition=0), ServerError, status=401, partition=0, outcome="not_stored")

    assert mine.send(event, partition=0) == stored(0, (0, 0))
    assert scene.log() == [1]


def test_f37_authentication_expires_after_a_try_of_which_nothing_is_known(scene: Scene) -> None:
    mine = scene.producer()
    event = Event({"id": 1})
    scene.line.does(unanswered, answering(401), answering(401))

    failure_of(lambda: mine.send(event, partition=0), ServerError, status=401, partition=0, outcome="unknown")

    assert mine.send(event, partition=0) == stored(0, (0, 0), duplicate=True, attempts=0)
    assert scene.log() == [1]


def test_f43_somebody_in_between_sends_it_again_by_himself(scene: Scene) -> None:
    mine = scene.producer()
    scene.line.does(twice)

    assert mine.send(ids(1, 2), partition=0) == stored(0, (0, 1), duplicate=True)

    assert mine.send(ids(3), partition=0) == stored(2, (2, 2))
    assert scene.log() == [1, 2, 3]
