"""A parked stream whose events are gone fails when it is tried again on Spark, and ends no processor."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import EventsLost
from penstock.processing import DatabaseCheckpoints, Rules
from penstock.processing.engine.item import Batch
from penstock.processing.sources.source import Want
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sources.table import TableSource


class Forgetting(TableSource):
    """Cannot give again what it gave, after a while."""

    is_gone = False

    def reread(self, tranche: str, want: Want) -> Batch:
        """Return what a tranche has from an earlier index on, unless it is gone."""
        if self.is_gone:
            raise EventsLost(event_type="order", partition=0, lost=1, reason="retention has removed them")
        return super().reread(tranche, want)


def fail(stream: str, _: Sequence[Any]) -> None:
    if stream == "P":
        raise ValueError("no")


def test_a_parked_stream_whose_events_are_gone_fails_again_and_says_why(spark: SparkSession, tmp_path: Path) -> None:
    checkpoints, names = DatabaseCheckpoints(f"sqlite:///{tmp_path}/kept.db", "mailer"), ["P"]

    def frame(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([*enumerate(names)], "place bigint, name string")

    source = Forgetting(frame, index="place", stream="name")
    running = SparkProcessor(
        spark, fail, source, checkpoints=checkpoints, rules=Rules(attempts_max=1, exhausted="park"), commit_s=0
    )
    while running.step():
        pass
    [parked] = checkpoints.parked()
    source.is_gone = True
    checkpoints.ask(parked.stream, "retry")
    names.append("R")
    while running.step():
        pass
    running.close()

    [kept] = checkpoints.parked_at()
    assert (kept.parked.attempts, kept.parked.tag, kept.request) == (2, "gone", None)
    assert "retention has removed them" in kept.parked.detail
    assert checkpoints.positions() == {"0": 2}, "others go on"
