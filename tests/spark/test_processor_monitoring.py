"""A processor on Spark shows what one in process shows: metrics, the view, log lines, `/groups`."""

import io
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from penstock.client import Client
from penstock.errors import ProcessorUnhealthy, Unavailable
from penstock.processing import HubCheckpoints, Rules
from penstock.processing.engine import Backoff, Health
from penstock.processing.metrics import ProcessorMetrics
from penstock.processing.outcomes import done
from penstock.processing.view import View
from penstock.spark.processors.processor import LOOK_INTERVAL, SparkProcessor
from penstock.spark.processors.sources.table import TableSource
from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import exhaustive
from tests.failing import has_code
from tests.spark.recording import wait_for

STREAMS: Final = 5
EVENTS: Final = 12
SPUN_SECONDS: Final = 0.1
POISON: Final = 7
"""The eighth event of one stream."""


def nothing(stream: str, events: Sequence[Any]) -> None:
    """Handle events by doing nothing."""


class Poisoned:
    """A handler that one stream cannot get through, as long as a file is there, and that waits while another is."""

    def __init__(self, stream: str, folder: Path) -> None:
        self.stream = stream
        self.poison = str(folder / "poison")
        self.gate = str(folder / "gate")

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        while Path(self.gate).exists():
            time.sleep(0.02)
        if stream == self.stream and Path(self.poison).exists() and events[-1].data["n"] >= POISON:
            raise ValueError("no such customer")
        return done(orders=len(events))


class Case(NamedTuple):
    """A feed with a poisoned stream."""

    url: str
    client: Client
    feed: str
    poisoned: Poisoned

    def publish(self, numbers: range) -> None:
        """Publish numbers for each of the streams."""
        events = [{"customer": f"{key}", "n": n} for n in numbers for key in range(STREAMS)]
        self.client.publish(self.feed, events)


@pytest.fixture
def case(hub: LiveHub, client: Client, tmp_path: Path) -> Case:
    name = f"order.watched-{time.monotonic_ns()}"
    client.create_event_type(name, partition_count=1, partition_strategy="hash", partition_key_fields=["customer"])
    return Case(hub.url, client, name, Poisoned(f"{name}-3", tmp_path))


def shown(processor: SparkProcessor) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(View(processor).draw())
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_failing_stream_is_shown_in_metrics_view_log_and_consumer_group(
    spark: SparkSession, case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.processing")
    Path(case.poisoned.poison).touch()
    case.publish(range(POISON))
    checkpoints = HubCheckpoints(case.url, case.feed)
    rules = Rules(backoff=Backoff(first_seconds=0.2, max_seconds=0.5))
    processor = SparkProcessor(
        spark, case.poisoned, case.url, case.feed, checkpoints=checkpoints, rules=rules, stats_interval=0.1
    )
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(processor))

    def metric(name: str, /, **labels: str) -> float:
        found = registry.get_sample_value(f"penstock_{name}", {"group": case.feed, **labels})
        assert found is not None, name
        return found

    assert metric("processor_up") == 0
    with processor as running:
        running.wait_until_caught_up(300)
        case.publish(range(POISON, EVENTS))
        wait_for(lambda: running.snapshot.busy["failing"].attempts > 1)
        healthy = STREAMS * EVENTS - (EVENTS - POISON)

        assert metric("processor_up") == 1
        assert metric("scheduler_busy_count", state="failing") == 1
        wait_for(lambda: metric("scheduler_busy_seconds", kind="oldest", state="failing") > 1)
        assert metric("scheduler_exceptions_total", tag="ValueError") > 1
        assert metric("scheduler_handled_events_total") == metric("handler_counts_total", name="orders") == healthy
        events = running.snapshot.events  # Of one moment: meanwhile they go from one state to the other.
        assert sum(events.values()) == EVENTS - POISON, "events are counted, not spans"
        assert metric("scheduler_events", state="waiting") in (0, EVENTS - POISON)
        assert metric("feed_items_total", tranche=f"{case.feed}/0") == STREAMS * EVENTS
        assert metric("feed_position", tranche=f"{case.feed}/0") < STREAMS * EVENTS
        assert metric("feed_lag_seconds", tranche=f"{case.feed}/0") > 0
        assert metric("category_ingested_events_total", category=case.feed) == STREAMS * EVENTS
        assert metric("spark_round_seconds_count") > 2
        assert metric("processor_commits_total", outcome="ok") > 0
        view = shown(running)
        assert f"{case.feed}-3" in view
        assert "ValueError: no such customer" in view
        wait_for(lambda: (case.client.consumer_group(case.feed).gap or 0) > 0)
        [group] = case.client.consumer_groups(case.feed, kind="processor")
        assert (group.name, group.event_types) == (case.feed, [case.feed])
        assert set(running.behind().values()) == {group.gap}

        Path(case.poisoned.poison).unlink()
        running.wait_until_caught_up(300)
        wait_for(lambda: metric("scheduler_busy_count", state="failing") == 0)
        assert metric("category_handled_events_total", category=case.feed) == STREAMS * EVENTS
        assert case.client.consumer_group(case.feed).gap == 0
    assert metric("processor_up") == 0

    said = [record.getMessage() for record in caplog.records]
    [failing] = [line for line in said if " fails at " in line]
    assert failing.startswith(f"{case.feed}: {case.feed}-3 fails at ")
    assert failing.endswith(": ValueError: no such customer")
    assert any(f"{case.feed}-3 fails no more" in line for line in said)
    assert any(" events handled, " in line and "1 failing for up to " in line for line in said)
    assert said[-1] == f"{case.feed} was stopped"


def test_hanging_call_is_shown_by_the_age_of_its_round(spark: SparkSession, case: Case) -> None:
    gate = Path(case.poisoned.gate)
    gate.touch()
    case.publish(range(1))
    with SparkProcessor(spark, case.poisoned, case.url, case.feed, name="hanging", stats_interval=None) as running:
        try:
            wait_for(lambda: running.snapshot.round_now_seconds() > 2 * LOOK_INTERVAL)
            registry = CollectorRegistry()
            registry.register(ProcessorMetrics(running))
            age = registry.get_sample_value("penstock_spark_round_age_seconds", {"group": "hanging"})
            assert age is not None
            assert age > 2 * LOOK_INTERVAL
            before = running.snapshot
            wait_for(lambda: running.snapshot is not before)  # Though the loop waits for Spark.
            assert running.snapshot.is_running
            assert "a round for " in shown(running)
        finally:
            gate.unlink()
        running.wait_until_caught_up(300)
        wait_for(lambda: running.snapshot.round_now_seconds() == 0)
    assert running.snapshot.handled == STREAMS


@pytest.mark.parametrize("timeout", [None, exhaustive(30.0)], ids=["in its task", "in child processes"])
def test_cpu_time_of_handlers_on_executors_is_counted(spark: SparkSession, case: Case, timeout: float | None) -> None:
    def spins(stream: str, events: Sequence[Any]) -> None:
        began = time.thread_time()
        while time.thread_time() - began < SPUN_SECONDS:
            pass

    case.publish(range(1))
    processor = SparkProcessor(spark, spins, case.url, case.feed, rules=Rules(timeout=timeout))
    processor.step()
    processor.close()

    spun = SPUN_SECONDS * STREAMS
    assert processor.snapshot.cpu_seconds["handle"] >= spun


@pytest.mark.exhaustive
def test_snapshots_are_taken_while_the_hub_does_not_answer(spark: SparkSession, tmp_path: Path) -> None:
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.held")
        rules = Rules(backoff=Backoff(first_seconds=0.05))
        with SparkProcessor(spark, nothing, hub.url, "order.held", rules=rules, stats_interval=None) as running:
            running.wait_until_caught_up(300)
            hub.pause()
            try:
                for _ in range(6):  # The first may have been under way.
                    before = running.snapshot
                    wait_for(lambda before=before: running.snapshot is not before)  # type: ignore[misc]
            finally:
                hub.resume()
            client.publish("order.held", [{"n": 1}])
            running.wait_until_caught_up(300)
        assert running.snapshot.handled == 1


def test_silent_source_is_shown_and_ends_the_processor_after_the_limit(spark: SparkSession) -> None:
    passed_seconds, is_away, limit = [0.0], [False], 1e6

    def pass_seconds(seconds: float) -> bool:
        """Let time pass, at each call: an answer that was under way counts as one of the new time."""
        passed_seconds[0] += seconds
        return True

    def frame(session: SparkSession) -> DataFrame:
        if is_away[0]:
            raise Unavailable(reason="it is away")
        return session.range(3).selectExpr("id", "'S' AS stream")

    table = TableSource(frame, index="id", stream="stream")
    rules, clock = Rules(health=Health(unanswered_seconds_max=limit)), lambda: time.monotonic() + passed_seconds[0]
    processor = SparkProcessor(spark, nothing, table, rules=rules, clock=clock, stats_interval=None)
    processor.start()
    wait_for(lambda: processor.snapshot.gap == 0)
    is_away[0] = True
    wait_for(lambda: pass_seconds(200.0) and (processor.snapshot.unanswered_seconds or 0) >= 200)
    assert processor.snapshot.gap == 0, "the last known head is kept"
    wait_for(lambda: pass_seconds(2 * limit) and processor.wait(0))
    with pytest.raises(ProcessorUnhealthy, check=has_code("source-silent")):
        processor.stop()
