"""Where a processor begins, and which positions it has to commit."""

from penstock.processing.checkpoints.checkpoint import Checkpoints, Move
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Position
from penstock.processing.sources.source import Source


class Progress:
    """The checkpoints of a processor, held against what its engine has come to."""

    def __init__(self, engine: Engine, source: Source, checkpoints: Checkpoints) -> None:
        self._engine = engine
        self._source = source
        self._checkpoints = checkpoints
        self._kept: dict[str, Position] = dict(checkpoints.positions())
        self._open: set[str] = set()

    def open_new(self) -> None:
        """Begin with those tranches of the source that have not been begun with: where they were left, or at first."""
        for tranche in self._source.tranches():
            if tranche not in self._open:
                self._open.add(tranche)
                kept = self._kept.get(tranche)
                self._engine.open(tranche, self._source.beginning(tranche) if kept is None else kept)

    def commit(self) -> bool:
        """Commit what has moved since; tell whether anything had.

        Raises:
            CheckpointMoved: another processor has the same name, or somebody has moved it.
        """
        moves = {
            tranche: Move(self._kept.get(tranche), position)
            for tranche, position in self._engine.positions().items()
            if position != self._kept.get(tranche)
        }
        if moves:
            self._checkpoints.commit(moves)
            self._kept |= {tranche: move.after for tranche, move in moves.items()}
        return bool(moves)
