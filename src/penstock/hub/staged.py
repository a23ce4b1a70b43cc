"""A part of a staged batch on its way into the log, and what batches are called by."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.storage.outbox import OutboxRow
from penstock.storage.staging import Batch, Chunk


class BatchName(NamedTuple):
    """A batch as who publishes it calls it."""

    event_type: str
    group: str
    """The producer group."""
    number: int
    """It grows from one batch of the group to the next."""


class Piece(NamedTuple):
    """Chunks of a batch that go into the log in one transaction."""

    batch: Batch
    """As it is before."""
    chunks: Sequence[Chunk]
    """The first that are not in the log."""
    rejected: Sequence[tuple[OutboxRow, str]]
    """What of them is no valid event, and why."""
