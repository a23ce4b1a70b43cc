import socket
import threading
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from penstock.errors import BadParameter
from penstock.processing.metrics import ProcessorMetrics, serve_metrics
from penstock.processing.outcomes import Failure, Outcome, done
from penstock.processing.runners.local import LOOK_INTERVAL, LocalProcessor
from penstock.processing.sources.memory import MemorySource
from penstock.processing.stats import Stats
from tests.unit.processing.engine.items import batch, engine, things
from tests.unit.processing.watched import Watched

SOON_SECONDS = 300.0
Scraped = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(url: str) -> Scraped:
    """Return what Prometheus would be given."""
    with urlopen(url, timeout=SOON_SECONDS) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Scraped, name: str, /, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def registry_of(*processors: Any) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(*processors))
    return registry


def test_processor_is_exported_with_all_its_activity() -> None:
    watched = Watched("mailer", engine("order.placed/0"))
    watched.engine.ingest(batch(9, things("A0E0", "A0E1", "B0E2", "C0E3"), "order.placed/0"), 0.0)
    watched.tally.note_batch(batch(9, things("A0E0", "A0E1", "B0E2", "C0E3"), "order.placed/0"))
    slow, quick, _ = watched.engine.take(3, 0.0)
    watched.engine.settle(slow, Failure("timeout", "slow"), 3.0, 0.5)
    stats = Stats()
    stats.observe("eur", 1, 240)
    stats.set("queue", 12)
    watched.engine.settle(quick, done(mails=2, stats=stats), 3.0, 0.5)
    watched.tally.fail_commit("it is away")
    watched.now = 10.0
    registry = registry_of(watched)

    def found(name: str, /, **labels: str) -> float | None:
        return registry.get_sample_value(f"penstock_{name}", {"group": "mailer", **labels})

    assert found("processor_up") == 1
    assert found("scheduler_busy_count", state="active") == 1
    assert found("scheduler_busy_count", state="failing") == 1
    assert found("scheduler_busy_count", state="stalled") == 0
    assert found("scheduler_busy_seconds", kind="oldest", state="failing") == pytest.approx(10, abs=1)
    assert found("scheduler_busy_seconds", kind="newest", state="active") == pytest.approx(10, abs=1)
    assert found("scheduler_busy_seconds", kind="oldest", state="stalled") == 0
    assert found("scheduler_streams", state="waiting") == 1
    assert found("scheduler_events", state="waiting") == 2
    assert found("scheduler_handler_seconds_count", kind="ok") == 1
    assert found("scheduler_handler_seconds_sum", kind="timeout") == 0.5
    assert found("scheduler_handler_seconds_bucket", kind="ok", le="0.524288") == 1
    assert found("scheduler_handler_seconds_bucket", kind="ok", le="0.262144") == 0
    assert found("scheduler_handled_events_total") == 1
    assert found("scheduler_exceptions_total", tag="timeout") == 1
    assert found("handler_counts_total", name="mails") == 2
    assert found("handler_gauge", name="queue") == 12
    assert found("handler_observed_count", name="eur") == 2
    assert found("handler_observed_sum", name="eur") == 241
    assert found("handler_observed_bucket", name="eur", le="1") == 1
    assert found("handler_observed_bucket", name="eur", le="256") == 2
    assert found("processor_commits_total", outcome="failed") == 1
    assert found("processor_commits_failing") == 1
    assert found("feed_position", tranche="order.placed/0") == 0
    assert found("feed_read_position", tranche="order.placed/0") == 9
    assert found("feed_ahead_events", tranche="order.placed/0") == 4
    assert found("feed_items_total", tranche="order.placed/0") == 4


def test_position_of_a_feed_is_its_offset_and_other_positions_are_left_out() -> None:
    watched = Watched("mailer", engine())
    watched.engine.open("order.placed/0", "2:17")
    watched.engine.open("files", "part-3.json")
    registry = registry_of(watched)

    assert registry.get_sample_value("penstock_feed_position", {"group": "mailer", "tranche": "order.placed/0"}) == 17
    assert registry.get_sample_value("penstock_feed_position", {"group": "mailer", "tranche": "files"}) is None


def test_processors_come_and_go_under_unique_names() -> None:
    mailer, ledger = Watched("mailer", engine()), Watched("ledger", engine())
    metrics = ProcessorMetrics(mailer, mailer)
    metrics.add(ledger)
    registry = CollectorRegistry()
    registry.register(metrics)
    assert registry.get_sample_value("penstock_processor_up", {"group": "ledger"}) == 1

    metrics.remove(ledger)
    assert registry.get_sample_value("penstock_processor_up", {"group": "ledger"}) is None
    assert registry.get_sample_value("penstock_processor_up", {"group": "mailer"}) == 1
    with pytest.raises(BadParameter, match="name is 'mailer'; allowed: a name that no other processor here has"):
        metrics.add(Watched("mailer", engine()))


def test_hanging_handler_is_counted_while_nothing_else_ends() -> None:
    has_begun, let_go = threading.Event(), threading.Event()
    source = MemorySource()
    source.append("S0", [1])

    def handle(stream: str, events: Sequence[Any]) -> Outcome:
        has_begun.set()
        let_go.wait(SOON_SECONDS)
        return done(mails=1)

    with (
        LocalProcessor(handle, source, name="mailer") as mailer,
        LocalProcessor(handle, MemorySource(), name="ledger") as ledger,
        serve_metrics(0, mailer, ledger) as url,
    ):
        assert has_begun.wait(SOON_SECONDS)
        seconds = read_ages(url, "active", 1.5 * LOOK_INTERVAL)
        assert seconds[-1] >= 1.5 * LOOK_INTERVAL
        assert value(scrape(url), "penstock_scheduler_busy_count", group="mailer", state="active") == 1
        assert value(scrape(url), "penstock_scheduler_busy_count", group="ledger", state="active") == 0
        let_go.set()
        mailer.wait_until_caught_up(SOON_SECONDS)
    ended = registry_of(mailer, ledger)  # What it was when it ended is still told.
    assert ended.get_sample_value("penstock_handler_counts_total", {"group": "mailer", "name": "mails"}) == 1
    assert ended.get_sample_value("penstock_scheduler_busy_count", {"group": "mailer", "state": "active"}) == 0
    assert ended.get_sample_value("penstock_processor_commits_total", {"group": "mailer", "outcome": "ok"})
    assert mailer.snapshot.is_running is ledger.snapshot.is_running is False


def test_metrics_are_served_at_their_path_alone() -> None:
    with serve_metrics(0, Watched("mailer", engine("0"))) as url:
        assert b"penstock_processor_up" in urlopen(url, timeout=SOON_SECONDS).read()
        assert b"penstock_processor_up" in urlopen(f"{url}?x=1", timeout=SOON_SECONDS).read()
        hint = urlopen(url.removesuffix("/metrics"), timeout=SOON_SECONDS).read()
        assert hint == b"The metrics of processors are at /metrics.\n"
        for path in ("s", "/", "/x", "/../etc/passwd"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{url}{path}", timeout=SOON_SECONDS)


def test_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = f"port is {port}; allowed: one of 127.0.0.1 on which nothing else listens.* or 0 for any.*already in use"
        with pytest.raises(BadParameter, match=told), serve_metrics(port, watch_mailer()):
            pass


def watch_mailer() -> Watched:
    return Watched("mailer", engine())


def read_ages(url: str, state: str, least: float) -> list[float]:
    """Return how old the oldest stream in a state was, again and again, until it is as old as that."""
    labels = {"group": "mailer", "kind": "oldest", "state": state}
    found = [0.0]
    while found[-1] < least:
        threading.Event().wait(0.1)
        found.append(value(scrape(url), "penstock_scheduler_busy_seconds", **labels))
    return found
