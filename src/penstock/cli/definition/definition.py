"""Definitions of event types as files hold them, turned into Nakadi's shape."""

import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.cli.definition.bundle import Bundle, bundled
from penstock.cli.definition.document import Document, FileLine, Unreadable, json_document, yaml_documents
from penstock.cli.definition.openapi import why_no_schema
from penstock.client.registry import fill_definition
from penstock.schema.guidelines.rules import GuidelineFinding
from penstock.schema.traversal import Pointer

STDIN: Final = "-"
_JSON: Final = frozenset([".json"])
_SCHEMA_TYPES: Final = ("json_schema", "avro_schema")
_STEP: Final = re.compile(r"\[(.*)\]$|([^.\[]+)")


@dataclass(frozen=True, slots=True)
class Definition:
    """An event type's definition, and where each part of it stands."""

    value: dict[str, Any]
    """In Nakadi's shape, with what a hub insists on filled in."""
    document: Document
    at: Pointer
    """Where it stands in the document."""
    bundle: Bundle | None = None
    """Its schema, where that was taken out of another document."""
    is_inline: bool = False
    """Whether its schema is an object in the definition itself."""

    @property
    def name(self) -> str:
        """The event type's name; where it has none, what to call it."""
        name = self.value.get("name")
        return name if isinstance(name, str) and name else "(without a name)"

    @property
    def place(self) -> FileLine:
        """Where it begins."""
        return self.document.place(self.at)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of its schema on the way."""
        return self.bundle.left_out if self.bundle else ()

    def found_at(self, finding: GuidelineFinding) -> FileLine:
        """Return where *finding* was found."""
        at = _steps(finding.pointer)
        if finding.within == "definition":
            return self.document.place(self.at + at)
        if self.bundle is not None:
            return self.bundle.place(at)
        return self.document.place((*self.at, "schema", *(at if self.is_inline else ("schema",))))

    def field_at(self, field: str) -> FileLine:
        """Return where a field is that an error names as in `options.retention_time` or `annotations[team/owner]`."""
        return self.document.place(self.at + tuple(bracketed or plain for bracketed, plain in _STEP.findall(field)))


def definitions(files: Iterable[Path]) -> tuple[list[Definition], list[Unreadable]]:
    """Return all definitions that *files* hold, in their order, and what is wrong with those that cannot be read.

    A file holds one definition, a list of them, or, in YAML, several documents. `-` is stdin.

    Raises:
        OSError: a file that was named cannot be read; what it refers to is another matter.
    """
    library = Library()
    found: list[Definition] = []
    wrong: list[Unreadable] = []
    for file in files:
        try:
            documents = library.documents(file)
        except Unreadable as error:
            wrong.append(error)
            continue
        for document in documents:
            if document.value == []:
                wrong.append(Unreadable(document.place(()), "it defines no event type: the list is empty"))
            for at, value in _each(document):
                try:
                    found.append(_definition(value, document, at, library))
                except Unreadable as error:
                    wrong.append(error)
    return found, wrong


class Library:
    """The documents that files hold; each file is read once."""

    def __init__(self) -> None:
        self._known: dict[Path, list[Document]] = {}

    def documents(self, file: Path) -> list[Document]:
        """Return the documents that *file* holds.

        Raises:
            OSError: it cannot be read.
            Unreadable: it is neither YAML nor JSON, or holds nothing.
        """
        if file not in self._known:
            self._known[file] = _documents(file)
        return self._known[file]

    def opened(self, file: Path, place: FileLine) -> Document:
        """Return the first document of *file*, to which *place* refers.

        Raises:
            Unreadable: it is not there, or is no document.
        """
        try:
            return self.documents(Path(os.path.normpath(file)))[0]
        except OSError as error:
            raise Unreadable(place, f"{file} cannot be read: {error.strerror}") from None


def _documents(file: Path) -> list[Document]:
    is_stdin = str(file) == STDIN
    name = "<stdin>" if is_stdin else str(file)
    raw = sys.stdin.buffer.read() if is_stdin else file.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(FileLine(name, line), f"not UTF-8: byte {raw[error.start]:02X}") from None
    is_json = file.suffix.lower() in _JSON or (is_stdin and text.lstrip()[:1] in ("{", "["))
    found = [json_document(text, name)] if is_json else yaml_documents(text, name)
    if not found:
        raise Unreadable(FileLine(name, 1), "it is empty: a definition of an event type is wanted")
    return found


def _each(document: Document) -> list[tuple[Pointer, Any]]:
    if isinstance(document.value, list):
        return [((str(number),), value) for number, value in enumerate(document.value)]
    return [((), document.value)]


def _definition(value: Any, document: Document, at: Pointer, library: Library) -> Definition:
    if not isinstance(value, dict):
        raise Unreadable(document.place(at), "a definition of an event type is an object, with `name`, `category` …")
    given = value.get("schema")
    place = document.place((*at, "schema"))
    reference = _reference(given)
    bundle = None if reference is None else bundled(reference, document, place, library.opened)
    is_inline = bundle is None and isinstance(given, dict) and given.get("type") not in _SCHEMA_TYPES
    if bundle is not None or is_inline:
        value = value | {"schema": _as_text(bundle.schema if bundle else given)}
    elif isinstance(given, str):
        value = value | {"schema": {"type": "json_schema", "schema": given}}
    elif isinstance(given, dict) and isinstance(given.get("schema"), dict):
        value = value | {"schema": given | {"schema": _as_text(given["schema"])["schema"]}}
    if bundle is None and (reason := why_no_schema(_said(value.get("schema")))):
        raise Unreadable(place, f"the schema {reason}")
    return Definition(fill_definition(value), document, at, bundle, is_inline)


def _reference(given: Any) -> str | None:
    """Return the reference that a definition gives in the place of a schema, None where it gives something else."""
    if isinstance(given, str):
        return None if given.lstrip()[:1] == "{" else given
    if isinstance(given, dict) and given.keys() == {"$ref"} and isinstance(given["$ref"], str):
        return given["$ref"]
    return None


def _said(schema: Any) -> Any:
    """Return what the text of a schema says; None where it is none, of which the check has more to say."""
    try:
        return json.loads(schema["schema"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _as_text(schema: Any) -> dict[str, str]:
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return {"type": "json_schema", "schema": text}


def _steps(pointer: str) -> Pointer:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
