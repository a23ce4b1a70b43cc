"""Who may publish with which epoch: what becomes of a claim (digest of idempotent publishing, 4.4, and design 5.3)."""

from typing import Final, NamedTuple

from penstock.core.producer import MODULUS, State

EPOCH_MAX: Final = (1 << 53) - 1
GROUP_CHARS_MAX: Final = 128


class Claim(NamedTuple):
    """What somebody who wants to publish asks for."""

    level: int | None = None
    """The owner level, or epoch; None: the next one."""
    starting: int | None = None
    """The number of the first event; None: 0."""
    claim_id: str | None = None
    """By which a claim that is made again, since its answer was lost, is known."""
    if_epoch: int | None = None
    """Only if this is still the current epoch."""
    is_pinned: bool | None = None
    """Whether the producer is to be kept however long nothing is heard of it; None: as it is, which is not at first."""


class Refused(NamedTuple):
    """The epoch cannot be had."""

    wanted: str
    """What was asked for, in words."""


class Exhausted(NamedTuple):
    """There is no epoch after the current one."""


def grant(
    state: State | None, last_claim: str | None, claim: Claim, modulus: int = MODULUS
) -> State | Refused | Exhausted:
    """Return the state in which whoever *claim*s goes on; the very *state* where nothing changes by it.

    *last_claim* is the id of the claim by which the current epoch was had.

    >>> grant(None, None, Claim())
    State(epoch=0, begin=0, next=0, ...)
    >>> grant(State(epoch=3, begin=0, next=7), None, Claim(level=3, starting=7)).epoch
    3
    >>> grant(State(epoch=3, begin=0, next=7), None, Claim(level=3))
    Refused(wanted='epoch 3 from number 0')
    """
    if state is not None and claim.claim_id is not None and claim.claim_id == last_claim and not state.is_expired:
        is_same = claim.level in (None, state.epoch)
        return state if is_same else Refused(f"epoch {claim.level} by the claim that epoch {state.epoch} was had by")
    current = None if state is None else state.epoch
    if claim.if_epoch is not None and claim.if_epoch != current:
        return Refused(f"a claim that is to hold only while the epoch is {claim.if_epoch}")
    starting = claim.starting or 0
    if claim.level is None:
        level = 0 if current is None else current + 1
        if level > EPOCH_MAX:
            return Exhausted()
    elif current is None or claim.level > current:
        level = claim.level
    else:
        assert state is not None
        goes_on = claim.level == current and claim.starting == state.next % modulus and not state.is_expired
        return state if goes_on else Refused(f"epoch {claim.level} from number {starting}")
    return State(level, starting, starting) if state is None else state.after(level, starting)
