"""The same handler with the same rules comes to the same, whichever runner calls it: step by step, local, or Spark."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.processing import FeedSource, InlineProcessor, LocalProcessor, Rules
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine import Backoff
from penstock.processing.engine.parking import Parked
from penstock.processing.handlers import Handler, by_kind
from penstock.spark.processors.processor import SparkProcessor
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.spark.scripted import SKIPPED, Scripted, classified, lines_of

ATTEMPTS_MAX = 3
RULES = Rules(
    backoff=Backoff(first_seconds=0.001, max_seconds=0.004),
    events_per_call=4,
    attempts_max=ATTEMPTS_MAX,
    exhausted="park",
)
"""All of a stream that is there is read before any of it is handed out, so that runners agree on spans, too."""
SCARCE = replace(RULES, events_ahead=8, batches_ahead=2, concurrency=3)
"""So little is read ahead that spans end where the runner has read to, which is its own business."""
RUNNERS = ("inline", "local", "spark")


@dataclass(frozen=True)
class Script:
    """The events of a stream: how many, what some ask for each time they are handled, and which are of another kind."""

    events: int
    does: Mapping[int, Sequence[str]] = field(default_factory=dict)
    kinds: Mapping[int, str] = field(default_factory=dict)


CUSTOMERS = {
    "smooth": Script(9),
    "failing": Script(6, {3: ["raise", "raise"]}),
    "classified": Script(4, {1: ["break off", "confuse"]}),
    "ended": Script(4, {1: ["exit", "cancel"]}),
    "mistaken": Script(4, {1: ["return nonsense", "return too much"]}),
    "partly": Script(7, {0: ["return a number"], 2: ["pause"]}),
    "stalled": Script(4, {1: ["stall", "stall"]}),
    "deferred": Script(4, {1: ["defer", "defer"]}),
    "mixed": Script(5, {2: ["raise"]}, {1: "changed", 2: "changed"}),
    "repaired": Script(6, {2: ["break off"] * (ATTEMPTS_MAX + 1)}),
    "poisoned": Script(4, {1: ["raise"] * 99}),
    "unheard": Script(4, kinds={2: "unheard"}),
}
"""By key: those of one customer are a stream, beside others in three partitions."""
SHELVES = {
    "0_": Script(9, {1: ["skip"], 8: ["skip"]}),
    "1_k": Script(12, {0: ["skip"], 7: ["raise"] * ATTEMPTS_MAX}),
}
"""By partition and key, alone in their partitions: what is skipped lies behind the span, and once behind the end."""
LATER = {customer: Script(1) for customer in CUSTOMERS}
LATER_ON_SHELVES = {"0_": Script(7, {5: ["raise"]}), "1_k": Script(3, {1: ["pause"]})}


class Feeds:
    """A feed whose streams are customers, wherever a hash has them, and one whose producer chooses the partitions."""

    def __init__(self, client: Client) -> None:
        name = f"order-{time.monotonic_ns()}"
        self.names = self.placed, self.shelved = f"{name}.placed", f"{name}.shelved"
        self._client = client
        client.create_event_type(
            self.placed, partition_count=3, partition_strategy="hash", partition_key_fields=["customer"]
        )
        client.create_event_type(self.shelved, partition_count=2, partition_strategy="user_defined")

    def publish(self, customers: Mapping[str, Script], shelves: Mapping[str, Script]) -> None:
        """Publish what scripts say, into each feed at once: whoever reads it finds nothing of that or the whole."""
        for name, scripts in zip(self.names, (customers, shelves), strict=True):
            self._client.publish(name, list(_events(scripts)))

    def heads(self) -> dict[str, str]:
        """Return where the feeds end, as positions are written."""
        return {
            f"{name}/{each.partition}": f"1:{each.head}"
            for name in self.names
            for each in self._client.partitions(name)
        }


def _events(scripts: Mapping[str, Script]) -> Iterable[NewEvent]:
    """Yield the first event of each stream, then the second of each."""
    for at in range(max(script.events for script in scripts.values())):
        for stream, script in scripts.items():
            if at < script.events:
                data = {"customer": stream, "does": script.does.get(at, [])}
                headers = {"ce_type": script.kinds.get(at, "taken"), "tenant": "x"}
                partition, is_chosen, key = stream.partition("_")
                chosen: Any = {"partition": int(partition), "key": key or None} if is_chosen else {}
                yield NewEvent.of(json.dumps(data).encode(), headers=headers, **chosen)


class Run:
    """A processor, and what has come of it.

    Args:
        runner: Which one runs it.
        folder: Where its handler writes.
    """

    def __init__(self, runner: str, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.runner = runner
        self.checkpoints = MemoryCheckpoints(runner)
        self.processor: Any = None

    @contextmanager
    def running(self, spark: SparkSession, url: str, feeds: Feeds, handler: Handler, rules: Rules) -> Iterator[None]:
        """Have it run."""
        more: Any = {"checkpoints": self.checkpoints, "rules": rules, "classify": classified}
        with closing(FeedSource(url, *feeds.names)) as source, ExitStack() as stack:
            if self.runner == "inline":
                self.processor = InlineProcessor(handler, source, **more)
            elif self.runner == "local":
                self.processor = stack.enter_context(LocalProcessor(handler, source, **more))
            else:
                self.processor = stack.enter_context(SparkProcessor(spark, handler, url, *feeds.names, **more))
            yield

    def catch_up(self) -> None:
        """Have it do all that there is."""
        if isinstance(self.processor, InlineProcessor):
            self.processor.drain(advance=True)
        else:
            self.processor.wait_until_caught_up(300)

    def parked(self) -> list[Parked]:
        return sorted(self.checkpoints.parked(), key=lambda each: each.place)

    def lines(self, stream: str) -> list[dict[str, Any]]:
        return lines_of(self.folder / stream)

    def indices(self, stream: str) -> list[int]:
        """Return which events handlers have come to, in their order."""
        return [line["index"] for line in self.lines(stream) if "index" in line]

    def result(self, *, with_spans: bool) -> dict[str, Any]:
        """Return all that has come of it; without spans, what does not depend on where streams were cut."""
        engine, parked = self.processor.engine, self.parked()
        lines = {path.name: self.lines(path.name) for path in self.folder.iterdir()}
        calls = {tag: latency.histogram().count for tag, latency in engine.latency.items()}
        if not with_spans:
            lines = {stream: [line for line in found if "called" not in line] for stream, found in lines.items()}
            parked = [replace(each, since="") for each in parked]
            del calls["ok"]
        return {
            "what handlers saw and did": lines,
            "positions": self.checkpoints.positions(),
            "what is parked": parked,
            "outcomes, by tag": calls,
            "failures, by tag": engine.busy.failures,
            "what was counted": engine.counts,
            "events handled, and events that came in vain": (engine.handled, engine.repeats) if with_spans else (),
        }


def functions(folder: Path) -> Handler:
    """A handler that takes no care: what fails, fails with its span."""
    taken, changed = (Scripted(folder, name, is_careful=False) for name in ("taken", "changed"))
    return by_kind({"taken": taken.called, "changed": changed.called})


def coroutines(folder: Path) -> Handler:
    """A coroutine function, one of whose parts is a function; what fails with it, fails alone."""
    taken, changed = (Scripted(folder, name, is_careful=True) for name in ("taken", "changed"))
    return by_kind({"taken": taken.awaited, "changed": changed.called})


class Way(NamedTuple):
    """How events are handled."""

    handler_in: Callable[[Path], Handler]
    rules: Rules
    with_spans: bool
    """Whether also spans are the same, and so how many calls there are."""


WAYS = {"functions": Way(functions, RULES, with_spans=True), "coroutines": Way(coroutines, SCARCE, with_spans=False)}


@pytest.mark.parametrize("way", [WAYS["functions"], exhaustive(WAYS["coroutines"])], ids=WAYS)
def test_runners_hand_out_keep_and_park_the_same(
    spark: SparkSession, hub: LiveHub, client: Client, tmp_path: Path, way: Way
) -> None:
    feeds = Feeds(client)
    feeds.publish(CUSTOMERS, SHELVES)
    runs = [Run(runner, tmp_path / runner) for runner in RUNNERS]
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run.running(spark, hub.url, feeds, way.handler_in(run.folder), way.rules))
        check_all(runs, with_spans=way.with_spans)
        for run in runs:
            for parked in run.parked():
                run.checkpoints.ask(parked.stream, "skip" if parked.tag == "EventUnusable" else "retry")
        check_all(runs, with_spans=way.with_spans)
        feeds.publish(LATER, LATER_ON_SHELVES)
        check_all(runs, with_spans=way.with_spans)
    check_script(runs[0], feeds)


def check_all(runs: Sequence[Run], *, with_spans: bool) -> None:
    """Have all catch up, and check that they have come to the same."""
    for run in runs:
        run.catch_up()
    wanted, *others = [run.result(with_spans=with_spans) for run in runs]
    for run, found in zip(runs[1:], others, strict=True):
        for what, value in wanted.items():
            assert found[what] == value, f"{what}: {run.runner} differs from {runs[0].runner}"


def check_script(run: Run, feeds: Feeds) -> None:
    """Check that what the script says has happened: else all could be the same where nothing has."""
    assert run.checkpoints.positions() == feeds.heads()
    [parked] = run.parked()
    assert (parked.stream, parked.attempts) == (f"{feeds.placed}-poisoned", 2 * ATTEMPTS_MAX), "retried in vain"
    seen = {stream: [*dict.fromkeys(run.indices(f"{feeds.shelved}-{stream}"))] for stream in SHELVES}
    assert seen == {"0_": [0, 1, 7, 8, 14, 15], "1_k": [0, *range(6, 15)]}, "without what was skipped"
    handlers = {line["index"]: line["handler"] for line in run.lines(f"{feeds.placed}-mixed") if "index" in line}
    assert [*handlers.values()] == ["taken", "changed", "changed", "taken", "taken", "taken"]
    engine = run.processor.engine
    assert engine.counts == {"skipped": 3 * SKIPPED, "deferred": 2, "paused": 2}
    assert engine.latency.keys() - engine.busy.failures == {"ok", "part", "early", "stuck", "seen"}
    tags = {"ValueError", "outage", "TypeError", "SystemExit", "CancelledError", "BadOutcome", "EventUnusable"}
    assert engine.busy.failures.keys() == tags
