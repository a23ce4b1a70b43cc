"""Folds events into rows, as a set: finds the rows, folds the events in, and stores the changed rows."""

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

    A cache holds recently written rows once they are committed, since there is no other writer. If several processors
    share the work, nothing is cached, and they fold one after the other.

    Args:
        table: The table of the rows.
        fold: Folds events into one row.
        is_shared: True if other processors fold their share of the events into the same table.
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
        """Fold *spans* of entries into their rows; return the result of each.

        Raises:
            ProjectionNotFound: its table no longer exists.
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
        """Cache the written rows if the transaction *is_committed*, else drop them."""
        written, self._written = self._written, {}
        for key, row in written.items():
            self._known.pop(key, None)
            if is_committed:
                self._known[key] = row
        while len(self._known) > self._remember:
            self._known.popitem(last=False)

    def _folded(self, row: Row | None, span: Span) -> tuple[Row | None, Any]:
        """Return the row with a span folded in, None if it is unchanged; and the result of the span."""
        folded, failed, error = self._fold(row, span.events[0].line, span.events)
        if failed is None or folded is None:
            return folded, error
        return folded, done_to(failed.index)
