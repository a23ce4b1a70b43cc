"""The metadata that a file of a cold tier has, and a summary of its events."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec


class FileDescription(msgspec.Struct, frozen=True):
    """The description of a file, in its metadata."""

    tier: str
    """The id of the cold tier."""
    event_type: str
    epoch: int
    """The epoch of the event type when the file was written."""
    created_at: int
    """When the event type was created, in microseconds since 1970, UTC: later if it was dropped and created again."""
    partition: int
    partition_count: int
    start: int
    stop: int
    """The offset after the range. Offsets of the range that the file lacks were compacted or erased."""
    definition: Mapping[str, Any]
    """The definition of the event type when the file was written."""
    written_at: int
    """When the file was written, in microseconds since 1970, UTC."""
    revision: int = 1
    """Of two files of one range the one with the higher revision counts: erasure has replaced the other."""


class FileContent(NamedTuple):
    """The numbers and the digest of a file's events. Times are microseconds since 1970, UTC."""

    events: int
    data_bytes: int
    """The size of the events' data, as it was published."""
    received_from: int
    """When the first event was received."""
    received_to: int
    """When the last event was received."""
    digest: str
    """SHA-256 over all columns, in hexadecimal; independent of row groups and of Parquet's encodings."""
