"""Runs a processor in this process: one thread reads, some call handlers, and one has the engine to itself.

    reader ── batches ──┐                        ┌── calls ──▶ workers
                        ▼                        │               │
                     inbox ──▶ the loop: ingest, take, settle, commit
                        ▲                                        │
                        └──────────────── results ───────────────┘

Handlers that are coroutine functions run in one event loop, on a thread of its own, as many at once as rules allow.
"""

import inspect
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Final, Self

from penstock.errors import Unavailable
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Batch
from penstock.processing.engine.rules import Rules
from penstock.processing.handling import Classify, Handler, Handling
from penstock.processing.progress import Progress
from penstock.processing.runners.inbox import Inbox, Settled
from penstock.processing.runners.reader import Reader
from penstock.processing.runners.tasks import Tasks
from penstock.processing.runners.threads import Threads
from penstock.processing.sources.source import Source

READ_S: Final = 0.5
"""So long a source is asked to wait where there is nothing new; as long it may take to stop."""
BUSY_READ_S: Final = 0.01
"""The same while something is under way: soon there may be room for other tranches, too."""
LOOK_S: Final = 0.5
"""How often at least it is looked for what time alone brings: commits, calls that are overdue, bad health."""
AHEAD_S: Final = 0.002
"""So much work is handed out beyond what is under way, so that short calls follow each other without a pause."""
AHEAD_MAX: Final = 512
STOP_S_MAX: Final = 30.0


class Local:
    """A processor in this process, from `start` to `stop`, or as long as a `with` block.

    Args:
        handler: See `Handler`. It is called by several threads, never by two for one stream.
        source: Where it reads.
        checkpoints: Where it keeps how far it is; by default in memory.
        rules: What it keeps to.
        classify: Names failures.
        commit_s: How often it commits; besides it does when it stops.
        clock: Seconds that never go back.

    Raises:
        PenstockError: (`stop`, `wait_until_caught_up`) what has ended it.
    """

    def __init__(
        self,
        handler: Handler,
        source: Source,
        *,
        checkpoints: Checkpoints | None = None,
        rules: Rules | None = None,
        classify: Classify | None = None,
        commit_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = Engine(rules or Rules(), Random(), is_dense=source.is_dense)  # noqa: S311 - Of delays.
        self._progress = Progress(self.engine, source, checkpoints or MemoryCheckpoints())
        self._clock = clock
        self._commit_s = commit_s
        self._inbox = Inbox()
        self._reader = Reader(source, self._inbox)
        is_async = inspect.iscoroutinefunction(handler)
        calling = Handling(handler, classify)
        self._workers: Threads | Tasks = (
            Tasks(calling, self._inbox, clock) if is_async else Threads(calling, self._inbox, clock)
        )
        self._mean_s = 0.0
        self._stopping = threading.Event()
        self._caught_up = threading.Condition()
        self._rounds = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-processor", daemon=True)
        self._committed_at = self._looked_at = clock()

    def start(self) -> Self:
        """Begin."""
        self._reader.start()
        self._workers.start(self.engine.rules.concurrency)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End: calls that are under way are waited for, what is done is committed, and nothing new is begun."""
        self._stopping.set()
        self._inbox.wake()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait_until_caught_up(self, timeout: float) -> None:
        """Wait until all that the source had when it was asked last is handled and committed.

        Raises:
            Unavailable: that has not come for so many seconds.
        """
        deadline = time.monotonic() + timeout
        with self._caught_up:
            begun = self._rounds
            self._inbox.wake()
            while self._rounds < begun + 2 and self._thread.is_alive():
                if not self._caught_up.wait(deadline - time.monotonic()):
                    raise Unavailable(reason=f"the processor has not caught up within {timeout:g} s")
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            with suppress(Exception):  # What the block has raised says more.
                self.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step(self._clock())
            self._finish()
        except BaseException as error:  # noqa: BLE001 - Whoever stops or waits is told.
            self._error = error
        finally:
            self._reader.stop()
            self._workers.stop()
            with self._caught_up:
                self._caught_up.notify_all()

    def _step(self, now: float) -> None:
        self._take_in(now)
        self._ask()
        calls = self.engine.take(self._free(), now)
        if calls:
            self._workers.call(calls)
        self._look(now)
        due = self.engine.due
        self._inbox.wait(LOOK_S if due is None else min(LOOK_S, max(0.0, due - now)))

    def _take_in(self, now: float) -> None:
        engine = self.engine
        for item in self._inbox.taken():
            if isinstance(item, Settled):
                engine.settle(item.call, item.result, now, item.took)
                self._mean_s += (item.took - self._mean_s) * 0.05
            elif isinstance(item, BaseException):
                raise item
            else:
                for batch in item:
                    engine.ingest(batch, now)
                self._note_reading(item)

    def _note_reading(self, batches: Sequence[Batch]) -> None:
        """Count the times that there was nothing to read and nothing to do."""
        if batches or not self.engine.is_idle or self._reader.is_partial:
            return
        self._progress.commit()
        with self._caught_up:
            self._rounds += 1
            self._caught_up.notify_all()

    def _ask(self) -> None:
        if not self._reader.is_asked and (wants := self._progress.wants()):
            is_partial = len(wants) < self._progress.tranches
            self._reader.ask(wants, READ_S if self.engine.is_idle else BUSY_READ_S, is_partial=is_partial)

    def _free(self) -> int:
        """Return how many calls may be handed out: to idle workers, and a little ahead where calls are short."""
        concurrency, busy = self.engine.rules.concurrency, self.engine.busy
        ahead = min(AHEAD_MAX, int(concurrency * AHEAD_S / max(self._mean_s, 1e-6))) if self.engine.handled else 0
        stuck = min(len(busy.overdue_calls), concurrency)
        return concurrency + ahead + stuck - len(busy.active)

    def _look(self, now: float) -> None:
        if now - self._committed_at >= self._commit_s:
            self._committed_at = now
            self._progress.commit()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._workers.grow(len(self.engine.overdue(now)))
            self.engine.check_health(now)

    def _finish(self) -> None:
        """Wait for the calls that are under way, and commit."""
        deadline = time.monotonic() + STOP_S_MAX
        for call in self._workers.withdraw():
            self.engine.give_back(call)
        while self.engine.busy.active and time.monotonic() < deadline:
            self._inbox.wait(LOOK_S)
            for item in self._inbox.taken():
                if isinstance(item, Settled):
                    self.engine.settle(item.call, item.result, self._clock(), item.took)
        self._progress.commit()
