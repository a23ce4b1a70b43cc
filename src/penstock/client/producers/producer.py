# Generated from async_producer.py by scripts/generate_sync_clients.py: do not edit.
"""The synchronous idempotent producer, `IdempotentProducer`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.client.client import Client
from penstock.client.concurrency import Cancel, Closing, check_cancel
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.http.transport import ExchangeRun
from penstock.client.producers.event_batch import EventBatch
from penstock.client.producers.options import (
    CloseReport,
    OnUnknown,
    PartitionPublishingOptions,
    PublishResult,
    Resolution,
)
from penstock.client.producers.partition_state import PartitionState, ProducerCall
from penstock.client.producers.partitions import (
    ATTEMPT_TIMEOUT,
    BATCH_BYTES,
    CANCEL_GRACE_SECONDS,
    DELIVERY_TIMEOUT,
    ProducerPartitions,
    check_client,
)
from penstock.client.producers.turns import TurnLock, pause, publish, turn, wait_until_free
from penstock.client.registry import PublishingProperties
from penstock.wire.arguments import check_count
from penstock.wire.http import Exchange

T = TypeVar("T")


class IdempotentProducer(Closing):
    """Publishes events to the partitions of one event type, each at most once and in order.

    Within an event type, partition and producer group an event is stored at most once, and a call that returns has
    stored its events exactly once. After a failure the next call on the same partition first finds out whether the last
    batch is stored. Partitions are independent of each other. docs/guides/idempotent-publishing.md describes the limits
    of these guarantees.

    Several threads may call its methods at one time. Calls on one partition run one at a time, in order.

    Args:
        client: The hub's client. It is not closed with the producer.
        event_type: The event type to publish to.
        producer_group: A lasting name, such as the service's. A new producer of the same group fences this one. None
            creates a unique group, which is known after the first call.
        partition_options: The first epoch and sequence number, by partition.
        retry: Retries of a batch and of other requests.
        pinned: Keep the state of the producer group at the hub for any time without activity.
        delivery_timeout: Seconds after which a call fails.
        attempt_timeout: Seconds without a response after which an attempt fails.
        on_unknown: How to continue if it is unknown whether the last batch is stored. `resolve` finds out; if it is
            stored, sending the same events again succeeds without storing them twice. `republish` only makes sure that
            it is not stored later; sending the same events again may store them twice.
        cancel_grace_seconds: Seconds that a cancelled call waits for the response to the batch in flight.
        on_resolution: Called with the outcome of a batch as soon as it is known, before the call goes on. It must not
            publish to the same partition.

    Raises:
        BadParameter: An argument is out of range.

    For example::

        with IdempotentProducer(client, "order.placed") as producer:
            result = producer.send({"id": 1}, partition=0)
    """

    def __init__(
        self,
        client: Client,
        event_type: str,
        *,
        producer_group: str | None = None,
        partition_options: Mapping[int, PartitionPublishingOptions] | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is immutable
        pinned: bool = False,
        delivery_timeout: float = DELIVERY_TIMEOUT,
        attempt_timeout: float = ATTEMPT_TIMEOUT,
        on_unknown: OnUnknown = "resolve",
        cancel_grace_seconds: float = CANCEL_GRACE_SECONDS,
        on_resolution: Callable[[Resolution], object] | None = None,
    ) -> None:
        check_client(client, Client, "an AsyncIdempotentProducer is made")
        protocol, self._transport = client.parts()
        self._partitions = ProducerPartitions(
            protocol,
            event_type,
            TurnLock,
            group=producer_group,
            options=partition_options or {},
            retry=retry,
            pinned=pinned,
            delivery_timeout=delivery_timeout,
            attempt_timeout=attempt_timeout,
            on_unknown=on_unknown,
            cancel_grace_seconds=cancel_grace_seconds,
            on_resolution=on_resolution,
        )
        self._group_lock = TurnLock()

    @property
    def event_type(self) -> str:
        """The event type that it publishes to."""
        return self._partitions.protocol.event_type

    @property
    def producer_group(self) -> str | None:
        """The producer group; None until the hub has assigned one."""
        return self._partitions.protocol.group

    def send(
        self,
        events: Any,
        *,
        partition: int | None = None,
        cancel: Cancel | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """Publish events to a partition, all or none. Return once they are durably stored.

        Each Event, and an EventBatch, knows its sequence number afterwards. If the call fails they are unchanged and
        can be sent again, in this or another call. Without events the call does nothing.

        Args:
            events: One event or an iterable of events, as for `Client.publish`, or of `Event`; or an EventBatch.
            partition: The partition; optional for an EventBatch.
            cancel: A `threading.Event` that cancels the call. The batch in flight is awaited for up to
                `cancel_grace_seconds`: if it is stored, the call succeeds.
            timeout: Seconds after which this call fails, instead of `delivery_timeout`.

        Raises:
            BadParameter: *partition* is missing.
            AlreadyUsed: One of the events is published already. Nothing was sent.
            BadParameter, Conflict: An argument is invalid, or the producer is closed. Nothing was sent.
            InvalidEvent, EventTooLarge: The events were refused, and none is stored. Field `outcome`
                is `unknown` if an earlier attempt may have stored them.
            RetriesExhausted: The events could not be published in time. Field `outcome` is `unknown` if they may be
                stored; the next call on this partition finds out.
            PublishCancelled: The call was cancelled. It has field `outcome`, too.
            ProducerUnsafe: The producer cannot go on in this partition: close it and create a new one.
            ClaimRefused, EpochExhausted: The hub refused the first epoch.
        """
        check_cancel(cancel)
        state, values = self._partitions.resolve_target(events, partition)
        if not values:
            return self._partitions.make_empty_result(state)
        call = self._partitions.begin_call(timeout, cancel.is_set if cancel else None, values)

        def work() -> None:
            self._begin(state, call, cancel)
            self._carry_out(self._partitions.protocol.send(state, values, call), cancel)

        with self._partitions.lock_batch(events, call), self._partitions.annotate_errors(state, call):
            entered = self._turn(state, call)
            return publish(work, entered, cancel, partitions=self._partitions, state=state, call=call)

    def create_batch(self, partition: int, max_bytes: int = BATCH_BYTES) -> EventBatch:
        """Return an empty batch for *partition*, which accepts events up to *max_bytes*.

        Raises:
            EventTypeNotFound: The event type does not exist.
        """
        check_count("max_bytes", max_bytes, 1)
        state, call = self._partitions.state(partition), self._partitions.begin_call(None)
        with self._partitions.annotate_errors(state, call):
            category = self._transport.carry_out(self._partitions.protocol.category(call))
        return self._partitions.make_batch(state, max_bytes, category)

    def get_publishing_properties(self, partition: int, *, refresh: bool = False) -> PublishingProperties:
        """Return the state of the producer in a partition, after claiming an epoch if it has none.

        Args:
            partition: The partition.
            refresh: Return the state at the hub rather than the producer's own.

        Raises:
            ClaimRefused, EpochExhausted: The hub refused the first epoch.
            ProducerNotFound: The hub has forgotten the producer.
        """
        state, call = self._partitions.state(partition), self._partitions.begin_call(None)
        with self._turn(state, call):
            self._begin(state, call)
            if refresh:
                return self._transport.carry_out(self._partitions.protocol.properties(state, call))
        return self._partitions.properties(state)

    def resolve(self, partition: int) -> Resolution | None:
        """Find out whether the last batch is stored; return None if that is known.

        Raises:
            ProducerUnsafe: Another producer has fenced this one, or the hub has lost events.
        """
        state, call = self._partitions.state(partition), self._partitions.begin_call(None)
        with self._turn(state, call):
            return self._transport.carry_out(self._partitions.protocol.resolve(state, call))

    def close(self, timeout: float | None = None) -> CloseReport:
        """Refuse further calls, wait for running ones, and return the partitions that are not in order.

        Args:
            timeout: Maximum seconds to wait; None waits until all calls end.
        """
        call = self._partitions.close(timeout)
        partitions = [(state.partition, self._partitions.lock(state)) for state in self._partitions.states()]
        unfinished = [partition for partition, lock in partitions if not wait_until_free(lock, call)]
        return self._partitions.report(unfinished)

    def __repr__(self) -> str:
        return self._partitions.describe(self)

    def _begin(self, state: PartitionState, call: ProducerCall, cancel: Cancel | None = None) -> None:
        """Claim an epoch. Without a producer group one partition at a time does, so that all get the same group."""
        if self.producer_group is None:
            with turn(self._group_lock, self._partitions, state, call):
                self._carry_out(self._partitions.protocol.begin(state, call), cancel)
        else:
            self._carry_out(self._partitions.protocol.begin(state, call), cancel)

    def _carry_out(self, exchange: Exchange[T], cancel: Cancel | None) -> T:
        talk = ExchangeRun(self._transport.http, exchange, sleep=pause(cancel))
        try:
            while talk.advance() is not None:
                pass
            return talk.outcome
        finally:
            talk.close()

    @contextmanager
    def _turn(self, state: PartitionState, call: ProducerCall) -> Iterator[None]:
        with turn(self._partitions.lock(state), self._partitions, state, call):
            self._partitions.check_open()
            yield
