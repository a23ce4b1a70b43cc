# Generated from async_client.py by scripts/generate_sync_clients.py: do not edit.
"""The hub from afar."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import UnionType
from typing import Any, Literal, Unpack

from penstock.client.concurrency import Closing
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.http.transport import Transport
from penstock.client.log.feed import Feed
from penstock.client.log.following import RETRY_TIMEOUT
from penstock.client.log.publishing import (
    BATCH_BYTES,
    BATCH_EVENTS,
    Batching,
    Key,
    Published,
    each_event,
    new_event,
)
from penstock.client.protocol import HubProtocol
from penstock.client.registry import (
    Compatibility,
    PartitionOffsets,
    PublishingProperties,
    Traits,
    definition,
    schema_text,
    whole,
)
from penstock.client.subscriptions.consumer import Consumer
from penstock.client.subscriptions.consumer_state import Consumed, ConsumerOptions
from penstock.client.subscriptions.stream import SubscriptionStream
from penstock.client.subscriptions.stream_protocol import StreamOptions, SubscriptionBatch, stream_wish
from penstock.client.subscriptions.subscriptions import Subscriptions
from penstock.core.events.event import NewEvent
from penstock.wire.groups import (
    CommittedPosition,
    ConsumerGroup,
    ConsumerGroupDetails,
    GroupIntervention,
    NewPosition,
    PositionReset,
    ResetPosition,
)
from penstock.wire.http import check_address
from penstock.wire.log.reader.pages import Data


class Client(Closing):
    """A hub's client. Its methods may be called from several threads.

    Args:
        url: The hub's address, such as `http://localhost:8080`.
        http: An `httpx2.Client` of your own, with its authentication, proxies and timeouts; it stays yours to close.
        retry_timeout: Seconds for which a call is tried again where that is safe and the failure can pass; 0: never.

    Raises:
        BadParameter: *url* is no address. Every method raises WrongAddress where something else than a hub answers.
    """

    def __init__(self, url: str, *, http: Any = None, retry_timeout: float = RETRY_TIMEOUT) -> None:
        self._protocol = HubProtocol(check_address(url, relative=http is not None), retry_timeout)
        self._transport = Transport(http)
        self._subscriptions = Subscriptions(self._protocol.subscriptions, self._transport)

    def create_event_type(self, name: str, **traits: Unpack[Traits]) -> None:
        """Create an event type, whose feed has the same name.

        Args:
            name: Its name, such as `order.placed`.
            traits: category (`undefined` unless given), partition_count, partition_strategy, partition_key_fields,
                owning_application, schema, the other members of Nakadi's definition, and `more`: a mapping of any
                members besides, which are stored and shown.

        Raises:
            TypeError: there is no such trait; names the one that was probably meant.
            EventTypeExists: there is one of that name.
            InvalidEventType: the definition breaks a rule.
        """
        self._transport.carry_out(self._protocol.event_types.create(definition(name, traits)))

    def event_types(self) -> list[dict[str, Any]]:
        """Return all event types, as they were defined and with the defaults filled in."""
        return self._transport.carry_out(self._protocol.event_types.all())

    def event_type(self, name: str) -> dict[str, Any]:
        """Return one event type.

        Raises:
            EventTypeNotFound: there is none of that name.
        """
        return self._transport.carry_out(self._protocol.event_types.show(name))

    def replace_event_type(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> None:
        """Let an event type be what *definition* says, in Nakadi's shape: all of it, its name included.

        What it does not say becomes what it is by default; annotations, labels, statistic and retention stay. Without
        *allow_reordering* a change is refused that takes from the events of a key the order that they have: a change
        away from the partition strategies `hash` and `user_defined`, and one to other key fields.

        Raises:
            EventTypeNotFound: there is none of that name.
            InvalidEventType: the definition breaks a rule, or changes what cannot be changed.
            IncompatibleSchema: the event type's mode does not allow the change of its schema.
        """
        replaces = self._protocol.event_types.replace(whole(definition), allow_reordering=allow_reordering)
        self._transport.carry_out(replaces)

    def check_definition(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> None:
        """Return if the hub would let an event type be what *definition* says, in Nakadi's shape; nothing is changed.

        It would be created where there is none of that name, else replaced, and given more partitions if it says so.

        Raises:
            PenstockError: the hub would refuse that: whatever `create_event_type`, `replace_event_type` or
                `grow_partitions` would raise, and GuidelinesBroken of a hub that refuses by guidelines.
        """
        checks = self._protocol.event_types.check(whole(definition), allow_reordering=allow_reordering)
        self._transport.carry_out(checks)

    def grow_partitions(self, name: str, count: int) -> None:
        """Give the event type partitions until it has *count*; harmless where it has so many.

        From then on keys may fall in other partitions: the order of a key's events is lost across this moment.

        Raises:
            EventTypeNotFound: there is none of that name.
            InvalidEventType: that is fewer than there are, or more than may be.
        """
        self._transport.carry_out(self._protocol.event_types.grow(name, count))

    def check_compatibility(
        self, name: str, schema: str | Mapping[str, Any], *, version: str = "latest"
    ) -> Compatibility:
        """Tell what giving the event type another JSON Schema would mean; nothing is changed.

        Args:
            name: The event type.
            schema: The schema, decoded or as text.
            version: The version of its schema to compare with.

        Raises:
            EventTypeNotFound, SchemaVersionNotFound: there is none such.
        """
        return self._transport.carry_out(
            self._protocol.event_types.check_compatibility(name, schema_text(schema), version)
        )

    def delete_event_type(self, name: str) -> None:
        """Delete an event type and all its events.

        Raises:
            EventTypeNotFound: there is none of that name.
        """
        self._transport.carry_out(self._protocol.event_types.delete(name))

    def partitions(self, name: str) -> list[PartitionOffsets]:
        """Return the offsets of what each partition of the event type holds, in the partitions' order.

        Raises:
            EventTypeNotFound: there is none of that name.
        """
        return self._transport.carry_out(self._protocol.event_types.partitions(name))

    def publish(
        self,
        event_type: str,
        events: Mapping[str, Any] | bytes | NewEvent | Iterable[Any],
        *,
        key: Key = None,
        batch_events: int = BATCH_EVENTS,
        batch_bytes: int = BATCH_BYTES,
        progress: Callable[[Published], object] | None = None,
    ) -> Published:
        """Publish one event or any number of them, in their order; return when all are durably in the feed.

        Events of business and data event types get a `metadata.eid` and a `metadata.occurred_at` where they have none.
        A long iterable is sent in batches as it goes, each in a transaction of its own.

        Args:
            event_type: Where to.
            events: A mapping, a dataclass, a msgspec Struct or a pydantic model; a DataChange of one of them; the bytes
                or the text of a JSON object; a NewEvent with its own key, headers and partition; or an iterable of
                these.
            key: The key of all events that have none of their own, or a function from an event, as handed in, to it.
            batch_events: Events to send at one time.
            batch_bytes: Bytes to send at one time.
            progress: Called after each batch with what has been published so far.

        Raises:
            OutcomeUnknown: the connection broke while the answer was awaited. The batch may or may not be in the feed;
                it is not sent again, since that could duplicate it. Fields: published (events before it, which are
                in), doubtful (events of which it is not known).
            InvalidEvent, EventTooLarge: an event was refused, and its batch with it. Fields: line (counted from 1 over
                all events of the call), published.
            EventTypeNotFound: there is no such event type.
            Unavailable: the hub could not be reached, or refused, for `retry_timeout`; nothing of the batch
                is in.
        """
        batching = Batching(event_count=batch_events, byte_count=batch_bytes)
        exchange = self._protocol.publishing.publish(event_type, key, batching, progress)
        return self._transport.carry_out(exchange, each_event(events))

    def feed(
        self,
        event_type: str,
        *,
        partition_count: int | None = None,
        type: type[Data] | UnionType | None = None,
    ) -> Feed[Data]:
        """Return the event type's feed, over this client's connections.

        Args:
            event_type: Whose feed.
            partition_count: See the feed as having so many partitions: a divisor of the number it has merges some, a
                multiple splits them. None: as they are.
            type: What `data` of each event is to be, such as a dataclass; see `Feed`.

        Raises:
            TypeError: events cannot be read into *type*.
        """
        options = self._protocol.feed_options(event_type, partition_count)
        return Feed(**options, http=self._transport.http, type=type)

    def partition_for(self, event_type: str, event: Any, *, key: str | None = None) -> int | None:
        """Return in which partition *event* belongs by its event type's strategy; None: any will do.

        What the event type is is asked for once; with more partitions, keys fall in others.

        Args:
            event_type: Where it is to be published.
            event: What `publish` takes.
            key: Its key, where it has none of its own.

        Raises:
            EventTypeNotFound: there is none of that name.
            PartitionRefused: it lacks what would say that.
        """
        choice = self._transport.carry_out(self._protocol.event_types.partition_choice(event_type))
        return choice.of(new_event(event, key))

    def publishing_properties(
        self, event_type: str, partition: int, producer_group: str
    ) -> PublishingProperties | None:
        """Return how far a producer group has come in a partition; None: nobody has published as that.

        Raises:
            ProducerStateExpired: the hub does not know that any more.
        """
        exchange = self._protocol.event_types.producer(event_type, partition, producer_group)
        return self._transport.carry_out(exchange)

    def consumer_groups(self, event_type: str | None = None, *, kind: str | None = None) -> list[ConsumerGroup]:
        """Return the consumer groups whose positions the hub keeps, and how far each is behind; sorted by name.

        Args:
            event_type: Only those that read it.
            kind: Only cursor sets (`cursorset`), only those of kind `subscription`, `processor` or `spark`.

        Raises:
            EventTypeNotFound: there is none of that name.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.all(event_type, kind))

    def consumer_group(self, name: str) -> ConsumerGroupDetails:
        """Return a consumer group with all its positions.

        Raises:
            GroupNotFound: there is none of that name.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.show(name))

    def commit_positions(
        self, group: str, positions: Iterable[NewPosition], *, kind: str | None = None
    ) -> list[CommittedPosition]:
        """Store positions of a consumer group, all or none, and return them as they are stored.

        Args:
            group: Its name.
            positions: What it wants next in each partition; with `expected` only where that stands there now.
            kind: What it is where it is new: `processor`, `spark` or `cursorset`.

        Raises:
            PositionMoved: something else stands there than was expected; says what.
            UnusablePosition: a position is none that there is.
            GroupKindDiffers: it is of another kind, or a subscription.
            OutcomeUnknown, ConnectionLost: with `expected`, it is not known whether they are stored: look before you
                commit again. Without, it is tried again.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.commit(group, positions, kind))

    def reset_positions(
        self,
        group: str,
        items: Iterable[PositionReset] | None = None,
        *,
        to: Literal["begin", "end"] | None = None,
        at: datetime | str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> list[ResetPosition]:
        """Move positions of a consumer group, forward or back, all or none; the hub remembers it.

        Whoever runs as that group is not told: it is best stopped before. A stream of Spark's hears of it by itself.

        Args:
            group: Its name.
            items: What to move where. Without, all that it reads is moved.
            to: Without items, where to: `begin` or `end`.
            at: Without items, the time whose events are wanted first.
            reason: Why, for those who ask later.
            dry_run: Only return what would be moved.

        Raises:
            GroupNotFound: there is none of that name.
            GroupKindDiffers: it is a subscription, which is reset as such.
            UnusablePosition: a position is none that there is.
        """
        exchange = self._protocol.consumer_groups.reset(group, items, to=to, at=at, reason=reason, dry_run=dry_run)
        return self._transport.carry_out(exchange)

    def group_history(self, group: str, *, limit: int | None = None) -> list[GroupIntervention]:
        """Return what was done to a consumer group over its head, the newest first, up to *limit*.

        Raises:
            GroupNotFound: there is none of that name.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.history(group, limit))

    def forget_group(self, group: str) -> None:
        """Forget a consumer group, with its positions and its history.

        Raises:
            GroupNotFound: there is none of that name.
            GroupKindDiffers: it is a subscription, which is deleted as such.
        """
        self._transport.carry_out(self._protocol.consumer_groups.forget(group))

    @property
    def subscriptions(self) -> Subscriptions:
        """The hub's subscriptions: created, shown, reset, deleted; their statistics, and their parked keys."""
        return self._subscriptions

    def subscription(
        self,
        subscription: str | Mapping[str, Any],
        *,
        reconnect: bool = True,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is immutable
        type: type[Data] | UnionType | None = None,
        **options: Unpack[StreamOptions],
    ) -> SubscriptionStream[Data]:
        """Return the batches of a subscription, as a stream of them: iterate, commit what you have dealt with, close.

        Where a stream ends or its connection is lost, the next one begins after what is committed. It waits where
        there is no room for it, since as many consumers as there are partitions have one each.

        Args:
            subscription: Its id; or a mapping in Nakadi's shape (owning_application, event_types, and as it is needed
                consumer_group, read_from …): that one is created if it is missing.
            reconnect: Whether another stream begins where one has ended; else the iteration ends: see `reason`.
            retry: How often, and after which pauses, a stream is asked for that cannot be had.
            type: What `data` of each event is to be, such as a dataclass; see `Feed`.
            options: The fields of `StreamWish`: batch_limit (100), batch_flush_timeout (1), max_uncommitted_events (ten
                batches), partitions (its share), commit_timeout (60), stream_timeout, stream_limit, batch_timespan.

        Raises:
            TypeError, BadParameter: an option is none, or makes no sense; or events cannot be read into *type*.
            PenstockError: from the iteration, such as SubscriptionNotFound, where trying again does not help.
        """
        return SubscriptionStream(
            self._transport, self._protocol.url, subscription, stream_wish(options), retry=retry,
            retry_timeout=self._protocol.retry_timeout, reconnect=reconnect, kind=type,
        )  # fmt: skip

    def consumer(
        self,
        subscription: str | Mapping[str, Any],
        handler: Callable[[SubscriptionBatch[Any]], object],
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """Return who consumes a subscription once it is told to `run`, until it is told to `stop`.

        Args:
            subscription: As for `subscription`.
            handler: Called with each batch. What it returns does not matter; if it raises, the batch comes again.
            options: Those of a `subscription`, with room ahead for ten batches for each worker, and these: workers, how
                many partitions are handled at a time, each in a thread (1). grace_seconds, for which handlers may go on
                that run when it is stopped (30). retry, as for `subscription`, its pauses also between two attempts to
                handle a batch. cancel, a `threading.Event` that stops it. on_error, called with batch and error in
                place of a warning in the log; if it raises, that ends the consumer. progress, called with how far it
                has come, whenever something was committed. type, as for `subscription`.

        Raises:
            TypeError, BadParameter: as `subscription`.
        """
        return Consumer(
            self._transport,
            self._protocol.url,
            subscription,
            handler,
            options,
            retry_timeout=self._protocol.retry_timeout,
        )

    def consume(
        self,
        subscription: str | Mapping[str, Any],
        handler: Callable[[SubscriptionBatch[Any]], object],
        **options: Unpack[ConsumerOptions],
    ) -> Consumed:
        """Have *handler* called with each batch and commit what it has handled: run a `consumer` to its end."""
        return self.consumer(subscription, handler, **options).run()

    def parts(self) -> tuple[HubProtocol, Transport]:
        """Return what an IdempotentProducer is made of: what is said to the hub, and the connections for it."""
        return self._protocol, self._transport

    def close(self) -> None:
        """Close the connections, unless they are of a client that was handed in."""
        self._transport.close()
