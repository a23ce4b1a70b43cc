"""What both kinds of idempotent producers have in common: their partitions, and what is checked beforehand."""

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
from penstock.client.producers.partition_state import Lane, Operation, exhausted, is_transient, told
from penstock.client.producers.protocol import Producing
from penstock.client.protocol import HubProtocol
from penstock.client.registry import PublishingProperties
from penstock.core.events.event import EVENTS_MAX
from penstock.errors import BadParameter, Conflict, PartitionRequired, PenstockError, PublishCancelled, RetriesExhausted
from penstock.wire.producers import check_group

DELIVERY_TIMEOUT: Final = 120.0
ATTEMPT_TIMEOUT: Final = 30.0
CANCEL_GRACE_SECONDS: Final = 5.0
BATCH_BYTES: Final = 4_000_000
Guard = TypeVar("Guard")


class Lanes(Generic[Guard]):
    """The partitions of one producer, each with a guard that one operation at a time has."""

    def __init__(
        self,
        protocol: HubProtocol,
        event_type: str,
        make_guard: Callable[[], Guard],
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
        _check_seconds(delivery_timeout=delivery_timeout, attempt_timeout=attempt_timeout)
        if on_unknown not in get_args(OnUnknown):
            raise BadParameter(parameter="on_unknown", value=on_unknown, allowed="resolve or republish")
        if cancel_grace_seconds < 0:
            raise BadParameter(
                parameter="cancel_grace_seconds", value=cancel_grace_seconds, allowed="seconds, 0 or more"
            )
        self.cancel_grace_seconds = cancel_grace_seconds
        self.producing = Producing(
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
        self._options = _checked(options)
        self._process = os.getpid()
        self._make_guard = make_guard
        self._lanes: dict[int, tuple[Lane, Guard]] = {}
        self._closed = False

    def lane(self, partition: int) -> Lane:
        """Return a partition.

        Raises:
            BadParameter: it can be none.
        """
        self.check_open()
        if type(partition) is not int or partition < 0:
            raise BadParameter(parameter="partition", value=partition, allowed="the number of a partition, from 0 on")
        options = self._options.get(partition, PartitionPublishingOptions())
        return self._lanes.setdefault(partition, (Lane(partition, options), self._make_guard()))[0]

    def guard(self, lane: Lane) -> Guard:
        """Return what lets one operation at a time into a partition."""
        return self._lanes[lane.partition][1]

    def all(self) -> Sequence[Lane]:
        """Return the partitions that were used."""
        return [lane for lane, _ in list(self._lanes.values())]

    def operation(
        self, timeout: float | None, is_cancelled: Callable[[], bool] | None = None, values: Sequence[Any] = ()
    ) -> Operation:
        """Begin an operation that may last for *timeout* seconds, as long as any by default, and publishes *values*."""
        if timeout is not None:
            _check_seconds(timeout=timeout)
        lasts = ("delivery_timeout", self._delivery_timeout) if timeout is None else ("timeout", timeout)
        return Operation(time.monotonic() + lasts[1], is_cancelled or (lambda: False), values, lasts=lasts)

    def check_open(self) -> None:
        """Raise Conflict where the producer is closed, or of another process, which gives the same numbers."""
        if self._closed:
            raise Conflict("this producer is closed: make another one")
        if self._process != os.getpid():
            raise Conflict("this producer was made before the process forked: make one of its own in each process")

    def given(self, events: Any, partition: int | None) -> tuple[Lane, list[Any]]:
        """Return where events go, and each of them.

        Raises:
            PartitionRequired: that is not said.
            AlreadyPublished: one of them is known to be published.
            BadParameter: the batch is for another partition, or an Event is there twice.
        """
        if isinstance(events, EventBatch):
            if partition not in (None, events.partition):
                raise BadParameter(parameter="partition", value=partition, allowed=f"{events.partition}, the batch's")
            if events.event_type != self.producing.event_type:
                allowed = f"a batch for {self.producing.event_type!r}, which this producer publishes to"
                raise BadParameter(parameter="events", value=events, allowed=allowed)
            events.check_open()
            return self.lane(events.partition), list(events.events)
        if partition is None:
            said = "say which partition: an idempotent producer publishes to a partition, never by a key or to any"
            raise PartitionRequired(said, event_type=self.producing.event_type)
        values = list(each_event(events))
        known = [value for value in values if isinstance(value, Event)]
        check_unpublished(known)
        if len(set(map(id, known))) < len(known):
            raise BadParameter("the same Event is there twice", parameter="events")
        return self.lane(partition), values

    @contextmanager
    def marked(self, events: Any, operation: Operation) -> Iterator[None]:
        """Keep a batch from being changed while it is sent; however that ends, it is told what has come of it."""
        if not isinstance(events, EventBatch):
            yield
            return
        events.sending()
        try:
            yield
        finally:
            events.sent(operation.result)

    @contextmanager
    def told(self, lane: Lane, operation: Operation) -> Iterator[None]:
        """Say in every error where it was, and whether anything of the call may be stored all the same."""
        try:
            yield
        except PenstockError as error:
            if "outcome" in error.fields:
                raise
            if is_transient(error):
                raise exhausted(error, lane, operation) from error
            raise told(error, lane, operation) from error.__cause__

    def nothing(self, lane: Lane) -> PublishResult:
        """Return what comes of publishing nothing."""
        return PublishResult(lane.partition, lane.epoch, lane.next, 0, (), duplicate=False, attempts=0)

    def batch(self, lane: Lane, max_bytes: int, category: str) -> EventBatch:
        """Return an empty batch for the events of a *category*."""
        if max_bytes < 1:
            raise BadParameter(parameter="max_bytes", value=max_bytes, allowed="1 or more")
        line = partial(self.producing.line, category=category)
        event_type = self.producing.event_type
        return EventBatch(event_type, lane.partition, max_bytes, line=line, count_max=EVENTS_MAX)

    def shown(self, producer: object) -> str:
        """Return *producer*, whose partitions these are, in short."""
        return f"{type(producer).__name__}({self.producing.event_type!r}, producer_group={self.producing.group!r})"

    def properties(self, lane: Lane) -> PublishingProperties:
        """Return how far it has come in a partition, as far as it knows itself."""
        return PublishingProperties(
            lane.partition, lane.group, lane.epoch, lane.last_published, lane.next, lane.last_offset
        )

    def cancelled(self, lane: Lane, operation: Operation) -> PublishCancelled:
        """Return the error of a call that was cancelled."""
        return PublishCancelled(partition=lane.partition, outcome=lane.outcome(operation))

    def gave_up_waiting(self, lane: Lane, operation: Operation) -> PublishCancelled | RetriesExhausted:
        """Return the error of a call that had no turn in its time."""
        if operation.is_cancelled():
            return self.cancelled(lane, operation)
        return exhausted("calls that came before this one took all of its time", lane, operation)

    def closed(self, timeout: float | None) -> Operation:
        """Publish nothing more; return what waits for what is being published."""
        if timeout is not None and timeout < 0:
            raise BadParameter(parameter="timeout", value=timeout, allowed="seconds, 0 or more")
        self._closed = True
        return Operation(float("inf") if timeout is None else time.monotonic() + timeout)

    def report(self, unfinished: Iterable[int]) -> CloseReport:
        """Return what is left open."""
        unresolved = sorted(lane.partition for lane in self.all() if lane.doubtful is not None)
        return CloseReport(unresolved, sorted(unfinished))


def check_client(client: object, kind: type, instead: str) -> None:
    """Raise BadParameter where *client* is of another kind than the producer, of which there is one *instead*."""
    if not isinstance(client, kind):
        allowed = f"one of {kind.__name__}; with others {instead}"
        raise BadParameter(parameter="client", value=type(client).__name__, allowed=allowed)


def _checked(options: Mapping[int, PartitionPublishingOptions]) -> dict[int, PartitionPublishingOptions]:
    for partition, each in options.items():
        if type(partition) is not int or partition < 0 or not isinstance(each, PartitionPublishingOptions):
            allowed = "PartitionPublishingOptions by the number of a partition, from 0 on"
            raise BadParameter(parameter="partition_options", value={partition: each}, allowed=allowed)
    return dict(options)


def _check_seconds(**given: float) -> None:
    for name, seconds in given.items():
        if not 0 < seconds < float("inf"):
            raise BadParameter(parameter=name, value=seconds, allowed="seconds, more than 0")
