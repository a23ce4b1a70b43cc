"""Histograms of durations and other values, in classes that double every `STEPS`."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import ClassVar, Final, Self

LEAST_SECONDS: Final = 1e-6
STEPS: Final = 16
"""Classes between one duration and its double: a percentile is right within 1/16 of its logarithm, some 4 percent."""
CLASSES: Final = 40 * STEPS


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations that were counted, in seconds."""

    LEAST: ClassVar[float] = LEAST_SECONDS
    """Where the classes begin."""
    POWERS: ClassVar[range] = range(6, 26)
    """The powers of two that, times `LEAST`, are bounds of buckets: from 64 µs to 33.6 s. No class lies on both."""
    classes: Mapping[int, int]
    """How many there are in each class."""
    count: int
    sum: float

    def buckets(self) -> list[tuple[float, int]]:
        """Return how many are up to each bound of a bucket, by that bound."""
        found, seen, classes = [], 0, sorted(self.classes.items(), reverse=True)
        for power in self.POWERS:
            while classes and classes[-1][0] < power * STEPS:
                seen += classes.pop()[1]
            found.append((self.LEAST * 2**power, seen))
        return found

    def percentile(self, share: float) -> float:
        """Return what a *share* of them is at most; 0 where there are none."""
        wanted, seen = share * self.count, 0
        for at in sorted(self.classes):
            seen += self.classes[at]
            if seen >= wanted:
                return float(self.LEAST * 2 ** ((at + 0.5) / STEPS))
        return 0.0

    def since(self, earlier: "Self | None") -> "Self":
        """Return those that were counted after an *earlier* moment; None: all of them."""
        if earlier is None:
            return self
        left = {at: count - earlier.classes.get(at, 0) for at, count in self.classes.items()}
        new = {at: count for at, count in left.items() if count}
        return type(self)(new, self.count - earlier.count, self.sum - earlier.sum)


class Latency:
    """Counts durations in memory that does not grow with their number."""

    __slots__ = ("_classes", "_count", "_sum")

    def __init__(self) -> None:
        self._classes: dict[int, int] = {}
        self._count = 0
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        at = 0 if seconds <= LEAST_SECONDS else min(int(log2(seconds / LEAST_SECONDS) * STEPS), CLASSES)
        classes = self._classes
        classes[at] = classes.get(at, 0) + 1
        self._count += 1
        self._sum += seconds

    def histogram(self) -> Histogram:
        """Return the durations counted so far, as a value that does not change."""
        return Histogram(dict(self._classes), self._count, self._sum)


class Distribution(Histogram):
    """Values of any kind that were observed, none of them negative."""

    __slots__ = ()
    LEAST: ClassVar[float] = 2.0**-20
    POWERS: ClassVar[range] = range(10, 51)
    """The bounds are powers of two, from 2 ** -10, about a thousandth, to 2 ** 30, about a thousand millions."""
