"""Folds what has come into rows, as a set: rows are found, events folded in, and what has changed is stored."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.errors import ProjectionNotFound
from penstock.processing.connecting import lacks_table
from penstock.processing.engine.item import Batch, Item, Position, index_unfit
from penstock.processing.engine.outcome import done_to
from penstock.processing.projections.table import Key, Row, Table
from penstock.processing.sources.source import Source, Want, check_source
from penstock.processing.together import Span

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


class Folding:
    """The handler of a projection: see `Transactional`.

    Rows that were written lately are remembered, once it is known that they are committed: nobody else writes them,
    unless the work is shared. Then none is, and those who share it fold one after the other.

    Args:
        table: Where the rows are.
        fold: Folds events into one row.
        is_shared: Whether others fold into the same table, each what it has of the events.
    """

    def __init__(
        self,
        table: Table,
        fold: Fold,
        *,
        is_shared: bool = False,
    ) -> None:
        self._table = table
        self._fold = fold
        self._is_shared = is_shared
        self._remember = 0 if is_shared else REMEMBER
        self._known: OrderedDict[Key, Row] = OrderedDict()
        self._written: dict[Key, Row] = {}

    def __call__(self, connection: Any, spans: Sequence[Span]) -> list[Any]:
        """Fold *spans* of entries into their rows; return what has come of each.

        Raises:
            ProjectionNotFound: its table is not there any more.
        """
        try:
            return self._all_folded(connection, spans)
        except Exception as error:
            if not lacks_table(error):
                raise
            where = "as its checkpoint says"
            raise ProjectionNotFound.of(
                "projection-gone", projection=self._table.name, path="the database", positions=where
            ) from error

    def _all_folded(self, connection: Any, spans: Sequence[Span]) -> list[Any]:
        if self._is_shared:
            self._table.lock(connection)
        keys = [span.events[0].key for span in spans]
        rows = {key: self._known[key] for key in keys if key in self._known}
        wanted = dict.fromkeys(key for key in keys if key not in rows and key != NO_KEY)
        rows |= self._table.find(connection, wanted)
        changed: dict[Key, Row] = {}
        results = []
        for key, span in zip(keys, spans, strict=True):
            wrong = span.events[0].wrong
            row, result = self._folded(rows.get(key), span) if wrong is None else (None, wrong)
            results.append(result)
            if row is not None:
                rows[key] = changed[key] = row
        self._table.store(connection, changed)
        self._written = changed
        return results

    def ended(self, is_committed: bool) -> None:
        """Take note of what has become of the transaction: what was written may be remembered, or must not be."""
        written, self._written = self._written, {}
        for key, row in written.items():
            self._known.pop(key, None)
            if is_committed:
                self._known[key] = row
        while len(self._known) > self._remember:
            self._known.popitem(last=False)

    def _folded(self, row: Row | None, span: Span) -> tuple[Row | None, Any]:
        """Return the row with a span folded in, None where that changes nothing; and what has come of the span."""
        folded, failed, error = self._fold(row, span.events[0].line, span.events)
        if failed is None or folded is None:
            return folded, error
        return folded, done_to(failed.index)
