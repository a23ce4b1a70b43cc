"""An event as a handler is given it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

_decode: Final = msgspec.json.Decoder().decode
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode
APART: Final = "+parked-"
"""Behind a numbering: it is that of events of a subscription that were parked, and are sent again."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StreamEvent(msgspec.Struct, gc=False):
    """An event of a stream."""

    stream: str
    """The stream's name: `order.placed-7`."""
    index: int
    """Its place in the stream: larger than that of the event before, where both have one `numbering`. Where it is from
    a feed, it is its offset."""
    kind: str
    """What it says happened: the glossary's *kind*."""
    raw: bytes
    """Its JSON, byte for byte."""
    key: str | None = None
    _headers: str | None = None
    """A JSON object."""
    tranche: str = ""
    """Where it was read: of a feed, `order.placed/3`."""
    received: int | None = None
    """When the hub took it, in microseconds since 1970; None: nobody has said."""
    numbering: str = ""
    """What numbers its stream's events: of a feed, the partition in its epoch, `order.placed/3@1`.

    Indices say what comes after what within one numbering. Empty: the stream itself, wherever its events are read."""
    _data: Any = msgspec.UNSET

    @property
    def next(self) -> int:
        """The least index that the event behind it can have."""
        return self.index + 1

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher has said beside it."""
        return {} if self._headers is None else _decode_headers(self._headers)

    @property
    def received_at(self) -> datetime | None:
        """When the hub took it; None: nobody has said."""
        return None if self.received is None else _EPOCH + timedelta(microseconds=self.received)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The event's metadata: eid, occurred_at and what else there is; empty where it has none."""
        found = self.data.get("metadata") if isinstance(self.data, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def data(self) -> Any:
        """The event, decoded when it is first asked for.

        Raises:
            msgspec.DecodeError: it is no JSON.
        """
        if self._data is msgspec.UNSET:
            self._data = _decode(self.raw)
        return self._data
