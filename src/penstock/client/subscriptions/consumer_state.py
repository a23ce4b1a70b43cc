"""The rules of a consumer: which batch is handled, committed, or released next.

There is no I/O and no thread here. The consumer reports events and asks for the `next_step`.

Invariants:
    Batches of a partition are handled one at a time and in order, across streams.
    A batch is committed only after it and all batches before it are handled.
    Handled batches are committed before their stream is ended or their partition released, as long as the hub accepts
        them.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from penstock.client.concurrency import AsyncCancel, Cancel
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.subscriptions.stream_protocol import (
    BATCHES_AHEAD,
    StreamOptions,
    StreamParameters,
    StreamProtocol,
    SubscriptionBatch,
    make_stream_parameters,
)
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import CommitRefused, PenstockError, StreamNotFound
from penstock.wire.arguments import check_callable, check_count, check_seconds, check_type
from penstock.wire.http import RetryBackoff, is_transient


class ConsumerSession:
    """The state of one stream: its handled and pending batches."""

    def __init__(self, id: str, now: float, delay_seconds_max: float, *, is_abandoned: bool) -> None:
        self.id = id
        self._delay_seconds_max = delay_seconds_max
        self._backoffs: dict[type, RetryBackoff] = {}
        self.retry_at: dict[type, float] = {}
        """Time before which a failed step of that type is not retried."""
        self.renewed_at = now
        """Time at which the lease was extended last."""
        self.pending: Counter[FeedPartition] = Counter()
        """Number of batches that wait for a handler or are being handled, by partition."""
        self.handled: list[SubscriptionBatch[Any]] = []
        """Batches to commit."""
        self.failed: dict[FeedPartition, float] = {}
        """Time at which to release each partition whose handler has failed."""
        self.void: set[FeedPartition] = set()
        """Partitions whose commits the hub refuses."""
        self.kept: frozenset[FeedPartition] | None = None
        """Partitions that were kept when the stream was released; None if it was not released."""
        self.is_abandoned = is_abandoned
        """Whether the stream is to end."""
        self.is_ending = False
        """Whether the reader was asked to end it."""
        self.has_ended = False
        self.is_lost = False
        """Whether the hub refuses all commits of the stream."""

    @property
    def is_outstanding(self) -> bool:
        """True if the lease must be extended."""
        if self.is_lost or (self.has_ended and self.kept is not None and not self.kept):
            return False
        return bool(self.pending or self.handled or self.failed)

    @property
    def is_done(self) -> bool:
        """True if the stream can be forgotten."""
        if self.pending or self.handled or not self.has_ended:
            return False
        return self.is_lost or (self.kept is not None and not self.kept)

    def is_waiting(self, kind: type, now: float) -> bool:
        """Return whether a step of that type has failed and must not be retried yet."""
        return now < self.retry_at.get(kind, now)

    def record_failure(self, kind: type, error: PenstockError, now: float) -> None:
        """Delay the next attempt of a step of that type."""
        backoff = self._backoffs.setdefault(kind, RetryBackoff(self._delay_seconds_max))
        self.retry_at[kind] = now + backoff.delay(error)

    def record_success(self, kind: type) -> None:
        """Reset the delay of steps of that type."""
        self._backoffs.pop(kind, None)
        self.retry_at.pop(kind, None)

    def list_kept_partitions(self, now: float) -> frozenset[FeedPartition]:
        """Return the partitions that cannot be released yet."""
        if self.is_lost:
            return self.kept or frozenset()
        worked_on = {*self.pending, *(each.place for each in self.handled)} - self.void
        return frozenset(worked_on | {place for place, due in self.failed.items() if due > now})

    def forget(self, place: FeedPartition) -> None:
        """Remove one pending batch of a partition."""
        self.pending[place] -= 1
        if not self.pending[place]:
            del self.pending[place]


RENEWALS: Final = 3
"""Number of lease extensions within one commit timeout."""
GIVE_BACK_TIMEOUT: Final = 5.0
"""Seconds for which releasing a stream is retried if nothing is to be committed: the hub's own timeout releases it too.
"""
_FAILED: Final = PenstockError("a handler has failed")
ConsumerBatch: TypeAlias = SubscriptionBatch[Any]


@dataclass(frozen=True, slots=True)
class Consumed:
    """The totals of a consumer."""

    batches: int = 0
    """Number of committed batches."""
    events: int = 0
    """Number of events in these batches."""
    failures: int = 0
    """Number of times that a handler has raised."""
    too_late: int = 0
    """Number of handled batches whose commit was refused; their events are sent again."""
    reason: str | None = None
    """Why it has ended: stopped, cancelled, interrupted or failed; None while it runs."""


@dataclass(frozen=True, slots=True)
class CommitBatches:
    """Step: commit these batches of a stream."""

    stream_id: str
    batches: Sequence[ConsumerBatch]


@dataclass(frozen=True, slots=True)
class ExtendLease:
    """Step: extend the lease of a stream."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class EndStream:
    """Step: stop reading a stream."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class ReleaseStream:
    """Step: release the partitions of an ended stream, except those still in use."""

    stream_id: str
    keep: Collection[FeedPartition]
    failed: Collection[FeedPartition]


@dataclass(frozen=True, slots=True)
class Wait:
    """Step: wait for an event, at most the given seconds; None means without limit."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Step: the consumer has ended."""


ConsumerStep: TypeAlias = CommitBatches | ExtendLease | EndStream | ReleaseStream | Wait | Finished


class _PartitionQueue:
    """The batches of one partition that wait for a handler."""

    def __init__(self, delay_seconds_max: float) -> None:
        self.batches: list[ConsumerBatch] = []
        self.is_busy = False
        self.backoff = RetryBackoff(delay_seconds_max)


class ConsumerState:
    """The state of one consumer. Not thread-safe.

    Args:
        commit_timeout: Seconds without a commit after which a stream ends.
        grace_seconds: Seconds that running handlers get to finish after a stop.
        retry_timeout: Seconds for which the last commits are retried once no handler runs.
        delay_seconds_max: Maximum delay before a retry, in seconds.
        clock: Return the time in seconds.
    """

    def __init__(
        self,
        *,
        commit_timeout: float,
        grace_seconds: float,
        retry_timeout: float,
        delay_seconds_max: float,
        clock: Callable[[], float],
    ) -> None:
        self._renew_interval = commit_timeout / RENEWALS
        self._grace_seconds = grace_seconds
        self._retry_timeout = retry_timeout
        self._delay_seconds_max = delay_seconds_max
        self._clock = clock
        self._sessions: dict[str, ConsumerSession] = {}
        self._queues: dict[FeedPartition, _PartitionQueue] = {}
        self._batches = self._events = self._failures = self._too_late = 0
        self._reason: str | None = None
        self._stopped_at = 0.0
        self._tried_since: float | None = None
        """Since when nothing keeps it from its end but a hub that does not answer; None: handlers run."""
        self.error: BaseException | None = None
        """The error that it has failed with."""

    @property
    def consumed(self) -> Consumed:
        """The totals so far."""
        return Consumed(self._batches, self._events, self._failures, self._too_late, self._reason)

    @property
    def is_stopping(self) -> bool:
        """True once the consumer is stopping and calls no further handlers."""
        return self._reason is not None

    # Reading

    def begin_stream(self, stream_id: str) -> None:
        """Add a stream that has begun."""
        self._sessions[stream_id] = ConsumerSession(
            stream_id, self._clock(), self._delay_seconds_max, is_abandoned=self.is_stopping
        )

    def add_batch(self, batch: ConsumerBatch) -> None:
        """Queue a batch that has arrived."""
        session, place = self._sessions[batch.stream_id], batch.place
        if self.is_stopping or session.is_lost or (place in session.failed and not batch.is_parked):
            return
        queue = self._queues.setdefault(place, _PartitionQueue(self._delay_seconds_max))
        session.void.discard(place)
        if not batch.is_parked:  # The partition's new stream is sent all uncommitted events.
            self._drop(queue, lambda each: each.stream_id != batch.stream_id and not each.is_parked)
        queue.batches.append(batch)
        if not session.is_outstanding:
            session.renewed_at = self._clock()
        session.pending[place] += 1

    def end_stream(self, stream_id: str) -> None:
        """Record that a stream has ended."""
        self._sessions[stream_id].has_ended = True

    def end_all_streams(self) -> None:
        """Record that reading has ended."""
        for session in self._sessions.values():
            session.has_ended = True

    # Handling

    def next(self) -> ConsumerBatch | None:
        """Return the next batch to handle; None if there is none now."""
        if self.is_stopping:
            return None
        for place, queue in self._queues.items():
            if queue.batches and not queue.is_busy:
                queue.is_busy = True
                self._queues[place] = self._queues.pop(place)  # Its next turn comes after all others.
                return queue.batches.pop(0)
        return None

    def finish_batch(self, batch: ConsumerBatch) -> None:
        """Record that the handler of *batch* has returned."""
        session, place = self._finish(batch)
        self._queues[place].backoff.reset()
        if session.is_lost or place in session.void:
            self._too_late += 1
        else:
            session.handled.append(batch)

    def fail_batch(self, batch: ConsumerBatch) -> None:
        """Record that the handler of *batch* has raised. The hub sends the batch again after the stream's end."""
        session, place = self._finish(batch)
        self._failures += 1
        if session.is_lost or place in session.void:
            return
        if not batch.is_parked:
            self._drop(self._queues[place], lambda each: each.stream_id == batch.stream_id and not each.is_parked)
        delay = 0.0 if self.is_stopping else self._queues[place].backoff.delay(_FAILED)
        session.failed[place] = self._clock() + delay
        session.is_abandoned = True

    def abandon_batch(self, batch: ConsumerBatch) -> None:
        """Record that the handler of *batch* was cancelled: it has not failed, but its events are sent again."""
        self._finish(batch)

    # Stopping

    def stop(self, reason: str, *, grace_seconds: float | None = None) -> None:
        """Call no further handlers."""
        if self._reason is None:
            self._reason, self._stopped_at = reason, self._clock()
            for queue in self._queues.values():
                self._drop(queue, lambda _: True)
            for session in self._sessions.values():
                session.is_abandoned = True
                session.is_ending = False  # The interrupted thread may not have done it.
                session.failed = dict.fromkeys(session.failed, self._stopped_at)
        if grace_seconds is not None:
            self._grace_seconds = grace_seconds

    def fail(self, error: BaseException) -> None:
        """Stop because of a permanent *error*."""
        self.error = self.error or error
        self.stop("failed")

    # Steps

    def next_step(self) -> ConsumerStep:
        """Return the next step. The caller completes or fails it before asking for another."""
        now = self._clock()
        self._sessions = {name: each for name, each in self._sessions.items() if not each.is_done}
        if self.is_stopping and self._is_over(now):
            return Finished()
        for session in self._sessions.values():
            if (found := self._step_of(session, now)) is not None:
                return found
        return Wait(max(0.0, due - now) if (due := self._find_due_time()) is not None else None)

    def complete_step(self, step: ConsumerStep) -> None:
        """Record that a step is done."""
        if isinstance(step, CommitBatches | ExtendLease | ReleaseStream):
            session = self._sessions[step.stream_id]
            session.record_success(type(step))
            self._tried_since = None
        if isinstance(step, CommitBatches):
            del session.handled[: len(step.batches)]
            self._batches += len(step.batches)
            self._events += sum(map(len, step.batches))
        elif isinstance(step, ExtendLease):
            session.renewed_at = self._clock()
        elif isinstance(step, ReleaseStream):
            session.kept = frozenset(step.keep)

    def fail_step(self, step: ConsumerStep, error: PenstockError) -> None:
        """Record that a step has failed."""
        assert isinstance(step, CommitBatches | ExtendLease | ReleaseStream)
        session = self._sessions[step.stream_id]
        if is_transient(error):
            session.record_failure(type(step), error, self._clock())
        elif isinstance(error, StreamNotFound):
            self._lose_session(session)
        elif isinstance(step, ReleaseStream):  # A hub that does not support release waits for its commit timeout.
            session.kept = frozenset(step.keep)
        elif isinstance(step, ExtendLease):
            session.renewed_at = self._clock()
        elif isinstance(error, CommitRefused) and (place := _read_refused_partition(error)) in [
            each.place for each in step.batches
        ]:
            self._refuse_partition(session, place)
        else:
            session.handled.clear()
            self.fail(error)

    def _step_of(self, session: ConsumerSession, now: float) -> ConsumerStep | None:
        if session.handled and not session.is_waiting(CommitBatches, now):
            return CommitBatches(session.id, tuple(session.handled))
        if session.is_abandoned and not session.handled and not session.has_ended and not session.is_ending:
            session.is_ending = True
            return EndStream(session.id)
        if (
            session.is_outstanding
            and now >= session.renewed_at + self._renew_interval
            and not session.is_waiting(ExtendLease, now)
        ):
            return ExtendLease(session.id)
        if session.is_lost or not session.has_ended or session.is_waiting(ReleaseStream, now):
            return None  # A lost stream has nothing to release.
        if session.kept != (keep := session.list_kept_partitions(now)):
            return ReleaseStream(session.id, keep, frozenset(session.failed))
        return None

    def _find_due_time(self) -> float | None:
        dues = [self._ends_at()] if self.is_stopping else []
        for session in self._sessions.values():
            if session.has_ended:
                dues += session.failed.values()
            if session.is_outstanding:
                dues.append(session.renewed_at + self._renew_interval)
            dues += session.retry_at.values()
        return min((due for due in dues if due > self._clock()), default=None)

    def _is_over(self, now: float) -> bool:
        is_busy = any(queue.is_busy for queue in self._queues.values())
        if is_busy and now < self._stopped_at + self._grace_seconds:
            return False
        if self._tried_since is None:
            self._tried_since = now
        if now >= self._ends_at():
            return True
        return all(
            each.has_ended and not each.handled and (each.is_lost or each.kept == each.list_kept_partitions(now))
            for each in self._sessions.values()
        )

    def _ends_at(self) -> float:
        """Return the time at which a stopped consumer ends at the latest."""
        if self._tried_since is None:
            return self._stopped_at + self._grace_seconds
        is_handled = any(each.handled for each in self._sessions.values())
        return self._tried_since + (self._retry_timeout if is_handled else min(GIVE_BACK_TIMEOUT, self._retry_timeout))

    # Refused commits

    def _lose_session(self, session: ConsumerSession) -> None:
        """Drop all batches of a stream whose commits the hub refuses; it sends their events again."""
        session.is_lost = session.is_abandoned = True
        self._too_late += len(session.handled)
        session.handled.clear()
        session.failed.clear()
        for queue in self._queues.values():
            self._drop(queue, lambda each: each.stream_id == session.id)

    def _refuse_partition(self, session: ConsumerSession, place: FeedPartition) -> None:
        """Drop the batches of one partition of a stream whose commits the hub refuses."""
        session.void.add(place)
        refused = [each for each in session.handled if each.place == place]
        session.handled = [each for each in session.handled if each.place != place]
        self._too_late += len(refused)
        if place in self._queues:
            self._drop(self._queues[place], lambda each: each.stream_id == session.id)

    def _drop(self, queue: _PartitionQueue, what: Callable[[ConsumerBatch], bool]) -> None:
        for each in filter(what, queue.batches):
            self._sessions[each.stream_id].forget(each.place)
        queue.batches = [each for each in queue.batches if not what(each)]

    def _finish(self, batch: ConsumerBatch) -> tuple[ConsumerSession, FeedPartition]:
        session, place = self._sessions[batch.stream_id], batch.place
        self._queues[place].is_busy = False
        session.forget(place)
        return session, place


def _read_refused_partition(error: CommitRefused) -> FeedPartition:
    """Return the partition of the refused cursor."""
    partition = error.partition
    return error.event_type, int(partition) if partition.isdecimal() else -1


GRACE_SECONDS: Final = 30.0
_log: Final = logging.getLogger("penstock.consumer")


def log_failure(batch: SubscriptionBatch[Any], error: Exception) -> None:
    """Log that a handler has failed."""
    _log.warning("handling %r failed, and is tried again: %r", batch, error, exc_info=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerParameters:
    """How a consumer works; see `Client.consumer`."""

    workers: int = 1
    grace_seconds: float = GRACE_SECONDS
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    cancel: Any = None
    on_error: Callable[[SubscriptionBatch[Any], Exception], object] = log_failure
    progress: Callable[[Consumed], object] | None = None
    type: Any = None

    def __post_init__(self) -> None:
        check_count("workers", self.workers, 1)
        check_seconds("grace_seconds", self.grace_seconds)
        check_type("retry", self.retry, RetryPolicy, "a RetryPolicy")
        check_callable("on_error", self.on_error)
        if self.progress is not None:
            check_callable("progress", self.progress)


class _SharedOptions(StreamOptions, total=False):
    workers: int
    grace_seconds: float
    retry: RetryPolicy
    on_error: Callable[[SubscriptionBatch[Any], Exception], object]
    progress: Callable[[Consumed], object]
    type: Any


class ConsumerOptions(_SharedOptions, total=False):
    """Options of a consumer; see `Client.consumer`."""

    cancel: Cancel


class AsyncConsumerOptions(_SharedOptions, total=False):
    """Options of an async consumer; see `AsyncClient.consumer`."""

    cancel: AsyncCancel


def make_consumer_parameters(
    options: ConsumerOptions | AsyncConsumerOptions,
) -> tuple[ConsumerParameters, StreamParameters]:
    """Return how a consumer works and how its streams are sent, with enough batches ahead for all workers.

    Raises:
        TypeError: An option is unknown. The error suggests a similar name.
        BadParameter: The value of an option is invalid.

    >>> make_consumer_parameters({"workers": 2, "batch_limit": 5})[1].max_uncommitted_events
    100
    """
    names = ConsumerParameters.__dataclass_fields__.keys()
    given: dict[str, Any] = {**options}
    parameters = ConsumerParameters(**{name: value for name, value in given.items() if name in names})
    asked = cast(StreamOptions, {name: value for name, value in given.items() if name not in names})
    stream = make_stream_parameters(asked)
    ahead = stream.max_uncommitted_events or BATCHES_AHEAD * stream.batch_limit * parameters.workers
    return parameters, make_stream_parameters({**asked, "max_uncommitted_events": ahead})


def exchange_of(step: ConsumerStep, streaming: StreamProtocol) -> Any:
    """Return the exchange that carries out *step*."""
    match step:
        case CommitBatches():
            return streaming.commit(step.batches, retries=False)
        case ExtendLease():
            return streaming.extend(step.stream_id, retries=False)
        case ReleaseStream():
            return streaming.release(step.stream_id, step.keep, step.failed)
    raise AssertionError(step)
