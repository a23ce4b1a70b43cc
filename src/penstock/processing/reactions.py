"""Reactions: handlers that publish events because of others, each with an id by which a repeat is recognised."""

import reprlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID

from penstock.client.client import Client
from penstock.client.log.publishing import Event
from penstock.core.events.encoding import encode_event
from penstock.core.events.event import NewEvent
from penstock.core.events.metadata import fill_metadata
from penstock.errors import BadParameter
from penstock.processing.effects import Effect, Effects, effect_id
from penstock.processing.handlers import Handler
from penstock.processing.outcomes import Outcome, done, done_to
from penstock.processing.parameters import check_function, check_kind, check_name
from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.hub import EVENTS_MAX, Delivery, Origins, OutgoingEvent
from penstock.processing.targets.target import (
    Attained,
    Duplicate,
    Lineage,
    Partial,
    PrefixMissing,
    lineage_of,
    make_origin,
)

__all__ = ["Publisher", "react"]

Caused: TypeAlias = tuple[StreamEvent, Iterable[Effect] | Effect | None]
"""An event, and its effects."""


class Publisher:
    """Publishes the effects of events to a hub. Each has the same `eid` whenever it is published.

    In event types of category `undefined`, which have no `eid`, the header `ce_id` has it. The headers
    `penstock-stream` and `penstock-index` have the event's origin.

    Args:
        client: The hub's client, which stays open.
        group: A producer group: then each effect is stored once, and those of a stream in its order. One process at a
            time owns the group, and first reads back the events of the event types; see `HubTarget` for the limits.
            None: an effect in doubt after a failure is published again, and consumers recognise it by its id.

    Raises:
        BadParameter: the client or the group's name is invalid.
    """

    def __init__(self, client: Client, group: str | None = None) -> None:
        check_kind("client", client, Client, "Client(url)")
        if group is not None:
            check_name("group", group)
        self._client = client
        self._group = group
        self._origins: dict[str, Origins] = {}
        self._categories: dict[str, str] = {}
        self._turn = threading.Lock()
        self._effects: Effects | None = None

    def serve(self, effects: Effects) -> None:
        """Bind the publisher to one reaction. With a group, no other reaction can use it.

        A stream's progress is recorded by group, event type and partition. The second of two reactions would find the
        effects that the first has published of an event, and omit its own as repeats.

        Raises:
            BadParameter: the publisher has a group, and is bound to another reaction.
        """
        if self._group is not None and self._effects not in (None, effects):
            allowed = (
                "a Publisher for each reaction, with a group of its own: one would take the other's effects for its own"
            )
            raise BadParameter(
                parameter="publisher", value=f"one of {self._group!r}, which another has", allowed=allowed
            )
        self._effects = effects

    def publish(self, stream: str, effects: Iterable[Caused]) -> tuple[int, int]:
        """Publish the effects of a stream's events, in their order.

        Returns the number of published effects, and the number of those that were there already.

        Raises:
            BadParameter: two effects of an event have one name, or an effect is invalid.
            ProducerFenced: another instance has taken over the producer group.
            PenstockError: some may not be published: try again.
        """
        return self.publish_all({stream: effects})

    def publish_all(self, effects: Mapping[str, Iterable[Caused]]) -> tuple[int, int]:
        """Publish the effects of many streams' events, in the order of each stream; see `publish`.

        Effects share requests: for handlers of many streams at once. In a `Transactional`, publish before
        the transaction ends, so that a repeated event reads the same rows, and has the same effects.
        """
        by_type: dict[str, dict[str, list[_Entry]]] = {}
        for stream, caused in effects.items():
            for event, each in caused:
                found = list_effects(each)
                check_names(event, found)
                for effect in found:
                    entries = by_type.setdefault(effect.event_type, {}).setdefault(stream, [])
                    entries.append(self._make_entry(stream, event, effect))
        published = repeated = 0
        for event_type, streams in by_type.items():
            count = self._publish(event_type, streams) if self._group is None else self._append(event_type, streams)
            published += count
            repeated += sum(map(len, streams.values())) - count
        return published, repeated

    def _publish(self, event_type: str, streams: Mapping[str, Sequence["_Entry"]]) -> int:
        events = [entry.event for entries in streams.values() for entry in entries]
        parts = (events[at : at + EVENTS_MAX] for at in range(0, len(events), EVENTS_MAX))
        return sum(self._client.publish(event_type, part).count for part in parts)

    def _append(self, event_type: str, streams: Mapping[str, Sequence["_Entry"]]) -> int:
        origins = self._get_origins(event_type)
        partitions: dict[int, dict[Lineage, list[OutgoingEvent]]] = {}
        for stream, entries in streams.items():
            for each in entries:
                entry = OutgoingEvent(each.index, Event.of(each.event), len(each.event.data))
                place = partitions.setdefault(origins.choose_partition(each.event, stream), {})
                place.setdefault(each.lineage, []).append(entry)
        return sum(
            sum(map(_count, deliveries, origins.append_all(partition, deliveries)))
            for partition, found in partitions.items()
            if (deliveries := [Delivery(lineage, None, entries) for lineage, entries in found.items()])
        )

    def _make_entry(self, stream: str, event: StreamEvent, effect: Effect) -> "_Entry":
        given = effect.data if isinstance(effect.data, NewEvent) else None
        raw, eid = encode_event(effect.data if given is None else given.data), effect_id(event, effect.resolved_name)
        headers = {**((given and given.headers) or {}), **make_origin(stream, event, self._group or "")}
        if self._find_category(effect.event_type) == "undefined":
            headers.setdefault("ce_id", eid)
        else:
            raw = fill_metadata(raw, eid=lambda: UUID(eid), occurred_at=lambda: datetime.now(UTC))
        key = effect.key if given is None or effect.key is not None else given.key
        partition = None if given is None else given.partition
        return _Entry(
            lineage_of(stream, event), event.index, NewEvent.of(raw, key=key, headers=headers, partition=partition)
        )

    def _get_origins(self, event_type: str) -> Origins:
        assert self._group is not None
        with self._turn:
            if event_type not in self._origins:
                self._origins[event_type] = Origins(self._client, event_type, self._group)
            return self._origins[event_type]

    def _find_category(self, event_type: str) -> str:
        found = self._categories.get(event_type)
        if found is None:
            found = self._categories[event_type] = self._client.event_type(event_type)["category"]
        return found


@dataclass(frozen=True, slots=True)
class _Entry:
    """An event to publish, and the position of its cause."""

    lineage: Lineage
    index: int
    event: NewEvent


def _count(delivery: Delivery, attained: Attained) -> int:
    """Return the number of events of a delivery that were not there already."""
    if isinstance(attained, Partial):
        return attained.count
    return 0 if isinstance(attained, Duplicate | PrefixMissing) else len(delivery.entries)


def react(publisher: Publisher, effects: Effects) -> Handler:
    """Return a handler that publishes the *effects* of each event, all of them before it is done.

    If *effects* raises, the events before are done, and their effects published. Outcomes count effects under
    `published`, and omitted ones under `repeated`, since effects of that event or of a later one are there.

    Raises:
        BadParameter: *publisher* is none, or has a group and is another reaction's; or *effects* cannot be called with
            an event; or (the handler) a value that *effects* returns is no effect.
    """
    check_kind("publisher", publisher, Publisher, "Publisher(client), which gives each effect its id")
    check_function("effects", effects, "event", is_async=False)
    publisher.serve(effects)

    def handle(stream: str, events: Sequence[StreamEvent]) -> Outcome:
        found: list[Caused] = []
        failed: StreamEvent | None = None
        for event in events:
            try:
                found.append((event, list_effects(effects(event))))
            except Exception:
                if not found:
                    raise
                failed = event  # It comes again as the first of its span, and is raised then.
                break
        published, repeated = publisher.publish(stream, found)
        if failed is None:
            return done(published=published, repeated=repeated)
        return done_to(failed.index, published=published, repeated=repeated)

    return handle


def list_effects(effects: Any) -> Sequence[Effect]:
    """Return *effects*, which may be one, or none, as a list.

    Raises:
        BadParameter: a value is no effect.
    """
    if effects is None:
        return []
    found = [effects] if isinstance(effects, Effect) or not isinstance(effects, Iterable) else [*effects]
    for each in found:
        if not isinstance(each, Effect):
            allowed = "Effect(event_type, data), several of them, or None"
            raise BadParameter(parameter="effects", value=reprlib.repr(effects), allowed=allowed)
    return found


def check_names(event: StreamEvent, effects: Sequence[Effect]) -> None:
    """Raise BadParameter if two *effects* of an event have one name: they would have one id."""
    names = [effect.resolved_name for effect in effects]
    for name in names:
        if names.count(name) > 1:
            allowed = f"a name of its own for each effect of {event.stream} at {event.index}"
            raise BadParameter(parameter="name", value=name, allowed=allowed)
