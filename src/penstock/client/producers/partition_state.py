"""Knows values again that were handed in as something else than events, and of which it is not told what became.

What an idempotent producer knows of one partition: who it is there, which number is next, and what is in doubt.

What an attempt to publish idempotently has come to, by the error that it ended with.
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
from penstock.client.producers.options import Outcome, PartitionPublishingOptions, PublishResult
from penstock.core.producers import MODULUS, OffsetRange
from penstock.errors import (
    MalformedAnswer,
    OutcomeUnknown,
    PenstockError,
    ProducerUnsafe,
    RetriesExhausted,
    SequenceGap,
    SequenceTooOld,
    ServerError,
    ServerStateRegressed,
    TooManyProducers,
)
from penstock.wire import producers as wire
from penstock.wire.http import is_passing, is_undone
from penstock.wire.producers import Shown

VALUES_MAX: Final = 100_000
"""So many are remembered; of more, the oldest are forgotten."""


class PlainValues:
    """Values, each with the event that was made of it. The same value is the same object, with the same content."""

    def __init__(self) -> None:
        self._kept: dict[int, list[Event]] = {}

    def events(self, values: Sequence[Any]) -> list[Event]:
        """Return *values* as events: those that are remembered as the same ones.

        An object that is there more than once is as many events.
        """
        if not self._kept:
            return [Event.of(value) for value in values]
        seen: Counter[int] = Counter()
        return [self._event(value, seen) for value in values]

    def keep(self, events: Sequence[Event], values: Sequence[Any]) -> None:
        """Remember which of *events*, whose lines are made, were made of *values*."""
        for event, value in zip(events, values, strict=True):
            if event is value:
                continue
            kept = self._kept.setdefault(id(event.data), [])
            if all(each is not event for each in kept):
                kept.append(event)

    def drop(self, events: Sequence[Event]) -> None:
        """Forget those of *events* that were made of values: it is told what became of them."""
        for event in events if self._kept else ():
            kept = self._kept.get(id(event.data), [])
            kept[:] = [each for each in kept if each is not event]
            if not kept:
                self._kept.pop(id(event.data), None)

    def drop_oldest(self) -> None:
        """Forget the oldest where there are too many."""
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
"""A last attempt has so much time at least."""
Standing: TypeAlias = Literal["new", "ready", "unresolved", "poisoned"]


class Numbered(NamedTuple):
    """Events with their numbers, as they are sent: the same bytes, however often."""

    epoch: int
    first: int
    events: Sequence[Event]
    body: bytes


class AbandonedError(Exception):
    """Nobody waits for what comes of an operation any longer: it ends where it is."""


class Operation:
    """One call of an idempotent producer; only while somebody waits for it may it change what is known."""

    def __init__(
        self,
        deadline: float,
        is_cancelled: Callable[[], bool] = lambda: False,
        values: Sequence[Any] = (),
        *,
        lasts: tuple[str, float] = ("delivery_timeout", 0.0),
    ) -> None:
        """Begin one that may last until *deadline*, on the monotonic clock, unless it is cancelled before.

        *values* are what it is to publish. *lasts* is for how many seconds it may last, and who says so.
        """
        self.deadline = deadline
        self.lasts = lasts
        self.is_cancelled = is_cancelled
        self.values = values
        self.events: Sequence[Event] = ()
        """The same as events, once they are that."""
        self.attempts = 0
        self.is_ambiguous = False
        """Whether something was sent of which it is not known what became of it."""
        self.in_flight = False
        """Whether a batch has been sent to which no answer has come yet."""
        self.result: PublishResult | None = None
        """What has come of it, as soon as its events are known to be stored, whoever is told so."""
        self._over = False
        self._guard = threading.Lock()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keep whoever waits for it waiting while the block runs; raise AbandonedError where nobody does."""
        with self._guard:
            if self._over:
                raise AbandonedError
            yield

    def within(self, seconds: float) -> float:
        """Return *seconds*, or how many are left; not so few that nothing could be done at all."""
        return min(seconds, max(LAST_SECONDS, self.deadline - time.monotonic()))

    def check(self) -> None:
        """Raise AbandonedError where it is not to go on."""
        if self._over or self.is_cancelled():
            raise AbandonedError

    def abandon(self) -> None:
        """Wait for it no longer: from here on it changes nothing."""
        with self._guard:
            self._over = True


class Lane:
    """One partition of an idempotent producer. One operation at a time is in it."""

    def __init__(self, partition: int, options: PartitionPublishingOptions) -> None:
        self.partition = partition
        self.options = options
        self.standing: Standing = "new"
        self.group = ""
        self.epoch = 0
        self.begun = 0
        """The number from which on the events of this epoch are known to have been stored."""
        self.next = 0
        """The number of the next event."""
        self.remembered_seconds = math.inf
        """For how long the hub remembers that it has heard of it."""
        self.modulus = MODULUS
        self.last_offset: int | None = None
        self.last_published: int | None = None
        """The number of the last event; None: there is none in this epoch."""
        self.claim_id = new_claim_id()
        """Of the next claim, until that is granted: so it can be made again."""
        self.doubtful: Numbered | None = None
        """What was sent last, while it is not known whether it is stored."""
        self.error: ProducerUnsafe | None = None
        """Why nothing more is published."""
        self.settled: WeakKeyDictionary[Event, Publication] = WeakKeyDictionary()
        """Events that are stored, though publishing them has failed as far as their user knows."""
        self.plain = PlainValues()
        """What those events were handed in as that were handed in as something else."""

    def adopt(self, shown: Shown) -> None:
        """Go on in the epoch that was granted."""
        assert shown.next_sequence is not None
        self.group, self.epoch, self.next = shown.producer_group, shown.epoch, shown.next_sequence
        self.begun = 0 if shown.last_offset is not None else self.next
        self.remembered_seconds = math.inf if shown.expires_at is None else shown.expires_after_seconds
        self.modulus = shown.sequence_modulus
        self.last_offset, self.last_published = shown.last_offset, shown.last_published_sequence
        self.claim_id = new_claim_id()
        self.clear()

    def advance(self, count: int, ranges: Sequence[OffsetRange]) -> None:
        """Take note that the next *count* events are stored."""
        self.next = (self.next + count) % self.modulus
        self.last_offset = ranges[-1].last
        self.last_published = (self.next - 1) % self.modulus
        self.clear()

    def doubt(self, numbered: Numbered) -> None:
        """Take note that it is not known whether *numbered* is stored."""
        self.doubtful = numbered
        self.standing = "unresolved"

    def clear(self) -> None:
        """Take note that nothing is in doubt."""
        self.doubtful = None
        self.standing = "ready"

    def poison(self, error: ProducerUnsafe) -> ProducerUnsafe:
        """Publish nothing more, and say why each time."""
        self.standing, self.error = "poisoned", error
        return error

    def check(self) -> None:
        """Raise what has poisoned it, if anything has: what became of that batch says nothing of others."""
        if self.error is not None:
            error = again(self.error)
            error.fields.pop("outcome", None)
            raise error

    def outcome(self, operation: Operation) -> Outcome:
        """Return whether anything of what an operation is to publish may be stored, now that it has failed."""
        if operation.is_ambiguous:
            return "unknown"
        open_ = set(map(id, self.doubtful.events)) if self.doubtful else set()
        is_open = any(id(each) in open_ for each in self.plain.events(operation.values))
        return "unknown" if is_open or self.has_settled(operation) else "not_stored"

    def has_settled(self, operation: Operation) -> bool:
        """Tell whether anything of what an operation is to publish was found to be stored, and nobody was told so."""
        return any(each in self.settled for each in self.plain.events(operation.values))

    def settle(self, numbered: Numbered, ranges: Sequence[OffsetRange]) -> None:
        """Take note that *numbered* is stored, though its user was told that this is not known."""
        self.settled.update(zip(numbered.events, self.publications(numbered, ranges), strict=True))
        self.plain.drop_oldest()

    def known(self, events: Sequence[Event]) -> bool:
        """Tell whether all of *events* were found to be stored."""
        return all(event in self.settled for event in events)

    def tell(self, events: Sequence[Event]) -> None:
        """Let *events* know where they are stored, those too that were found to be: it is told now."""
        for event in events if self.settled else ():
            if (found := self.settled.pop(event, None)) is not None:
                event.published(found)
        self.plain.drop(events)

    def publications(self, numbered: Numbered, ranges: Sequence[OffsetRange]) -> list[Publication]:
        """Return under which number, and where, each of these events is stored."""
        offsets = (offset for each in ranges for offset in range(each.first, each.last + 1))
        numbers = ((numbered.first + at) % self.modulus for at in range(len(numbered.events)))
        return [
            Publication(self.group, self.partition, numbered.epoch, number, offset)
            for number, offset in zip(numbers, offsets, strict=True)
        ]


def again(error: PenstockError) -> PenstockError:
    """Return an error that says the same, to be raised another time."""
    return type(error)(error.detail, **error.fields)


def new_claim_id() -> str:
    """Return an id by which a claim is known that is made again."""
    return uuid4().hex


def is_transient(error: PenstockError) -> bool:
    """Say whether the same request, sent again unchanged, may succeed."""
    return is_passing(error) or isinstance(error, MalformedAnswer | OutcomeUnknown | TooManyProducers)


def may_be_stored(error: PenstockError) -> bool:
    """Say whether the batch that failed with *error* may be stored all the same."""
    return is_transient(error) and not is_undone(error) and not isinstance(error, TooManyProducers)


def regressed(lane: Lane, numbered: Numbered, error: ProducerUnsafe) -> ServerStateRegressed | None:
    """Return the error that *error* stands for where the hub knows less than it has acknowledged."""
    if not isinstance(error, SequenceGap):
        return None
    expected = error.expected
    missing = (numbered.first - expected) % lane.modulus
    if not 0 < missing < lane.modulus / 2:
        return None
    return lost(lane, numbered, expected, missing)


def lost(lane: Lane, numbered: Numbered, expected: int, missing: int) -> ServerStateRegressed:
    """Return the error that tells of *missing* events, from the number *expected* on, before *numbered*."""
    return ServerStateRegressed(
        producer_group=lane.group,
        partition=lane.partition,
        current_epoch=numbered.epoch,
        expected=expected,
        received=numbered.first,
        missing=missing,
        outcome="not_stored",
    )


def told(error: PenstockError, lane: Lane, operation: Operation) -> PenstockError:
    """Say in *error* where it was, and whether anything may be stored all the same."""
    error.fields["partition"] = lane.partition
    error.outcome = lane.outcome(operation)
    return error


def exhausted(reason: PenstockError | str, lane: Lane, operation: Operation) -> RetriesExhausted:
    """Return the error of a call that has failed too often, or for too long."""
    fields = {"partition": lane.partition, "attempts": operation.attempts, "outcome": lane.outcome(operation)}
    return RetriesExhausted(**fields, reason=str(reason))


def status(error: PenstockError) -> int | None:
    """Return the status of an answer that was none of ours."""
    return error.status if isinstance(error, ServerError) else None


def poisoned(
    lane: Lane, numbered: Numbered, error: ProducerUnsafe, operation: Operation, *, is_open: bool
) -> ProducerUnsafe:
    """Let nothing more be published, since *error* was told of a batch; return what is to be raised.

    Where the hub does not know what became of it, *is_open* says whether an attempt before may have stored it. Of what
    the *operation* is to publish, some may have been found to be stored before, and not be in the batch.
    """
    found = regressed(lane, numbered, error) or error
    is_unknown = error.fields.get("committed", False) is None and (is_open or isinstance(error, SequenceTooOld))
    is_in_part = bool(error.ranges) or lane.has_settled(operation)
    found.outcome = "unknown" if is_unknown or is_in_part else "not_stored"
    if not is_unknown:
        lane.clear()
    return lane.poison(found)


def ranges_in(found: wire.Result) -> list[OffsetRange]:
    """Return where the events of a batch are."""
    return [OffsetRange(each.first, each.last) for each in ([found.offsets] if found.offsets else found.ranges)]


def ranges_told(error: ProducerUnsafe) -> list[OffsetRange]:
    """Return where what is stored of a batch is, as *error* says."""
    return [OffsetRange(**each) for each in error.ranges or []]
