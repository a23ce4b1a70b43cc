"""What a figure is: a measurement with a name, and the rows that it puts into the table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from bench.place import Place


@dataclass(frozen=True)
class Target:
    """What the product must reach."""

    sign: Literal[">=", "<=", "<"]
    value: float
    unit: str = ""

    def reached_by(self, value: float) -> bool:
        """Tell whether *value* is good enough."""
        if self.sign == ">=":
            return value >= self.value
        return value <= self.value if self.sign == "<=" else value < self.value

    def __str__(self) -> str:
        sign = {">=": "≥", "<=": "≤", "<": "<"}[self.sign]
        value = f"{self.value:g}" if self.value < 10_000 else f"{self.value:,.0f}".replace(",", " ")
        return f"{sign} {value}{' ' if self.unit else ''}{self.unit}"


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    what: str
    ours: str
    """The absolute median of Penstock, with its unit."""
    beside: str
    """That of what it is compared with; empty where the target is absolute."""
    judged: float
    """The ratio, or the value itself where the target is absolute."""
    target: Target | None = None
    """None: told for comparison only."""


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    quick: bool = False

    @property
    def rounds(self) -> int:
        """How many pairs."""
        return 2 if self.quick else 7

    @property
    def seconds(self) -> float:
        """How long one side is measured."""
        return 0.4 if self.quick else 3.0

    @property
    def events(self) -> int:
        """How many events a log has that is read from one end to the other."""
        return 20_000 if self.quick else 400_000

    @property
    def page(self) -> int:
        """How many events are asked for at once; divides `events`."""
        return min(self.events, 100_000)


Measuring = Callable[[Place, Scale], Iterable[Row]]
Page = Literal["publishing", "reading", "consumers", "spark", "processing", "lifetime"]
"""A page in docs/benchmarks/."""


@dataclass(frozen=True)
class Figure:
    """A measurement by name."""

    name: str
    page: Page
    says: str
    measure: Measuring
    asked_for: bool
    """Run only when named."""


FIGURES: Final[dict[str, Figure]] = {}
"""All of them, in the order of the table."""


def figure(name: str, page: Page, *, asked_for: bool = False) -> Callable[[Measuring], Measuring]:
    """Enter a measurement under *name*, to be shown on *page*; what it says is the first line of its docstring."""

    def enter(measuring: Measuring) -> Measuring:
        FIGURES[name] = Figure(name, page, (measuring.__doc__ or "").strip().splitlines()[0], measuring, asked_for)
        return measuring

    return enter


def rate(value: float, unit: str = "events/s") -> str:
    """Write a rate for people.

    >>> rate(1_234_567.8), rate(12.34)
    ('1 234 568 events/s', '12 events/s')
    """
    return f"{value:,.0f} {unit}".replace(",", " ")
