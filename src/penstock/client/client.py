# Generated from async_client.py by scripts/generate_sync_clients.py: do not edit.
"""The synchronous client of a hub: `Client`."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any

from penstock.client.concurrency import Cancel, Closing
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.http.transport import Transport
from penstock.client.log.feed import Feed
from penstock.client.log.following import RETRY_TIMEOUT
from penstock.client.log.publishing import (
    BATCH_BYTES,
    BATCH_EVENTS,
    BatchLimits,
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
    fill_definition,
    make_definition,
    schema_text,
)
from penstock.client.subscriptions.model import Subscription
from penstock.client.subscriptions.protocol import InitialCursors
from penstock.client.subscriptions.stream import SubscriptionStream
from penstock.client.subscriptions.stream_protocol import StreamParameters
from penstock.core.events.event import NewEvent
from penstock.core.log.start import Start
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.wire.groups import (
    CommittedPosition,
    ConsumerGroup,
    ConsumerGroupDetails,
    GroupIntervention,
    GroupParkedStream,
    NewParkedStream,
    NewPosition,
    ParkedStreamPlace,
    PositionReset,
    ResetPosition,
)
from penstock.wire.http import check_address
from penstock.wire.log.reader.pages import Data

if TYPE_CHECKING:
    from penstock.processing.engine.rules import Rules
    from penstock.processing.handlers import Classify
    from penstock.processing.together import Together


class Client(Closing):
    """A synchronous client of a hub. Several threads may call its methods at one time.

    Args:
        url: The hub's address, such as `http://localhost:8080`.
        http: An `httpx2.Client` with its own authentication, proxies and timeouts. It is not closed with this
            client.
        auth: The credential that it sends: a token as a text, `TokenFile(path)`, which follows a file, or what httpx
            takes as `auth`: an `httpx2.Auth`, a pair of user and password, or a function that changes a request.
        retry_timeout: Seconds for which a call retries failures that are temporary and safe to retry; 0 disables
            retries.

    Raises:
        BadParameter: *url* is not an address. All methods raise WrongAddress if the server at *url* is not a hub.
    """

    def __init__(self, url: str, *, http: Any = None, auth: Any = None, retry_timeout: float = RETRY_TIMEOUT) -> None:
        self._protocol = HubProtocol(check_address(url, relative=http is not None), retry_timeout)
        self._transport = Transport(http, auth=auth)

    def create_event_type(
        self,
        name: str,
        *,
        category: str | None = None,
        partition_count: int | None = None,
        max_event_bytes: int | None = None,
        partition_strategy: str | None = None,
        partition_key_fields: Sequence[str] | None = None,
        owning_application: str | None = None,
        schema: str | Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
        audience: str | None = None,
        authorization: Mapping[str, Any] | None = None,
        cleanup_policy: str | None = None,
        compatibility_mode: str | None = None,
        default_statistic: Mapping[str, int] | None = None,
        enrichment_strategies: Sequence[str] | None = None,
        event_owner_selector: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        ordering_instance_ids: Sequence[str] | None = None,
        ordering_key_fields: Sequence[str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """Create an event type, and with it a feed of the same name.

        The definition has the members that are not None; the hub fills in the others.

        Args:
            name: The name, such as `order.placed`.
            category: `undefined` (any JSON object, the default), `business` or `data`.
            partition_count: Number of partitions; 1 by default, or as *default_statistic* requests.
            max_event_bytes: Maximum size of an event's feed line in bytes, with all headers.
            partition_strategy: `random` (the default), `hash` or `user_defined`.
            partition_key_fields: Paths into the event, for the strategy `hash`.
            owning_application: The owner; none by default.
            schema: The JSON Schema of the events. None accepts every event.
            annotations: Texts by name, which the hub stores and shows.
            audience: The intended audience, as in Nakadi.
            authorization: The administrators, readers and writers: lists of `data_type` and `value`.
            cleanup_policy: `delete` (the default), `compact` or `compact_and_delete`.
            compatibility_mode: Which changes of the schema are allowed: `compatible`, `forward` or `none`.
            default_statistic: Expected load, as Nakadi has it.
            enrichment_strategies: `metadata_enrichment` for business and data events, and by default.
            event_owner_selector: Where an event's owner is found, as Nakadi has it.
            labels: Texts by name, which the hub stores and shows.
            options: Such as `retention_time` and `evolution`.
            ordering_instance_ids: Documents the order of the events, as in Nakadi.
            ordering_key_fields: Documents by which fields the events are ordered.
            more: Members that are not named here: the hub stores and shows them as they are.

        Raises:
            EventTypeExists: An event type of this name exists.
            InvalidEventType: The definition breaks a rule.
        """
        members: dict[str, Any] = {
            "category": category,
            "partition_count": partition_count,
            "max_event_bytes": max_event_bytes,
            "partition_strategy": partition_strategy,
            "partition_key_fields": partition_key_fields,
            "owning_application": owning_application,
            "schema": schema,
            "annotations": annotations,
            "audience": audience,
            "authorization": authorization,
            "cleanup_policy": cleanup_policy,
            "compatibility_mode": compatibility_mode,
            "default_statistic": default_statistic,
            "enrichment_strategies": enrichment_strategies,
            "event_owner_selector": event_owner_selector,
            "labels": labels,
            "options": options,
            "ordering_instance_ids": ordering_instance_ids,
            "ordering_key_fields": ordering_key_fields,
            "more": more,
        }
        traits: Any = {member: value for member, value in members.items() if value is not None}
        self._transport.carry_out(self._protocol.event_types.create(make_definition(name, traits)))

    def event_types(self) -> list[dict[str, Any]]:
        """Return the definitions of all event types, with defaults filled in."""
        return self._transport.carry_out(self._protocol.event_types.all())

    def event_type(self, name: str) -> dict[str, Any]:
        """Return the definition of one event type, with defaults filled in.

        Raises:
            EventTypeNotFound: The event type does not exist.
        """
        return self._transport.carry_out(self._protocol.event_types.show(name))

    def asyncapi(self, event_types: Iterable[str] = ()) -> dict[str, Any]:
        """Return the hub's description of event types, and of this client's permissions for them, in AsyncAPI 3.0.

        Args:
            event_types: The names of those to describe; none: all that this client may see.

        Raises:
            EventTypeNotFound: One of them does not exist.
        """
        return self._transport.carry_out(self._protocol.event_types.asyncapi(event_types))

    def replace_event_type(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> None:
        """Replace the definition of the event type that *definition* names.

        Members that *definition* omits return to their defaults, except annotations, labels, statistic and retention,
        which stay. Without *allow_reordering* the hub refuses a change that would break the order of a key's events:
        leaving the partition strategy `hash` or `user_defined`, or changing the key fields.

        Args:
            definition: The whole definition in Nakadi's format, including the name.
            allow_reordering: Allow such a change.

        Raises:
            EventTypeNotFound: The event type does not exist.
            InvalidEventType: The definition breaks a rule, or changes an immutable member.
            IncompatibleSchema: The compatibility mode does not allow the change of the schema.
        """
        replaces = self._protocol.event_types.replace(fill_definition(definition), allow_reordering=allow_reordering)
        self._transport.carry_out(replaces)

    def check_definition(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> None:
        """Check whether the hub would accept *definition*, without changing anything.

        The hub checks what applying it would do: create the event type if it does not exist, otherwise replace it, and
        add partitions if *definition* has more.

        Raises:
            PenstockError: The hub would refuse it, with the error of `create_event_type`, `replace_event_type` or
                `grow_partitions`.
        """
        checks = self._protocol.event_types.check(fill_definition(definition), allow_reordering=allow_reordering)
        self._transport.carry_out(checks)

    def grow_partitions(self, name: str, count: int) -> None:
        """Add partitions until the event type has *count*. Does nothing if it has that many.

        Keys may map to other partitions afterwards: the order of a key's events is not kept across this change.

        Raises:
            EventTypeNotFound: The event type does not exist.
            InvalidEventType: *count* is smaller than the current number of partitions, or above the limit.
        """
        self._transport.carry_out(self._protocol.event_types.grow(name, count))

    def check_compatibility(
        self, name: str, schema: str | Mapping[str, Any], *, version: str = "latest"
    ) -> Compatibility:
        """Return the effect of changing the event type's JSON Schema to *schema*, without changing anything.

        Args:
            name: The event type.
            schema: The new schema, decoded or as JSON text.
            version: The version of the current schema to compare with.

        Raises:
            EventTypeNotFound: The event type does not exist.
            SchemaVersionNotFound: The event type has no schema of this version.
        """
        return self._transport.carry_out(
            self._protocol.event_types.check_compatibility(name, schema_text(schema), version)
        )

    def delete_event_type(self, name: str) -> None:
        """Delete an event type and all its events.

        Raises:
            EventTypeNotFound: The event type does not exist.
        """
        self._transport.carry_out(self._protocol.event_types.delete(name))

    def erase(self, event_type: str, key: str) -> dict[str, Any]:
        """Have the events of a key erased that an event type has now, and return the erasure as the hub describes it.

        It goes on in the background: `erasure` tells when it is finished. Repeating it does no harm.

        Raises:
            EventTypeNotFound: The event type does not exist.
            AccessDenied: The caller has no right to administer the event type.
        """
        return self._transport.carry_out(self._protocol.event_types.erase(event_type, key))

    def erasure(self, event_type: str, id: str) -> dict[str, Any]:
        """Return what was erased so far, and whether the erasure is finished.

        Raises:
            RecordNotFound: The event type has no such erasure.
        """
        return self._transport.carry_out(self._protocol.event_types.erasure(event_type, id))

    def partitions(self, name: str) -> list[PartitionOffsets]:
        """Return the first and last available offset of each partition, sorted by partition.

        Raises:
            EventTypeNotFound: The event type does not exist.
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
        """Publish one event, or any number of events in their order. Return once all of them are durably stored.

        An iterable is sent in batches while it is consumed; each batch is one transaction. Events of business and data
        event types get a `metadata.eid` and `metadata.occurred_at` if they have none.

        Args:
            event_type: The event type to publish to.
            events: One event, or an iterable of events. An event is a mapping, a dataclass,
                a msgspec Struct, a pydantic model, a DataChange of one of these, JSON text or bytes, or a NewEvent with
                its own key, headers and partition.
            key: The key of events that have none, or a function that returns the key of an event.
            batch_events: Maximum number of events in one batch.
            batch_bytes: Maximum size of one batch, in bytes.
            progress: Called after each batch with the totals so far.

        Raises:
            OutcomeUnknown: The connection was lost before the response arrived, so the batch may or may not be stored.
                It is not sent again, since that could store it twice. Fields: `published`, the number of events that
                are certainly stored, and `doubtful`, the size of the batch.
            PenstockError: A batch was refused. Field `published` has the number of events stored before it, `line` the
                position of the refused event, from 1.
            Unavailable: The hub could not be reached, or refused, until *retry_timeout* was over. Nothing of the batch
                is stored.
            TypeError: *events* is neither an event nor an iterable of events.

        For example::

            published = client.publish("order.placed", {"id": 1}, key="customer-7")
        """
        batching = BatchLimits(event_count=batch_events, byte_count=batch_bytes)
        exchange = self._protocol.publishing.publish(event_type, key, batching, progress)
        return self._transport.carry_out(exchange, each_event(events))

    def feed(
        self,
        event_type: str,
        *,
        partition_count: int | None = None,
        type: type[Data] | UnionType | None = None,
    ) -> Feed[Data]:
        """Return the feed of an event type, which is read over this client's connections.

        Args:
            event_type: The event type.
            partition_count: Read the feed as this number of partitions: a divisor of the actual number merges
                partitions, a multiple splits them. None reads it as it is.
            type: Type of `data` of each event, such as a dataclass; see `Feed`.

        Raises:
            TypeError: Events cannot be decoded into *type*.
        """
        options = self._protocol.feed_options(event_type, partition_count)
        return Feed(**options, http=self._transport.http, type=type)

    def partition_for(self, event_type: str, event: Any, *, key: str | None = None) -> int | None:
        """Return the partition of *event* according to the event type's partition strategy. None means any partition.

        The event type is requested once and then cached: keys map to other partitions if it gets more partitions later.

        Args:
            event_type: The event type that the event is for.
            event: An event as `publish` accepts it.
            key: The key, if the event has none.

        Raises:
            EventTypeNotFound: The event type does not exist.
            InvalidEvent: The event lacks the fields that determine its partition.
        """
        choice = self._transport.carry_out(self._protocol.event_types.partition_choice(event_type))
        return choice.of(new_event(event, key))

    def publishing_properties(
        self, event_type: str, partition: int, producer_group: str
    ) -> PublishingProperties | None:
        """Return the state of a producer group in a partition; None if it has not published there.

        Raises:
            ProducerStateExpired: The hub has forgotten the producer group.
        """
        exchange = self._protocol.event_types.producer(event_type, partition, producer_group)
        return self._transport.carry_out(exchange)

    def consumer_groups(self, event_type: str | None = None, *, kind: str | None = None) -> list[ConsumerGroup]:
        """Return all consumer groups and their lag, sorted by name.

        Args:
            event_type: Return only groups that read this event type.
            kind: Return only groups of this kind: `cursorset`, `subscription`, `processor`, `spark` or
                `reported`.

        Raises:
            EventTypeNotFound: The event type does not exist.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.all(event_type, kind))

    def consumer_group(self, name: str) -> ConsumerGroupDetails:
        """Return one consumer group with all its positions.

        Raises:
            GroupNotFound: The group does not exist.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.show(name))

    def commit_positions(
        self,
        group: str,
        positions: Iterable[NewPosition],
        *,
        kind: str | None = None,
        parked: Iterable[NewParkedStream] = (),
        unparked: Iterable[ParkedStreamPlace] = (),
        tried: Iterable[ParkedStreamPlace] = (),
        kept_at: str | None = None,
    ) -> list[CommittedPosition]:
        """Store positions of a consumer group, all or none. Return them as stored.

        Args:
            group: The name of the group.
            positions: The next offset wanted in each partition. A position with `expected` is stored only if the stored
                one equals it.
            kind: The kind of a new group: `processor`, `spark` or `cursorset`; or `reported`, if the positions are kept
                elsewhere, and reported to be seen among the others.
            parked: Streams that the processor has parked since its last commit, or that have more waiting events.
            unparked: Streams that are no longer parked. A stream that was parked again is in both.
            tried: Parked streams whose retry failed: this clears the request for them.
            kept_at: For the kind `reported`, where the positions are kept, for people: such as
                `postgresql://db/shop, table positions`, without a credential.

        Raises:
            LimitReached: The group would have more parked streams than it may have.
            PositionMoved: A stored position differs from `expected`; the error has both.
            UnusablePosition: A position does not exist.
            GroupKindDiffers: The group is of another kind, or is a subscription.
            OutcomeUnknown, ConnectionLost: With `expected`, the positions may or may not be stored: read them before
                committing again. Without it, the commit is retried.
        """
        return self._transport.carry_out(
            self._protocol.consumer_groups.commit(
                group, positions, kind, parked=parked, unparked=unparked, tried=tried, kept_at=kept_at
            )
        )

    def reset_positions(
        self,
        group: str,
        items: Iterable[PositionReset] | None = None,
        *,
        to: Start | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> list[ResetPosition]:
        """Move positions of a consumer group forward or back, all or none. The hub records it in the group's history.

        Running consumers of the group are not notified: stop them first. A Spark stream notices the change by itself.

        Args:
            group: The name of the group.
            items: The positions to move, and where to. None moves all positions of the group.
            to: Without *items*: `earliest`; `latest`; a time, a datetime with a zone: the first event received then or
                later; or a duration, a timedelta: the same, so long ago.
            reason: A reason for the history.
            dry_run: Only return the positions that would be moved.

        Raises:
            GroupNotFound: The group does not exist.
            GroupKindDiffers: The group is a subscription. Reset it with `subscriptions.reset`.
            UnusablePosition: A position does not exist.
        """
        exchange = self._protocol.consumer_groups.reset(group, items, to=to, reason=reason, dry_run=dry_run)
        return self._transport.carry_out(exchange)

    def group_history(self, group: str, *, limit: int | None = None) -> list[GroupIntervention]:
        """Return the resets of a consumer group, newest first, at most *limit*.

        Raises:
            GroupNotFound: The group does not exist.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.history(group, limit))

    def parked_streams(self, group: str, *, requested: bool = False) -> list[GroupParkedStream]:
        """Return the streams that a group's processor has parked, oldest first.

        With *requested*, only those with a request to retry or skip them.

        Raises:
            GroupNotFound: The group does not exist.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.parked(group, requested=requested))

    def retry_parked_stream(self, group: str, parked: str | None = None) -> int:
        """Have a parked stream tried again, or all of them; return how many. The processor takes it up when it runs.

        Args:
            group: The name of the group.
            parked: The id of the parked stream; None: all.

        Raises:
            GroupNotFound, ParkedNotFound: There is no such group, or no such parked stream.
        """
        return self._transport.carry_out(self._protocol.consumer_groups.retry_parked(group, parked))

    def skip_parked_stream(self, group: str, parked: str, reason: str) -> None:
        """Have the processor pass over what waits of a parked stream. The group's history has the *reason*.

        Raises:
            GroupNotFound, ParkedNotFound: There is no such group, or no such parked stream.
        """
        self._transport.carry_out(self._protocol.consumer_groups.skip_parked(group, parked, reason))

    def forget_group(self, group: str) -> None:
        """Delete a consumer group with its positions and its history.

        Raises:
            GroupNotFound: The group does not exist.
            GroupKindDiffers: The group is a subscription. Delete it with `subscriptions.delete`.
        """
        self._transport.carry_out(self._protocol.consumer_groups.forget(group))

    def create_subscription(
        self,
        owning_application: str,
        event_types: Iterable[str],
        *,
        consumer_group: str | None = None,
        start: Start | None = None,
        initial_cursors: InitialCursors = (),
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        authorization: Mapping[str, Any] | None = None,
    ) -> tuple[Subscription, bool]:
        """Return the subscription of an application to event types, and whether this call created it.

        An application has one subscription to the same event types for each consumer group. If it exists, all other
        arguments are ignored.

        Args:
            owning_application: The owner.
            event_types: Names of the event types to read.
            consumer_group: Distinguishes subscriptions of the same application to the same event types; `default` by
                default.
            start: Where to begin: `latest` (the default); `earliest`; a time, a datetime with a zone: the first event
                received then or later; or a duration, a timedelta: the same, so long ago.
            initial_cursors: Instead of *start*, cursors to begin at, one for each partition, from `cursors` or in
                Nakadi's format.
            annotations: Annotations, such as `penstock/park-after-attempts`.
            labels: Labels.
            authorization: The readers and administrators of the subscription, in Nakadi's format.

        Raises:
            TypeError: *event_types* is a string instead of a list of names.
            BadParameter: *start* is none of these, or is given beside *initial_cursors*.
            InvalidSubscription: A member breaks a rule, or an event type does not exist.
            UnusablePosition: A cursor does not belong to these event types, or events after it have been removed.
        """
        members = {
            "owning_application": owning_application,
            "consumer_group": consumer_group,
            "annotations": annotations,
            "labels": labels,
            "authorization": authorization,
        }
        return self._transport.carry_out(
            self._protocol.subscriptions.create(event_types, start, initial_cursors, members)
        )

    def subscriptions(
        self,
        *,
        owning_application: str | None = None,
        event_types: Iterable[str] = (),
        reader: str | None = None,
        status: bool = False,
    ) -> list[Subscription]:
        """Return all subscriptions, newest first.

        Args:
            owning_application: Return only subscriptions of this owner.
            event_types: Return only subscriptions that read all of these.
            reader: Return only subscriptions that name this reader, such as `service:billing`.
            status: True to fill in `partitions`.
        """
        return self._transport.carry_out(
            self._protocol.subscriptions.all(owning_application, event_types, reader, status=status)
        )

    def subscription(
        self,
        subscription: str | Mapping[str, Any],
        *,
        batch_limit: int = 100,
        batch_flush_timeout: float = 0.1,
        batch_timespan: int = 0,
        max_uncommitted_events: int = 0,
        partitions: Collection[FeedPartition] = (),
        commit_timeout: int = 60,
        stream_timeout: int = 0,
        stream_limit: int = 0,
        reconnect: bool = True,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is immutable
        type: type[Data] | UnionType | None = None,
    ) -> SubscriptionStream[Data]:
        """Return a stream of a subscription's batches: iterate over it, commit processed batches, and close it.

        When a stream ends or its connection is lost, the next one begins after the committed events. A subscription has
        at most one stream per partition; a further consumer waits until there is room.

        Args:
            subscription: The id; or a mapping in Nakadi's format (owning_application, event_types, optionally
                consumer_group, read_from …), which is created if it does not exist.
            batch_limit: Maximum number of events in a batch.
            batch_flush_timeout: Seconds after which a smaller batch is sent. With a *batch_limit* of 1 each event is
                sent at once.
            batch_timespan: Maximum difference between the receive times of a batch's events, in seconds; 0 is
                unlimited.
            max_uncommitted_events: Maximum number of events sent but not committed, over all partitions; 0 is ten whole
                batches.
            partitions: The partitions to read, as pairs of event type and number; empty is an equal share.
            commit_timeout: Seconds without a commit after which a stream with uncommitted events ends, unless its lease
                is extended.
            stream_timeout: Seconds after which a stream ends; 0 is about an hour.
            stream_limit: Number of events after which a stream ends, once they are committed; 0 is unlimited.
            reconnect: Begin another stream when one has ended. Otherwise the iteration ends; see `reason`.
            retry: Retries of a stream that cannot be opened.
            type: Type of `data` of each event, such as a dataclass; see `Feed`.

        Raises:
            TypeError: Events cannot be decoded into *type*.
            BadParameter: The value of an option is invalid.
            PenstockError: Raised by the iteration for errors that retrying does not fix, such as SubscriptionNotFound.
        """
        parameters = StreamParameters(
            batch_limit=batch_limit, batch_flush_timeout=batch_flush_timeout, batch_timespan=batch_timespan,
            max_uncommitted_events=max_uncommitted_events, partitions=partitions, commit_timeout=commit_timeout,
            stream_timeout=stream_timeout, stream_limit=stream_limit,
        )  # fmt: skip
        return SubscriptionStream(
            self._transport, self._protocol.url, subscription, parameters, retry=retry,
            retry_timeout=self._protocol.retry_timeout, reconnect=reconnect, kind=type,
            subscriptions=self._protocol.subscriptions,
        )  # fmt: skip

    def consume(
        self,
        subscription: str | Mapping[str, Any],
        handler: "Callable[..., Any] | Together",
        *,
        rules: "Rules | None" = None,
        classify: "Classify | None" = None,
        cancel: Cancel | None = None,
        batch_limit: int = 1_000,
        batch_flush_timeout: float = 0.1,
        max_uncommitted_events: int = 50_000,
        commit_timeout: int = 60,
        partitions: Collection[FeedPartition] = (),
    ) -> None:
        """Call *handler* with the events of a subscription, and commit what is handled, until it is stopped.

        It runs a `LocalProcessor` of a `SubscriptionSource`: events of one key come in their order, those of other keys
        at the same time; each is handled at least once. If the handler raises, the event comes again after a pause that
        grows, and holds up its own key only. If the subscription has the annotation `penstock/park-after-attempts`, its
        key is parked after that number of attempts.

        The handler may be a function, which is called in threads, or an async function. `Client` awaits it in the
        caller's event loop and stops when its task is cancelled; then running handlers are cancelled. `Client` stops
        with Ctrl-C or SIGTERM; then calls under way get 30 seconds to end, as with *cancel*. In both cases handled
        events are committed, and other consumers get the partitions at once.

        Args:
            subscription: The id; or a mapping in Nakadi's format, which is created if it does not exist; see
                `subscription`.
            handler: A function of an event, `handle(event)`, or of a stream's name and a span of its events,
                `handle(stream, events)`, which may return an outcome; or `Together(…)`. Each event is a `StreamEvent`.
            rules: How many keys are handled at one time (8), pauses between attempts, and the action after the last.
            classify: Names failures, for logs and metrics.
            cancel: A `threading.Event` that stops it.
            batch_limit: Maximum number of events in a batch of the hub.
            batch_flush_timeout: Seconds after which a smaller batch is sent.
            max_uncommitted_events: Maximum number of events sent but not committed, over all partitions.
            commit_timeout: Seconds after which others get the partitions of a consumer that is gone.
            partitions: The partitions to read, as pairs of event type and number; empty is an equal share.

        Raises:
            BadParameter: The handler or an option is invalid.
            SubscriptionNotFound: The subscription does not exist.
            PenstockError: A stream has failed as often as *rules* allow, or reading fails for good.
        """
        from penstock.processing.consuming import ConsumeOptions, consume_subscription

        options = ConsumeOptions(
            rules=rules, classify=classify, batch_limit=batch_limit, batch_flush_timeout=batch_flush_timeout,
            max_uncommitted_events=max_uncommitted_events, commit_timeout=commit_timeout, partitions=partitions,
        )  # fmt: skip
        http, auth = self._transport.given
        consume_subscription(self._protocol.url, subscription, handler, options, http=http, auth=auth, cancel=cancel)

    def parts(self) -> tuple[HubProtocol, Transport]:
        """Return the protocol and the connections, from which an IdempotentProducer is made."""
        return self._protocol, self._transport

    def close(self) -> None:
        """Close the connections, unless they belong to a client that was passed as *http*."""
        self._transport.close()
