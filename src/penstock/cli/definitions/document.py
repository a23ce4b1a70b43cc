"""A document in a file, YAML 1.2 or JSON: its value, as JSON can say it, and the line on which each part of it stands.

PyYAML finds where things stand, in JSON too. By itself it reads YAML 1.1, where `on` is true, `no` is false and
2024-01-01 is a date; it is given the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema). Keys are
texts as they are written. Anchors, aliases and merges (`<<`) work.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

from penstock.schema.traversal import Pointer

VALUES_MAX: Final = 200_000
"""The largest number of values in a document; values that aliases repeat count again."""
LEVELS_MAX: Final = 200

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_CORE: Final = {
    "null": re.compile(r"|~|null|Null|NULL"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]+|0x[0-9a-fA-F]+"),
    "float": re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
    "merge": re.compile("<<"),
}
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes by the core schema."""

    yaml_implicit_resolvers: Mapping[str, Any] = {}


for _kind, _pattern in _CORE.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(f"(?:{_pattern.pattern})$"), None)


class FileLine(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Unreadable(Exception):
    """A file is malformed. The message has the place and a remedy."""

    def __init__(self, place: FileLine, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Document:
    """One of the documents that a file holds; its value is one that JSON can express."""

    file: str
    value: Any
    lines: Mapping[Pointer, int]
    """The line of each value that is a member of something, and of the document itself, counted from 1."""

    def place(self, at: Pointer) -> FileLine:
        """Return the line of the value at *at*, or of its nearest parent if there is no such value."""
        while at not in self.lines and at:
            at = at[:-1]
        return FileLine(self.file, self.lines.get(at, 1))


def yaml_documents(text: str, file: str) -> list[Document]:
    """Return the documents of *text*, but for empty ones.

    Raises:
        Unreadable: *text* is no YAML, or has a value that JSON cannot express.
    """
    documents = [_Reading(file).document(node) for node in _compose(text, file)]
    return [document for document in documents if document.value is not None]


def json_document(text: str, file: str) -> Document:
    """Return the document that *text* is.

    Raises:
        Unreadable: *text* is no JSON, or holds a key twice, half a surrogate pair, or a number that is too large.
    """
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        hint = ": several definitions go into a list" if error.msg == "Extra data" else ""
        raise Unreadable(
            FileLine(file, error.lineno), f"not valid JSON: {error.msg.removesuffix(' at')}{hint}"
        ) from None
    except ValueError as error:
        raise Unreadable(FileLine(file, 1), f"not valid JSON: {error}") from None
    except RecursionError:
        raise _too_deep(FileLine(file, 1)) from None
    texts: list[str] = []

    def number(found: re.Match[str]) -> str:
        texts.append(json.loads(found[0]))
        return f'"{len(texts) - 1}" '

    # Escapes, tabs and long keys mean other things in YAML, so it is given texts by their numbers.
    [node] = _compose(_JSON_TEXT.sub(number, text).replace("\t", " "), file)
    return _Reading(file, texts).document(node)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _compose(text: str, file: str) -> list[Any]:
    try:
        _check_levels(text, file)
        return list(yaml.compose_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(FileLine(file, mark.line + 1 if mark else 1), f"not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(FileLine(file, line), f"not valid YAML: {error.reason}") from None


def _check_levels(text: str, file: str) -> None:
    """Check the depth of *text*, since composing recurses in C.

    Raises:
        Unreadable: it is nested too deeply.
    """
    level = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
            if level > LEVELS_MAX:
                raise _too_deep(FileLine(file, _line(event)))
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1


def _too_deep(place: FileLine) -> Unreadable:
    return Unreadable(place, f"nested too deeply: {LEVELS_MAX} levels are allowed")


class _Reading:
    """Makes a document of the nodes of YAML. With *texts*, each text in it is the number of one of these."""

    def __init__(self, file: str, texts: Sequence[str] | None = None) -> None:
        self._file = file
        self._texts = texts
        self._lines: dict[Pointer, int] = {}
        self._within: set[int] = set()
        self._values = 0

    def document(self, node: Any) -> Document:
        self._lines[()] = _line(node)
        return Document(self._file, self._value(node, ()), self._lines)

    def _value(self, node: Any, at: Pointer) -> Any:
        self._values += 1
        if self._values > VALUES_MAX:
            raise self._wrong(node, f"more than {VALUES_MAX} values, with those that aliases repeat")
        if id(node) in self._within:
            raise self._wrong(node, "an alias refers to what it stands in")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._within.add(id(node))
        kind, read = ("map", self._mapping) if isinstance(node, yaml.MappingNode) else ("seq", self._sequence)
        if node.tag != _TAG + kind:
            raise self._wrong(node, f"the tag {node.tag} is not known here")
        value = read(node, at)
        self._within.discard(id(node))
        return value

    def _sequence(self, node: Any, at: Pointer) -> list[Any]:
        for number, each in enumerate(node.value):
            self._lines[*at, str(number)] = _line(each)
        return [self._value(each, (*at, str(number))) for number, each in enumerate(node.value)]

    def _mapping(self, node: Any, at: Pointer) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                found = self._merge(value, at) | found
        own: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(key, "a key is a text, not a list or an object")
            name = self._text(key)
            if name in own:
                raise self._wrong(key, f"the key {name!r} stands twice, first on line {own[name]}")
            own[name] = self._lines[*at, name] = _line(key)
            found[name] = self._value(value, (*at, name))
        return found

    def _merge(self, node: Any, at: Pointer) -> dict[str, Any]:
        """Return the members that a merge brings; a member comes from the first of several sources that has it."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for source in reversed(sources):
            if not isinstance(source, yaml.MappingNode):
                raise self._wrong(node, "`<<` takes an object, or a list of them, mostly by an alias")
            found |= self._value(source, at)
        return found

    def _scalar(self, node: Any) -> Any:
        text, kind = self._text(node), node.tag.removeprefix(_TAG)
        if kind == "str" or node.tag == _MERGE:
            return text
        if kind not in _CORE:
            raise self._wrong(node, f"the tag {node.tag} is not known here")
        if not _CORE[kind].fullmatch(text):
            raise self._wrong(node, f"{text!r} is no !!{kind}")
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if text[-1] in "fFnN":
            raise self._wrong(node, f"JSON has no number {text}; put it in quotes if it is a text")
        number = float(text)
        if not math.isfinite(number):
            raise self._wrong(node, f"the number {text[:80]} is larger than JSON readers can hold")
        return number

    def _text(self, node: Any) -> str:
        text: str = node.value
        if self._texts is not None and node.tag == f"{_TAG}str":
            text = self._texts[int(text)]
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._wrong(node, "a text holds half of a surrogate pair, which is no character") from None
        return text

    def _wrong(self, node: Any, reason: str) -> Unreadable:
        return Unreadable(FileLine(self._file, _line(node)), reason)


def _line(what: Any) -> int:
    return int(what.start_mark.line) + 1
