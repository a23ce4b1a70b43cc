"""Percentiles of durations, in memory that does not grow with their number."""

from dataclasses import dataclass
from math import log2

from penstock.processing.engine.histogram import CLASSES, LEAST_SECONDS, STEPS, Histogram


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of what has been seen, in seconds."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class Latency:
    """Counts durations by classes that double every so many."""

    __slots__ = ("_classes", "_count", "_max", "_sum")

    def __init__(self) -> None:
        self._classes: dict[int, int] = {}
        self._count = 0
        self._sum = 0.0
        self._max = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        at = 0 if seconds <= LEAST_SECONDS else min(int(log2(seconds / LEAST_SECONDS) * STEPS), CLASSES)
        classes = self._classes
        classes[at] = classes.get(at, 0) + 1
        self._count += 1
        self._sum += seconds
        self._max = max(self._max, seconds)

    def histogram(self) -> Histogram:
        """Return what was seen so far, as it stays."""
        return Histogram(dict(self._classes), self._count, self._sum)

    def percentiles(self) -> Percentiles | None:
        """Return what was seen so far; None: nothing."""
        if not self._count:
            return None
        p50, p95, p99 = (self._percentile(share) for share in (0.5, 0.95, 0.99))
        return Percentiles(self._count, self._sum / self._count, p50, p95, p99, self._max)

    def _percentile(self, share: float) -> float:
        wanted, seen = share * self._count, 0
        for at in sorted(self._classes):
            seen += self._classes[at]
            if seen >= wanted:
                return min(self._max, LEAST_SECONDS * 2 ** ((at + 0.5) / STEPS))
        return self._max
