"""One stream of a consumer, from its beginning until nothing of it is left to be done.

Decides what a consumer does next: which batch is handled, what is committed, which stream is kept or given back.

There is no I/O and no thread here: whoever does that says what has happened, and asks for the next `step`.

Invariants:
    Batches of a partition are handled one at a time and in their order, whichever streams they came with.
    What is committed was handled, and so was everything before it.
    What was handled is committed before its stream is ended or its partition given back, as long as the hub takes it.

What a consumer is told when it is made, beside how it wants its events.
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
    Streaming,
    StreamOptions,
    StreamWish,
    SubscriptionBatch,
    stream_wish,
)
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import BadParameter, CommitRefused, PenstockError, StreamNotFound
from penstock.wire.http import Backoff, is_passing


class ConsumerSession:
    """What is known of a stream: what was handled of it, what is still worked on, and what is to become of the rest."""

    def __init__(self, id: str, now: float, delay_seconds_max: float, *, is_unwanted: bool) -> None:
        self.id = id
        self._delay_seconds_max = delay_seconds_max
        self._backoffs: dict[type, Backoff] = {}
        self.retry_at: dict[type, float] = {}
        """Before that the hub is not asked again for a step of that kind, which has failed."""
        self.renewed_at = now
        """Since when it has its time to commit."""
        self.pending: Counter[FeedPartition] = Counter()
        """How many batches wait for a handler, or have one, by partition."""
        self.handled: list[SubscriptionBatch[Any]] = []
        """What is to be committed."""
        self.failed: dict[FeedPartition, float] = {}
        """When partitions are to be given back in which a handler has failed."""
        self.void: set[FeedPartition] = set()
        """Partitions of which the hub takes no more commits."""
        self.kept: frozenset[FeedPartition] | None = None
        """What was kept when it was given back; None: it was not."""
        self.is_unwanted = is_unwanted
        """Whether it is to end."""
        self.is_told = False
        """Whether whoever reads it was told to end it."""
        self.has_ended = False
        self.is_lost = False
        """Whether the hub takes nothing more of it."""

    @property
    def is_outstanding(self) -> bool:
        """Whether it has to be kept alive."""
        if self.is_lost or (self.has_ended and self.kept is not None and not self.kept):
            return False
        return bool(self.pending or self.handled or self.failed)

    @property
    def is_done(self) -> bool:
        """Whether it can be forgotten."""
        if self.pending or self.handled or not self.has_ended:
            return False
        return self.is_lost or (self.kept is not None and not self.kept)

    def waits(self, kind: type, now: float) -> bool:
        """Tell whether a step of that *kind* has failed, and is not yet to be tried again."""
        return now < self.retry_at.get(kind, now)

    def has_failed(self, kind: type, error: PenstockError, now: float) -> None:
        """Have a step of that *kind* tried again after a pause."""
        backoff = self._backoffs.setdefault(kind, Backoff(self._delay_seconds_max))
        self.retry_at[kind] = now + backoff.delay(error)

    def has_succeeded(self, kind: type) -> None:
        """Begin with short pauses again."""
        self._backoffs.pop(kind, None)
        self.retry_at.pop(kind, None)

    def keep(self, now: float) -> frozenset[FeedPartition]:
        """Return the partitions that it does not give back yet."""
        if self.is_lost:
            return self.kept or frozenset()
        worked_on = {*self.pending, *(each.place for each in self.handled)} - self.void
        return frozenset(worked_on | {place for place, due in self.failed.items() if due > now})

    def forget(self, place: FeedPartition) -> None:
        """Count one batch less of a partition."""
        self.pending[place] -= 1
        if not self.pending[place]:
            del self.pending[place]


RENEWALS: Final = 3
"""So often a lease is extended within a commit timeout."""
GIVE_BACK_TIMEOUT: Final = 5.0
"""So long it is tried to give back what nothing is committed of: a hub that is away finds out by itself."""
_FAILED: Final = PenstockError("a handler has failed")
Batch: TypeAlias = SubscriptionBatch[Any]


@dataclass(frozen=True, slots=True)
class Consumed:
    """How far a consumer has come."""

    batches: int = 0
    """Handled and committed."""
    events: int = 0
    """Of these batches."""
    failures: int = 0
    """How often a handler has raised."""
    too_late: int = 0
    """Batches that were handled, but could not be committed any more: their events are sent again."""
    reason: str | None = None
    """Why it has ended: stopped, cancelled, interrupted, failed; None: it goes on."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit these batches of a stream."""

    stream_id: str
    batches: Sequence[Batch]


@dataclass(frozen=True, slots=True)
class Extend:
    """Extend the lease of a stream."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class End:
    """Read no more of a stream."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give back what a stream has that has ended, but for what is being worked on."""

    stream_id: str
    keep: Collection[FeedPartition]
    failed: Collection[FeedPartition]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done for so many seconds, unless something happens; None: for any time."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing is to be done any more."""


Step: TypeAlias = Commit | Extend | End | GiveBack | Wait | Over


class _Lane:
    """One partition, as the handlers see it."""

    def __init__(self, delay_seconds_max: float) -> None:
        self.queue: list[Batch] = []
        self.is_busy = False
        self.backoff = Backoff(delay_seconds_max)


class Consuming:
    """One consumer. Not safe to use from two threads at once.

    Args:
        commit_timeout: After how many seconds without a commit a stream ends.
        grace_seconds: For how many seconds handlers may go on that are running when it is stopped.
        retry_timeout: For how many seconds it is tried to commit what was handled, once no handler runs any more.
        delay_seconds_max: The longest pause before something that failed is tried again.
        clock: Tells seconds.
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
        self._lanes: dict[FeedPartition, _Lane] = {}
        self._batches = self._events = self._failures = self._too_late = 0
        self._reason: str | None = None
        self._stopped_at = 0.0
        self._tried_since: float | None = None
        """Since when nothing keeps it from its end but a hub that does not answer; None: handlers run."""
        self.error: BaseException | None = None
        """What it has failed with."""

    @property
    def consumed(self) -> Consumed:
        """How far it has come."""
        return Consumed(self._batches, self._events, self._failures, self._too_late, self._reason)

    @property
    def is_stopping(self) -> bool:
        """Whether no handler is begun any more."""
        return self._reason is not None

    # What is read

    def began(self, stream_id: str) -> None:
        """A stream has begun."""
        self._sessions[stream_id] = ConsumerSession(
            stream_id, self._clock(), self._delay_seconds_max, is_unwanted=self.is_stopping
        )

    def arrived(self, batch: Batch) -> None:
        """A batch has come."""
        session, place = self._sessions[batch.stream_id], batch.place
        if self.is_stopping or session.is_lost or (place in session.failed and not batch.is_parked):
            return
        lane = self._lanes.setdefault(place, _Lane(self._delay_seconds_max))
        session.void.discard(place)
        if not batch.is_parked:  # Who has the partition now is sent what others have not committed.
            self._drop(lane, lambda each: each.stream_id != batch.stream_id and not each.is_parked)
        lane.queue.append(batch)
        if not session.is_outstanding:
            session.renewed_at = self._clock()
        session.pending[place] += 1

    def ended(self, stream_id: str) -> None:
        """A stream has ended, whyever."""
        self._sessions[stream_id].has_ended = True

    def read_all(self) -> None:
        """Nothing is read any more."""
        for session in self._sessions.values():
            session.has_ended = True

    # What is handled

    def next(self) -> Batch | None:
        """Return the batch to be handled next; None: there is none now."""
        if self.is_stopping:
            return None
        for place, lane in self._lanes.items():
            if lane.queue and not lane.is_busy:
                lane.is_busy = True
                self._lanes[place] = self._lanes.pop(place)  # It has its turn again after all others.
                return lane.queue.pop(0)
        return None

    def handled(self, batch: Batch) -> None:
        """A handler has returned."""
        session, place = self._left(batch)
        self._lanes[place].backoff.reset()
        if session.is_lost or place in session.void:
            self._too_late += 1
        else:
            session.handled.append(batch)

    def failed(self, batch: Batch) -> None:
        """A handler has raised: the hub is told by the stream's end, and sends the batch again."""
        session, place = self._left(batch)
        self._failures += 1
        if session.is_lost or place in session.void:
            return
        if not batch.is_parked:
            self._drop(self._lanes[place], lambda each: each.stream_id == batch.stream_id and not each.is_parked)
        delay = 0.0 if self.is_stopping else self._lanes[place].backoff.delay(_FAILED)
        session.failed[place] = self._clock() + delay
        session.is_unwanted = True

    def abandoned(self, batch: Batch) -> None:
        """A handler was cut off: it has not failed, but what it was given comes again."""
        self._left(batch)

    # What stops it

    def stop(self, reason: str, *, grace_seconds: float | None = None) -> None:
        """Begin no handler any more."""
        if self._reason is None:
            self._reason, self._stopped_at = reason, self._clock()
            for lane in self._lanes.values():
                self._drop(lane, lambda _: True)
            for session in self._sessions.values():
                session.is_unwanted = True
                session.is_told = False  # Whoever was interrupted may not have got to it.
                session.failed = dict.fromkeys(session.failed, self._stopped_at)
        if grace_seconds is not None:
            self._grace_seconds = grace_seconds

    def fail(self, error: BaseException) -> None:
        """Stop for an *error* that nothing helps against."""
        self.error = self.error or error
        self.stop("failed")

    # What is to be done

    def step(self) -> Step:
        """Return what is to be done now; one step is done, or has failed, before the next is asked for."""
        now = self._clock()
        self._sessions = {name: each for name, each in self._sessions.items() if not each.is_done}
        if self.is_stopping and self._is_over(now):
            return Over()
        for session in self._sessions.values():
            if (found := self._step_of(session, now)) is not None:
                return found
        return Wait(max(0.0, due - now) if (due := self._due_at()) is not None else None)

    def done(self, step: Step) -> None:
        """A step was done."""
        if isinstance(step, Commit | Extend | GiveBack):
            session = self._sessions[step.stream_id]
            session.has_succeeded(type(step))
            self._tried_since = None
        if isinstance(step, Commit):
            del session.handled[: len(step.batches)]
            self._batches += len(step.batches)
            self._events += sum(map(len, step.batches))
        elif isinstance(step, Extend):
            session.renewed_at = self._clock()
        elif isinstance(step, GiveBack):
            session.kept = frozenset(step.keep)

    def undone(self, step: Step, error: PenstockError) -> None:
        """A step has failed."""
        assert isinstance(step, Commit | Extend | GiveBack)
        session = self._sessions[step.stream_id]
        if is_passing(error):
            session.has_failed(type(step), error, self._clock())
        elif isinstance(error, StreamNotFound):
            self._lose(session)
        elif isinstance(step, GiveBack):  # A hub that cannot do that waits until the time to commit is over.
            session.kept = frozenset(step.keep)
        elif isinstance(step, Extend):
            session.renewed_at = self._clock()
        elif isinstance(error, CommitRefused) and (place := _refused(error)) in [each.place for each in step.batches]:
            self._void(session, place)
        else:
            session.handled.clear()
            self.fail(error)

    def _step_of(self, session: ConsumerSession, now: float) -> Step | None:
        if session.handled and not session.waits(Commit, now):
            return Commit(session.id, tuple(session.handled))
        if session.is_unwanted and not session.handled and not session.has_ended and not session.is_told:
            session.is_told = True
            return End(session.id)
        if (
            session.is_outstanding
            and now >= session.renewed_at + self._renew_interval
            and not session.waits(Extend, now)
        ):
            return Extend(session.id)
        if session.is_lost or not session.has_ended or session.waits(GiveBack, now):
            return None  # What is lost is not there to be given back.
        if session.kept != (keep := session.keep(now)):
            return GiveBack(session.id, keep, frozenset(session.failed))
        return None

    def _due_at(self) -> float | None:
        dues = [self._ends_at()] if self.is_stopping else []
        for session in self._sessions.values():
            if session.has_ended:
                dues += session.failed.values()
            if session.is_outstanding:
                dues.append(session.renewed_at + self._renew_interval)
            dues += session.retry_at.values()
        return min((due for due in dues if due > self._clock()), default=None)

    def _is_over(self, now: float) -> bool:
        is_busy = any(lane.is_busy for lane in self._lanes.values())
        if is_busy and now < self._stopped_at + self._grace_seconds:
            return False
        if self._tried_since is None:
            self._tried_since = now
        if now >= self._ends_at():
            return True
        return all(
            each.has_ended and not each.handled and (each.is_lost or each.kept == each.keep(now))
            for each in self._sessions.values()
        )

    def _ends_at(self) -> float:
        """Return when a stopped one ends, whatever is left to be done."""
        if self._tried_since is None:
            return self._stopped_at + self._grace_seconds
        is_handled = any(each.handled for each in self._sessions.values())
        return self._tried_since + (self._retry_timeout if is_handled else min(GIVE_BACK_TIMEOUT, self._retry_timeout))

    # What the hub takes no more

    def _lose(self, session: ConsumerSession) -> None:
        """The hub takes nothing more of a stream, and sends its events again."""
        session.is_lost = session.is_unwanted = True
        self._too_late += len(session.handled)
        session.handled.clear()
        session.failed.clear()
        for lane in self._lanes.values():
            self._drop(lane, lambda each: each.stream_id == session.id)

    def _void(self, session: ConsumerSession, place: FeedPartition) -> None:
        """The hub takes nothing more of one partition of a stream."""
        session.void.add(place)
        refused = [each for each in session.handled if each.place == place]
        session.handled = [each for each in session.handled if each.place != place]
        self._too_late += len(refused)
        if place in self._lanes:
            self._drop(self._lanes[place], lambda each: each.stream_id == session.id)

    def _drop(self, lane: _Lane, what: Callable[[Batch], bool]) -> None:
        for each in filter(what, lane.queue):
            self._sessions[each.stream_id].forget(each.place)
        lane.queue = [each for each in lane.queue if not what(each)]

    def _left(self, batch: Batch) -> tuple[ConsumerSession, FeedPartition]:
        session, place = self._sessions[batch.stream_id], batch.place
        self._lanes[place].is_busy = False
        session.forget(place)
        return session, place


def _refused(error: CommitRefused) -> FeedPartition:
    """Return the partition of which a cursor was refused."""
    partition = error.partition
    return error.event_type, int(partition) if partition.isdecimal() else -1


GRACE_SECONDS: Final = 30.0
_log: Final = logging.getLogger("penstock.consumer")


def log_failure(batch: SubscriptionBatch[Any], error: Exception) -> None:
    """Tell the log that a handler has failed."""
    _log.warning("handling %r failed, and is tried again: %r", batch, error, exc_info=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerWish:
    """How a consumer goes about its work."""

    workers: int = 1
    grace_seconds: float = GRACE_SECONDS
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    cancel: Any = None
    on_error: Callable[[SubscriptionBatch[Any], Exception], object] = log_failure
    progress: Callable[[Consumed], object] | None = None
    type: Any = None

    def __post_init__(self) -> None:
        if type(self.workers) is not int or self.workers < 1:
            raise BadParameter(parameter="workers", value=self.workers, allowed="a whole number, 1 or more")
        if not self.grace_seconds >= 0:
            raise BadParameter(parameter="grace_seconds", value=self.grace_seconds, allowed="seconds, 0 or more")
        if not isinstance(self.retry, RetryPolicy):
            raise BadParameter(parameter="retry", value=self.retry, allowed="a RetryPolicy")
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


def check_callable(name: str, given: object) -> None:
    """Raise BadParameter unless *given* can be called."""
    if not callable(given):
        raise BadParameter(parameter=name, value=given, allowed="what can be called")


def consumer_wish(options: ConsumerOptions | AsyncConsumerOptions) -> tuple[ConsumerWish, StreamWish]:
    """Return how a consumer goes about its work, and how it wants its events: with enough ahead for all its workers.

    Raises:
        TypeError: one of them is no option, and probably mistyped.
        BadParameter: an option makes no sense.

    >>> consumer_wish({"workers": 2, "batch_limit": 5})[1].max_uncommitted_events
    100
    """
    names = ConsumerWish.__dataclass_fields__.keys()
    given: dict[str, Any] = {**options}
    wish = ConsumerWish(**{name: value for name, value in given.items() if name in names})
    asked = cast(StreamOptions, {name: value for name, value in given.items() if name not in names})
    stream = stream_wish(asked)
    ahead = stream.max_uncommitted_events or BATCHES_AHEAD * stream.batch_limit * wish.workers
    return wish, stream_wish({**asked, "max_uncommitted_events": ahead})


def exchange_of(step: Step, streaming: Streaming) -> Any:
    """Return the exchange that does a *step*."""
    match step:
        case Commit():
            return streaming.commit(step.batches, patiently=False)
        case Extend():
            return streaming.extend(step.stream_id, patiently=False)
        case GiveBack():
            return streaming.give_back(step.stream_id, step.keep, step.failed)
    raise AssertionError(step)
