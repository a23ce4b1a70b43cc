"""The standard streams: always open, never the cause of an encoding error, and UTF-8 for programs."""

import codecs
import io
import os
import sys
from typing import Final, TextIO

_STREAMS: Final = ("stdin", "stdout", "stderr")
"""By their file descriptors."""


class OutputClosed(Exception):
    """The reader of stdout has closed it."""


class OutputFailed(Exception):
    """Stdout cannot be written, such as to a full disk."""


class Output(io.TextIOWrapper):
    """Stdout, with errors that differ from those of other files.

    `write` and `flush` raise OutputClosed or OutputFailed. Later output is discarded: Python would report an error when
    it flushes at exit.
    """

    def write(self, text: str, /) -> int:
        """Write *text*."""
        try:
            return super().write(text)
        except OSError as error:
            raise self._lost(error) from error

    def flush(self) -> None:
        """Write out what is buffered."""
        try:
            super().flush()
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> Exception:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        if isinstance(error, BrokenPipeError):
            return OutputClosed()
        return OutputFailed(f"the output cannot be written: {error.strerror}")


def prepare() -> None:
    """Open the standard streams that are closed, and have stdin and stdout replace what their encoding lacks.

    A closed stream (`penstock … >&-`) becomes the null device. Its descriptor would else be that of the next file that
    is opened, and a database would receive what is printed. Python's stderr escapes what its encoding lacks already.
    """
    for number, name in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It gets the lowest number that is free: this one.
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and not isinstance(stdout, Output):
        encoding, by_line, at_once = stdout.encoding, stdout.line_buffering, stdout.write_through
        sys.stdout = Output(stdout.detach(), encoding, "replace", None, by_line, at_once)


def utf8(stream: TextIO) -> TextIO:
    """Return *stream*, which writes UTF-8 from now on, in any locale.

    Use it for output to programs, such as JSON (RFC 8259, 8.1): they do not know the locale.
    """
    if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
        stream.reconfigure(encoding="utf-8", errors="replace")
    return stream
