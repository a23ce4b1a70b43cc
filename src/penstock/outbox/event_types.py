"""A cache of event types for `publish`.

A cached event type can be outdated, and can come from another database. Therefore each insert has the condition that
the event type still has the fingerprint that the events were checked against. The fingerprint covers everything that
`publish` depends on, so it is irrelevant where and when the event type was read, and whether that transaction was
rolled back.
"""

import os
from typing import Final, NamedTuple

from penstock.core.log.acceptance import Partitioner
from penstock.core.registry.event_type import EventType
from penstock.schema.lru_cache import LruCache
from penstock.schema.validation import VALIDATORS

KEPT_CHARS: Final = 8 << 20
"""Size of the cache, in characters of definitions."""
_SMALLEST_CHARS: Final = 2_000
"""Size that each entry counts in addition to its definition."""


class CachedEventType(NamedTuple):
    """An event type as the database had it at one moment."""

    fingerprint: str | None
    """None: the event type did not exist."""
    event_type: EventType | None
    partitioner: Partitioner | None


UNKNOWN: Final = CachedEventType(None, None, None)
_KEPT: Final = LruCache[CachedEventType](KEPT_CHARS)

if hasattr(os, "register_at_fork"):  # Services fork workers, possibly while another thread publishes.
    os.register_at_fork(after_in_child=_KEPT.unlock)
    os.register_at_fork(after_in_child=VALIDATORS.unlock)


def recall(name: str) -> CachedEventType | None:
    """Return the event type *name* from the cache, None if it is not cached."""
    return _KEPT.find(name)


def remember(name: str, fingerprint: str, definition: str | bytes, partition_count: int) -> CachedEventType:
    """Cache the event type *name* that was read from the database, and return it."""
    event_type = EventType.from_stored(definition, partition_count)
    known = CachedEventType(fingerprint, event_type, Partitioner(event_type))
    _KEPT.put(name, len(definition) + _SMALLEST_CHARS, known)
    return known
