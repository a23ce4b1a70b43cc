"""A driver of its own, to be killed: `python -m tests.spark.republish FROM TO SOURCE TARGET CHECKPOINT MODE`.

It publishes from one feed to another, in micro-batches of a hundred.
"""

import sys

import penstock.spark


def main(*given: str) -> None:
    """Publish what is there, and end."""
    source_url, sink_url, source, target, checkpoint, mode = given
    spark = penstock.spark.session("republish", master="local[2,4]")
    rows = (
        spark.readStream.format("penstock").options(url=source_url, eventType=source, maxEventsPerTrigger="100").load()
    )
    sink = {"url": sink_url, "eventType": target, "retrySeconds": "60"}
    data = rows.select("data")
    writer = (
        penstock.spark.direct(data, **sink) if mode == "direct" else data.writeStream.format("penstock").options(**sink)
    )
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
