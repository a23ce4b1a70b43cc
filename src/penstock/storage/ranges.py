"""How both databases read a range by column, and how far a range is cut short that has too many bytes."""

from collections.abc import Callable
from typing import Any

from penstock.storage.store import CHUNK_BYTES, Columns, Runs

Ask = Callable[..., Any]
"""Runs a statement by name with the range and more parameters, and returns its one row."""


def read_columns(ask: Ask, stop: int) -> Columns:
    """Return the range by column; those that are often empty are read only when they are not."""
    rows, data, sparse = ask("columns")
    lengths, times = ask("columns_received")
    keys, kinds, headers = ask("columns_sparse") if sparse else (None, None, None)
    return Columns(stop, rows, data or b"", keys, kinds, headers, Runs(lengths or b"", times or b""))


def shorter(start: int, stop: int, size: int) -> int:
    """Return where a range of *size* bytes has to stop to become a chunk: by half or more, but never empty.

    >>> shorter(0, 4000, 8 * CHUNK_BYTES), shorter(7, 8, 1 << 30)
    (500, 8)
    """
    rows = stop - start
    return start + max(1, min(rows * CHUNK_BYTES // max(size, 1), rows // 2))
