"""Epochs: claims, fencing, and how a fenced producer learns about its last batch."""

import uuid
from functools import partial
from typing import Any

import httpx2
import pytest

from tests.exhaustive import examples
from tests.producing import Producer, but_times, result, together, told
from tests.served import create, problem_of

MAX = 2**53 - 1


def previous(epoch: int, next_sequence: int, last_offset: int | None) -> dict[str, Any]:
    return {"epoch": epoch, "next_sequence": next_sequence, "last_offset": last_offset}


def at(shown: dict[str, Any]) -> tuple[int, int]:
    """Return the epoch of a producer, and its next number."""
    return shown["epoch"], shown["next_sequence"]


# Fencing


def test_claim_fences_the_producer_of_the_earlier_epoch(mine: Producer) -> None:
    mine.appends(0, [1])
    taken = mine.claims()
    assert (at(taken), taken["previous"]) == ((1, 0), previous(0, 1, 0))
    answer = mine.send(1, [2])
    problem = mine.refused(answer, 412, "producer-fenced", received=1, current_epoch=1, next_sequence=0)
    assert problem["detail"] == "producer group 'mine' was fenced in partition 0: its epoch is now 1"
    assert mine.log() == [1]


def test_fenced_producer_learns_how_much_of_its_batch_is_stored(mine: Producer) -> None:
    """All of it, a part, or other events under its numbers."""
    mine.appends(0, [1])
    mine.appends(1, [2, 3])
    mine.claims()
    mine.appends(0, [4], epoch=1)
    lies = [{"first": 1, "last": 2}]
    for ids, members in (([2, 3], {"committed": True, "ranges": lies}), ([2, 3, 5], {"ranges": lies}), ([2, 9], {})):
        mine.refused(mine.send(1, ids), 412, "producer-fenced", received=1, current_epoch=1, next_sequence=1, **members)
    assert mine.log() == [1, 2, 3, 4]


def test_producer_fenced_long_ago_learns_of_its_own_epoch(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(0, [2], epoch=3)
    mine.claims(epoch=5)
    assert at(mine.claims()) == (6, 0)
    fenced = {"current_epoch": 6, "next_sequence": 0, "received": 0}
    stored = {"committed": True}
    for epoch, number, members in (
        (0, 1, stored | {"ranges": [{"first": 0, "last": 0}]}),
        (3, 2, stored | {"ranges": [{"first": 1, "last": 1}]}),
        (3, 9, {}),
        (5, 9, {}),
        (4, 9, {"committed": None}),
    ):
        mine.refused(mine.send(0, [number], epoch=epoch), 412, "producer-fenced", **fenced, **members)


def test_batch_with_a_higher_epoch_takes_over_and_epochs_never_go_back(mine: Producer) -> None:
    """No claim is needed; epochs may be left out; a gap takes nothing over."""
    mine.appends(0, [1], epoch=1)
    gap = mine.send(1, [3], epoch=8)
    mine.refused(gap, 409, "sequence-gap", received=1, expected=0, current_epoch=1, next_sequence=1)
    assert mine.stores(0, [2], epoch=7) == result("appended", (0, 0, 1), (1, 1), epoch=7)
    assert mine.shown()["previous"] == previous(1, 1, 0)
    for sequence, epoch, committed in ((0, 3, False), (1, 1, False), (0, 0, None)):
        mine.refused(
            mine.send(sequence, [3], epoch=epoch), 412, "producer-fenced", received=sequence, current_epoch=7,
            next_sequence=1, committed=committed,
        )  # fmt: skip
    assert mine.appends(1, [3], epoch=7) == 2
    assert mine.stores(0, [4], epoch=problem_of(mine.send(2, [4]), 412, "producer-fenced")["current_epoch"] + 1)
    assert mine.log() == [1, 2, 3, 4]


def test_producers_are_independent_of_other_groups_partitions_and_event_types(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, 2))
    others = [mine.other("theirs"), mine.other(partition=1), Producer(create(either_http, 2))]
    for producer in (mine, *others):
        assert producer.stores(0, [1])["outcome"] == "appended"
    mine.claims()
    for producer in others:
        assert producer.stores(1, [2])["outcome"] == "appended"
        assert producer.shown()["epoch"] == 0
    assert mine.log() == [1, 1, 2]


def test_last_epoch_can_be_used_and_has_no_successor(mine: Producer) -> None:
    assert at(mine.claims(epoch=MAX)) == (MAX, 0)
    problem = mine.told(mine.claim(epoch="next"), 409, "epoch-exhausted", current_epoch=MAX, next_sequence=0)
    assert problem["hint"] == "Continue with another producer group."
    assert mine.stores(0, [1], epoch=MAX) == result("appended", (0, 0, 1), (0, 0), epoch=MAX)
    assert mine.stores(0, [1], epoch=MAX)["outcome"] == "duplicate"


# Several producers at once


def test_two_producers_with_one_epoch_lose_nothing_in_silence(mine4: Producer) -> None:
    """The first with a number has it, and the other one is refused."""
    elsewhere = mine4.other(partition=1)
    mine4.appends(0, [1, 2])
    elsewhere.appends(0, [91, 92])
    answer = mine4.send(0, [91, 92])
    mine4.refused(answer, 422, "payload-mismatch", received=0, differs_at=0, next_sequence=2)
    mine4.refused(mine4.send(4, [93]), 409, "sequence-gap", received=4, expected=2, next_sequence=2)
    assert (mine4.log(), elsewhere.log()) == ([1, 2], [91, 92])


@pytest.mark.parametrize("epoch", [0, 6], ids=["of one epoch", "that take over at once"])
def test_concurrent_producers_with_one_number_store_one_batch(mine: Producer, epoch: int) -> None:
    mine.appends(0, [0])
    first = 1 if epoch == 0 else 0
    for number in range(first, first + examples(5, 20)):
        before = mine.log()
        answers = together([partial(mine.send, number, [10 * number + who], epoch=epoch) for who in range(4)])
        assert sorted(each.status_code for each in answers) == [200, 422, 422, 422]
        [stored] = [who for who, each in enumerate(answers) if each.status_code == 200]
        assert mine.log() == [*before, 10 * number + stored]


def test_concurrent_epochs_are_stored_in_rising_order(mine: Producer) -> None:
    epochs = [3, 1, 4, 2]
    answers = together([partial(mine.send, 0, [epoch], epoch=epoch) for epoch in epochs])
    stored = [epoch for epoch, each in zip(epochs, answers, strict=True) if each.status_code == 200]
    assert {each.status_code for each in answers} <= {200, 412}
    assert mine.log() == sorted(stored)
    assert mine.shown()["epoch"] == 4


def test_concurrent_groups_each_store_all_of_their_events_in_order(mine: Producer) -> None:
    def publish(producer: Producer) -> list[int]:
        return [producer.appends(number, [number]) for number in range(20)]

    found = together([partial(publish, mine.other(f"g{number}")) for number in range(4)])
    assert sorted(offset for each in found for offset in each) == list(range(80))
    assert all(each == sorted(each) for each in found)
    assert sorted(mine.log()) == sorted(list(range(20)) * 4)


def test_concurrent_claims_get_an_epoch_each(mine: Producer) -> None:
    granted = together([partial(mine.claims, claim_id=str(uuid.uuid4())) for _ in range(2)])
    assert sorted(map(at, granted)) == [(0, 0), (1, 0)]
    earlier = mine.send(0, [1])
    mine.appends(0, [2], epoch=1)
    mine.refused(earlier, 412, "producer-fenced", received=0, current_epoch=1, next_sequence=0)
    assert mine.log() == [2]


def test_concurrent_claims_if_epoch_are_granted_once(mine: Producer) -> None:
    mine.appends(0, [1])
    for epoch in range(examples(3, 10)):
        ids = [str(uuid.uuid4()) for _ in range(4)]
        answers = together([partial(mine.claim, claim_id=each, if_epoch=epoch) for each in ids])
        assert sorted(each.status_code for each in answers) == [200, 412, 412, 412]
        wanted = f"a claim that is to hold only while the epoch is {epoch}"
        for each in answers:
            if each.status_code == 412:
                mine.told(each, 412, "claim-refused", current_epoch=epoch + 1, next_sequence=0, wanted=wanted)
        assert mine.shown()["previous"] == previous(epoch, *((1, 0) if epoch == 0 else (0, None)))


# Claims


def test_repeated_claim_id_returns_the_same_epoch(mine: Producer) -> None:
    """The answer to the first one may have been lost."""
    mine.appends(0, [1, 2])
    first = mine.claims(claim_id="a")
    assert (at(first), first["previous"]) == ((1, 0), previous(0, 2, 1))
    again = [mine.claims(claim_id="a"), mine.claims(claim_id="a", if_epoch=0), mine.claims(claim_id="a", epoch=1)]
    assert list(map(but_times, again)) == [but_times(first)] * 3
    mine.appends(0, [3], epoch=1)
    assert at(mine.claims(claim_id="a")) == (1, 1), "it has gone on since"
    other = mine.claim(claim_id="a", epoch=7)
    assert "epoch 7 by the claim that epoch 1 was had by cannot be claimed" in other.json()["detail"]
    assert at(mine.claims(claim_id="b")) == (2, 0)
    assert at(mine.claims(claim_id="a")) == (3, 0), "that claim was of another epoch"
    assert [at(mine.claims()) for _ in range(2)] == [(4, 0), (5, 0)], "without an id, each is another one"


def test_claim_for_an_unknown_producer_fails_if_an_epoch_is_expected(mine: Producer) -> None:
    mine.told(
        mine.claim(if_epoch=0), 412, "claim-refused", current_epoch=None, next_sequence=None,
        wanted="a claim that is to hold only while the epoch is 0",
    )  # fmt: skip
    assert mine.http.get(mine.path).status_code == 404


def test_restarted_producer_claims_the_next_epoch_or_resumes_its_own(mine: Producer) -> None:
    """Without its state it claims; with it, it says the epoch and the number with which it goes on."""
    mine.appends(0, [1, 2])
    before = mine.shown()
    assert but_times(mine.claims(epoch=0, starting_sequence=2)) == but_times(before) | {"window": None}
    assert mine.appends(2, [3]) == 2
    taken = mine.claims(claim_id="restarted")
    assert (at(taken), taken["last_published_sequence"], taken["last_offset"]) == ((1, 0), None, None)
    assert taken["previous"] == previous(0, 3, 2)
    assert mine.appends(0, [4], epoch=1) == 3
    mine.refused(mine.send(3, [5]), 412, "producer-fenced", received=3, current_epoch=1, next_sequence=1)
    assert mine.log() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "body", [{}, *({"starting_sequence": number} for number in (0, 9, 11, MAX)), {"epoch": 6}], ids=str
)
def test_claim_of_an_earlier_epoch_or_with_another_number_is_refused(mine: Producer, body: dict[str, int]) -> None:
    mine.appends(0, range(10), epoch=7)
    body = {"epoch": 7} | body
    wanted = f"epoch {body['epoch']} from number {body.get('starting_sequence', 0)}"
    answer = mine.claim(**body)
    problem = mine.told(answer, 412, "claim-refused", current_epoch=7, next_sequence=10, wanted=wanted)
    assert problem["detail"] == f"producer group 'mine' has epoch 7 in partition 0: {wanted} cannot be claimed"
    assert mine.appends(10, [10], epoch=7) == 10


def test_claim_may_choose_its_first_number(mine: Producer) -> None:
    granted = mine.claims(epoch=4, starting_sequence=100)
    assert (at(granted), granted["previous"]) == ((4, 100), None)
    for sequence in (0, 99, 101):
        answer = mine.send(sequence, [1], epoch=4)
        mine.refused(answer, 409, "sequence-gap", received=sequence, expected=100, next_sequence=100, current_epoch=4)
    assert mine.stores(100, [1], epoch=4) == result("appended", (100, 100, 101), (0, 0), epoch=4)
    assert at(mine.claims(starting_sequence=7)) == (5, 7)


def test_claim_is_of_the_next_epoch_unless_it_names_one(mine: Producer) -> None:
    for epoch, body in enumerate((b"", b" \n", b"{}", b'{"epoch":"next","starting_sequence":0}')):
        answer = mine.http.put(mine.path, content=body)
        assert (answer.status_code, answer.json()["epoch"], answer.json()["next_sequence"]) == (200, epoch, 0)


BAD_CLAIMS: dict[str, tuple[bytes, str, Any]] = {
    "no JSON": (b"{", "body", None),
    "an array": (b"[]", "body", None),
    "an unknown member": (b'{"level":1}', "body", None),
    "another word than next": (b'{"epoch":"last"}', "body", None),
    "a fraction": (b'{"epoch":1.5}', "body", None),
    "an epoch below zero": (b'{"epoch":-1}', "epoch", -1),
    "a number too high": (b'{"starting_sequence":9007199254740992}', "starting_sequence", 2**53),
    "an epoch too high": (b'{"if_epoch":9007199254740992}', "if_epoch", 2**53),
    "an id that is too long": (b'{"claim_id":"%b"}' % (b"x" * 129), "claim_id", "x" * 80),
    "an id with spaces": (b'{"claim_id":"a b"}', "claim_id", "a b"),
    "pinned by a word": (b'{"pinned":"yes"}', "body", None),
    "a member twice": (b'{"epoch":1,"epoch":2}', "body", None),
}


@pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_malformed_claim_is_refused_by_its_parameter(mine: Producer, method: str) -> None:
    path = mine.path if method == "PUT" else mine.all_path
    for name, (body, parameter, value) in BAD_CLAIMS.items():
        answer = mine.http.request(method, path, content=body)
        members = {each: answer.json()[each] for each in ("parameter", "value", "allowed") if each in answer.json()}
        problem = told(answer, 400, "bad-parameter", **members)
        assert (problem["parameter"], problem.get("value")) == (parameter, value), name
    assert mine.http.get(mine.all_path).json()["items"] == []
