"""Where Spark looks for format("zeroeventhub"): it imports modules named `pyspark_…`, takes their `DefaultSource`."""

from penstock.spark.zeroeventhub.source import RemoteFeedSource as DefaultSource

__all__ = ["DefaultSource"]
