"""A parked stream whose events are gone fails when it is tried again, and ends nobody."""

import pytest

from penstock.errors import EventsLost
from penstock.processing import Inline, Local, MemorySource, Rules
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.engine.item import Batch
from penstock.processing.sources.source import Want

RULES = Rules(attempts_max=1, exhausted="park")
SOON_S = 30.0


class Forgetting(MemorySource):
    """Cannot give again what it gave, after a while."""

    is_gone = False

    def reread(self, tranche: str, want: Want) -> Batch:
        """Return what a tranche has from an earlier position on, unless it is gone."""
        if self.is_gone:
            raise EventsLost(event_type="order", partition=0, lost=1, reason="retention has removed them")
        return super().reread(tranche, want)


@pytest.mark.parametrize("runner", [Inline, Local])
def test_a_parked_stream_whose_events_are_gone_fails_again_and_says_why(
    runner: type[Inline | Local], sqlite_url: str
) -> None:
    source, checkpoints, handled = Forgetting(), DatabaseCheckpoints(sqlite_url, "mailer"), list[str]()

    def handle(stream: str, _: object) -> None:
        if stream == "P":
            raise ValueError("no")
        handled.append(stream)

    def run() -> None:
        if runner is Inline:
            Inline(handle, source, checkpoints=checkpoints, rules=RULES).drain()
            return
        with Local(handle, source, checkpoints=checkpoints, rules=RULES) as running:
            running.wait_until_caught_up(SOON_S)

    source.append("P", [1])
    run()
    source.is_gone = True
    checkpoints.ask("P", "retry")
    source.append("R", [1])
    run()

    [kept] = checkpoints.parked_at()
    assert (kept.parked.index, kept.parked.next, kept.parked.attempts, kept.parked.tag) == (0, 1, 2, "gone")
    assert "retention has removed them" in kept.parked.detail
    assert kept.request is None, "it was tried: whoever wants it again asks again"
    assert handled == ["R"]
    checkpoints.ask("P", "drop")
    run()
    assert not checkpoints.parked()
