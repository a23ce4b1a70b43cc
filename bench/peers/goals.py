"""What Penstock is to reach beside the limits of its databases, and by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.figure import Target
from bench.peers.workloads import WORKLOADS, Values

Rounds = Mapping[str, Mapping[str, Sequence[Values]]]
"""What each round gave, by peer and workload."""

_KEYS: Final = {
    "rate": "events/s",
    "p50": "median",
    "p99": "99th percentile",
    "memory": "the hub's memory after them",
}


@dataclass(frozen=True)
class Goal:
    """A value of a workload, or its ratio to that of another peer or workload, and what it is to be."""

    peer: str
    workload: str
    key: str
    target: Target
    beside: str = ""
    """The peer that it is a ratio to; the median of the ratios of each round."""
    beside_workload: str = ""
    """The workload of that peer; by default the same."""

    def find_value(self, rounds: Rounds) -> float | None:
        """Return the value, and None where it has not been measured."""
        ours = rounds.get(self.peer, {}).get(self.workload)
        if not ours or self.key not in ours[0]:
            return None
        if not self.beside:
            return median(values[self.key] for values in ours)
        theirs = rounds.get(self.beside, {}).get(self.beside_workload or self.workload)
        if not theirs:
            return None
        return median(mine[self.key] / other[self.key] for mine, other in zip(ours, theirs, strict=True))

    @property
    def says(self) -> str:
        """Return what is measured, in words."""
        return f"{WORKLOADS[self.workload].says}: {_KEYS[self.key]}"

    def describe(self, value: float) -> str:
        """Return *value* beside what it is to be, in bold if it misses that.

        >>> Goal("penstock-sqlite", "single-32", "rate", Target(">=", 0.6), "bare-app").describe(0.281)
        '**0.28** of the app (≥ 0.6)'
        >>> Goal("penstock-sqlite", "publish-python", "rate", Target(">=", 100_000, "events/s")).describe(101_234.5)
        '101 234 (≥ 100 000 events/s)'
        """
        shown = f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.{2 if value < 1 else 1}f}"
        shown = shown if self.target.reached_by(value) else f"**{shown}**"
        return f"{shown}{_BESIDE[self.beside]} ({self.target})"


_SQLITE, _POSTGRES, _APP, _COPY = "penstock-sqlite", "penstock-postgres", "bare-app", "copy"
_BESIDE: Final = {
    "": "",
    _APP: " of the app",
    _COPY: " of `COPY`",
    _SQLITE: " of 1 connection",
    _POSTGRES: " of 1 connection",
}


def _at_least(value: float, unit: str = "") -> Target:
    return Target(">=", value, unit)


def _at_most(value: float, unit: str = "") -> Target:
    return Target("<=", value, unit)


GOALS: Final = (
    Goal(_SQLITE, "single-32", "rate", _at_least(0.6), _APP),
    Goal(_POSTGRES, "single-32", "rate", _at_least(0.5), _COPY),
    Goal(_SQLITE, "single-32", "p99", _at_most(3), _APP),
    Goal(_POSTGRES, "single-32", "p99", _at_most(3), _APP),
    Goal(_SQLITE, "single-1", "rate", _at_least(0.6), _APP),
    Goal(_POSTGRES, "single-1", "rate", _at_least(0.4), _COPY),
    Goal(_SQLITE, "follow-200", "p50", _at_most(1.5, "ms")),
    Goal(_POSTGRES, "follow-200", "p50", _at_most(4, "ms")),
    Goal(_SQLITE, "follow-200", "p99", _at_most(15, "ms")),
    Goal(_POSTGRES, "follow-200", "p99", _at_most(15, "ms")),
    Goal(_SQLITE, "follow-2000", "p50", _at_most(5, "ms")),
    Goal(_POSTGRES, "follow-2000", "p50", _at_most(5, "ms")),
    Goal(_SQLITE, "follow-2000", "p99", _at_most(30, "ms")),
    Goal(_POSTGRES, "follow-2000", "p99", _at_most(30, "ms")),
    Goal(_SQLITE, "batches-1", "rate", _at_least(0.75), _APP),
    Goal(_POSTGRES, "batches-1", "rate", _at_least(0.55), _COPY),
    Goal(_SQLITE, "batches-4", "rate", _at_least(1), _SQLITE, "batches-1"),
    Goal(_POSTGRES, "batches-4", "rate", _at_least(1), _POSTGRES, "batches-1"),
    Goal(_SQLITE, "publish-python", "rate", _at_least(100_000, "events/s")),
    Goal(_POSTGRES, "publish-python", "rate", _at_least(100_000, "events/s")),
    Goal(_SQLITE, "read-python", "rate", _at_least(300_000, "events/s")),
    Goal(_POSTGRES, "read-python", "rate", _at_least(300_000, "events/s")),
    Goal(_SQLITE, "read", "rate", _at_least(1_000_000, "events/s")),
    Goal(_POSTGRES, "read", "rate", _at_least(0.5), _COPY),
    Goal(_SQLITE, "readers-100", "memory", _at_most(200, "MB")),
    Goal(_POSTGRES, "readers-100", "memory", _at_most(200, "MB")),
)
