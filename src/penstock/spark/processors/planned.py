"""A round as it is planned on the driver."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Call
from penstock.processing.sources.source import Want
from penstock.spark.processors.plan import Again, ProcessingPlan
from penstock.spark.processors.sources.source import Look, TrancheRange
from penstock.spark.processors.spans import stretches_of


class Planned(NamedTuple):
    """What a round is to do, and what is read for it."""

    plan: ProcessingPlan
    look: Look
    """What there is."""
    new: Mapping[str, TrancheRange]
    """What is read that is new, by tranche."""
    again: Sequence[TrancheRange]
    """What is read that was read before."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        look: Look,
        wants: Mapping[str, Want],
        again: Sequence[Call],
        *,
        timeout: float | None = None,
        partitions: int = 1,
    ) -> Self:
        """Plan a round.

        Args:
            engine: Of the processor.
            look: What there is.
            wants: What it wants of that, by tranche.
            again: The calls that it makes of what was read before.
            timeout: See `ProcessingPlan`.
            partitions: See `ProcessingPlan`.

        Raises:
            EventsLost, BadParameter: see `Look.check`: also where there is no room for more, and what was read
                before is all that is to be read again.
            EventsLost: see `Look.stretch`.
        """
        look.check(engine.positions())
        new = dict[str, TrancheRange]()
        for tranche, want in wants.items():
            found = look.stretch(tranche, want.position, want.events_max)
            if found is not None:
                new[tranche] = found
        old = {call.stream: engine.tranche_of(call.stream) for call in again}
        places = tuple(dict.fromkeys([*look.tranches, *old.values()]))
        numbers = {place: number for number, place in enumerate(places)}
        spans = {call.stream: Again(numbers[old[call.stream]], call.index, call.next) for call in again}
        waiting = frozenset(engine.known())
        numberings = tuple(map(look.numbering, places))
        plan = ProcessingPlan(places, numberings, spans, waiting, engine.rules.events_per_call, timeout, partitions)
        return cls(plan, look, new, stretches_of(spans, places))
