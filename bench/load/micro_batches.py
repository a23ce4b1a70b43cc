"""Runs streams of small micro-batches with Spark, on this machine, into noop: from the feed, or of Spark's own rows."""

import tempfile
import time
from statistics import median
from typing import Any, Final

from bench.load.program import Run, serve
from penstock.spark import session

WARM_UP: Final = 20
"""So many micro-batches of a stream do not count."""
LOOK_SECONDS: Final = 0.2
KEPT: Final = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}


def make(url: str, feed: str, events: int, directory: str) -> Run:
    """Start Spark. A micro-batch has so many *events*."""
    spark = session("penstock-bench", config={"spark.log.level": "OFF", "spark.driver.memory": "2g", **KEPT})
    sources: dict[str, tuple[str, dict[str, Any]]] = {
        "feed": (
            "penstock",
            {"url": url, "eventType": feed, "startingOffsets": "earliest", "maxEventsPerTrigger": events},
        ),
        "rate": ("rate-micro-batch", {"rowsPerBatch": events}),
    }

    def run(what: str, batches: int) -> dict[str, Any]:
        source, options = sources[what]
        rows = spark.readStream.format(source).options(**options).load()
        writer = rows.writeStream.format("noop").trigger(processingTime="0 seconds")
        query = writer.option("checkpointLocation", tempfile.mkdtemp(dir=directory)).start()
        try:
            while (query.lastProgress or {"batchId": 0})["batchId"] < WARM_UP + batches:
                assert query.isActive, query.exception()
                time.sleep(LOOK_SECONDS)
            full = [each["durationMs"] for each in query.recentProgress if each["numInputRows"] == events]
        finally:
            query.stop()
        return {"milliseconds": median(each["triggerExecution"] for each in full[WARM_UP : WARM_UP + batches])}

    return run


if __name__ == "__main__":
    serve(make)
