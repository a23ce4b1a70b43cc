"""Lets others see what a processor has under way: it takes snapshots for them, and says in the log what happens."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from penstock.errors import PenstockError
from penstock.processing.announcing import Announcing
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Position
from penstock.processing.parameters import check_name, check_some_seconds
from penstock.processing.quota import LogQuota
from penstock.processing.snapshot import Snapshot, take_snapshot
from penstock.processing.source_watch import SourceAnswer
from penstock.processing.tally import Tally

ASK_INTERVAL: Final = 5.0
"""The interval between two questions to the source about its heads, in seconds."""
ASK_SHARE: Final = 20
"""A source that takes long to say what it has is asked less often: of so many seconds one goes into that."""
_log: Final = logging.getLogger("penstock.processing")
Behind: TypeAlias = Callable[[Mapping[str, Position]], Mapping[str, int | None]]


class Observing:
    """What the loop that has an engine does for those who watch. They read `snapshot` from whichever thread.

    Every few seconds a thread asks the source how many events it has behind what is done. One that does not answer
    holds nobody up, and is not asked again meanwhile.

    Args:
        name: The processor's.
        engine: Its engine.
        behind: Asks the source how many events each tranche has behind a position.
        stats_interval: How often a line of figures goes into the log; None: never.
        now: The time at which it begins.

    Raises:
        BadParameter: *stats_interval* is no number of seconds above 0.
    """

    def __init__(self, name: str, engine: Engine, behind: Behind, stats_interval: float | None, now: float) -> None:
        check_some_seconds("stats_interval", stats_interval)
        self.tally = Tally()
        self.name = name
        """The processor's: what it is called in logs, views and metrics."""
        self._engine = engine
        self._behind = behind
        self._is_asking = self._has_ended = False
        self._ask_at = now
        self._announcing = Announcing(name, engine, LogQuota())
        self._stats_interval = stats_interval
        self._told: Snapshot | None = None
        self._told_at = now
        self.snapshot = take_snapshot(name, engine, self.tally, now, is_running=False)
        """What there was when it was looked last. It is another one then, and is never changed."""

    def look(self, now: float) -> None:
        """Take a snapshot, and say what there is to say."""
        self.tally.source.begin(now)
        self.snapshot = take_snapshot(self.name, self._engine, self.tally, now, is_running=True)
        self._ask(now)
        self._announcing.look(now)
        if self._stats_interval is not None and now - self._told_at >= self._stats_interval:
            self._tell(now)

    def check_source(self, now: float) -> None:
        """Raise ProcessorUnhealthy where the source has not answered for longer than the rules allow."""
        self._engine.rules.health.check_source(self.tally.unanswered_seconds(now))

    def end(self, now: float, error: BaseException | None) -> None:
        """Take the last snapshot, and say what has ended the processor."""
        self._has_ended = True
        self._announcing.look(now)
        self.snapshot = take_snapshot(self.name, self._engine, self.tally, now, is_running=False)
        if self._stats_interval is not None:
            self._tell(now)
        self._announcing.ended(error)

    def _ask(self, now: float) -> None:
        if self.snapshot.tranches and now >= self._ask_at and not self._is_asking:
            self._is_asking = True
            threading.Thread(target=self._asked, args=(self.snapshot, now), name="penstock-gap", daemon=True).start()

    def _asked(self, snapshot: Snapshot, now: float) -> None:
        began = time.monotonic()
        try:
            counts = self._behind({each.name: each.position for each in snapshot.tranches})
        except Exception as error:  # noqa: BLE001 - It is no answer.
            counts = None
            if not (isinstance(error, PenstockError) or self._has_ended):  # Else whoever reads the source is told why.
                _log.warning("%s: the source does not say how many events it has: %r", self.name, error)
        if counts is not None:
            rules, tranches = self._engine.rules, snapshot.tranches
            is_wanted = any(
                each.events_ahead < rules.events_ahead and each.pages_ahead < rules.batches_ahead for each in tranches
            )
            answer = SourceAnswer(counts, {each.name: each.events_done for each in tranches})
            self.tally.source.told(answer, now, is_wanted=is_wanted)
        self._ask_at = now + max(ASK_INTERVAL, ASK_SHARE * (time.monotonic() - began))
        self._is_asking = False

    def _tell(self, now: float) -> None:
        self._announcing.tell(self.snapshot, self._told)
        self._told, self._told_at = self.snapshot, now


def name_of(name: str | None, checkpoints: Checkpoints) -> str:
    """Return what a processor is called: *name*, or else what its checkpoints call it, if they do.

    Raises:
        BadParameter: *name* is no name.
    """
    if name is None:
        return str(getattr(checkpoints, "name", "processor"))
    check_name("name", name)
    return name
