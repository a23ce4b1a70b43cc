"""Items, batches and an engine for tests."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Backoff, Rules
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import Failure, Outcome

STEADY = Backoff(first_seconds=1.0, factor=2.0, max_seconds=60.0, jitter=0.0)


@dataclass(frozen=True, order=True)
class Thing:
    """An event that is its place."""

    stream: str
    index: int

    @property
    def next(self) -> int:
        return self.index + 1


def things(*names: str) -> list[Thing]:
    """Return items such as "S1E0": stream S1, index 0."""
    return [Thing(stream, int(index)) for stream, _, index in (name.partition("E") for name in names)]


def batch(end: int, items: Iterable[Thing] = (), tranche: str = "t") -> Batch:
    return Batch(tranche, end, list(items))


def engine(*tranches: str, is_dense: bool = False, **rules: Any) -> Engine:
    made = Engine(Rules(**{"backoff": STEADY, **rules}), Random(7), is_dense=is_dense)
    for tranche in tranches or ("t",):
        made.open(tranche, 0)
    return made


def begin(end: int, *names: str, **rules: Any) -> Engine:
    """Return an engine that has read a batch up to *end*, of the items of these *names*."""
    made = engine(**rules)
    made.ingest(batch(end, things(*names)), 0.0)
    return made


def settle_next(running: Engine, result: Outcome | Failure, now: float = 0.0) -> None:
    """Make the next call, which comes to that *result*."""
    [call] = running.take(1, now)
    running.settle(call, result, now, 0.001)


def indices(call: Any) -> list[int]:
    return [item.index for item in call.events]
