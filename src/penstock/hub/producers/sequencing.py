"""Judges numbered batches inside the append transaction, and finds out whether a batch is stored, of whatever epoch.

The rules are those of `penstock.core.producers`; docs/decisions/idempotent-producers.md explains them.

Invariants:
    A producer is locked before it is judged, and before the heads of partitions are locked.
    A refused batch stores nothing and uses up no number.
    A refusal says what of the batch is stored.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from penstock.core.producers import (
    DIGEST_BYTES,
    Append,
    EpochEnd,
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
    assigned_sequences,
    compare,
    decide,
    locate,
)
from penstock.errors import (
    PayloadMismatch,
    PenstockError,
    ProducerFenced,
    ProducerStateExpired,
    ProducerUnsafe,
    SequenceGap,
    SequenceOverlap,
    SequenceTooOld,
    TooManyProducers,
)
from penstock.hub.log.publish import Prepared, Unpublishable
from penstock.hub.log.request import NumberedBatch, Outcome, ProducerName, ProducerResult, Published, Request
from penstock.storage.producers import NewBatch, Producer, ProducerKey
from penstock.storage.store import Tx


class BatchPresence(NamedTuple):
    """What is known of a batch."""

    whole: bool | None
    """Whether all of it is stored; None: that is not known any more."""
    ranges: Sequence[OffsetRange] = ()
    """The offsets of what of it is stored."""

    @property
    def fields(self) -> dict[str, Any]:
        """Return it as the fields of an error have it."""
        return {"committed": self.whole, "ranges": ranges_as_json(self.ranges)}


def ranges_as_json(ranges: Sequence[OffsetRange]) -> list[dict[str, int]]:
    """Return *ranges* as they are told."""
    return [each._asdict() for each in ranges]


def find_committed(
    tx: Tx, producer: Producer, stamp: ProducerStamp, events: int | bytes, modulus: int
) -> BatchPresence:
    """Return what of a batch is stored: of so many *events*, or of those with these digests.

    Where digests are known, other events that are stored under its numbers are not it.
    """
    digests = events if isinstance(events, bytes) else None
    count = events if isinstance(events, int) else len(events) // DIGEST_BYTES
    ending = _ending(tx, producer, stamp.epoch)
    if ending is None:
        return BatchPresence(None if _may_have_been(producer.state, stamp.epoch) else False)
    numbers = assigned_sequences(ending, stamp.sequence, count, modulus)
    if not numbers:
        return BatchPresence(False)
    stored = tx.producers.batches(producer.id, stamp.epoch, numbers.start, numbers.stop)
    found: list[OffsetRange] | Mismatch | ForgottenSequences
    if digests is None:
        found = locate(stored, numbers)
    else:
        found = compare(stored, numbers.start, digests[: len(numbers) * DIGEST_BYTES])
    if isinstance(found, Mismatch):
        return BatchPresence(False)
    is_whole = len(numbers) == count
    if isinstance(found, ForgottenSequences):
        return BatchPresence(None if is_whole else False)
    return BatchPresence(is_whole, found)


def _ending(tx: Tx, producer: Producer, epoch: int) -> EpochEnd | None:
    state = producer.state
    if epoch == state.epoch and not state.is_expired:
        return state.ending
    if state.previous is not None and epoch == state.previous.epoch:
        return state.previous
    return tx.producers.ending(producer.id, epoch)


def _may_have_been(state: ProducerState, epoch: int) -> bool:
    """Tell whether there may have been that epoch, of which nothing is known any more."""
    if epoch > state.epoch or (epoch == state.epoch and not state.is_expired):
        return False
    return state.previous is None or epoch < state.previous.epoch


PRODUCERS_MAX: Final = 10_000
"""How many producer groups may publish to a partition."""


class Reservation(NamedTuple):
    """The numbers that a batch takes."""

    stamped: NumberedBatch
    key: ProducerKey
    producer: Producer | None
    """As it was locked; None: nobody has heard of it."""
    state: ProducerState
    """In which the batch is appended."""
    repeated: Sequence[OffsetRange] = ()
    """Where the beginning of the batch lies already."""
    known: int = 0
    """How many of its events that are."""


class Verdict(NamedTuple):
    """What becomes of a request: it is appended, or its publisher is *told* what there is to say already."""

    request: Request
    appends: Prepared | None = None
    told: Published | PenstockError | None = None
    taking: Reservation | None = None
    """Of a stamped batch that is appended."""


class StaleError(Exception):
    """Event types or producers are others by now than these requests were made ready for; nothing was written."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests


class _Judge:
    """Decides about one stamped request, whose producer is locked."""

    def __init__(self, tx: Tx, request: Request, key: ProducerKey, producer: Producer | None, modulus: int) -> None:
        assert request.stamped is not None
        assert request.ready is not None
        self._tx = tx
        self._request = request
        self._key = key
        self._ready = request.ready
        self._stamped = request.stamped
        self._producer = producer
        self._modulus = modulus

    def verdict(self) -> Verdict:
        """Return what becomes of it."""
        producer, stamped = self._producer, self._stamped
        found = decide(producer.state if producer else None, stamped.stamp, stamped.events, self._modulus)
        if isinstance(found, Append):
            return self._append(Reservation(stamped, self._key, producer, found.state))
        if isinstance(found, Gap):
            return self._refused(SequenceGap, BatchPresence(False if producer else None), expected=found.expected)
        assert producer is not None
        if isinstance(found, Repeat):
            return self._repeated(producer, found)
        kind = ProducerFenced if isinstance(found, Fenced) else ProducerStateExpired
        assert isinstance(found, Fenced | Expired)
        committed = find_committed(self._tx, producer, stamped.stamp, stamped.digests, self._modulus)
        return self._refused(kind, committed)

    def _append(self, taking: Reservation) -> Verdict:
        ready = self._ready
        if isinstance(ready, Unpublishable):
            return Verdict(self._request, told=ready.error)
        return Verdict(self._request, ready.without_first(taking.known) if taking.known else ready, taking=taking)

    def _repeated(self, producer: Producer, repeat: Repeat) -> Verdict:
        stamped, known = self._stamped, repeat.known
        stored = self._tx.producers.batches(producer.id, repeat.state.epoch, repeat.first, repeat.first + known)
        found = compare(stored, repeat.first, stamped.digests[: known * DIGEST_BYTES])
        if isinstance(found, Mismatch):
            return self._refused(PayloadMismatch, BatchPresence(False), differs_at=found.number % self._modulus)
        if isinstance(found, ForgottenSequences):
            return self._refused(SequenceTooOld, BatchPresence(None))
        if known == stamped.events:
            told = _produced("duplicate", stamped, repeat.state, found, self._modulus)
            return Verdict(self._request, told=Published(self._ready.feed, 0, {}, told))
        if not stamped.trims:
            return self._refused(SequenceOverlap, BatchPresence(False, found))
        return self._append(Reservation(stamped, self._key, producer, repeat.state, found, known))

    def _refused(self, kind: type[ProducerUnsafe], committed: BatchPresence, **more: Any) -> Verdict:
        state = self._producer.state if self._producer else None
        stamped = self._stamped
        told = {
            "producer_group": stamped.who.group,
            "partition": stamped.who.partition,
            "received": stamped.stamp.sequence,
            "current_epoch": state.epoch if state else None,
            "next_sequence": state.next % self._modulus if state and not state.is_expired else None,
        }
        return Verdict(self._request, told=kind(**told, **more, **committed.fields))


def counts_toward_limit(producer: Producer | None) -> bool:
    """Tell whether it is one of those that there can only be so many of: one that has expired begins like a new one."""
    return producer is not None and not producer.state.is_expired


def find_excess(tx: Tx, who: ProducerName, partition_id: int, begun: int = 0) -> TooManyProducers | None:
    """Return why none may begin in a partition, so many having *begun* that are not in the table yet; None: it may."""
    if tx.producers.count(partition_id) + begun < PRODUCERS_MAX:
        return None
    return TooManyProducers(event_type=who.event_type, partition=who.partition, limit=PRODUCERS_MAX)


def _recorded(tx: Tx, taking: Reservation, now: int) -> int | None:
    """Return the id of the producer, recorded with the epoch in which it goes on; None: somebody else did."""
    producer, state = taking.producer, taking.state
    if producer is None:
        return tx.producers.insert(taking.key, state, now, claim_id=None, is_pinned=False)
    if producer.state.epoch != state.epoch:
        tx.producers.update(producer._replace(state=state, claim_id=None, updated_at=now))
    return producer.id


def _batch(producer_id: int, taking: Reservation, published: Published) -> NewBatch:
    stamped, state = taking.stamped, taking.state
    offset = published.next_offsets[stamped.who.partition] - published.events
    return NewBatch(
        producer_id, state.epoch, StoredBatch(state.next, offset, stamped.digests[taking.known * DIGEST_BYTES :])
    )


def _appended(taking: Reservation, published: Published, modulus: int) -> ProducerResult:
    stop = published.next_offsets[taking.stamped.who.partition]
    ranges = [*taking.repeated, OffsetRange(stop - published.events, stop - 1)]
    state = taking.state.with_appended(published.events, stop - 1)
    return _produced("trimmed" if taking.repeated else "appended", taking.stamped, state, ranges, modulus)


def _produced(
    outcome: Outcome, stamped: NumberedBatch, state: ProducerState, ranges: Sequence[OffsetRange], modulus: int
) -> ProducerResult:
    first = stamped.stamp.sequence
    last = (first + stamped.events - 1) % modulus
    return ProducerResult(outcome, state.epoch, first, last, state.next % modulus, ranges)
