"""Idempotent producers: claims of epochs, and decisions on numbered batches."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.producers import (
    DIGEST_BYTES,
    EPOCH_MAX,
    MODULUS,
    Append,
    Claim,
    Decision,
    Ending,
    Exhausted,
    Expired,
    Fenced,
    Forgotten,
    Gap,
    Mismatch,
    Range,
    Refused,
    Repeat,
    Stamp,
    State,
    Stored,
    compare,
    decide,
    digests_of,
    given,
    grant,
)
from tests.exhaustive import examples

# Claims.

AT_7 = State(epoch=3, begin=2, next=7, last_offset=104, previous=Ending(1, 9, 99))
NEXT = State(epoch=4, begin=0, next=0, previous=Ending(3, 7, 104))
UNUSED = State(epoch=3, begin=5, next=5)
GONE = State(epoch=3, begin=0, next=0, is_expired=True)
LAST = State(epoch=EPOCH_MAX, begin=0, next=1)
WRAPPED = State(epoch=3, begin=0, next=18)

Vector = tuple[State | None, str | None, Claim, State | Refused | Exhausted]

GRANTS: dict[str, Vector] = {
    "the first of all": (None, None, Claim(), State(0, 0, 0)),
    "the first, with an id": (None, None, Claim(claim_id="a"), State(0, 0, 0)),
    "the first, from a number": (None, None, Claim(starting=5), State(0, 5, 5)),
    "the first, at a epoch": (None, None, Claim(epoch=9), State(9, 0, 0)),
    "the first, at epoch 0": (None, None, Claim(epoch=0), State(0, 0, 0)),
    "the first, at a epoch from a number": (None, None, Claim(epoch=9, starting=5), State(9, 5, 5)),
    "the first, at the last epoch": (None, None, Claim(epoch=EPOCH_MAX), State(EPOCH_MAX, 0, 0)),
    "the first, if there is an epoch": (None, None, Claim(if_epoch=0), Refused(
        "a claim that is to hold only while the epoch is 0")),
    "the next": (AT_7, None, Claim(), NEXT),
    "the next, from a number": (AT_7, None, Claim(starting=5), NEXT._replace(begin=5, next=5)),
    "the next, while the epoch is this": (AT_7, None, Claim(if_epoch=3), NEXT),
    "the next, while the epoch is one before": (AT_7, None, Claim(if_epoch=2), Refused(
        "a claim that is to hold only while the epoch is 2")),
    "the next, while the epoch is one to come": (AT_7, None, Claim(if_epoch=4), Refused(
        "a claim that is to hold only while the epoch is 4")),
    "the next after one that nobody has used": (UNUSED, None, Claim(), State(4, 0, 0, previous=Ending(3, 5, None))),
    "the epoch that is the next": (AT_7, None, Claim(epoch=4), NEXT),
    "a epoch much later": (AT_7, None, Claim(epoch=9), NEXT._replace(epoch=9)),
    "a epoch much later, from a number": (AT_7, None, Claim(epoch=9, starting=1), State(9, 1, 1, None, AT_7.ending)),
    "a higher epoch, while the epoch is another": (AT_7, None, Claim(epoch=9, if_epoch=4), Refused(
        "a claim that is to hold only while the epoch is 4")),
    "the current epoch": (AT_7, None, Claim(epoch=3), Refused("epoch 3 from number 0")),
    "the current epoch, to go on": (AT_7, None, Claim(epoch=3, starting=7), AT_7),
    "the current epoch, to go on while it is": (AT_7, None, Claim(epoch=3, starting=7, if_epoch=3), AT_7),
    "the current epoch, from behind": (AT_7, None, Claim(epoch=3, starting=2), Refused("epoch 3 from number 2")),
    "the current epoch, from ahead": (AT_7, None, Claim(epoch=3, starting=8), Refused("epoch 3 from number 8")),
    "the current epoch, to begin with": (UNUSED, None, Claim(epoch=3, starting=5), UNUSED),
    "a lower epoch": (AT_7, None, Claim(epoch=2), Refused("epoch 2 from number 0")),
    "a lower epoch, to go on": (AT_7, None, Claim(epoch=2, starting=7), Refused("epoch 2 from number 7")),
    "the current epoch, though it has no events": (State(3, 0, 0), None, Claim(epoch=3), Refused(
        "epoch 3 from number 0")),
    "the same again": (AT_7, "a", Claim(claim_id="a"), AT_7),
    "the same again, at its epoch": (AT_7, "a", Claim(claim_id="a", epoch=3, starting=2), AT_7),
    "the same again, at another epoch": (AT_7, "a", Claim(claim_id="a", epoch=9),
        Refused("epoch 9 by the claim that epoch 3 was had by")),
    "the same again, for the epoch before": (AT_7, "a", Claim(claim_id="a", if_epoch=1), AT_7),
    "another's": (AT_7, "a", Claim(claim_id="b"), NEXT),
    "without an id after one without": (AT_7, None, Claim(), NEXT),
    "without an id after one with": (AT_7, "a", Claim(), NEXT),
    "another's, for the epoch before": (AT_7, "a", Claim(claim_id="b", if_epoch=1), Refused(
        "a claim that is to hold only while the epoch is 1")),
    "the next after one that is forgotten": (GONE, None, Claim(), State(4, 0, 0)),
    "the same again, after it is forgotten": (GONE, "a", Claim(claim_id="a"), State(4, 0, 0)),
    "one that is forgotten": (GONE, None, Claim(epoch=3, starting=0), Refused("epoch 3 from number 0")),
    "above one that is forgotten": (GONE, None, Claim(epoch=4, starting=5), State(4, 5, 5)),
    "while one that is forgotten is the last": (GONE, None, Claim(if_epoch=3), State(4, 0, 0)),
    "after the last": (LAST, None, Claim(), Exhausted()),
    "after the last, while it is": (LAST, None, Claim(if_epoch=EPOCH_MAX), Exhausted()),
    "the last, to go on": (LAST, None, Claim(epoch=EPOCH_MAX, starting=1), LAST),
    "the last, again": (LAST, "a", Claim(claim_id="a"), LAST),
    "the last but one is not": (LAST._replace(epoch=EPOCH_MAX - 1), None, Claim(), State(
        EPOCH_MAX, 0, 0, previous=Ending(EPOCH_MAX - 1, 1, None))),
}  # fmt: skip


@pytest.mark.parametrize(("state", "last_claim", "claim", "granted"), GRANTS.values(), ids=GRANTS)
def test_claim_is_granted_or_refused(
    state: State | None, last_claim: str | None, claim: Claim, granted: State | Refused | Exhausted
) -> None:
    found = grant(state, last_claim, claim)

    assert found == granted
    if state is not None and isinstance(found, State):
        assert found is state or found.epoch > state.epoch


@pytest.mark.parametrize("claim", [Claim(claim_id="a"), Claim(epoch=3, starting=7)], ids=["again", "to go on"])
def test_repeated_claim_returns_the_state_itself(claim: Claim) -> None:
    assert grant(AT_7, "a", claim) is AT_7


@pytest.mark.parametrize(("modulus", "starting"), [(8, 2), (16, 2), (MODULUS, 18)])
def test_claim_to_go_on_names_the_number_as_it_is_sent(modulus: int, starting: int) -> None:
    state = State(epoch=3, begin=0, next=18)
    assert grant(state, None, Claim(epoch=3, starting=starting), modulus) is state
    assert grant(state, None, Claim(epoch=3, starting=starting + 1), modulus) == Refused(
        f"epoch 3 from number {starting + 1}"
    )


# Batches.

AT_5 = State(epoch=3, begin=0, next=5, last_offset=104, previous=Ending(2, 9, 99))
LATER = State(epoch=4, begin=0, next=0, previous=AT_5.ending)
GONE = State(epoch=3, begin=0, next=0, is_expired=True)
WRAPPED = State(epoch=0, begin=0, next=18)

DECISIONS: dict[str, tuple[State | None, Stamp, int, int, Decision]] = {
    "the first batch of a producer": (None, Stamp(3, 0), 2, MODULUS, Append(State(3, 0, 0))),
    "not the first batch of one that nobody knows": (None, Stamp(3, 1), 2, MODULUS, Gap(0, None)),
    "the next one": (AT_5, Stamp(3, 5), 1, MODULUS, Append(AT_5)),
    "one too far": (AT_5, Stamp(3, 6), 1, MODULUS, Gap(5, AT_5)),
    "far too far": (AT_5, Stamp(3, MODULUS - 1), 1, MODULUS, Gap(5, AT_5)),
    "the last one again": (AT_5, Stamp(3, 3), 2, MODULUS, Repeat(AT_5, 3, 2)),
    "part of an earlier one": (AT_5, Stamp(3, 1), 2, MODULUS, Repeat(AT_5, 1, 2)),
    "from the beginning": (AT_5, Stamp(3, 0), 5, MODULUS, Repeat(AT_5, 0, 5)),
    "the last one and more": (AT_5, Stamp(3, 4), 3, MODULUS, Repeat(AT_5, 4, 1)),
    "of the epoch before": (AT_5, Stamp(2, 5), 1, MODULUS, Fenced(AT_5)),
    "the beginning of the next epoch": (AT_5, Stamp(4, 0), 1, MODULUS, Append(LATER)),
    "the beginning of an epoch much later": (AT_5, Stamp(9, 0), 1, MODULUS, Append(LATER._replace(epoch=9))),
    "an epoch that does not begin with 0": (AT_5, Stamp(4, 5), 1, MODULUS, Gap(0, AT_5)),
    "of an epoch that is forgotten": (GONE, Stamp(3, 0), 1, MODULUS, Expired(GONE)),
    "of one before that": (GONE, Stamp(2, 0), 1, MODULUS, Expired(GONE)),
    "above what is forgotten": (GONE, Stamp(4, 0), 1, MODULUS, Append(State(4, 0, 0))),
    "the next one after two rounds": (WRAPPED, Stamp(0, 2), 1, 8, Append(WRAPPED)),
    "a repeat across the end of a round": (WRAPPED, Stamp(0, 7), 3, 8, Repeat(WRAPPED, 15, 3)),
    "too far after two rounds": (WRAPPED, Stamp(0, 4), 1, 8, Gap(2, WRAPPED)),
    "half a round off": (WRAPPED, Stamp(0, 6), 1, 8, Gap(2, WRAPPED)),
    "before the number that was chosen to begin with": (State(0, 4, 5), Stamp(0, 3), 1, MODULUS,
        Gap(5, State(0, 4, 5))),
}  # fmt: skip


@pytest.mark.parametrize(("state", "stamp", "count", "modulus", "decision"), DECISIONS.values(), ids=DECISIONS)
def test_batch_is_decided_by_its_epoch_and_number(
    state: State | None, stamp: Stamp, count: int, modulus: int, decision: Decision
) -> None:
    assert decide(state, stamp, count, modulus) == decision


def stored(first: int, offset: int, events: str) -> Stored:
    return Stored(first, offset, of(events))


def of(events: str) -> bytes:
    return digests_of(each.encode() for each in events)


LOG = [stored(0, 100, "abc"), stored(3, 103, "de"), stored(5, 200, "fgh")]

COMPARED: dict[str, tuple[list[Stored], int, str, Any]] = {
    "one batch": (LOG[1:2], 3, "de", [Range(103, 104)]),
    "its middle": (LOG[:1], 1, "b", [Range(101, 101)]),
    "two as one": (LOG, 0, "abcde", [Range(100, 104)]),
    "parts of two that lie apart": (LOG[1:], 4, "ef", [Range(104, 104), Range(200, 200)]),
    "all": (LOG, 0, "abcdefgh", [Range(100, 104), Range(200, 202)]),
    "another at the beginning": (LOG, 3, "xe", Mismatch(3)),
    "another at the end of the second": (LOG, 3, "defgx", Mismatch(7)),
    "nothing known": ([], 3, "de", Forgotten()),
    "the beginning not known": (LOG[1:], 2, "cde", Forgotten()),
    "a hole": ([LOG[0], LOG[2]], 0, "abcdefgh", Forgotten()),
    "the end not known": (LOG[:2], 3, "def", Forgotten()),
    "another before what is not known": (LOG[:2], 3, "dxf", Mismatch(4)),
}


@pytest.mark.parametrize(("known", "first", "events", "found"), COMPARED.values(), ids=COMPARED)
def test_repeated_batch_is_compared_event_by_event(known: list[Stored], first: int, events: str, found: Any) -> None:
    assert compare(known, first, of(events)) == found


def test_digest_has_a_fixed_size_and_depends_on_the_bytes_alone() -> None:
    assert len(of("ab")) == 2 * DIGEST_BYTES
    assert of("ab") == of("a") + of("b") != of("ba")


@pytest.mark.parametrize(
    ("sequence", "count", "numbers"),
    [
        (5, 3, range(5, 8)),
        (2, 6, range(2, 8)),
        (6, 2, range(6, 8)),
        (7, 2, range(7, 8)),
        (8, 1, range(0)),
        (9, 1, range(0)),
    ],
)
def test_fenced_producer_finds_its_last_batch(sequence: int, count: int, numbers: range) -> None:
    assert given(Ending(0, 8, 9), sequence, count) == numbers
    wrapped = [number + 16 for number in numbers]
    assert list(given(Ending(0, 24, 9), sequence % 16, count, 16)) == wrapped


def test_number_half_a_round_off_is_ahead() -> None:
    assert not given(Ending(0, 24, 9), 0, 1, 16)
    assert given(Ending(0, 24, 9), 1, 1, 16) == range(17, 18)
    assert not given(Ending(0, 2, 9), MODULUS - 1, 2), "nothing was given before the first number"


class Producers(RuleBasedStateMachine):
    """Batches come in order, again, late or much too early; the model knows the number that each was given."""

    @initialize(modulus=st.sampled_from([8, 16, MODULUS]))
    def begin(self, modulus: int) -> None:
        self.modulus = modulus
        self.near = min(modulus // 2 - 1, 9)
        self.state: State | None = None
        self.known: list[Stored] = []
        self.log: list[tuple[int, int, str]] = []
        self.epoch, self.next = 0, 0

    @rule(epochs=st.sampled_from([0, 0, 0, 0, 1, 3, -1]), off=st.integers(-9, 9), data=st.data())
    def send(self, epochs: int, off: int, data: st.DataObject) -> None:
        epoch = max(0, self.epoch + epochs)
        base = self.next if epoch == self.epoch else 0
        number = max(0, base + data.draw(st.sampled_from([0, 0, 0, max(-self.near, min(self.near, off))])))
        room = self.near - max(0, base - number) if epoch == self.epoch else self.near
        events = data.draw(st.text("ab", min_size=1, max_size=max(1, min(3, room))))
        if number < base and data.draw(st.booleans()):
            was = {at: event for of_epoch, at, event in self.log if of_epoch == epoch}
            events = "".join(was.get(number + at, "a") for at in range(len(events)))

        decision = decide(self.state, Stamp(epoch, number % self.modulus), len(events), self.modulus)

        if self.state is not None and epoch < self.epoch:
            assert decision == Fenced(self.state)
        elif self.state is None or epoch > self.epoch:
            self.expect_append(decision, epoch, 0, number, events)
        elif number < self.next:
            self.expect_repeat(decision, number, events)
        else:
            self.expect_append(decision, epoch, self.next, number, events)

    def expect_append(self, decision: Decision, epoch: int, awaited: int, number: int, events: str) -> None:
        if number != awaited:
            assert isinstance(decision, Gap)
            assert decision.expected == awaited % self.modulus
            return
        assert isinstance(decision, Append)
        assert (decision.state.epoch, decision.state.next) == (epoch, number)
        if epoch != self.epoch:
            self.known = []
        self.known.append(stored(number, len(self.log), events))
        self.log += [(epoch, number + at, event) for at, event in enumerate(events)]
        self.state = decision.state.with_appended(len(events), len(self.log) - 1)
        self.epoch, self.next = epoch, number + len(events)

    def expect_repeat(self, decision: Decision, number: int, events: str) -> None:
        known = min(len(events), self.next - number)
        assert decision == Repeat(self.state, number, known)  # type: ignore[arg-type]
        places = {row: offset for offset, row in enumerate(self.log)}
        offsets = [places.get((self.epoch, number + at, event)) for at, event in enumerate(events[:known])]
        found = compare(self.known, number, of(events[:known]))
        if None in offsets:
            assert found == Mismatch(number + offsets.index(None))
        else:
            assert isinstance(found, list)
            assert [at for each in found for at in range(each.first, each.last + 1)] == offsets

    @invariant()
    def every_number_is_there_once_and_in_order(self) -> None:
        numbers = [(epoch, number) for epoch, number, _ in getattr(self, "log", [])]
        assert numbers == sorted(set(numbers))


TestProducers = Producers.TestCase
TestProducers.settings = settings(max_examples=examples(20, 100))
