"""A parked stream whose events are gone fails when it is tried again, and ends nobody."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import EventsLost
from penstock.processing import FileSource, Inline, Local, MemorySource, Rules
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.item import Batch
from penstock.processing.sources.source import Want

RULES = Rules(attempts_max=1, exhausted="park")
SOON_S = 300.0


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


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not check():
        assert time.monotonic() < deadline, "that has not come"
        time.sleep(0.01)


@pytest.mark.parametrize("when", ["while it runs", "before it runs"])
def test_a_stream_that_is_parked_in_files_that_are_gone_fails_alone(tmp_path: Path, when: str) -> None:
    for number in range(2):
        (tmp_path / f"{number}.ndjson").write_text('{"id": "x"}\n{"id": "y"}\n')
    checkpoints, is_mended = MemoryCheckpoints(), threading.Event()
    rules = Rules(attempts_max=1, exhausted="park")
    handled: list[tuple[str, str]] = []

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "x" and not is_mended.is_set():
            raise ValueError("broken")
        handled.extend((stream, Path(event.tranche).name) for event in events)

    def begun() -> Local:
        source = FileSource(f"{tmp_path}/*.ndjson", stream=["id"])
        return Local(handle, source, checkpoints=checkpoints, rules=rules, commit_s=0.01)

    def lose() -> None:
        (tmp_path / "1.ndjson").unlink()
        is_mended.set()
        checkpoints.ask("x", "retry")

    with begun() as running:
        running.wait_until_caught_up(300)
        if when == "while it runs":
            lose()
            running.wait_until_caught_up(300)
    if when == "before it runs":
        lose()
        with begun() as running:
            running.wait_until_caught_up(300)
    assert ("x", "0.ndjson") in handled
    [parked] = checkpoints.parked()
    assert (parked.stream, Path(parked.tranche).name, parked.tag) == ("x", "1.ndjson", "gone")
    checkpoints.ask("x", "drop")
    with begun() as running:
        running.wait_until_caught_up(300)
        (tmp_path / "2.ndjson").write_text('{"id": "x"}\n')
        until(lambda: handled[-1] == ("x", "2.ndjson"))
    assert not checkpoints.parked()
