"""A batch that is sent again after a fault on its way is stored once."""

import pytest

from penstock.errors import RetriesExhausted
from tests.faults.either import Handle
from tests.faults.proxy import (
    Fate,
    Held,
    Stuck,
    answering,
    cut,
    ignored,
    is_claim,
    lost,
    stored_then,
    swallowed,
    twice,
    unanswered,
)
from tests.faults.scene import MANY_ATTEMPTS, Scene, failure_of, ids, stored

ATTEMPT_SECONDS = 2.0
"""Seconds without an answer after which an attempt ends: far longer than the hub takes for anything here."""
RETRIED = (408, 425, 500, 502, 503, 504)
FAULTS: dict[str, tuple[list[Fate], bool]] = {
    "request lost": ([lost], False),
    "request ignored": ([ignored], False),
    "hub busy four times": ([answering(503, Retry_After="0")] * 4, False),
    "too many requests twice": ([answering(429, Retry_After="0")] * 2, False),
    "token expired": ([answering(401)], False),
    "answer lost": ([unanswered], True),
    "answer swallowed": ([swallowed], True),
    **{f"{status} before the hub": ([answering(status, Retry_After="0")], False) for status in RETRIED},
    **{f"{status} after the hub": ([stored_then(answering(status, Retry_After="0"))], True) for status in RETRIED},
}
"""The fates of the first attempts; and whether the last one finds the batch stored."""


@pytest.mark.parametrize(("fates", "is_stored"), FAULTS.values(), ids=FAULTS)
def test_batch_is_stored_once_after_faults_on_its_way(scene: Scene, fates: list[Fate], is_stored: bool) -> None:
    mine = scene.producer(attempt_timeout=ATTEMPT_SECONDS, retry=MANY_ATTEMPTS)
    batch = mine.batch(0, *ids(1, 2))
    attempts = len(fates) + 1
    scene.line.does(*fates)

    assert mine.send(batch) == stored(0, (0, 1), duplicate=is_stored, attempts=attempts)

    assert (batch.starting_published_sequence, list(batch.published_sequences)) == (0, [0, 1])
    sent = scene.numbers_sent()
    assert (len(sent), len(set(sent))) == (attempts, 1), "each attempt sends the same bytes with the same numbers"
    assert mine.send(ids(3), partition=0) == stored(2, (2, 2))
    assert scene.log() == [1, 2, 3]


@pytest.mark.parametrize("count", [1, 400], ids=["small", "large"])
def test_batch_is_stored_once_after_connection_reset_within_its_body(scene: Scene, mine: Handle, count: int) -> None:
    """A large body is still being sent when the connection breaks."""
    scene.line.does(cut)

    result = mine.send([{"id": number, "text": "x" * 20_000} for number in range(count)], partition=0)

    assert result == stored(0, (0, count - 1), attempts=2)
    assert scene.log() == list(range(count))


def test_batch_is_stored_once_if_a_proxy_repeats_it(scene: Scene, mine: Handle) -> None:
    scene.line.does(twice)

    assert mine.send(ids(1, 2), partition=0) == stored(0, (0, 1), duplicate=True)

    assert mine.send(ids(3), partition=0) == stored(2, (2, 2))
    assert scene.log() == [1, 2, 3]


def test_retry_is_a_duplicate_if_a_delayed_copy_overtakes_it(scene: Scene, mine: Handle) -> None:
    scene.line.does(stuck := Stuck(), held := Held(before=True))
    sending = mine.begin(ids(1, 2), partition=0)
    held.wait()

    assert stuck.deliver()[1]["outcome"] == "appended"
    held.let_go()

    assert sending.result(300) == stored(0, (0, 1), duplicate=True, attempts=2)
    assert scene.log() == [1, 2]


def test_one_batch_of_a_partition_is_in_flight_at_a_time(scene: Scene) -> None:
    mine = scene.producer(retry=MANY_ATTEMPTS)
    scene.line.does(held := Held(before=True), lost, unanswered)
    sending = [mine.begin(ids(0), partition=0)]
    held.wait()
    sending += [mine.begin(ids(number), partition=0) for number in range(1, 5)]
    held.let_go()

    firsts = [each.result(300).first_sequence for each in sending]

    assert scene.line.busiest == 1
    assert sorted(firsts) == [0, 1, 2, 3, 4]
    assert scene.log() == sorted(range(5), key=firsts.__getitem__), "the log has the order of the numbers"


# Claims


@pytest.mark.parametrize(
    ("group", "fates"), [("mine", [unanswered, swallowed]), (None, [unanswered, lost])], ids=["named", "not named"]
)
def test_claim_is_repeated_until_it_is_answered(scene: Scene, group: str | None, fates: list[Fate]) -> None:
    """A repeated claim has the same id, so that a named group is granted the same epoch."""
    scene.line.does(*fates, to=is_claim)
    mine = scene.producer(group=group, attempt_timeout=ATTEMPT_SECONDS, retry=MANY_ATTEMPTS)

    assert mine.send(ids(1), partition=0) == stored(0, (0, 0))

    claims = [each.body for each in scene.line.asked if each.method == ("PUT" if group else "POST")]
    assert group is None or (len(claims), len(set(claims))) == (3, 1)
    assert mine.group is not None
    shown = scene.raw(mine.group).shown()
    assert (shown["epoch"], shown["next_sequence"]) == (0, 1)


def test_call_that_waits_for_a_group_ends_with_its_own_timeout(scene: Scene) -> None:
    scene.line.does(held := Held(before=True), to=is_claim)
    mine = scene.producer(group=None)
    first = mine.begin(ids(1), partition=0)
    held.wait()

    failure_of(lambda: mine.send(ids(2), partition=1, timeout=0.2), RetriesExhausted, partition=1, outcome="not_stored")

    held.let_go()
    assert first.result(300) == stored(0, (0, 0))
