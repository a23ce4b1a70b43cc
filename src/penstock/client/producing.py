"""The protocol side of idempotent publishing (digest of idempotent publishing, 4.8).

Invariants:
    What is sent again is the same bytes with the same numbers.
    A number is used for other events only when it is certain that the ones before them under it are not stored.
    When it is not known whether a batch is stored, nothing more is sent to its partition before that is found out.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from penstock.client.asking import Asking, decoded
from penstock.client.event import Event, Publication, check_unpublished
from penstock.client.exchange import Exchange, Pause, fetch
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
    lost,
    may_be_stored,
    regressed,
    status,
    told,
)
from penstock.client.refusal import refusal
from penstock.core.producer import Range
from penstock.errors import (
    BadParameter,
    ClaimRefused,
    PenstockError,
    ProducerFenced,
    ProducerNotFound,
    ProducerStateExpired,
    ProducerUnsafe,
    SequenceTooOld,
)
from penstock.wire import producers as wire
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
        delivery_timeout: float,
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
        self._delivery_timeout = delivery_timeout
        self._attempt_timeout = attempt_timeout
        self._asking = Asking(hub.url, event_type, retry, attempt_timeout, clock)
        self._on_unknown = on_unknown
        self._on_resolution = on_resolution
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
            with operation.holding():
                events = lane.recognised(values)
                if known := lane.known(events):  # However unsafe it is to go on: of these it was found out.
                    operation.result = _repeated(lane, events, known)
                    return operation.result
            raise
        category = yield from self.category()
        with operation.holding():
            events = lane.wrap(values)
            check_unpublished(events)  # Two calls may have had them, one of which has waited for the other.
            lines = [self.line(event, category) for event in events]
            body = b"".join(lines)
            if known := lane.known(events, body):
                operation.result = _repeated(lane, events, known)
                return operation.result
        fresh = [at for at, event in enumerate(events) if event not in lane.settled]
        if len(fresh) < len(events):
            body = b"".join([lines[at] for at in fresh])
        numbered = Numbered(lane.epoch, lane.next, [events[at] for at in fresh], body)
        yield from self._publish(lane, numbered, operation)
        assert operation.result is not None
        if len(fresh) < len(events):
            operation.result = _mixed(lane, events, operation.result)
        return operation.result

    def begin(self, lane: Lane, operation: Operation) -> Exchange[None]:
        """Claim an epoch in a partition, if that has not been done.

        Raises:
            ClaimRefused, EpochExhausted: it cannot be had.
        """
        if lane.standing != "new":
            return
        options = {"owner_level": lane.options.owner_level, "starting_sequence": lane.options.starting_sequence}
        wanted = {name: value for name, value in options.items() if value is not None} | self._pinned
        shown = yield from self._asking.claim(lane, self.group, wanted, operation)
        if shown.expires_at is not None and shown.expires_after_s < 2 * self._delivery_timeout:
            allowed = f"at most {shown.expires_after_s / 2:g}: half of the time for which the hub remembers a producer"
            raise BadParameter(parameter="delivery_timeout", value=self._delivery_timeout, allowed=allowed)
        with operation.holding():
            self.group = shown.producer_group
            lane.adopt(shown)

    def resolve(self, lane: Lane, operation: Operation) -> Exchange[Resolution | None]:
        """Find out, once and for all, whether what is doubtful is stored; None: nothing is doubtful.

        Where asking leaves it open, the next epoch is claimed, so that nothing which is still on its way can be stored
        any more: then what the epoch before has ended with says it.

        Raises:
            ProducerUnsafe: somebody else has taken over, or the hub has lost something.
        """
        numbered = lane.doubtful
        if numbered is None or lane.standing == "poisoned":
            return None
        if self._on_unknown == "republish":
            yield from self._fence(lane, operation)
            return None
        if lane.epoch == numbered.epoch:  # Else it is shut out already.
            shown = yield from self._asking.standing(lane, operation)
            if not _is_past(shown, numbered):
                _check_kept(lane, numbered, shown, operation)
                yield from self._fence(lane, operation, numbered)
        stored, ranges = yield from self._fate(lane, numbered, operation)
        count = len(numbered.events)
        resolution = Resolution(lane.partition, numbered.epoch, numbered.first, count, stored, tuple(ranges))
        with operation.holding():
            if stored is None:
                fields = {"producer_group": lane.group, "partition": lane.partition, "received": numbered.first}
                raise lane.poison(SequenceTooOld(**fields))
            if stored:
                lane.settle(numbered, ranges)
            if stored and lane.epoch == numbered.epoch:
                lane.advance(count, ranges)
            lane.clear()
        if self._on_resolution is not None:
            self._on_resolution(resolution)
        return resolution

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

    def category(self) -> Exchange[str]:
        """Return the category of the event type."""
        return (yield from self._hub.event_types.category(self.event_type))

    def line(self, event: Event, category: str) -> bytes:
        """Return the line that publishes *event*: the same each time."""
        if event.line is None:
            event.line = self._hub.publishing.line(event.new(), None, category != "undefined")
        return event.line

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
                    raise told(error, lane, operation) from error.__cause__
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
        self._stored(lane, numbered, operation, _ranges_in(found), duplicate=found.outcome == "duplicate")

    def _stored(
        self, lane: Lane, numbered: Numbered, operation: Operation, ranges: Sequence[Range], *, duplicate: bool
    ) -> None:
        count = len(numbered.events)
        with operation.holding():
            operation.in_flight = False
            lane.advance(count, ranges)
            lane.forget()
            for event, publication in zip(numbered.events, lane.publications(numbered, ranges), strict=True):
                event.published(publication)
            operation.result = PublishResult(
                lane.partition, numbered.epoch, numbered.first, count, tuple(ranges), duplicate, operation.attempts
            )

    def _unsafe(self, lane: Lane, numbered: Numbered, operation: Operation, error: ProducerUnsafe) -> None:
        """Publish nothing more; but where the hub says that this very batch is stored, that has succeeded."""
        if error.fields.get("committed") is True and regressed(lane, numbered, error) is None:
            self._stored(lane, numbered, operation, _ranges_told(error), duplicate=True)
            with operation.holding():
                lane.poison(error)
            return
        with operation.holding():
            operation.in_flight = False
            raise _poisoned(lane, numbered, error, is_open=operation.is_ambiguous) from error.__cause__

    def _fate(
        self, lane: Lane, numbered: Numbered, operation: Operation
    ) -> Exchange[tuple[bool | None, Sequence[Range]]]:
        """Find out whether a batch is stored, and where, once it is either past or shut out; None: nobody knows.

        Handed in once more it is not stored twice, and the hub compares it with what it has under its numbers: that may
        be another's, who has the same group and the same epoch.
        """
        try:
            found = yield from self._asking.repeat(lane, numbered, operation)
        except (ProducerFenced, ProducerStateExpired) as error:
            return error.fields["committed"], _ranges_told(error)
        except ProducerUnsafe as error:
            with operation.holding():
                raise _poisoned(lane, numbered, error, is_open=True) from error.__cause__
        return True, _ranges_in(found)

    def _fence(self, lane: Lane, operation: Operation, numbered: Numbered | None = None) -> Exchange[None]:
        """Claim the epoch after ours, so that nothing of ours is stored any more."""
        try:
            shown = yield from self._asking.claim(
                lane, self.group, {"owner_level": "next", "if_epoch": lane.epoch, **self._pinned}, operation
            )
        except ClaimRefused as error:
            current = error.fields.get("current_epoch")
            if numbered is not None and (current is None or current < lane.epoch):
                with operation.holding():
                    lane.clear()
                    raise lane.poison(lost(lane, numbered, 0, numbered.first)) from error
            fields = {"producer_group": lane.group, "partition": lane.partition, "current_epoch": current}
            if numbered is None:
                with operation.holding():
                    raise lane.poison(ProducerFenced(**fields)) from error
            stored, ranges = yield from self._fate(lane, numbered, operation)
            with operation.holding():
                if stored:
                    lane.settle(numbered, ranges)
                if stored is not None:
                    lane.clear()
                raise lane.poison(ProducerFenced(**fields, committed=stored)) from error
        with operation.holding():
            lane.adopt(shown)
            if numbered is not None:  # What has become of it is still to be found out.
                lane.doubt(numbered)


def _is_past(shown: wire.Shown | None, numbered: Numbered) -> bool:
    """Tell whether a producer has come past a batch, in the epoch of that."""
    if shown is None or shown.next_sequence is None or shown.owner_level != numbered.epoch:
        return False
    ahead = (shown.next_sequence - numbered.first) % shown.sequence_modulus
    return len(numbered.events) <= ahead < shown.sequence_modulus / 2


def _check_kept(lane: Lane, numbered: Numbered, shown: wire.Shown | None, operation: Operation) -> None:
    """Raise ServerStateRegressed where the hub knows less than it has acknowledged."""
    if shown is not None and shown.owner_level > numbered.epoch:
        return
    if shown is not None and shown.expired:
        return
    is_ours = shown is not None and shown.owner_level == numbered.epoch
    expected = shown.next_sequence if shown is not None and is_ours and shown.next_sequence is not None else 0
    missing = (numbered.first - expected) % lane.modulus
    if 0 < missing < lane.modulus / 2:
        with operation.holding():
            lane.clear()
            raise lane.poison(lost(lane, numbered, expected, missing))


def _poisoned(lane: Lane, numbered: Numbered, error: ProducerUnsafe, *, is_open: bool) -> ProducerUnsafe:
    """Let nothing more be published, since *error* was told of a batch; return what is to be raised.

    Where the hub does not know what became of it, *is_open* says whether an attempt before may have stored it.
    """
    found = regressed(lane, numbered, error) or error
    is_unknown = error.fields.get("committed", False) is None and (is_open or isinstance(error, SequenceTooOld))
    found.fields["outcome"] = "unknown" if is_unknown else "not_stored"
    if not is_unknown:
        lane.clear()
    return lane.poison(found)


def _ranges_in(found: wire.Result) -> list[Range]:
    return [Range(each.first, each.last) for each in ([found.offsets] if found.offsets else found.ranges)]


def _ranges_told(error: ProducerUnsafe) -> list[Range]:
    return [Range(**each) for each in error.fields["ranges"]]


def _repeated(lane: Lane, events: Sequence[Event], known: Sequence[Publication]) -> PublishResult:
    """Return what came of events that are stored already."""
    for event, publication in zip(events, known, strict=True):
        event.published(publication)
    lane.forget()
    ranges = tuple(ranges_of(each.offset for each in known))
    return PublishResult(lane.partition, known[0].epoch, known[0].sequence, len(known), ranges, True, 0)


def _mixed(lane: Lane, events: Sequence[Event], result: PublishResult) -> PublishResult:
    """Return what came of events some of which were stored already."""
    for event in events:
        if event.published_sequence is None:
            event.published(lane.settled[event])
    offsets = (event.published_offset for event in events)
    return replace(result, count=len(events), offsets=tuple(ranges_of(each for each in offsets if each is not None)))


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
