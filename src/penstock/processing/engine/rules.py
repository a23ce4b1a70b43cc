"""The rules of a processor: how far it reads ahead, how it calls, and what becomes of what fails."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from penstock.errors import BadParameter, ProcessorUnhealthy
from penstock.processing.engine.busy import Busy, Trouble
from penstock.processing.parameters import check_count, check_flag, check_number, check_seconds, check_some_seconds


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """For how many seconds a stream may fail or stall, or the source be silent, before the processor stops.

    None: for ever. A source that is away comes back by itself in most cases, and the processor goes on then.

    Raises:
        BadParameter: one of them is no number of seconds above 0.
    """

    failing_seconds_max: float | None = None
    stalled_seconds_max: float | None = None
    unanswered_seconds_max: float | None = None
    """For how long the source may give no answer."""

    def __post_init__(self) -> None:
        check_some_seconds("health.failing_seconds_max", self.failing_seconds_max)
        check_some_seconds("health.stalled_seconds_max", self.stalled_seconds_max)
        check_some_seconds("health.unanswered_seconds_max", self.unanswered_seconds_max)

    def check_source(self, unanswered_seconds: float) -> None:
        """Raise ProcessorUnhealthy where the source has not answered for longer than it may."""
        if self.unanswered_seconds_max is not None and unanswered_seconds > self.unanswered_seconds_max:
            raise ProcessorUnhealthy.of(
                "source-silent", seconds=round(unanswered_seconds), most=self.unanswered_seconds_max
            )

    def check(self, busy: Busy, now: float) -> None:
        """See whether all is well enough to go on.

        Raises:
            ProcessorUnhealthy: a stream fails or stalls for longer than it may; names all that do.
        """
        failing = _older("failing", busy.failing.values(), now, self.failing_seconds_max)
        stalled = _older("stalled", busy.stalled.values(), now, self.stalled_seconds_max)
        if failing or stalled:
            raise ProcessorUnhealthy(streams=failing + stalled)


def _older(state: str, troubles: Iterable[Trouble], now: float, most: float | None) -> list[str]:
    if most is None:
        return []
    return [
        f"{each.stream} {state} at {each.index} for {now - each.since:.0f} s, {each.attempts} attempts"
        + (f", {each.tag}: {each.detail}" if each.detail else "")
        for each in troubles
        if now - each.since > most
    ]


Exhausted: TypeAlias = Literal["stop", "park"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a processor keeps to.

    Raises:
        BadParameter: one of them cannot be.
    """

    concurrency: int = 8
    """How many streams are with handlers at once."""
    batches_ahead: int = 64
    """How many batches of a tranche may be read that are not done yet."""
    events_ahead: int = 100_000
    """How many events they may have."""
    events_per_call: int = 10_000
    """How many events a handler is given at most."""
    require_all: bool = False
    """Whether a stream waits for an index that is missing, from 0 on, where its source is dense; else it goes on.

    One that will never come can be approved while the processor runs: `approve_missing`.

    It has to begin where the source does: nobody knows what is missing of a stream that was handled in part before. All
    streams are remembered, however many.
    """
    backoff: Backoff = field(default_factory=Backoff)
    timeout: float | None = None
    """A call that lasts longer has failed, and its events come again when it has ended: a coroutine is cancelled; a
    thread cannot be. Where it ends well nevertheless, what it says counts, unless its stream was parked meanwhile."""
    attempts_max: int | None = None
    """How often in a row the first event of a span is tried; None: for ever."""
    exhausted: Exhausted = "stop"
    """What becomes of a stream then: the processor stops, or the stream is parked and the others go on."""
    remember: int = 100_000
    """Of how many streams that have nothing to do it is remembered how far they are, to know repeats by."""
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
