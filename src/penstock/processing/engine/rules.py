"""The rules of a processor: how far it reads ahead, how it calls, and what becomes of what fails."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from penstock.errors import BadParameter
from penstock.processing.engine.backoff import Backoff
from penstock.processing.engine.health import Health
from penstock.processing.parameters import check_count, check_flag, check_some_seconds

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
