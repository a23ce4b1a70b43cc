"""What an idempotent producer knows of one partition: who it is there, which number is next, and what is in doubt."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

from penstock.client.event import Event, Publication
from penstock.client.plain_values import PlainValues
from penstock.client.producer_options import Outcome, PartitionPublishingOptions, PublishResult
from penstock.core.producers import MODULUS, Range
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
        self.begun = 0
        """The number from which on the events of this epoch are known to have been stored."""
        self.next = 0
        """The number of the next event."""
        self.remembered_s = math.inf
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
        self.group, self.epoch, self.next = shown.producer_group, shown.owner_level, shown.next_sequence
        self.begun = 0 if shown.last_offset is not None else self.next
        self.remembered_s = math.inf if shown.expires_at is None else shown.expires_after_s
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
        if operation.is_ambiguous:
            return "unknown"
        open_ = set(map(id, self.doubtful.events)) if self.doubtful else set()
        is_open = any(id(each) in open_ for each in self.plain.events(operation.values))
        return "unknown" if is_open or self.has_settled(operation) else "not_stored"

    def has_settled(self, operation: Operation) -> bool:
        """Tell whether anything of what an operation is to publish was found to be stored, and nobody was told so."""
        return any(each in self.settled for each in self.plain.events(operation.values))

    def settle(self, numbered: Numbered, ranges: Sequence[Range]) -> None:
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

    def publications(self, numbered: Numbered, ranges: Sequence[Range]) -> list[Publication]:
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
