"""A batch of a subscription: events of one partition, and the cursor that is committed once they are dealt with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic

import msgspec

from penstock.core.events.decoding import EventDecoder
from penstock.core.subscriptions.assignment import Place
from penstock.wire.exchange import Handed
from penstock.wire.nakadi import parse_offset
from penstock.wire.nakadi_batches import BatchLine
from penstock.wire.reader.page import Data, FeedEvent, TypedEvent

_PARKED: Final = "parked-"


class SubscriptionBatch(Handed, Generic[Data]):
    """Events of one partition, in their order. They are decoded when they are asked for.

    Args:
        stream_id: The stream that was sent it.
        line: The line that it came in.
        decoder: Decodes the events into a type; without it they are what JSON makes of them.
    """

    __slots__ = ("_decoder", "_events", "_line", "partition", "stream_id")
    _events: Sequence[FeedEvent[Data]]

    def __init__(self, stream_id: str, line: BatchLine, decoder: EventDecoder | None = None) -> None:
        self.stream_id = stream_id
        """The stream that was sent it, with which it is committed."""
        self.partition = int(line.cursor.partition)
        self._line = line
        self._decoder = decoder

    @property
    def event_type(self) -> str:
        """What its events are of."""
        return self._line.cursor.event_type

    @property
    def place(self) -> Place:
        """The event type and the partition."""
        return self.event_type, self.partition

    @property
    def offset(self) -> str:
        """That of its last event, as the hub writes it."""
        return self._line.cursor.offset

    @property
    def offsets(self) -> Sequence[int]:
        """Those of its events in their partition, as whole numbers.

        Where events were left out, since their keys are parked, the hub says which are there. Another server that
        leaves some out is taken to have left them out before the first.
        """
        said = None if self._line.info is None else self._line.info.offsets
        if said is not None and len(said) == len(self):
            return said
        _, last = parse_offset(self.offset)
        return range(last - len(self) + 1, last + 1)

    @property
    def cursor(self) -> Mapping[str, str]:
        """What is committed once its events are dealt with, as the hub takes it."""
        found: dict[str, str] = msgspec.to_builtins(self._line.cursor)
        return found

    @property
    def debug(self) -> str | None:
        """What the hub says beside it, such as that it begins to stream."""
        return self._line.debug

    @property
    def is_parked(self) -> bool:
        """Whether these are events of a parked key, sent again: to commit them moves no position."""
        return self._line.cursor.cursor_token.startswith(_PARKED)

    @property
    def raw(self) -> Sequence[bytes]:
        """The JSON of each event, byte for byte as the hub sent it."""
        return [bytes(each) for each in self._line.events or ()]

    @property
    def events(self) -> Sequence[FeedEvent[Data]]:
        """Its events; each is decoded when its `data` is asked for."""
        try:
            return self._events
        except AttributeError:
            self._events = [self._event(number, raw) for number, raw in enumerate(self._line.events or (), 1)]
            return self._events

    def __len__(self) -> int:
        return len(self._line.events or ())

    def __repr__(self) -> str:
        place = f"event_type={self.event_type!r}, partition={self.partition}"
        return f"{type(self).__name__}({place}, offset={self.offset!r}, events={len(self)})"

    def _event(self, number: int, raw: msgspec.Raw) -> FeedEvent[Data]:
        if self._decoder is None:
            return FeedEvent(self.partition, raw)
        return TypedEvent(self.partition, raw, None, self._decoder, (None, number))


MakeBatch = Callable[[str, BatchLine, EventDecoder | None], SubscriptionBatch[Any]]


def cursors_of(batches: Sequence[SubscriptionBatch[Any]]) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Return the cursors with which *batches* are committed, by stream: of each partition the last is enough."""
    found: dict[str, dict[object, Mapping[str, str]]] = {}
    for each in batches:
        cursors = found.setdefault(each.stream_id, {})
        name: object = each.cursor["cursor_token"] if each.is_parked else each.place
        known = cursors.get(name)
        if known is None or known["offset"] <= each.offset:
            cursors[name] = each.cursor
    return {stream_id: list(cursors.values()) for stream_id, cursors in found.items()}
