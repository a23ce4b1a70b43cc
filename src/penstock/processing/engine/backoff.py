"""How long a failing stream waits before it is tried again."""

from dataclasses import dataclass

from penstock.processing.parameters import check_number, check_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that grow from *first_seconds* by *factor* up to *max_seconds*.

    Each is shortened at random by up to *jitter* of it.

    Raises:
        BadParameter: they do not grow, or the jitter is no part.
    """

    first_seconds: float = 0.1
    factor: float = 2.0
    max_seconds: float = 60.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        check_seconds("backoff.first_seconds", self.first_seconds, zero=True)
        check_number("backoff.factor", self.factor, least=1, allowed="1 or more")
        allowed = f"{self.first_seconds:g}, which is the first delay, or more"
        check_number("backoff.max_seconds", self.max_seconds, least=self.first_seconds, allowed=allowed)
        check_number("backoff.jitter", self.jitter, least=0, most=1, allowed="from 0 to 1")

    def delay(self, attempts: int, chance: float) -> float:
        """Return how many seconds to wait after so many *attempts*; *chance* is from 0 to 1.

        >>> [Backoff(first_seconds=1).delay(attempts, 0.0) for attempts in (1, 2, 3, 100)]
        [1.0, 2.0, 4.0, 60.0]
        """
        # A power of so many attempts that it would be no number any more is far beyond the most.
        grown = self.first_seconds * self.factor ** min(attempts - 1, 64)
        return min(grown, self.max_seconds) * (1 - self.jitter * chance)
