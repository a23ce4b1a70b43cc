"""The event that a handler receives."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

_decode: Final = msgspec.json.Decoder().decode
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode
APART: Final = "+parked-"
"""Suffix of a numbering: that of a subscription's parked events, which are sent again."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StreamEvent(msgspec.Struct, gc=False):
    """An event of a stream."""

    stream: str
    """The stream's name: `order.placed-7`."""
    index: int
    """Its place in the stream: larger than that of the event before within one `numbering`. For an event of a
    feed, its offset."""
    kind: str
    """Its kind: the header `ce_type`, else the `data_type` of a data change, else the event type's name."""
    raw: bytes
    """Its JSON, byte for byte."""
    key: str | None = None
    _headers: str | None = None
    """A JSON object."""
    tranche: str = ""
    """The tranche from which it was read; of a feed, `order.placed/3`."""
    received: int | None = None
    """The time at which the hub received it, in microseconds since 1970; None: unknown."""
    numbering: str = ""
    """The counter of its stream's indices: of a feed, the partition and its epoch, `order.placed/3@1`.

    Indices order the events of one numbering. Empty: the stream itself is the numbering, in all tranches."""
    _data: Any = msgspec.UNSET

    @property
    def next(self) -> int:
        """The least index that the event behind it can have."""
        return self.index + 1

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers: texts that its publisher has sent with it."""
        return {} if self._headers is None else _decode_headers(self._headers)

    @property
    def received_at(self) -> datetime | None:
        """The time at which the hub received it; None: unknown."""
        return None if self.received is None else _EPOCH + timedelta(microseconds=self.received)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The event's metadata: eid, occurred_at and other members; empty if it has none."""
        found = self.data.get("metadata") if isinstance(self.data, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def data(self) -> Any:
        """The event, decoded on first access.

        Raises:
            msgspec.DecodeError: it is no JSON.
        """
        if self._data is msgspec.UNSET:
            self._data = _decode(self.raw)
        return self._data
