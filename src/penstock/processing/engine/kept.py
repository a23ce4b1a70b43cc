"""How far an engine is: where its tranches are, which streams are ahead of that, what is parked."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.processing.engine.call import Call
from penstock.processing.engine.foreseen import Foreseen
from penstock.processing.engine.item import Position
from penstock.processing.engine.outcome import Failure, Outcome
from penstock.processing.engine.parked import Parked, Place
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.running import Running
from penstock.processing.engine.set_aside import SetAside
from penstock.processing.engine.stream import BatchRequirement
from penstock.processing.engine.tranche import Tranche


class EngineState(SetAside):
    """What is known of an engine's tranches, and what it would have to begin with in another process."""

    def __init__(self, rules: Rules, *, is_dense: bool) -> None:
        super().__init__(is_dense=is_dense, requires_all=rules.require_all)
        self.rules = rules

    def tranche_of(self, stream: str) -> str:
        """Return where the events come from that a stream has now."""
        return self._streams[stream].tranche.name

    def tranches_of(self, call: Call) -> Collection[str]:
        """Return where the events of a call come from."""
        stream = self._streams.get(call.stream)
        if call.given_up is not None or stream is None:
            return () if call.given_up is None else (call.given_up,)
        return {stream.tranche.name, *(want.tranche.name for want in stream.wants if want.first < call.next)}

    def missing(self) -> dict[str, tuple[int, int]]:
        """Return the streams that wait for an index, which that is, and the first one that there is behind it."""
        if not self.rules.require_all:
            return {}
        return {
            name: (stream.write, stream.queue[0].index)
            for name, stream in self._streams.items()
            if stream.queue and stream.call is None and stream.queue[0].index > stream.write
            if not self.parking.is_searched(name)
        }

    def is_active(self, tranche: str) -> bool:
        """Tell whether calls of a tranche go on."""
        return any(tranche in self.tranches_of(call) for call in self.busy.active.values())

    def tranche(self, name: str) -> Tranche:
        """Return how far a tranche is."""
        return self._tranches[name]

    def room(self, tranche: str) -> int:
        """Return how many events of *tranche* may be read now; 0: none, until others are done."""
        return self._tranches[tranche].room

    @property
    def is_idle(self) -> bool:
        """Whether all that was handed in is done."""
        return not any(tranche.batches for tranche in self._tranches.values())

    def positions(self) -> dict[str, Position]:
        """Return from where each tranche is to be resumed: all before it is done."""
        return {name: tranche.completed for name, tranche in self._tranches.items()}

    def ahead(self) -> dict[Place, int | None]:
        """Return which streams are ahead of their tranche's position, and up to where; None: they are no more.

        That is what has changed since it was `kept`.
        """
        return {
            (stream, name): index
            for name, tranche in self._tranches.items()
            if tranche.ahead is not None
            for stream, index in tranche.ahead.changes().items()
        }

    def kept_ahead(self, changes: Mapping[Place, int | None]) -> None:
        """Take note that *changes* of what is `ahead` are kept."""
        for (stream, name), index in changes.items():
            tranche = self._tranches.get(name)
            if tranche is not None and tranche.ahead is not None:
                tranche.ahead.kept(stream, index)

    def foresee(self, results: Iterable[tuple[Call, Outcome | Failure]]) -> Foreseen:
        """Return what will have to be kept once calls are settled with these *results*."""
        met: Counter[Running] = Counter()
        reached: list[tuple[str, int, BatchRequirement]] = []
        parked: dict[Place, Parked] = {}
        touched, gone = set(), set()
        for call, result in results:
            if isinstance(result, Failure):
                continue
            stream = self._streams.get(call.stream)
            if stream is None or stream.call is not call or call.given_up is not None:
                gone.add(call.stream)
                continue
            to = call.next if result.next is None else result.next
            touched.add(stream.tranche.name)
            met.update(want.running for want in stream.wants if want.next <= to)
            reached += [(stream.name, to, want) for want in stream.begun(to)]
            if self.parking.is_read(call.stream):
                foreseen = self.parking.handled_if(call.stream, stream.tranche.name, to, call.below(to))
                parked |= {each.place: each for each in foreseen}
        ended = {name: tranche.ended_if(met) for name, tranche in self._tranches.items()}
        return Foreseen(
            {name: each[-1].end if each else self._tranches[name].completed for name, each in ended.items()},
            self._ahead_if(reached, ended),
            parked,
            touched,
            gone,
        )

    def _ahead_if(
        self, reached: Iterable[tuple[str, int, BatchRequirement]], ended: Mapping[str, Sequence[Running]]
    ) -> dict[Place, int | None]:
        over = {running for each in ended.values() for running in each}
        by_tranche: dict[str, dict[str, int]] = defaultdict(dict)
        for stream, to, want in reached:
            if want.running not in over:
                by_tranche[want.tranche.name][stream] = to
        return {
            (stream, name): index
            for name, tranche in self._tranches.items()
            if tranche.ahead is not None
            for stream, index in tranche.ahead.changes_if(by_tranche[name], ended[name]).items()
        }
