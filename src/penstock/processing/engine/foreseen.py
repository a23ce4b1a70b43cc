"""What will have to be kept once calls are settled."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.processing.engine.item import Position
from penstock.processing.engine.parked import Parked, Place


class Foreseen(NamedTuple):
    """Where an engine will have come to."""

    positions: Mapping[str, Position]
    """By tranche."""
    ahead: Mapping[Place, int | None]
    """Of streams that will be ahead of these, or will be no more, what has changed."""
    parked: Mapping[Place, Parked]
    """Of parked streams that are tried again, what will be left."""
    touched: AbstractSet[str]
    """The tranches of which something will have been done."""
    gone: AbstractSet[str]
    """Streams that were parked or given up while their calls went on: what these have done is not to be kept."""
