"""Pages as Arrow IPC streams.

Importing this module loads PyArrow, which only the extra `arrow` installs. `penstock.wire.log.feedapi` has the media
type and the column names, and loads nothing.
"""

from io import RawIOBase
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.core.log.arrow import SCHEMA

ArrowPart: TypeAlias = bytes
"""Bytes, or a buffer of Arrow."""


class ArrowStream:
    """Writer of an IPC stream. Its bytes come in parts, which include the columns of a batch without copying them."""

    def __init__(self) -> None:
        """Begin without a batch: the schema comes with the first part."""
        self._parts = _Parts()
        self._writer = pa.ipc.new_stream(self._parts, SCHEMA)

    def add(self, batch: pa.RecordBatch) -> list[ArrowPart]:
        """Return the bytes of another batch."""
        self._writer.write_batch(batch)
        return self._parts.take()

    def end(self) -> list[ArrowPart]:
        """Return the remaining bytes."""
        self._writer.close()
        return self._parts.take()


class _Parts(RawIOBase):
    """A file for Arrow that collects the written parts."""

    def __init__(self) -> None:
        self._taken: list[ArrowPart] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any, /) -> int:
        self._taken.append(part)
        return len(part)

    def take(self) -> list[ArrowPart]:
        taken, self._taken = self._taken, []
        return taken
