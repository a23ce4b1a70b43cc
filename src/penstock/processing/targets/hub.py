"""Streams copied to an event type of another hub."""

from collections.abc import Sequence

from penstock.client.client import Client
from penstock.client.log.publishing import Event
from penstock.core.events.event import NewEvent
from penstock.processing.parameters import check_kind, check_name
from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.deliveries import Delivery, OutgoingEvent
from penstock.processing.targets.origin import lineage_of, origin, without_origin
from penstock.processing.targets.origins import Origins
from penstock.processing.targets.target import Attained, Partial, Written


class HubTarget:
    """An event type of a hub, to which events go as they are, each once.

    Each has its origin in headers: `penstock-stream`, `penstock-index` and, as `penstock-group`, the producer group. By
    these the target is read back when it is begun with, all of it, and in part after a failure; a number is kept in
    memory for each stream. A stream's events have its key, or its name as their key where it
    has none, so they stay in one partition.

    That ends where the target's retention removes the last event of a stream that is copied again from before it, where
    the event type is given partitions, and with a producer group of another name.

    Args:
        client: The other hub's client, which stays open.
        event_type: Where to.
        group: The producer group. One process at a time has it: another that begins shuts this one out.

    Raises:
        BadParameter: one of them is none of these.
    """

    def __init__(self, client: Client, event_type: str, group: str) -> None:
        check_kind("client", client, Client, "Client(url)")
        check_name("event_type", event_type)
        check_name("group", group)
        self._origins = Origins(client, event_type, group)

    def append(self, stream: str, expected: int | None, events: Sequence[StreamEvent]) -> Attained:
        """Append what is not there yet of *events*; see `SyncTarget`.

        Raises:
            ProducerFenced: another instance has taken over.
            PenstockError: nothing was appended, or it is not known: the next append finds out.
        """
        run = events if expected is None else contiguous(events)
        entries = [self._entry(stream, event) for event in run]
        partition = self._origins.partition_of(NewEvent.of(run[0].raw, key=entries[0].event.key), stream)
        attained = self._origins.append(partition, Delivery(lineage_of(stream, run[0]), expected, entries))
        if isinstance(attained, Written) and len(run) < len(events):
            return Partial(attained.position, len(run))
        return attained

    def _entry(self, stream: str, event: StreamEvent) -> OutgoingEvent:
        headers = without_origin(event.headers) | origin(stream, event, self._origins.group)
        key = stream if event.key is None else event.key
        return OutgoingEvent(event.index, Event(event.raw, key=key, headers=headers), len(event.raw))


def contiguous(events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
    """Return *events* up to the first gap."""
    first = events[0].index
    return [event for at, event in enumerate(events, first) if event.index == at]
