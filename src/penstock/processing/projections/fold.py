"""A source whose streams are the rows of a projection, and the fold of its events into one row.

Executors of Spark use it, too: nothing here needs a database.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.processing.engine.item import Batch, Position, SourceItem, index_unfit
from penstock.processing.projections.table import Key, Row
from penstock.processing.sources.source import ReadRequest, Source, check_source

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

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what the source has, under other names."""
        return [self._keyed(batch) for batch in self.inner.read(wants, timeout)]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
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
        kept: list[SourceItem] = []
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


@dataclass(frozen=True)
class Fold:
    """A pure function from a row and events to a row. It can be sent to other processes.

    Args:
        initial: Makes the state before the first event.
        evolve: Folds an event into a state; None: the row is deleted. It may change the state that it is given.
        wrong: Returns why a state cannot be a row; None: it can.
        is_flat: Whether no field of a state can change but by being replaced.
    """

    initial: Callable[[], Any]
    evolve: Callable[[Any, Any], Any]
    wrong: Callable[[Any], Exception | None]
    is_flat: bool

    def __call__(
        self, row: Row | None, line: str, entries: Sequence[KeyedEvent]
    ) -> tuple[Row | None, KeyedEvent | None, Exception | None]:
        """Return the row with *entries* of one line folded in, and the entry at which that has failed, and why.

        The row is None where nothing has changed.
        """
        positions = {} if row is None else row.positions
        begun = positions.get(line, 0)
        fresh = [entry for entry in entries if entry.index >= begun]
        if len(fresh) < len(entries) and (below := next((each for each in entries if each.index < 0), None)):
            return None, below, index_unfit(below, line)
        state, count, error = self._folded(row, fresh)
        folded = len(fresh)
        while count < folded:  # What has failed may have left its marks on the state: it is made anew.
            folded = count
            state, count, earlier = self._folded(row, fresh[:folded])
            error = earlier or error
        failed = None if error is None else fresh[count]
        if count == 0:
            return None, failed, error
        return Row(state, {**positions, line: fresh[count - 1].next}), failed, error

    def _folded(self, row: Row | None, entries: Sequence[KeyedEvent]) -> tuple[Any, int, Exception | None]:
        """Return the state with *entries* folded in, and how many of them were, up to the first that cannot be.

        Each state is checked, not only the last: which event fails does not depend on how a feed is cut into calls.
        """
        evolve, initial = self.evolve, self.initial
        state = None if row is None or row.state is None else (copy if self.is_flat else deepcopy)(row.state)
        for count, entry in enumerate(entries):
            try:
                state = evolve(initial() if state is None else state, entry.event)
                if state is not None and (wrong := self.wrong(state)):
                    raise wrong
            except Exception as error:  # noqa: BLE001 - It is a failure of this row, and of no other.
                return None, count, error
        return state, len(entries), None


REMEMBER: Final = 100_000
