"""A place in a file of lines, as checkpoints keep it."""

from typing import NamedTuple

from penstock.errors import BadParameter


class LinePlace(NamedTuple):
    """Where a line begins."""

    offset: int = 0
    """In bytes; of what is compressed, in those that come out of it."""
    lines: int = 0
    """How many lines are before it."""

    def after(self, line: bytes) -> "LinePlace":
        """Return the place behind a line.

        >>> LinePlace(10, 2).after(b"abc")
        LinePlace(offset=13, lines=3)
        """
        return LinePlace(self.offset + len(line), self.lines + 1)

    def encode(self) -> str:
        """Return the text that is kept: `1024:17`.

        >>> LinePlace(1024, 17).encode()
        '1024:17'
        """
        return f"{self.offset}:{self.lines}"

    @classmethod
    def decode(cls, text: str) -> "LinePlace":
        """Read what was kept.

        Raises:
            BadParameter: it is not one of ours.

        >>> LinePlace.decode("1024:17")
        LinePlace(offset=1024, lines=17)
        """
        offset, _, lines = text.partition(":")
        if not (offset.isdecimal() and lines.isdecimal()):
            raise BadParameter(parameter="position", value=text, allowed="OFFSET:LINES of a file, such as 1024:17")
        return cls(int(offset), int(lines))
