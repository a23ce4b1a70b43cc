"""Idempotent producers: claims of epochs, and decisions on numbered batches."""

from typing import Any

import pytest

from penstock.core.producers import (
    EPOCH_MAX,
    MODULUS,
    Append,
    ClaimDenied,
    Decision,
    EpochClaim,
    EpochEnd,
    EpochsExhausted,
    Expired,
    Fenced,
    ForgottenSequences,
    Gap,
    Mismatch,
    OffsetRange,
    ProducerStamp,
    ProducerState,
    Repeat,
    StoredBatch,
    compare,
    decide,
    digests_of,
    find_assigned_sequences,
    grant,
)

# Claims.

AT_7 = ProducerState(epoch=3, begin=2, next=7, last_offset=104, previous=EpochEnd(1, 9, 99))
NEXT = ProducerState(epoch=4, begin=0, next=0, previous=EpochEnd(3, 7, 104))
UNUSED = ProducerState(epoch=3, begin=5, next=5)
GONE = ProducerState(epoch=3, begin=0, next=0, is_expired=True)
LAST = ProducerState(epoch=EPOCH_MAX, begin=0, next=1)

Vector = tuple[ProducerState | None, str | None, EpochClaim, ProducerState | ClaimDenied | EpochsExhausted]

GRANTS: dict[str, Vector] = {
    "the first of all": (None, None, EpochClaim(), ProducerState(0, 0, 0)),
    "the first, with an id": (None, None, EpochClaim(claim_id="a"), ProducerState(0, 0, 0)),
    "the first, from a number": (None, None, EpochClaim(starting=5), ProducerState(0, 5, 5)),
    "the first, at a epoch": (None, None, EpochClaim(epoch=9), ProducerState(9, 0, 0)),
    "the first, at epoch 0": (None, None, EpochClaim(epoch=0), ProducerState(0, 0, 0)),
    "the first, at a epoch from a number": (None, None, EpochClaim(epoch=9, starting=5), ProducerState(9, 5, 5)),
    "the first, at the last epoch": (None, None, EpochClaim(epoch=EPOCH_MAX), ProducerState(EPOCH_MAX, 0, 0)),
    "the first, if there is an epoch": (None, None, EpochClaim(if_epoch=0), ClaimDenied(
        "a claim that is to hold only while the epoch is 0")),
    "the next": (AT_7, None, EpochClaim(), NEXT),
    "the next, from a number": (AT_7, None, EpochClaim(starting=5), NEXT._replace(begin=5, next=5)),
    "the next, while the epoch is this": (AT_7, None, EpochClaim(if_epoch=3), NEXT),
    "the next, while the epoch is one before": (AT_7, None, EpochClaim(if_epoch=2), ClaimDenied(
        "a claim that is to hold only while the epoch is 2")),
    "the next, while the epoch is one to come": (AT_7, None, EpochClaim(if_epoch=4), ClaimDenied(
        "a claim that is to hold only while the epoch is 4")),
    "the next after one that nobody has used": (UNUSED, None, EpochClaim(), ProducerState(
        4, 0, 0, previous=EpochEnd(3, 5, None))),
    "the epoch that is the next": (AT_7, None, EpochClaim(epoch=4), NEXT),
    "a epoch much later": (AT_7, None, EpochClaim(epoch=9), NEXT._replace(epoch=9)),
    "a epoch much later, from a number": (AT_7, None, EpochClaim(epoch=9, starting=1), ProducerState(
        9, 1, 1, None, AT_7.ending)),
    "a higher epoch, while the epoch is another": (AT_7, None, EpochClaim(epoch=9, if_epoch=4), ClaimDenied(
        "a claim that is to hold only while the epoch is 4")),
    "the current epoch": (AT_7, None, EpochClaim(epoch=3), ClaimDenied("epoch 3 from number 0")),
    "the current epoch, to go on": (AT_7, None, EpochClaim(epoch=3, starting=7), AT_7),
    "the current epoch, to go on while it is": (AT_7, None, EpochClaim(epoch=3, starting=7, if_epoch=3), AT_7),
    "the current epoch, from behind": (AT_7, None, EpochClaim(epoch=3, starting=2), ClaimDenied(
        "epoch 3 from number 2")),
    "the current epoch, from ahead": (AT_7, None, EpochClaim(epoch=3, starting=8), ClaimDenied(
        "epoch 3 from number 8")),
    "the current epoch, to begin with": (UNUSED, None, EpochClaim(epoch=3, starting=5), UNUSED),
    "a lower epoch": (AT_7, None, EpochClaim(epoch=2), ClaimDenied("epoch 2 from number 0")),
    "a lower epoch, to go on": (AT_7, None, EpochClaim(epoch=2, starting=7), ClaimDenied("epoch 2 from number 7")),
    "the current epoch, though it has no events": (ProducerState(3, 0, 0), None, EpochClaim(epoch=3), ClaimDenied(
        "epoch 3 from number 0")),
    "the same again": (AT_7, "a", EpochClaim(claim_id="a"), AT_7),
    "the same again, at its epoch": (AT_7, "a", EpochClaim(claim_id="a", epoch=3, starting=2), AT_7),
    "the same again, at another epoch": (AT_7, "a", EpochClaim(claim_id="a", epoch=9),
        ClaimDenied("epoch 9 by the claim that epoch 3 was had by")),
    "the same again, for the epoch before": (AT_7, "a", EpochClaim(claim_id="a", if_epoch=1), AT_7),
    "another's": (AT_7, "a", EpochClaim(claim_id="b"), NEXT),
    "without an id after one without": (AT_7, None, EpochClaim(), NEXT),
    "without an id after one with": (AT_7, "a", EpochClaim(), NEXT),
    "another's, for the epoch before": (AT_7, "a", EpochClaim(claim_id="b", if_epoch=1), ClaimDenied(
        "a claim that is to hold only while the epoch is 1")),
    "the next after one that is forgotten": (GONE, None, EpochClaim(), ProducerState(4, 0, 0)),
    "the same again, after it is forgotten": (GONE, "a", EpochClaim(claim_id="a"), ProducerState(4, 0, 0)),
    "one that is forgotten": (GONE, None, EpochClaim(epoch=3, starting=0), ClaimDenied("epoch 3 from number 0")),
    "above one that is forgotten": (GONE, None, EpochClaim(epoch=4, starting=5), ProducerState(4, 5, 5)),
    "while one that is forgotten is the last": (GONE, None, EpochClaim(if_epoch=3), ProducerState(4, 0, 0)),
    "after the last": (LAST, None, EpochClaim(), EpochsExhausted()),
    "after the last, while it is": (LAST, None, EpochClaim(if_epoch=EPOCH_MAX), EpochsExhausted()),
    "the last, to go on": (LAST, None, EpochClaim(epoch=EPOCH_MAX, starting=1), LAST),
    "the last, again": (LAST, "a", EpochClaim(claim_id="a"), LAST),
    "the last but one is not": (LAST._replace(epoch=EPOCH_MAX - 1), None, EpochClaim(), ProducerState(
        EPOCH_MAX, 0, 0, previous=EpochEnd(EPOCH_MAX - 1, 1, None))),
}  # fmt: skip


@pytest.mark.parametrize(("state", "last_claim", "claim", "granted"), GRANTS.values(), ids=GRANTS)
def test_claim_is_granted_or_refused(
    state: ProducerState | None,
    last_claim: str | None,
    claim: EpochClaim,
    granted: ProducerState | ClaimDenied | EpochsExhausted,
) -> None:
    found = grant(state, last_claim, claim)

    assert (type(found), found) == (type(granted), granted)
    if state is not None and isinstance(found, ProducerState):
        assert found is state or found.epoch > state.epoch


@pytest.mark.parametrize(("modulus", "starting"), [(8, 2), (16, 2), (MODULUS, 18)])
def test_claim_to_go_on_names_the_number_as_it_is_sent(modulus: int, starting: int) -> None:
    state = ProducerState(epoch=3, begin=0, next=18)
    assert grant(state, None, EpochClaim(epoch=3, starting=starting), modulus) is state
    assert grant(state, None, EpochClaim(epoch=3, starting=starting + 1), modulus) == ClaimDenied(
        f"epoch 3 from number {starting + 1}"
    )


# Batches.

AT_5 = ProducerState(epoch=3, begin=0, next=5, last_offset=104, previous=EpochEnd(2, 9, 99))
LATER = ProducerState(epoch=4, begin=0, next=0, previous=AT_5.ending)
WRAPPED = ProducerState(epoch=0, begin=0, next=18)

DECISIONS: dict[str, tuple[ProducerState | None, ProducerStamp, int, int, Decision]] = {
    "the first batch of a producer": (None, ProducerStamp(3, 0), 2, MODULUS, Append(ProducerState(3, 0, 0))),
    "not the first batch of one that nobody knows": (None, ProducerStamp(3, 1), 2, MODULUS, Gap(0, None)),
    "the next one": (AT_5, ProducerStamp(3, 5), 1, MODULUS, Append(AT_5)),
    "one too far": (AT_5, ProducerStamp(3, 6), 1, MODULUS, Gap(5, AT_5)),
    "far too far": (AT_5, ProducerStamp(3, MODULUS - 1), 1, MODULUS, Gap(5, AT_5)),
    "the last one again": (AT_5, ProducerStamp(3, 3), 2, MODULUS, Repeat(AT_5, 3, 2)),
    "part of an earlier one": (AT_5, ProducerStamp(3, 1), 2, MODULUS, Repeat(AT_5, 1, 2)),
    "from the beginning": (AT_5, ProducerStamp(3, 0), 5, MODULUS, Repeat(AT_5, 0, 5)),
    "the last one and more": (AT_5, ProducerStamp(3, 4), 3, MODULUS, Repeat(AT_5, 4, 1)),
    "of the epoch before": (AT_5, ProducerStamp(2, 5), 1, MODULUS, Fenced(AT_5)),
    "the beginning of the next epoch": (AT_5, ProducerStamp(4, 0), 1, MODULUS, Append(LATER)),
    "the beginning of an epoch much later": (AT_5, ProducerStamp(9, 0), 1, MODULUS, Append(LATER._replace(epoch=9))),
    "an epoch that does not begin with 0": (AT_5, ProducerStamp(4, 5), 1, MODULUS, Gap(0, AT_5)),
    "of an epoch that is forgotten": (GONE, ProducerStamp(3, 0), 1, MODULUS, Expired(GONE)),
    "of one before that": (GONE, ProducerStamp(2, 0), 1, MODULUS, Expired(GONE)),
    "above what is forgotten": (GONE, ProducerStamp(4, 0), 1, MODULUS, Append(ProducerState(4, 0, 0))),
    "the next one after two rounds": (WRAPPED, ProducerStamp(0, 2), 1, 8, Append(WRAPPED)),
    "a repeat across the end of a round": (WRAPPED, ProducerStamp(0, 7), 3, 8, Repeat(WRAPPED, 15, 3)),
    "too far after two rounds": (WRAPPED, ProducerStamp(0, 4), 1, 8, Gap(2, WRAPPED)),
    "half a round off": (WRAPPED, ProducerStamp(0, 6), 1, 8, Gap(2, WRAPPED)),
    "before the number that was chosen to begin with": (ProducerState(0, 4, 5), ProducerStamp(0, 3), 1, MODULUS,
        Gap(5, ProducerState(0, 4, 5))),
}  # fmt: skip


@pytest.mark.parametrize(("state", "stamp", "count", "modulus", "decision"), DECISIONS.values(), ids=DECISIONS)
def test_batch_is_decided_by_its_epoch_and_number(
    state: ProducerState | None, stamp: ProducerStamp, count: int, modulus: int, decision: Decision
) -> None:
    found = decide(state, stamp, count, modulus)

    assert (type(found), found) == (type(decision), decision), "tuples of different classes can be equal"


def test_epoch_goes_on_behind_an_appended_batch() -> None:
    assert AT_5.advance(3, 107) == AT_5._replace(next=8, last_offset=107)


def stored(first: int, offset: int, events: str) -> StoredBatch:
    return StoredBatch(first, offset, of(events))


def of(events: str) -> bytes:
    return digests_of(each.encode() for each in events)


LOG = [stored(0, 100, "abc"), stored(3, 103, "de"), stored(5, 200, "fgh")]

COMPARED: dict[str, tuple[list[StoredBatch], int, str, Any]] = {
    "one batch": (LOG[1:2], 3, "de", [OffsetRange(103, 104)]),
    "its middle": (LOG[:1], 1, "b", [OffsetRange(101, 101)]),
    "two as one": (LOG, 0, "abcde", [OffsetRange(100, 104)]),
    "parts of two that lie apart": (LOG[1:], 4, "ef", [OffsetRange(104, 104), OffsetRange(200, 200)]),
    "the beginning of one, beside others": (LOG, 3, "d", [OffsetRange(103, 103)]),
    "all": (LOG, 0, "abcdefgh", [OffsetRange(100, 104), OffsetRange(200, 202)]),
    "another at the beginning": (LOG, 3, "xe", Mismatch(3)),
    "another at the end of the second": (LOG, 3, "defgx", Mismatch(7)),
    "nothing known": ([], 3, "de", ForgottenSequences()),
    "the beginning not known": (LOG[1:], 2, "cde", ForgottenSequences()),
    "a hole": ([LOG[0], LOG[2]], 0, "abcdefgh", ForgottenSequences()),
    "the end not known": (LOG[:2], 3, "def", ForgottenSequences()),
    "another before what is not known": (LOG[:2], 3, "dxf", Mismatch(4)),
}


@pytest.mark.parametrize(("known", "first", "events", "found"), COMPARED.values(), ids=COMPARED)
def test_repeated_batch_is_compared_event_by_event(
    known: list[StoredBatch], first: int, events: str, found: Any
) -> None:
    told = compare(known, first, of(events))

    assert (type(told), told) == (type(found), found)


def test_digest_has_sixteen_bytes_and_depends_on_those_of_the_event_alone() -> None:
    assert len(of("ab")) == 2 * 16
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
    assert find_assigned_sequences(EpochEnd(0, 8, 9), sequence, count) == numbers
    wrapped = [number + 16 for number in numbers]
    assert list(find_assigned_sequences(EpochEnd(0, 24, 9), sequence % 16, count, 16)) == wrapped


def test_number_half_a_round_off_is_ahead() -> None:
    assert not find_assigned_sequences(EpochEnd(0, 24, 9), 0, 1, 16)
    assert find_assigned_sequences(EpochEnd(0, 24, 9), 1, 1, 16) == range(17, 18)
    assert not find_assigned_sequences(EpochEnd(0, 2, 9), MODULUS - 1, 2), "nothing was given before the first number"
