"""What the engine needs to know of an event; what else there is of it is the handler's."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.errors import BadParameter

Position: TypeAlias = int | str
"""Of a tranche: from where to read on. The engine hands it back, and never looks into it."""


class SourceItem(Protocol):
    """An event of a stream."""

    @property
    def stream(self) -> str:
        """The stream's name."""
        ...

    @property
    def index(self) -> int:
        """Its place in the stream, from 0 on; larger than that of the event before it in its tranche."""
        ...

    @property
    def next(self) -> int:
        """The least index that the event behind it can have."""
        ...


class Batch(NamedTuple):
    """What was read of a tranche at once, or a part of that, behind which a position can stand."""

    tranche: str
    end: Position
    """Where to read on once all of it is handled."""
    items: Sequence[SourceItem]
    is_tail: bool = False
    """Whether there was nothing more behind it."""
    size: int | None = None
    """How many events it has, where its items are spans; None: as many as items."""
    bytes: int | None = None
    """How much was read for it; None: its source does not say."""
    is_part: bool = False
    """Whether the next batch of the tranche was read together with it."""


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
    """Return *batch* as parts of up to *size* items, so that its position need not wait for all of it.

    Args:
        batch: What is cut.
        size: How many.
        end: Returns the position behind an item.
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
    """Return how many events an item stands for: one, unless it is a span that says so (`events`)."""
    count: int = getattr(item, "events", 1)
    return count


def index_unfit(item: SourceItem, tranche: str) -> BadParameter:
    """Return what is wrong with an item of a tranche whose index is below 0, or `INDEX_END` or more.

    Nothing of a stream is wanted below 0, and no database keeps how far it is behind that end.
    """
    allowed = "indices from 0 on, below 2**63 - 1: its source has to number the events of each stream so"
    return BadParameter(parameter="index", value=f"{item.index} of {item.stream} in {tranche}", allowed=allowed)
