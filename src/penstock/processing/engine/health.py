"""Decides when a processor stops because a stream, or its source, has made no progress for too long."""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import ProcessorUnhealthy
from penstock.processing.engine.busy import Busy, Trouble
from penstock.processing.parameters import check_some_seconds


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
