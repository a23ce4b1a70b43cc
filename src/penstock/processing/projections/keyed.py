"""A source whose streams are the rows of a projection; what does not concern it is left out, and passed over."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.processing.engine.item import Batch, Item, Position
from penstock.processing.projections.table import Key
from penstock.processing.sources.source import Source, Want, check_source

NO_KEY: Final[Key] = ()
"""Of events whose key cannot be had. No row has it, so they fail, and hold none."""


class KeyedEvent(msgspec.Struct, gc=False):
    """An event, and the row that it belongs to."""

    stream: str
    index: int
    next: int
    key: Key
    """`NO_KEY`: it cannot be had."""
    line: str
    """What its index is of: a tranche of the source, or the event's own stream where indices are a stream's."""
    event: Any
    wrong: Exception | None = None
    """By what its key cannot be had."""


class KeyedSource:
    """Events as entries of the rows that they belong to, a stream for each row and line: `["AA",1] in flights/3`.

    Those whose key cannot be had are a stream of their own for each line, `[] in flights/3`, which fails when it is
    handled.

    Args:
        source: Where they come from.
        key: Names the row of an event; None: it belongs to none.

    Raises:
        BadParameter: the source is none.
    """

    is_dense = False

    def __init__(self, source: Source, key: Callable[[Any], Key | None]) -> None:
        check_source(source)
        self.inner = source
        self._key = key
        self.is_by_stream = source.is_by_stream
        self.is_replayable = source.is_replayable

    def tranches(self) -> Collection[str]:
        """Return those of the source."""
        return self.inner.tranches()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where the source begins."""
        return self.inner.beginning(tranche, kept)

    def read(self, wants: Mapping[str, Want], timeout: float) -> Sequence[Batch]:
        """Return what the source has, under other names."""
        return [self._keyed(batch) for batch in self.inner.read(wants, timeout)]

    def reread(self, tranche: str, want: Want) -> Batch:
        """Return what the source gives again, likewise."""
        return self._keyed(self.inner.reread(tranche, want))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events are behind; those that are left out count as the others."""
        return self.inner.behind(positions)

    def close(self) -> None:
        """Close the source."""
        self.inner.close()

    def _keyed(self, batch: Batch) -> Batch:
        names = dict[tuple[Any, str], str]()
        kept: list[Item] = []
        for item in batch.items:
            wrong = None
            try:
                key = self._key(item)
            except Exception as error:  # noqa: BLE001 - It is a failure of this event, not of who reads it.
                key, wrong = NO_KEY, error
            if key is None:
                continue
            line = item.stream if self.is_by_stream else batch.tranche
            name = names.get((key, line))
            if name is None:
                name = names[key, line] = f"{msgspec.json.encode(key).decode()} in {line}"
            kept.append(KeyedEvent(name, item.index, item.next, key, line, item, wrong))
        return batch._replace(items=kept)
