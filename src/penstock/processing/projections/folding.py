"""Folds what has come into rows, as a set: rows are found, events folded in, and what has changed is stored."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any, Final

from penstock.processing.engine.outcome import done_to
from penstock.processing.projections.keyed import Entry
from penstock.processing.projections.table import Key, Row, Table
from penstock.processing.together import Span

REMEMBER: Final = 100_000


class Folding:
    """The handler of a projection: see `Transactional`.

    Rows that were written lately are remembered, once it is known that they are committed: nobody else writes them.

    Args:
        table: Where the rows are.
        initial: Makes the state before the first event.
        evolve: Folds an event into a state; None: the row is deleted.
        is_flat: Whether no field of a state can change but by being replaced.
        remember: How many rows are remembered.
    """

    def __init__(
        self,
        table: Table,
        initial: Callable[[], Any],
        evolve: Callable[[Any, Any], Any],
        *,
        is_flat: bool,
        remember: int = REMEMBER,
    ) -> None:
        self._table = table
        self._initial = initial
        self._evolve = evolve
        self._copied = copy if is_flat else deepcopy
        self._remember = remember
        self._known: OrderedDict[Key, Row] = OrderedDict()
        self._written: dict[Key, Row] = {}

    def __call__(self, connection: Any, spans: Sequence[Span]) -> list[Any]:
        """Fold *spans* of entries into their rows; return what has come of each."""
        keys = [span.events[0].key for span in spans]
        rows = {key: self._known[key] for key in keys if key in self._known}
        rows |= self._table.find(connection, dict.fromkeys(key for key in keys if key not in rows))
        changed: dict[Key, Row] = {}
        results = []
        for key, span in zip(keys, spans, strict=True):
            row, result = self._folded(rows.get(key), span)
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
        line = span.events[0].line
        positions = {} if row is None else row.positions
        begun = positions.get(line, 0)
        fresh = [entry for entry in span.events if entry.index >= begun]
        state, count, error = self._fold(row, fresh)
        folded = len(fresh)
        while count < folded:  # What has failed may have left its marks on the state: it is made anew.
            folded = count
            state, count, _ = self._fold(row, fresh[:folded])
        if count == 0:
            return None, error
        result = None if error is None else done_to(fresh[count].index)
        return Row(state, {**positions, line: fresh[count - 1].next}), result

    def _fold(self, row: Row | None, entries: Sequence[Entry]) -> tuple[Any, int, Exception | None]:
        """Return the state with *entries* folded in, and how many of them were, up to the first that cannot be."""
        evolve, initial = self._evolve, self._initial
        state = None if row is None or row.state is None else self._copied(row.state)
        for count, entry in enumerate(entries):
            try:
                state = evolve(initial() if state is None else state, entry.event)
            except Exception as error:  # noqa: BLE001 - It is a failure of this row, and of no other.
                return None, count, error
        return state, len(entries), None
