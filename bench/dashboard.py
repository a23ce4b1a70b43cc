"""Draws docs/guides/dashboard.png: `.venv/bin/python -m bench.dashboard [MINUTES] [PROMETHEUS]`.

A hub and a processor work for some minutes, with a consumer that stops and events that cannot be processed. Prometheus,
the program of the system's package, scrapes them. Then each panel of the dashboard is drawn by matplotlib from what
Prometheus answers to the panel's own queries, in the panel's own place; Grafana would draw the same lines.
"""

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import httpx2
import matplotlib as mpl
import yaml
from PIL import Image

from penstock.processing import FeedSource, LocalProcessor, Rules
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.engine.rules import Backoff
from penstock.processing.metrics import serve_metrics
from penstock.processing.outcomes import done
from penstock.processing.stats import Stats
from penstock.server.monitoring import alert_rules, dashboard
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.port import free_port

mpl.use("agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import EngFormatter

PICTURE = Path(__file__).parents[1] / "docs" / "guides" / "dashboard.png"
SCRAPE_SECONDS = 5
COLOURS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300")
LEGEND_MAX = 4
"""So many lines of a panel have a name; Grafana scrolls through the others."""
UNITS = {"s": "s", "bytes": "B", "Bps": "B/s", "reqps": "/s", "short": ""}


def main(duration: str = "12", prometheus: str = "prometheus") -> None:
    """Let a hub work for so many minutes, and draw what Prometheus has seen of it."""
    minutes = float(duration)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub = stack.enter_context(live_hub(f"sqlite:///{folder / 'shop.db'}"))
        work = Work(hub.url, folder / "shop.db")
        stack.callback(work.stop)
        processor = stack.enter_context(
            LocalProcessor(Mailer(), work.source(), checkpoints=MemoryCheckpoints("mailer"), rules=RULES)
        )
        served = stack.enter_context(serve_metrics(0, processor))
        url = stack.enter_context(running(prometheus, folder, hub, served))
        began = time.time()
        work.start(began + 60 * minutes / 2)
        time.sleep(60 * minutes)
        draw(json.loads(dashboard()), url, began + 30, time.time())


INSERT = "INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)"
RULES = Rules(backoff=Backoff(first_seconds=1, max_seconds=5), attempts_max=20, exhausted="park")


class Mailer:
    """A handler that cannot process a few events, and tells statistics."""

    def __call__(self, _: str, events: Any) -> Any:
        """Handle *events*."""
        time.sleep(random.expovariate(200))
        if any(event.data["id"] % 1_501 == 1_500 for event in events):
            raise ValueError("no such customer")
        stats = Stats()
        stats.observe("order_value_eur", *(event.data["total"] for event in events))
        stats.set("mails_in_queue", random.randrange(10))
        return done(stats=stats, mails=len(events))


class Work:
    """Services that publish, and consumers of which one stops and one is slow."""

    def __init__(self, url: str, database: Path) -> None:
        self._url = url
        self._database = database
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        with httpx2.Client(base_url=url) as http:
            for name in ("order.placed", "order.shipped", "stock.changed"):
                made = an_event_type(name, partition_count=2, partition_strategy="hash", partition_key_fields=["id"])
                http.post("/event-types", json=made).raise_for_status()

    def source(self) -> FeedSource:
        """Return the feed that a processor reads."""
        return FeedSource(self._url, "order.placed")

    def start(self, stops_at: float) -> None:
        """Start all; one consumer commits nothing from *stops_at* on."""
        for name, rate, size in (("order.placed", 20, 1), ("order.shipped", 8, 3), ("stock.changed", 3, 60)):
            self._run(self._publish, name, rate, size)
        self._run(self._insert, 5)
        for group, name, share, until in (
            ("invoicing", "order.placed", 1.0, float("inf")),
            ("search-index", "stock.changed", 0.6, float("inf")),
            ("warehouse", "order.shipped", 1.0, stops_at),
        ):
            self._run(self._consume, group, name, share, until)

    def stop(self) -> None:
        """End all."""
        self._stopping.set()
        for each in self._threads:
            each.join()

    def _run(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _publish(self, name: str, rate: float, size: int) -> None:
        number = 0
        with httpx2.Client(base_url=self._url) as http:
            while not self._stopping.wait(random.expovariate(rate * (1.5 + (time.time() // 60) % 2))):
                events = [{"id": number + n, "total": round(random.lognormvariate(3, 1), 2)} for n in range(size)]
                number += size
                http.post(f"/feeds/{name}", content="\n".join(json.dumps({"data": each}) for each in events))

    def _insert(self, rate: float) -> None:
        """Insert into the outbox; a few rows are of no event type."""
        while not self._stopping.wait(random.expovariate(rate)):
            name = "stock.changed" if random.random() < 0.998 else "stock.chnaged"
            with closing(sqlite3.connect(self._database, timeout=60)) as service, service:
                service.execute(INSERT, (name, json.dumps({"id": random.randrange(1_000), "total": 1})))

    def _consume(self, group: str, name: str, share: float, until: float) -> None:
        with httpx2.Client(base_url=self._url) as http:
            done_to = [0.0, 0.0]
            while not self._stopping.wait(2):
                shown = http.get(f"/event-types/{name}/partitions").json()
                for number, each in enumerate(shown):
                    newest = int(each["newest_available_offset"][-18:]) + 1 if "newest_available_offset" in each else 0
                    done_to[number] += (newest - done_to[number]) * share * 0.5
                if time.time() < until:
                    items = [
                        {"event_type": name, "partition": number, "offset": int(offset)}
                        for number, offset in enumerate(done_to)
                    ]
                    http.post(f"/groups/{group}/positions", json={"kind": "processor", "items": items})
                if random.random() < 0.1:
                    http.get(f"/groups/{group}-2")  # There is none.


@contextmanager
def running(prometheus: str, folder: Path, hub: LiveHub, served: str) -> Iterator[str]:
    """Run Prometheus, which scrapes the hub and the processor; lend its address."""
    (folder / "alerts.yml").write_text(alert_rules(processors=True), encoding="utf-8")
    scraped = {"hub": hub.url, "processors": served}
    config = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [url.split("/")[2]]}]} for job, url in scraped.items()
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    listens = f"127.0.0.1:{free_port()}"
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([prometheus, *options, f"--web.listen-address={listens}"], stdout=log, stderr=log)
    try:
        while True:
            assert process.poll() is None, (folder / "prometheus.log").read_text(encoding="utf-8")
            with suppress(OSError), urlopen(f"http://{listens}/-/ready") as answer:
                if answer.status == 200:
                    break
            time.sleep(0.1)
        yield f"http://{listens}"
    finally:
        process.terminate()
        process.wait()


def ask(url: str, expr: str, start: float, end: float) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
    """Return the time series that a query has between two times."""
    expr = expr.replace("$__rate_interval", "30s").replace("$job", ".*")
    given = urlencode({"query": expr, "start": start, "end": end, "step": SCRAPE_SECONDS})
    with urlopen(f"{url}/api/v1/query_range?{given}") as answer:
        found = json.load(answer)
    return [
        (each["metric"], [(at - start, float(value)) for at, value in each["values"]])
        for each in found["data"]["result"]
    ]


def draw(board: dict[str, Any], url: str, start: float, end: float) -> None:
    """Draw the panels where the dashboard has them."""
    plt.rcParams.update({"font.size": 6, "axes.edgecolor": "#444", "text.color": "#ddd", "axes.labelcolor": "#ddd"})
    rows = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in board["panels"])
    figure = plt.figure(figsize=(12, rows * 0.22), dpi=100, facecolor="#111217")
    empty = []
    for panel in board["panels"]:
        at = panel["gridPos"]
        place = (at["x"] / 24, 1 - (at["y"] + at["h"]) / rows, at["w"] / 24, at["h"] / rows)
        if panel["type"] == "row":
            figure.text(place[0] + 0.008, place[1] + place[3] / 3, panel["title"], fontsize=9, weight="bold")
            continue
        axes = figure.add_axes((place[0] + 0.035, place[1] + 1.9 / rows, place[2] - 0.045, place[3] - 3.2 / rows))
        axes.set_facecolor("#181b1f")
        axes.set_title(panel["title"], loc="left", fontsize=7, color="#eee")
        axes.tick_params(colors="#999", length=2)
        axes.grid(color="#2a2d33", linewidth=0.5)
        axes.yaxis.set_major_formatter(EngFormatter(unit=UNITS[panel["fieldConfig"]["defaults"]["unit"]], sep=""))
        number = 0
        for target in panel["targets"]:
            for labels, points in ask(url, target["expr"], start, end):
                name = target["legendFormat"].replace("{{", "{").replace("}}", "}")
                name = name.format_map(defaultdict(str, labels))
                colour = COLOURS[number % len(COLOURS)]
                axes.plot(*zip(*((x / 60, y) for x, y in points), strict=True), linewidth=0.9, color=colour, label=name)
                number += 1
        if not number:
            empty.append(panel["title"])
            axes.text(0.5, 0.5, "No data", transform=axes.transAxes, ha="center", color="#777")
        axes.set_xlim(0, (end - start) / 60)
        axes.set_ylim(bottom=0)
        if number:
            handles, names = axes.get_legend_handles_labels()
            if len(names) > LEGEND_MAX:
                names[LEGEND_MAX - 1] = f"{names[LEGEND_MAX - 1]} and {len(names) - LEGEND_MAX} more"
            axes.legend(
                handles[:LEGEND_MAX], names[:LEGEND_MAX], loc="upper left", bbox_to_anchor=(-0.06, -0.09), ncols=2,
                frameon=False, fontsize=5.5, handlelength=1, columnspacing=1, borderpad=0,
            )  # fmt: skip
    figure.savefig(PICTURE, facecolor=figure.get_facecolor())
    Image.open(PICTURE).convert("RGB").quantize(48).save(PICTURE, optimize=True)
    with urlopen(f"{url}/api/v1/alerts") as answer:
        alerts = [
            (each["labels"]["alertname"], each["labels"].get("group")) for each in json.load(answer)["data"]["alerts"]
        ]
    print(f"{PICTURE}; without data: {empty}; alerts: {sorted(map(str, alerts))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
