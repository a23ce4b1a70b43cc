"""Who takes over from whom: claims, and what those who were shut out are told."""

import uuid
from functools import partial
from typing import Any

import httpx2
import pytest

from tests.producing import Producer, but_times, result, together, told

MAX = 2**53 - 1


def previous(epoch: int, next_sequence: int, last_offset: int | None) -> dict[str, Any]:
    return {"epoch": epoch, "next_sequence": next_sequence, "last_offset": last_offset}


def at(shown: dict[str, Any]) -> tuple[int, int]:
    """Where a producer stands."""
    return shown["owner_level"], shown["next_sequence"]


def test_f18_theft_from_a_producer_that_is_idle(mine: Producer) -> None:
    mine.appends(0, [1])
    taken = mine.claims()
    assert at(taken) == (1, 0)
    assert taken["previous"] == previous(0, 1, 0)

    answer = mine.send(1, [2])

    problem = mine.refused(answer, 412, "producer-fenced", received=1, current_epoch=1, next_sequence=0)
    assert problem["detail"] == "'mine' publishes to partition 0 with epoch 1 by now"
    assert mine.log() == [1]


def test_f18_theft_from_a_producer_whose_first_try_was_stored(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(1, [2, 3])
    mine.claims()
    mine.appends(0, [4], epoch=1)

    answer = mine.send(1, [2, 3])

    mine.refused(
        answer, 412, "producer-fenced", received=1, current_epoch=1, next_sequence=1, committed=True,
        ranges=[{"first": 1, "last": 2}],
    )  # fmt: skip
    assert mine.log() == [1, 2, 3, 4]


def test_f18_theft_from_a_producer_whose_first_try_was_stored_in_part(mine: Producer) -> None:
    """It sends a batch that it had sent in smaller pieces, the last of which was lost."""
    mine.appends(0, [1, 2])
    mine.claims()
    half = mine.send(1, [2, 3])
    mine.refused(
        half, 412, "producer-fenced", received=1, current_epoch=1, next_sequence=0, ranges=[{"first": 1, "last": 1}]
    )


def test_f18_other_events_than_those_that_are_stored_are_not(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    mine.claims()
    mine.refused(mine.send(0, [1, 9]), 412, "producer-fenced", received=0, current_epoch=1, next_sequence=0)


def test_f18_theft_long_ago(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(0, [2], epoch=3)
    mine.claims(owner_level=5)
    assert at(mine.claims()) == (6, 0)

    fenced = {"current_epoch": 6, "next_sequence": 0, "received": 0}
    first, third = [{"first": 0, "last": 0}], [{"first": 1, "last": 1}]
    mine.refused(mine.send(0, [1]), 412, "producer-fenced", **fenced, committed=True, ranges=first)
    mine.refused(mine.send(0, [2], epoch=3), 412, "producer-fenced", **fenced, committed=True, ranges=third)
    mine.refused(mine.send(0, [9], epoch=3), 412, "producer-fenced", **fenced)
    mine.refused(mine.send(0, [9], epoch=5), 412, "producer-fenced", **fenced)
    mine.refused(mine.send(0, [9], epoch=4), 412, "producer-fenced", **fenced, committed=None)


def test_f18_whoever_publishes_with_a_higher_epoch_has_taken_over(mine: Producer) -> None:
    """No claim is needed for it."""
    mine.appends(0, [1])
    assert mine.stores(0, [2], epoch=1) == result("appended", (0, 0, 1), (1, 1), epoch=1)
    mine.refused(mine.send(1, [3]), 412, "producer-fenced", received=1, current_epoch=1, next_sequence=1)
    assert mine.log() == [1, 2]


def test_f19_two_producers_that_both_claim_at_their_start(mine: Producer) -> None:
    granted = together([partial(mine.claims, claim_id=str(uuid.uuid4())) for _ in range(2)])
    assert sorted(map(at, granted)) == [(0, 0), (1, 0)]

    earlier = mine.send(0, [1])
    mine.appends(0, [2], epoch=1)

    mine.refused(earlier, 412, "producer-fenced", received=0, current_epoch=1, next_sequence=0)
    assert mine.log() == [2]


def test_f20_two_producers_with_one_epoch(mine4: Producer) -> None:
    """Whoever comes first with a number has it; the other one is told so, and nothing is lost in silence."""
    elsewhere = mine4.other(partition=1)
    mine4.appends(0, [1, 2])

    theirs = mine4.send(0, [91, 92])
    theirs_next = mine4.send(4, [93])
    elsewhere.appends(0, [91, 92])

    mine4.refused(theirs, 422, "payload-mismatch", received=0, differs_at=0, next_sequence=2)
    mine4.refused(theirs_next, 409, "sequence-gap", received=4, expected=2, next_sequence=2)
    assert (mine4.log(), elsewhere.log()) == ([1, 2], [91, 92])


def test_f20_two_producers_with_one_epoch_at_the_same_time(mine: Producer) -> None:
    for number in range(20):
        answers = together([partial(mine.send, number, [10 * number + who]) for who in range(4)])
        assert sorted(each.status_code for each in answers) == [200, 422, 422, 422]
        [stored] = [who for who, each in enumerate(answers) if each.status_code == 200]
        assert mine.log()[number:] == [10 * number + stored]


def test_f22_a_claim_whose_answer_was_lost(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    first = mine.claims(claim_id="a")
    assert (at(first), first["previous"]) == ((1, 0), previous(0, 2, 1))

    again = [mine.claims(claim_id="a"), mine.claims(claim_id="a", if_epoch=0), mine.claims(claim_id="a", owner_level=1)]

    assert list(map(but_times, again)) == [but_times(first)] * 3
    mine.appends(0, [3], epoch=1)
    assert at(mine.claims(claim_id="a")) == (1, 1), "it has gone on since"
    other = mine.claim(claim_id="a", owner_level=7)
    assert "epoch 7 by the claim that epoch 1 was had by cannot be had" in other.json()["detail"]
    assert at(mine.claims(claim_id="b")) == (2, 0)
    assert at(mine.claims(claim_id="a")) == (3, 0), "that claim was of another epoch"


def test_f22_a_claim_without_an_id_is_another_one_each_time(mine: Producer) -> None:
    assert [at(mine.claims()) for _ in range(3)] == [(0, 0), (1, 0), (2, 0)]


def test_f23_a_race_of_claims(mine: Producer) -> None:
    mine.appends(0, [1])
    for epoch in range(10):
        ids = [str(uuid.uuid4()) for _ in range(4)]
        answers = together([partial(mine.claim, claim_id=each, if_epoch=epoch) for each in ids])
        assert sorted(each.status_code for each in answers) == [200, 412, 412, 412]
        number = int(epoch == 0)
        wanted = f"a claim that is to hold only while the epoch is {epoch}"
        for each in answers:
            if each.status_code == 412:
                mine.told(each, 412, "claim-refused", current_epoch=epoch + 1, next_sequence=0, wanted=wanted)
        assert mine.shown()["previous"] == previous(epoch, number, 0 if number else None)


def test_f23_a_claim_that_is_to_be_the_first(mine: Producer) -> None:
    mine.told(
        mine.claim(if_epoch=0), 412, "claim-refused", current_epoch=None, next_sequence=None,
        wanted="a claim that is to hold only while the epoch is 0",
    )  # fmt: skip
    assert mine.http.get(mine.path).status_code == 404


def test_f24_a_restart_with_lost_state(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    mine.appends(2, [3])

    taken = mine.claims(claim_id="restarted")

    assert (at(taken), taken["last_published_sequence"], taken["last_offset"]) == ((1, 0), None, None)
    assert taken["previous"] == previous(0, 3, 2)
    assert mine.appends(0, [4], epoch=1) == 3
    mine.refused(mine.send(3, [5]), 412, "producer-fenced", received=3, current_epoch=1, next_sequence=1)
    assert mine.log() == [1, 2, 3, 4]


def test_f25_a_restart_that_goes_on(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    before = mine.shown()

    resumed = mine.claims(owner_level=0, starting_sequence=2)

    assert but_times(resumed) == but_times(before) | {"window": None}, "nothing has changed by it"
    assert mine.appends(2, [3]) == 2
    assert mine.log() == [1, 2, 3]


@pytest.mark.parametrize("starting", [None, 0, 5, 9, 11, MAX])
def test_f26_a_claim_of_the_current_epoch_with_another_number(mine: Producer, starting: int | None) -> None:
    mine.appends(0, range(10))
    body = {"owner_level": 0} | ({} if starting is None else {"starting_sequence": starting})

    problem = mine.told(
        mine.claim(**body), 412, "claim-refused", current_epoch=0, next_sequence=10,
        wanted=f"epoch 0 from number {starting or 0}",
    )  # fmt: skip

    assert problem["detail"] == (
        f"'mine' is at epoch 0 in partition 0: epoch 0 from number {starting or 0} cannot be had"
    )
    assert at(mine.shown()) == (0, 10)
    assert mine.appends(10, [10]) == 10


def test_a_claim_of_an_earlier_epoch_is_refused(mine: Producer) -> None:
    mine.claims(owner_level=7)
    for level in (0, 6):
        wanted = f"epoch {level} from number 0"
        mine.told(mine.claim(owner_level=level), 412, "claim-refused", current_epoch=7, next_sequence=0, wanted=wanted)


def test_a_claim_may_say_with_which_number_it_begins(mine: Producer) -> None:
    granted = mine.claims(owner_level=4, starting_sequence=100)
    assert (at(granted), granted["previous"]) == ((4, 100), None)

    for sequence in (0, 99, 101):
        answer = mine.send(sequence, [1], epoch=4)
        mine.refused(answer, 409, "sequence-gap", received=sequence, expected=100, next_sequence=100, current_epoch=4)
    assert mine.stores(100, [1], epoch=4) == result("appended", (100, 100, 101), (0, 0), epoch=4)
    assert at(mine.claims(starting_sequence=7)) == (5, 7)


def test_f33_the_last_epoch(mine: Producer) -> None:
    assert at(mine.claims(owner_level=MAX)) == (MAX, 0)

    answer = mine.claim(owner_level="next")

    problem = mine.told(answer, 409, "epoch-exhausted", current_epoch=MAX, next_sequence=0)
    assert problem["hint"] == "Go on with another producer group."
    assert mine.stores(0, [1], epoch=MAX) == result("appended", (0, 0, 1), (0, 0), epoch=MAX)
    assert mine.stores(0, [1], epoch=MAX)["outcome"] == "duplicate"


def test_f34_epochs_may_be_left_out_and_never_go_back(mine: Producer) -> None:
    mine.appends(0, [1], epoch=1)
    mine.appends(0, [2], epoch=7)
    assert mine.shown()["previous"] == previous(1, 1, 0)

    back = mine.send(0, [3], epoch=3)
    ahead = mine.send(1, [3], epoch=8)

    mine.refused(back, 412, "producer-fenced", received=0, current_epoch=7, next_sequence=1)
    mine.refused(ahead, 409, "sequence-gap", received=1, expected=0, current_epoch=7, next_sequence=1)
    assert mine.appends(1, [3], epoch=7) == 2, "a gap takes nothing over"
    assert mine.log() == [1, 2, 3]


BAD_CLAIMS: dict[str, tuple[bytes, str, Any]] = {
    "no JSON": (b"{", "body", None),
    "an array": (b"[]", "body", None),
    "an unknown member": (b'{"level":1}', "body", None),
    "another word than next": (b'{"owner_level":"last"}', "body", None),
    "a number as text": (b'{"owner_level":"1"}', "body", None),
    "a fraction": (b'{"owner_level":1.5}', "body", None),
    "an exponent": (b'{"starting_sequence":1e3}', "body", None),
    "true": (b'{"if_epoch":true}', "body", None),
    "a level below zero": (b'{"owner_level":-1}', "owner_level", -1),
    "a level too high": (b'{"owner_level":9007199254740992}', "owner_level", 2**53),
    "a number below zero": (b'{"starting_sequence":-1}', "starting_sequence", -1),
    "a number too high": (b'{"starting_sequence":9007199254740992}', "starting_sequence", 2**53),
    "an epoch too high": (b'{"if_epoch":9007199254740992}', "if_epoch", 2**53),
    "an id without letters": (b'{"claim_id":""}', "claim_id", ""),
    "an id that is too long": (b'{"claim_id":"%b"}' % (b"x" * 129), "claim_id", "x" * 80),
    "an id with spaces": (b'{"claim_id":"a b"}', "claim_id", "a b"),
    "pinned by a word": (b'{"pinned":"yes"}', "body", None),
    "a member twice": (b'{"owner_level":1,"owner_level":2}', "body", None),
}


@pytest.mark.parametrize(("body", "parameter", "value"), BAD_CLAIMS.values(), ids=BAD_CLAIMS)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_claim_that_is_none_names_what_is_wrong(
    mine: Producer, method: str, body: bytes, parameter: str, value: Any
) -> None:
    path = mine.path if method == "PUT" else mine.all_path
    problem = told_parameter(mine.http.request(method, path, content=body))
    assert (problem["parameter"], problem.get("value")) == (parameter, value)
    assert mine.http.get(mine.all_path).json()["items"] == []


def told_parameter(answer: httpx2.Response) -> dict[str, Any]:
    members = {name: value for name, value in answer.json().items() if name in ("parameter", "value", "allowed")}
    return told(answer, 400, "bad-parameter", **members)


@pytest.mark.parametrize("body", [b"", b" \n", b"{}", b'{"owner_level":"next","starting_sequence":0}'])
def test_a_claim_says_next_unless_it_says_otherwise(mine: Producer, body: bytes) -> None:
    mine.appends(0, [1])
    answer = mine.http.put(mine.path, content=body)
    assert (answer.status_code, answer.json()["owner_level"], answer.json()["next_sequence"]) == (200, 1, 0)
