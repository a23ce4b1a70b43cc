"""A stream from one feed to another, in this process or in one that is killed."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from pyspark.sql import DataFrame, SparkSession

import penstock.spark
from penstock.client import Client
from tests.faults.processes import owner_of
from tests.faults.proxy import Visit, Which
from tests.spark.drivers import ModuleDriver
from tests.spark.events import numbers_in

BATCH = 100
EVENTS = 2 * BATCH


class Republished:
    """A stream from one feed to another in micro-batches of a hundred, run after run from one checkpoint."""

    def __init__(self, spark: SparkSession, client: Client, options: dict[str, str], target: str, folder: Path) -> None:
        self.spark = spark
        self.client = client
        self.options = options
        self.target = target
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.change: Callable[[DataFrame], DataFrame] = lambda rows: rows

    def start(self, **sink: str) -> Any:
        options = self.options | {"startingOffsets": "earliest", "maxEventsPerTrigger": str(BATCH)}
        rows = self.change(self.spark.readStream.format("penstock").options(**options).load().select("data"))
        sink = {"url": self.options["url"], "eventType": self.target, "retryTimeout": "20 seconds"} | sink
        return republish(rows, str(self.checkpoint), sink)

    def run(self, **sink: str) -> None:
        query = self.start(**sink)
        try:
            assert query.awaitTermination(300), "the query did not end"
        finally:
            query.stop()

    def driver(self, sink_url: str) -> "RepublishingDriver":
        """Run it in a driver of its own, which publishes to the hub at *sink_url*."""
        return RepublishingDriver(self, sink_url)

    @property
    def group(self) -> str:
        """The producer group that it has if none is named."""
        return f"spark.{json.loads((self.checkpoint / 'metadata').read_text())['id']}"

    def batches(self) -> list[dict[str, Any]]:
        """Return the hub's ledger of its batches, the newest first."""
        listed: list[dict[str, Any]] = httpx2.get(self.batches_url).json()["items"]
        return listed

    @property
    def batches_url(self) -> str:
        return f"{self.options['url']}/event-types/{self.target}/producers/{self.group}/batches"

    def sends_events(self, visit: Visit) -> bool:
        """Tell whether a request brings events."""
        return "/chunks/" in visit.path

    def completes(self, number: int | None = None) -> Which:
        """Tell whether a request ends a batch, or that of a number."""
        return lambda visit: (
            visit.method == "PUT"
            and (visit.path.endswith(f"/batches/{number}") if number is not None else "/batches/" in visit.path)
        )

    def stored(self) -> Counter[int]:
        """Return how often each number is in the target."""
        return numbers_in(self.client, self.target)

    def forget_commit(self, number: int) -> None:
        """Make the checkpoint look as if the driver had died before Spark noted the batch."""
        for name in (str(number), f".{number}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


def republish(rows: DataFrame, checkpoint: str, sink: dict[str, str]) -> Any:
    """Start a query that publishes *rows*."""
    writer: Any = rows.writeStream.format("penstock").options(**sink)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


class RepublishingDriver(ModuleDriver):
    """A driver in a process of its own, which can be killed with all that it has started."""

    def __init__(self, republished: Republished, sink_url: str) -> None:
        super().__init__(
            "tests.spark.republishing", republished.options["url"], sink_url, republished.options["eventType"],
            republished.target, str(republished.checkpoint), folder=republished.folder,
        )  # fmt: skip

    def kill_sender(self, visit: Visit) -> None:
        """Kill the Python worker that has sent a request."""
        os.kill(owner_of(visit.ports, self.session), signal.SIGKILL)


def main(source_url: str, sink_url: str, source: str, *given: Any) -> None:
    """Publish the events that are there."""
    target, checkpoint = given
    spark = penstock.spark.session("republish", master="local[2,4]")
    options = {"url": source_url, "eventType": source, "maxEventsPerTrigger": str(BATCH)}
    rows = spark.readStream.format("penstock").options(startingOffsets="earliest", **options).load().select("data")
    sink = {"url": sink_url, "eventType": target, "retryTimeout": "60 seconds"}
    republish(rows, checkpoint, sink).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
