"""How a client tries failed requests again: the options of its retries."""

from dataclasses import dataclass

from penstock.errors import BadParameter


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and after how long, what failed with something that can pass is tried again.

    That is a batch that is sent, and whatever else is asked of the hub on the way, such as for an epoch.
    """

    max_attempts: int | None = None
    """How often each is tried in all; None: as often as the time of the call allows."""
    max_delay: float = 5.0
    """The longest pause in seconds; the first is 0.1, each twice the one before, and shortened by chance."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise BadParameter(parameter="max_attempts", value=self.max_attempts, allowed="a whole number, 1 or more")
        if type(self.max_delay) not in (int, float) or not self.max_delay > 0:
            raise BadParameter(parameter="max_delay", value=self.max_delay, allowed="seconds, more than 0")
