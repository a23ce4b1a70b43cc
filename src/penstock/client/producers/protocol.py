"""Protocol of an idempotent producer; it does no I/O.

It sends batches, and finds out whether a batch of unknown outcome is stored: docs/decisions/idempotent-producers.md.
Every request can be repeated safely.

Invariants:
    A retry sends the same bytes with the same sequence numbers.
    A sequence number is reused for other events only if the first ones are certainly not stored.
    While the outcome of a batch is unknown, nothing else is sent to its partition.
    The outcome of a batch is final: it is reported once no copy of the batch can be stored later.
    The hub determines the outcome: it compares the batch with the stored events.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from penstock.client.http.exchanges import RetryPolicy
from penstock.client.log.publishing import CheckedData, Event, check_unpublished
from penstock.client.producers.options import OnUnknown, PublishResult, Resolution
from penstock.client.producers.partition_state import (
    PartitionState,
    ProducerCall,
    SequencedBatch,
    add_outcome,
    error_ranges,
    fail_partition,
    find_regression,
    http_status,
    is_retryable,
    list_stored_ranges,
    make_exhausted_error,
    make_lost_events_error,
    may_be_stored,
)
from penstock.client.protocol import HubProtocol
from penstock.client.registry import PublishingProperties, hub_address, properties_of
from penstock.core.producers import OffsetRange
from penstock.errors import (
    BadParameter,
    ClaimRefused,
    EventTooLarge,
    InvalidEvent,
    MalformedAnswer,
    OutOfSequence,
    PenstockError,
    ProducerFenced,
    ProducerNotFound,
    ProducerStateExpired,
    ProducerUnsafe,
)
from penstock.wire import producers as wire
from penstock.wire.http import (
    Exchange,
    HttpRequest,
    HttpResponse,
    Pause,
    RetryBackoff,
    error_of,
    fetch,
    retry_until,
)
from penstock.wire.log.zeroeventhub import NDJSON

_ACCEPTED: Final = {"accept": "application/json"}
_JSON: Final = {"content-type": "application/json", **_ACCEPTED}
Shape = TypeVar("Shape")


class _EventType(msgspec.Struct):
    category: str = "undefined"


class ProducerRequests:
    """Requests about the producers of one event type, retried until the call's deadline as *retry* allows."""

    def __init__(
        self, url: str, event_type: str, retry: RetryPolicy, attempt_timeout: float, clock: Callable[[], float]
    ) -> None:
        self._url = url
        self._event_type = event_type
        self._retry = retry
        self._attempt_timeout = attempt_timeout
        self._clock = clock

    def claim(
        self, state: PartitionState, group: str | None, wanted: Mapping[str, Any], call: ProducerCall
    ) -> Exchange[wire.ProducerProperties]:
        """Claim an epoch, in a new producer group if *group* is None.

        Raises:
            ClaimRefused, EpochExhausted: The hub refused the claim.
        """
        url = self._address(state, "producers") if group is None else self._address(state, "producers", group)
        body = msgspec.json.encode({**wanted, "claim_id": state.claim_id})
        method = "POST" if group is None else "PUT"
        return (
            yield from self._fetch(
                HttpRequest(method=method, url=url, headers=_JSON, body=body), call, wire.ProducerProperties
            )
        )

    def show(self, state: PartitionState, call: ProducerCall) -> Exchange[wire.ProducerProperties | None]:
        """Return the state of a producer at the hub; None if the hub does not know it."""
        request = HttpRequest(method="GET", url=self._address(state, "producers", state.group), headers=_ACCEPTED)
        try:
            return (yield from self._fetch(request, call, wire.ProducerProperties))
        except ProducerNotFound:
            return None

    def category(self, call: ProducerCall) -> Exchange[str]:
        """Return the category of the event type.

        Raises:
            EventTypeNotFound: The event type does not exist.
        """
        request = HttpRequest(
            method="GET", url=hub_address(self._url, "event-types", self._event_type), headers=_ACCEPTED
        )
        return (yield from self._fetch(request, call, _EventType)).category

    def publish_request(self, state: PartitionState, batch: SequencedBatch, call: ProducerCall) -> HttpRequest:
        """Return the request that publishes *batch*; it is the same each time."""
        numbers = {wire.GROUP: state.group, wire.EPOCH: str(batch.epoch), wire.SEQUENCE: str(batch.first)}
        return HttpRequest(
            method="POST",
            url=self._address(state, "events"),
            headers={"content-type": NDJSON, **_ACCEPTED, **numbers},
            body=batch.body,
            timeout=call.cap(self._attempt_timeout),
        )

    def repeat(self, state: PartitionState, batch: SequencedBatch, call: ProducerCall) -> Exchange[wire.PublishedBatch]:
        """Publish a batch again, to find out whether it is stored.

        Raises:
            ProducerUnsafe: The batch is refused; the error says whether it is stored.
        """
        return (yield from self._fetch(self.publish_request(state, batch, call), call, wire.PublishedBatch))

    def _fetch(self, request: HttpRequest, call: ProducerCall, shape: type[Shape]) -> Exchange[Shape]:
        """Send a request that can be repeated safely."""

        def attempt() -> Exchange[Shape]:
            call.check()
            answer = yield from fetch(replace(request, timeout=call.cap(self._attempt_timeout)))
            if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
                raise error_of(answer)
            return decode_response(answer, shape)

        return (
            yield from retry_until(
                attempt, is_retryable, call.deadline - self._clock(), self._clock,
                delay_seconds_max=self._retry.max_delay_seconds, attempts_max=self._retry.max_attempts,
            )
        )  # fmt: skip

    def _address(self, state: PartitionState, *path: str) -> str:
        """Return the address of *path* of the partition."""
        return hub_address(self._url, "event-types", self._event_type, "partitions", str(state.partition), *path)


def decode_response(answer: HttpResponse, shape: type[Shape]) -> Shape:
    """Return the JSON body of a response.

    Raises:
        MalformedAnswer: The body is not of that type.
    """
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswer(url=answer.url, reason=f"it answered {answer.body[:200]!r} to what was asked") from error


class OutcomeResolver:
    """Resolves batches of unknown outcome, for one producer.

    Args:
        requests: The requests to the hub.
        claims: Additional members of each claim.
        on_unknown: Selects to resolve the outcome, or only to make sure that the batch is not stored later.
        on_resolution: Called with each outcome.
    """

    def __init__(
        self,
        requests: ProducerRequests,
        claims: Mapping[str, Any],
        on_unknown: OnUnknown,
        on_resolution: Callable[[Resolution], object] | None,
    ) -> None:
        self._requests = requests
        self._claims = claims
        self._on_unknown = on_unknown
        self._on_resolution = on_resolution

    def resolve(self, state: PartitionState, call: ProducerCall) -> Exchange[Resolution | None]:
        """Find out whether the unresolved batch is stored; return None if there is none.

        If the hub's state leaves it open, the next epoch is claimed, so that no copy of the batch that is still on its
        way can be stored. The state at the end of the previous epoch then gives the outcome.

        Raises:
            ProducerUnsafe: Another producer has fenced this one, or the hub has lost events.
        """
        batch = state.unresolved
        if batch is None:
            return None
        state.check()
        if self._on_unknown == "republish":
            yield from self._fence(state, batch, call)
            with call.hold():
                state.plain.drop(batch.events)
                state.mark_ready()
            return None
        is_open = True
        if state.epoch == batch.epoch:  # Otherwise the batch is fenced already.
            shown = yield from self._requests.show(state, call)
            if not _is_past(shown, batch):
                _check_kept(state, batch, shown, call)
                is_open = yield from self._fence(state, batch, call)
        stored, ranges = (yield from self._find_outcome(state, batch, call)) if is_open else (False, ())
        with call.hold():
            if stored and state.epoch == batch.epoch:
                state.advance(len(batch.events), ranges)
            resolution = _record_resolution(state, batch, stored, ranges)
            if stored is None:
                fields = {"producer_group": state.group, "partition": state.partition, "received": batch.first}
                state.fail(OutOfSequence.of("sequence-too-old", **fields))
        self._report(resolution)
        state.check()
        return resolution

    def _find_outcome(
        self, state: PartitionState, batch: SequencedBatch, call: ProducerCall
    ) -> Exchange[tuple[bool | None, Sequence[OffsetRange]]]:
        """Return whether an acknowledged or fenced batch is stored, and where; None if the hub has forgotten.

        Sending it again does not store it twice: the hub compares it with the events stored under its numbers, which
        another producer of the same group and epoch may have written.
        """
        try:
            found = yield from self._requests.repeat(state, batch, call)
        except (ProducerFenced, ProducerStateExpired) as error:
            return error.committed, error_ranges(error)
        except ProducerUnsafe as error:
            with call.hold():
                raise fail_partition(state, batch, error, call, is_open=True) from error.__cause__
        return True, list_stored_ranges(found)

    def _fence(self, state: PartitionState, batch: SequencedBatch, call: ProducerCall) -> Exchange[bool]:
        """Claim the next epoch to fence this producer's own copies; return whether the batch may be stored."""
        begun, is_behind = state.begun, False
        try:
            try:
                shown = yield from self._claim(state, call, epoch="next", if_epoch=state.epoch)
            except ClaimRefused as error:
                is_behind = _is_behind(error, state.epoch)
                if not is_behind:
                    raise
                shown = yield from self._claim(state, call, epoch=state.epoch + 1)
        except ClaimRefused as error:
            yield from self._resolve_fenced(state, batch, call, error)
        is_open = not is_behind or (shown.previous is not None and shown.previous.epoch == batch.epoch)
        missing = (batch.first - begun) % state.modulus
        with call.hold():
            state.adopt(shown)
            if missing and not is_open:
                raise state.fail(make_lost_events_error(state, batch, begun, missing))
            state.mark_unresolved(batch)  # The outcome is still unknown.
        return is_open

    def _claim(self, state: PartitionState, call: ProducerCall, **wanted: Any) -> Exchange[wire.ProducerProperties]:
        return (yield from self._requests.claim(state, state.group, {**wanted, **self._claims}, call))

    def _resolve_fenced(
        self, state: PartitionState, batch: SequencedBatch, call: ProducerCall, error: ClaimRefused
    ) -> Exchange[NoReturn]:
        """Find out the outcome of a batch that another producer has fenced; then refuse further batches."""
        current = error.current_epoch
        fields = {"producer_group": state.group, "partition": state.partition, "current_epoch": current}
        if self._on_unknown == "republish":
            with call.hold():
                raise state.fail(ProducerFenced(**fields)) from error
        stored, ranges = yield from self._find_outcome(state, batch, call)
        with call.hold():
            resolution = _record_resolution(state, batch, stored, ranges)
            fenced = state.fail(ProducerFenced(**fields, committed=stored))
        self._report(resolution)
        raise fenced from error

    def _report(self, resolution: Resolution) -> None:
        if self._on_resolution is not None:
            self._on_resolution(resolution)


def _is_past(shown: wire.ProducerProperties | None, batch: SequencedBatch) -> bool:
    """Return whether the producer has advanced past *batch*, in the batch's epoch."""
    if shown is None or shown.next_sequence is None or shown.epoch != batch.epoch:
        return False
    ahead = (shown.next_sequence - batch.first) % shown.sequence_modulus
    return len(batch.events) <= ahead < shown.sequence_modulus / 2


def _check_kept(
    state: PartitionState, batch: SequencedBatch, shown: wire.ProducerProperties | None, call: ProducerCall
) -> None:
    """Raise ServerStateRegressed if the hub has lost acknowledged events."""
    if shown is not None and shown.epoch > batch.epoch:
        return
    if shown is not None and shown.expired:
        return
    is_ours = shown is not None and shown.epoch == batch.epoch
    expected = shown.next_sequence if shown is not None and is_ours and shown.next_sequence is not None else state.begun
    missing = (batch.first - expected) % state.modulus
    if 0 < missing < state.modulus / 2:
        with call.hold():
            state.mark_ready()
            raise state.fail(make_lost_events_error(state, batch, expected, missing))


def _is_behind(error: ClaimRefused, epoch: int) -> bool:
    """Return whether the hub has never seen *epoch*, or has forgotten it."""
    current = error.current_epoch
    return current is None or current < epoch


def _record_resolution(
    state: PartitionState, batch: SequencedBatch, stored: bool | None, ranges: Sequence[OffsetRange]
) -> Resolution:
    """Record the outcome in *state* and return it."""
    if stored:
        state.settle(batch, ranges)
    elif stored is not None:
        state.plain.drop(batch.events)
    if stored is not None:
        state.mark_ready()
    return Resolution(state.partition, batch.epoch, batch.first, len(batch.events), stored, tuple(ranges))


class ProducerProtocol:
    """Protocol of one idempotent producer."""

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
        self._requests = ProducerRequests(hub.url, event_type, retry, attempt_timeout, clock)
        self._resolving = OutcomeResolver(self._requests, self._pinned, on_unknown, on_resolution)
        self._category: str | None = None
        self.clock = clock

    def send(self, state: PartitionState, values: Sequence[Any], call: ProducerCall) -> Exchange[PublishResult]:
        """Publish *values*, except those found to be stored by an earlier call.

        Raises:
            RetriesExhausted: The events could not be published in time.
            ProducerUnsafe: The sequence numbers do not match the stored events; the partition accepts no more batches
                of this producer.
            PenstockError: The events were refused.
        """
        try:
            state.check()
            yield from self.begin(state, call)
            yield from self.resolve(state, call)
            state.check()
        except ProducerUnsafe:
            if self._is_settled(
                state, values, call
            ):  # Although the producer is unsafe, these events are known to be stored.
                return self._finish(state, call)
            raise
        if self._is_settled(state, values, call):
            return self._finish(state, call)
        batch = yield from self._number_events(state, call)
        try:
            yield from self._publish(state, batch, call)
        except PenstockError:
            if not call.is_ambiguous:  # Nothing is stored: the same values are new events when sent again.
                state.plain.drop(batch.events)
            raise
        assert call.result is not None
        return call.result

    def begin(self, state: PartitionState, call: ProducerCall) -> Exchange[None]:
        """Claim an epoch in a partition, if the producer has none.

        Raises:
            ClaimRefused, EpochExhausted: The hub refused the claim.
        """
        if state.status != "new":
            _check_time(call, state.remembered_seconds)
            return
        options = {"epoch": state.options.epoch, "starting_sequence": state.options.starting_sequence}
        wanted = {name: value for name, value in options.items() if value is not None} | self._pinned
        shown = yield from self._requests.claim(state, self.group, wanted, call)
        if shown.expires_at is not None:
            _check_time(call, shown.expires_after_seconds)
        with call.hold():
            self.group = shown.producer_group
            state.adopt(shown)

    def resolve(self, state: PartitionState, call: ProducerCall) -> Exchange[Resolution | None]:
        """Find out the outcome of the unresolved batch; see `OutcomeResolver.resolve`."""
        return (yield from self._resolving.resolve(state, call))

    def properties(self, state: PartitionState, call: ProducerCall) -> Exchange[PublishingProperties]:
        """Return the state of the producer at the hub.

        Raises:
            ProducerNotFound, ProducerStateExpired: The hub has forgotten the producer.
        """
        shown = yield from self._requests.show(state, call)
        if shown is None:
            fields = {"event_type": self.event_type, "partition": state.partition, "producer_group": state.group}
            raise ProducerNotFound(**fields)
        return properties_of(shown)

    def category(self, call: ProducerCall) -> Exchange[str]:
        """Return the category of the event type. It is cached until a batch is refused."""
        if self._category is None:
            self._category = yield from self._requests.category(call)
        return self._category

    def line(self, event: Event, category: str, checked: CheckedData | None = None) -> bytes:
        """Return the feed line of *event*; it is the same each time. *checked*: see `Event.line`."""
        return event.line(category != "undefined", self._hub.publishing.line_of, checked)

    def _is_settled(self, state: PartitionState, values: Sequence[Any], call: ProducerCall) -> bool:
        """Convert the call's values to events; return whether all of them are stored already."""
        with call.hold():
            call.events = events = state.plain.events(values)
            check_unpublished(events)  # Another call may have published them while this one waited.
            return state.are_settled(events)

    def _number_events(self, state: PartitionState, call: ProducerCall) -> Exchange[SequencedBatch]:
        """Assign sequence numbers to the events that are not stored yet."""
        category = yield from self.category(call)
        fresh, lines = [], []
        checked = Event.check_together(call.events)
        for number, event in enumerate(call.events, 1):
            if state.settled and event in state.settled:
                continue
            try:
                lines.append(self.line(event, category, checked[number - 1]))
            except (InvalidEvent, EventTooLarge) as error:
                raise type(error).of(error.code, **error.fields | {"line": number}) from error
            fresh.append(event)
        with call.hold():
            state.plain.keep(call.events, call.values)
            return SequencedBatch(state.epoch, state.next, fresh, b"".join(lines))

    def _publish(self, state: PartitionState, batch: SequencedBatch, call: ProducerCall) -> Exchange[None]:
        """Send a batch until it is stored, refused, or out of attempts or time."""
        backoff = RetryBackoff(self._retry.max_delay_seconds)
        was_unauthorized = False
        while True:
            try:
                return (yield from self._attempt(state, batch, call))
            except ProducerUnsafe as error:
                self._handle_unsafe(state, batch, call, error)
                return
            except PenstockError as error:
                with call.hold():
                    call.in_flight = False
                    call.is_ambiguous |= may_be_stored(error)
                    if not call.is_ambiguous:
                        state.mark_ready()
                is_first_401 = http_status(error) == HTTPStatus.UNAUTHORIZED and not was_unauthorized
                was_unauthorized |= is_first_401  # Retried once, so that the client can renew its token.
                if not is_first_401 and not is_retryable(error):
                    self._category = None  # The event type may have changed.
                    raise add_outcome(_renumber_line(error, batch, call), state, call) from error.__cause__
                delay = backoff.delay(error)
                is_spent = self._retry.max_attempts is not None and call.attempts >= self._retry.max_attempts
                if is_spent or self.clock() + delay > call.deadline:
                    raise make_exhausted_error(error, state, call) from error
                pause = Pause(delay, error)
            yield pause

    def _attempt(self, state: PartitionState, batch: SequencedBatch, call: ProducerCall) -> Exchange[None]:
        call.check()
        with call.hold():
            call.in_flight = True
            call.attempts += 1
            state.mark_unresolved(batch)
        answer = yield from fetch(self._requests.publish_request(state, batch, call))
        if answer.status != HTTPStatus.OK:
            raise error_of(answer)
        found = decode_response(answer, wire.PublishedBatch)
        self._record_stored(state, batch, call, list_stored_ranges(found), duplicate=found.outcome == "duplicate")

    def _record_stored(
        self,
        state: PartitionState,
        batch: SequencedBatch,
        call: ProducerCall,
        ranges: Sequence[OffsetRange],
        *,
        duplicate: bool,
    ) -> None:
        with call.hold():
            call.in_flight = False
            state.advance(len(batch.events), ranges)
            for event, publication in zip(batch.events, state.publications(batch, ranges), strict=True):
                event.mark_published(publication)
            state.confirm(call.events)
            is_whole = len(batch.events) == len(call.events)
            call.result = _result(call, ranges if is_whole else None, duplicate=duplicate)

    def _finish(self, state: PartitionState, call: ProducerCall) -> PublishResult:
        """Report the events that were found to be stored; nothing is sent."""
        with call.hold():
            state.confirm(call.events)
            call.result = _result(call, duplicate=True)
        return call.result

    def _handle_unsafe(
        self, state: PartitionState, batch: SequencedBatch, call: ProducerCall, error: ProducerUnsafe
    ) -> None:
        """Refuse further batches. If the hub says that this very batch is stored, the call has succeeded."""
        if error.committed is True and find_regression(state, batch, error) is None:
            self._record_stored(state, batch, call, error_ranges(error), duplicate=True)
            with call.hold():
                state.fail(error)
            return
        with call.hold():
            call.in_flight = False
            raise fail_partition(state, batch, error, call, is_open=call.is_ambiguous) from error.__cause__


def _check_time(call: ProducerCall, remembered_seconds: float) -> None:
    """Raise BadParameter if the hub may forget the producer during the call."""
    parameter, seconds = call.limit
    if 2 * seconds > remembered_seconds:
        allowed = f"at most {remembered_seconds / 2:g}: half of the time for which the hub remembers a producer"
        raise BadParameter(parameter=parameter, value=seconds, allowed=allowed)


def _renumber_line(error: PenstockError, batch: SequencedBatch, call: ProducerCall) -> PenstockError:
    """Return *error* with its line counted among the events passed in, rather than those sent."""
    line = error.fields.get("line")
    if type(line) is not int or len(batch.events) == len(call.events):
        return error
    handed_in = call.events.index(batch.events[line - 1]) + 1
    return type(error).of(error.code, **error.fields | {"line": handed_in})


def _result(call: ProducerCall, ranges: Sequence[OffsetRange] | None = None, *, duplicate: bool) -> PublishResult:
    """Return the result of a call whose events are stored, at *ranges* if known."""
    first = call.events[0]
    assert first.published_epoch is not None and first.published_sequence is not None
    assert first.published_partition is not None
    if ranges is None:
        ranges = ranges_of(each.published_offset for each in call.events if each.published_offset is not None)
    return PublishResult(
        first.published_partition,
        first.published_epoch,
        first.published_sequence,
        len(call.events),
        tuple(ranges),
        duplicate,
        call.attempts,
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
