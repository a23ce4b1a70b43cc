"""Protocol of the items that the engine schedules. The rest of an event concerns only the handler."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.errors import BadParameter

Position: TypeAlias = int | str
"""Place in a tranche from which reading continues. It is opaque to the engine."""


class SourceItem(Protocol):
    """An event of a stream."""

    @property
    def stream(self) -> str:
        """The stream's name."""
        ...

    @property
    def index(self) -> int:
        """Its index in the stream, from 0 on; larger than that of the stream's event before it in the tranche."""
        ...

    @property
    def next(self) -> int:
        """The least index that the stream's next event can have."""
        ...


class Batch(NamedTuple):
    """Events of one read of a tranche, or a part of them, with the position after them."""

    tranche: str
    end: Position
    """The position after its events."""
    items: Sequence[SourceItem]
    is_tail: bool = False
    """True if the tranche had no further events."""
    size: int | None = None
    """Number of events if its items are spans; None: the number of items."""
    bytes: int | None = None
    """Number of bytes read for it; None: the source does not report it."""
    is_part: bool = False
    """True if the next batch of the tranche comes from the same read."""


def check_items(parameter: str, items: Iterable[Any]) -> None:
    """Raise BadParameter unless each of *items* is an event whose stream is a text and whose index is a number."""
    for item in items:
        stream, index = getattr(item, "stream", None), getattr(item, "index", None)
        if type(stream) is str and type(index) is int and hasattr(item, "next"):
            continue
        told = f"{type(item).__name__} in place of events"
        if hasattr(item, "stream"):
            told = f"{type(item).__name__} with stream {stream!r:.80} and index {index!r:.80}"
        allowed = "lists of events, such as [StreamEvent(…), …], whose stream is a text and whose index a whole number"
        raise BadParameter(parameter=parameter, value=told, allowed=allowed)


def in_parts(batch: Batch, size: int, end: Callable[[SourceItem], Position]) -> list[Batch]:
    """Split *batch* into parts of up to *size* items, so that the position can advance part by part.

    Args:
        batch: The batch to split.
        size: Maximum number of items in a part.
        end: Returns the position after an item.
    """
    items = batch.items
    last = max(0, len(items) - 1) // size * size
    parts = [
        batch._replace(
            end=end(items[at + size - 1]), items=items[at : at + size], is_tail=False, bytes=None, is_part=True
        )
        for at in range(0, last, size)
    ]
    return [*parts, batch._replace(items=items[last:])]


def events_of(item: SourceItem) -> int:
    """Return the number of events in an item: one, unless it is a span with an attribute `events`."""
    count: int = getattr(item, "events", 1)
    return count


def index_unfit(item: SourceItem, tranche: str) -> BadParameter:
    """Return the error for an item of a tranche whose index is below 0, or `INDEX_END` or more.

    Indices begin at 0, and databases cannot store a larger one.
    """
    allowed = "indices from 0 on, below 2**63 - 1: its source has to number the events of each stream so"
    return BadParameter(parameter="index", value=f"{item.index} of {item.stream} in {tranche}", allowed=allowed)
