"""What an idempotent producer knows of one partition: who it is there, which number is next, and what is in doubt."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

from penstock.client.event import Event, Publication
from penstock.client.producer_options import Outcome, PartitionPublishingOptions, PublishResult
from penstock.core.document import document
from penstock.core.producer import MODULUS, Range
from penstock.errors import PenstockError, ProducerUnsafe
from penstock.wire.producers import Shown

LAST_S: Final = 0.1
"""A last attempt has so much time at least."""
Standing: TypeAlias = Literal["new", "ready", "unresolved", "poisoned"]


class Numbered(NamedTuple):
    """Events with their numbers, as they are sent: the same bytes, however often."""

    epoch: int
    first: int
    events: Sequence[Event]
    body: bytes


class Wrapped(NamedTuple):
    """What was handed in as something else than an event."""

    value: object
    document: bytes
    """What it held then: whoever has changed it since hands in another event."""
    event: Event


Place: TypeAlias = tuple[int, int]
"""Which object something is, and the how manieth time that it is there."""


class AbandonedError(Exception):
    """Nobody waits for what comes of an operation any longer: it ends where it is."""


class Operation:
    """One call of an idempotent producer; only while somebody waits for it may it change what is known."""

    def __init__(
        self, deadline: float, is_cancelled: Callable[[], bool] = lambda: False, values: Sequence[Any] = ()
    ) -> None:
        """Begin one that may last until *deadline*, on the monotonic clock, unless it is cancelled before.

        *values* are what it is to publish.
        """
        self.deadline = deadline
        self.is_cancelled = is_cancelled
        self.values = values
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
        return min(seconds, max(LAST_S, self.deadline - time.monotonic()))

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
        self.next = 0
        """The number of the next event."""
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
        self.wrapped: dict[Place, Wrapped] = {}
        """What the last call that failed was handed in as something else than events."""
        self.settled_body = b""
        """The last batch that was found to be stored after publishing it had failed."""
        self.settled_as: Sequence[Publication] = ()
        """Where its events are."""

    def adopt(self, shown: Shown) -> None:
        """Go on in the epoch that was granted."""
        assert shown.next_sequence is not None
        self.group, self.epoch, self.next = shown.producer_group, shown.owner_level, shown.next_sequence
        self.modulus = shown.sequence_modulus
        self.last_offset, self.last_published = shown.last_offset, shown.last_published_sequence
        self.claim_id = new_claim_id()
        self.clear()

    def advance(self, count: int, ranges: Sequence[Range]) -> None:
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
        doubtful, wrapped = self.doubtful, self.wrapped
        if operation.is_ambiguous:
            return "unknown"
        open_ = set(map(id, doubtful.events)) if doubtful else set()
        values = operation.values
        events = [
            wrapped[at].event if at in wrapped else value for at, value in zip(places(values), values, strict=True)
        ]
        is_open = any(id(each) in open_ or (isinstance(each, Event) and each in self.settled) for each in events)
        return "unknown" if is_open else "not_stored"

    def settle(self, numbered: Numbered, ranges: Sequence[Range]) -> None:
        """Take note that *numbered* is stored, though its user was told that this is not known."""
        found = self.publications(numbered, ranges)
        self.settled.update(zip(numbered.events, found, strict=True))
        self.settled_body, self.settled_as = numbered.body, found

    def wrap(self, values: Sequence[Any]) -> list[Event]:
        """Return *values* as events: those that were handed in before, and failed, as the same ones."""
        events = self.recognised(values)
        self.wrapped = {
            at: Wrapped(value, document(event.data), event)
            for at, value, event in zip(places(values), values, events, strict=True)
            if value is not event
        }
        return events

    def recognised(self, values: Sequence[Any]) -> list[Event]:
        """Return *values* as events, as `wrap` does, and forget nothing."""
        if not self.wrapped:
            return [Event.of(value) for value in values]
        return [self._same(at) or Event.of(value) for at, value in zip(places(values), values, strict=True)]

    def _same(self, at: Place) -> Event | None:
        before = self.wrapped.get(at)
        return before.event if before is not None and document(before.event.data) == before.document else None

    def known(self, events: Sequence[Event], body: bytes = b"") -> Sequence[Publication]:
        """Return where all of *events* are stored, which make *body*, if it was found that they are."""
        if body and body == self.settled_body:
            return self.settled_as
        found = [self.settled.get(event) for event in events]
        return [each for each in found if each is not None] if None not in found else ()

    def forget(self) -> None:
        """Forget what the last call was handed in: it has been published."""
        self.wrapped = {}
        self.settled_body, self.settled_as = b"", ()

    def publications(self, numbered: Numbered, ranges: Sequence[Range]) -> list[Publication]:
        """Return under which number, and where, each of these events is stored."""
        offsets = (offset for each in ranges for offset in range(each.first, each.last + 1))
        numbers = ((numbered.first + at) % self.modulus for at in range(len(numbered.events)))
        return [
            Publication(self.group, self.partition, numbered.epoch, number, offset)
            for number, offset in zip(numbers, offsets, strict=True)
        ]


def places(values: Sequence[Any]) -> list[Place]:
    """Return how each of *values* is told from the others: the same object may be there more than once."""
    seen: Counter[int] = Counter()
    found = []
    for value in values:
        found.append((id(value), seen[id(value)]))
        seen[id(value)] += 1
    return found


def again(error: PenstockError) -> PenstockError:
    """Return an error that says the same, to be raised another time."""
    return type(error)(error.detail, **error.fields)


def new_claim_id() -> str:
    """Return an id by which a claim is known that is made again."""
    return uuid4().hex
