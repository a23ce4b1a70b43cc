"""Streams copied to an event type of another hub."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final
from zlib import crc32

import msgspec

from penstock.client.client import Client
from penstock.client.log.publishing import Event
from penstock.client.producers.producer import IdempotentProducer
from penstock.core.events.event import NewEvent
from penstock.core.log.cursor import FIRST, parse_cursor
from penstock.errors import BadCursor, CursorExpired, Invalid, PenstockError, ProducerFenced, ProducerUnsafe, TooLarge
from penstock.processing.batcher import KeyedBatcher
from penstock.processing.parameters import check_kind, check_name
from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.target import (
    NAMES,
    Attained,
    Duplicate,
    Lineage,
    Partial,
    PrefixMissing,
    Written,
    lineage_of,
    make_origin,
    parse_origin,
    remove_origin,
)

EVENTS_MAX: Final = 1_000
BYTES_MAX: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event to publish, and the index of its cause or original."""

    index: int
    event: Event
    size: int
    """Its size in bytes."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The events to publish for a span of a stream."""

    lineage: Lineage
    expected: int | None
    """The index from which the target has to continue; None: unknown."""
    entries: Sequence[OutgoingEvent]
    """By index."""


def is_portion(entries: Sequence[OutgoingEvent]) -> bool:
    """Return whether *entries* fit into one request."""
    return len(entries) <= EVENTS_MAX and sum(entry.size for entry in entries) <= BYTES_MAX


def split_into_portions(entries: Iterable[OutgoingEvent]) -> Iterator[list[OutgoingEvent]]:
    """Split *entries* of a stream into requests; those with the same index stay together."""
    taken: list[OutgoingEvent] = []
    for _, same in groupby(entries, key=attrgetter("index")):
        more = [*same]
        if taken and not is_portion([*taken, *more]):
            yield taken
            taken = []
        taken += more
    if taken:
        yield taken


def split_into_requests(deliveries: Iterable[Delivery]) -> Iterator[list[Delivery]]:
    """Split *deliveries* into requests, none with a lineage twice; a single delivery may be too large."""
    taken: dict[Lineage, Delivery] = {}
    events = size = 0
    for delivery in deliveries:
        more, bytes_more = len(delivery.entries), sum(entry.size for entry in delivery.entries)
        is_full = events + more > EVENTS_MAX or size + bytes_more > BYTES_MAX
        if taken and (is_full or delivery.lineage in taken):
            yield [*taken.values()]
            taken, events, size = {}, 0, 0
        taken[delivery.lineage] = delivery
        events, size = events + more, size + bytes_more
    if taken:
        yield [*taken.values()]


PAGE_EVENTS: Final = 10_000
DELIVERIES_MAX: Final = 256
DELIVERY_TIMEOUT: Final = 30.0
"""The retry timeout of one publish, in seconds: a failing handler is called again."""


class Origins:
    """The progress of streams in one event type, from the events of one producer group there.

    Several threads may call it: their events for one partition are published together.

    Args:
        client: The hub's client, which stays open.
        event_type: The event type to publish to.
        group: The producer group. One process at a time owns it: another that starts fences this one.
    """

    def __init__(self, client: Client, event_type: str, group: str) -> None:
        self.group = group
        self._client = client
        self._event_type = event_type
        self._partitions: dict[int, _Partition] = {}
        self._gates = KeyedBatcher(self._publish, each=True, most=DELIVERIES_MAX)

    def choose_partition(self, event: NewEvent, stream: str) -> int:
        """Return the partition for *event*; if any is possible, the same one for all events of a stream.

        Raises:
            EventTypeNotFound: there is no such event type.
            InvalidEvent: the event lacks the members that choose the partition.
        """
        protocol, transport = self._client.parts()
        choice = transport.carry_out(protocol.event_types.partition_choice(self._event_type))
        chosen = choice.of(event)
        return crc32(stream.encode()) % choice.partition_count if chosen is None else chosen

    def append(self, partition: int, delivery: Delivery) -> Attained:
        """Publish the missing events of *delivery*, and return its stream's progress in the partition.

        Raises:
            ProducerFenced: another instance has taken over.
            PenstockError: the events are not published, or the result is unknown: the next call finds out.
        """
        return self.append_all(partition, [delivery])[0]

    def append_all(self, partition: int, deliveries: Sequence[Delivery]) -> list[Attained]:
        """Publish the missing events of *deliveries*, and return the progress of each stream; see `append`."""
        outcomes: list[Attained | PenstockError] = self._gates.submit(partition, deliveries)
        for outcome in outcomes:
            if isinstance(outcome, PenstockError):
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, PenstockError)]

    def _publish(self, partition: int, submitted: list[Sequence[Delivery]]) -> list[list[Attained | PenstockError]]:
        place = self._partitions.get(partition)
        if place is None:
            place = self._partitions[partition] = _Partition(self._client, self._event_type, self.group, partition)
        outcomes: list[Attained | PenstockError] = []
        failure: PenstockError | None = None
        for load in split_into_requests(delivery for each in submitted for delivery in each):
            found: Sequence[Attained | PenstockError]
            try:
                if failure is not None:
                    raise failure
                place.learn_progress()
                found = place.publish(load)
            except PenstockError as error:
                found = [error] * len(load)
            outcomes += found
            failure = next(filter(None, map(_find_lasting, found)), failure)
        rest = iter(outcomes)
        return [[next(rest) for _ in each] for each in submitted]


def _find_lasting(outcome: Attained | PenstockError) -> PenstockError | None:
    """Return an error that single events have not caused: it ends all deliveries, which are not retried one by one."""
    if not isinstance(outcome, PenstockError) or isinstance(outcome, Invalid | TooLarge):
        return None
    return outcome


class _Partition:
    """One partition; one thread at a time uses it."""

    def __init__(self, client: Client, event_type: str, group: str, number: int) -> None:
        self._client = client
        self._event_type = event_type
        self._group = group
        self._number = number
        self._producer: IdempotentProducer | None = None
        self._cursor = FIRST
        """The cursor up to which it was read back."""
        self._positions: dict[Lineage, int] = {}
        self._is_known = False

    def learn_progress(self) -> None:
        """Read back the progress of streams, unless it is known."""
        if self._is_known:
            return
        try:
            if self._producer is None:
                self._producer = IdempotentProducer(
                    self._client, self._event_type, producer_group=self._group, delivery_timeout=DELIVERY_TIMEOUT
                )
            self._producer.get_publishing_properties(self._number)  # Claims the next epoch, the first time.
            self._producer.resolve(self._number)
        except ProducerFenced:
            raise
        except ProducerUnsafe:
            self._producer = None  # The next producer, in a new epoch, starts from the partition's events.
            raise
        self._read_back()
        self._is_known = True

    def publish(self, deliveries: Sequence[Delivery]) -> list[Attained | PenstockError]:
        """Publish the missing events; refused events of one stream do not block others."""
        outcomes: list[Attained | PenstockError] = [*map(self._predict_outcome, deliveries)]
        fresh = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Written | Partial)]
        try:
            if self._send_together([deliveries[at] for at in fresh]):
                return outcomes
        except PenstockError as error:
            return [error if at in fresh else outcome for at, outcome in enumerate(outcomes)]
        failure: PenstockError | None = None
        for at in fresh:
            try:
                if failure is not None:
                    raise failure
                self._send_alone(deliveries[at])
            except PenstockError as error:
                outcomes[at] = error
                failure = failure or _find_lasting(error)
        return outcomes

    def _predict_outcome(self, delivery: Delivery) -> Attained:
        """Return the result of *delivery* after its missing events are published."""
        attained = self._positions.get(delivery.lineage, 0)
        if delivery.expected is not None and attained < delivery.expected:
            return PrefixMissing(attained)
        count = sum(entry.index >= attained for entry in delivery.entries)
        if not count:
            return Duplicate(attained)
        position = delivery.entries[-1].index + 1
        return Written(position) if count == len(delivery.entries) else Partial(position, count)

    def _send_together(self, deliveries: Sequence[Delivery]) -> bool:
        """Publish all in one request; return False if they have to be published one by one.

        Raises:
            PenstockError: they cannot be published now, not even one by one.
        """
        found = {delivery.lineage: self._list_missing(delivery) for delivery in deliveries}
        entries = [entry for each in found.values() for entry in each]
        if len(found) < len(deliveries) or not is_portion(entries):
            return False
        try:
            self._send(entries)
        except (Invalid, TooLarge):
            if len(deliveries) == 1:
                raise
            return False
        self._positions |= {lineage: each[-1].index + 1 for lineage, each in found.items()}
        return True

    def _send_alone(self, delivery: Delivery) -> None:
        self.learn_progress()
        for portion in split_into_portions(self._list_missing(delivery)):
            self._send(portion)
            self._positions[delivery.lineage] = portion[-1].index + 1

    def _list_missing(self, delivery: Delivery) -> list[OutgoingEvent]:
        """Return the missing events of *delivery*."""
        attained = self._positions.get(delivery.lineage, 0)
        return [entry for entry in delivery.entries if entry.index >= attained]

    def _send(self, entries: Sequence[OutgoingEvent]) -> None:
        if not entries:
            return
        assert self._producer is not None
        try:
            result = self._producer.send([entry.event for entry in entries], partition=self._number)
        except PenstockError as error:
            is_refused = isinstance(error, Invalid | TooLarge)
            self._is_known = is_refused and error.outcome != "unknown"
            if isinstance(error, ProducerUnsafe) and not isinstance(error, ProducerFenced):
                self._producer = None
            raise
        if self._cursor != FIRST:  # Sent events need not be read back.
            cursor = parse_cursor(self._cursor, "cursor", self._event_type)
            end = max(place.last for place in result.offsets) + 1
            self._cursor = msgspec.structs.replace(cursor, offsets=(end,)).encode()

    def _read_back(self) -> None:
        with self._client.feed(self._event_type) as feed:
            while True:
                try:
                    page = feed.read({self._number: self._cursor}, page_size_hint=PAGE_EVENTS, headers=NAMES)
                except (CursorExpired, BadCursor):
                    if self._cursor == FIRST:
                        raise
                    self._cursor = FIRST  # Retention has overtaken it, or the feed was created again.
                    continue
                before, self._cursor = self._cursor, page.cursors[self._number]
                self._note(event.headers for event in page.events)
                if self._cursor == before:
                    return

    def _note(self, headers: Iterable[Mapping[str, str]]) -> None:
        for each in headers:
            place = parse_origin(each, self._group)
            if place is not None:
                lineage, index = place
                self._positions[lineage] = max(self._positions.get(lineage, 0), index + 1)


class HubTarget:
    """Copies events unchanged to an event type of a hub, each once.

    Each has its origin in headers: `penstock-stream`, `penstock-index` and, as `penstock-group`, the producer group. At
    its start, the whole target is read back by these headers, and a part after a failure; memory holds a number for
    each stream. Events have the stream's key, or its name if it has none, so they stay in one partition.

    Events may be repeated if the target's retention removes the last event of a stream that is copied again from before
    it, if partitions are added to the event type, and with a producer group of another name.

    Args:
        client: The other hub's client, which stays open.
        event_type: The event type to copy to.
        group: The producer group. One process at a time owns it: another that starts fences this one.

    Raises:
        BadParameter: an argument is invalid.
    """

    def __init__(self, client: Client, event_type: str, group: str) -> None:
        check_kind("client", client, Client, "Client(url)")
        check_name("event_type", event_type)
        check_name("group", group)
        self._origins = Origins(client, event_type, group)

    def append(self, stream: str, expected: int | None, events: Sequence[StreamEvent]) -> Attained:
        """Append the missing ones of *events*; see `SyncTarget`.

        Raises:
            ProducerFenced: another instance has taken over.
            PenstockError: the events are not appended, or the result is unknown: the next append finds out.
        """
        run = events if expected is None else take_contiguous(events)
        entries = [self._make_entry(stream, event) for event in run]
        partition = self._origins.choose_partition(NewEvent.of(run[0].raw, key=entries[0].event.key), stream)
        attained = self._origins.append(partition, Delivery(lineage_of(stream, run[0]), expected, entries))
        if isinstance(attained, Written) and len(run) < len(events):
            return Partial(attained.position, len(run))
        return attained

    def _make_entry(self, stream: str, event: StreamEvent) -> OutgoingEvent:
        headers = remove_origin(event.headers) | make_origin(stream, event, self._origins.group)
        key = stream if event.key is None else event.key
        return OutgoingEvent(event.index, Event(event.raw, key=key, headers=headers), len(event.raw))


def take_contiguous(events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
    """Return *events* up to the first gap."""
    first = events[0].index
    return [event for at, event in enumerate(events, first) if event.index == at]
