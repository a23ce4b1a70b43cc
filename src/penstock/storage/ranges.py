"""How both databases read a range by column."""

from collections.abc import Callable
from typing import Any

from penstock.storage.store import Columns, Runs

Ask = Callable[..., Any]
"""Runs a statement by name with the range and more parameters, and returns its one row."""


def read_columns(ask: Ask, times: Callable[[int, int], Runs | None], stop: int) -> Columns:
    """Return the range by column; what is often the same or empty is read only when it is not.

    *times* is asked for the runs where the first and the last time, which it is told, differ. The statements are no
    transaction: where rows are removed between two of them, fewer rows are told than the range has.
    """
    rows, data, sparse, first, last = ask("columns")
    counted, keys, kinds, headers = ask("columns_sparse") if sparse else (rows, None, None, None)
    received: Runs | None = Runs(b"", b"")
    if None not in (first, last):
        received = Runs(b"%d" % rows, b"%d" % first) if first == last else times(first, last)
    if received is None:
        counted, received = 0, Runs(b"", b"")
    return Columns(stop, min(rows, counted), data or b"", keys, kinds, headers, received)
