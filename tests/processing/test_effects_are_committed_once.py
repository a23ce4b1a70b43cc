"""Rows that a `Transactional` writes are there once for each event, in order, after kills at any point."""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import ParkedNotFound
from penstock.processing import DatabaseCheckpoints, InlineProcessor, Rules, Transactional
from penstock.processing.engine import Backoff
from penstock.processing.engine.rules import Exhausted
from penstock.processing.engine.tranche import Batch, Position, SourceItem
from penstock.processing.sources.source import ReadRequest
from penstock.processing.stream_event import StreamEvent
from penstock.processing.together import Span
from tests.exhaustive import examples

TRANCHES = ("a", "b")
ROAMING = "roaming"
"""A stream that lies in both tranches, where indices are a tranche's."""
Death: TypeAlias = Literal["before its commit", "after its commit", "refused", "lost"]


class Killed(BaseException):
    """That the process has died."""


class Lines:
    """Events that follow each other in each tranche; a position is how many are before it."""

    is_replayable = True

    def __init__(self, *, is_dense: bool) -> None:
        self.is_dense = self.is_by_stream = is_dense
        self.items: dict[str, list[SourceItem]] = {tranche: [] for tranche in TRANCHES}
        self.read_max = 3
        """How many are read at once: it need not be the same in another life."""

    def tranches(self) -> Collection[str]:
        return TRANCHES

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - It is the same of all.
        return 0

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:  # noqa: ARG002 - Nobody waits.
        return [self._batch(tranche, int(want.position), want.events_max) for tranche, want in wants.items()]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        return self._batch(tranche, int(want.position), want.events_max)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        return {each: len(items) - int(positions.get(each, 0)) for each, items in self.items.items()}

    def close(self) -> None:
        pass

    def _batch(self, tranche: str, start: int, events_max: int) -> Batch:
        items = self.items[tranche]
        end = min(len(items), start + min(events_max, self.read_max))
        return Batch(tranche, end, items[start:end], is_tail=end == len(items))


class EffectsAreHadOnce(RuleBasedStateMachine):
    """A processor that is killed and started again and again, whose streams fail and recover."""

    is_dense: ClassVar[bool]

    @initialize(
        together=st.integers(1, 4),
        per_call=st.integers(1, 3),
        events=st.integers(2, 12),
        exhausted=st.sampled_from(["park", "stop"]),
    )
    def begin(self, together: int, per_call: int, events: int, exhausted: Exhausted) -> None:
        self.directory = TemporaryDirectory()
        self.path = Path(self.directory.name) / "effects.db"
        with closing(self.connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE effects (stream, tranche, idx, number INTEGER PRIMARY KEY)")
        self.source = Lines(is_dense=self.is_dense)
        self.together = together
        self.rules = Rules(
            events_per_call=per_call,
            events_ahead=events,
            batches_ahead=4,
            attempts_max=2 if exhausted == "park" else None,
            exhausted=exhausted,
            backoff=Backoff(first_seconds=1.0, max_seconds=1.0),
        )
        self.next: dict[tuple[str, str], int] = defaultdict(int)
        self.failing: set[str] = set()
        self.dropped: set[str] = set()
        self.dies: Death | None = None
        self.start()

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def mortal(self) -> sqlite3.Connection:
        """Open a connection whose commit may be the last thing that its process does."""
        death = self.dies

        class Mortal(sqlite3.Connection):
            def commit(self) -> None:
                if death == "before its commit":
                    raise Killed
                if death == "refused":
                    raise sqlite3.OperationalError("disk I/O error")
                super().commit()
                if death == "lost":
                    raise sqlite3.OperationalError("disk I/O error")
                if death == "after its commit":
                    raise Killed

        connection = sqlite3.connect(self.path, isolation_level=None, factory=Mortal)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def handle(self, connection: sqlite3.Connection, spans: Sequence[Span]) -> list[Any]:
        for span in spans:
            rows = [(span.stream, each.tranche, each.index) for each in span.events if span.stream not in self.failing]
            connection.executemany("INSERT INTO effects (stream, tranche, idx) VALUES (?, ?, ?)", rows)
        return [ValueError("no") if span.stream in self.failing else None for span in spans]

    @rule(read_max=st.integers(1, 6))
    def start(self, read_max: int = 3) -> None:
        """Begin another life; the one before has ended as it stood."""
        self.source.read_max = read_max
        self.checkpoints = DatabaseCheckpoints(self.connect, "counter")
        handler = Transactional(self.mortal, self.handle, self.checkpoints, streams_max=self.together)
        self.processor = InlineProcessor(handler, self.source, rules=self.rules)

    @rule(tranche=st.sampled_from(TRANCHES), numbers=st.lists(st.integers(0, 3), min_size=1, max_size=8))
    def append(self, tranche: str, numbers: list[int]) -> None:
        for number in numbers:
            stream = ROAMING if number == 0 and not self.is_dense else f"{tranche}{number}"
            line = (stream, "") if self.is_dense else ("", tranche)
            index = self.next[line]
            self.next[line] += 1
            item = StreamEvent(stream, index, "event", b"{}", tranche=tranche)
            self.source.items[tranche].append(item)

    @rule(stream=st.sampled_from([ROAMING, "a1", "a2", "b1"]))
    def fail(self, stream: str) -> None:
        self.failing.add(stream)

    @rule()
    def recover(self) -> None:
        self.failing.clear()

    @rule(steps=st.integers(1, 5))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.processor.step()
            self.processor.advance(1.0)

    @rule(
        steps=st.integers(1, 5),
        death=st.sampled_from(["before its commit", "after its commit", "refused", "lost"]),
    )
    def commit_badly(self, steps: int, death: Death) -> None:
        self.dies = death
        try:
            self.go_on(steps)
        except Killed:
            self.start()
        finally:
            self.dies = None

    @precondition(lambda self: self.rules.exhausted == "park")
    @rule(stream=st.sampled_from([ROAMING, "a1", "a2", "b1"]), request=st.sampled_from(["retry", "retry", "skip"]))
    def ask(self, stream: str, request: Literal["retry", "skip"]) -> None:
        with suppress(ParkedNotFound):
            self.checkpoints.ask(stream, request)
            if request == "skip":
                self.dropped.add(stream)

    def found(self) -> dict[tuple[str, str], list[int]]:
        """Return the indices that have effects, by stream or by tranche."""
        found = defaultdict(list)
        with closing(self.connect()) as connection:
            for stream, tranche, index in connection.execute(
                "SELECT stream, tranche, idx FROM effects ORDER BY number"
            ):
                found[stream, "" if self.is_dense else tranche].append(index)
        return found

    @invariant()
    def effects_are_had_once(self) -> None:
        if hasattr(self, "path"):
            for line, indices in self.found().items():
                assert len(indices) == len({*indices}), f"{line}: {indices}"
                assert self.is_dense or indices == sorted(indices), f"{line}: {indices}"

    def teardown(self) -> None:
        if not hasattr(self, "path"):
            return
        with self.directory:
            self.recover()
            self.start()
            self.processor.drain(advance=True)
            while parked := {each.stream for each in self.checkpoints.parked()}:
                for stream in parked:
                    self.checkpoints.ask(stream, "retry")
                self.processor.drain(advance=True)
            self.effects_are_had_once()
            expected: dict[tuple[str, str], list[int]] = defaultdict(list)
            for tranche, items in self.source.items.items():
                for item in items:
                    expected[item.stream, "" if self.is_dense else tranche].append(item.index)
            found = self.found()
            for line, indices in expected.items():
                if line[0] in self.dropped:
                    assert {*found[line]} <= {*indices}
                else:
                    assert sorted(found[line]) == sorted(indices), line
            self.nothing_is_left_over()

    def nothing_is_left_over(self) -> None:
        """Entries beside the positions are removed once the positions have passed them, unless they were parked."""
        with closing(self.connect()) as connection:
            kept = connection.execute("SELECT stream FROM penstock_checkpoints_ahead").fetchall()
        assert self.rules.exhausted == "park" or not kept


class SparseEffectsAreHadOnce(EffectsAreHadOnce):
    """The indices are those of a tranche."""

    is_dense = False


class DenseEffectsAreHadOnce(EffectsAreHadOnce):
    """The indices are those of a stream, wherever it lies."""

    is_dense = True


WHEN = settings(
    max_examples=examples(8, 300), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSparse = SparseEffectsAreHadOnce.TestCase
TestSparse.settings = WHEN
TestDense = DenseEffectsAreHadOnce.TestCase
TestDense.settings = WHEN
