"""Measures things in turn: A B A B …, so that what the machine does meanwhile falls on both."""

from collections.abc import Callable, Mapping
from statistics import median

Side = Callable[[], float]
"""Measures once."""


class Rounds:
    """What every side gave, round by round."""

    def __init__(self, values: Mapping[str, list[float]]) -> None:
        self.values = values

    def median(self, side: str) -> float:
        """Return the middle of what *side* gave."""
        return median(self.values[side])

    def ratio(self, side: str, other: str) -> float:
        """Return the middle of the rounds' ratios, each of two neighbours in time."""
        return median(a / b for a, b in zip(self.values[side], self.values[other], strict=True))


def in_turn(sides: Mapping[str, Side], rounds: int, *, warm_up: int = 1) -> Rounds:
    """Measure every side once per round, after *warm_up* rounds that do not count."""
    values: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(warm_up + rounds):
        for name, side in sides.items():
            value = side()
            if number >= warm_up:
                values[name].append(value)
    return Rounds(values)
