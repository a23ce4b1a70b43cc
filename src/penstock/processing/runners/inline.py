"""Runs a processor step by step, for tests: in the caller's thread, with a clock that the test moves.

The same source, handler and seed give the same result each time. Nothing sleeps.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from penstock.errors import PenstockError, ProcessorUnhealthy
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.stream import Call
from penstock.processing.handlers import Classify, Handler, StreamCaller
from penstock.processing.parameters import check_seconds, check_whole
from penstock.processing.progress import Progress
from penstock.processing.runners.observer import choose_name
from penstock.processing.runners.processor import approve_missing, choose_checkpoints
from penstock.processing.runners.workers import EngineAccess, GroupCaller
from penstock.processing.snapshot import Snapshot, SourceAnswer, Tally, take_snapshot
from penstock.processing.sources.source import Source, check_source
from penstock.processing.together import Together, Transactional

VAIN_MAX: Final = 1_000
"""Number of calls without progress, at one moment of the clock, after which a stream counts as an endless loop."""


class InlineProcessor:
    """A processor that runs only when the caller takes a step.

    Args:
        handler: See `Handler`.
        source: The source to read.
        checkpoints: Where it stores its progress; by default in memory, or in the checkpoints of a `Transactional` or
            a `SubscriptionSource`.
        rules: The processor's rules.
        classify: Names failures.
        seed: The seed for the jitter of delays.
        name: Its name in views and metrics; by default the name of its checkpoints.

    Raises:
        BadParameter: the handler does not accept the arguments of a call; the source or the checkpoints are invalid.
        CheckpointMoved: (methods that commit) another processor uses its checkpoints.
        KeyboardInterrupt: (methods that call handlers, in the main thread) the user pressed Ctrl-C; an interrupted
            call does not count, and can be made again.
        HandlerFailed, ProcessorUnhealthy: (methods that call handlers) the rules stop the processor.
    """

    def __init__(
        self,
        handler: Handler | Together | Transactional,
        source: Source,
        *,
        checkpoints: Checkpoints | None = None,
        rules: Rules | None = None,
        classify: Classify | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        check_source(source)
        check_whole("seed", seed)
        is_patient = isinstance(handler, Together | Transactional)
        chance = Random(seed)  # noqa: S311 - Repeatable, for tests.
        self.engine = Engine(
            Rules() if rules is None else rules, chance, is_dense=source.is_dense, is_patient=is_patient
        )
        self.now = 0.0
        """The time in seconds. It moves only with `advance` or `drain`, or if the caller sets it."""
        self._source = source
        checkpoints, keeps_ahead = choose_checkpoints(handler, checkpoints, source)
        self.name = choose_name(name, checkpoints)
        """Its name in views and metrics."""
        self._tally = Tally()
        self._tally.source.begin(self.now)
        self._progress = Progress(self.engine, source, checkpoints, keeps_ahead=keeps_ahead)
        self._access = EngineAccess(self.engine, self._progress, lambda: self.now, self._tally)
        self._make, self._calls_max = self._choose_caller(handler, classify)

    def step(self) -> bool:
        """Read up to the limits, make one call and commit; return whether there was anything to do."""
        if self._progress.is_doubtful:
            self._commit()
        try:
            has_read = self._read()
        except PenstockError:
            self._tally.check_source(self.engine.rules.health, self.now)
            raise
        self._tally.source.note_read(self.now, is_answer=True)
        has_called = self._call()
        self.engine.check_health(self.now)
        has_moved = self._commit()
        return has_read or has_called or has_moved

    def drain(self, *, advance: bool = False) -> None:
        """Take steps until there is nothing to do; with *advance*, also move the time on to waiting streams.

        This includes events that handlers append. With *advance*, it does not end while a handler keeps failing, unless
        the rules stop the processor.

        Raises:
            ProcessorUnhealthy: a stream was called `VAIN_MAX` times without progress and without a delay.
        """
        while self.step() or (advance and self._wait()):
            self._check_advance()

    @property
    def snapshot(self) -> Snapshot:
        """Return the state now, after asking the source for its heads. Call it from the thread that takes the steps."""
        found = self._snapshot()
        with suppress(PenstockError):  # Else the source's last answer remains.
            counts = self._progress.behind({each.name: each.position for each in found.tranches})
            answer = SourceAnswer(counts, {each.name: each.events_done for each in found.tranches})
            self._tally.source.note_counts(answer, self.now, is_wanted=False)
        return self._snapshot()

    def _snapshot(self) -> Snapshot:
        return take_snapshot(self.name, self.engine, self._tally, self.now, is_running=True)

    def behind(self) -> Mapping[str, int | None]:
        """Return the number of events after the committed position of each tranche."""
        return self._progress.behind()

    def approve_missing(self, stream: str, *, reason: str) -> None:
        """Advance a stream past a missing index that will never come; see `LocalProcessor`."""
        approve_missing(stream, reason, self.engine, self._progress.record, lambda do: do())

    def advance(self, seconds: float) -> None:
        """Move the time forward by *seconds*."""
        check_seconds("seconds", seconds, zero=True)
        self.now += seconds

    def _check_advance(self) -> None:
        busy = self.engine.busy
        found = [
            f"{each.stream} at {each.index}, called {each.attempts} times in vain without any time between"
            for each in (*busy.stalled.values(), *busy.failing.values())
            if each.attempts >= VAIN_MAX and each.last == each.since
        ]
        if found:
            raise ProcessorUnhealthy(streams=found)

    def _choose_caller(
        self, handler: Handler | Together | Transactional, classify: Classify | None
    ) -> tuple[Callable[[Sequence[Call]], None], int]:
        """Return the function that makes calls, and the maximum number of calls that it makes at once."""
        if isinstance(handler, Together | Transactional):
            return GroupCaller(
                handler, classify, self._access, lambda do: do(), clock=lambda: self.now
            ).make, handler.streams_max
        caller = StreamCaller(handler, classify)

        def make(calls: Sequence[Call]) -> None:
            for call in calls:
                call.called = self.now
                result = caller(call)
                self.engine.mark_overdue(self.now)  # Handlers may have moved the time.
                self.engine.settle(call, result, self.now, self.now - call.began)

        return make, 1

    def _call(self) -> bool:
        calls = self.engine.take(self._calls_max, self.now)
        try:
            if calls:
                self._make(calls)
        except KeyboardInterrupt:  # The caller may go on: the calls are undone.
            self._access.give_back(calls)
            raise
        return bool(calls)

    def _commit(self) -> bool:
        try:
            has_moved = self._progress.commit()
        except PenstockError as error:
            self._tally.fail_commit(error.detail)
            raise
        if has_moved:
            self._tally.end_commit()
        return has_moved

    def _wait(self) -> bool:
        due = self.engine.due
        if due is None:
            return False
        self.now = max(self.now, due)
        return True

    def _read(self) -> bool:
        self._progress.open(self._progress.find_new_tranches())
        wants, replays = self._progress.plan_reads(), self._progress.plan_replays()
        batches = self._source.read(wants, 0.0) if wants else []
        has_read = bool(replays) or any(batch.items or batch.end != wants[batch.tranche].position for batch in batches)
        for batch in batches:
            self.engine.ingest(batch, self.now)
            self._tally.note_batch(batch)
            self._tally.follow(self.engine.tranche(batch.tranche))
        for replay in replays:
            self.engine.replay_all(replay.parked, self._progress.reread(replay), self.now)
        return has_read
