"""Folds what has come into rows, as a set: rows are found, events folded in, and what has changed is stored."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import ProjectionNotFound
from penstock.processing.connecting import lacks_table
from penstock.processing.outcomes import done_to
from penstock.processing.projections.fold import NO_KEY, Fold
from penstock.processing.projections.table import Key, Row, Table
from penstock.processing.together import Span

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
