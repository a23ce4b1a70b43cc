"""What becomes of a claim: vectors of the rules (digest of idempotent publishing, 4.4, and design 5.3)."""

import pytest

from penstock.core.claim import EPOCH_MAX, Claim, Exhausted, Refused, grant
from penstock.core.producer import MODULUS, Ending, State

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
    "the first, at a level": (None, None, Claim(level=9), State(9, 0, 0)),
    "the first, at level 0": (None, None, Claim(level=0), State(0, 0, 0)),
    "the first, at a level from a number": (None, None, Claim(level=9, starting=5), State(9, 5, 5)),
    "the first, at the last level": (None, None, Claim(level=EPOCH_MAX), State(EPOCH_MAX, 0, 0)),
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
    "the level that is the next": (AT_7, None, Claim(level=4), NEXT),
    "a level much later": (AT_7, None, Claim(level=9), NEXT._replace(epoch=9)),
    "a level much later, from a number": (AT_7, None, Claim(level=9, starting=1), State(9, 1, 1, None, AT_7.ending)),
    "a higher level, while the epoch is another": (AT_7, None, Claim(level=9, if_epoch=4), Refused(
        "a claim that is to hold only while the epoch is 4")),
    "the current level": (AT_7, None, Claim(level=3), Refused("epoch 3 from number 0")),
    "the current level, to go on": (AT_7, None, Claim(level=3, starting=7), AT_7),
    "the current level, to go on while it is": (AT_7, None, Claim(level=3, starting=7, if_epoch=3), AT_7),
    "the current level, from behind": (AT_7, None, Claim(level=3, starting=2), Refused("epoch 3 from number 2")),
    "the current level, from ahead": (AT_7, None, Claim(level=3, starting=8), Refused("epoch 3 from number 8")),
    "the current level, to begin with": (UNUSED, None, Claim(level=3, starting=5), UNUSED),
    "a lower level": (AT_7, None, Claim(level=2), Refused("epoch 2 from number 0")),
    "a lower level, to go on": (AT_7, None, Claim(level=2, starting=7), Refused("epoch 2 from number 7")),
    "the current level, though it has no events": (State(3, 0, 0), None, Claim(level=3), Refused(
        "epoch 3 from number 0")),
    "the same again": (AT_7, "a", Claim(claim_id="a"), AT_7),
    "the same again, at its level": (AT_7, "a", Claim(claim_id="a", level=3, starting=2), AT_7),
    "the same again, at another level": (
        AT_7, "a", Claim(claim_id="a", level=9), Refused("epoch 9 by the claim that epoch 3 was had by")
    ),
    "the same again, for the epoch before": (AT_7, "a", Claim(claim_id="a", if_epoch=1), AT_7),
    "another's": (AT_7, "a", Claim(claim_id="b"), NEXT),
    "without an id after one without": (AT_7, None, Claim(), NEXT),
    "without an id after one with": (AT_7, "a", Claim(), NEXT),
    "another's, for the epoch before": (AT_7, "a", Claim(claim_id="b", if_epoch=1), Refused(
        "a claim that is to hold only while the epoch is 1")),
    "the next after one that is forgotten": (GONE, None, Claim(), State(4, 0, 0)),
    "the same again, after it is forgotten": (GONE, "a", Claim(claim_id="a"), State(4, 0, 0)),
    "one that is forgotten": (GONE, None, Claim(level=3, starting=0), Refused("epoch 3 from number 0")),
    "above one that is forgotten": (GONE, None, Claim(level=4, starting=5), State(4, 5, 5)),
    "while one that is forgotten is the last": (GONE, None, Claim(if_epoch=3), State(4, 0, 0)),
    "after the last": (LAST, None, Claim(), Exhausted()),
    "after the last, while it is": (LAST, None, Claim(if_epoch=EPOCH_MAX), Exhausted()),
    "the last, to go on": (LAST, None, Claim(level=EPOCH_MAX, starting=1), LAST),
    "the last, again": (LAST, "a", Claim(claim_id="a"), LAST),
    "the last but one is not": (LAST._replace(epoch=EPOCH_MAX - 1), None, Claim(), State(
        EPOCH_MAX, 0, 0, previous=Ending(EPOCH_MAX - 1, 1, None))),
}  # fmt: skip


@pytest.mark.parametrize(("state", "last_claim", "claim", "granted"), GRANTS.values(), ids=GRANTS)
def test_a_claim_becomes(
    state: State | None, last_claim: str | None, claim: Claim, granted: State | Refused | Exhausted
) -> None:
    assert grant(state, last_claim, claim) == granted


@pytest.mark.parametrize("claim", [Claim(claim_id="a"), Claim(level=3, starting=7)], ids=["again", "to go on"])
def test_where_nothing_changes_the_very_state_is_returned(claim: Claim) -> None:
    assert grant(AT_7, "a", claim) is AT_7


@pytest.mark.parametrize(("modulus", "starting"), [(8, 2), (16, 2), (MODULUS, 18)])
def test_whoever_goes_on_says_the_number_as_it_is_on_the_wire(modulus: int, starting: int) -> None:
    assert grant(WRAPPED, None, Claim(level=3, starting=starting), modulus) is WRAPPED
    assert grant(WRAPPED, None, Claim(level=3, starting=starting + 1), modulus) == Refused(
        f"epoch 3 from number {starting + 1}"
    )


def test_an_epoch_is_never_lower_than_any_before() -> None:
    for state, last_claim, claim, _ in GRANTS.values():
        found = grant(state, last_claim, claim)
        if state is not None and isinstance(found, State):
            assert found is state or found.epoch > state.epoch
