"""Takes one schema out of a document, with all that it refers to: references lead to its own `definitions` then."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.cli.definition.document import Document, FileLine, Unreadable
from penstock.cli.definition.openapi import WHY_LEFT_OUT, Plain, dialect_of, why_no_schema
from penstock.schema.traversal import MISSING, Pointer, Schema, children, format_pointer, steps, target

Opening = Callable[[Path, FileLine], Document]
"""Returns the document in a file, to which a place refers."""

_CHAIN_MAX: Final = 100
_TOLD_MAX: Final = 3
_CARRIED: Final = frozenset(["definitions", "$defs"])
"""Those of them to which something refers come along."""
_NULLABLE: Final = ["object", "null"]
"""What an object with OpenAPI's `nullable` becomes."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class Origin(NamedTuple):
    """Where a schema comes from."""

    document: Document
    at: Pointer


@dataclass(frozen=True, slots=True)
class Bundle:
    """A schema that refers to nothing outside of itself."""

    schema: Schema
    origin: Origin
    carried: Mapping[str, Origin]
    """Where each of its `definitions` comes from."""
    left_out: tuple[str, ...]
    """What could not be said in JSON Schema, in sentences."""

    def place(self, at: Pointer) -> FileLine:
        """Return where what is at *at* in the schema comes from, or what it stands in."""
        origin = self.origin
        if at[:1] == ("definitions",) and at[1:2] and at[1] in self.carried:
            origin, at = self.carried[at[1]], at[2:]
        return origin.document.place(origin.at + at)


def bundled(reference: str, home: Document, place: FileLine, opened: Opening) -> Bundle:
    """Return the schema to which *reference* leads, as in `openapi.yaml#/components/schemas/Order`.

    Args:
        reference: A file, relative to that of *home*, and a JSON pointer behind `#`; either can be missing.
        home: The document that holds the reference.
        place: Where it does.
        opened: Opens the document in a file.

    Raises:
        Unreadable: it leads nowhere, out of the file system, or to what is no schema; or to one of events that may be
            null.
    """
    bundling = _Bundling(opened)
    origin = bundling.end(reference, home, place)
    return bundling.bundle(origin)


class _Bundling:
    def __init__(self, opened: Opening) -> None:
        self._opened = opened
        self._names: dict[tuple[str, Pointer], str | None] = {}
        self._carried: dict[str, Origin] = {}
        self._waiting: list[str] = []
        self._left_out: defaultdict[str, list[str]] = defaultdict(list)

    def bundle(self, origin: Origin) -> Bundle:
        self._names[origin.document.file, origin.at] = None  # It is the root, to which `#` leads.
        schema: Schema = self._turned(_value(origin), origin)
        if schema.get("type") == _NULLABLE and "nullable" in _value(origin):
            place = origin.document.place((*origin.at, "nullable"))
            raise Unreadable(place, "an event is never null: take `nullable` out at the root of its schema")
        if dialect := dialect_of(origin.document.value):
            schema = {"$schema": dialect[1], **schema} if dialect[1] else schema
        definitions: Schema = {}
        while self._waiting:
            name = self._waiting.pop(0)
            definitions[name] = self._turned(_value(self._carried[name]), self._carried[name])
        if definitions:
            schema["definitions"] = definitions
        told = tuple(_told(word, places) for word, places in sorted(self._left_out.items()))
        return Bundle(schema, origin, self._carried, told)

    def end(self, reference: str, home: Document, place: FileLine) -> Origin:
        """Return where *reference* leads to, past what only refers on."""
        for _ in range(_CHAIN_MAX):
            origin = self._follow(reference, home, place)
            value = _value(origin)
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
        document = self._opened(Path(home.file).parent / file, place) if file else home
        if target(document.value, f"#{fragment}") is MISSING:
            raise Unreadable(place, f"{reference!r} leads to nothing in {document.file}")
        at = steps(f"#{fragment}")
        if reason := why_no_schema(document.value, at, file):
            raise Unreadable(place, f"{reference!r} {reason}")
        return Origin(document, at)

    def _turned(self, node: Any, origin: Origin) -> Any:
        """Return the schema *node* as it stands in the bundle, with all the schemas within."""
        if not isinstance(node, dict):
            return node
        dialect = dialect_of(origin.document.value)
        plain = dialect[0](node) if dialect else Plain(node, [])
        for word in plain.left_out:
            self._left_out[word].append(f"{origin.document.file}{format_pointer(origin.at)}")
        schema = {word: value for word, value in plain.schema.items() if word not in _CARRIED}
        if isinstance(reference := schema.get("$ref"), str):
            schema["$ref"] = self._named(reference, origin)
        for way, child in children(schema):
            turned = self._turned(child, Origin(origin.document, origin.at + way))
            keyword, *rest = way
            schema[keyword] = _with(schema[keyword], rest[0], turned) if rest else turned
        return schema

    def _named(self, reference: str, origin: Origin) -> str:
        """Return what *reference* is in the bundle; what it leads to is carried along."""
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


def _value(origin: Origin) -> Any:
    value = origin.document.value
    for step in origin.at:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def _with(held: Any, step: str, value: Any) -> Any:
    if isinstance(held, dict):
        return held | {step: value}
    return [value if number == int(step) else each for number, each in enumerate(held)]


def _told(word: str, places: list[str]) -> str:
    why = f" ({WHY_LEFT_OUT[word]})" if word in WHY_LEFT_OUT else ""
    more = f" and {len(places) - _TOLD_MAX} more" if len(places) > _TOLD_MAX else ""
    return f"`{word}` is left out{why}: {', '.join(places[:_TOLD_MAX])}{more}"
