"""Reads YAML as its version 1.2 says, for what JSON can say.

What the libraries read is version 1.1, where `on:` is a key that is true, `no` is false, and 2024-01-01 is a date. Here
they are texts; keys are always texts; a key that stands twice is refused, and so is what JSON has no form for. Anchors,
aliases and merges (`<<`) work, up to a size.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from penstock.cli.definition.document import Document, FileLine, Unreadable
from penstock.schema.traversal import Pointer

VALUES_MAX: Final = 200_000
"""A document holds at most so many values, those counted again that aliases repeat."""
LEVELS_MAX: Final = 200

_TAG: Final = "tag:yaml.org,2002:"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_PLAIN: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MERGE: Final = "<<"


def yaml_documents(text: str, file: str) -> list[Document]:
    """Return the documents of *text*, but for empty ones.

    Raises:
        Unreadable: it is no YAML, or says what JSON cannot.
    """
    try:
        documents = list(_Reading(text, file).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(FileLine(file, mark.line + 1 if mark else 1), f"not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(FileLine(file, line), f"not valid YAML: {error.reason}") from None
    return [document for document in documents if document.value is not None]


class _Reading:
    def __init__(self, text: str, file: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, _LOADER)
        self._file = file
        self._lines: dict[Pointer, int] = {}
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._size = 0

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._lines, self._anchors, self._size = {}, {}, 0
                first = next(self._events)
                self._lines[()] = _line(first)
                yield Document(self._file, self._value(first, ()), self._lines)

    def _value(self, event: Any, at: Pointer) -> Any:
        if len(at) > LEVELS_MAX:
            raise self._wrong(event, f"nested too deeply: {LEVELS_MAX} levels are allowed")
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event)
        anchor, before = event.anchor, self._size
        if anchor is not None:
            self._anchors[anchor] = None
        value = self._read(event, at)
        self._count(event, 1)
        if anchor is not None:
            self._anchors[anchor] = value, self._size - before
        return value

    def _read(self, event: Any, at: Pointer) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _TAG + kind):
            raise self._wrong(event, f"the tag {event.tag} is not known here")
        return self._mapping(at) if kind == "map" else self._sequence(at)

    def _repeated(self, event: Any) -> Any:
        if (known := self._anchors.get(event.anchor)) is None:
            why = "refers to what it stands in" if event.anchor in self._anchors else "has no anchor before it"
            raise self._wrong(event, f"the alias *{event.anchor} {why}")
        value, size = known
        self._count(event, size)
        return value

    def _count(self, event: Any, size: int) -> None:
        self._size += size
        if self._size > VALUES_MAX:
            raise self._wrong(event, f"more than {VALUES_MAX} values, with those that aliases repeat")

    def _sequence(self, at: Pointer) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            within = (*at, str(len(found)))
            self._lines[within] = _line(event)
            found.append(self._value(event, within))
        return found

    def _mapping(self, at: Pointer) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._wrong(event, "a key is a text, not a list, an object or an alias")
            if event.value == _MERGE and event.implicit[0]:
                merged = self._merged(next(self._events), at) | merged
                continue
            within = (*at, event.value)
            if event.value in own:
                raise self._wrong(event, f"the key {event.value!r} stands twice, first on line {self._lines[within]}")
            self._unicode(event)
            self._lines[within] = _line(event)
            own[event.value] = self._value(next(self._events), within)
        return merged | own

    def _merged(self, event: Any, at: Pointer) -> dict[str, Any]:
        """Return the members that a merge brings; of several sources the first that has one gives it."""
        value = self._value(event, (*at, _MERGE))
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._wrong(event, "`<<` takes an object, or a list of them, mostly by an alias")
        found: dict[str, Any] = {}
        for source in sources:
            found = source | found
        return found

    def _scalar(self, event: Any) -> Any:
        self._unicode(event)
        text, tag = event.value, event.tag
        is_plain = tag is None and event.implicit[0]
        if tag in (None, "!", f"{_TAG}str") and not is_plain:
            return text
        if text in _PLAIN and tag in (None, _TAG + ("null" if _PLAIN[text] is None else "bool")):
            return _PLAIN[text]
        for form, pattern, read in _NUMBERS:
            if pattern.fullmatch(text) and tag in (None, f"{_TAG}{form}"):
                return self._finite(event, read(text))
        if tag is not None:
            kind = tag.removeprefix(_TAG)
            known = kind in ("null", "bool", "int", "float")
            raise self._wrong(event, f"{text!r} is no !!{kind}" if known else f"the tag {tag} is not known here")
        if _NO_NUMBER.fullmatch(text):
            raise self._wrong(event, f"JSON has no number {text[:80]}; put it in quotes if it is a text")
        return text

    def _finite(self, event: Any, value: float) -> float:
        if value in (float("inf"), float("-inf")):
            raise self._wrong(event, f"the number {event.value[:80]} is larger than JSON readers can hold")
        return value

    def _unicode(self, event: Any) -> None:
        try:
            event.value.encode()
        except UnicodeEncodeError:
            raise self._wrong(event, "a text holds half of a surrogate pair, which is no character") from None

    def _wrong(self, event: Any, reason: str) -> Unreadable:
        return Unreadable(FileLine(self._file, _line(event)), reason)


def _integer(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_NUMBERS: Final[tuple[tuple[str, re.Pattern[str], Callable[[str], int | float]], ...]] = (
    ("int", _INTEGER, _integer),
    ("float", _FLOAT, float),
)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
