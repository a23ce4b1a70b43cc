"""A document in a file: its value, and the line on which each part of it stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.schema.traversal import Pointer


class FileLine(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Unreadable(Exception):
    """A file holds what cannot be understood. Says where, and what would be right."""

    def __init__(self, place: FileLine, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Document:
    """One of the documents that a file holds; its value is what JSON can say."""

    file: str
    value: Any
    lines: Mapping[Pointer, int]
    """The line of each value that is a member of something, and of the document itself, counted from 1."""

    def place(self, at: Pointer) -> FileLine:
        """Return where the value at *at* stands, or what it would stand in where it is not there."""
        while at not in self.lines and at:
            at = at[:-1]
        return FileLine(self.file, self.lines.get(at, 1))
