from collections.abc import Callable, Collection
from random import Random

import pytest

from penstock.processing.checkpoints.checkpoint import Advance, MemoryCheckpoints, PositionMove
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import Failure, done
from penstock.processing.progress import Progress
from penstock.processing.runners.background import Mailbox, SourceReader
from penstock.processing.snapshot import Tally
from penstock.processing.sources.memory import MemorySource
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.processing.stream_event import StreamEvent

ALL = frozenset({"0", "1"})
SOON_SECONDS = 300.0


class Leaseholder:
    """A processor that shares its tranches with others, and reads."""

    def __init__(self) -> None:
        self.source, self.checkpoints = MemorySource("0", "1"), MemoryCheckpoints()
        self.engine = Engine(Rules(attempts_max=1, exhausted="park"), Random(0), is_dense=True)
        self.progress = Progress(self.engine, self.source, self.checkpoints)
        self.progress.own(ALL, frozenset())
        self.inbox = Mailbox()
        clock: Callable[[], float] = lambda: 0.0  # noqa: E731 - Time stands still.
        self.reading = SourceReader(self.source, self.engine, self.progress, self.inbox, clock, tally=Tally())

    def begin(self) -> None:
        """Begin with all tranches, as they are kept."""
        self.progress.open(self.progress.find_new_tranches())

    def let_go(self, *moves: tuple[str, PositionMove]) -> None:
        """Have a tranche be another's for a while, who makes *moves*."""
        self.progress.own(ALL - {"0"}, frozenset())
        self.progress.give_up()
        assert self.progress.forget_finished() == {"0"}
        self.checkpoints.commit(Advance(dict(moves), {}, {}))
        self.progress.own(ALL, frozenset())

    def take_in(self) -> None:
        """Read what was asked for, and take it in."""
        self.reading.start()
        self.inbox.wait(SOON_SECONDS)
        for news in self.inbox.take_all():
            assert callable(news)
            news()
        self.reading.stop()


@pytest.fixture
def sharing() -> Leaseholder:
    return Leaseholder()


def test_request_from_before_a_tranche_began_again_is_left_out(sharing: Leaseholder) -> None:
    sharing.source.append("S", [0, 1])
    sharing.begin()
    sharing.reading.begin_read(0.0)
    sharing.let_go(("0", PositionMove(None, 1)))

    sharing.take_in()

    assert sharing.engine.positions() == {"0": 1, "1": 0}
    assert sharing.engine.take(1, 0.0) == [], "another has done it"


def test_replay_from_before_a_tranche_began_again_is_left_out(sharing: Leaseholder) -> None:
    sharing.begin()
    for tranche in ("0", "1"):
        sharing.source.append("S", [0], tranche=tranche)
        for batch in sharing.source.read(sharing.progress.plan_reads(), 0.0):
            sharing.engine.ingest(batch, 0.0)
        for call in sharing.engine.take(1, 0.0):
            sharing.engine.settle(call, Failure("ValueError", "it cannot be"), 0.0, 0.0)
    sharing.progress.commit()
    sharing.engine.retry("S")
    sharing.reading.begin_read(0.0)
    sharing.let_go()

    sharing.take_in()

    assert sharing.engine.take(1, 0.0) == [], "where it waits by now, is to be asked for anew"
    assert sharing.progress.plan_replays()


class Subscribed(SubscriptionSource):
    """Is told what has failed."""

    failed: Collection[str] | None = None

    def __init__(self) -> None: ...

    def release(self, failed: Collection[str]) -> None:
        self.failed = failed


def test_subscription_hears_of_failing_and_running_streams_of_its_own_tranches_alone() -> None:
    source, engine = Subscribed(), Engine(Rules(), Random(0), is_dense=True)
    for tranche in ("0", "1", "2", "3"):
        engine.open(tranche, 0)
        engine.ingest(Batch(tranche, 1, [StreamEvent(f"of {tranche}", 0, "e", b"{}", tranche=tranche)]), 0.0)
    of_0, _, _, _ = engine.take(4, 0.0)
    engine.settle(of_0, Failure("ValueError", "no"), 0.0, 0.0)
    engine.forget("1")
    engine.settle(engine.busy.active["of 2"], done(), 0.0, 0.0)

    progress = Progress(engine, MemorySource(), MemoryCheckpoints())
    SourceReader(source, engine, progress, Mailbox(), lambda: 0.0, tally=Tally()).give_back()
    assert source.failed == {"0", "3"}
