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


def in_turn(sides: Mapping[str, Side], rounds: int) -> Rounds:
    """Measure every side once per round; the first round only warms up."""
    values: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            value = side()
            if number:
                values[name].append(value)
    return Rounds(values)
