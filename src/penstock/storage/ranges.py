"""How both databases read a range by column, and how far a range is cut short that has too many bytes."""

from collections.abc import Callable
from typing import Any

from penstock.storage.store import CHUNK_BYTES, Columns, Runs

Ask = Callable[..., Any]
"""Runs a statement by name with the range and more parameters, and returns its one row."""


def read_columns(ask: Ask, stop: int) -> Columns:
    """Return the range by column: the data first, and what else the first look has found to be there."""
    rows, data, keys, kinds, headers, first, last = ask("columns")
    sparse = (None, None, None)
    if keys or kinds or headers:
        sparse = ask("columns_sparse", keys=keys > 0, kinds=kinds > 0, headers=headers > 0)
    lengths, times = (b"%d" % rows, b"%d" % first) if rows and first == last else ask("columns_received")
    return Columns(stop, rows, data or b"", *sparse, Runs(lengths or b"", times or b""))


def shorter(start: int, stop: int, size: int) -> int:
    """Return where a range of *size* bytes has to stop to become a chunk: by half or more, but never empty.

    >>> shorter(0, 4000, 8 * CHUNK_BYTES), shorter(7, 8, 1 << 30)
    (500, 8)
    """
    rows = stop - start
    return start + max(1, min(rows * CHUNK_BYTES // max(size, 1), rows // 2))
