"""Feeds in Spark: `spark.read` and `spark.readStream` with format("penstock"), over HTTP alone."""

from penstock.spark.laptop import session

__all__ = ["session"]
