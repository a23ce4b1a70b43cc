"""A place in a file of lines, as checkpoints keep it."""

import zlib
from typing import Final, NamedTuple

from penstock.errors import BadParameter

MARKED_BYTES: Final = 1024
"""So many bytes before a place tell whether it is still in the file in which it was. Marks that are kept hang on it."""


class LinePlace(NamedTuple):
    """Where a line begins."""

    offset: int = 0
    """In bytes; of what is compressed, in those that come out of it."""
    lines: int = 0
    """How many lines are before it."""
    mark: int | None = None
    """What the bytes right before it come to, at most `MARKED_BYTES`; None: that is not known."""

    def after(self, line: bytes) -> "LinePlace":
        """Return the place behind a line.

        >>> LinePlace(10, 2).after(b"abc")
        LinePlace(offset=13, lines=3, mark=None)
        """
        return LinePlace(self.offset + len(line), self.lines + 1)

    def behind(self, before: bytes) -> "LinePlace":
        """Return the place with the mark of the bytes right before it."""
        return self._replace(mark=mark_of(before))

    def encode(self) -> str:
        """Return the text that is kept: `1024:17#907060870`.

        >>> LinePlace(5, 1).behind(b"hello").encode(), LinePlace().behind(b"").encode()
        ('5:1#907060870', '0:0#0')
        """
        return f"{self.offset}:{self.lines}#{'' if self.mark is None else self.mark}"

    @classmethod
    def decode(cls, text: str) -> "LinePlace":
        """Read what was kept. One without a mark is taken as it is: `1024:17`.

        Raises:
            BadParameter: it is not one of ours.

        >>> LinePlace.decode("1024:17#5"), LinePlace.decode("1024:17#").mark
        (LinePlace(offset=1024, lines=17, mark=5), None)
        """
        place, _, mark = text.partition("#")
        offset, _, lines = place.partition(":")
        if not (offset.isdecimal() and lines.isdecimal() and (not mark or mark.isdecimal())):
            allowed = "OFFSET:LINES#MARK of a file, such as 1024:17#907060870; 0:0#0 is its beginning"
            raise BadParameter(parameter="position", value=text, allowed=allowed)
        return cls(int(offset), int(lines), int(mark) if mark else None)


def mark_of(before: bytes) -> int:
    """Return what the last of the bytes before a place come to.

    >>> mark_of(b"") == 0, mark_of(b"x" * 2_000) == mark_of(b"x" * 1_024)
    (True, True)
    """
    return zlib.crc32(before[-MARKED_BYTES:])
