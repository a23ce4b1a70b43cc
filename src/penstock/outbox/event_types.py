"""Remembers event types from one publish to the next.

What is remembered can be out of date, and of another database: each insert is made on the condition that the event type
has the fingerprint that it was checked against. A fingerprint says all that matters to a publish, so it does not matter
where and when an event type was seen, nor whether the transaction that saw it was rolled back.
"""

import os
from typing import Final, NamedTuple

from penstock.core.log.acceptance import Partitioner
from penstock.core.registry.event_type import EventType
from penstock.schema.lru_cache import LruCache
from penstock.schema.validation import VALIDATORS

KEPT_CHARS: Final = 8 << 20
"""The size of the cache: so many characters of definitions."""
_SMALLEST_CHARS: Final = 2_000
"""The size that even the shortest definition counts as."""


class Known(NamedTuple):
    """An event type as the database had it at one moment."""

    fingerprint: str | None
    """None: there was none of that name."""
    event_type: EventType | None
    placing: Partitioner | None


UNKNOWN: Final = Known(None, None, None)
_KEPT: Final = LruCache[Known](KEPT_CHARS)

if hasattr(os, "register_at_fork"):  # Services fork their workers, perhaps while another thread publishes.
    os.register_at_fork(after_in_child=_KEPT.unlock)
    os.register_at_fork(after_in_child=VALIDATORS.unlock)


def recall(name: str) -> Known | None:
    """Return the event type *name* as it was when this process saw it last, if it remembers."""
    return _KEPT.find(name)


def remember(name: str, fingerprint: str, definition: str | bytes, partition_count: int) -> Known:
    """Remember the event type *name* as the database has it, and return it."""
    event_type = EventType.from_stored(definition, partition_count)
    known = Known(fingerprint, event_type, Partitioner(event_type))
    _KEPT.put(name, len(definition) + _SMALLEST_CHARS, known)
    return known
