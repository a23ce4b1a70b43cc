"""Events out of lines of JSON."""

from typing import Any, Final

import msgspec

from penstock.errors import EventUnusable, InvalidRecord
from penstock.processing.fields import FieldReader, Fields
from penstock.processing.sources.line_file import Line
from penstock.processing.stream_event import StreamEvent

KIND: Final = "event"
"""What happened, where nobody says it."""
_TEXTS: Final = ((str, int), "a text or a whole number")
_decode: Final = msgspec.json.Decoder().decode


class LineEvents:
    """Makes events of the lines of files.

    Args:
        stream: The fields whose values, with dashes between them, are the stream's name; or a function of the decoded
            line.
        kind: Likewise, for the event's kind; None: all are of the kind `event`.

    Raises:
        BadParameter: there are no such fields.
    """

    def __init__(self, stream: Fields, kind: Fields | None) -> None:
        self._stream = FieldReader(stream, _TEXTS, "stream")
        self._kind = None if kind is None else FieldReader(kind, _TEXTS, "kind")

    def event(self, line: Line, file: str) -> StreamEvent:
        """Return the event of a line. Its index is the byte at which the line begins.

        Raises:
            InvalidRecord: it is no JSON, or nobody can tell its stream or its kind; names the file and the line.
        """
        try:
            data = _decode(line.raw)
            stream = _text(self._stream, data)
            kind = KIND if self._kind is None else _text(self._kind, data)
        except EventUnusable as error:
            reason = str(error.reason)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = f"not valid JSON: {error}"
        except Exception as error:
            raise InvalidRecord.of(
                "invalid-line", file=file, line=line.place.lines + 1, reason=f"{type(error).__name__}: {error}"
            ) from error
        else:
            return StreamEvent(stream, line.place.offset, kind, line.raw, tranche=file, numbering=file, _data=data)
        raise InvalidRecord.of("invalid-line", file=file, line=line.place.lines + 1, reason=reason)


def _text(reader: FieldReader, data: Any) -> str:
    return "-".join(map(str, reader.read(data, data, 0, None)))
