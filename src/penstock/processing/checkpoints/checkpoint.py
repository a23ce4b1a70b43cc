"""What keeps the positions of a processor, by tranche."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from penstock.processing.engine.item import Position


class Move(NamedTuple):
    """A position that takes the place of another."""

    before: Position | None
    """Where it was when it was read, or committed last; None: there was none."""
    after: Position


class Checkpoints(Protocol):
    """The positions of one processor, under its name."""

    def positions(self) -> Mapping[str, Position]:
        """Return what is kept, by tranche."""
        ...

    def commit(self, moves: Mapping[str, Move]) -> None:
        """Keep positions: all of them, or none.

        Raises:
            CheckpointMoved: one of them is not where it was thought to be: another processor has the same name, or
                somebody has moved it.
        """
        ...
