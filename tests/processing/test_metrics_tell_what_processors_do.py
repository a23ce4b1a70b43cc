"""What metrics tell of reading, categories and threads is what processors of feeds and files really do."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry

from penstock.client import Client
from penstock.processing import FeedSource, FileSource, Local, Source, Together
from penstock.processing.metrics import ProcessorMetrics
from penstock.testing.live_hub import LiveHub, live_hub

SOON_S: Final = 300.0
EVENTS: Final = 40
SPUN_S: Final = 0.05


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub:
        yield hub


def spin() -> None:
    """Compute for a while."""
    began = time.thread_time()
    while time.thread_time() - began < SPUN_S:
        pass


def nothing(stream: str, events: Sequence[Any]) -> None:
    """Handle events by doing nothing."""


def run(handler: Any, source: Source) -> Callable[..., float | None]:
    """Handle what there is; return what tells a metric."""
    registry = CollectorRegistry()
    with Local(handler, source, name="mine", stats_s=None) as running:
        registry.register(ProcessorMetrics(running))
        running.wait_until_caught_up(SOON_S)

    def metric(name: str, /, **labels: str) -> float | None:
        return registry.get_sample_value(f"penstock_{name}", {"group": "mine", **labels})

    return metric


def test_what_is_read_of_feeds_is_told_by_category_and_in_bytes(hub: LiveHub) -> None:
    events = [{"id": f"{number}", "text": "x" * 100} for number in range(EVENTS)]
    feeds = {f"order.metered-{number}": events[: EVENTS // number] for number in (1, 2)}
    with Client(hub.url) as client:
        for name, published in feeds.items():
            client.create_event_type(name, partition_count=2)
            client.publish(name, published)

    metric = run(nothing, FeedSource(hub.url, *feeds))

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


def test_what_is_read_of_files_is_told_in_bytes_and_by_no_category(tmp_path: Path) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text("".join(f'{{"order":"{number % 7}"}}\n' for number in range(EVENTS)))

    metric = run(nothing, FileSource(file, stream=["order"]))

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
def test_what_handlers_compute_is_told_and_not_what_they_wait_for(handler: Any, tmp_path: Path) -> None:
    file, streams = tmp_path / "orders.ndjson", 4
    file.write_text("".join(f'{{"order":"{number}"}}\n' for number in range(streams)))

    metric = run(handler, FileSource(file, stream=["order"]))

    spun = SPUN_S * streams
    assert spun <= (metric("scheduler_cpu_seconds_total", activity="handle") or 0) < 2 * spun
    for activity in ("schedule", "read", "commit"):
        assert 0 < (metric("scheduler_cpu_seconds_total", activity=activity) or 0) < spun
