"""Metrics of processors: what they count in feeds and files, and the guide's table that lists them all."""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.client import Client
from penstock.processing import FeedSource, LocalProcessor
from penstock.processing.engine.tranche import Batch
from penstock.processing.metrics import ProcessorMetrics
from penstock.processing.outcomes import Failure, done
from penstock.processing.snapshot import Activity
from penstock.processing.sources import FileSource, Source
from penstock.processing.stats import Stats
from penstock.processing.stream_event import StreamEvent
from penstock.processing.together import Together
from penstock.testing.live_hub import LiveHub
from tests.docs.examples import ROOT, blocks
from tests.unit.processing.engine.items import engine
from tests.unit.processing.watched import Watched

GUIDE = ROOT / "docs" / "guides" / "watching-processors.md"
[COMMAND] = [block for block in blocks(GUIDE) if block.language == "sh"]
SOON_SECONDS: Final = 300.0
EVENTS: Final = 40
SPUN_SECONDS: Final = 0.05


def spin() -> None:
    """Compute for a while."""
    began = time.thread_time()
    while time.thread_time() - began < SPUN_SECONDS:
        pass


def ignore(stream: str, events: Sequence[Any]) -> None:
    """Handle events by doing nothing."""


def run(handler: Any, source: Source) -> Callable[..., float | None]:
    """Handle all events; return a function that reads a metric."""
    registry = CollectorRegistry()
    with LocalProcessor(handler, source, name="mine", stats_interval=None) as running:
        registry.register(ProcessorMetrics(running))
        running.wait_until_caught_up(SOON_SECONDS)

    def metric(name: str, /, **labels: str) -> float | None:
        return registry.get_sample_value(f"penstock_{name}", {"group": "mine", **labels})

    return metric


def test_reading_feeds_counts_events_by_category_and_bytes(hub: LiveHub) -> None:
    events = [{"id": f"{number}", "text": "x" * 100} for number in range(EVENTS)]
    feeds = {f"order.metered-{number}": events[: EVENTS // number] for number in (1, 2)}
    with Client(hub.url) as client:
        for name, published in feeds.items():
            client.create_event_type(name, partition_count=2)
            client.publish(name, published)

    metric = run(ignore, FeedSource(hub.url, *feeds))

    for name, published in feeds.items():
        assert metric("category_ingested_events_total", category=name) == len(published)
        assert metric("category_handled_events_total", category=name) == len(published)
        payload = sum(len(json.dumps(each)) for each in published)
        read = sum(metric("feed_bytes_total", tranche=f"{name}/{partition}") or 0 for partition in range(2))
        assert payload <= read < 4 * payload
    pages = sum(
        metric("feed_pages_total", tranche=f"{name}/{partition}") or 0 for name in feeds for partition in range(2)
    )
    assert metric("feed_ingest_seconds_count") == pages
    assert 1 <= (metric("feed_read_seconds_count") or 0) <= pages
    assert (metric("feed_read_seconds_sum") or 0) > 0


def test_reading_files_counts_bytes_and_no_category(tmp_path: Path) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text("".join(f'{{"order":"{number % 7}"}}\n' for number in range(EVENTS)))

    metric = run(ignore, FileSource(file, stream=["order"]))

    assert metric("feed_items_total", tranche=str(file)) == EVENTS
    assert metric("feed_bytes_total", tranche=str(file)) == file.stat().st_size
    assert metric("category_ingested_events_total", category=str(tmp_path)) is None


def spins(stream: str, events: Sequence[Any]) -> None:
    spin()


async def spins_and_waits(stream: str, events: Sequence[Any]) -> None:
    spin()
    await asyncio.sleep(0.1)


def spins_for_all(spans: Sequence[Any]) -> None:
    for _ in spans:
        spin()


@pytest.mark.parametrize("handler", [spins, spins_and_waits, Together(spins_for_all)], ids=["threads", "tasks", "many"])
def test_handler_cpu_seconds_exclude_waiting(handler: Any, tmp_path: Path) -> None:
    file, streams = tmp_path / "orders.ndjson", 4
    file.write_text("".join(f'{{"order":"{number}"}}\n' for number in range(streams)))

    metric = run(handler, FileSource(file, stream=["order"]))

    spun = SPUN_SECONDS * streams
    assert spun <= (metric("scheduler_cpu_seconds_total", activity="handle") or 0) < 2 * spun
    for activity in ("schedule", "read", "commit"):
        assert 0 < (metric("scheduler_cpu_seconds_total", activity=activity) or 0) < spun


def test_command_of_the_guide_writes_the_alert_rules(tmp_path: Path) -> None:
    command = COMMAND.text.replace("python ", f"{sys.executable} ", 1)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=300)

    written = yaml.safe_load((tmp_path / "penstock-alerts.yml").read_text(encoding="utf-8"))
    assert len(written["groups"][0]["rules"]) >= 9


class Metric(NamedTuple):
    """A metric as the table describes it."""

    type: str
    labels: frozenset[str]
    """Besides the group."""


def everything() -> Watched:
    """Return a processor for which every metric has a sample."""
    watched, tranche = Watched("mailer", engine("order.placed/0")), "order.placed/0"
    events = [StreamEvent(stream, index, "event", b"{}", received=1) for index, stream in enumerate("AB")]
    page = Batch(tranche, 2, events, is_tail=True, bytes=64)
    watched.engine.ingest(page, 0.0)
    watched.tally.note_batch(page)
    first, second = watched.engine.take(2, 0.0)
    watched.engine.settle(first, Failure("ValueError", "broken"), 0.0, 0.0)
    stats = Stats()
    stats.observe("eur", 1)
    stats.set("queue", 1)
    watched.engine.settle(second, done(mails=1, stats=stats), 0.0, 0.0)
    watched.tell_behind({tranche: 1})
    watched.tally.begin_round(0.0)
    watched.tally.cpu.wrap("handle", lambda: None)()
    return watched


def expose(watched: Watched) -> dict[str, Metric]:
    """Return the metrics as Prometheus scrapes them."""
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(watched))
    found: dict[str, Metric] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        labels = {label for sample in family.samples for label in sample.labels} - {"group", "le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = Metric(family.type, frozenset(labels))
        assert family.samples, f"{name} has no sample: this test has to bring one about"
        assert all(sample.labels["group"] == "mailer" for sample in family.samples)
        assert family.documentation.endswith(".")
    return found


def test_table_of_the_guide_lists_all_metrics_with_types_and_labels() -> None:
    rows = re.findall(r"^\| (`penstock_[^|]*?) \| (\w+) \| (.*?) ?\| ", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {
        name: Metric(kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for names, kind, labels in rows
        for name in re.findall(r"`(\w+)`", names)
    }

    assert listed == expose(everything())


def test_table_of_the_guide_lists_the_values_of_closed_labels() -> None:
    watched, text = everything(), GUIDE.read_text(encoding="utf-8")
    listed = {
        (name, label): frozenset(values.split(", "))
        for name, labels in re.findall(r"^\| `(penstock_\w+)` \| \w+ \| (.*?) ?\| ", text, re.MULTILINE)
        for label, values in re.findall(r"`(\w+)`: ([\w, ]+)", labels)
        if name not in ("penstock_scheduler_handler_seconds", "penstock_category_ingested_events_total")
    }
    listed["penstock_scheduler_busy_seconds", "state"] = listed["penstock_scheduler_busy_count", "state"]
    given: dict[tuple[str, str], set[str]] = {}
    for family in ProcessorMetrics(watched).collect():
        for sample in family.samples:
            for label, value in sample.labels.items():
                given.setdefault((sample.name, label), set()).add(value)

    assert len(listed) >= 6
    cpu = "penstock_scheduler_cpu_seconds_total", "activity"
    assert listed.pop(cpu) == {*get_args(Activity)} >= given[cpu]
    assert listed == {each: frozenset(given[each]) for each in listed}
