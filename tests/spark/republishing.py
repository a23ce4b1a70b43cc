"""A stream from one feed to another, in this process or in one that is killed."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import penstock.spark
from penstock.testing.live_hub import LiveHub
from tests.faults.processes import living, owner_of
from tests.faults.proxy import Held, Line, Visit

ROOT = Path(__file__).parents[2]
EVENTS = 300


class Republished:
    """A stream from one feed to another, run after run from one checkpoint."""

    def __init__(
        self, spark: SparkSession, options: dict[str, str], target: str, folder: Path, *, direct: bool = False
    ) -> None:
        self.spark = spark
        self.options = options
        self.target = target
        self.checkpoint = folder / "checkpoint"
        self.direct = direct
        self.change: Callable[[DataFrame], DataFrame] = lambda rows: rows

    def start(self, **sink: str) -> Any:
        rows = self.spark.readStream.format("penstock").options(**self.options, maxEventsPerTrigger="100").load()
        sink = {"url": self.options["url"], "eventType": self.target, "retrySeconds": "20"} | sink
        rows = self.change(rows.select("data"))
        writer: Any
        if self.direct:
            writer = penstock.spark.direct(rows, **sink)
        else:
            writer = rows.writeStream.format("penstock").options(**sink)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()

    def run(self, **sink: str) -> Any:
        query = self.start(**sink)
        try:
            assert query.awaitTermination(300), "the query did not end"
        finally:
            query.stop()
        return query

    @property
    def group(self) -> str:
        """The producer group that it has if none is named."""
        return f"spark.{json.loads((self.checkpoint / 'metadata').read_text())['id']}"

    def forget_commit(self, number: int) -> None:
        """Have the checkpoint look as if the driver had died before Spark noted the batch."""
        for name in (str(number), f".{number}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    @property
    def stored(self) -> Counter[int]:
        """How often each number is in the target."""
        rows = self.spark.read.format("penstock").options(url=self.options["url"], eventType=self.target).load()
        return Counter(json.loads(row["data"])["n"] for row in rows.select("data").collect())


def run_twice(republished: Republished, hub: LiveHub, is_second_end: Callable[[Visit], bool]) -> None:
    """Run a query in two drivers at once: one of them stands at the end of its second batch while the other goes on."""
    with Line(hub.port) as line:
        held = Held(before=True)
        line.does(held, to=is_second_end)
        first = Driver(republished, line.url)
        try:
            assert held.reached.wait(300), "it has not come to its second batch"
            second = Driver(republished, hub.url)
            said = second.ended()
            assert second.process.returncode == 0, said[-3_000:]
            assert first.process.poll() is None, "it is still at its second batch"
        finally:
            held.let_go()
            first.ended()


class Driver:
    """A driver in a process of its own, which can be killed with all that it has started."""

    def __init__(self, republished: Republished, sink_url: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.spark.republish", republished.options["url"], sink_url,
                republished.options["eventType"], republished.target, str(republished.checkpoint),
                "direct" if republished.direct else "staged",
            ],
            cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def kill(self, _visit: object = None) -> None:
        """Kill its whole session: Spark's Python workers have a process group of their own, and one could go on."""
        while alive := living(self.process.pid):
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def ended(self) -> str:
        """Wait for its end; return what it has said."""
        try:
            _, said = self.process.communicate(timeout=180)
        finally:
            self.kill()
        return said

    def kill_asker(self, visit: Visit) -> None:
        """Kill the Python worker that has sent a request."""
        os.kill(owner_of(visit.ports, self.process.pid), signal.SIGKILL)
