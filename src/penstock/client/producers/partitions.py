"""The common part of both producers: their partitions, checks of arguments, and errors."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Generic, TypeVar, get_args

from penstock.client.http.exchanges import RetryPolicy
from penstock.client.log.publishing import Event, check_unpublished, each_event
from penstock.client.producers.event_batch import EventBatch
from penstock.client.producers.options import (
    CloseReport,
    OnUnknown,
    PartitionPublishingOptions,
    PublishResult,
    Resolution,
)
from penstock.client.producers.partition_state import (
    PartitionState,
    ProducerCall,
    add_outcome,
    is_retryable,
    make_exhausted_error,
)
from penstock.client.producers.protocol import ProducerProtocol
from penstock.client.protocol import HubProtocol
from penstock.client.registry import PublishingProperties
from penstock.core.events.event import EVENTS_MAX
from penstock.errors import BadParameter, Conflict, PenstockError, PublishCancelled, RetriesExhausted
from penstock.wire.arguments import check_callable, check_seconds, check_type
from penstock.wire.producers import check_group

DELIVERY_TIMEOUT: Final = 120.0
ATTEMPT_TIMEOUT: Final = 30.0
CANCEL_GRACE_SECONDS: Final = 5.0
BATCH_BYTES: Final = 4_000_000
Lock = TypeVar("Lock")


class ProducerPartitions(Generic[Lock]):
    """The partitions of one producer, each with a lock that admits one call at a time."""

    def __init__(
        self,
        protocol: HubProtocol,
        event_type: str,
        make_lock: Callable[[], Lock],
        *,
        group: str | None,
        options: Mapping[int, PartitionPublishingOptions],
        retry: RetryPolicy,
        pinned: bool,
        delivery_timeout: float,
        attempt_timeout: float,
        on_unknown: OnUnknown,
        cancel_grace_seconds: float,
        on_resolution: Callable[[Resolution], object] | None,
    ) -> None:
        check_seconds("delivery_timeout", delivery_timeout, is_positive=True, is_finite=True)
        check_seconds("attempt_timeout", attempt_timeout, is_positive=True, is_finite=True)
        if on_unknown not in get_args(OnUnknown):
            raise BadParameter(parameter="on_unknown", value=on_unknown, allowed="resolve or republish")
        check_seconds("cancel_grace_seconds", cancel_grace_seconds)
        check_type("event_type", event_type, str, "the name of an event type")
        check_type("retry", retry, RetryPolicy, "a RetryPolicy")
        if on_resolution is not None:
            check_callable("on_resolution", on_resolution)
        self.cancel_grace_seconds = cancel_grace_seconds
        self.protocol = ProducerProtocol(
            event_type,
            protocol,
            group=None if group is None else check_group(group, "producer_group"),
            retry=retry,
            pinned=pinned,
            attempt_timeout=attempt_timeout,
            on_unknown=on_unknown,
            on_resolution=on_resolution,
        )
        self._delivery_timeout = delivery_timeout
        self._options = _check_options(options)
        self._process = os.getpid()
        self._make_lock = make_lock
        self._partitions: dict[int, tuple[PartitionState, Lock]] = {}
        self._closed = False

    def state(self, partition: int) -> PartitionState:
        """Return the state of a partition.

        Raises:
            BadParameter: *partition* is not a partition number.
        """
        self.check_open()
        if type(partition) is not int or partition < 0:
            raise BadParameter(parameter="partition", value=partition, allowed="the number of a partition, from 0 on")
        options = self._options.get(partition, PartitionPublishingOptions())
        return self._partitions.setdefault(partition, (PartitionState(partition, options), self._make_lock()))[0]

    def lock(self, state: PartitionState) -> Lock:
        """Return the lock of a partition."""
        return self._partitions[state.partition][1]

    def states(self) -> Sequence[PartitionState]:
        """Return the partitions in use."""
        return [state for state, _ in list(self._partitions.values())]

    def begin_call(
        self, timeout: float | None, is_cancelled: Callable[[], bool] | None = None, values: Sequence[Any] = ()
    ) -> ProducerCall:
        """Return a call that publishes *values* and ends after *timeout* seconds or the delivery timeout."""
        if timeout is not None:
            check_seconds("timeout", timeout, is_positive=True, is_finite=True)
        limit = ("delivery_timeout", self._delivery_timeout) if timeout is None else ("timeout", timeout)
        return ProducerCall(time.monotonic() + limit[1], is_cancelled or (lambda: False), values, limit=limit)

    def check_open(self) -> None:
        """Raise Conflict if the producer is closed, or belongs to another process, which would use the same numbers."""
        if self._closed:
            raise Conflict("this producer is closed: make another one")
        if self._process != os.getpid():
            raise Conflict("this producer was made before the process forked: make one of its own in each process")

    def resolve_target(self, events: Any, partition: int | None) -> tuple[PartitionState, list[Any]]:
        """Return the state of the partition to publish to, and the events.

        Raises:
            BadParameter: *partition* is missing.
            AlreadyUsed: One of the events is known to be published.
            BadParameter: The batch is for another partition or event type, or contains an Event twice.
        """
        if isinstance(events, EventBatch):
            if partition not in (None, events.partition):
                raise BadParameter(parameter="partition", value=partition, allowed=f"{events.partition}, the batch's")
            if events.event_type != self.protocol.event_type:
                allowed = f"a batch for {self.protocol.event_type!r}, which this producer publishes to"
                raise BadParameter(parameter="events", value=events, allowed=allowed)
            events.check_open()
            return self.state(events.partition), list(events.events)
        if partition is None:
            said = "say which partition: an idempotent producer publishes to a partition, never by a key or to any"
            raise BadParameter.of("partition-required", said, event_type=self.protocol.event_type)
        values = list(each_event(events))
        known = [value for value in values if isinstance(value, Event)]
        check_unpublished(known)
        if len(set(map(id, known))) < len(known):
            raise BadParameter("the same Event is there twice", parameter="events")
        return self.state(partition), values

    @contextmanager
    def lock_batch(self, events: Any, call: ProducerCall) -> Iterator[None]:
        """Lock an EventBatch while it is sent, and record its result."""
        if not isinstance(events, EventBatch):
            yield
            return
        events.begin_sending()
        try:
            yield
        finally:
            events.end_sending(call.result)

    @contextmanager
    def annotate_errors(self, state: PartitionState, call: ProducerCall) -> Iterator[None]:
        """Add partition and outcome to every error that the block raises."""
        try:
            yield
        except PenstockError as error:
            if "outcome" in error.fields:
                raise
            if is_retryable(error):
                raise make_exhausted_error(error, state, call) from error
            raise add_outcome(error, state, call) from error.__cause__

    def make_empty_result(self, state: PartitionState) -> PublishResult:
        """Return the result of publishing no events."""
        return PublishResult(state.partition, state.epoch, state.next, 0, (), duplicate=False, attempts=0)

    def make_batch(self, state: PartitionState, max_bytes: int, category: str) -> EventBatch:
        """Return an empty batch for events of *category*."""
        line = partial(self.protocol.line, category=category)
        event_type = self.protocol.event_type
        return EventBatch(event_type, state.partition, max_bytes, line=line, count_max=EVENTS_MAX)

    def describe(self, producer: object) -> str:
        """Return the representation of *producer*."""
        return f"{type(producer).__name__}({self.protocol.event_type!r}, producer_group={self.protocol.group!r})"

    def properties(self, state: PartitionState) -> PublishingProperties:
        """Return the producer's own state in a partition."""
        return PublishingProperties(
            state.partition, state.group, state.epoch, state.last_published, state.next, state.last_offset
        )

    def make_cancelled_error(self, state: PartitionState, call: ProducerCall) -> PublishCancelled:
        """Return the error of a cancelled call."""
        return PublishCancelled(partition=state.partition, outcome=state.outcome(call))

    def make_turn_error(self, state: PartitionState, call: ProducerCall) -> PublishCancelled | RetriesExhausted:
        """Return the error of a call that did not get the lock in time."""
        if call.is_cancelled():
            return self.make_cancelled_error(state, call)
        return make_exhausted_error("calls that came before this one took all of its time", state, call)

    def close(self, timeout: float | None) -> ProducerCall:
        """Refuse further calls; return a call with the deadline for waiting."""
        if timeout is not None:
            check_seconds("timeout", timeout)
        self._closed = True
        return ProducerCall(float("inf") if timeout is None else time.monotonic() + timeout)

    def report(self, unfinished: Iterable[int]) -> CloseReport:
        """Return the report of a closed producer."""
        unresolved = sorted(state.partition for state in self.states() if state.unresolved is not None)
        return CloseReport(unresolved, sorted(unfinished))


def check_client(client: object, kind: type, instead: str) -> None:
    """Raise BadParameter unless *client* is of type *kind*; *instead* names the other producer."""
    if not isinstance(client, kind):
        allowed = f"one of {kind.__name__}; with others {instead}"
        raise BadParameter(parameter="client", value=type(client).__name__, allowed=allowed)


def _check_options(options: Mapping[int, PartitionPublishingOptions]) -> dict[int, PartitionPublishingOptions]:
    allowed = "PartitionPublishingOptions by the number of a partition, from 0 on"
    check_type("partition_options", options, Mapping, allowed)
    for partition, each in options.items():
        if type(partition) is not int or partition < 0 or not isinstance(each, PartitionPublishingOptions):
            raise BadParameter(parameter="partition_options", value={partition: each}, allowed=allowed)
    return dict(options)
