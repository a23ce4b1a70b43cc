"""Idempotent publishing: decide on numbered batches, and grant epochs.

Within a partition and a producer group every event has a number, is stored at most once, and in the order of the
numbers. On the wire numbers are counted modulo `MODULUS`; here they are absolute, so they never wrap around. A batch
under known numbers is a repeat only if it holds the same events, by digests of the bytes that were handed in.

docs/decisions/idempotent-producers.md has the rules, docs/decisions/producer-digests.md the reasons for the digests.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

MODULUS: Final = 1 << 53
"""Numbers on the wire are smaller: every JSON library can tell them exactly, and in practice they never wrap around."""
DIGEST_BYTES: Final = 16


class ProducerStamp(NamedTuple):
    """How a batch is numbered, as its producer says."""

    epoch: int
    """The incarnation of the producer: a higher epoch fences all lower ones."""
    sequence: int
    """The number of its first event, modulo `MODULUS`."""


class EpochEnd(NamedTuple):
    """What an epoch has ended with."""

    epoch: int
    next: int
    """The number that its next event would have had."""
    last_offset: int | None
    """Of its last event; None: it had none."""


class ProducerState(NamedTuple):
    """What is known of a producer group in one partition."""

    epoch: int
    begin: int
    """The number with which the epoch has begun."""
    next: int
    """The number of the next event."""
    last_offset: int | None = None
    """Of the last event of this epoch; None: it has none yet."""
    previous: EpochEnd | None = None
    """What the epoch before has ended with."""
    is_expired: bool = False
    """Whether all is forgotten but the epoch: nothing of that one or a lower one is taken any more."""

    @property
    def ending(self) -> EpochEnd:
        """What the epoch would end with if it ended now."""
        return EpochEnd(self.epoch, self.next, self.last_offset)

    def after(self, epoch: int, begin: int = 0) -> "ProducerState":
        """Return the state at the beginning of a higher *epoch*."""
        return ProducerState(epoch, begin, begin, previous=None if self.is_expired else self.ending)

    def with_appended(self, count: int, last_offset: int) -> "ProducerState":
        """Return the state after *count* more events, the last of which is at *last_offset*."""
        return self._replace(next=self.next + count, last_offset=last_offset)


class Append(NamedTuple):
    """The batch is new: its events follow the last ones of *state*."""

    state: ProducerState


class Repeat(NamedTuple):
    """The batch has numbers that there were already: it is to be compared with what was stored under them."""

    state: ProducerState
    first: int
    """The number of its first event."""
    known: int
    """How many of its events, counted from the first, have such a number."""


class Gap(NamedTuple):
    """The batch does not follow the last event."""

    expected: int
    """The number that its first event should have, modulo `MODULUS`."""
    state: ProducerState | None


class Fenced(NamedTuple):
    """The batch is of an epoch that a higher one has shut out; whether it was stored before can still be asked."""

    state: ProducerState


class Expired(NamedTuple):
    """What was known of the producer is forgotten, but for its epoch."""

    state: ProducerState


Decision = Append | Repeat | Gap | Fenced | Expired


def decide(state: ProducerState | None, stamp: ProducerStamp, count: int, modulus: int = MODULUS) -> Decision:
    """Return what becomes of a batch of *count* events, fewer than half of *modulus*.

    >>> decide(None, ProducerStamp(epoch=0, sequence=0), 3)
    Append(state=ProducerState(epoch=0, begin=0, next=0, ...))
    >>> decide(ProducerState(epoch=0, begin=0, next=5), ProducerStamp(epoch=0, sequence=3), 4)
    Repeat(state=ProducerState(epoch=0, begin=0, next=5, ...), first=3, known=2)
    >>> decide(ProducerState(epoch=0, begin=0, next=5), ProducerStamp(epoch=0, sequence=6), 1)
    Gap(expected=5, ...)
    """
    assert 0 < count < modulus / 2
    if state is None or stamp.epoch > state.epoch:
        begun = state.after(stamp.epoch) if state else ProducerState(stamp.epoch, 0, 0)
        return Append(begun) if stamp.sequence == 0 else Gap(0, state)
    if state.is_expired:
        return Expired(state)
    if stamp.epoch < state.epoch:
        return Fenced(state)
    behind = _behind(state.next, stamp.sequence, modulus)
    if behind == 0:
        return Append(state)
    if behind is None or behind > state.next - state.begin:
        return Gap(state.next % modulus, state)
    return Repeat(state, state.next - behind, min(count, behind))


class OffsetRange(NamedTuple):
    """Offsets that follow each other."""

    first: int
    last: int


class StoredBatch(NamedTuple):
    """A batch that was appended: its events have offsets that follow each other, as their numbers do."""

    first: int
    """The number of its first event."""
    first_offset: int
    digests: bytes
    """Of all its events, one after the other."""

    @property
    def end(self) -> int:
        """The number after that of its last event."""
        return self.first + len(self.digests) // DIGEST_BYTES


class Mismatch(NamedTuple):
    """Other events were stored under the same numbers."""

    number: int
    """The first that is another."""


class ForgottenSequences(NamedTuple):
    """What was stored under these numbers is not known any more."""


def digests_of(events: Iterable[bytes]) -> bytes:
    """Return the digests of *events*, of the bytes in which they were handed in, one after the other."""
    return b"".join([blake2b(event, digest_size=DIGEST_BYTES).digest() for event in events])


def compare(
    stored: Sequence[StoredBatch], first: int, digests: bytes
) -> list[OffsetRange] | Mismatch | ForgottenSequences:
    """Return where the events with these *digests* lie, whose numbers begin with *first*.

    *stored* are the batches that hold any of those numbers, in the order of their numbers, as far as they are known.

    >>> one = StoredBatch(first=4, first_offset=100, digests=digests_of([b"a", b"b", b"c"]))
    >>> compare([one], 5, digests_of([b"b", b"c"])), compare([one], 5, digests_of([b"b", b"x"]))
    ([OffsetRange(first=101, last=102)], Mismatch(number=6))
    """
    end = first + len(digests) // DIGEST_BYTES
    for batch in stored:
        start, stop = max(first, batch.first), min(end, batch.end)
        mine = digests[(start - first) * DIGEST_BYTES : (stop - first) * DIGEST_BYTES]
        its = batch.digests[(start - batch.first) * DIGEST_BYTES : (stop - batch.first) * DIGEST_BYTES]
        if start < stop and mine != its:
            return Mismatch(start + _first_unlike(mine, its))
    return locate(stored, range(first, end))


def locate(stored: Sequence[StoredBatch], numbers: range) -> list[OffsetRange] | ForgottenSequences:
    """Return where the events with these *numbers* lie; *stored* as for `compare`."""
    found: list[OffsetRange] = []
    number = numbers.start
    for batch in stored:
        stop = min(numbers.stop, batch.end)
        if number >= stop:
            continue
        if number < batch.first:
            return ForgottenSequences()
        first, last = (batch.first_offset + each - batch.first for each in (number, stop - 1))
        if found and found[-1].last + 1 == first:
            found[-1] = found[-1]._replace(last=last)
        else:
            found.append(OffsetRange(first, last))
        number = stop
    return found if number == numbers.stop else ForgottenSequences()


def assigned_sequences(ending: EpochEnd, sequence: int, count: int, modulus: int = MODULUS) -> range:
    """Return which of the numbers of a batch an epoch has given by its *ending*.

    So a producer that was shut out learns whether its last batch may have been stored before that.

    >>> assigned_sequences(EpochEnd(epoch=1, next=5, last_offset=9), sequence=3, count=2)
    range(3, 5)
    >>> list(assigned_sequences(EpochEnd(epoch=1, next=5, last_offset=9), sequence=5, count=2))
    []
    """
    behind = _behind(ending.next, sequence, modulus)
    if not behind or behind > ending.next:
        return range(0)
    first = ending.next - behind
    return range(first, first + min(count, behind))


def _behind(next_: int, sequence: int, modulus: int) -> int | None:
    """Return how far *sequence* is behind *next_*; None: it is ahead (serial number arithmetic, RFC 1982)."""
    behind = (next_ - sequence) % modulus
    return behind if behind < modulus / 2 else None


def _first_unlike(mine: bytes, its: bytes) -> int:
    starts = range(0, len(mine), DIGEST_BYTES)
    return next(
        at for at, start in enumerate(starts) if mine[start : start + DIGEST_BYTES] != its[start : start + DIGEST_BYTES]
    )


EPOCH_MAX: Final = (1 << 53) - 1
GROUP_CHARS_MAX: Final = 128


class EpochClaim(NamedTuple):
    """What somebody who wants to publish asks for."""

    epoch: int | None = None
    """The epoch to publish with; None: the next one."""
    starting: int | None = None
    """The number of the first event; None: 0."""
    claim_id: str | None = None
    """By which a claim that is made again, since its answer was lost, is known."""
    if_epoch: int | None = None
    """Only if this is still the current epoch."""
    is_pinned: bool | None = None
    """Whether the producer is to be kept however long nothing is heard of it; None: as it is, which is not at first."""


class ClaimDenied(NamedTuple):
    """The epoch cannot be had."""

    wanted: str
    """What was asked for, in words."""


class EpochsExhausted(NamedTuple):
    """There is no epoch after the current one."""


def grant(
    state: ProducerState | None, last_claim: str | None, claim: EpochClaim, modulus: int = MODULUS
) -> ProducerState | ClaimDenied | EpochsExhausted:
    """Return the state in which whoever *claim*s goes on; the very *state* where nothing changes by it.

    *last_claim* is the id of the claim by which the current epoch was had.

    >>> grant(None, None, EpochClaim())
    ProducerState(epoch=0, begin=0, next=0, ...)
    >>> grant(ProducerState(epoch=3, begin=0, next=7), None, EpochClaim(epoch=3, starting=7)).epoch
    3
    >>> grant(ProducerState(epoch=3, begin=0, next=7), None, EpochClaim(epoch=3))
    ClaimDenied(wanted='epoch 3 from number 0')
    """
    if state is not None and claim.claim_id is not None and claim.claim_id == last_claim and not state.is_expired:
        is_same = claim.epoch in (None, state.epoch)
        return (
            state if is_same else ClaimDenied(f"epoch {claim.epoch} by the claim that epoch {state.epoch} was had by")
        )
    current = None if state is None else state.epoch
    if claim.if_epoch is not None and claim.if_epoch != current:
        return ClaimDenied(f"a claim that is to hold only while the epoch is {claim.if_epoch}")
    starting = claim.starting or 0
    if claim.epoch is None:
        epoch = 0 if current is None else current + 1
        if epoch > EPOCH_MAX:
            return EpochsExhausted()
    elif current is None or claim.epoch > current:
        epoch = claim.epoch
    else:
        assert state is not None
        goes_on = claim.epoch == current and claim.starting == state.next % modulus and not state.is_expired
        return state if goes_on else ClaimDenied(f"epoch {claim.epoch} from number {starting}")
    return ProducerState(epoch, starting, starting) if state is None else state.after(epoch, starting)
