"""Positions that processors keep in a database of the user's."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.groups.parking import Request
from penstock.errors import GroupNotFound
from penstock.processing.checkpoints.database import (
    DatabaseCheckpoints,
    ParkedAt,
    StoredPosition,
    list_stored_positions,
)

if TYPE_CHECKING:
    from penstock.cli.groups.gaps import Gaps


class Behind(NamedTuple):
    """How far a position is behind."""

    gap: int | None
    """The number of events from it on; None: unknown."""
    lag_seconds: float | None
    """The age of the oldest of them; None: likewise."""


UNKNOWN: Final = Behind(None, None)


class OwnGroup(NamedTuple):
    """A processor whose positions are kept in a database of the user's."""

    name: str
    reads: list[str]
    """Event types, or whatever else its tranches are of."""
    tranches: int
    gap: int | None
    """How many events are not committed; None: that cannot be told."""
    lag_seconds: float | None
    """The age of the oldest of them; None: likewise."""
    parked: int
    """How many of its streams are parked."""
    updated_at: str
    """When a position was moved last."""


class TrancheProgress(NamedTuple):
    """How far a processor is in a tranche."""

    tranche: str
    position: int | str
    gap: int | None
    lag_seconds: float | None
    parked: int
    updated_at: str


class ProcessorIntervention(NamedTuple):
    """Something that was done to a processor over its head."""

    at: str
    tranche: str
    came_from: int | str | None
    went_to: int | str | None
    reason: str | None


class OwnDatabase:
    """Reads and changes the tables of processors; creates none.

    Args:
        url: The URL of the database.
        table: The first of the tables.
        gaps: Computes gaps and lags; None: they are unknown.
    """

    def __init__(self, url: str, table: str, gaps: "Gaps | None" = None) -> None:
        self._url = url
        self._table = table
        self._gaps = gaps

    def groups(self) -> Sequence[OwnGroup]:
        """Return those whose positions are kept, by name."""
        groups = groupby(self._list_positions(), key=lambda kept: kept.processor)
        return [self._processor(name, list(kept)) for name, kept in groups]

    def standings(self, processor: str) -> Sequence[TrancheProgress]:
        """Return how far a processor is."""
        return [
            TrancheProgress(kept.tranche, kept.position, *self._behind(kept), kept.parked, time_text(kept.updated_at))
            for kept in self._list_positions()
            if kept.processor == processor
        ] or self._raise_not_found(processor)

    def further(self, processor: str, positions: Mapping[str, int | str]) -> Mapping[str, int]:
        """Return how many streams of each tranche have done more than a position says, and begin again with a move."""
        return self._checkpoints(processor).count_repeated(positions)

    def move(self, processor: str, positions: Mapping[str, int | str], reason: str | None) -> None:
        """Move positions, all or none; it is remembered. It may be given ones that it does not have yet."""
        self._checkpoints(processor).move(positions, reason=reason, adds=True)

    def history(self, processor: str, limit: int) -> Sequence[ProcessorIntervention]:
        """Return what was done to a processor over its head, the newest first."""
        self.standings(processor)
        return [
            ProcessorIntervention(time_text(each.at), each.tranche, each.came_from, each.went_to, each.reason)
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

    def _processor(self, name: str, kept: Sequence[StoredPosition]) -> OwnGroup:
        reads = sorted({each.tranche.rpartition("/")[0] or each.tranche for each in kept})
        behind = [self._behind(each) for each in kept]
        gaps, lags = [each.gap for each in behind], [each.lag_seconds for each in behind]
        return OwnGroup(
            name,
            reads,
            len(kept),
            None if None in gaps else sum(each or 0 for each in gaps),
            None if None in lags else max(each or 0.0 for each in lags),
            sum(each.parked for each in kept),
            time_text(max(each.updated_at for each in kept)),
        )

    def _behind(self, kept: StoredPosition) -> Behind:
        return UNKNOWN if self._gaps is None else self._gaps.of(kept.tranche, kept.position)

    def _checkpoints(self, processor: str) -> DatabaseCheckpoints:
        return DatabaseCheckpoints(self._url, processor, table=self._table)

    def _list_positions(self) -> Sequence[StoredPosition]:
        return list_stored_positions(self._url, table=self._table)

    def _raise_not_found(self, processor: str) -> Sequence[TrancheProgress]:
        raise GroupNotFound.of("checkpoint-not-found", processor=processor)


def time_text(at: datetime) -> str:
    """Return a time as the hub writes times.

    >>> from datetime import UTC
    >>> time_text(datetime(2026, 11, 20, 10, 0, 0, 250_000, UTC))
    '2026-11-20T10:00:00.250Z'
    """
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
