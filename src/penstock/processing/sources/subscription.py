"""A subscription of a hub: the hub keeps the cursors, and shares the partitions among the reading processors."""

import logging
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from penstock.client.client import Client
from penstock.client.concurrency import Closing
from penstock.client.subscriptions.stream import SubscriptionStream, UncommittedBatch
from penstock.client.subscriptions.stream_protocol import StreamBegan, SubscriptionBatch
from penstock.core.events.event import stream_name
from penstock.core.events.partitioning import key_text
from penstock.core.subscriptions.assignment import FeedPartition, PoisonOffset
from penstock.core.subscriptions.definition import read_unprocessable_policy
from penstock.errors import (
    BadParameter,
    CommitRefused,
    EventsLost,
    EventTypeNotFound,
    PenstockError,
    StreamNotFound,
    Unavailable,
)
from penstock.processing.engine.parking import Parked
from penstock.processing.engine.tranche import Batch, Position, SourceItem
from penstock.processing.event import FieldReader, Fields
from penstock.processing.parameters import INDEX_END
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche, numbering_of
from penstock.processing.sources.source import ReadRequest
from penstock.processing.stream_event import APART, StreamEvent
from penstock.schema.traversal import Path, key_path
from penstock.wire.log.nakadi import parse_offset
from penstock.wire.subscriptions import PARKED_MAX


class BatchPosition(NamedTuple):
    """The position behind a batch."""

    place: FeedPosition
    """The next offset."""
    number: int = 0
    """The batch's number among those that this process received of the partition; 0: no batch."""

    def encode(self) -> str:
        """Return its text: `1:17#3`.

        >>> BatchPosition(FeedPosition(1, 17), 3).encode()
        '1:17#3'
        """
        return f"{self.place.encode()}#{self.number}"

    @classmethod
    def decode(cls, text: str) -> "BatchPosition":
        """Read the text of a position.

        Raises:
            BadParameter: it is no position of a subscription.

        >>> BatchPosition.decode("1:17#3")
        BatchPosition(place=FeedPosition(epoch=1, offset=17), number=3)
        """
        place, hash_, number = text.partition("#")
        if not (hash_ and number.isdecimal()):
            raise BadParameter(parameter="position", value=text, allowed="EPOCH:OFFSET#BATCH, such as 1:17#3")
        return cls(FeedPosition.decode(place), int(number))


Sent: TypeAlias = SubscriptionBatch[Any]
MakeEvents: TypeAlias = Callable[[Sent, int], Sequence[SourceItem]]
"""Returns the events of a batch from the given number on."""


class DeliveredPartition:
    """One partition of a subscription, or its parked events, as delivered to this process.

    Args:
        tranche: Its tranche in the engine.
        committed: The position that the hub has committed.
        is_parked: True for parked events: they come one batch at a time, each after the commit of the one before, since
            their offsets do not order them.
    """

    def __init__(self, tranche: str, committed: FeedPosition, *, is_parked: bool = False) -> None:
        self.tranche = tranche
        self.committed = committed
        self._is_parked = is_parked
        self._waiting: deque[Sent] = deque()
        self._uncommitted: deque[tuple[int, Sent]] = deque()
        self._next: FeedPosition | None = None
        """The position behind the engine's last batch; None: the engine has no events that could come again."""
        self._number = 0
        self._passed = 0
        """The last batch that the position has passed."""
        self._is_set_back = False
        """True if waiting batches must wait until the engine has handled all its events."""
        self._given_up: dict[str, int] = {}
        """Streams that the engine has given up, with the first offset that it has not handled."""

    @property
    def uncommitted(self) -> int:
        """The number of the engine's uncommitted batches."""
        return len(self._uncommitted)

    @property
    def is_ready(self) -> bool:
        """True if a batch is ready for the engine."""
        is_barred = self._is_set_back or self._is_parked
        return bool(self._waiting) and not (is_barred and self._passed < self._number)

    def add(self, batch: Sent) -> None:
        """Queue a batch that a stream has sent."""
        self._waiting.append(batch)

    def restart(self, committed: FeedPosition) -> None:
        """Record that another stream begins, which sends all uncommitted events; drop the waiting batches."""
        self._waiting.clear()
        if committed.epoch != self.committed.epoch or committed.offset < self.committed.offset:
            self._is_set_back = True
        self.committed = committed

    def take(self, make: MakeEvents) -> Batch:
        """Return the next batch for the engine, without events that it has received before."""
        batch = self._waiting[0]
        epoch, last = parse_offset(batch.offset) if not self._is_parked else (0, batch.offsets[-1])
        if self._is_set_back:
            self._is_set_back, self._next = False, None
        known = 0 if self._next is None or self._is_parked else self._next.offset
        events = make(batch, 0 if self._given_up else bisect_left(batch.offsets, known))
        if self._given_up:
            given_up, end = self._given_up, INDEX_END
            events = [each for each in events if each.index >= known or each.index >= given_up.get(each.stream, end)]
            if last >= known:
                self._given_up = {}
        self._waiting.popleft()
        self._next = FeedPosition(epoch, max(known, last + 1))
        self._number += 1
        self._uncommitted.append((self._number, batch))
        return Batch(self.tranche, BatchPosition(self._next, self._number).encode(), events)

    def pass_batches(self, number: int) -> list[Sent]:
        """Record that the position has passed a batch; return all batches that may be committed now."""
        self._passed = max(self._passed, number)
        return [batch for at, batch in self._uncommitted if at <= number]

    def give_up(self, stream: str, offset: int) -> None:
        """Allow the engine to receive the events of a stream again from *offset* on, if the hub sends them."""
        if not self._is_parked:
            self._given_up[stream] = min(offset, self._given_up.get(stream, offset))

    def make_poison_offset(self, index: int, attempts: int) -> PoisonOffset | None:
        """Return an event as the hub identifies it; None: it is parked there already."""
        if self._is_parked or self._next is None:
            return None
        event_type, partition = decode_tranche(self.tranche)
        return PoisonOffset((event_type, partition), self._next.epoch, index, attempts)

    def forget_all(self) -> None:
        """Record that the engine's batches can no longer be committed, since their stream is over."""
        self._waiting.clear()
        self._uncommitted.clear()

    def forget(self, batches: Iterable[Sent], *, are_kept: bool) -> None:
        """Remove *batches*, which are committed, or which the hub no longer accepts."""
        left = {id(batch) for batch in batches}
        kept = [batch for _, batch in self._uncommitted if id(batch) in left]
        self._uncommitted = deque(each for each in self._uncommitted if id(each[1]) not in left)
        if are_kept and not self._is_parked:
            ends = [FeedPosition(epoch, last + 1) for epoch, last in (parse_offset(batch.offset) for batch in kept)]
            self.committed = max([self.committed, *ends])


def find_numbering(batch: Sent) -> str:
    """Return the numbering of a batch's events."""
    return numbering_of(encode_tranche(*batch.place), parse_offset(batch.offset)[0])


def make_parked_suffix(batch: Sent) -> str:
    """Return the suffix of the numbering for a stream with several keys, of which the hub has sent later events before.

    It is empty except for parked events.
    """
    if not batch.is_parked:
        return ""
    _, parked_id, *_ = batch.cursor["cursor_token"].split("-", 2)
    return f"{APART}{parked_id}"


_TEXTS: Final = ((str, int), "a text or a whole number")
_decode: Final = msgspec.json.Decoder().decode


class SubscribedEvents:
    """Converts batches to events.

    Args:
        stream: The fields whose values, behind the event type, are the stream's name; or a function from the decoded
            event to the name; None: the fields by which the event type is partitioned.
        kind: The fields whose values are the kind, or a function; None: the event type.
        definition: Returns the definition of an event type.

    Raises:
        BadParameter: the fields are invalid.
    """

    def __init__(
        self, stream: Fields | None, kind: Fields | None, definition: Callable[[str], Mapping[str, Any]]
    ) -> None:
        self._stream = None if stream is None else FieldReader(stream, _TEXTS, "stream")
        self._is_named = callable(stream)
        self._kind = None if kind is None else FieldReader(kind, _TEXTS, "kind")
        self._definition = definition
        self._keys: dict[str, list[Path]] = {}
        """The fields by which event types are partitioned; empty for those that are not partitioned by a hash."""

    def learn(self, event_type: str) -> None:
        """Load the partition key fields of an event type, before its first batch."""
        if event_type not in self._keys:
            self._keys[event_type] = self._find_key_paths(event_type) if self._stream is None else []

    def make(self, batch: Sent, skip: int) -> list[StreamEvent]:
        """Return the events of a batch but for the first *skip*; their indices are their offsets.

        Raises:
            EventUnusable: an event lacks a field of its stream or its kind.
        """
        tranche, numbering = encode_tranche(batch.event_type, batch.partition), find_numbering(batch)
        found = zip(batch.offsets[skip:], batch.raw[skip:], strict=True)
        return [
            self._make_event(batch, raw, offset, place, tranche=tranche, numbering=numbering)
            for place, (offset, raw) in enumerate(found, skip)
        ]

    def _make_event(
        self, batch: Sent, raw: bytes, index: int, place: int, *, tranche: str, numbering: str
    ) -> StreamEvent:
        data, event_type = _decode(raw), batch.event_type
        key = None if self._stream is not None else self._find_key(batch, place, data)
        if key is None:
            numbering += make_parked_suffix(batch)
        if self._stream is None:
            stream = stream_name(event_type, batch.partition, key, is_hashed=True)
        else:
            name = "-".join(map(str, self._stream.read(data, data, place, event_type)))
            stream = name if self._is_named else f"{event_type}-{name}"
        kind = event_type
        if self._kind is not None:
            kind = "-".join(map(str, self._kind.read(data, data, place, event_type)))
        received = _find_received(data)
        return StreamEvent(stream, index, kind, raw, key, None, tranche, received, numbering, data)

    def _find_key(self, batch: Sent, place: int, data: Any) -> str | None:
        """Return the key of an event as the hub has sent it, else by its fields; None: it has another, unknown key."""
        paths = self._keys[batch.event_type]
        if not paths:
            return None
        if (key := batch.events[place].key) is not None:
            return key
        try:
            return ",".join([key_text(data, path) for path in paths])
        except KeyError:
            return None

    def _find_key_paths(self, event_type: str) -> list[Path]:
        try:
            definition = self._definition(event_type)
        except EventTypeNotFound:  # It was deleted; its remaining events still come.
            return []
        if definition.get("partition_strategy") != "hash":
            return []
        prefix = "data." if definition.get("category") == "data" else ""
        return [key_path(prefix + field) for field in definition["partition_key_fields"]]


def _find_received(data: Any) -> int | None:
    """Return when the hub took an event, in microseconds since 1970, if its metadata says so."""
    metadata = data.get("metadata") if isinstance(data, dict) else None
    said = metadata.get("received_at") if isinstance(metadata, dict) else None
    try:
        return None if said is None else int(datetime.fromisoformat(str(said)).timestamp() * 1_000_000)
    except ValueError:
        return None


RENEWALS: Final = 3
"""The number of lease extensions within a commit timeout."""
STOP_TIMEOUT: Final = 5.0


class DeliveryReader:
    """The streams of one subscription, until it is stopped or fails.

    Args:
        stream: The stream to read.
        begin: Called when another stream begins, which sends all uncommitted events.
        receive: Called with each batch.
        fail: Called when reading has failed: no more batches come.
        is_outstanding: Returns whether any event is uncommitted, so that the lease has to be extended.
    """

    def __init__(
        self,
        stream: SubscriptionStream[Any],
        *,
        begin: Callable[[], None],
        receive: Callable[[UncommittedBatch[Any]], None],
        fail: Callable[[BaseException], None],
        is_outstanding: Callable[[], bool],
    ) -> None:
        self.stream = stream
        self._begin = begin
        self._receive = receive
        self._fail = fail
        self._is_outstanding = is_outstanding
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, name="penstock-subscription", daemon=True),
            threading.Thread(target=self._keep, name="penstock-lease", daemon=True),
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop reading. Received batches can still be committed."""
        self._over.set()
        self.stream.stop()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT)

    def _read(self) -> None:
        try:
            while (news := self.stream.advance()) is not None:
                if self._over.is_set():
                    continue  # Its end closes the connection.
                if isinstance(news, StreamBegan):
                    self._begin()
                elif isinstance(news, UncommittedBatch):
                    self._receive(news)
        except BaseException as error:  # noqa: BLE001 - The reading thread raises it.
            self._over.set()
            with suppress(PenstockError):
                self.stream.close()
            self._fail(error)

    def _keep(self) -> None:
        while not self._over.wait(self.stream.protocol.parameters.commit_timeout / RENEWALS):
            if self._is_outstanding():
                with suppress(PenstockError):  # If its time is over, another stream gets the events.
                    self.stream.extend_lease()


BATCH_LIMIT: Final = 1_000
UNCOMMITTED_MAX: Final = 50_000
RETRY_TIMEOUT: Final = 3.0
LOOK_INTERVAL: Final = 5.0
"""Seconds between two checks for new partitions."""
PARKED: Final = "+parked"
"""The suffix of the tranche of a partition's parked events."""
RETRYING: Final = "retrying"
"""The state of a parked key whose events will be sent again."""
_NOWHERE: Final = FeedPosition(0, 0)
_log: Final = logging.getLogger("penstock.processing")


class SubscriptionSource(Closing):
    """The events of a hub's subscription. It requires `SubscriptionCheckpoints`, which commit the handled events.

    A tranche is a partition, `order.placed/3`. Subscriptions do not show the events' keys: a stream is the events of a
    partition with the same values in the fields by which the event type is partitioned, `order.placed-7`, or in other
    fields. Indices are offsets.

    Several processors may read one subscription: the hub shares the partitions. A partition moves to another processor
    when its delivered events are committed. The lease is extended while the processor runs. If the hub gets no request
    for longer than the commit timeout, others receive the processor's events, which it may still be handling. Events
    sent again to the same process are not handled again, unless the subscription was reset. Parked events that are sent
    again are a separate tranche, `order.placed/3+parked`.

    The hub sends at most *max_uncommitted_events* ahead, over all partitions: a stream that fails permanently blocks
    the others once all of these are of its partition.

    Args:
        url: The hub's address.
        subscription: Its id; or its definition in Nakadi's shape, to create it if it is missing, as for
            `Client.subscription`.
        stream: The stream of an event: paths of fields, such as `["data.order_id"]`, whose values follow the event type
            in its name; or a function from the decoded event to the name.
        kind: The kind of an event, likewise; by default its event type.
        http: Your own `httpx2.Client`; you close it.
        auth: Instead of *http*, the credential to send: see `Client`.
        batch_limit: Maximum number of events in a batch of the hub.
        batch_flush_timeout: Seconds after which a smaller batch is sent.
        max_uncommitted_events: Maximum number of events sent but not committed, over all partitions.
        partitions: The partitions to read, as pairs of event type and number; empty is an equal share.
        commit_timeout: Seconds without a request after which others receive this processor's events.

    Raises:
        BadParameter: an option is invalid.
        SubscriptionNotFound: (reading methods) there is none of that id.
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
        batch_limit: int = BATCH_LIMIT,
        batch_flush_timeout: float = 0.1,
        max_uncommitted_events: int = UNCOMMITTED_MAX,
        partitions: Collection[FeedPartition] = (),
        commit_timeout: int = 60,
    ) -> None:
        self._client = Client(url, http=http, auth=auth, retry_timeout=RETRY_TIMEOUT)
        self._impatient = Client(url, http=http, auth=auth, retry_timeout=0.0)
        self._open = partial(
            self._client.subscription, subscription, batch_limit=batch_limit, batch_flush_timeout=batch_flush_timeout,
            max_uncommitted_events=max_uncommitted_events, partitions=partitions, commit_timeout=commit_timeout,
        )  # fmt: skip
        self._stream: SubscriptionStream[Any] = self._open()
        self._has_keys_as_streams = stream is None
        self._events = SubscribedEvents(stream, kind, self._client.event_type)
        self._deliveries: DeliveryReader | None = None
        self._subscribed: dict[str, DeliveredPartition] = {}
        self._looked_at = float("-inf")
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        """Guards the received batches."""
        self._commits = threading.Lock()
        """Guards commits."""
        self._is_paused = False
        """True while reading is paused, until the processor has forgotten the parked events."""
        self._is_closed = False
        self._has_ended = False
        """True once no more requests can be sent to the hub."""

    @property
    def has_keys_as_streams(self) -> bool:
        """True if streams are the hub's keys, so that the hub can park them."""
        return self._has_keys_as_streams

    @property
    def is_closed(self) -> bool:
        """True if it is closed: no processor can start with it."""
        return self._is_closed

    def tranches(self) -> Collection[str]:
        """Return the subscription's partitions, of all processors, as of the last check."""
        if time.monotonic() - self._looked_at > LOOK_INTERVAL:
            self.list_committed()
        with self._changed:
            self._begin()  # Only then the subscription has cursors.
            if not self._subscribed:
                self._raise_failure()
            return list(self._subscribed)

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - The hub knows.
        """Return the committed position of a partition."""
        with self._changed:
            return BatchPosition(self._subscribed[tranche].committed).encode()

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the events that the hub has sent of each wanted partition."""
        with self._changed:
            self._begin()
            self._changed.wait_for(lambda: self._is_closed or self._error or self._list_ready(wants), timeout=timeout)
            found = [each.take(self._events.make) for each in self._list_ready(wants)]
            if not found:
                self._raise_failure()
            return found

    def reread(self, tranche: str, want: ReadRequest) -> Batch:  # noqa: ARG002 - Never possible.
        """Raise EventsLost.

        Raises:
            EventsLost: a subscription sends only uncommitted events again.
        """
        raise EventsLost.of("not-replayable", source=type(self).__name__)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:  # noqa: ARG002 - The hub has them.
        """Return the number of uncommitted events of each partition, over all processors.

        Events of parked keys count if they will be sent again.

        Raises:
            Unavailable: the hub is unavailable, which is not waited for; says which, and why.
        """
        asked = self._impatient.subscription(self._find_id())
        stats = asked.stats(lag=False)
        found = {encode_tranche(each.event_type, each.partition): each.unconsumed_events for each in stats}
        with self._changed:
            again = Counter(
                {name: each.uncommitted for name, each in self._subscribed.items() if name.endswith(PARKED)}
            )
        for key in asked.parked() if any(each.parked_events for each in stats) else ():
            if key.state == RETRYING:
                again[f"{encode_tranche(key.event_type, key.partition)}{PARKED}"] += key.events
        return found | again

    def list_committed(self) -> Mapping[str, Position]:
        """Return the committed position of each partition."""
        self._looked_at = time.monotonic()
        found = self._list_cursors()
        with self._changed:
            for tranche, place in found.items():
                self._subscribed.setdefault(tranche, DeliveredPartition(tranche, place))
        return {tranche: BatchPosition(place).encode() for tranche, place in found.items()}

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Commit, by tranche, all batches up to a position. Batches that the hub refuses are sent again to others.

        Raises:
            PenstockError: the batches may or may not be committed: try again later.
        """
        with self._commits:
            streams: dict[str, list[Sent]] = {}
            with self._changed:
                for tranche, position in positions.items():
                    if (found := self._subscribed.get(tranche)) is not None:
                        for batch in found.pass_batches(BatchPosition.decode(str(position)).number):
                            streams.setdefault(batch.stream_id, []).append(batch)
                self._changed.notify_all()
            for stream_id, batches in streams.items():
                self._commit(stream_id, batches)
            if self._is_closed and not self._list_uncommitted():
                self._end()

    def park_after_attempts(self) -> int | None:
        """Return the number of failed attempts after which the subscription parks a key; None: not set."""
        found = self._client.subscription(self._find_id()).show()
        policy = read_unprocessable_policy({"annotations": dict(found.annotations)})
        return None if policy is None else policy.send_count

    def park(self, parked: Sequence[Parked]) -> None:
        """Park the keys of failed events at the hub, and pause reading until `resume`.

        This ends the stream; the next begins at the committed positions. Handled events are not handled again.

        Raises:
            PenstockError: the keys may or may not be parked: try again later.
        """
        with self._changed:
            deliveries, self._deliveries = self._deliveries, None
            self._is_paused = True
        if deliveries is not None:
            deliveries.stop()
        with self._changed:
            failed = [each for each in parked if each.attempts]  # Others only wait, and are sent again.
            found = [self._subscribed[each.tranche].make_poison_offset(each.index, each.attempts) for each in failed]
        stream_id = self._stream.stream_id
        if stream_id is not None:
            _, transport = self._client.parts()
            poisoned = [each for each in found if each is not None][:PARKED_MAX]
            with suppress(StreamNotFound):  # Then events are sent again, to any processor.
                transport.carry_out(self._stream.protocol.release(stream_id, failed=(), parked=poisoned))
        with self._changed:
            for each in parked:
                self._subscribed[each.tranche].give_up(each.stream, each.index)
            for partition in self._subscribed.values():
                partition.forget_all()
            if not self._is_closed:
                self._stream = self._open()

    def resume(self) -> None:
        """Continue reading after `park`."""
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    def close(self) -> None:
        """End, and wake the reading thread. Handled events can still be committed, until a second call.

        The second call releases all partitions: others receive uncommitted events at once, which count as failed.
        """
        with self._changed:
            was_closed, self._is_closed = self._is_closed, True
            deliveries, self._deliveries = self._deliveries, None
            self._changed.notify_all()
        if deliveries is not None:
            deliveries.stop()
        names = self._list_uncommitted()
        if was_closed:
            self.release(failed=names)
            return
        if deliveries is not None:
            self._give_back(keep=_to_places(names), failed=())
        if not names:
            self._end()

    def release(self, failed: Collection[str]) -> None:
        """Release all partitions after `close`: others receive uncommitted events at once.

        Only those of *failed* tranches count as failed. A `LocalProcessor` calls it at its end.
        """
        self._give_back(keep=(), failed=_to_places(failed))
        self._end()

    # Called by the threads of the `DeliveryReader`.

    def _begin_stream(self) -> None:
        """Drop waiting batches: another stream has begun, which sends all uncommitted events."""
        with self._commits:  # A concurrent commit would look like a reset.
            found = self._list_cursors()
            with self._changed:
                for tranche, place in found.items():
                    self._subscribed.setdefault(tranche, DeliveredPartition(tranche, place)).restart(place)
                for tranche, each in self._subscribed.items():
                    if tranche.endswith(PARKED):
                        each.restart(_NOWHERE)

    def _receive(self, batch: UncommittedBatch[Any]) -> None:
        """Queue a batch for the engine."""
        self._events.learn(batch.event_type)
        tranche = encode_tranche(*batch.place)
        name = f"{tranche}{PARKED}" if batch.is_parked else tranche
        with self._changed:
            if name not in self._subscribed:
                self._subscribed[name] = DeliveredPartition(name, _find_start(batch), is_parked=batch.is_parked)
            self._subscribed[name].add(batch)
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Record that reading has failed; the next `read` starts another."""
        following: SubscriptionStream[Any] = self._open()
        with self._changed:
            self._deliveries, self._error, self._stream = None, error, following
            self._changed.notify_all()

    def _raise_failure(self) -> None:
        """Raise the error of failed reading once; reading restarts then."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _begin(self) -> None:
        if self._deliveries is not None or self._is_closed or self._is_paused or self._error is not None:
            return
        self._deliveries = DeliveryReader(
            self._stream,
            begin=self._begin_stream,
            receive=self._receive,
            fail=self._fail,
            is_outstanding=lambda: bool(self._list_uncommitted()),
        )
        self._deliveries.start()

    def _list_ready(self, wants: Mapping[str, ReadRequest]) -> list[DeliveredPartition]:
        return [found for name in wants if (found := self._subscribed.get(name)) is not None and found.is_ready]

    def _commit(self, stream_id: str, batches: list[Sent]) -> None:
        """Commit the batches of one stream; omit those that the hub refuses."""
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
            with suppress(PenstockError):  # Without it, the hub's timeout ends the stream.
                transport.carry_out(self._stream.protocol.release(stream_id, keep, failed))

    def _end(self) -> None:
        """Close the connections: no commit is left."""
        self._has_ended = True
        self._client.close()
        self._impatient.close()

    def _list_uncommitted(self) -> list[str]:
        with self._changed:
            return [name for name, each in self._subscribed.items() if each.uncommitted]

    def _list_cursors(self) -> dict[str, FeedPosition]:
        return {
            encode_tranche(each.event_type, each.partition): FeedPosition(each.epoch, each.offset)
            for each in self._client.subscription(self._find_id()).cursors()
        }

    def _find_id(self) -> str:
        """Return the subscription's id; create the subscription if it is missing.

        Raises:
            Unavailable: the source is closed.
        """
        if self._has_ended:
            raise Unavailable(reason="the source is closed")
        _, transport = self._client.parts()
        return self._stream.id or transport.carry_out(self._stream.protocol.find_subscription())


def _to_places(tranches: Iterable[str]) -> list[FeedPartition]:
    found = {tranche.removesuffix(PARKED).rpartition("/") for tranche in tranches}
    return [(event_type, int(partition)) for event_type, _, partition in found]


def _find_start(batch: Sent) -> FeedPosition:
    """Return the position at which a batch begins."""
    if batch.is_parked:
        return _NOWHERE
    epoch, _ = parse_offset(batch.offset)
    return FeedPosition(epoch, batch.offsets[0])


def find_subscription(source: object) -> SubscriptionSource | None:
    """Return the subscription source that *source* is or wraps; None: there is none."""
    while source is not None and not isinstance(source, SubscriptionSource):
        source = getattr(source, "inner", None)
    return source
