"""A source whose streams are the rows of a projection, and the fold of its events into one row.

Executors of Spark use it, too: it needs no database.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.processing.engine.tranche import Batch, Position, SourceItem, index_unfit
from penstock.processing.projections.table import Key, Row
from penstock.processing.sources.source import ReadRequest, Source, check_source

NO_KEY: Final[Key] = ()
"""The key of events whose key function fails. No row has it, so they fail, and block no row."""


class KeyedEvent(msgspec.Struct, gc=False):
    """An event, and the row that it belongs to."""

    stream: str
    index: int
    next: int
    key: Key
    """`NO_KEY`: the key function has failed."""
    line: str
    """The line of its index: a tranche of the source, or the event's own stream if indices are by stream."""
    event: Any
    wrong: Exception | None = None
    """The exception of the key function."""


class KeyedSource:
    """A source of events as entries of rows, with a stream for each row and line: `["AA",1] in flights/3`.

    Events whose key function fails are a separate stream for each line, `[] in flights/3`, which fails when it is
    handled.

    Args:
        source: The source of the events.
        key: Returns the key of an event's row; None: the event belongs to no row.

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
        """Return the tranches of the source."""
        return self.inner.tranches()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return the first position of the source."""
        return self.inner.beginning(tranche, kept)

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the events of the source as entries of rows."""
        return [self._keyed(batch) for batch in self.inner.read(wants, timeout)]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a tranche of the source again, as entries of rows."""
        return self._keyed(self.inner.reread(tranche, want))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events are behind; those of no row count, too."""
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
            except Exception as error:  # noqa: BLE001 - It is a failure of this event, not of the read.
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
        initial: Returns the state before the first event.
        evolve: Folds an event into a state; None: the row is deleted. It may change its argument.
        wrong: Returns the error of a state that cannot be a row; None: it can.
        is_flat: True if all fields of a state have immutable values.
    """

    initial: Callable[[], Any]
    evolve: Callable[[Any, Any], Any]
    wrong: Callable[[Any], Exception | None]
    is_flat: bool

    def __call__(
        self, row: Row | None, line: str, entries: Sequence[KeyedEvent]
    ) -> tuple[Row | None, KeyedEvent | None, Exception | None]:
        """Fold *entries* of one line into the row; return the row, the entry that has failed, and its error.

        The row is None if it has not changed.
        """
        positions = {} if row is None else row.positions
        begun = positions.get(line, 0)
        fresh = [entry for entry in entries if entry.index >= begun]
        if len(fresh) < len(entries) and (below := next((each for each in entries if each.index < 0), None)):
            return None, below, index_unfit(below, line)
        state, count, error = self._folded(row, fresh)
        folded = len(fresh)
        while count < folded:  # A failed call may have changed the state: it is built again.
            folded = count
            state, count, earlier = self._folded(row, fresh[:folded])
            error = earlier or error
        failed = None if error is None else fresh[count]
        if count == 0:
            return None, failed, error
        return Row(state, {**positions, line: fresh[count - 1].next}), failed, error

    def _folded(self, row: Row | None, entries: Sequence[KeyedEvent]) -> tuple[Any, int, Exception | None]:
        """Return the state with *entries* folded in, up to the first that fails, and the number of these.

        Each state is checked, not only the last: so the failing event does not depend on the size of calls.
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
