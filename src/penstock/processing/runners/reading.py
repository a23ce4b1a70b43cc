"""Reads for a processor: new events up to the limits, and the events of parked streams that are tried again."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import Failure
from penstock.processing.progress import Beginning, PageReplay, Progress
from penstock.processing.runners.inbox import Errands, Inbox
from penstock.processing.snapshot import Tally
from penstock.processing.sources.source import ReadRequest, Source
from penstock.processing.sources.subscription import subscription_in
from penstock.wire.http import RetryBackoff, is_transient

READ_TIMEOUT: Final = 0.5
"""Seconds for which a source waits for new events; stopping may take as long."""
BUSY_READ_TIMEOUT: Final = 0.01
"""The same while events are unfinished: other tranches may have room soon."""
DELAY_SECONDS_MAX: Final = 10.0
_log: Final = logging.getLogger("penstock.processing")


class Read(NamedTuple):
    """The result of one read."""

    found: Mapping[str, Beginning]
    """New tranches, and their beginnings."""
    batches: Sequence[Batch]
    again: Sequence[tuple[PageReplay, Batch | Failure]]
    """Pages for streams that are tried again, or the read's failure."""
    took: float
    """Seconds that reading the batches took."""


class SourceThread:
    """Reads a source in a thread of its own, and adds its batches to the engine.

    After a transient failure, it reads again after growing delays.
    """

    def __init__(
        self,
        source: Source,
        engine: Engine,
        progress: Progress,
        inbox: Inbox,
        clock: Callable[[], float],
        *,
        tally: Tally,
    ) -> None:
        self._source = source
        self._engine = engine
        self._progress = progress
        self._clock = clock
        self._tally = tally
        self._errands = Errands(inbox, "penstock-reader", partial(tally.cpu.counted, "read"))
        self._backoff = RetryBackoff(DELAY_SECONDS_MAX)
        self._not_before = 0.0
        self._is_over = False

    def start(self) -> None:
        """Start the thread."""
        self._errands.start()

    @property
    def is_busy(self) -> bool:
        """True if a read is in progress."""
        return self._errands.is_busy

    def end(self) -> None:
        """Close the source, and read no further, without waiting for the read in progress."""
        self._is_over = True
        self._source.close()
        self._errands.end()

    def stop(self) -> None:
        """Close the source, and wait for the thread's end."""
        if not self._is_over:
            self.end()
        self._errands.stop()

    def give_back(self) -> None:
        """Return the uncommitted events of a subscription to the hub, which sends them to other streams.

        Tranches with failing streams or active calls count as failed there.
        """
        if (subscription := subscription_in(self._source)) is not None:
            engine = self._engine
            failed = {engine.tranche_of(stream) for stream in engine.busy.failing}
            subscription.let_go(failed=failed.union(*map(engine.tranches_of, engine.busy.active.values())))

    def ask(self, now: float) -> None:
        """Begin a read up to the limits, unless one is in progress."""
        if self._errands.is_busy or now < self._not_before:
            return
        wants, replays = self._progress.wants(), self._progress.replays()
        if wants or replays or not self._progress.has_begun:
            is_idle = self._engine.is_idle and not self._engine.parking.retried
            timeout = READ_TIMEOUT if is_idle else BUSY_READ_TIMEOUT
            self._errands.do(lambda: self._read(wants, replays, timeout), self._taken, self._failed)

    def _read(self, wants: Mapping[str, ReadRequest], replays: Sequence[PageReplay], timeout: float) -> Read:
        source, found = self._source, self._progress.survey()
        if not (wants or replays or found):
            time.sleep(timeout)  # There is no tranche yet.
        again = [(replay, self._progress.reread(replay)) for replay in replays]
        began = self._clock()
        batches = source.read(wants, 0.0 if again or found else timeout) if wants else ()
        return Read(found, batches, again, self._clock() - began)

    def _taken(self, read: Read) -> None:
        now = self._clock()
        self._backoff.reset()
        self._tally.source.read(now, is_answer=bool(read.batches))
        self._progress.open(read.found)
        if any(batch.items for batch in read.batches):
            self._tally.reads.add(read.took)
        # A tranche that begins here was not open when the positions to read from were chosen.
        batches = [batch for batch in read.batches if batch.tranche not in read.found]
        taken_in = self._engine.positions().keys() - self._progress.closing
        for batch in batches:
            began = self._clock()
            self._engine.ingest(batch, now)
            if batch.tranche in taken_in:
                self._tally.read(batch, self._clock() - began)
        for replay, found in read.again:
            if replay.tranche in taken_in and replay.tranche not in read.found:
                self._engine.replay_all(replay.parked, found, now)

    def _failed(self, error: BaseException) -> None:
        if self._is_over:
            return
        if not (isinstance(error, PenstockError) and is_transient(error)):
            raise error
        self._tally.source.read_failed()
        delay = self._backoff.delay(error)
        _log.warning("the source is asked again in %.1f s: %s", delay, error.detail)
        self._not_before = self._clock() + delay
