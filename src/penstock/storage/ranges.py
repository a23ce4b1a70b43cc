"""How both databases read a range by column."""

from collections.abc import Callable
from typing import Any, Final

from penstock.storage.store import Columns, Runs

SIZE_BYTES: Final = 4
Ask = Callable[..., Any]
"""Runs a statement by name with the range and more parameters, and returns its one row."""


def columns_of(
    ask: Ask, stop: int, data: bytes, sizes: bytes, received: Runs | None, *, keyed: bool, sparse: bool
) -> Columns:
    """Return the range by column; keys are read only where it is *keyed*, kinds and headers too where it is *sparse*.

    The statements are no transaction: where rows are removed between two of them, fewer rows are told than the range
    has. *received* is None where that was noticed with the times.
    """
    rows = len(sizes) // SIZE_BYTES
    counted, keys, kinds, headers = rows, None, None, None
    if sparse:
        counted, keys, kinds, headers = ask("columns_sparse")
    elif keyed:
        counted, keys = ask("columns_keys")
    if received is None:
        counted, received = 0, Runs(b"", b"")
    return Columns(stop, min(rows, counted), data, sizes, keys, kinds, headers, received)
