"""Idempotent producers: grant claims, report progress, find out whether a batch is stored, and expire idle producers.

docs/decisions/idempotent-producers.md has the rules and the times.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, Unpack

from penstock.core.access import Sender
from penstock.core.events.event import NewEvent
from penstock.core.producers import (
    ClaimDenied,
    EpochClaim,
    EpochsExhausted,
    ProducerStamp,
    ProducerState,
    digests_of,
    grant,
)
from penstock.errors import (
    ClaimRefused,
    DatabaseUnavailable,
    EpochExhausted,
    InvalidSetting,
    MalformedRequest,
    OutcomeUnknown,
    PartitionNotFound,
    ProducerNotFound,
    RequestTooLarge,
    Unavailable,
)
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.hub.log.publish import (
    AppendResult,
    NewEvents,
    NumberedBatch,
    Preparation,
    ProducerName,
    PublishOptions,
    PublishRequest,
    digest_input,
    find_refusal,
)
from penstock.hub.producers.owners import ProducerOwners
from penstock.hub.producers.sequencing import BatchPresence, counts_toward_limit, find_committed, find_excess
from penstock.storage.producers import BatchWindow, Producer, ProducerKey
from penstock.storage.store import Store, Tx

DAY_SECONDS: Final = 86_400
TTL_SECONDS_MIN: Final = 240
"""Twice the default time for which clients retry a batch."""
BATCHES_KEPT: Final = 16
"""The number of batches of a producer that stay known, whatever their age, and after their events were removed."""


class Expiry(NamedTuple):
    """The idle times after which a producer expires, and after which its epoch is forgotten, in seconds."""

    ttl_seconds: float = 7 * DAY_SECONDS
    floor_seconds: float = 30 * DAY_SECONDS

    def check(self) -> "Expiry":
        """Return self; raise InvalidSetting if a producer could expire while a client retries its last batch."""
        if self.ttl_seconds < TTL_SECONDS_MIN:
            least = f"{TTL_SECONDS_MIN} or more, twice what a client may send a batch for"
            reason = f"is {self.ttl_seconds:g} s; it has to be {least}"
            raise InvalidSetting(field="producer_ttl", reason=reason)
        return self

    def expires_at(self, producer: Producer) -> int | None:
        """Return the time at which *producer* expires if it stays idle; None if it is pinned or has expired."""
        if producer.is_pinned or producer.state.is_expired:
            return None
        return producer.updated_at + int(self.ttl_seconds * 1_000_000)


RACES_MAX: Final = 10
_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32, in which ULIDs are written."""


class ProducerStatus(NamedTuple):
    """A producer with its window and expiry."""

    producer: Producer
    window: BatchWindow | None
    expires_at: int | None
    """The time at which it expires if it stays idle, in microseconds since 1970; None for never."""


class Prepare(Protocol):
    """Prepares events for the log: see `penstock.hub.log.log.Log.prepare`."""

    def __call__(self, name: str, handed: NewEvents, *, exact: bool = False, rechecks: bool = True) -> Preparation:
        """Return events ready for the log, or the reason why they cannot be appended."""


class Producers:
    """The idempotent producers of one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        expiry: Expiry,
        modulus: int,
        *,
        prepare: Prepare,
        submit: "Callable[[PublishRequest], Future[AppendResult | None]]",
    ) -> None:
        """Sequence numbers are counted modulo *modulus*.

        *prepare* is `Log.prepare`, *submit* queues a request for the committer.
        """
        self._store = store
        self._clock = clock
        self._expiry = expiry
        self._prepare = prepare
        self._enqueue = submit
        self.modulus = modulus
        self.owners = ProducerOwners(store)
        self.ttl_seconds = expiry.ttl_seconds

    def submit(
        self,
        who: ProducerName,
        stamp: ProducerStamp,
        events: Sequence[NewEvent],
        lines: Sequence[int] | None = None,
        *,
        rechecks: bool = True,
        trims: bool = False,
        deadline: float | None = None,
        **how: Unpack[PublishOptions],
    ) -> "Future[AppendResult | None]":
        """Queue *events* as `Log.submit` does, and store each at most once, by the sequence numbers of *stamp*.

        With *trims*, events that follow a stored beginning of the batch are appended. A batch that is still queued at
        *deadline*, in seconds of the monotonic clock, is dropped.

        Raises:
            MalformedRequest, MalformedEvent, EventTypeNotFound, PartitionNotFound, RequestTooLarge: nothing was queued.
            ProducerUnsafe: set on the future; the sequence numbers do not continue what is stored.
            InvalidEvent, EventTooLarge: set on the future; the events are new and not valid.
        """
        if not events:
            raise MalformedRequest.of(
                "malformed-batch", "there are no events to give numbers to", reason="it has no events"
            )
        if 2 * len(events) >= self.modulus:
            raise RequestTooLarge.of("too-many-events", limit=(self.modulus - 1) // 2)
        handed = NewEvents(events, lines, **how)._replace(partition=who.partition)
        stamped = NumberedBatch(who, stamp, digests_of(map(digest_input, events)), trims, deadline)
        found = self._prepare(who.event_type, handed, exact=True, rechecks=rechecks)
        if error := find_refusal(found, exact=rechecks):
            raise error
        return self._enqueue(PublishRequest(who.event_type, handed, found, stamped=stamped))

    def find(self, who: ProducerName) -> ProducerStatus:
        """Return the status of a producer.

        Raises:
            EventTypeNotFound, PartitionNotFound, ProducerNotFound: there is no such producer.
        """
        with self._store.read() as tx:
            producer = _require(who, tx.producers.find([key := _find_key(tx, who)]).get(key))
            return self._make_status(producer, tx.producers.find_window(producer.id, producer.state.epoch))

    def list(self, event_type: str, partition: int, *, after: str, limit: int) -> Sequence[ProducerStatus]:
        """Return up to *limit* producers of a partition with names after *after*, sorted by name.

        Raises:
            EventTypeNotFound, PartitionNotFound: there is no such partition.
        """
        with self._store.read() as tx:
            partition_id, _ = _find_key(tx, ProducerName(event_type, partition, ""))
            found = tx.producers.list(partition_id, after=after, limit=limit)
        return [self._make_status(producer) for producer in found]

    def find_presence(
        self, who: ProducerName, sequence: int, events: int, epoch: int | None = None
    ) -> tuple[int, BatchPresence]:
        """Return whether a batch of *events* events is stored, and its epoch, by default the current one.

        Raises:
            EventTypeNotFound, PartitionNotFound, ProducerNotFound: there is no such producer.
        """
        with self._store.read() as tx:
            producer = _require(who, tx.producers.find([key := _find_key(tx, who)]).get(key))
            stamp = ProducerStamp(producer.state.epoch if epoch is None else epoch, sequence)
            return stamp.epoch, find_committed(tx, producer, stamp, events, self.modulus)

    def claim(self, who: ProducerName, claim: EpochClaim) -> ProducerStatus:
        """Grant an epoch to a producer, which fences all producers with a lower epoch.

        Raises:
            EventTypeNotFound, PartitionNotFound: there is no such partition.
            ClaimRefused, EpochExhausted, LimitReached: the claim cannot be granted.
            DatabaseUnavailable: it may have been granted; repeat a claim that has an id.
        """
        for _ in range(RACES_MAX):
            try:
                with self._store.write() as tx:
                    found = self._claim(tx, who, claim)
            except OutcomeUnknown as error:
                raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error
            if found is not None:
                return self._make_status(found)
        raise Unavailable(f"others keep claiming {who.group!r}", retry_after=1)

    def forget(self, who: ProducerName, by: Sender | None = None) -> None:
        """Expire a producer now: batches of its epoch are refused from then on.

        Raises:
            EventTypeNotFound, PartitionNotFound, ProducerNotFound: there is no such producer.
        """
        with self._store.write() as tx:
            key = _find_key(tx, who)
            producer = _require(who, tx.producers.find([key], lock=[key[0]]).get(key))
            if not producer.state.is_expired:
                tx.producers.update(expire(producer, self._clock()))
                shown = {"event_type": who.event_type, "partition": str(who.partition), "group": who.group}
                change = AuditedChange("producer", who.group, shown | {"epoch": producer.state.epoch}, None)
                record_change(tx, change, by, self._clock())

    def _claim(self, tx: Tx, who: ProducerName, claim: EpochClaim) -> Producer | None:
        """Return the producer with its epoch; None if another claim came first, and the call has to be repeated."""
        key = _find_key(tx, who)
        locked = tx.producers.find([key], lock=[key[0]])
        if key not in locked:
            return None
        producer = locked[key]
        state = self._grant(who, producer, claim)
        if not counts_toward_limit(producer):
            tx.log.find_heads([key[0]], lock=True)  # Two claims at once could exceed the limit.
            if (error := find_excess(tx, who, key[0])) is not None:
                raise error
        if producer is None:
            return self._insert(tx, who, state, claim)
        claim_id = claim.claim_id if state is not producer.state else producer.claim_id
        is_pinned = producer.is_pinned if claim.is_pinned is None else claim.is_pinned
        producer = producer._replace(state=state, claim_id=claim_id, is_pinned=is_pinned, updated_at=self._clock())
        tx.producers.update(producer)
        return producer

    def _grant(self, who: ProducerName, producer: Producer | None, claim: EpochClaim) -> ProducerState:
        state, last_claim = (producer.state, producer.claim_id) if producer else (None, None)
        found = grant(state, last_claim, claim, self.modulus)
        if isinstance(found, ProducerState):
            return found
        fields = {
            "producer_group": who.group,
            "partition": who.partition,
            "current_epoch": state.epoch if state else None,
            "next_sequence": state.next % self.modulus if state and not state.is_expired else None,
        }
        if isinstance(found, ClaimDenied):
            raise ClaimRefused(**fields, wanted=found.wanted)
        assert isinstance(found, EpochsExhausted)
        raise EpochExhausted(**fields)

    def _insert(self, tx: Tx, who: ProducerName, state: ProducerState, claim: EpochClaim) -> Producer | None:
        key, now, is_pinned = _find_key(tx, who), self._clock(), bool(claim.is_pinned)
        found = tx.producers.insert(key, state, now, claim_id=claim.claim_id, is_pinned=is_pinned)
        return None if found is None else Producer(found, *key, state, claim.claim_id, is_pinned, now)

    def _make_status(self, producer: Producer, window: BatchWindow | None = None) -> ProducerStatus:
        return ProducerStatus(producer, window, self._expiry.expires_at(producer))


def _find_key(tx: Tx, who: ProducerName) -> ProducerKey:
    feed = tx.registry.get(who.event_type)
    if who.partition >= feed.partition_count:
        fields = {"event_type": feed.name, "partition": who.partition, "partition_count": feed.partition_count}
        raise PartitionNotFound(**fields)
    return feed.partition_ids[who.partition], who.group


def _require(who: ProducerName, producer: Producer | None) -> Producer:
    if producer is None:
        raise ProducerNotFound(event_type=who.event_type, partition=who.partition, producer_group=who.group)
    return producer


def expire(producer: Producer, now: int) -> Producer:
    """Return *producer* expired: only its epoch is left, above which the next one has to begin."""
    state = ProducerState(producer.state.epoch, 0, 0, is_expired=True)
    return producer._replace(state=state, claim_id=None, is_pinned=False, updated_at=now)


def new_group(claim_id: str | None = None) -> str:
    """Return a new unique name: a ULID (github.com/ulid/spec), of the current milliseconds and 80 random bits.

    With *claim_id* the name is derived from it alone, so that a repeated claim names the same group.
    """
    if claim_id is None:
        number = (time.time_ns() // 1_000_000 << 80) + int.from_bytes(os.urandom(10))
    else:
        number = int.from_bytes(blake2b(claim_id.encode(), digest_size=16).digest())
    return "".join(_LETTERS[number >> shift & 31] for shift in range(125, -1, -5))
