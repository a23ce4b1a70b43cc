"""Where Spark looks for format("nakadi"): it imports all modules named `pyspark_…` and takes its `DefaultSource`."""

from penstock.spark.foreign.source import NakadiSource as DefaultSource

__all__ = ["DefaultSource"]
