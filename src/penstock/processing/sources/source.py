"""What a processor reads: tranches, each from its position on."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.processing.engine.item import Batch, Position


class Want(NamedTuple):
    """What is wanted of a tranche."""

    position: Position
    """From where on."""
    events_max: int
    """How many events at most."""


class Source(Protocol):
    """Something that has events in tranches."""

    @property
    def is_dense(self) -> bool:
        """Whether the indices of a stream follow each other without gaps, from 0 on."""
        ...

    def tranches(self) -> Collection[str]:
        """Return the tranches that there are now; more may come."""
        ...

    def beginning(self, tranche: str) -> Position:
        """Return the position of the first event of a tranche."""
        ...

    def read(self, wants: Mapping[str, Want], wait_s: float) -> Sequence[Batch]:
        """Return what follows, at most one batch of each tranche; wait for so long where there is nothing at all.

        A batch without events tells that there are none up to its end.
        """
        ...
