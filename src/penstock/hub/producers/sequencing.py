"""Judges numbered batches inside the append transaction, and looks up whether a batch of any epoch is stored.

The rules are those of `penstock.core.producers`; docs/decisions/idempotent-producers.md explains them.

Invariants:
    A producer is locked before it is judged, and before the heads of partitions are locked.
    A refused batch stores nothing and uses no sequence number.
    A refusal says which part of the batch is stored.
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
    compare,
    decide,
    find_assigned_sequences,
    locate,
)
from penstock.errors import (
    LimitReached,
    OutOfSequence,
    PayloadMismatch,
    PenstockError,
    ProducerFenced,
    ProducerStateExpired,
    ProducerUnsafe,
)
from penstock.hub.log.publish import (
    AppendResult,
    NumberedBatch,
    Prepared,
    ProducerName,
    ProducerResult,
    PublishOutcome,
    PublishRequest,
    Unpublishable,
)
from penstock.storage.producers import AppendedBatch, Producer, ProducerKey
from penstock.storage.store import Tx


class BatchPresence(NamedTuple):
    """The stored part of a batch, as far as the hub still knows it."""

    whole: bool | None
    """True if the whole batch is stored; None if the hub no longer knows."""
    ranges: Sequence[OffsetRange] = ()
    """The offsets of the events of the batch that are stored."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of an error."""
        return {"committed": self.whole, "ranges": ranges_as_json(self.ranges)}


def ranges_as_json(ranges: Sequence[OffsetRange]) -> list[dict[str, int]]:
    """Return *ranges* in the JSON shape of the wire."""
    return [each._asdict() for each in ranges]


def find_committed(
    tx: Tx, producer: Producer, stamp: ProducerStamp, events: int | bytes, modulus: int
) -> BatchPresence:
    """Return which events of a batch are stored; *events* is their number, or their digests one after the other.

    With digests, other events that are stored under the same sequence numbers do not count.
    """
    digests = events if isinstance(events, bytes) else None
    count = events if isinstance(events, int) else len(events) // DIGEST_BYTES
    ending = _find_end(tx, producer, stamp.epoch)
    if ending is None:
        return BatchPresence(None if _can_have_existed(producer.state, stamp.epoch) else False)
    numbers = find_assigned_sequences(ending, stamp.sequence, count, modulus)
    if not numbers:
        return BatchPresence(False)
    stored = tx.producers.list_batches(producer.id, stamp.epoch, numbers.start, numbers.stop)
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


def _find_end(tx: Tx, producer: Producer, epoch: int) -> EpochEnd | None:
    state = producer.state
    if epoch == state.epoch and not state.is_expired:
        return state.ending
    if state.previous is not None and epoch == state.previous.epoch:
        return state.previous
    return tx.producers.find_window(producer.id, epoch).ending


def _can_have_existed(state: ProducerState, epoch: int) -> bool:
    """Return whether *epoch* may have existed and been forgotten."""
    if epoch > state.epoch or (epoch == state.epoch and not state.is_expired):
        return False
    return state.previous is None or epoch < state.previous.epoch


PRODUCERS_MAX: Final = 10_000
"""How many producer groups may publish to a partition."""


class Reservation(NamedTuple):
    """The sequence numbers that a batch is about to use."""

    stamped: NumberedBatch
    key: ProducerKey
    producer: Producer | None
    """The locked producer; None if it is new."""
    state: ProducerState
    """The producer's state before the batch is appended, in the epoch of the batch."""
    repeated: Sequence[OffsetRange] = ()
    """The offsets of the beginning of the batch that is already stored."""
    known: int = 0
    """The number of events that are already stored."""


class Verdict(NamedTuple):
    """The decision about a request: append *appends*, or answer with *result* without appending."""

    request: PublishRequest
    appends: Prepared | None = None
    result: AppendResult | PenstockError | None = None
    reservation: Reservation | None = None
    """The sequence numbers of a numbered batch that is appended."""


class StaleError(Exception):
    """Event types or producers have changed since these requests were prepared; nothing was written."""

    def __init__(self, requests: Sequence[PublishRequest]) -> None:
        self.requests = requests


class _BatchJudge:
    """Judges one numbered batch, whose producer is locked."""

    def __init__(
        self, tx: Tx, request: PublishRequest, key: ProducerKey, producer: Producer | None, modulus: int
    ) -> None:
        assert request.stamped is not None
        assert request.ready is not None
        self._tx = tx
        self._request = request
        self._key = key
        self._ready = request.ready
        self._stamped = request.stamped
        self._producer = producer
        self._modulus = modulus

    def judge(self) -> Verdict:
        producer, stamped = self._producer, self._stamped
        found = decide(producer.state if producer else None, stamped.stamp, stamped.events, self._modulus)
        if isinstance(found, Append):
            return self._append(Reservation(stamped, self._key, producer, found.state))
        if isinstance(found, Gap):
            return self._refuse(
                OutOfSequence, BatchPresence(False if producer else None), "sequence-gap", expected=found.expected
            )
        assert producer is not None
        if isinstance(found, Repeat):
            return self._judge_repeat(producer, found)
        kind = ProducerFenced if isinstance(found, Fenced) else ProducerStateExpired
        assert isinstance(found, Fenced | Expired)
        committed = find_committed(self._tx, producer, stamped.stamp, stamped.digests, self._modulus)
        return self._refuse(kind, committed)

    def _append(self, reservation: Reservation) -> Verdict:
        ready = self._ready
        if isinstance(ready, Unpublishable):
            return Verdict(self._request, result=ready.error)
        return Verdict(
            self._request,
            ready.without_first(reservation.known) if reservation.known else ready,
            reservation=reservation,
        )

    def _judge_repeat(self, producer: Producer, repeat: Repeat) -> Verdict:
        stamped, known = self._stamped, repeat.known
        stored = self._tx.producers.list_batches(producer.id, repeat.state.epoch, repeat.first, repeat.first + known)
        found = compare(stored, repeat.first, stamped.digests[: known * DIGEST_BYTES])
        if isinstance(found, Mismatch):
            return self._refuse(PayloadMismatch, BatchPresence(False), differs_at=found.number % self._modulus)
        if isinstance(found, ForgottenSequences):
            return self._refuse(OutOfSequence, BatchPresence(None), "sequence-too-old")
        if known == stamped.events:
            produced = _make_result("duplicate", stamped, repeat.state, found, self._modulus)
            return Verdict(self._request, result=AppendResult(self._ready.feed, 0, {}, produced))
        if not stamped.trims:
            return self._refuse(OutOfSequence, BatchPresence(False, found), "sequence-overlap")
        return self._append(Reservation(stamped, self._key, producer, repeat.state, found, known))

    def _refuse(
        self, kind: type[ProducerUnsafe], committed: BatchPresence, code: str | None = None, **more: Any
    ) -> Verdict:
        state = self._producer.state if self._producer else None
        stamped = self._stamped
        fields = {
            "producer_group": stamped.who.group,
            "partition": stamped.who.partition,
            "received": stamped.stamp.sequence,
            "current_epoch": state.epoch if state else None,
            "next_sequence": state.next % self._modulus if state and not state.is_expired else None,
        }
        return Verdict(self._request, result=kind.of(code or kind.code, **fields, **more, **committed.fields))


def counts_toward_limit(producer: Producer | None) -> bool:
    """Return whether *producer* counts toward `PRODUCERS_MAX`; an expired producer starts again like a new one."""
    return producer is not None and not producer.state.is_expired


def judge_batch(tx: Tx, request: PublishRequest, key: ProducerKey, producer: Producer | None, modulus: int) -> Verdict:
    """Decide about the numbered batch of *request*, whose *producer* is locked."""
    return _BatchJudge(tx, request, key, producer, modulus).judge()


def find_excess(tx: Tx, who: ProducerName, partition_id: int, begun: int = 0) -> LimitReached | None:
    """Return an error if a partition has no room for another producer; *begun* new ones are not in the table yet."""
    if tx.producers.count(partition_id) + begun < PRODUCERS_MAX:
        return None
    return LimitReached.of(
        "too-many-producers", event_type=who.event_type, partition=who.partition, limit=PRODUCERS_MAX
    )


def record_producer(tx: Tx, reservation: Reservation, now: int) -> int | None:
    """Record the epoch of a producer and return its id; None if another hub has inserted the producer first."""
    producer, state = reservation.producer, reservation.state
    if producer is None:
        return tx.producers.insert(reservation.key, state, now, claim_id=None, is_pinned=False)
    if producer.state.epoch != state.epoch:
        tx.producers.update(producer._replace(state=state, claim_id=None, updated_at=now))
    return producer.id


def make_batch_row(producer_id: int, reservation: Reservation, published: AppendResult) -> AppendedBatch:
    """Return the ledger row of a batch that was just appended."""
    stamped, state = reservation.stamped, reservation.state
    offset = published.next_offsets[stamped.who.partition] - published.events
    return AppendedBatch(
        producer_id, state.epoch, StoredBatch(state.next, offset, stamped.digests[reservation.known * DIGEST_BYTES :])
    )


def make_result(reservation: Reservation, published: AppendResult, modulus: int) -> ProducerResult:
    """Return the result of a batch that was just appended."""
    stop = published.next_offsets[reservation.stamped.who.partition]
    ranges = [*reservation.repeated, OffsetRange(stop - published.events, stop - 1)]
    state = reservation.state.advance(published.events, stop - 1)
    return _make_result("trimmed" if reservation.repeated else "appended", reservation.stamped, state, ranges, modulus)


def _make_result(
    outcome: PublishOutcome, stamped: NumberedBatch, state: ProducerState, ranges: Sequence[OffsetRange], modulus: int
) -> ProducerResult:
    first = stamped.stamp.sequence
    last = (first + stamped.events - 1) % modulus
    return ProducerResult(outcome, state.epoch, first, last, state.next % modulus, ranges)
