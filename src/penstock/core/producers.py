"""Idempotent publishing: decide on numbered batches, and grant epochs.

Within a partition and a producer group each event has a sequence number. It is stored at most once, in the order of the
numbers. On the wire numbers are counted modulo `MODULUS`; here they are absolute, so they never wrap around. A batch
with known numbers is a repeat only if it holds the same events, compared by digests of the bytes that were published.

docs/decisions/idempotent-producers.md has the rules, docs/decisions/producer-digests.md the reasons for the digests.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

MODULUS: Final = 1 << 53
"""Upper bound of sequence numbers on the wire: JSON numbers up to it are exact, and in practice they never wrap
around."""
DIGEST_BYTES: Final = 16


class ProducerStamp(NamedTuple):
    """The epoch and sequence number that a producer has given to a batch."""

    epoch: int
    """The epoch of the producer: a higher epoch fences all lower ones."""
    sequence: int
    """The sequence number of the first event, modulo `MODULUS`."""


class EpochEnd(NamedTuple):
    """The state in which an epoch has ended."""

    epoch: int
    next: int
    """The sequence number that its next event would have had."""
    last_offset: int | None
    """The offset of its last event; None: it had none."""


class ProducerState(NamedTuple):
    """The stored state of a producer group in one partition."""

    epoch: int
    begin: int
    """The first sequence number of the epoch."""
    next: int
    """The sequence number of the next event."""
    last_offset: int | None = None
    """The offset of the last event of this epoch; None: it has none yet."""
    previous: EpochEnd | None = None
    """The end of the previous epoch."""
    is_expired: bool = False
    """Whether only the epoch is still stored: requests with this epoch or a lower one are refused."""

    @property
    def ending(self) -> EpochEnd:
        """The `EpochEnd` of the current epoch, if it ended now."""
        return EpochEnd(self.epoch, self.next, self.last_offset)

    def begin_epoch(self, epoch: int, begin: int = 0) -> "ProducerState":
        """Return the state at the beginning of a higher *epoch*, whose first sequence number is *begin*."""
        return ProducerState(epoch, begin, begin, previous=None if self.is_expired else self.ending)

    def advance(self, count: int, last_offset: int) -> "ProducerState":
        """Return the state after *count* more events, the last of which has the offset *last_offset*."""
        return self._replace(next=self.next + count, last_offset=last_offset)


class Append(NamedTuple):
    """Decision: the batch is new, and follows the last event of *state*."""

    state: ProducerState


class Repeat(NamedTuple):
    """Decision: sequence numbers of the batch are already stored; compare their digests."""

    state: ProducerState
    first: int
    """The sequence number of the first event of the batch."""
    known: int
    """How many events of the batch, from the first on, have a stored sequence number."""


class Gap(NamedTuple):
    """Decision: the batch does not follow the last event."""

    expected: int
    """The sequence number that the first event has to have, modulo `MODULUS`."""
    state: ProducerState | None


class Fenced(NamedTuple):
    """Decision: a higher epoch has fenced the epoch of the batch. The batch may have been stored before that."""

    state: ProducerState


class Expired(NamedTuple):
    """Decision: only the epoch of the producer is still stored."""

    state: ProducerState


Decision = Append | Repeat | Gap | Fenced | Expired


def decide(state: ProducerState | None, stamp: ProducerStamp, count: int, modulus: int = MODULUS) -> Decision:
    """Return the decision on a batch of *count* events; *count* is less than half of *modulus*.

    >>> decide(None, ProducerStamp(epoch=0, sequence=0), 3)
    Append(state=ProducerState(epoch=0, begin=0, next=0, ...))
    >>> decide(ProducerState(epoch=0, begin=0, next=5), ProducerStamp(epoch=0, sequence=3), 4)
    Repeat(state=ProducerState(epoch=0, begin=0, next=5, ...), first=3, known=2)
    >>> decide(ProducerState(epoch=0, begin=0, next=5), ProducerStamp(epoch=0, sequence=6), 1)
    Gap(expected=5, ...)
    """
    assert 0 < count < modulus / 2
    if state is None or stamp.epoch > state.epoch:
        begun = state.begin_epoch(stamp.epoch) if state else ProducerState(stamp.epoch, 0, 0)
        return Append(begun) if stamp.sequence == 0 else Gap(0, state)
    if state.is_expired:
        return Expired(state)
    if stamp.epoch < state.epoch:
        return Fenced(state)
    behind = _count_behind(state.next, stamp.sequence, modulus)
    if behind == 0:
        return Append(state)
    if behind is None or behind > state.next - state.begin:
        return Gap(state.next % modulus, state)
    return Repeat(state, state.next - behind, min(count, behind))


class OffsetRange(NamedTuple):
    """A range of consecutive offsets; *last* is included."""

    first: int
    last: int


class StoredBatch(NamedTuple):
    """A batch that was appended. Its offsets are consecutive, as its sequence numbers are."""

    first: int
    """The sequence number of its first event."""
    first_offset: int
    digests: bytes
    """The digests of all its events, concatenated."""

    @property
    def end(self) -> int:
        """The sequence number after that of its last event."""
        return self.first + len(self.digests) // DIGEST_BYTES


class Mismatch(NamedTuple):
    """Other events are stored under the same sequence numbers."""

    number: int
    """The first sequence number whose event differs."""


class ForgottenSequences(NamedTuple):
    """Some of the sequence numbers are in no stored batch: the hub has forgotten them."""


def digests_of(events: Iterable[bytes]) -> bytes:
    """Return the concatenated digests of *events*; each is the bytes that were published."""
    return b"".join([blake2b(event, digest_size=DIGEST_BYTES).digest() for event in events])


def compare(
    stored: Sequence[StoredBatch], first: int, digests: bytes
) -> list[OffsetRange] | Mismatch | ForgottenSequences:
    """Return the offsets of the events with these *digests*, whose sequence numbers begin with *first*.

    *stored* are the known batches that hold any of those numbers, in the order of their numbers.

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
            return Mismatch(start + _find_first_difference(mine, its))
    return locate(stored, range(first, end))


def locate(stored: Sequence[StoredBatch], numbers: range) -> list[OffsetRange] | ForgottenSequences:
    """Return the offsets of the events with these sequence *numbers*; *stored* as for `compare`."""
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


def find_assigned_sequences(ending: EpochEnd, sequence: int, count: int, modulus: int = MODULUS) -> range:
    """Return the sequence numbers of a batch that an epoch had assigned by its *ending*.

    A producer that was fenced learns by this whether its last batch may have been stored before.

    >>> find_assigned_sequences(EpochEnd(epoch=1, next=5, last_offset=9), sequence=3, count=2)
    range(3, 5)
    >>> list(find_assigned_sequences(EpochEnd(epoch=1, next=5, last_offset=9), sequence=5, count=2))
    []
    """
    behind = _count_behind(ending.next, sequence, modulus)
    if not behind or behind > ending.next:
        return range(0)
    first = ending.next - behind
    return range(first, first + min(count, behind))


def _count_behind(next_: int, sequence: int, modulus: int) -> int | None:
    """Return how far *sequence* is behind *next_*; None: it is ahead (serial number arithmetic, RFC 1982)."""
    behind = (next_ - sequence) % modulus
    return behind if behind < modulus / 2 else None


def _find_first_difference(mine: bytes, its: bytes) -> int:
    starts = range(0, len(mine), DIGEST_BYTES)
    return next(
        at for at, start in enumerate(starts) if mine[start : start + DIGEST_BYTES] != its[start : start + DIGEST_BYTES]
    )


EPOCH_MAX: Final = (1 << 53) - 1
GROUP_CHARS_MAX: Final = 128


class EpochClaim(NamedTuple):
    """A producer's request for an epoch."""

    epoch: int | None = None
    """The epoch to publish with; None: the next one."""
    starting: int | None = None
    """The first sequence number of the epoch; None: 0."""
    claim_id: str | None = None
    """Identifies a claim, so that a producer can repeat it after a lost answer."""
    if_epoch: int | None = None
    """The claim is granted only if this is the current epoch."""
    is_pinned: bool | None = None
    """Whether the producer never expires; None: leave that unchanged, which is False at first."""


class ClaimDenied(NamedTuple):
    """The claim cannot be granted."""

    wanted: str
    """A description of the claim, for the error."""


class EpochsExhausted(NamedTuple):
    """The current epoch is the highest one."""


def grant(
    state: ProducerState | None, last_claim: str | None, claim: EpochClaim, modulus: int = MODULUS
) -> ProducerState | ClaimDenied | EpochsExhausted:
    """Return the state after *claim* was granted: the same object if the claim changes nothing.

    *last_claim* is the id of the claim that was granted the current epoch.

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
    return ProducerState(epoch, starting, starting) if state is None else state.begin_epoch(epoch, starting)
