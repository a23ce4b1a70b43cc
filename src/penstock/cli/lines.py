"""Reads events from lines: plain JSON objects, or feed lines as `tail --output json` and the hub itself give them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from penstock.core.events.event import NewEvent, check_event
from penstock.core.events.partitioning import key_text
from penstock.errors import EventTooLarge, InvalidEvent
from penstock.schema.json_text import BOM
from penstock.schema.traversal import key_path
from penstock.wire.log.zeroeventhub import parse_line

Form = Literal["auto", "events", "feed"]

_MEMBERS: Final = {"data", "key", "headers", "partition", "cursor"}
_READ_MEMBERS: Final = {"partition", "offset", "received_at"}
"""Each line of `tail` has them; the hub gives the events that are published new ones."""
_split: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode: Final = msgspec.json.Decoder().decode


class EventLines:
    """Turns lines into events, and knows afterwards on which line an event stood.

    Args:
        lines: The lines, with their line breaks.
        form: `events`: each line is an event. `feed`: each is a feed line. `auto`: as the first line is.
        key_field: Path of the field that holds the key of each event; None for no key of its own.
        first: The number of the line to begin with; of those before it, only the form is looked at.
    """

    def __init__(self, lines: Iterable[bytes], form: Form, key_field: str | None = None, first: int = 1) -> None:
        self.byte_count = 0
        """Bytes read so far."""
        self._lines = lines
        self._form = form
        self._first = first
        self._key = _key_of(key_field) if key_field else None
        self._skipped: list[int] = []
        """For each line that held no event: how many events came before it."""
        self._event_count = 0
        self._last = 0

    def __iter__(self) -> Iterator[NewEvent]:
        for number, given in enumerate(self._lines, 1):
            self.byte_count += len(given)
            self._last = number
            if self._form == "auto" and (line := given.removeprefix(BOM).strip()):
                self._form = "feed" if is_feed_line(line) else "events"
            if number < self._first:
                continue
            event = self._event(given, number)
            if event is None:
                self._skipped.append(self._event_count)
                continue
            self._event_count += 1
            yield event

    @property
    def event_count(self) -> int:
        """How many events have been read so far."""
        return self._event_count

    def check_begun(self) -> None:
        """Raise Failure where all lines have been read, and the one to begin with is not even the next one."""
        if self._first > self._last + 1:
            from penstock.cli.failures import CommandFailure

            raise CommandFailure(
                f"there is no line {self._first}: the last one is line {self._last}", "Nothing was published."
            )

    def number(self, event: int) -> int:
        """Return the line on which the event stood that is counted as *event*, from 1."""
        return self._first - 1 + event + sum(1 for before in self._skipped if before < event)

    def _event(self, given: bytes, number: int) -> NewEvent | None:
        line = given.strip()
        if not line:
            return None
        try:
            _check_text(given, self.byte_count - len(given))
            event = _feed_line(line) if self._form == "feed" else NewEvent.of(check_event(line))
            if event is not None and self._key is not None:
                event = NewEvent.of(
                    bytes(event.data), key=self._key(event), headers=event.headers, partition=event.partition
                )
        except (InvalidEvent, EventTooLarge) as error:
            raise type(error).of(error.code, **error.fields | {"line": self._event_count + 1, "at": number}) from error
        return event


def is_feed_line(line: bytes) -> bool:
    """Tell whether *line* is a feed line: nothing but `data` (an object), key, headers, partition and cursor.

    One that `tail` has written has offset and received_at, too.

    >>> is_feed_line(b'{"data": {"a": 1}, "key": "k"}'), is_feed_line(b'{"data": {"a": 1}, "data_op": "C"}')
    (True, False)
    """
    try:
        members = _split(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    more = members.keys() - _MEMBERS
    if more and not (more <= _READ_MEMBERS <= members.keys()):
        return False
    return bytes(members["data"]).startswith(b"{") if "data" in members else "cursor" in members


def _check_text(line: bytes, before: int) -> None:
    """Refuse a *line* whose encoding a JSON library would call malformed; *before* is its offset in the input."""
    if line.startswith(BOM):
        remedy = "take those three bytes out" if before else "`tail -c +4 FILE` gives the file without it"
        reason = f"it begins with a UTF-8 byte order mark (EF BB BF), which is no JSON: {remedy}"
        raise InvalidEvent(line=1, reason=reason)
    try:
        line.decode()
    except UnicodeDecodeError as error:
        at = error.start + 1
        reason = f"byte {at} of the line ({line[error.start]:02X}; byte {before + at} of the input) is not UTF-8"
        raise InvalidEvent(line=1, reason=reason) from None


def _feed_line(line: bytes) -> NewEvent | None:
    given = parse_line(line, 1)
    if given.data:
        return given
    if given.cursor is None:
        raise InvalidEvent(line=1, reason='a feed line is {"data": {...}}, with key, headers and partition as you like')
    return None


def _key_of(field: str) -> Callable[[NewEvent], str]:
    path = key_path(field)

    def key(given: NewEvent) -> str:
        try:
            event: Any = _decode(given.data)
            return key_text(event, path)
        except KeyError:
            raise InvalidEvent(line=1, reason=f"it has no field {field!r}, which is to be its key") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidEvent(line=1, reason=f"not valid JSON: {error}") from error

    return key
