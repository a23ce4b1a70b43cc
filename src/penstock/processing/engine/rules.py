"""The rules of a processor: reading ahead, calls, and the treatment of failures. The engine applies them."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from penstock.errors import BadParameter
from penstock.processing.parameters import check_count, check_flag, check_number, check_seconds, check_some_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that grow from *first_seconds* by *factor* up to *max_seconds*.

    Each is shortened at random by up to *jitter* of it.

    Raises:
        BadParameter: the delays do not grow, or the jitter is not from 0 to 1.
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
        """Return the seconds to wait after *attempts* failed attempts; *chance* is from 0 to 1.

        >>> [Backoff(first_seconds=1).delay(attempts, 0.0) for attempts in (1, 2, 3, 100)]
        [1.0, 2.0, 4.0, 60.0]
        """
        # The exponent is limited: a larger power would overflow, and is far above max_seconds anyway.
        grown = self.first_seconds * self.factor ** min(attempts - 1, 64)
        return min(grown, self.max_seconds) * (1 - self.jitter * chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Limits in seconds after which a failing or stalled stream, or a silent source, stops the processor.

    None: no limit. An unavailable source usually recovers, and the processor continues then.

    Raises:
        BadParameter: a limit is not a number of seconds above 0.
    """

    failing_seconds_max: float | None = None
    stalled_seconds_max: float | None = None
    unanswered_seconds_max: float | None = None
    """Seconds for which the source may give no answer."""

    def __post_init__(self) -> None:
        check_some_seconds("health.failing_seconds_max", self.failing_seconds_max)
        check_some_seconds("health.stalled_seconds_max", self.stalled_seconds_max)
        check_some_seconds("health.unanswered_seconds_max", self.unanswered_seconds_max)


Exhausted: TypeAlias = Literal["stop", "park"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a processor: reading ahead, calls, retries and health.

    Raises:
        BadParameter: a rule has a value that is not allowed.
    """

    concurrency: int = 8
    """Maximum number of concurrent calls, each of one stream."""
    batches_ahead: int = 64
    """Maximum number of unfinished batches of a tranche."""
    events_ahead: int = 100_000
    """Maximum number of events in these batches."""
    events_per_call: int = 10_000
    """Maximum number of events of a call."""
    require_all: bool = False
    """True if a stream of a source with dense indices waits for a missing index, from 0 on; else it goes on.

    An operator can approve an index that will never come while the processor runs: `approve_missing`.

    The processor has to begin at the source's start: it cannot detect missing events of a stream that was partly
    handled before. It remembers all streams, however many.
    """
    backoff: Backoff = field(default_factory=Backoff)
    timeout: float | None = None
    """Seconds after which a call counts as failed. Its events are handled again when it has ended: a coroutine is
    cancelled, a thread cannot be. If it succeeds late, its outcome counts, unless its stream was parked meanwhile."""
    attempts_max: int | None = None
    """Maximum number of consecutive attempts for the first event of a span; None: no limit."""
    exhausted: Exhausted = "stop"
    """Action after the last attempt: stop the processor, or park the stream and go on with the others."""
    remember: int = 100_000
    """Maximum number of idle streams whose index is remembered, to recognise repeats."""
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        for name in ("concurrency", "batches_ahead", "events_ahead", "events_per_call", "remember"):
            check_count(name, getattr(self, name))
        check_flag("require_all", self.require_all)
        if self.exhausted not in get_args(Exhausted):
            raise BadParameter(parameter="exhausted", value=self.exhausted, allowed=" or ".join(get_args(Exhausted)))
        if self.attempts_max is not None:
            check_count("attempts_max", self.attempts_max)
        elif self.exhausted == "park":
            allowed = "a whole number from 1, where exhausted is 'park': else every stream is tried for ever"
            raise BadParameter(parameter="attempts_max", value=None, allowed=allowed)
        for name, kind in (("backoff", Backoff), ("health", Health)):
            if not isinstance(getattr(self, name), kind):
                raise BadParameter(parameter=name, value=getattr(self, name), allowed=f"{kind.__name__}(…)")
        check_some_seconds("timeout", self.timeout)
