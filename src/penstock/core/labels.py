"""Annotations and labels: what an owner attaches to an event type (digest of Nakadi's contract, 2.2)."""

import re
from collections.abc import Iterator
from typing import Any, Final

PREFIX_CHARS_MAX: Final = 253
NAME_CHARS_MAX: Final = 63
ANNOTATION_CHARS_MAX: Final = 1_000
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?")


def wrong_annotations(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key of *given* that breaks a rule, or whose value does, and what is wrong with it.

    >>> list(wrong_annotations({"team/contact": "any text"}))
    []
    """
    for key, value in given.items():
        yield from ((key, wrong) for wrong in _wrong_key(key))
        if not isinstance(value, str):
            yield key, "must have a text as its value"
        elif len(value) > ANNOTATION_CHARS_MAX:
            yield key, f"must have a value of at most {ANNOTATION_CHARS_MAX} characters"


def wrong_labels(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Do the same for labels, whose values are names or empty.

    >>> list(wrong_labels({"stage": "not a name"}))
    [('stage', 'Value should start and end with a letter or a digit, and have only those, "-", "_" and "." within')]
    """
    for key, value in given.items():
        yield from ((key, wrong) for wrong in _wrong_key(key))
        if not isinstance(value, str):
            yield key, "must have a text as its value"
        elif len(value) > NAME_CHARS_MAX:
            yield key, f"Value cannot be longer than {NAME_CHARS_MAX} characters"
        elif value and not _NAME.fullmatch(value):
            yield key, f"Value {_LETTERS}"


_LETTERS: Final = 'should start and end with a letter or a digit, and have only those, "-", "_" and "." within'


def _wrong_key(key: str) -> Iterator[str]:
    prefix, slash, name = key.rpartition("/")
    if not key:
        yield "Key cannot be empty"
    if slash and not _PREFIX.fullmatch(prefix):
        yield "Key prefix should be a DNS name in lower case"
    if len(prefix) > PREFIX_CHARS_MAX:
        yield f"Key prefix cannot be longer than {PREFIX_CHARS_MAX} characters"
    if not _NAME.fullmatch(name):
        yield f"Key name {_LETTERS}"
    if len(name) > NAME_CHARS_MAX:
        yield f"Key name cannot be longer than {NAME_CHARS_MAX} characters"
