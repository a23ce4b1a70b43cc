"""Statistics that handlers keep of their work, in the words of their domain: counters, gauges, histograms."""

from collections import Counter
from collections.abc import Container, Mapping, Sized
from dataclasses import dataclass, field
from math import ceil, isfinite, log2
from typing import Any, ClassVar, Final, Protocol, Self

from penstock.errors import BadParameter
from penstock.processing.parameters import check_name, is_number

__all__ = ["Stats"]

LEAST_SECONDS: Final = 1e-6
STEPS: Final = 16
"""Classes between one duration and its double: a percentile is right within 1/16 of its logarithm, some 4 percent."""
LATENCY_CLASSES: Final = 40 * STEPS


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of durations, in seconds."""

    LEAST: ClassVar[float] = LEAST_SECONDS
    """The lower bound of the classes."""
    POWERS: ClassVar[range] = range(6, 26)
    """The powers of two that, times `LEAST`, are bounds of buckets: from 64 µs to 33.6 s. No class lies on both."""
    classes: Mapping[int, int]
    """The number of durations in each class."""
    count: int
    sum: float

    def buckets(self) -> list[tuple[float, int]]:
        """Return the cumulative counts of buckets, by upper bound."""
        found, seen, classes = [], 0, sorted(self.classes.items(), reverse=True)
        for power in self.POWERS:
            while classes and classes[-1][0] < power * STEPS:
                seen += classes.pop()[1]
            found.append((self.LEAST * 2**power, seen))
        return found

    def percentile(self, share: float) -> float:
        """Return the value that a *share* of them does not exceed; 0 if there are none."""
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
        at = 0 if seconds <= LEAST_SECONDS else min(int(log2(seconds / LEAST_SECONDS) * STEPS), LATENCY_CLASSES)
        classes = self._classes
        classes[at] = classes.get(at, 0) + 1
        self._count += 1
        self._sum += seconds

    def histogram(self) -> Histogram:
        """Return the durations counted so far, as a value that does not change."""
        return Histogram(dict(self._classes), self._count, self._sum)


class Distribution(Histogram):
    """A histogram of non-negative values of any kind."""

    __slots__ = ()
    LEAST: ClassVar[float] = 2.0**-20
    POWERS: ClassVar[range] = range(10, 51)
    """The bounds are powers of two, from 2 ** -10, about a thousandth, to 2 ** 30, about a thousand millions."""


TAGS_MAX: Final = 100
OTHER: Final = "other"


class KnownTags(Sized, Container[str], Protocol):
    """The tags that are counted so far."""


def limit_tag(tag: str, known: KnownTags) -> str:
    """Return the tag under which a *tag* is counted: itself, or `other` if it is new and `TAGS_MAX` are *known*.

    >>> limit_tag("ValueError", {"ok": 1}), limit_tag("order 7", [str(number) for number in range(100)])
    ('ValueError', 'other')
    """
    return tag if tag in known or len(known) < TAGS_MAX else OTHER


NAMES_MAX: Final = 100
"""The maximum number of gauges, and of histograms, of a processor."""
OTHERS: Final = "(others)"
"""The name under which a processor observes the values of all names beyond `NAMES_MAX`."""
CLASSES: Final = 60 * STEPS
"""The number of classes: they cover values from 2 ** -20 to 2 ** 40."""


@dataclass(slots=True)
class Observations:
    """Values that were observed, in memory that does not grow with their number."""

    classes: dict[int, int] = field(default_factory=dict)
    """The number of values in each class; the upper bound belongs to a class."""
    count: int = 0
    sum: float = 0.0

    def add(self, value: float) -> None:
        """Observe *value*, which is not negative."""
        least = Distribution.LEAST
        at = 0 if value <= least else min(ceil(log2(value / least) * STEPS) - 1, CLASSES)
        self.classes[at] = self.classes.get(at, 0) + 1
        self.count += 1
        self.sum += value

    def merge(self, other: "Observations") -> None:
        """Add the observations of *other*."""
        for at, count in other.classes.items():
            self.classes[at] = self.classes.get(at, 0) + count
        self.count += other.count
        self.sum += other.sum

    def distribution(self) -> Distribution:
        """Return the values observed so far, as a value that does not change."""
        return Distribution(dict(self.classes), self.count, self.sum)


@dataclass(slots=True)
class Stats:
    """Statistics of one call of a handler, for `done(stats=…)` and its like.

        stats = Stats()
        stats.count("mails", 3)
        stats.observe("order_value_eur", 17.5, 240.0)
        stats.set("queue_depth", 12)
        return done(stats=stats)

    They are exported under these names once the call has succeeded. Use few names.
    """

    counts: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, float] = field(default_factory=dict)
    observed: dict[str, Observations] = field(default_factory=dict)

    def count(self, name: str, by: int = 1) -> None:
        """Add *by*, a whole number from 0, to the counter *name*.

        Raises:
            BadParameter: (likewise in the other methods) the name or the value is invalid.
        """
        check_name("name", name)
        if type(by) is not int or by < 0:
            raise BadParameter(parameter="by", value=by, allowed="a whole number from 0: it is counted")
        self.counts[name] += by

    def observe(self, name: str, *values: float) -> None:
        """Add *values*, numbers from 0, to the histogram *name*: sizes, amounts, durations in seconds."""
        check_name("name", name)
        for value in values:
            if not is_number(value) or not (value >= 0 and isfinite(value)):
                raise BadParameter(parameter="values", value=value, allowed="finite numbers from 0")
        if values:
            observed = self.observed.setdefault(name, Observations())
            for value in values:
                observed.add(float(value))

    def set(self, name: str, value: float) -> None:
        """Set the gauge *name* to *value*, a finite number. It stays until a call sets it again."""
        check_name("name", name)
        if not is_number(value) or not isfinite(value):
            raise BadParameter(parameter="value", value=value, allowed="a finite number")
        self.gauges[name] = float(value)

    def merge(self, counts: Mapping[str, int] | None, other: "Stats | None") -> None:
        """Add the statistics of a call; its gauges replace those of the same names."""
        if counts:
            self.counts.update(counts)
        if other is None:
            return
        self.counts.update(other.counts)
        for name, value in other.gauges.items():
            if name in self.gauges or len(self.gauges) < NAMES_MAX:
                self.gauges[name] = value
        for name, observed in other.observed.items():
            known = name in self.observed or len(self.observed) < NAMES_MAX
            self.observed.setdefault(name if known else OTHERS, Observations()).merge(observed)

    def to_json(self) -> list[Any]:
        """Return it as values that JSON can represent."""
        observed = {name: [[*each.classes.items()], each.count, each.sum] for name, each in self.observed.items()}
        return [dict(self.counts), self.gauges, observed]

    @classmethod
    def from_json(cls, found: list[Any]) -> "Stats":
        """Return the statistics of which *found* is the `to_json`."""
        counts, gauges, observed = found
        return cls(
            Counter(counts),
            gauges,
            {name: Observations(dict(map(tuple, classes)), *rest) for name, (classes, *rest) in observed.items()},
        )
