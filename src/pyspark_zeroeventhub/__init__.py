"""Where Spark looks for format("zeroeventhub"): it imports modules named `pyspark_…`, takes their `DefaultSource`."""

from penstock.spark.foreign.source import ZeroEventHubSource as DefaultSource

__all__ = ["DefaultSource"]
