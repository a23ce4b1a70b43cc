"""The protocol side of idempotent publishing (digest of idempotent publishing, 4.8).

Invariants:
    What is sent again is the same bytes with the same numbers.
    A number is used for other events only when it is certain that the ones before them under it are not stored.
    When it is not known whether a batch is stored, nothing more is sent to its partition before that is found out.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any

from penstock.client.asking import Asking, decoded
from penstock.client.event import Event, check_unpublished
from penstock.client.hub_protocol import HubProtocol
from penstock.client.lane import Lane, Numbered, Operation
from penstock.client.producer_options import (
    OnUnknown,
    PublishingProperties,
    PublishResult,
    Resolution,
    RetryPolicy,
    properties_of,
)
from penstock.client.publish_outcome import (
    exhausted,
    is_transient,
    may_be_stored,
    poisoned,
    ranges_in,
    ranges_told,
    regressed,
    status,
    told,
)
from penstock.client.resolving import Resolving
from penstock.core.producers import Range
from penstock.errors import BadParameter, EventTooLarge, InvalidEvent, PenstockError, ProducerNotFound, ProducerUnsafe
from penstock.wire import producers as wire
from penstock.wire.exchange import Exchange, Pause, fetch
from penstock.wire.refusal import refusal
from penstock.wire.retry import Backoff


class Producing:
    """One idempotent producer, as far as no I/O is needed."""

    def __init__(
        self,
        event_type: str,
        hub: HubProtocol,
        *,
        group: str | None,
        retry: RetryPolicy,
        pinned: bool,
        attempt_timeout: float,
        on_unknown: OnUnknown,
        on_resolution: Callable[[Resolution], object] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.event_type = event_type
        self.group = group
        self._hub = hub
        self._retry = retry
        self._pinned = {"pinned": True} if pinned else {}
        self._asking = Asking(hub.url, event_type, retry, attempt_timeout, clock)
        self._resolving = Resolving(self._asking, self._pinned, on_unknown, on_resolution)
        self._category: str | None = None
        self.clock = clock

    def send(self, lane: Lane, values: Sequence[Any], operation: Operation) -> Exchange[PublishResult]:
        """Publish *values*, those of them excepted that an earlier call has published without being told so.

        Raises:
            RetriesExhausted: they could not be published in the time there was.
            ProducerUnsafe: their numbers do not fit what is stored; the partition takes no more of this producer.
            PenstockError: they were refused.
        """
        try:
            lane.check()
            yield from self.begin(lane, operation)
            yield from self.resolve(lane, operation)
            lane.check()
        except ProducerUnsafe:
            if self._is_known(lane, values, operation):  # However unsafe it is to go on: of these it was found out.
                return self._finish(lane, operation)
            raise
        if self._is_known(lane, values, operation):
            return self._finish(lane, operation)
        numbered = yield from self._numbered(lane, operation)
        try:
            yield from self._publish(lane, numbered, operation)
        except PenstockError:
            if not operation.is_ambiguous:  # Nothing of it is stored: handed in again, plain values are new.
                lane.plain.drop(numbered.events)
            raise
        assert operation.result is not None
        return operation.result

    def begin(self, lane: Lane, operation: Operation) -> Exchange[None]:
        """Claim an epoch in a partition, if that has not been done.

        Raises:
            ClaimRefused, EpochExhausted: it cannot be had.
        """
        if lane.standing != "new":
            _check_time(operation, lane.remembered_s)
            return
        options = {"owner_level": lane.options.owner_level, "starting_sequence": lane.options.starting_sequence}
        wanted = {name: value for name, value in options.items() if value is not None} | self._pinned
        shown = yield from self._asking.claim(lane, self.group, wanted, operation)
        if shown.expires_at is not None:
            _check_time(operation, shown.expires_after_s)
        with operation.holding():
            self.group = shown.producer_group
            lane.adopt(shown)

    def resolve(self, lane: Lane, operation: Operation) -> Exchange[Resolution | None]:
        """Find out whether what is doubtful is stored: see `Resolving.resolve`."""
        return (yield from self._resolving.resolve(lane, operation))

    def properties(self, lane: Lane, operation: Operation) -> Exchange[PublishingProperties]:
        """Ask the hub how far the producer has come in a partition.

        Raises:
            ProducerNotFound, ProducerStateExpired: the hub knows nothing of it any more.
        """
        shown = yield from self._asking.standing(lane, operation)
        if shown is None:
            fields = {"event_type": self.event_type, "partition": lane.partition, "producer_group": lane.group}
            raise ProducerNotFound(**fields)
        return properties_of(shown)

    def category(self, operation: Operation) -> Exchange[str]:
        """Return the category of the event type, asked for once, and again when a batch was refused."""
        if self._category is None:
            self._category = yield from self._asking.category(operation)
        return self._category

    def line(self, event: Event, category: str) -> bytes:
        """Return the line that publishes *event*: the same each time."""
        return event.line(category != "undefined", self._hub.publishing.line_of)

    def _is_known(self, lane: Lane, values: Sequence[Any], operation: Operation) -> bool:
        """Take up what is to be published; tell whether all of it was found to be stored."""
        with operation.holding():
            operation.events = events = lane.plain.events(values)
            check_unpublished(events)  # Two calls may have had them, one of which has waited for the other.
            return lane.known(events)

    def _numbered(self, lane: Lane, operation: Operation) -> Exchange[Numbered]:
        """Give numbers to those events that were not found to be stored."""
        category = yield from self.category(operation)
        fresh, lines = [], []
        for number, event in enumerate(operation.events, 1):
            if lane.settled and event in lane.settled:
                continue
            try:
                lines.append(self.line(event, category))
            except (InvalidEvent, EventTooLarge) as error:
                raise type(error)(**error.fields | {"line": number}) from error
            fresh.append(event)
        with operation.holding():
            lane.plain.keep(operation.events, operation.values)
            return Numbered(lane.epoch, lane.next, fresh, b"".join(lines))

    def _publish(self, lane: Lane, numbered: Numbered, operation: Operation) -> Exchange[None]:
        """Send a batch again and again, as long as it may only have failed for now."""
        backoff = Backoff(self._retry.max_delay)
        was_unauthorized = False
        while True:
            try:
                return (yield from self._attempt(lane, numbered, operation))
            except ProducerUnsafe as error:
                self._unsafe(lane, numbered, operation, error)
                return
            except PenstockError as error:
                with operation.holding():
                    operation.in_flight = False
                    operation.is_ambiguous |= may_be_stored(error)
                    if not operation.is_ambiguous:
                        lane.clear()
                is_first_401 = status(error) == HTTPStatus.UNAUTHORIZED and not was_unauthorized
                was_unauthorized |= is_first_401  # Once: so the client's authentication can have another token.
                if not is_first_401 and not is_transient(error):
                    self._category = None  # The event type may be another by now.
                    raise told(_counted(error, numbered, operation), lane, operation) from error.__cause__
                delay = backoff.delay(error)
                is_spent = self._retry.max_attempts is not None and operation.attempts >= self._retry.max_attempts
                if is_spent or self.clock() + delay > operation.deadline:
                    raise exhausted(error, lane, operation) from error
                pause = Pause(delay, error)
            yield pause

    def _attempt(self, lane: Lane, numbered: Numbered, operation: Operation) -> Exchange[None]:
        operation.check()
        with operation.holding():
            operation.in_flight = True
            operation.attempts += 1
            lane.doubt(numbered)
        answer = yield from fetch(self._asking.batch(lane, numbered, operation))
        if answer.status != HTTPStatus.OK:
            raise refusal(answer)
        found = decoded(answer, wire.Result)
        self._stored(lane, numbered, operation, ranges_in(found), duplicate=found.outcome == "duplicate")

    def _stored(
        self, lane: Lane, numbered: Numbered, operation: Operation, ranges: Sequence[Range], *, duplicate: bool
    ) -> None:
        with operation.holding():
            operation.in_flight = False
            lane.advance(len(numbered.events), ranges)
            for event, publication in zip(numbered.events, lane.publications(numbered, ranges), strict=True):
                event.published(publication)
            lane.tell(operation.events)
            is_whole = len(numbered.events) == len(operation.events)
            operation.result = _result(operation, ranges if is_whole else None, duplicate=duplicate)

    def _finish(self, lane: Lane, operation: Operation) -> PublishResult:
        """Let the caller know what was found out: nothing is to be sent."""
        with operation.holding():
            lane.tell(operation.events)
            operation.result = _result(operation, duplicate=True)
        return operation.result

    def _unsafe(self, lane: Lane, numbered: Numbered, operation: Operation, error: ProducerUnsafe) -> None:
        """Publish nothing more; but where the hub says that this very batch is stored, that has succeeded."""
        if error.fields.get("committed") is True and regressed(lane, numbered, error) is None:
            self._stored(lane, numbered, operation, ranges_told(error), duplicate=True)
            with operation.holding():
                lane.poison(error)
            return
        with operation.holding():
            operation.in_flight = False
            raise poisoned(lane, numbered, error, operation, is_open=operation.is_ambiguous) from error.__cause__


def _check_time(operation: Operation, remembered_s: float) -> None:
    """Raise BadParameter where the hub may forget a producer while it still tries."""
    parameter, seconds = operation.lasts
    if 2 * seconds > remembered_s:
        allowed = f"at most {remembered_s / 2:g}: half of the time for which the hub remembers a producer"
        raise BadParameter(parameter=parameter, value=seconds, allowed=allowed)


def _counted(error: PenstockError, numbered: Numbered, operation: Operation) -> PenstockError:
    """Let *error*, which calls an event by its place in what was sent, call it by its place in what was handed in."""
    line = error.fields.get("line")
    if type(line) is not int or len(numbered.events) == len(operation.events):
        return error
    handed_in = operation.events.index(numbered.events[line - 1]) + 1
    return type(error)(**error.fields | {"line": handed_in})


def _result(operation: Operation, ranges: Sequence[Range] | None = None, *, duplicate: bool) -> PublishResult:
    """Return what came of events that are published, at *ranges* where that is known."""
    first = operation.events[0]
    assert first.published_epoch is not None and first.published_sequence is not None
    assert first.published_partition is not None
    if ranges is None:
        ranges = ranges_of(each.published_offset for each in operation.events if each.published_offset is not None)
    return PublishResult(
        first.published_partition,
        first.published_epoch,
        first.published_sequence,
        len(operation.events),
        tuple(ranges),
        duplicate,
        operation.attempts,
    )


def ranges_of(offsets: Iterable[int]) -> list[Range]:
    """Return *offsets* as ranges, in their order.

    >>> ranges_of([4, 5, 6, 9, 2])
    [Range(first=4, last=6), Range(first=9, last=9), Range(first=2, last=2)]
    """
    found: list[Range] = []
    for offset in offsets:
        if found and found[-1].last + 1 == offset:
            found[-1] = found[-1]._replace(last=offset)
        else:
            found.append(Range(offset, offset))
    return found
