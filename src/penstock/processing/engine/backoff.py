"""How long a failing stream waits before it is tried again."""

from dataclasses import dataclass

from penstock.errors import BadParameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that grow from *first* by *factor* up to *most* seconds, each shortened by chance by up to *jitter* of it.

    Raises:
        BadParameter: they do not grow, or the jitter is no part.
    """

    first: float = 0.1
    factor: float = 2.0
    most: float = 60.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        allowed = {
            "first": (self.first >= 0, "0 or more"),
            "factor": (self.factor >= 1, "1 or more"),
            "most": (self.most >= self.first, f"{self.first:g}, which is the first delay, or more"),
            "jitter": (0 <= self.jitter <= 1, "from 0 to 1"),
        }
        for name, (is_right, right) in allowed.items():
            if not is_right:
                raise BadParameter(parameter=f"backoff.{name}", value=getattr(self, name), allowed=right)

    def delay(self, attempts: int, chance: float) -> float:
        """Return how many seconds to wait after so many *attempts*; *chance* is from 0 to 1.

        >>> [Backoff(first=1).delay(attempts, 0.0) for attempts in (1, 2, 3, 100)]
        [1.0, 2.0, 4.0, 60.0]
        """
        # A power of so many attempts that it would be no number any more is far beyond the most.
        grown = self.first * self.factor ** min(attempts - 1, 64)
        return min(grown, self.most) * (1 - self.jitter * chance)
