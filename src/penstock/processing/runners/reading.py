"""Reads for a processor: what there is room for, and what parked streams need that are tried again."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Batch
from penstock.processing.outcomes import Failure
from penstock.processing.progress import Beginning, PageReplay, Progress
from penstock.processing.runners.inbox import Errands, Inbox
from penstock.processing.sources.source import ReadRequest, Source
from penstock.processing.sources.subscription import subscription_in
from penstock.processing.tally import Tally
from penstock.wire.http import RetryBackoff, is_transient

READ_TIMEOUT: Final = 0.5
"""So long a source is asked to wait where there is nothing new; as long it may take to stop."""
BUSY_READ_TIMEOUT: Final = 0.01
"""The same while something is under way: soon there may be room for other tranches, too."""
DELAY_SECONDS_MAX: Final = 10.0
_log: Final = logging.getLogger("penstock.processing")


class Read(NamedTuple):
    """What was read."""

    found: Mapping[str, Beginning]
    """Tranches that are new, and where they are begun with."""
    batches: Sequence[Batch]
    again: Sequence[tuple[PageReplay, Batch | Failure]]
    """For streams that are tried again; or why it cannot be read."""
    took: float
    """How many seconds the batches took."""


class SourceThread:
    """Has a source read, in a thread of its own, and its engine take in what has come.

    A source that fails in a way that can pass is asked again, after growing delays.
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
        """Begin."""
        self._errands.start()

    @property
    def is_busy(self) -> bool:
        """Whether something is being read."""
        return self._errands.is_busy

    def end(self) -> None:
        """Close the source, and read nothing more; what is being read is not waited for."""
        self._is_over = True
        self._source.close()
        self._errands.end()

    def stop(self) -> None:
        """End: the source is closed."""
        if not self._is_over:
            self.end()
        self._errands.stop()

    def give_back(self) -> None:
        """Have a hub send others what it has sent of a subscription and nobody commits any more.

        Only where a stream fails, or its call has not ended, that counts as failed.
        """
        if (subscription := subscription_in(self._source)) is not None:
            engine = self._engine
            failed = {engine.tranche_of(stream) for stream in engine.busy.failing}
            subscription.let_go(failed=failed.union(*map(engine.tranches_of, engine.busy.active.values())))

    def ask(self, now: float) -> None:
        """Have read what there is room for, unless something is being read."""
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
        # What is begun with here was not here any more when it was said from where the others are to be read.
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
