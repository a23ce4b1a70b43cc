"""Pipelines that are ready to run: feeds into a lake, and from one place to another."""

from penstock.spark.pipelines.feed import HubFeed
from penstock.spark.pipelines.forwarding import forward
from penstock.spark.pipelines.importing import Files, import_
from penstock.spark.pipelines.kafka import Kafka
from penstock.spark.pipelines.lake import export, ingest
from penstock.spark.pipelines.nakadi import Nakadi
from penstock.spark.pipelines.watching import Report, watch

__all__ = ["Files", "HubFeed", "Kafka", "Nakadi", "Report", "export", "forward", "import_", "ingest", "watch"]
