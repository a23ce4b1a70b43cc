"""An event as a handler is given it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

_decode: Final = msgspec.json.Decoder().decode


class StreamEvent(msgspec.Struct, gc=False):
    """An event of a stream."""

    stream: str
    """The stream's name: `order.placed-7`."""
    index: int
    """Its place in the stream: larger than that of the event before. Where it is from a feed, it is its offset."""
    kind: str
    """What it says happened: the glossary's *kind*."""
    raw: bytes
    """Its JSON, byte for byte."""
    key: str | None = None
    headers: Mapping[str, str] | None = None
    tranche: str = ""
    """Where it was read: of a feed, `order.placed/3`."""
    received_at: datetime | None = None
    """When the hub took it; None: nobody has said."""
    _data: Any = msgspec.UNSET

    @property
    def next(self) -> int:
        """The least index that the event behind it can have."""
        return self.index + 1

    @property
    def data(self) -> Any:
        """The event, decoded when it is first asked for.

        Raises:
            msgspec.DecodeError: it is no JSON.
        """
        if self._data is msgspec.UNSET:
            self._data = _decode(self.raw)
        return self._data
