"""The engine beside a model over several lives, with parked, retried and dropped streams in several tranches.

A life begins with what was kept last: positions, what is parked, and which streams something was parked of that is no
more. All that lies behind the positions is read anew: what was done comes again, what was dropped or tried again not.
"""

from collections import defaultdict
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.tranche import Batch, Position
from tests.exhaustive import examples
from tests.processing.test_engine_against_a_model import ROAMING, TRANCHES, WhateverIsParked
from tests.unit.processing.engine.items import STEADY, Thing


class Kept:
    """The state that another life begins with."""

    def __init__(self) -> None:
        self.positions: dict[str, Position] = dict.fromkeys(TRANCHES, 0)
        self.parked: list[Parked] = []
        self.ahead: dict[Place, int] = {}
        self.over: dict[Place, int] = {}
        """The same, as the model has it."""
        self.uncounted: set[str] = set()

    def go_on(self, batch: Batch, fails: str | None) -> None:
        """Have a worker handle a batch, who knows nothing of other tranches; it parks the stream that *fails*."""
        tranche, start = batch.tranche, self.positions[batch.tranche]
        parked = {each.stream: each for each in self.parked if each.tranche == tranche}
        for item in batch.items:
            waits = parked.get(item.stream)
            if item.index < self.over.get((item.stream, tranche), 0):
                continue
            if waits is None and item.stream == fails:
                parked[fails] = Parked(fails, tranche, item.index, item.next, 1, 1, "ValueError", "no", start)
            elif waits is not None and item.next > waits.next:
                parked[item.stream] = replace(waits, next=item.next, events=waits.events + 1)
        self.parked = [each for each in self.parked if each.tranche != tranche] + [*parked.values()]
        self.positions[tranche] = batch.end


class WhateverRestarts(WhateverIsParked):
    """The same over several lives."""

    is_exact = False
    """Whether it is kept of all streams how far they are done beyond their positions."""

    @initialize(
        concurrency=st.integers(1, 4), batches=st.integers(1, 4), events=st.integers(1, 12), per_call=st.integers(1, 5),
        attempts=st.integers(1, 2),
    )  # fmt: skip
    def begin(self, concurrency: int, batches: int, events: int, per_call: int, attempts: int = 1) -> None:
        super().begin(concurrency, batches, events, per_call, attempts)
        self.kept = Kept()
        self.unread: dict[str, list[Batch]] = defaultdict(list)
        """What an earlier life has read behind the positions that were kept."""
        self.over: dict[Place, int] = {}
        """Below which index nothing of a stream is handed out again in a tranche: it was parked, and is no more."""
        self.spans: dict[Place, int] = {}
        """Behind what is parked."""
        self.came: dict[str, int] = {}
        """Behind what has come in this life."""
        self.live(self.kept)

    def live(self, kept: Kept) -> None:
        """Begin a life."""
        self.engine = Engine(Rules(backoff=STEADY, **self.rules), Random(7), is_dense=False)
        self.calls, self.skipped, self.uncounted = [], {}, set(kept.uncounted)
        for tranche in TRANCHES:
            self.begin_with(tranche, kept)

    def begin_with(self, tranche: str, kept: Kept) -> None:
        """Begin with a tranche, of which nothing is known but what was kept."""
        everything, position = self.log(tranche), kept.positions[tranche]
        ahead = {stream: index for (stream, place), index in kept.ahead.items() if place == tranche}
        parked = [each for each in kept.parked if each.tranche == tranche]
        self.engine.open(tranche, position, ahead, is_exact=self.is_exact)
        self.engine.parking.load(parked)
        self.positions[tranche] = position
        self.unread[tranche] = [batch for batch in everything if batch.end > position]
        self.read[tranche] = [batch for batch in everything if batch.end <= position]
        for known, found in ((self.over, kept.over), (self.spans, {each.place: each.next for each in parked})):
            for place in [place for place in known if place[1] == tranche]:
                del known[place]
            known |= {place: end for place, end in found.items() if place[1] == tranche}
        for item in (item for batch in everything for item in batch.items):
            self.undone[self.line(item.stream, item.index)] = []
            self.came.pop(self.line(item.stream, item.index), None)
        for each in parked:
            line = self.line(each.stream, each.next - 1)
            items = [item for batch in everything for item in batch.items if item.stream == each.stream]
            self.undone[line] = [item.index for item in items if each.index <= item.index < each.next]
            self.came[line] = each.next

    @rule()
    def commit(self) -> None:
        """Keep how far it is."""
        engine = self.engine
        kept = Kept()
        kept.positions = engine.positions()
        kept.parked = [each for spans in engine.parking.streams.values() for each in spans.values()]
        changes = engine.find_ahead_changes()
        ahead = {**self.kept.ahead, **changes}
        kept.ahead = {place: index for place, index in ahead.items() if index is not None}
        kept.over, kept.uncounted = self.over | (self.done_of_all() if self.is_exact else {}), set(self.uncounted)
        engine.confirm_ahead(changes)
        engine.parking.confirm(engine.parking.find_changes())
        self.kept = deepcopy(kept)

    def done_of_all(self) -> dict[Place, int]:
        """Return up to where all is done that has come of streams, by tranche, of which nothing is parked there."""
        came = {
            (item.stream, tranche): self.line(item.stream, item.index)
            for tranche in TRANCHES
            for batch in self.read[tranche]
            for item in batch.items
        }
        return {
            place: max(self.over.get(place, 0), min(self.undone[line], default=self.came.get(line, 0)))
            for place, line in came.items()
            if place not in self.spans
        }

    @precondition(lambda self: self.spans or self.over)
    @rule(commits=st.sampled_from([True, True, False]))
    def restart(self, commits: bool) -> None:
        """End, with a last commit or without, and live again."""
        if commits:
            self.commit()
        self.live(self.kept)

    @precondition(lambda self: any(self.unread.values()))
    @rule(tranche=st.sampled_from(TRANCHES), count=st.integers(1, 4))
    def read_anew(self, tranche: str, count: int) -> None:
        """Read what an earlier life has read."""
        for batch in self.unread[tranche][:count]:
            if not self.engine.room(tranche):
                return
            del self.unread[tranche][0]
            self.read[tranche].append(batch)
            for item in batch.items:
                self.come(tranche, item.stream, item.index)
            self.engine.ingest(batch, self.now)

    @precondition(lambda self: any(map(self.engine.room, TRANCHES)))
    @rule(
        tranche=st.sampled_from(TRANCHES),
        picks=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=8),
        part=st.integers(1, 8),
    )
    def read_on(self, tranche: str, picks: list[tuple[int, int]], part: int = 8) -> None:
        if self.unread[tranche]:
            self.read_anew(tranche, 1)
        else:
            super().read_on(tranche, picks, part)

    def come(self, tranche: str, stream: str, index: int) -> None:
        place, line = (stream, tranche), self.line(stream, index)
        is_known = index < max(self.spans.get(place, 0), self.over.get(place, 0))
        self.came[line] = max(self.came.get(line, 0), index + 1)
        if not is_known:
            super().come(tranche, stream, index)

    def holds(self, item: Thing) -> bool:
        tranche = next((each for each, base in ROAMING.items() if base == item.index // 1000 * 1000), item.stream[0])
        parked = self.engine.parking.streams.get(item.stream, {}).get(tranche)
        is_undone = item.index in self.undone[self.line(item.stream, item.index)]
        return is_undone and (parked is None or item.index < parked.index)

    def parked_lines(self, stream: str) -> list[str]:
        spans = self.engine.parking.streams[stream].values()
        return [self.line(stream, parked.next - 1) for parked in spans]

    def come_to(self, line: str) -> int:
        return self.came.get(line, 0)

    def log(self, tranche: str) -> list[Batch]:
        return [*self.read[tranche], *self.unread[tranche]]

    @invariant()
    def note_what_is_parked_no_more(self) -> None:
        if not hasattr(self, "spans"):
            return
        parked = [each for found in self.engine.parking.streams.values() for each in found.values()]
        spans = {each.place: each.next for each in parked}
        for each in parked:
            undone = self.undone[self.line(each.stream, each.next - 1)]
            assert min(undone, default=each.index) >= each.index, "what is before what is parked counts as done"
        self.over |= {place: end for place, end in self.spans.items() if place not in spans}
        self.spans = spans

    def goes_on(self) -> bool:
        self.note_what_is_parked_no_more()
        for tranche in TRANCHES:
            self.read_anew(tranche, 100)
        self.note_what_is_parked_no_more()
        return super().goes_on() or any(self.unread.values())

    def check_known(self, known: AbstractSet[str], skipping: AbstractSet[str]) -> None:
        assert skipping <= known
        assert known - skipping <= {stream for stream, _ in self.over}, "but for those that were parked"


class WhateverRestartsExactly(WhateverRestarts):
    """The same where no done event comes again. A skip of events that have not come yet is not kept."""

    is_exact = True
    skips = ()


class WhateverIsHandedOver(WhateverRestarts):
    """The same where tranches are given to other workers in the middle, and come back with what these have parked."""

    skips = ()

    @rule(tranche=st.sampled_from(TRANCHES), parks=st.booleans())
    def hand_over(self, tranche: str, parks: bool) -> None:
        """Have another worker handle one more batch, where no call goes on."""
        if self.engine.is_active(tranche):
            return
        self.commit()
        self.engine.close(tranche)
        self.engine.forget(tranche)
        behind = [batch for batch in self.log(tranche) if batch.end > self.kept.positions[tranche]]
        for batch in behind[:1]:
            self.kept.go_on(batch, "roaming" if parks else None)
        self.begin_with(tranche, self.kept)


CHECKED = settings(
    max_examples=examples(16, 2000), stateful_step_count=60, suppress_health_check=[HealthCheck.too_slow]
)
TestRestarts: Any = WhateverRestarts.TestCase
TestRestarts.settings = CHECKED
TestExactRestarts: Any = WhateverRestartsExactly.TestCase
TestExactRestarts.settings = CHECKED
TestHandedOver: Any = WhateverIsHandedOver.TestCase
TestHandedOver.settings = CHECKED
