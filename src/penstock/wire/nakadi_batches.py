"""The lines of a subscription's stream, as its consumers read them (digest of Nakadi's contract, 5.6).

An event is not looked into: it is handed on byte for byte as it came.
"""

from typing import Final

import msgspec

_NEWS: Final = ("Stream started", "skipped events")
"""With these begins what is said at the beginning of a stream, rather than at its end."""


class BatchCursor(msgspec.Struct, gc=False):
    """A cursor as a server sends it, and as it is given back."""

    partition: str
    offset: str
    event_type: str
    cursor_token: str = ""


class BatchInfo(msgspec.Struct, gc=False, omit_defaults=True):
    """What a server says beside a batch."""

    debug: str | None = None
    offsets: list[int] | None = None
    """Those of the events, where these do not follow each other up to the cursor's: a member of our own."""


class BatchLine(msgspec.Struct, gc=False):
    """One line of a stream: a batch; or, without events, a sign of life, or why the stream ends."""

    cursor: BatchCursor
    events: list[msgspec.Raw] | None = None
    info: BatchInfo | None = None

    @property
    def debug(self) -> str | None:
        """What the server says beside it."""
        return None if self.info is None else self.info.debug

    @property
    def reason(self) -> str | None:
        """Why the stream ends, where this line says so.

        >>> BATCHES.decode(
        ...     b'{"cursor":{"partition":"0","offset":"001-0001--1","event_type":"a"},"info":{"debug":"Time is up"}}'
        ... ).reason
        'Time is up'
        """
        return None if self.events or not self.debug or self.debug.startswith(_NEWS) else self.debug


BATCHES: Final = msgspec.json.Decoder(BatchLine)
