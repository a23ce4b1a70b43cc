"""State of an idempotent producer in one partition: its epoch, its next sequence number, and its unresolved batch.

`PlainValues` recognizes values that were passed in without an Event. The functions classify the errors of an attempt.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

from penstock.client.log.publishing import Event, Publication
from penstock.client.producers.options import CallOutcome, PartitionPublishingOptions, PublishResult
from penstock.core.producers import MODULUS, OffsetRange
from penstock.errors import (
    LimitReached,
    MalformedAnswer,
    OutcomeUnknown,
    OutOfSequence,
    PenstockError,
    ProducerUnsafe,
    RetriesExhausted,
    ServerError,
    ServerStateRegressed,
)
from penstock.wire import producers as wire
from penstock.wire.http import is_not_applied, is_transient
from penstock.wire.producers import ProducerProperties

VALUES_MAX: Final = 100_000
"""Maximum number of remembered values; the oldest are forgotten first."""


class PlainValues:
    """Values whose outcome is not reported yet, and their events; recognized by identity and content."""

    def __init__(self) -> None:
        self._kept: dict[int, list[Event]] = {}

    def events(self, values: Sequence[Any]) -> list[Event]:
        """Return *values* as events, with the remembered event for each remembered value.

        An object that occurs several times counts as several events.
        """
        if not self._kept:
            return [Event.of(value) for value in values]
        seen: Counter[int] = Counter()
        return [self._event(value, seen) for value in values]

    def keep(self, events: Sequence[Event], values: Sequence[Any]) -> None:
        """Remember the *events*, already encoded, that were made of *values*."""
        for event, value in zip(events, values, strict=True):
            if event is value:
                continue
            kept = self._kept.setdefault(id(event.data), [])
            if all(each is not event for each in kept):
                kept.append(event)

    def drop(self, events: Sequence[Event]) -> None:
        """Forget *events*: their outcome is reported."""
        for event in events if self._kept else ():
            kept = self._kept.get(id(event.data), [])
            kept[:] = [each for each in kept if each is not event]
            if not kept:
                self._kept.pop(id(event.data), None)

    def drop_oldest(self) -> None:
        """Forget the oldest values above the maximum."""
        for oldest in list(self._kept)[: max(0, len(self._kept) - VALUES_MAX)]:
            del self._kept[oldest]

    def _event(self, value: Any, seen: Counter[int]) -> Event:
        event = Event.of(value)
        kept = self._kept.get(id(event.data), ())
        at = seen[id(event.data)]
        if event is value or at >= len(kept):
            return event
        if not kept[at].is_like(event):
            return event
        seen[id(event.data)] += 1
        return kept[at]


LAST_SECONDS: Final = 0.1
"""Minimum timeout of the last attempt, in seconds."""
Status: TypeAlias = Literal["new", "ready", "unresolved", "failed"]


class SequencedBatch(NamedTuple):
    """Events with sequence numbers, and their encoded body, which is the same in each attempt."""

    epoch: int
    first: int
    events: Sequence[Event]
    body: bytes


class AbandonedError(Exception):
    """The caller no longer waits for the call, which must not change any state."""


class ProducerCall:
    """One call of an idempotent producer. It may change state only while its caller waits for it."""

    def __init__(
        self,
        deadline: float,
        is_cancelled: Callable[[], bool] = lambda: False,
        values: Sequence[Any] = (),
        *,
        limit: tuple[str, float] = ("delivery_timeout", 0.0),
    ) -> None:
        """Begin a call.

        Args:
            deadline: The time at which it fails, on the monotonic clock.
            is_cancelled: Return whether the call is cancelled.
            values: The values to publish.
            limit: The parameter that determines the deadline, and its seconds.
        """
        self.deadline = deadline
        self.limit = limit
        self.is_cancelled = is_cancelled
        self.values = values
        self.events: Sequence[Event] = ()
        """The values as events, once they are converted."""
        self.attempts = 0
        self.is_ambiguous = False
        """True if an attempt has an unknown outcome."""
        self.in_flight = False
        """True if a batch was sent whose response has not arrived."""
        self.result: PublishResult | None = None
        """The result, as soon as the events are known to be stored."""
        self._over = False
        self._guard = threading.Lock()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the caller waiting during the block; raise AbandonedError if it no longer waits."""
        with self._guard:
            if self._over:
                raise AbandonedError
            yield

    def cap(self, seconds: float) -> float:
        """Return *seconds*, or the time to the deadline if that is shorter, but at least `LAST_SECONDS`."""
        return min(seconds, max(LAST_SECONDS, self.deadline - time.monotonic()))

    def check(self) -> None:
        """Raise AbandonedError if the call is cancelled or abandoned."""
        if self._over or self.is_cancelled():
            raise AbandonedError

    def abandon(self) -> None:
        """Stop waiting for the call: from here on it changes nothing."""
        with self._guard:
            self._over = True


class PartitionState:
    """The state of an idempotent producer in one partition. One call at a time uses it."""

    def __init__(self, partition: int, options: PartitionPublishingOptions) -> None:
        self.partition = partition
        self.options = options
        self.status: Status = "new"
        self.group = ""
        self.epoch = 0
        self.begun = 0
        """The first sequence number of this epoch that is known to be stored."""
        self.next = 0
        """The next sequence number."""
        self.remembered_seconds = math.inf
        """Seconds for which the hub remembers an inactive producer."""
        self.modulus = MODULUS
        self.last_offset: int | None = None
        self.last_published: int | None = None
        """The sequence number of the last event; None if there is none in this epoch."""
        self.claim_id = new_claim_id()
        """Id of the next claim until it is granted, so that it can be retried."""
        self.unresolved: SequencedBatch | None = None
        """The last batch sent, while its outcome is unknown."""
        self.error: ProducerUnsafe | None = None
        """The error after which the producer publishes no more to this partition."""
        self.settled: WeakKeyDictionary[Event, Publication] = WeakKeyDictionary()
        """Stored events whose call has failed, so that its caller does not know."""
        self.plain = PlainValues()
        """The values of those events that were not passed in as Event."""

    def adopt(self, shown: ProducerProperties) -> None:
        """Continue in the epoch that was granted."""
        assert shown.next_sequence is not None
        self.group, self.epoch, self.next = shown.producer_group, shown.epoch, shown.next_sequence
        self.begun = 0 if shown.last_offset is not None else self.next
        self.remembered_seconds = math.inf if shown.expires_at is None else shown.expires_after_seconds
        self.modulus = shown.sequence_modulus
        self.last_offset, self.last_published = shown.last_offset, shown.last_published_sequence
        self.claim_id = new_claim_id()
        self.mark_ready()

    def advance(self, count: int, ranges: Sequence[OffsetRange]) -> None:
        """Record that the next *count* events are stored."""
        self.next = (self.next + count) % self.modulus
        self.last_offset = ranges[-1].last
        self.last_published = (self.next - 1) % self.modulus
        self.mark_ready()

    def mark_unresolved(self, batch: SequencedBatch) -> None:
        """Record that the outcome of *batch* is unknown."""
        self.unresolved = batch
        self.status = "unresolved"

    def mark_ready(self) -> None:
        """Record that no outcome is unknown."""
        self.unresolved = None
        self.status = "ready"

    def fail(self, error: ProducerUnsafe) -> ProducerUnsafe:
        """Refuse further batches with *error*; return *error*."""
        self.status, self.error = "failed", error
        return error

    def check(self) -> None:
        """Raise the error after which the partition was closed, without the outcome of its batch."""
        if self.error is not None:
            error = copy_error(self.error)
            error.fields.pop("outcome", None)
            raise error

    def outcome(self, call: ProducerCall) -> CallOutcome:
        """Return whether any event of a failed call may be stored."""
        if call.is_ambiguous:
            return "unknown"
        open_ = set(map(id, self.unresolved.events)) if self.unresolved else set()
        is_open = any(id(each) in open_ for each in self.plain.events(call.values))
        return "unknown" if is_open or self.has_settled(call) else "not_stored"

    def has_settled(self, call: ProducerCall) -> bool:
        """Return whether any event of the call was found to be stored without its caller knowing."""
        return any(each in self.settled for each in self.plain.events(call.values))

    def settle(self, batch: SequencedBatch, ranges: Sequence[OffsetRange]) -> None:
        """Record that *batch* is stored, although its caller got an unknown outcome."""
        self.settled.update(zip(batch.events, self.publications(batch, ranges), strict=True))
        self.plain.drop_oldest()

    def are_settled(self, events: Sequence[Event]) -> bool:
        """Return whether all of *events* were found to be stored."""
        return all(event in self.settled for event in events)

    def confirm(self, events: Sequence[Event]) -> None:
        """Report to *events* where they are stored, including those found to be stored earlier."""
        for event in events if self.settled else ():
            if (found := self.settled.pop(event, None)) is not None:
                event.mark_published(found)
        self.plain.drop(events)

    def publications(self, batch: SequencedBatch, ranges: Sequence[OffsetRange]) -> list[Publication]:
        """Return the sequence number and offset of each event of *batch*."""
        offsets = (offset for each in ranges for offset in range(each.first, each.last + 1))
        numbers = ((batch.first + at) % self.modulus for at in range(len(batch.events)))
        return [
            Publication(self.group, self.partition, batch.epoch, number, offset)
            for number, offset in zip(numbers, offsets, strict=True)
        ]


def copy_error(error: PenstockError) -> PenstockError:
    """Return a copy of *error*, to be raised again."""
    return type(error).of(error.code, error.detail, **error.fields)


def new_claim_id() -> str:
    """Return an id by which the hub recognizes a repeated claim."""
    return uuid4().hex


def is_retryable(error: PenstockError) -> bool:
    """Return whether the same request may succeed when sent again."""
    return is_transient(error) or isinstance(error, MalformedAnswer | OutcomeUnknown | LimitReached)


def may_be_stored(error: PenstockError) -> bool:
    """Return whether a batch that failed with *error* may be stored."""
    return is_retryable(error) and not is_not_applied(error) and not isinstance(error, LimitReached)


def find_regression(state: PartitionState, batch: SequencedBatch, error: ProducerUnsafe) -> ServerStateRegressed | None:
    """Return ServerStateRegressed if *error* means that the hub has lost acknowledged events, else None."""
    if not isinstance(error, OutOfSequence) or error.expected is None:
        return None
    expected = error.expected
    missing = (batch.first - expected) % state.modulus
    if not 0 < missing < state.modulus / 2:
        return None
    return make_lost_events_error(state, batch, expected, missing)


def make_lost_events_error(
    state: PartitionState, batch: SequencedBatch, expected: int, missing: int
) -> ServerStateRegressed:
    """Return the error for *missing* lost events before *batch*, from the sequence number *expected* on."""
    return ServerStateRegressed(
        producer_group=state.group,
        partition=state.partition,
        current_epoch=batch.epoch,
        expected=expected,
        received=batch.first,
        missing=missing,
        outcome="not_stored",
    )


def add_outcome(error: PenstockError, state: PartitionState, call: ProducerCall) -> PenstockError:
    """Add the partition and the outcome of the call to *error*; return *error*."""
    error.fields["partition"] = state.partition
    error.outcome = state.outcome(call)
    return error


def make_exhausted_error(reason: PenstockError | str, state: PartitionState, call: ProducerCall) -> RetriesExhausted:
    """Return the error of a call whose attempts or time are used up."""
    fields = {"partition": state.partition, "attempts": call.attempts, "outcome": state.outcome(call)}
    return RetriesExhausted(**fields, reason=str(reason))


def http_status(error: PenstockError) -> int | None:
    """Return the status of a response that did not come from a hub."""
    return error.status if isinstance(error, ServerError) else None


def fail_partition(
    state: PartitionState, batch: SequencedBatch, error: ProducerUnsafe, call: ProducerCall, *, is_open: bool
) -> ProducerUnsafe:
    """Refuse further batches after *error* for *batch*; return the error to raise.

    If the hub does not know the outcome of the batch, *is_open* says whether an earlier attempt may have stored it.
    Events of the *call* that were stored earlier are not in the batch.
    """
    found = find_regression(state, batch, error) or error
    is_unknown = error.fields.get("committed", False) is None and (is_open or error.code == "sequence-too-old")
    is_in_part = bool(error.ranges) or state.has_settled(call)
    found.outcome = "unknown" if is_unknown or is_in_part else "not_stored"
    if not is_unknown:
        state.mark_ready()
    return state.fail(found)


def list_stored_ranges(found: wire.PublishedBatch) -> list[OffsetRange]:
    """Return the ranges of offsets of a batch."""
    return [OffsetRange(each.first, each.last) for each in ([found.offsets] if found.offsets else found.ranges)]


def error_ranges(error: ProducerUnsafe) -> list[OffsetRange]:
    """Return the ranges of offsets of the stored part of a batch, from *error*."""
    return [OffsetRange(**each) for each in error.ranges or []]
