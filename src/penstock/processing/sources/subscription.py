"""A subscription of a hub: the hub keeps the cursors, and shares partitions out among the processors that read it."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Unpack

from penstock.client.client import Client
from penstock.client.concurrency import Closing
from penstock.client.subscriptions.stream import SubscriptionStream, UncommittedBatch
from penstock.client.subscriptions.stream_protocol import StreamOptions
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import CommitRefused, EventsLost, PenstockError, StreamNotFound, Unavailable
from penstock.processing.engine.item import Batch, Position
from penstock.processing.fields import Fields
from penstock.processing.sources.batch_position import BatchPosition
from penstock.processing.sources.feed_position import FeedPosition, encode_tranche
from penstock.processing.sources.inflow import Inflow
from penstock.processing.sources.source import Want
from penstock.processing.sources.subscribed import DeliveredPartition, Sent
from penstock.processing.sources.subscribed_events import SubscribedEvents
from penstock.wire.log.nakadi import parse_offset

BATCH_LIMIT: Final = 1_000
UNCOMMITTED_MAX: Final = 50_000
RETRY_TIMEOUT: Final = 3.0
LOOK_INTERVAL: Final = 5.0
"""How often it is looked for new partitions."""
PARKED: Final = "+parked"
"""What the tranche is called of the parked events of a partition, behind its name."""
RETRYING: Final = "retrying"
"""The state of a parked key whose events are to be sent again."""
_NOWHERE: Final = FeedPosition(0, 0)
_log: Final = logging.getLogger("penstock.processing")


class SubscriptionSource(Closing):
    """What a hub sends of a subscription. `SubscriptionCheckpoints` commits what is handled; it takes no others.

    A tranche is a partition, `order.placed/3`. Of the events' keys nothing is told: a stream is those of a partition
    with the same values in the fields by which the event type is partitioned, `order.placed-7`, or in others. Indices
    are offsets.

    Several processors may read one subscription: the hub shares the partitions out. One that is to go to another
    processor goes when what was sent of it is committed. A lease is extended for as long as the processor runs. Should
    the hub not hear of it for longer than the commit timeout, others are sent what it has, while it may be handling
    that still. What is sent again to the same process is not handled again, unless the subscription was set back.
    Parked events that are sent again are a tranche of their own, `order.placed/3+parked`.

    The hub sends no more than *max_uncommitted_events* ahead, over all partitions: a stream that fails for ever holds
    the others up once these are all of its partition.

    Args:
        url: The hub's address.
        subscription: Its id; or what to create where it is missing, in Nakadi's shape, as for `Client.subscription`.
        stream: What stream an event is in: paths of fields, such as `["data.order_id"]`, whose values stand behind the
            event type in its name; or a function from the decoded event to the name.
        kind: What kind it is of, likewise; without it, its event type.
        http: An `httpx2.Client` of your own; it stays yours to close.
        auth: Instead of *http*, the credential that is sent: see `Client`.
        options: Those of `Client.subscription`: batch_limit (1000), max_uncommitted_events (50 000), commit_timeout
            (60), batch_flush_timeout (1), partitions …

    Raises:
        BadParameter, TypeError: an option is none, or makes no sense.
        SubscriptionNotFound: (whatever reads) there is none of that id.
        EventUnusable: (`read`) an event lacks the fields of *stream* or *kind*.
    """

    is_dense = False
    is_by_stream = False
    is_replayable = False

    def __init__(
        self,
        url: str,
        subscription: str | Mapping[str, Any],
        *,
        stream: Fields | None = None,
        kind: Fields | None = None,
        http: Any = None,
        auth: Any = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        self._client = Client(url, http=http, auth=auth, retry_timeout=RETRY_TIMEOUT)
        self._impatient = Client(url, http=http, auth=auth, retry_timeout=0.0)
        given: StreamOptions = {"batch_limit": BATCH_LIMIT, "max_uncommitted_events": UNCOMMITTED_MAX}
        given.update(options)
        self._options, self._subscription = given, subscription
        self._stream: SubscriptionStream[Any] = self._client.subscription(subscription, **given)
        self._events = SubscribedEvents(stream, kind, self._client.event_type)
        self._inflow: Inflow | None = None
        self._subscribed: dict[str, DeliveredPartition] = {}
        self._looked_at = float("-inf")
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        """Whoever has it looks at what came in."""
        self._commits = threading.Lock()
        """Whoever has it commits."""
        self._is_closed = False
        self._has_ended = False
        """Whether nothing can be asked of the hub any more."""

    @property
    def is_closed(self) -> bool:
        """Whether it has ended: no processor can begin with it any more."""
        return self._is_closed

    def tranches(self) -> Collection[str]:
        """Return the partitions of the subscription, whoever is sent them, as far as was looked lately."""
        if time.monotonic() - self._looked_at > LOOK_INTERVAL:
            self.committed()
        with self._changed:
            self._begin()  # Only then the subscription has cursors.
            if not self._subscribed:
                self._check()
            return list(self._subscribed)

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - The hub knows.
        """Return up to where a partition is committed."""
        with self._changed:
            return BatchPosition(self._subscribed[tranche].committed).encode()

    def read(self, wants: Mapping[str, Want], timeout: float) -> Sequence[Batch]:
        """Return what the hub has sent of each partition that is wanted."""
        with self._changed:
            self._begin()
            self._changed.wait_for(lambda: self._is_closed or self._error or self._ready(wants), timeout=timeout)
            found = [each.take(self._events.make) for each in self._ready(wants)]
            if not found:
                self._check()
            return found

    def reread(self, tranche: str, want: Want) -> Batch:  # noqa: ARG002 - It never can.
        """Refuse.

        Raises:
            EventsLost: a subscription sends again only what is not committed.
        """
        raise EventsLost.of("not-replayable", source=type(self).__name__)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:  # noqa: ARG002 - The hub has them.
        """Return how many events of each partition are not committed, whoever is sent them.

        Of parked keys those count that are to be sent again.

        Raises:
            Unavailable: the hub is away, which is not waited for; says which, and why.
        """
        asked = self._impatient.subscriptions
        stats = asked.stats(self._id(), lag=False)
        found = {encode_tranche(each.event_type, each.partition): each.unconsumed_events for each in stats}
        with self._changed:
            again = Counter(
                {name: each.uncommitted for name, each in self._subscribed.items() if name.endswith(PARKED)}
            )
        for key in asked.parked(self._id()) if any(each.parked_events for each in stats) else ():
            if key.state == RETRYING:
                again[f"{encode_tranche(key.event_type, key.partition)}{PARKED}"] += key.events
        return found | again

    def committed(self) -> Mapping[str, Position]:
        """Return up to where each partition is committed."""
        self._looked_at = time.monotonic()
        found = self._cursors()
        with self._changed:
            for tranche, place in found.items():
                self._subscribed.setdefault(tranche, DeliveredPartition(tranche, place))
        return {tranche: BatchPosition(place).encode() for tranche, place in found.items()}

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Commit, by tranche, all batches up to a position. What the hub takes no more, others are sent again.

        Raises:
            PenstockError: it is not known whether it is committed: try again later.
        """
        with self._commits:
            streams: dict[str, list[Sent]] = {}
            with self._changed:
                for tranche, position in positions.items():
                    if (found := self._subscribed.get(tranche)) is not None:
                        for batch in found.passed(BatchPosition.decode(str(position)).number):
                            streams.setdefault(batch.stream_id, []).append(batch)
                self._changed.notify_all()
            for stream_id, batches in streams.items():
                self._commit(stream_id, batches)
            if self._is_closed and not self._uncommitted():
                self._end()

    def close(self) -> None:
        """End; who is reading is woken. What was handled can still be committed, until it is closed once more.

        By that all is given back: others are sent at once what is not committed, which counts as failed.
        """
        with self._changed:
            was_closed, self._is_closed = self._is_closed, True
            inflow, self._inflow = self._inflow, None
            self._changed.notify_all()
        if inflow is not None:
            inflow.stop()
        names = self._uncommitted()
        if was_closed:
            self.let_go(failed=names)
            return
        if inflow is not None:
            self._give_back(keep=_places(names), failed=())
        if not names:
            self._end()

    def let_go(self, failed: Collection[str]) -> None:
        """Give all back for good, once it is closed: others are sent at once what is not committed.

        That counts as failed in the *failed* tranches alone. A `Local` that ends does it.
        """
        self._give_back(keep=(), failed=_places(failed))
        self._end()

    # What comes in, told by the thread of the inflow.

    def began(self) -> None:
        """Forget what waits: another stream has begun, which sends what is not committed."""
        with self._commits:  # What is committed meanwhile would look as if it had been set back.
            found = self._cursors()
            with self._changed:
                for tranche, place in found.items():
                    self._subscribed.setdefault(tranche, DeliveredPartition(tranche, place)).restart(place)
                for tranche, each in self._subscribed.items():
                    if tranche.endswith(PARKED):
                        each.restart(_NOWHERE)

    def came(self, batch: UncommittedBatch[Any]) -> None:
        """Take a batch."""
        self._events.learn(batch.event_type)
        tranche = encode_tranche(*batch.place)
        name = f"{tranche}{PARKED}" if batch.is_parked else tranche
        with self._changed:
            if name not in self._subscribed:
                self._subscribed[name] = DeliveredPartition(name, _start_of(batch), is_parked=batch.is_parked)
            self._subscribed[name].add(batch)
            self._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        """Take note that nothing comes any more, until it is read again."""
        following: SubscriptionStream[Any] = self._client.subscription(self._subscription, **self._options)
        with self._changed:
            self._inflow, self._error, self._stream = None, error, following
            self._changed.notify_all()

    def _check(self) -> None:
        """Raise, once, what reading has failed with; it begins anew then."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _begin(self) -> None:
        if self._inflow is not None or self._is_closed or self._error is not None:
            return
        self._inflow = Inflow(self._stream, self, lambda: bool(self._uncommitted()))
        self._inflow.start()

    def _ready(self, wants: Mapping[str, Want]) -> list[DeliveredPartition]:
        return [found for name in wants if (found := self._subscribed.get(name)) is not None and found.is_ready]

    def _commit(self, stream_id: str, batches: list[Sent]) -> None:
        """Commit the batches of one stream; leave out what the hub does not take."""
        while batches:
            refused: list[Sent] = []
            try:
                self._stream.commit(batches)
            except StreamNotFound:
                refused = batches
            except CommitRefused as error:
                place = error.event_type, error.partition
                refused = [each for each in batches if (each.event_type, str(each.partition)) == place] or batches
            if not refused:
                self._forget(batches, are_kept=True)
                return
            _log.info(
                "%d batches of the stream %s came too late: others are sent their events", len(refused), stream_id
            )
            self._forget(refused, are_kept=False)
            batches = [each for each in batches if each not in refused]

    def _forget(self, batches: Iterable[Sent], *, are_kept: bool) -> None:
        with self._changed:
            for each in self._subscribed.values():
                each.forget(batches, are_kept=are_kept)

    def _give_back(self, keep: Collection[FeedPartition], failed: Collection[FeedPartition]) -> None:
        stream_id = self._stream.stream_id
        if stream_id is not None and not self._has_ended:
            _, transport = self._client.parts()
            with suppress(PenstockError):  # A hub that cannot be told finds out by itself.
                transport.carry_out(self._stream.protocol.release(stream_id, keep, failed))

    def _end(self) -> None:
        """Let go of the connections: nothing is left to be committed."""
        self._has_ended = True
        self._client.close()
        self._impatient.close()

    def _uncommitted(self) -> list[str]:
        with self._changed:
            return [name for name, each in self._subscribed.items() if each.uncommitted]

    def _cursors(self) -> dict[str, FeedPosition]:
        return {
            encode_tranche(each.event_type, each.partition): FeedPosition(each.epoch, each.offset)
            for each in self._client.subscriptions.cursors(self._id())
        }

    def _id(self) -> str:
        """Return the subscription's id; it is created where it is missing.

        Raises:
            Unavailable: all is closed.
        """
        if self._has_ended:
            raise Unavailable(reason="the source is closed")
        _, transport = self._client.parts()
        return self._stream.id or transport.carry_out(self._stream.protocol.find_subscription())


def _places(tranches: Iterable[str]) -> list[FeedPartition]:
    found = {tranche.removesuffix(PARKED).rpartition("/") for tranche in tranches}
    return [(event_type, int(partition)) for event_type, _, partition in found]


def _start_of(batch: Sent) -> FeedPosition:
    """Return where a batch begins."""
    if batch.is_parked:
        return _NOWHERE
    epoch, _ = parse_offset(batch.offset)
    return FeedPosition(epoch, batch.offsets[0])


def subscription_in(source: object) -> SubscriptionSource | None:
    """Return the subscription that *source* reads, itself or as what it hands on; None: it reads none."""
    while source is not None and not isinstance(source, SubscriptionSource):
        source = getattr(source, "inner", None)
    return source
