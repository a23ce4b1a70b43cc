"""The protocol side of an idempotent producer, without I/O.

It sends batches, and finds out whether a batch of unknown outcome is stored: docs/decisions/idempotent-producers.md.
Every request to the hub can be repeated without harm.

Invariants:
    A retry sends the same bytes with the same numbers.
    A number is used for other events only if the events sent under it before are certainly not stored.
    While the outcome of a batch is unknown, nothing else is sent to its partition.
    A verdict on a batch is final: it is given once no copy of the batch can be stored any more.
    A verdict is what the hub has found by comparing the batch with what it has stored.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from penstock.client.http.exchanges import RetryPolicy
from penstock.client.log.publishing import Event, check_unpublished
from penstock.client.producers.options import OnUnknown, PublishResult, Resolution
from penstock.client.producers.partition_state import (
    Lane,
    Numbered,
    Operation,
    exhausted,
    is_transient,
    lost,
    may_be_stored,
    poisoned,
    ranges_in,
    ranges_told,
    regressed,
    status,
    told,
)
from penstock.client.protocol import HubProtocol
from penstock.client.registry import PublishingProperties, hub_address, properties_of
from penstock.core.producers import OffsetRange
from penstock.errors import (
    BadParameter,
    ClaimRefused,
    EventTooLarge,
    InvalidEvent,
    PenstockError,
    ProducerFenced,
    ProducerNotFound,
    ProducerStateExpired,
    ProducerUnsafe,
    SequenceTooOld,
)
from penstock.wire import producers as wire
from penstock.wire.http import Answer, Backoff, Exchange, Pause, Request, fetch, malformed, patiently, refusal
from penstock.wire.log.zeroeventhub import NDJSON

_ACCEPTED: Final = {"accept": "application/json"}
_JSON: Final = {"content-type": "application/json", **_ACCEPTED}
Shape = TypeVar("Shape")


class _EventType(msgspec.Struct):
    category: str = "undefined"


class Asking:
    """Asks about the producers of one event type, as long as an operation lasts, and as often as *retry* says."""

    def __init__(
        self, url: str, event_type: str, retry: RetryPolicy, attempt_timeout: float, clock: Callable[[], float]
    ) -> None:
        self._url = url
        self._event_type = event_type
        self._retry = retry
        self._attempt_timeout = attempt_timeout
        self._clock = clock

    def claim(
        self, lane: Lane, group: str | None, wanted: Mapping[str, Any], operation: Operation
    ) -> Exchange[wire.Shown]:
        """Claim an epoch; of a new group, where none is named.

        Raises:
            ClaimRefused, EpochExhausted: it cannot be had.
        """
        url = self._address(lane, "producers") if group is None else self._address(lane, "producers", group)
        body = msgspec.json.encode({**wanted, "claim_id": lane.claim_id})
        method = "POST" if group is None else "PUT"
        return (
            yield from self._asked(Request(method=method, url=url, headers=_JSON, body=body), operation, wire.Shown)
        )

    def standing(self, lane: Lane, operation: Operation) -> Exchange[wire.Shown | None]:
        """Ask how far a producer has come; None: the hub knows nothing of it."""
        request = Request(method="GET", url=self._address(lane, "producers", lane.group), headers=_ACCEPTED)
        try:
            return (yield from self._asked(request, operation, wire.Shown))
        except ProducerNotFound:
            return None

    def category(self, operation: Operation) -> Exchange[str]:
        """Return the category of the event type.

        Raises:
            EventTypeNotFound: there is none such.
        """
        request = Request(method="GET", url=hub_address(self._url, "event-types", self._event_type), headers=_ACCEPTED)
        return (yield from self._asked(request, operation, _EventType)).category

    def batch(self, lane: Lane, numbered: Numbered, operation: Operation) -> Request:
        """Return the request that publishes a batch, the same each time."""
        numbers = {wire.GROUP: lane.group, wire.EPOCH: str(numbered.epoch), wire.SEQUENCE: str(numbered.first)}
        return Request(
            method="POST",
            url=self._address(lane, "events"),
            headers={"content-type": NDJSON, **_ACCEPTED, **numbers},
            body=numbered.body,
            timeout=operation.within(self._attempt_timeout),
        )

    def repeat(self, lane: Lane, numbered: Numbered, operation: Operation) -> Exchange[wire.Result]:
        """Publish a batch again, to see what has become of it.

        Raises:
            ProducerUnsafe: its numbers are not given to it any more; says whether it is stored.
        """
        return (yield from self._asked(self.batch(lane, numbered, operation), operation, wire.Result))

    def _asked(self, request: Request, operation: Operation, shape: type[Shape]) -> Exchange[Shape]:
        """Ask what can be asked again without harm."""

        def attempt() -> Exchange[Shape]:
            operation.check()
            answer = yield from fetch(replace(request, timeout=operation.within(self._attempt_timeout)))
            if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
                raise refusal(answer)
            return decoded(answer, shape)

        return (
            yield from patiently(
                attempt, is_transient, operation.deadline - self._clock(), self._clock,
                delay_seconds_max=self._retry.max_delay_seconds, attempts_max=self._retry.max_attempts,
            )
        )  # fmt: skip

    def _address(self, lane: Lane, *path: str) -> str:
        """Return the address of something that belongs to the partition."""
        return hub_address(self._url, "event-types", self._event_type, "partitions", str(lane.partition), *path)


def decoded(answer: Answer, shape: type[Shape]) -> Shape:
    """Return what an answer says.

    Raises:
        MalformedAnswer: it is no such thing.
    """
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(answer.url, f"it answered {answer.body[:200]!r} to what was asked") from error


class Resolving:
    """What one producer does about what is in doubt.

    Args:
        asking: By which the hub is asked.
        claims: What each claim asks for besides.
        on_unknown: Whether it is found out, or only seen to that it is not stored from here on.
        on_resolution: Is told what was found out.
    """

    def __init__(
        self,
        asking: Asking,
        claims: Mapping[str, Any],
        on_unknown: OnUnknown,
        on_resolution: Callable[[Resolution], object] | None,
    ) -> None:
        self._asking = asking
        self._claims = claims
        self._on_unknown = on_unknown
        self._on_resolution = on_resolution

    def resolve(self, lane: Lane, operation: Operation) -> Exchange[Resolution | None]:
        """Find out, once and for all, whether what is doubtful is stored; None: nothing is doubtful.

        Where asking leaves it open, the next epoch is claimed, so that nothing which is still on its way can be stored
        any more: then what the epoch before has ended with says it.

        Raises:
            ProducerUnsafe: somebody else has taken over, or the hub has lost something.
        """
        numbered = lane.doubtful
        if numbered is None:
            return None
        lane.check()
        if self._on_unknown == "republish":
            yield from self._fence(lane, numbered, operation)
            with operation.holding():
                lane.plain.drop(numbered.events)
                lane.clear()
            return None
        is_open = True
        if lane.epoch == numbered.epoch:  # Else it is shut out already.
            shown = yield from self._asking.standing(lane, operation)
            if not _is_past(shown, numbered):
                _check_kept(lane, numbered, shown, operation)
                is_open = yield from self._fence(lane, numbered, operation)
        stored, ranges = (yield from self._fate(lane, numbered, operation)) if is_open else (False, ())
        with operation.holding():
            if stored and lane.epoch == numbered.epoch:
                lane.advance(len(numbered.events), ranges)
            resolution = _resolved(lane, numbered, stored, ranges)
            if stored is None:
                fields = {"producer_group": lane.group, "partition": lane.partition, "received": numbered.first}
                lane.poison(SequenceTooOld(**fields))
        self._tell(resolution)
        lane.check()
        return resolution

    def _fate(
        self, lane: Lane, numbered: Numbered, operation: Operation
    ) -> Exchange[tuple[bool | None, Sequence[OffsetRange]]]:
        """Find out whether a batch is stored, and where, once it is either past or shut out; None: nobody knows.

        Handed in once more it is not stored twice, and the hub compares it with what it has under its numbers: that may
        be another's, who has the same group and the same epoch.
        """
        try:
            found = yield from self._asking.repeat(lane, numbered, operation)
        except (ProducerFenced, ProducerStateExpired) as error:
            return error.committed, ranges_told(error)
        except ProducerUnsafe as error:
            with operation.holding():
                raise poisoned(lane, numbered, error, operation, is_open=True) from error.__cause__
        return True, ranges_in(found)

    def _fence(self, lane: Lane, numbered: Numbered, operation: Operation) -> Exchange[bool]:
        """Claim the epoch after ours, so that nothing of ours is stored any more; tell whether anything may be."""
        begun, is_behind = lane.begun, False
        try:
            try:
                shown = yield from self._claim(lane, operation, epoch="next", if_epoch=lane.epoch)
            except ClaimRefused as error:
                is_behind = _is_behind(error, lane.epoch)
                if not is_behind:
                    raise
                shown = yield from self._claim(lane, operation, epoch=lane.epoch + 1)
        except ClaimRefused as error:
            yield from self._taken_over(lane, numbered, operation, error)
        is_open = not is_behind or (shown.previous is not None and shown.previous.epoch == numbered.epoch)
        missing = (numbered.first - begun) % lane.modulus
        with operation.holding():
            lane.adopt(shown)
            if missing and not is_open:
                raise lane.poison(lost(lane, numbered, begun, missing))
            lane.doubt(numbered)  # What has become of it is still to be found out.
        return is_open

    def _claim(self, lane: Lane, operation: Operation, **wanted: Any) -> Exchange[wire.Shown]:
        return (yield from self._asking.claim(lane, lane.group, {**wanted, **self._claims}, operation))

    def _taken_over(
        self, lane: Lane, numbered: Numbered, operation: Operation, error: ClaimRefused
    ) -> Exchange[NoReturn]:
        """Find out what has become of a batch, since somebody else has shut it out; then publish nothing more."""
        current = error.current_epoch
        fields = {"producer_group": lane.group, "partition": lane.partition, "current_epoch": current}
        if self._on_unknown == "republish":
            with operation.holding():
                raise lane.poison(ProducerFenced(**fields)) from error
        stored, ranges = yield from self._fate(lane, numbered, operation)
        with operation.holding():
            resolution = _resolved(lane, numbered, stored, ranges)
            fenced = lane.poison(ProducerFenced(**fields, committed=stored))
        self._tell(resolution)
        raise fenced from error

    def _tell(self, resolution: Resolution) -> None:
        if self._on_resolution is not None:
            self._on_resolution(resolution)


def _is_past(shown: wire.Shown | None, numbered: Numbered) -> bool:
    """Tell whether a producer has come past a batch, in the epoch of that."""
    if shown is None or shown.next_sequence is None or shown.epoch != numbered.epoch:
        return False
    ahead = (shown.next_sequence - numbered.first) % shown.sequence_modulus
    return len(numbered.events) <= ahead < shown.sequence_modulus / 2


def _check_kept(lane: Lane, numbered: Numbered, shown: wire.Shown | None, operation: Operation) -> None:
    """Raise ServerStateRegressed where the hub knows less than it has acknowledged."""
    if shown is not None and shown.epoch > numbered.epoch:
        return
    if shown is not None and shown.expired:
        return
    is_ours = shown is not None and shown.epoch == numbered.epoch
    expected = shown.next_sequence if shown is not None and is_ours and shown.next_sequence is not None else lane.begun
    missing = (numbered.first - expected) % lane.modulus
    if 0 < missing < lane.modulus / 2:
        with operation.holding():
            lane.clear()
            raise lane.poison(lost(lane, numbered, expected, missing))


def _is_behind(error: ClaimRefused, epoch: int) -> bool:
    """Tell whether the hub has never heard of *epoch*, or not any more."""
    current = error.current_epoch
    return current is None or current < epoch


def _resolved(lane: Lane, numbered: Numbered, stored: bool | None, ranges: Sequence[OffsetRange]) -> Resolution:
    """Take note of what was found out, unless that is nothing."""
    if stored:
        lane.settle(numbered, ranges)
    elif stored is not None:
        lane.plain.drop(numbered.events)
    if stored is not None:
        lane.clear()
    return Resolution(lane.partition, numbered.epoch, numbered.first, len(numbered.events), stored, tuple(ranges))


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
            _check_time(operation, lane.remembered_seconds)
            return
        options = {"epoch": lane.options.epoch, "starting_sequence": lane.options.starting_sequence}
        wanted = {name: value for name, value in options.items() if value is not None} | self._pinned
        shown = yield from self._asking.claim(lane, self.group, wanted, operation)
        if shown.expires_at is not None:
            _check_time(operation, shown.expires_after_seconds)
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
        backoff = Backoff(self._retry.max_delay_seconds)
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
        self, lane: Lane, numbered: Numbered, operation: Operation, ranges: Sequence[OffsetRange], *, duplicate: bool
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
        if error.committed is True and regressed(lane, numbered, error) is None:
            self._stored(lane, numbered, operation, ranges_told(error), duplicate=True)
            with operation.holding():
                lane.poison(error)
            return
        with operation.holding():
            operation.in_flight = False
            raise poisoned(lane, numbered, error, operation, is_open=operation.is_ambiguous) from error.__cause__


def _check_time(operation: Operation, remembered_seconds: float) -> None:
    """Raise BadParameter where the hub may forget a producer while it still tries."""
    parameter, seconds = operation.lasts
    if 2 * seconds > remembered_seconds:
        allowed = f"at most {remembered_seconds / 2:g}: half of the time for which the hub remembers a producer"
        raise BadParameter(parameter=parameter, value=seconds, allowed=allowed)


def _counted(error: PenstockError, numbered: Numbered, operation: Operation) -> PenstockError:
    """Let *error*, which calls an event by its place in what was sent, call it by its place in what was handed in."""
    line = error.fields.get("line")
    if type(line) is not int or len(numbered.events) == len(operation.events):
        return error
    handed_in = operation.events.index(numbered.events[line - 1]) + 1
    return type(error)(**error.fields | {"line": handed_in})


def _result(operation: Operation, ranges: Sequence[OffsetRange] | None = None, *, duplicate: bool) -> PublishResult:
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


def ranges_of(offsets: Iterable[int]) -> list[OffsetRange]:
    """Return *offsets* as ranges, in their order.

    >>> ranges_of([4, 5, 6, 9, 2])
    [OffsetRange(first=4, last=6), OffsetRange(first=9, last=9), OffsetRange(first=2, last=2)]
    """
    found: list[OffsetRange] = []
    for offset in offsets:
        if found and found[-1].last + 1 == offset:
            found[-1] = found[-1]._replace(last=offset)
        else:
            found.append(OffsetRange(offset, offset))
    return found
