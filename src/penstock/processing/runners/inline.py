"""Runs a processor step by step, in the thread of who asks, by a clock that only moves when it is told to: for tests.

The same source, handler and seed do the same each time. Nothing sleeps.
"""

from random import Random

from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.handling import Classify, Handler, Handling
from penstock.processing.progress import Progress
from penstock.processing.sources.source import Source


class Inline:
    """A processor whose every step is somebody's call.

    Args:
        handler: See `Handler`.
        source: Where it reads.
        checkpoints: Where it keeps how far it is; by default in memory.
        rules: What it keeps to.
        classify: Names failures.
        seed: Of the jitter of delays.

    Raises:
        CheckpointMoved: (whatever commits) another processor uses its checkpoints.
        StreamExhausted, ProcessorUnhealthy: (whatever calls handlers) the rules have it stop.
    """

    def __init__(
        self,
        handler: Handler,
        source: Source,
        *,
        checkpoints: Checkpoints | None = None,
        rules: Rules | None = None,
        classify: Classify | None = None,
        seed: int = 0,
    ) -> None:
        self.engine = Engine(rules or Rules(), Random(seed), is_dense=source.is_dense)  # noqa: S311 - Nobody is to be surprised
        self.now = 0.0
        """The time, in seconds: it stands still until somebody moves it."""
        self._source = source
        self._handling = Handling(handler, classify)
        self._progress = Progress(self.engine, source, checkpoints or MemoryCheckpoints())

    def step(self) -> bool:
        """Read what there is room for and make one call; tell whether there was anything to do."""
        has_read = self._read()
        calls = self.engine.take(1, self.now)
        for call in calls:
            result = self._handling(call)
            self.engine.settle(call, result, self.now, self.now - call.began)
        self.engine.check_health(self.now)
        has_moved = self._progress.commit()
        return has_read or bool(calls) or has_moved

    def drain(self, *, advance: bool = False) -> None:
        """Take steps until there is nothing to do; with *advance*, also what is to wait: time moves on to it at once.

        Events that handlers append are among it. A handler that fails for ever is tried for ever with *advance*, unless
        the rules have it stop.
        """
        while self.step() or (advance and self._wait()):
            pass

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def _wait(self) -> bool:
        due = self.engine.due
        if due is None:
            return False
        self.now = max(self.now, due)
        return True

    def _read(self) -> bool:
        self._progress.open(self._progress.survey())
        wants, replays = self._progress.wants(), self._progress.replays()
        batches = self._source.read(wants, 0.0) if wants else []
        has_read = bool(replays) or any(batch.items or batch.end != wants[batch.tranche].position for batch in batches)
        for batch in batches:
            self.engine.ingest(batch, self.now)
        for replay, want in replays:
            self.engine.replay(replay, self._source.reread(replay.parked.tranche, want), self.now)
        return has_read
