"""The program of docs/guides/watching-processors.md runs as it stands there, and its table has all metrics."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from penstock.client import Client
from penstock.processing.checkpoints.hub import HubCheckpoints
from penstock.processing.engine.outcome import Failure, done
from penstock.processing.metrics import ProcessorMetrics
from penstock.processing.runners.local import Local
from penstock.processing.sources.feed import FeedSource
from penstock.testing.live_hub import LiveHub, live_hub
from tests.docs.examples import ROOT, blocks
from tests.unit.processing.engine.items import batch, engine, things
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
    assert re.search(r"^greeter: \d+ events handled, ", done.stderr, re.MULTILINE)


def test_the_command_writes_the_rules(tmp_path: Path) -> None:
    command = COMMAND.text.replace("python ", f"{sys.executable} ", 1)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=50)

    written = yaml.safe_load((tmp_path / "penstock-alerts.yml").read_text(encoding="utf-8"))
    assert len(written["groups"][0]["rules"]) >= 9


def test_the_table_has_the_metrics_that_there_are_with_their_labels() -> None:
    watched = Watched("mailer", engine())
    watched.engine.ingest(batch(2, things("A0E0", "B0E1")), 0.0)
    watched.tally.read(batch(2, things("A0E0", "B0E1"))._replace(is_tail=True))
    first, second = watched.engine.take(2, 0.0)
    watched.engine.settle(first, Failure("ValueError", "broken"), 0.0, 0.0)
    watched.engine.settle(second, done(mails=1), 0.0, 0.0)
    watched.engine.open("order.placed/0", "1:0")
    watched.engine.ingest(batch("1:0", [], "order.placed/0")._replace(is_tail=True), 0.0)  # type: ignore[arg-type]
    registry = CollectorRegistry()
    registry.register(ProcessorMetrics(watched))
    given: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(penstock_\w+){(.*?)} ", generate_latest(registry).decode(), re.MULTILINE):
        whole = re.sub(r"_(bucket|sum|count)$", "", name) if "handler_seconds" in name else name
        given.setdefault(whole, set()).update(set(re.findall(r'(\w+)="', labels)) - {"group", "le"})

    rows = re.findall(r"^\| (`penstock_.*?) \| (.*?) ?\| ", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {
        name: set(re.findall(r"`(\w+)`", labels)) for names, labels in rows for name in re.findall(r"`(\w+)`", names)
    }
    assert listed == given


def test_the_hub_shows_a_processor_with_how_far_it_is_behind(hub: LiveHub) -> None:
    with Client(hub.url) as client:
        with Local(
            lambda *_: None, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer")
        ) as running:
            running.wait_until_caught_up(20)
            assert set(running.behind().values()) == {0}
            assert running.name == "mailer"
        client.publish("order.placed", [{"n": number} for number in range(3)])
        [group] = client.consumer_groups("order.placed", kind="processor")

    assert (group.name, group.kind, group.event_types, group.gap) == ("mailer", "processor", ["order.placed"], 3)
    assert group.lag_seconds is not None
    assert group.lag_seconds > 0
