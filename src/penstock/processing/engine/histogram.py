"""How long things took, by classes that double every so many, as it was at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEAST_SECONDS: Final = 1e-6
STEPS: Final = 16
"""Classes between one duration and its double: a percentile is right within 1/16 of its logarithm, some 4 percent."""
CLASSES: Final = 40 * STEPS
BOUNDS_SECONDS: Final = tuple(LEAST_SECONDS * 2**power for power in range(6, 26))
"""From 64 µs to 33.6 s, each the double of the one before: no class lies on both sides of one."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations that were counted, in seconds."""

    classes: Mapping[int, int]
    """How many there are in each class."""
    count: int
    sum: float

    def buckets(self) -> list[tuple[float, int]]:
        """Return how many took up to each of `BOUNDS_SECONDS`."""
        found, seen, classes = [], 0, sorted(self.classes.items(), reverse=True)
        for power, bound in enumerate(BOUNDS_SECONDS, 6):
            while classes and classes[-1][0] < power * STEPS:
                seen += classes.pop()[1]
            found.append((bound, seen))
        return found

    def percentile(self, share: float) -> float:
        """Return what a *share* of them took at most; 0 where there are none."""
        wanted, seen = share * self.count, 0
        for at in sorted(self.classes):
            seen += self.classes[at]
            if seen >= wanted:
                return float(LEAST_SECONDS * 2 ** ((at + 0.5) / STEPS))
        return 0.0

    def since(self, earlier: "Histogram | None") -> "Histogram":
        """Return those that were counted after an *earlier* moment; None: all of them."""
        if earlier is None:
            return self
        left = {at: count - earlier.classes.get(at, 0) for at, count in self.classes.items()}
        new = {at: count for at, count in left.items() if count}
        return Histogram(new, self.count - earlier.count, self.sum - earlier.sum)
