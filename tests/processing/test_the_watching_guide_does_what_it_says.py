"""The program of docs/guides/watching-processors.md runs as it stands there, and its table has all metrics."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.client import Client
from penstock.processing.checkpoints.hub import HubCheckpoints
from penstock.processing.cpu import Activity
from penstock.processing.engine.item import Batch
from penstock.processing.engine.outcome import Failure, done
from penstock.processing.metrics import ProcessorMetrics
from penstock.processing.runners.local import Local
from penstock.processing.sources.feed import FeedSource
from penstock.processing.stream_event import StreamEvent
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, blocks
from tests.unit.processing.engine.items import engine
from tests.unit.processing.watched import Watched

GUIDE = ROOT / "docs" / "guides" / "watching-processors.md"
[PROGRAM] = [block for block in blocks(GUIDE) if block.language == "python"]
[COMMAND] = [block for block in blocks(GUIDE) if block.language == "sh"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub with ten orders."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=2)
        client.publish("order.placed", [{"n": number} for number in range(10)])
        yield hub


def test_the_program_handles_what_there_is_and_shows_how_it_goes(hub: LiveHub, tmp_path: Path) -> None:
    text = PROGRAM.text.replace("http://localhost:8080", hub.url).replace("serve_metrics(9464", "serve_metrics(0")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 10
    assert re.search(r"^greeter: 10 events handled, .*, 0 behind, ", done.stderr.splitlines()[-1])


def test_the_command_writes_the_rules(tmp_path: Path) -> None:
    command = COMMAND.text.replace("python ", f"{sys.executable} ", 1)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=50)

    written = yaml.safe_load((tmp_path / "penstock-alerts.yml").read_text(encoding="utf-8"))
    assert len(written["groups"][0]["rules"]) >= 9


class Described(NamedTuple):
    """What there is to be said of a metric."""

    type: str
    labels: frozenset[str]
    """Besides the group."""


def everything() -> Watched:
    """Return a processor that has had something of all that metrics tell of."""
    watched, tranche = Watched("mailer", engine("order.placed/0")), "order.placed/0"
    events = [StreamEvent(stream, index, "event", b"{}", received=1) for index, stream in enumerate("AB")]
    page = Batch(tranche, 2, events, is_tail=True, bytes=64)
    watched.engine.ingest(page, 0.0)
    watched.tally.read(page)
    first, second = watched.engine.take(2, 0.0)
    watched.engine.settle(first, Failure("ValueError", "broken"), 0.0, 0.0)
    watched.engine.settle(second, done(mails=1), 0.0, 0.0)
    watched.tell_behind({tranche: 1})
    watched.tally.begin_round(0.0)
    watched.tally.cpu.counted("handle", lambda: None)()
    return watched


def exposed(watched: Watched) -> dict[str, Described]:
    """Return what Prometheus is given."""
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(watched))
    found: dict[str, Described] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        labels = {label for sample in family.samples for label in sample.labels} - {"group", "le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = Described(family.type, frozenset(labels))
        assert family.samples, f"{name} has no sample: this test has to bring one about"
        assert all(sample.labels["group"] == "mailer" for sample in family.samples)
        assert family.documentation.endswith(".")
    return found


def test_the_table_has_the_metrics_that_there_are_with_their_types_and_labels() -> None:
    rows = re.findall(r"^\| (`penstock_[^|]*?) \| (\w+) \| (.*?) ?\| ", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {
        name: Described(kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for names, kind, labels in rows
        for name in re.findall(r"`(\w+)`", names)
    }

    assert listed == exposed(everything())


def test_what_a_label_may_be_is_said_in_the_table_where_that_is_known() -> None:
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


def test_the_hub_shows_a_processor_with_how_far_it_is_behind(hub: LiveHub) -> None:
    with Client(hub.url) as client:
        with Local(
            lambda *_: None, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer")
        ) as running:
            running.wait_until_caught_up(300)
            assert set(running.behind().values()) == {0}
            assert running.name == "mailer"
        client.publish("order.placed", [{"n": number} for number in range(3)])
        [group] = client.consumer_groups("order.placed", kind="processor")

    assert (group.name, group.kind, group.event_types, group.gap) == ("mailer", "processor", ["order.placed"], 3)
    assert group.lag_seconds is not None
    assert group.lag_seconds > 0
