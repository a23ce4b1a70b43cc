"""Reads JSON, strictly, and keeps the line on which each value stands."""

import json
import math
import re
from typing import Any, Final

from penstock.cli.definition.document import Document, FileLine, Unreadable
from penstock.schema.traversal import Pointer

LEVELS_MAX: Final = 200

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]{0,300}))(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![0-9.])")
_LITERALS: Final = {"true": True, "false": False, "null": None}


def json_document(text: str, file: str) -> Document:
    """Return the value that *text* is.

    Raises:
        Unreadable: it is no JSON, holds a key twice, half a surrogate pair, or a number that is too large.
    """
    reading = _Reading(text, file)
    return Document(file, reading.whole(), reading.lines)


class _Reading:
    def __init__(self, text: str, file: str) -> None:
        self.lines: dict[Pointer, int] = {}
        self._text = text
        self._file = file
        self._at = 0
        self._counted = (0, 1)

    def whole(self) -> Any:
        self._skip_space()
        value = self._value(())
        self._skip_space()
        if self._at < len(self._text):
            raise self._wrong("a file of JSON holds one value: several definitions go into a list")
        return value

    def _value(self, at: Pointer) -> Any:
        if len(at) > LEVELS_MAX:
            raise self._wrong(f"nested too deeply: {LEVELS_MAX} levels are allowed")
        self.lines.setdefault(at, self._line())
        match self._next():
            case "{":
                return self._object(at)
            case "[":
                return self._array(at)
            case '"':
                return self._string()
        return self._literal()

    def _object(self, at: Pointer) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._goes_on("}", is_first=not found):
            if self._next() != '"':
                raise self._wrong("a key in double quotes is wanted here")
            line = self._line()
            key = self._string()
            within = (*at, key)
            if key in found:
                first = self.lines[within]
                raise Unreadable(FileLine(self._file, line), f"the key {key!r} stands twice, first on line {first}")
            self.lines[within] = line
            self._take(":")
            found[key] = self._value(within)
        return found

    def _array(self, at: Pointer) -> list[Any]:
        found: list[Any] = []
        while self._goes_on("]", is_first=not found):
            found.append(self._value((*at, str(len(found)))))
        return found

    def _goes_on(self, end: str, *, is_first: bool) -> bool:
        """Step into an object or array, or behind its next comma; tell whether anything follows."""
        if is_first:
            self._at += 1
        self._skip_space()
        if self._next() == end:
            self._at += 1
            return False
        if not is_first:
            self._take(",")
        return True

    def _string(self) -> str:
        if (match := _STRING.match(self._text, self._at)) is None:
            raise self._wrong("a text begins here that has no end")
        try:
            text: str = json.loads(match[0])
            text.encode()
        except json.JSONDecodeError as error:
            raise self._wrong(f"a text holds an escape or a control character that it must not: {error.msg}") from None
        except UnicodeEncodeError:
            raise self._wrong("a text holds half of a surrogate pair, which is no character") from None
        self._at = match.end()
        return text

    def _literal(self) -> bool | float | None:
        for word, value in _LITERALS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        if (match := _NUMBER.match(self._text, self._at)) is None:
            shown = self._text[self._at : self._at + 20].partition("\n")[0]
            raise self._wrong(f"a value is wanted here, not {shown!r}" if shown else "it ends in the middle")
        number = int(match[1]) if match[2] is None and match[3] is None else float(match[0])
        if not math.isfinite(number):
            raise self._wrong(f"the number {match[0][:80]} is larger than JSON readers can hold")
        self._at = match.end()
        return number

    def _take(self, wanted: str) -> None:
        self._skip_space()
        if self._next() != wanted:
            got = repr(self._next()) if self._next() else "the end"
            raise self._wrong(f"{wanted!r} is wanted here, not {got}")
        self._at += 1
        self._skip_space()

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match  # It matches nothing, too.
        self._at = match.end()

    def _line(self) -> int:
        """Return the line of what is next, counting on from where it was asked for last."""
        at, line = self._counted
        self._counted = self._at, line + self._text.count("\n", at, self._at)
        return self._counted[1]

    def _wrong(self, reason: str) -> Unreadable:
        return Unreadable(FileLine(self._file, self._text.count("\n", 0, self._at) + 1), f"not valid JSON: {reason}")
