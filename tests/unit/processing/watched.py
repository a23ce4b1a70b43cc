"""Snapshots for tests of those who watch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.processing.engine.engine import Engine
from penstock.processing.snapshot import Snapshot, SourceAnswer, Tally, take_snapshot


@dataclass
class Watched:
    """A processor of which somebody else moves the engine."""

    name: str
    engine: Engine
    tally: Tally = field(default_factory=Tally)
    now: float = 0.0
    is_running: bool = True

    @property
    def snapshot(self) -> Snapshot:
        return take_snapshot(self.name, self.engine, self.tally, self.now, is_running=self.is_running)

    def tell_behind(self, counts: Mapping[str, int | None]) -> None:
        """Have its source say how many events it has behind what is done now."""
        done = {each.name: each.events_done for each in self.snapshot.tranches}
        self.tally.source.note_counts(SourceAnswer(counts, done), self.now, is_wanted=True)
