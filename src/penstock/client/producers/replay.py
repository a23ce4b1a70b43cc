"""Publishes a series of events that can be gone through again from its beginning, such as a file: each of them once.

The place of an event in the series gives it its number: its partition is found from what it holds, and its number there
is how many came before it. So whoever goes through the series again knows which of it the hub has, whatever happened.

Invariants:
    Nothing is sent before it is seen, in every partition, that the last event the hub has is the one of that number.
    Nobody else gives numbers: in another epoch than the first, they would not be places in the series.
    The hub remembers the group until it is told to forget it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import msgspec

from penstock.client.client import Client
from penstock.client.log.publishing import BATCH_BYTES, BATCH_EVENTS
from penstock.client.producers.options import PartitionPublishingOptions
from penstock.client.producers.producer import IdempotentProducer
from penstock.client.registry import PartitionChoice, PublishingProperties
from penstock.core.events.event import NewEvent
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.errors import (
    ClaimRefused,
    Conflict,
    EventTooLarge,
    InvalidEvent,
    PartitionRefused,
    ProducerFenced,
    ProducerStateExpired,
    ReplayDiffers,
    SequenceGap,
    SequenceOverlap,
)
from penstock.schema.traversal import is_equal

HELD_MAX: Final = 1_000_000
"""So many events are held at most until it is seen that the series is the one that the hub has the beginning of."""
PROGRESS_EVENTS: Final = 1_000
"""After so many events that are passed over, progress is told."""
_EPOCH: Final = 0
"""A series is published in one epoch, so that its numbers are its places."""
_DERIVED: Final = "ce_"
_KEY: Final = "ce_partitionkey"
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a series has been published."""

    count: int = 0
    """Events that are stored."""
    skipped: int = 0
    """How many of them were, before."""
    byte_count: int = 0
    """Bytes of the events that were sent."""


class _Track:
    """A partition: how much of the series it has, and what is to come."""

    def __init__(self, partition: int, properties: PublishingProperties | None) -> None:
        self.partition = partition
        self.stored = properties.next_sequence if properties else 0
        self.last_offset = properties.last_offset if properties else None
        self.seen = 0
        self.waiting: list[tuple[int, NewEvent]] = []
        """What is not stored yet, each with its place in the series."""
        self.waiting_bytes = 0

    def wait(self, ordinal: int, event: NewEvent) -> None:
        """Let an event wait for its turn."""
        self.waiting.append((ordinal, event))
        self.waiting_bytes += len(event.data)

    def take(self, count: int) -> list[tuple[int, NewEvent]]:
        """Return the first *count* that wait."""
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        self.waiting_bytes -= sum(len(event.data) for _, event in taken)
        return taken


class Replay:
    """Publishes one series to one event type, under a producer group of its own.

    Args:
        client: The hub's client.
        event_type: Where to.
        producer_group: The name of the series: another one needs another.
        batch_events: Events to send at one time.
        batch_bytes: Bytes to send at one time.
        progress: Called as it goes, with what is stored by then.
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
        """What is stored by now."""

    def publish(self, events: Iterable[NewEvent]) -> Replayed:
        """Publish what of the series the hub has not; return when all of it is durably stored, each event once.

        Raises:
            ReplayDiffers: the hub has stored something else under that group, or more, or has been told to forget it;
                or somebody else has claimed it.
            Conflict: somebody else publishes the same series just now.
            InvalidEvent, EventTooLarge, PartitionRefused: an event was refused. Its field `line` counts from 1 over the
                series.
            RetriesExhausted, ProducerUnsafe, Unavailable: it did not go on; to publish the series again goes on.
        """
        choice = self._choice()
        tracks = [self._track(partition) for partition in range(choice.partition_count)]
        options = {
            each.partition: PartitionPublishingOptions(epoch=_EPOCH, starting_sequence=each.stored) for each in tracks
        }
        unseen, held = sum(each.stored > 0 for each in tracks), 0
        with self._alone(), self._producer(options) as to:
            for ordinal, event in enumerate(events, 1):
                track = tracks[_partition(choice, event, ordinal)]
                track.seen += 1
                if track.seen <= track.stored:
                    unseen -= self._passed_over(track, ordinal, event)
                    continue
                track.wait(ordinal, event)
                held += 1
                if unseen and held > HELD_MAX:
                    break
                if not unseen and self._is_full(track):
                    self._flush(to, track)
            self._check_whole(tracks)
            for track in tracks:
                self._flush(to, track)
        return self.done

    def _choice(self) -> PartitionChoice:
        return PartitionChoice(self._client.event_type(self._event_type))

    def _producer(self, options: Mapping[int, PartitionPublishingOptions]) -> IdempotentProducer:
        given = self._client, self._event_type
        return IdempotentProducer(*given, producer_group=self._group, partition_options=options, pinned=True)

    def _track(self, partition: int) -> _Track:
        try:
            properties = self._client.publishing_properties(self._event_type, partition, self._group)
        except ProducerStateExpired as error:
            reason = "the hub has been told to forget how far it had come, or the time for which it remembers is over"
            raise self._differs(partition, reason) from error
        if properties is not None and properties.epoch != _EPOCH:
            reason = f"somebody else has claimed epoch {properties.epoch} of it, so its numbers are no places here"
            raise self._differs(partition, reason)
        return _Track(partition, properties)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Say so where somebody else publishes under that group meanwhile."""
        try:
            yield
        except ProducerFenced as error:
            raise self._differs(error.partition, "somebody else has claimed it meanwhile") from error
        except (ClaimRefused, SequenceGap, SequenceOverlap) as error:
            told = f"somebody else publishes to {self._event_type!r} as {self._group!r} just now; wait for that to end"
            raise Conflict(told) from error

    def _is_full(self, track: _Track) -> bool:
        return len(track.waiting) >= self._batch_events or track.waiting_bytes >= self._batch_bytes

    def _passed_over(self, track: _Track, ordinal: int, event: NewEvent) -> bool:
        """Take note of an event that is stored; tell whether it is the last one, which is looked at."""
        self._note(stored=1, skipped=1)
        if track.seen < track.stored:
            return False
        if track.last_offset is not None and self._is_another(track.partition, track.last_offset, event):
            reason = f"the one that the hub has under number {track.stored - 1} is another"
            raise self._differs(track.partition, reason, event=ordinal)
        return True

    def _is_another(self, partition: int, offset: int, event: NewEvent) -> bool:
        """Tell whether the hub has another event at an offset, as far as it still has it."""
        ends = self._client.partitions(self._event_type)
        if not ends[partition].oldest <= offset <= ends[partition].newest:
            return False
        view = FeedView(len(ends), partition, len(ends))
        cursor = FeedCursor(feed_mark(self._event_type), ends[partition].epoch, view, (offset,)).encode()
        feed = self._client.feed(self._event_type, partition_count=len(ends))
        page = feed.read({partition: cursor}, page_size_hint=1, headers=["_all"])
        if not page.events or not _is_like(_decode(page.events[0].raw), _decode(event.data)):
            return True
        return not _is_beside(page.events[0].headers, event)

    def _flush(self, to: IdempotentProducer, track: _Track) -> None:
        while track.waiting:
            taken = track.take(self._fitting(track))
            try:
                to.send([event for _, event in taken], partition=track.partition)
            except (InvalidEvent, EventTooLarge, PartitionRefused) as error:
                error.line = taken[(error.line or 1) - 1][0]
                raise
            self._note(stored=len(taken), sent=sum(len(event.data) for _, event in taken))

    def _fitting(self, track: _Track) -> int:
        """Return how many of those that wait go into one batch."""
        if track.waiting_bytes <= self._batch_bytes:
            return self._batch_events
        sizes = accumulate(len(event.data) for _, event in track.waiting[: self._batch_events])
        return max(1, sum(size <= self._batch_bytes for size in sizes))

    def _check_whole(self, tracks: Iterable[_Track]) -> None:
        for track in tracks:
            if track.seen < track.stored:
                reason = f"the hub has {track.stored} of that group there, and these are {track.seen}"
                raise self._differs(track.partition, reason)

    def _differs(self, partition: int, reason: str, **place: int) -> ReplayDiffers:
        told = {"event_type": self._event_type, "partition": partition, "producer_group": self._group}
        return ReplayDiffers(**told, **place, reason=reason)

    def _note(self, *, stored: int, skipped: int = 0, sent: int = 0) -> None:
        done = self.done
        self.done = Replayed(done.count + stored, done.skipped + skipped, done.byte_count + sent)
        if not skipped or self.done.skipped % PROGRESS_EVENTS == 0:
            self._progress(self.done)


def _partition(choice: PartitionChoice, event: NewEvent, ordinal: int) -> int:
    """Return where an event goes: where any place will do, one place after the other has its turn."""
    try:
        chosen = choice.of(event)
    except PartitionRefused as error:
        error.line = ordinal
        raise
    return (ordinal - 1) % choice.partition_count if chosen is None else chosen


def _is_like(stored: dict[str, Any], given: dict[str, Any]) -> bool:
    """Tell whether a stored event can be a given one, to whose metadata things have been added on the way."""
    stored_metadata, metadata = stored.pop("metadata", None), given.pop("metadata", None)
    eids = [each.get("eid") if isinstance(each, dict) else None for each in (stored_metadata, metadata)]
    return is_equal(stored, given) and eids[1] in (None, eids[0])


def _is_beside(stored: Mapping[str, str], given: NewEvent) -> bool:
    """Tell whether a stored event has the key and the headers that a given one has; the hub may have given it more."""
    own = dict(given.headers or {}) | ({} if given.key is None else {_KEY: given.key})
    return own.items() <= stored.items() and all(name in own for name in stored if not name.startswith(_DERIVED))
