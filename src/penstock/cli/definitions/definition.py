"""Definitions of event types as files hold them, turned into Nakadi's shape.

A definition may refer to a schema in another document. The schema is bundled then, with all that it refers to: its
references lead to its own `definitions`.
"""

import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.cli.definitions.document import Document, FileLine, Unreadable, json_document, yaml_documents
from penstock.cli.definitions.openapi import WHY_LEFT_OUT, Plain, dialect_of, why_no_schema
from penstock.client.registry import fill_definition
from penstock.schema.guidelines.rules import GuidelineFinding
from penstock.schema.traversal import MISSING, Pointer, Schema, children, format_pointer, steps, target

STDIN: Final = "-"
_JSON: Final = frozenset([".json"])
_SCHEMA_TYPES: Final = ("json_schema", "avro_schema")
_STEP: Final = re.compile(r"\[(.*)\]$|([^.\[]+)")
_CHAIN_MAX: Final = 100
_LEFT_OUT_SHOWN_MAX: Final = 3
_CARRIED: Final = frozenset(["definitions", "$defs"])
"""Keywords whose schemas come along only if something refers to them."""
_NULLABLE: Final = ["object", "null"]
"""The type of an object with OpenAPI's `nullable`."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")

Opening = Callable[[Path, FileLine], Document]
"""Returns the document in a file, to which a place refers."""


class Origin(NamedTuple):
    """The place of a schema in a document."""

    document: Document
    at: Pointer


@dataclass(frozen=True, slots=True)
class Bundle:
    """A schema that refers to nothing outside of itself, with the places of its parts."""

    schema: Schema
    origin: Origin
    carried: Mapping[str, Origin]
    """The origin of each of its `definitions`."""
    left_out: tuple[str, ...]
    """Sentences about words that JSON Schema lacks."""

    def place(self, at: Pointer) -> FileLine:
        """Return the line from which the value at *at* comes, or from which its parent does."""
        origin = self.origin
        if at[:1] == ("definitions",) and at[1:2] and at[1] in self.carried:
            origin, at = self.carried[at[1]], at[2:]
        return origin.document.place(origin.at + at)


@dataclass(frozen=True, slots=True)
class Definition:
    """An event type's definition, and where each part of it stands."""

    value: dict[str, Any]
    """The definition in Nakadi's shape, with the members filled in on which a hub insists."""
    document: Document
    at: Pointer
    """The definition's place in the document."""
    bundle: Bundle | None = None
    """Its schema, if that was taken out of another document."""
    is_inline: bool = False
    """True if its schema is an object in the definition itself."""

    @property
    def name(self) -> str:
        """The event type's name, or a text that says that there is none."""
        name = self.value.get("name")
        return name if isinstance(name, str) and name else "(without a name)"

    @property
    def place(self) -> FileLine:
        """The line on which it begins."""
        return self.document.place(self.at)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about words that were left out of its schema."""
        return self.bundle.left_out if self.bundle else ()

    def find_line(self, finding: GuidelineFinding) -> FileLine:
        """Return the line of *finding*."""
        at = _split_pointer(finding.pointer)
        if finding.within == "definition":
            return self.document.place(self.at + at)
        if self.bundle is not None:
            return self.bundle.place(at)
        return self.document.place((*self.at, "schema", *(at if self.is_inline else ("schema",))))

    def field_at(self, field: str) -> FileLine:
        """Return the line of a field that an error names, as `options.retention_time` or `annotations[team/owner]`."""
        return self.document.place(self.at + tuple(bracketed or plain for bracketed, plain in _STEP.findall(field)))


def read_definitions(files: Iterable[Path]) -> tuple[list[Definition], list[Unreadable]]:
    """Return all definitions that *files* hold, in their order, and the errors of those that cannot be read.

    A file holds one definition, a list of them, or, in YAML, several documents. `-` is stdin.

    Raises:
        OSError: one of *files* cannot be read. A file that a definition refers to is an Unreadable instead.
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
            for at, value in _list_values(document):
                try:
                    found.append(_make_definition(value, document, at, library))
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
            OSError: the file cannot be read.
            Unreadable: the file is neither YAML nor JSON, or is empty.
        """
        if file not in self._known:
            self._known[file] = _read_documents(file)
        return self._known[file]

    def open_document(self, file: Path, place: FileLine) -> Document:
        """Return the first document of *file*, to which *place* refers.

        Raises:
            Unreadable: the file cannot be read, or holds no document.
        """
        if "\0" in str(file):
            raise Unreadable(place, f"{str(file)!r} cannot be read: no name of a file has a NUL")
        try:
            return self.documents(Path(os.path.normpath(file)))[0]
        except OSError as error:
            raise Unreadable(place, f"{file} cannot be read: {error.strerror}") from None


def _read_documents(file: Path) -> list[Document]:
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


def _list_values(document: Document) -> list[tuple[Pointer, Any]]:
    if isinstance(document.value, list):
        return [((str(number),), value) for number, value in enumerate(document.value)]
    return [((), document.value)]


def _make_definition(value: Any, document: Document, at: Pointer, library: Library) -> Definition:
    if not isinstance(value, dict):
        raise Unreadable(document.place(at), "a definition of an event type is an object, with `name`, `category` …")
    given = value.get("schema")
    place = document.place((*at, "schema"))
    reference = _find_reference(given)
    bundle = None if reference is None else bundle_schema(reference, document, place, library.open_document)
    is_inline = bundle is None and isinstance(given, dict) and given.get("type") not in _SCHEMA_TYPES
    if bundle is not None or is_inline:
        value = value | {"schema": _as_text(bundle.schema if bundle else given)}
    elif isinstance(given, str):
        value = value | {"schema": {"type": "json_schema", "schema": given}}
    elif isinstance(given, dict) and isinstance(given.get("schema"), dict):
        value = value | {"schema": given | {"schema": _as_text(given["schema"])["schema"]}}
    if bundle is None and (reason := why_no_schema(_parse_schema(value.get("schema")))):
        raise Unreadable(place, f"the schema {reason}")
    return Definition(fill_definition(value), document, at, bundle, is_inline)


def _find_reference(given: Any) -> str | None:
    """Return the reference that stands in the place of a schema; None if something else does."""
    if isinstance(given, str):
        return None if given.lstrip()[:1] == "{" else given
    if isinstance(given, dict) and given.keys() == {"$ref"} and isinstance(given["$ref"], str):
        return given["$ref"]
    return None


def _parse_schema(schema: Any) -> Any:
    """Return the value of a schema's text; None if it is malformed, which the check reports."""
    try:
        return json.loads(schema["schema"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _as_text(schema: Any) -> dict[str, str]:
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return {"type": "json_schema", "schema": text}


def _split_pointer(pointer: str) -> Pointer:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def bundle_schema(reference: str, home: Document, place: FileLine, open_document: Opening) -> Bundle:
    """Return the schema to which *reference* leads, as in `openapi.yaml#/components/schemas/Order`.

    Args:
        reference: A file, relative to that of *home*, and a JSON pointer behind `#`; either can be missing.
        home: The document that holds the reference.
        place: The line of the reference.
        open_document: Opens the document in a file.

    Raises:
        Unreadable: the reference leads nowhere, out of the file system, to a value that is no schema, or to a schema
            of events that may be null.
    """
    bundling = _Bundling(open_document)
    origin = bundling.end(reference, home, place)
    return bundling.bundle(origin)


class _Bundling:
    def __init__(self, open_document: Opening) -> None:
        self._open_document = open_document
        self._names: dict[tuple[str, Pointer], str | None] = {}
        self._carried: dict[str, Origin] = {}
        self._waiting: list[str] = []
        self._left_out: defaultdict[str, list[str]] = defaultdict(list)

    def bundle(self, origin: Origin) -> Bundle:
        self._names[origin.document.file, origin.at] = None  # It is the root, to which `#` leads.
        schema: Schema = self._convert(_value_at(origin), origin)
        if schema.get("type") == _NULLABLE and "nullable" in _value_at(origin):
            place = origin.document.place((*origin.at, "nullable"))
            raise Unreadable(place, "an event is never null: take `nullable` out at the root of its schema")
        if dialect := dialect_of(origin.document.value):
            schema = {"$schema": dialect[1], **schema} if dialect[1] else schema
        definitions: Schema = {}
        while self._waiting:
            name = self._waiting.pop(0)
            definitions[name] = self._convert(_value_at(self._carried[name]), self._carried[name])
        if definitions:
            schema["definitions"] = definitions
        told = tuple(_describe_left_out(word, places) for word, places in sorted(self._left_out.items()))
        return Bundle(schema, origin, self._carried, told)

    def end(self, reference: str, home: Document, place: FileLine) -> Origin:
        """Return the schema at the end of the chain of references that begins with *reference*.

        Raises:
            Unreadable: it leads nowhere, in a circle, or to a value that is no schema.
        """
        for _ in range(_CHAIN_MAX):
            origin = self._follow(reference, home, place)
            value = _value_at(origin)
            if not isinstance(value, dict):
                raise Unreadable(place, f"{reference!r} leads to what is no schema")
            if not isinstance(value.get("$ref"), str) or len(value) > 1:
                return origin
            reference, home, place = value["$ref"], origin.document, origin.document.place(origin.at)
        raise Unreadable(place, f"{reference!r} leads from one reference to the next without end")

    def _follow(self, reference: str, home: Document, place: FileLine) -> Origin:
        file, _, fragment = reference.partition("#")
        if "://" in file:
            raise Unreadable(place, f"{reference!r} is on another machine, where nothing is fetched from: copy it here")
        if fragment and not fragment.startswith("/"):
            raise Unreadable(place, f"{reference!r} has no JSON pointer behind `#`: it begins with `/`")
        document = self._open_document(Path(home.file).parent / file, place) if file else home
        if target(document.value, f"#{fragment}") is MISSING:
            raise Unreadable(place, f"{reference!r} leads to nothing in {document.file}")
        at = steps(f"#{fragment}")
        if reason := why_no_schema(document.value, at, file):
            raise Unreadable(place, f"{reference!r} {reason}")
        return Origin(document, at)

    def _convert(self, node: Any, origin: Origin) -> Any:
        """Return the schema *node* as it is in the bundle, with all schemas within."""
        if not isinstance(node, dict):
            return node
        dialect = dialect_of(origin.document.value)
        plain = dialect[0](node) if dialect else Plain(node, [])
        for word in plain.left_out:
            self._left_out[word].append(f"{origin.document.file}{format_pointer(origin.at)}")
        schema = {word: value for word, value in plain.schema.items() if word not in _CARRIED}
        if isinstance(reference := schema.get("$ref"), str):
            schema["$ref"] = self._carry(reference, origin)
        for way, child in children(schema):
            turned = self._convert(child, Origin(origin.document, origin.at + way))
            keyword, *rest = way
            schema[keyword] = _replace_child(schema[keyword], rest[0], turned) if rest else turned
        return schema

    def _carry(self, reference: str, origin: Origin) -> str:
        """Return *reference* as it is in the bundle, and carry its schema along."""
        found = self._follow(reference, origin.document, origin.document.place(origin.at))
        key = found.document.file, found.at
        if key not in self._names:
            name = self._free_name(_UNSAFE.sub("_", found.at[-1] if found.at else Path(found.document.file).stem))
            self._names[key] = name
            self._carried[name] = found
            self._waiting.append(name)
        known = self._names[key]
        return "#" if known is None else format_pointer(("definitions", known))

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._carried:
            number += 1
            name = f"{wanted}_{number}"
        return name


def _value_at(origin: Origin) -> Any:
    value = origin.document.value
    for step in origin.at:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def _replace_child(held: Any, step: str, value: Any) -> Any:
    if isinstance(held, dict):
        return held | {step: value}
    return [value if number == int(step) else each for number, each in enumerate(held)]


def _describe_left_out(word: str, places: list[str]) -> str:
    why = f" ({WHY_LEFT_OUT[word]})" if word in WHY_LEFT_OUT else ""
    more = f" and {len(places) - _LEFT_OUT_SHOWN_MAX} more" if len(places) > _LEFT_OUT_SHOWN_MAX else ""
    return f"`{word}` is left out{why}: {', '.join(places[:_LEFT_OUT_SHOWN_MAX])}{more}"
