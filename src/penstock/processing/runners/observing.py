"""Lets others see what a processor has under way: it takes snapshots for them, and says in the log what happens."""

from penstock.processing.announcing import Announcing
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.parameters import check_name, check_some_seconds
from penstock.processing.quota import Quota
from penstock.processing.snapshot import Snapshot, take_snapshot
from penstock.processing.tally import Tally


class Observing:
    """What the loop that has an engine does for those who watch. They read `snapshot` from whichever thread.

    Args:
        name: The processor's.
        engine: Its engine.
        stats_s: How often a line of figures goes into the log; None: never.
        now: The time at which it begins.

    Raises:
        BadParameter: *stats_s* is no number of seconds above 0.
    """

    def __init__(self, name: str, engine: Engine, stats_s: float | None, now: float) -> None:
        check_some_seconds("stats_s", stats_s)
        self.tally = Tally()
        self.name = name
        """The processor's: what it is called in logs, views and metrics."""
        self._engine = engine
        self._announcing = Announcing(name, engine, Quota())
        self._stats_s = stats_s
        self._told: Snapshot | None = None
        self._told_at = now
        self.snapshot = take_snapshot(name, engine, self.tally, now, is_running=False)
        """What there was when it was looked last. It is another one then, and is never changed."""

    def look(self, now: float) -> None:
        """Take a snapshot, and say what there is to say."""
        self.snapshot = take_snapshot(self.name, self._engine, self.tally, now, is_running=True)
        self._announcing.look(now)
        if self._stats_s is not None and now - self._told_at >= self._stats_s:
            self._tell(now)

    def end(self, now: float, error: BaseException | None) -> None:
        """Take the last snapshot, and say what has ended the processor."""
        self._announcing.look(now)
        self.snapshot = take_snapshot(self.name, self._engine, self.tally, now, is_running=False)
        if self._stats_s is not None:
            self._tell(now)
        self._announcing.ended(error)

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
