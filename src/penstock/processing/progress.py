"""Where a processor begins, and which positions it has to commit."""

from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import Checkpoints, Move
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Position
from penstock.processing.sources.source import Source, Want


class Progress:
    """The checkpoints of a processor, held against what its engine has come to.

    Raises:
        BadParameter: streams are to be parked, and a position would pass them that nobody could come back to.
    """

    def __init__(self, engine: Engine, source: Source, checkpoints: Checkpoints) -> None:
        if engine.rules.exhausted == "park":
            raise BadParameter(parameter="exhausted", value="park", allowed="stop: checkpoints keep no parked streams")
        self._engine = engine
        self._source = source
        self._checkpoints = checkpoints
        self._kept: dict[str, Position] = dict(checkpoints.positions())
        self._open: set[str] = set()

    def wants(self) -> dict[str, Want]:
        """Return what is to be read now, of those tranches that there is room for.

        Tranches that are new are begun with: where they were left, or at their beginning.
        """
        engine, tranches = self._engine, self._source.tranches()
        for tranche in tranches:
            if tranche not in self._open:
                self._open.add(tranche)
                kept = self._kept.get(tranche)
                engine.open(tranche, self._source.beginning(tranche) if kept is None else kept)
        return {
            tranche: Want(engine.tranche(tranche).read, room) for tranche in tranches if (room := engine.room(tranche))
        }

    @property
    def tranches(self) -> int:
        """How many tranches have been begun with."""
        return len(self._open)

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
