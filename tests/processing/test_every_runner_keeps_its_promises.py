"""The same on every runner: nothing is lost, order is kept, and no stream is with two handlers."""

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.backoff import Backoff
from penstock.processing.engine.outcome import done_to, retry
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import Inline
from penstock.processing.runners.local import Local
from penstock.processing.sources.memory import MemorySource

RULES = Rules(backoff=Backoff(first=0.001, most=0.01), batches_ahead=4, events_ahead=50)


class Handler:
    """Fails, defers, handles a part or all, as chance has it, and sees to it that it is called rightly."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.handled: dict[str, list[int]] = defaultdict(list)
        self.wrong: list[str] = []
        self.calls: Counter[str] = Counter()
        self.turn = threading.Lock()

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        with self.turn:
            self.calls[stream] += 1
            if self.calls[stream] > 1:
                self.wrong.append(f"two calls at once for {stream}")
            chance, done = self.chance.random(), self.handled[stream]
            indices = [event.index for event in events]
            if indices != [*range(indices[0], indices[0] + len(indices))] or indices[0] > len(done):
                self.wrong.append(f"{stream}: {indices} behind {len(done)}")
        try:
            if chance < 0.2:
                raise ValueError("as chance has it")
            if chance < 0.3:
                return retry(0.001)
            part = events if chance < 0.8 else events[: len(events) // 2]
            with self.turn:
                done.extend(event.index for event in part if event.index == len(done))
            return done_to(part[-1].next) if part else retry(0.0)
        finally:
            with self.turn:
                self.calls[stream] -= 1


def publish(source: MemorySource, chance: Random, counts: Counter[str]) -> None:
    for _ in range(chance.randrange(1, 40)):
        stream, count = f"S{chance.randrange(12)}", chance.randrange(1, 5)
        source.append(stream, range(count), tranche=f"{int(stream[1:]) % 3}")
        counts[stream] += count


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("runner", ["inline", "local"])
def test_whatever_handlers_do(runner: str, seed: int) -> None:
    chance, source, handler = Random(seed), MemorySource("0", "1", "2"), Handler(seed)
    counts: Counter[str] = Counter()
    checkpoints = MemoryCheckpoints()
    for _ in range(3):  # Three runs, each of which goes on where the one before was stopped.
        publish(source, chance, counts)
        before = dict(checkpoints.positions())
        if runner == "inline":
            running = Inline(handler, source, checkpoints=checkpoints, rules=RULES, seed=seed)
            for _ in range(chance.randrange(60)):
                running.step()
                running.advance(0.005)
        else:
            with Local(handler, source, checkpoints=checkpoints, rules=RULES, commit_s=0.001):
                threading.Event().wait(chance.random() * 0.05)
        assert all(checkpoints.positions().get(tranche, 0) >= at for tranche, at in before.items())
    if runner == "inline":
        Inline(handler, source, checkpoints=checkpoints, rules=RULES).drain(advance=True)
    else:
        with Local(handler, source, checkpoints=checkpoints, rules=RULES) as last:
            last.wait_until_caught_up(60.0)

    assert not handler.wrong
    assert {stream: len(found) for stream, found in handler.handled.items()} == counts
    assert all(found == [*range(len(found))] for found in handler.handled.values())
