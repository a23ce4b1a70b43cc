"""Positions in a database of the user's."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby

from penstock.cli.checkpoint.keeper import Processor, Standing, Told
from penstock.errors import CheckpointNotFound
from penstock.processing.checkpoints.checkpoint import Request
from penstock.processing.checkpoints.database import DatabaseCheckpoints, Kept, ParkedAt, kept_in


class DatabaseKeeper:
    """Looks into the tables that processors have made; makes none itself."""

    def __init__(self, url: str, table: str) -> None:
        self._url = url
        self._table = table

    def processors(self) -> Sequence[Processor]:
        """Return those whose positions are kept, by name."""
        groups = groupby(self._kept(), key=lambda kept: kept.processor)
        return [_processor(name, list(kept)) for name, kept in groups]

    def standings(self, processor: str) -> Sequence[Standing]:
        """Return how far a processor is."""
        return [
            Standing(kept.tranche, kept.position, None, None, time_text(kept.updated_at))
            for kept in self._kept()
            if kept.processor == processor
        ] or self._not_found(processor)

    def move(self, processor: str, positions: Mapping[str, int | str], reason: str | None) -> None:
        """Move positions, all or none; it is remembered."""
        self._checkpoints(processor).move(positions, reason=reason)

    def history(self, processor: str, limit: int) -> Sequence[Told]:
        """Return what was done to a processor over its head, the newest first."""
        self.standings(processor)
        return [
            Told(time_text(each.at), each.tranche, each.came_from, each.went_to, each.reason)
            for each in self._checkpoints(processor).history(limit)
        ]

    def parked(self, processor: str) -> Sequence[ParkedAt]:
        """Return the streams that it has parked, the oldest first."""
        self.standings(processor)
        return self._checkpoints(processor).parked_at()

    def ask(self, processor: str, stream: str, request: Request, reason: str | None = None) -> None:
        """Want a parked stream tried again, or passed over."""
        self.standings(processor)
        self._checkpoints(processor).ask(stream, request, reason=reason)

    def forget(self, processor: str) -> None:
        """Forget all that is kept of a processor."""
        self.standings(processor)
        self._checkpoints(processor).forget()

    def _checkpoints(self, processor: str) -> DatabaseCheckpoints:
        return DatabaseCheckpoints(self._url, processor, table=self._table)

    def _kept(self) -> Sequence[Kept]:
        return kept_in(self._url, table=self._table)

    def _not_found(self, processor: str) -> Sequence[Standing]:
        raise CheckpointNotFound(processor=processor)


def time_text(at: datetime) -> str:
    """Return a time as the hub writes times.

    >>> from datetime import UTC
    >>> time_text(datetime(2026, 11, 20, 10, 0, 0, 250_000, UTC))
    '2026-11-20T10:00:00.250Z'
    """
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _processor(name: str, kept: Sequence[Kept]) -> Processor:
    reads = sorted({each.tranche.rpartition("/")[0] or each.tranche for each in kept})
    return Processor(name, reads, len(kept), None, None, time_text(max(each.updated_at for each in kept)))
