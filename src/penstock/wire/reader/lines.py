"""The lines of a feed: events and cursors, as ZeroEventHub and FeedAPI servers send them.

Bytes come in as the network cuts them. Whole lines are decoded together, each once; an event's `data` is not looked
into. Lines of kinds that are not known are passed over, as FeedAPI asks of its clients.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

from penstock.errors import ConnectionLost
from penstock.wire.exchange import malformed

_MISSING: Final = msgspec.Raw(b"")
_BOM: Final = b"\xef\xbb\xbf"


class Line(msgspec.Struct, gc=False):
    """One line. Only `data` and `cursor` say what it is; a line that has neither is of a kind that is not known."""

    # Any: whatever these hold on a line of an unknown kind must not stop the feed.
    partition: Any = None
    headers: Any = None
    data: msgspec.Raw = _MISSING
    cursor: Any = None

    @property
    def is_event(self) -> bool:
        """Whether the line carries an event."""
        return len(memoryview(self.data)) > 0


AnyLine = TypeVar("AnyLine")
OF_FEED: Final = msgspec.json.Decoder(Line)


class LineReader(Generic[AnyLine]):
    """Turns the chunks of one answer into lines.

    Memory: it holds no more than the line that has begun but not ended.
    """

    def __init__(self, url: str, decoder: msgspec.json.Decoder[AnyLine]) -> None:
        self._url = url
        self._decoder = decoder
        self._begun: list[bytes] = []
        self._line_count = 0
        """Lines that have been decoded, so that an error can name its line."""

    def feed(self, chunk: bytes) -> list[AnyLine]:
        """Return the lines that *chunk* completes.

        Raises:
            MalformedAnswer: a line is not a JSON object.
        """
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._begun.append(chunk)
            return []
        block = b"".join([*self._begun, chunk[:end]])
        self._begun = [chunk[end:]] if end < len(chunk) else []
        return self._decode(block)

    def finish(self) -> list[AnyLine]:
        """Return the last line, where no line break ended it.

        Raises:
            ConnectionLost: the answer broke off in the middle of a line.
        """
        block, self._begun = b"".join(self._begun), []
        if not block.strip():
            return []
        try:
            return [self._decoder.decode(block)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConnectionLost(url=self._url, reason="it broke off in the middle of a line") from error

    def _decode(self, block: bytes) -> list[AnyLine]:
        if not self._line_count and block.startswith(_BOM):
            block = block[len(_BOM) :]
        try:
            lines: list[AnyLine] = self._decoder.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._refuse(block)
            raise
        self._line_count += block.count(b"\n")
        return lines

    def _refuse(self, block: bytes) -> None:
        """Find the line that cannot be decoded, and say so."""
        for number, line in enumerate(block.split(b"\n"), self._line_count + 1):
            try:
                if line.strip():
                    self._decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise malformed(self._url, f"line {number} is not a JSON object: {line[:80]!r} ({error})") from error
