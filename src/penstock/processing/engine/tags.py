"""How many tags are counted apart: a handler may make them of anything, and each is kept, and shown."""

from collections.abc import Container, Sized
from typing import Final, Protocol

TAGS_MAX: Final = 100
OTHER: Final = "other"


class KnownTags(Sized, Container[str], Protocol):
    """The tags that are counted so far."""


def counted_as(tag: str, known: KnownTags) -> str:
    """Return as what a *tag* is counted: as itself, unless so many are *known* already that it is among the others.

    >>> counted_as("ValueError", {"ok": 1}), counted_as("order 7", [str(number) for number in range(100)])
    ('ValueError', 'other')
    """
    return tag if tag in known or len(known) < TAGS_MAX else OTHER
