"""Pipelines that are ready to run: feeds into a lake, and from one place to another."""

from penstock.spark.pipelines.lake import export, ingest
from penstock.spark.pipelines.watching import Report, watch

__all__ = ["Report", "export", "ingest", "watch"]
