"""Publish a series of events exactly once that can be read again from its beginning, such as a file.

The sequence number of an event is its position among the series' events for its partition. So a program that reads the
series again knows which events the hub has stored, whatever happened before.

Invariants:
    Nothing is sent before the last stored event of every partition is compared with the series' event of that number.
    Only this module assigns numbers: in another epoch than the first they would not be positions.
    The hub keeps the producer group until it is deleted on request.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Self, TypeAlias

import msgspec

from penstock.client.client import Client
from penstock.client.log.publishing import BATCH_BYTES, BATCH_EVENTS, Event
from penstock.client.producers.options import PartitionPublishingOptions, PublishResult
from penstock.client.producers.producer import IdempotentProducer
from penstock.client.registry import PartitionChoice, PublishingProperties
from penstock.core.events.event import NewEvent
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.errors import (
    AccessDenied,
    ClaimRefused,
    Conflict,
    EventTooLarge,
    InvalidEvent,
    OutOfSequence,
    ProducerFenced,
    ProducerStateExpired,
    ReplayDiffers,
)
from penstock.schema.traversal import is_equal

HELD_MAX: Final = 1_000_000
"""Maximum number of events held until the stored events are known to be the beginning of the series."""
SENT_TOGETHER: Final = 4
"""Maximum number of batches under way, of different partitions."""
PROGRESS_EVENTS: Final = 1_000
"""Progress is reported after this number of skipped events."""
_EPOCH: Final = 0
"""The epoch of a series: a single one, so that sequence numbers are positions."""
_DERIVED: Final = "ce_"
_KEY: Final = "ce_partitionkey"
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Replayed:
    """The totals of a series."""

    count: int = 0
    """Number of stored events."""
    skipped: int = 0
    """Number of these that were stored before."""
    byte_count: int = 0
    """Size of the sent events in bytes."""


_NumberedEvent: TypeAlias = tuple[int, NewEvent]
"""An event with its position in the series, from 1."""


class _PartitionProgress:
    """The progress of the series in one partition."""

    def __init__(self, partition: int, properties: PublishingProperties | None) -> None:
        self.partition = partition
        self.stored = properties.next_sequence if properties else 0
        self.last_offset = properties.last_offset if properties else None
        self.seen = 0
        self.waiting: list[_NumberedEvent] = []
        """Events to send."""
        self.waiting_bytes = 0

    def wait(self, ordinal: int, event: NewEvent) -> None:
        """Queue an event."""
        self.waiting.append((ordinal, event))
        self.waiting_bytes += len(event.data)

    def take(self, count: int) -> list[_NumberedEvent]:
        """Remove and return the first *count* queued events."""
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        self.waiting_bytes -= sum(len(event.data) for _, event in taken)
        return taken


class _BatchSender:
    """Sends batches while the next ones are made: one of each partition at a time, and up to `SENT_TOGETHER` in all."""

    def __init__(self, producer: IdempotentProducer, note: Callable[[Sequence[_NumberedEvent]], object]) -> None:
        """Send with *producer*. The sending thread calls *note* with the events of each stored batch."""
        self._producer = producer
        self._note = note
        self._workers = ThreadPoolExecutor(SENT_TOGETHER, "penstock-replay")
        self._cancel = threading.Event()
        self._under_way: dict[int, tuple[Future[PublishResult], Sequence[_NumberedEvent]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._cancel.set()
        self._workers.shutdown()

    def send(self, partition: int, events: Sequence[_NumberedEvent]) -> None:
        """Send a batch, once the one before of its partition is stored; raise what is known by then to have failed."""
        if partition in self._under_way:
            self._finish(partition)
        elif len(self._under_way) == SENT_TOGETHER:
            self._finish(next(iter(self._under_way)))
        batch = [Event.of(event) for _, event in events]
        sent = self._workers.submit(self._producer.send, batch, partition=partition, cancel=self._cancel)
        self._under_way[partition] = sent, events

    def finish(self) -> None:
        """Wait until all batches are stored."""
        for partition in list(self._under_way):
            self._finish(partition)

    def _finish(self, partition: int) -> None:
        sent, events = self._under_way.pop(partition)
        try:
            sent.result()
        except (InvalidEvent, EventTooLarge) as error:
            error.line = events[(error.line or 1) - 1][0]
            raise
        self._note(events)


class Replay:
    """Publishes one series to one event type, under its own producer group.

    Args:
        client: The hub's client.
        event_type: The event type.
        producer_group: The name of the series. Each series needs its own.
        batch_events: Maximum number of events in one batch.
        batch_bytes: Maximum size of one batch, in bytes.
        progress: Called with the totals after each batch.
    """

    def __init__(
        self,
        client: Client,
        event_type: str,
        producer_group: str,
        *,
        batch_events: int = BATCH_EVENTS,
        batch_bytes: int = BATCH_BYTES,
        progress: Callable[[Replayed], object] = lambda _: None,
    ) -> None:
        self._client = client
        self._event_type = event_type
        self._group = producer_group
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._progress = progress
        self.done = Replayed()
        """The totals so far."""

    def publish(self, events: Iterable[NewEvent]) -> Replayed:
        """Publish the events that are not stored yet; return once the whole series is durably stored.

        Raises:
            ReplayDiffers: The stored events differ from the series or are more, the group was deleted or has expired,
                or another producer has claimed it.
            Conflict: Another process publishes the same series.
            InvalidEvent, EventTooLarge: An event was refused. Field `line` has its position in the
                series, from 1.
            RetriesExhausted, ProducerUnsafe, Unavailable: The series could not be completed. Publishing it again
                continues.
        """
        choice = self._choice()
        tracks = [self._track(partition) for partition in range(choice.partition_count)]
        options = {
            each.partition: PartitionPublishingOptions(epoch=_EPOCH, starting_sequence=each.stored) for each in tracks
        }
        unseen, held = sum(each.stored > 0 for each in tracks), 0
        with (
            self._report_rivals(),
            self._producer(options) as producer,
            _BatchSender(producer, self._count_sent) as sender,
        ):
            for ordinal, event in enumerate(events, 1):
                track = tracks[_partition(choice, event, ordinal)]
                track.seen += 1
                if track.seen <= track.stored:
                    unseen -= self._skip(track, ordinal, event)
                    continue
                track.wait(ordinal, event)
                held += 1
                if unseen and held > HELD_MAX:
                    break
                if not unseen and self._is_full(track):
                    self._flush(sender, track)
            self._check_whole(tracks)
            for track in tracks:
                self._flush(sender, track)
            sender.finish()
        return self.done

    def _choice(self) -> PartitionChoice:
        return PartitionChoice(self._client.event_type(self._event_type))

    def _producer(self, options: Mapping[int, PartitionPublishingOptions]) -> IdempotentProducer:
        given = self._client, self._event_type
        return IdempotentProducer(*given, producer_group=self._group, partition_options=options, pinned=True)

    def _track(self, partition: int) -> _PartitionProgress:
        try:
            properties = self._client.publishing_properties(self._event_type, partition, self._group)
        except ProducerStateExpired as error:
            reason = "the producer group was deleted on request, or has expired after its idle time"
            raise self._make_difference(partition, reason) from error
        if properties is not None and properties.epoch != _EPOCH:
            reason = (
                f"another producer has claimed epoch {properties.epoch}, whose numbers are not positions of the series"
            )
            raise self._make_difference(partition, reason)
        return _PartitionProgress(partition, properties)

    @contextmanager
    def _report_rivals(self) -> Iterator[None]:
        """Raise an error that says so if another process publishes under the same group."""
        try:
            yield
        except ProducerFenced as error:
            raise self._make_difference(error.partition, "another producer has claimed the group meanwhile") from error
        except (ClaimRefused, OutOfSequence) as error:
            if error.code == "sequence-too-old":
                raise
            detail = f"another process publishes to {self._event_type!r} as {self._group!r}; wait until it ends"
            raise Conflict(detail) from error

    def _is_full(self, track: _PartitionProgress) -> bool:
        return len(track.waiting) >= self._batch_events or track.waiting_bytes >= self._batch_bytes

    def _skip(self, track: _PartitionProgress, ordinal: int, event: NewEvent) -> bool:
        """Count a stored event; return whether it was the last stored one, which is compared."""
        self._add(stored=1, skipped=1)
        if track.seen < track.stored:
            return False
        if track.last_offset is not None and self._is_another(track.partition, track.last_offset, event):
            reason = f"the one that the hub has under number {track.stored - 1} is another"
            raise self._make_difference(track.partition, reason, event=ordinal)
        return True

    def _is_another(self, partition: int, offset: int, event: NewEvent) -> bool:
        """Return whether the event stored at *offset* differs from *event*; False if it cannot be read.

        It cannot be read once it was removed, or by a caller that may only write.
        """
        ends = self._client.partitions(self._event_type)
        if not ends[partition].oldest <= offset <= ends[partition].newest:
            return False
        view = FeedView(len(ends), partition, len(ends))
        cursor = FeedCursor(feed_mark(self._event_type), ends[partition].epoch, view, (offset,)).encode()
        feed = self._client.feed(self._event_type, partition_count=len(ends))
        try:
            page = feed.read({partition: cursor}, page_size_hint=1, headers=["_all"])
        except AccessDenied:
            return False
        if not page.events or not _is_like(_decode(page.events[0].raw), _decode(event.data)):
            return True
        return not _is_beside(page.events[0].headers, event)

    def _flush(self, sender: "_BatchSender", track: _PartitionProgress) -> None:
        while track.waiting:
            sender.send(track.partition, track.take(self._fitting(track)))

    def _count_sent(self, events: "Sequence[_NumberedEvent]") -> None:
        self._add(stored=len(events), sent=sum(len(event.data) for _, event in events))

    def _fitting(self, track: _PartitionProgress) -> int:
        """Return the number of queued events that fit into one batch."""
        if track.waiting_bytes <= self._batch_bytes:
            return self._batch_events
        sizes = accumulate(len(event.data) for _, event in track.waiting[: self._batch_events])
        return max(1, sum(size <= self._batch_bytes for size in sizes))

    def _check_whole(self, tracks: Iterable[_PartitionProgress]) -> None:
        for track in tracks:
            if track.seen < track.stored:
                reason = f"the hub has {track.stored} of that group there, and these are {track.seen}"
                raise self._make_difference(track.partition, reason)

    def _make_difference(self, partition: int, reason: str, **place: int) -> ReplayDiffers:
        fields = {"event_type": self._event_type, "partition": partition, "producer_group": self._group}
        return ReplayDiffers(**fields, **place, reason=reason)

    def _add(self, *, stored: int, skipped: int = 0, sent: int = 0) -> None:
        done = self.done
        self.done = Replayed(done.count + stored, done.skipped + skipped, done.byte_count + sent)
        if not skipped or self.done.skipped % PROGRESS_EVENTS == 0:
            self._progress(self.done)


def _partition(choice: PartitionChoice, event: NewEvent, ordinal: int) -> int:
    """Return the partition of an event; events for any partition are distributed in turn."""
    try:
        chosen = choice.of(event)
    except InvalidEvent as error:
        error.line = ordinal
        raise
    return (ordinal - 1) % choice.partition_count if chosen is None else chosen


def _is_like(stored: dict[str, Any], given: dict[str, Any]) -> bool:
    """Return whether a stored event can be the *given* one, whose metadata the hub has completed."""
    stored_metadata, metadata = stored.pop("metadata", None), given.pop("metadata", None)
    eids = [each.get("eid") if isinstance(each, dict) else None for each in (stored_metadata, metadata)]
    return is_equal(stored, given) and eids[1] in (None, eids[0])


def _is_beside(stored: Mapping[str, str], given: NewEvent) -> bool:
    """Return whether a stored event has the key and headers of the *given* one; the hub may have added others."""
    own = dict(given.headers or {}) | ({} if given.key is None else {_KEY: given.key})
    return own.items() <= stored.items() and all(name in own for name in stored if not name.startswith(_DERIVED))
