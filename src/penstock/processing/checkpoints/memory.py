"""Positions in memory: for tests, and for processors that begin anew each time."""

from collections.abc import Mapping

from penstock.errors import CheckpointMoved
from penstock.processing.checkpoints.checkpoint import Move
from penstock.processing.engine.item import Position


class MemoryCheckpoints:
    """The positions of one processor, as long as this object lives. Processors that share it share them."""

    def __init__(self, group: str = "memory") -> None:
        self._group = group
        self._positions: dict[str, Position] = {}

    def positions(self) -> Mapping[str, Position]:
        """Return what is kept, by tranche."""
        return dict(self._positions)

    def commit(self, moves: Mapping[str, Move]) -> None:
        """Keep positions: all of them, or none.

        Raises:
            CheckpointMoved: one of them is not where it was thought to be.
        """
        for tranche, move in moves.items():
            found = self._positions.get(tranche)
            if found != move.before:
                raise CheckpointMoved(group=self._group, tranche=tranche, expected=move.before, found=found)
        self._positions |= {tranche: move.after for tranche, move in moves.items()}
