"""Keeps idempotent producers' numbers, inside the transactions that append (digest of idempotent publishing, 4.3).

Invariants:
    A producer is locked before it is decided about, and before the heads of partitions are.
    Nothing of a batch that is refused is stored, and none of its numbers is used up.
    A refusal tells what of the batch is stored.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from penstock.core.producers import (
    DIGEST_BYTES,
    MODULUS,
    Append,
    Expired,
    Fenced,
    Forgotten,
    Gap,
    Mismatch,
    Range,
    Repeat,
    State,
    Stored,
    compare,
    decide,
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
from penstock.hub.append import Published
from penstock.hub.committed import Committed, find_committed
from penstock.hub.ledger import Turns, advance
from penstock.hub.publish import Prepared, Unfit
from penstock.hub.request import Request, Told
from penstock.hub.stamped import Outcome, Produced, Stamped, Who
from penstock.storage.producers import NewBatch, Producer, ProducerKey
from penstock.storage.store import Tx

PRODUCERS_MAX: Final = 10_000
"""How many producer groups may publish to a partition."""


class Taking(NamedTuple):
    """The numbers that a batch takes."""

    stamped: Stamped
    key: ProducerKey
    producer: Producer | None
    """As it was locked; None: nobody has heard of it."""
    state: State
    """In which the batch is appended."""
    repeated: Sequence[Range] = ()
    """Where the beginning of the batch lies already."""
    known: int = 0
    """How many of its events that are."""


class Verdict(NamedTuple):
    """What becomes of a request: it is appended, or its publisher is *told* what there is to say already."""

    request: Request
    appends: Prepared | None = None
    told: Published | PenstockError | None = None
    taking: Taking | None = None
    """Of a stamped batch that is appended."""


class StaleError(Exception):
    """Event types or producers are others by now than these requests were made ready for; nothing was written."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests


def judge(tx: Tx, requests: Sequence[Request], moved: Iterable[Prepared], modulus: int = MODULUS) -> Sequence[Verdict]:
    """Return what becomes of each of *requests*, having locked the batches and the producers of those that have some.

    *moved* goes into the log with them: where any has, the event types of all are locked before that.

    Raises:
        StaleError: the event types of some are not what they were.
    """
    keys = [request.producer_key for request in requests]
    wanted = sorted(key for key in keys if key is not None)
    pieces = [request.piece for request in requests if request.piece is not None]
    if not (wanted or pieces):
        return [Verdict(request, _appendable(request)) for request in requests]
    going = [*moved, *(request.ready for request in requests if isinstance(request.ready, Prepared))]
    partition_ids = {number for number, _ in wanted}.union(*(batch.partition_ids for batch in going))
    turns = Turns(tx, pieces, sorted(partition_ids))
    producers = tx.producers.lock(wanted, sorted(partition_ids)) if wanted else {}
    missed = [request for request, key in zip(requests, keys, strict=True) if key and key not in producers]
    if missed:
        raise StaleError(missed)
    begun: Counter[int] = Counter()
    verdicts = []
    for request, key in zip(requests, keys, strict=True):
        if key is None:
            verdicts.append(_plain(request, turns))
            continue
        verdict = _Judge(tx, request, key, producers[key], modulus).verdict()
        if verdict.taking is not None and not is_counted(producers[key]):
            error = too_many(tx, verdict.taking.stamped.who, key[0], begun[key[0]])
            verdict = Verdict(request, told=error) if error else verdict
            begun[key[0]] += 1
        verdicts.append(verdict)
    return verdicts


def record(
    tx: Tx, verdicts: Iterable[Verdict], results: Iterable[Published | None], now: int, modulus: int = MODULUS
) -> list[Told]:
    """Record what was appended, with *results*, of producers and of staged batches; return what each publisher is told.

    Raises:
        StaleError: another hub has heard of a producer first.
    """
    told: list[Told] = []
    batches = []
    for verdict, published in zip(verdicts, results, strict=True):
        if verdict.taking is None or published is None:
            if verdict.request.piece is not None and verdict.appends is not None and published is not None:
                advance(tx, verdict.request.piece, verdict.appends, published, now)
            told.append(published or verdict.told)
            continue
        producer_id = _recorded(tx, verdict.taking, now)
        if producer_id is None:
            raise StaleError([verdict.request])
        batches.append(_batch(producer_id, verdict.taking, published))
        told.append(published._replace(produced=_appended(verdict.taking, published, modulus)))
    if batches:
        tx.producers.append(batches, now)
    return told


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
            return self._append(Taking(stamped, self._key, producer, found.state))
        if isinstance(found, Gap):
            return self._refused(SequenceGap, Committed(False if producer else None), expected=found.expected)
        assert producer is not None
        if isinstance(found, Repeat):
            return self._repeated(producer, found)
        kind = ProducerFenced if isinstance(found, Fenced) else ProducerStateExpired
        assert isinstance(found, Fenced | Expired)
        committed = find_committed(self._tx, producer, stamped.stamp, stamped.digests, self._modulus)
        return self._refused(kind, committed)

    def _append(self, taking: Taking) -> Verdict:
        ready = self._ready
        if isinstance(ready, Unfit):
            return Verdict(self._request, told=ready.error)
        return Verdict(self._request, ready.without_first(taking.known) if taking.known else ready, taking=taking)

    def _repeated(self, producer: Producer, repeat: Repeat) -> Verdict:
        stamped, known = self._stamped, repeat.known
        stored = self._tx.producers.batches(producer.id, repeat.state.epoch, repeat.first, repeat.first + known)
        found = compare(stored, repeat.first, stamped.digests[: known * DIGEST_BYTES])
        if isinstance(found, Mismatch):
            return self._refused(PayloadMismatch, Committed(False), differs_at=found.number % self._modulus)
        if isinstance(found, Forgotten):
            return self._refused(SequenceTooOld, Committed(None))
        if known == stamped.events:
            told = _produced("duplicate", stamped, repeat.state, found, self._modulus)
            return Verdict(self._request, told=Published(self._ready.feed, 0, {}, told))
        if not stamped.trims:
            return self._refused(SequenceOverlap, Committed(False, found))
        return self._append(Taking(stamped, self._key, producer, repeat.state, found, known))

    def _refused(self, kind: type[ProducerUnsafe], committed: Committed, **more: Any) -> Verdict:
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


def is_counted(producer: Producer | None) -> bool:
    """Tell whether it is one of those that there can only be so many of: one that has expired begins like a new one."""
    return producer is not None and not producer.state.is_expired


def too_many(tx: Tx, who: Who, partition_id: int, begun: int = 0) -> TooManyProducers | None:
    """Return why none may begin in a partition, so many having *begun* that are not in the table yet; None: it may."""
    if tx.producers.count(partition_id) + begun < PRODUCERS_MAX:
        return None
    return TooManyProducers(event_type=who.event_type, partition=who.partition, limit=PRODUCERS_MAX)


def _plain(request: Request, turns: Turns) -> Verdict:
    """Return what becomes of one that is not stamped."""
    if request.piece is not None and not turns.take(request.piece):
        return Verdict(request)
    if isinstance(request.ready, Unfit):
        return Verdict(request, told=request.ready.error)
    return Verdict(request, request.ready)


def _appendable(request: Request) -> Prepared | None:
    """Return what is to be appended of one that is not stamped."""
    assert not isinstance(request.ready, Unfit)
    return request.ready


def _recorded(tx: Tx, taking: Taking, now: int) -> int | None:
    """Return the id of the producer, recorded with the epoch in which it goes on; None: somebody else did."""
    producer, state = taking.producer, taking.state
    if producer is None:
        return tx.producers.insert(taking.key, state, now, claim_id=None, is_pinned=False)
    if producer.state.epoch != state.epoch:
        tx.producers.update(producer._replace(state=state, claim_id=None, updated_at=now))
    return producer.id


def _batch(producer_id: int, taking: Taking, published: Published) -> NewBatch:
    stamped, state = taking.stamped, taking.state
    offset = published.next_offsets[stamped.who.partition] - published.events
    return NewBatch(
        producer_id, state.epoch, Stored(state.next, offset, stamped.digests[taking.known * DIGEST_BYTES :])
    )


def _appended(taking: Taking, published: Published, modulus: int) -> Produced:
    stop = published.next_offsets[taking.stamped.who.partition]
    ranges = [*taking.repeated, Range(stop - published.events, stop - 1)]
    state = taking.state.with_appended(published.events, stop - 1)
    return _produced("trimmed" if taking.repeated else "appended", taking.stamped, state, ranges, modulus)


def _produced(outcome: Outcome, stamped: Stamped, state: State, ranges: Sequence[Range], modulus: int) -> Produced:
    first = stamped.stamp.sequence
    last = (first + stamped.events - 1) % modulus
    return Produced(outcome, state.epoch, first, last, state.next % modulus, ranges)
