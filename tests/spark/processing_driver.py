"""A driver that processes and projects a feed, and may be killed: `processing_driver.py JOB GIVEN FILE`.

It stands alone: executors are sent the handler and the fold that are defined here, and have nothing of the tests. What
a job has found is in FILE when it has ended.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from pyspark.sql import SparkSession

import penstock.spark
from penstock.errors import PenstockError
from penstock.processing import DatabaseCheckpoints, Rules, StreamEvent
from penstock.processing.engine import Backoff
from penstock.processing.outcomes import done_to, retry
from penstock.processing.projections.projection import Projection
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.projections.database import DatabaseTarget
from penstock.spark.projections.files import FilesTarget, read
from penstock.spark.projections.project import ProjectionTarget, project
from penstock.wire.http import is_transient

CAUGHT_UP_SECONDS_MAX = 300
HANGS_SECONDS = 600.0


class Calls:
    """A handler that writes down its calls, a file for each stream; it fails, defers or does a part as chance has it.

    A call writes as long as it lasts, so that it shows when two go on at once, and how far one came that was killed.

    Args:
        folder: Of the files.
        life: Of the driver.
        seed: Of chance.
        lasts_seconds: How long a call lasts.
        hangs: How probably a call does not end.
    """

    def __init__(self, folder: str, life: int, seed: int, lasts_seconds: float, hangs: float = 0.0) -> None:
        self.folder = folder
        self.life = life
        self.seed = seed
        self.lasts_seconds = lasts_seconds
        self.hangs = hangs

    def __call__(self, stream: str, events: Sequence[StreamEvent]) -> Any:
        path, name = Path(self.folder) / stream, f"{os.getpid()}-{time.monotonic_ns()}"

        def tell(**more: Any) -> None:
            told = {"call": name, "life": self.life, "pid": os.getpid(), "tranche": events[0].tranche}
            with path.open("a") as file:
                file.write(json.dumps(told | more) + "\n")

        tell(offsets=[event.index for event in events])
        chance = Random(f"{self.seed} {stream} {events[0].index} {path.stat().st_size}").random()
        over = time.monotonic() + (HANGS_SECONDS if chance > 1 - self.hangs else self.lasts_seconds)
        while time.monotonic() < over:
            time.sleep(0.01)
            tell()
        if chance < 0.15:
            raise ValueError("as chance has it")
        if chance < 0.25:
            return retry(0.01)
        part = events if chance < 0.7 else events[: max(1, len(events) // 2)]
        tell(done=part[-1].next)
        return done_to(part[-1].next)


class AwaitedCalls(Calls):
    """The same, as a coroutine."""

    async def __call__(self, stream: str, events: Sequence[StreamEvent]) -> Any:
        await asyncio.sleep(0)
        return super().__call__(stream, events)


@dataclass
class Balance:
    total: int = 0
    events: int = 0
    last: int = -1


def booked(balance: Balance, event: StreamEvent) -> Balance | None:
    """Add an amount; what closes an account removes it."""
    if event.data["n"] % 97 == 96:
        return None
    return Balance(balance.total + event.data["n"], balance.events + 1, event.data["n"])


def by_account(event: StreamEvent) -> str | None:
    return event.key


BALANCES = Projection("balances", Balance, booked, key=by_account)


def target(url: str) -> ProjectionTarget:
    """Return where rows are kept: a database, or a folder."""
    if "://" in url:
        return DatabaseTarget(BALANCES, url)
    return FilesTarget(BALANCES, url)


def said(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def processing(spark: SparkSession, *, url: str, feed: str, journal: str, checkpoints: str, **given: Any) -> Any:
    """Return a processor that writes down its calls; *given*: `life`, `seed`, `lasts_seconds`."""
    handler = Calls(journal, given["life"], given["seed"], given["lasts_seconds"])
    backoff = Backoff(first_seconds=0.01, max_seconds=0.1)
    rules = Rules(backoff=backoff, events_per_call=15, events_ahead=100, batches_ahead=4, timeout=given["timeout"])
    kept = DatabaseCheckpoints(checkpoints, feed)
    return SparkProcessor(spark, handler, url, feed, checkpoints=kept, rules=rules, commit_interval=0.0)


def process(spark: SparkSession, **given: Any) -> dict[str, int]:
    """Process all there is."""
    with processing(spark, **given) as running:
        said("running")
        running.wait_until_caught_up(CAUGHT_UP_SECONDS_MAX)
    return dict(running.engine.counts)


def fold(spark: SparkSession, *, url: str, feed: str, targets: list[str], events_per_round: int) -> Any:
    """Project all there is, and return the rows of what is kept in files."""
    said("running")
    for each in targets:
        project(spark, target(each), url, feed, events_per_round=events_per_round)
    return rows_of(spark, targets)


def survive(spark: SparkSession, *, targets: list[str], goes_on: bool, **given: Any) -> Any:
    """Process and project beside each other: for ever where it *goes_on*, else all there is; return as `fold`."""
    feed = {"url": given["url"], "feed": given["feed"]}
    with processing(spark, **given) as running:
        said("running")
        if goes_on:
            follow(spark, targets=targets, events_per_round=60, **feed)
        for each in targets:
            project(spark, target(each), *feed.values(), partitions=2)
        running.wait_until_caught_up(CAUGHT_UP_SECONDS_MAX)
    return rows_of(spark, targets)


def follow(spark: SparkSession, *, url: str, feed: str, targets: list[str], events_per_round: int) -> NoReturn:
    """Project for ever what there is, into one target after the other."""
    rounds = {"events_per_round": events_per_round, "partitions": 2}
    while True:
        for each in targets:
            try:
                project(spark, target(each), url, feed, **rounds)
            except PenstockError as error:  # The hub does not answer: it is begun again.
                if not is_transient(error):
                    raise


def rows_of(spark: SparkSession, targets: list[str]) -> dict[str, list[int]]:
    """Return the rows that are in files, by account."""
    (path,) = [each for each in targets if "://" not in each]
    rows = read(spark, BALANCES, path).select("key", "total", "events", "last").collect()
    return {key: values for key, *values in map(tuple, rows)}


JOBS = {"process": process, "fold": fold, "survive": survive}


def main(job: str, given: str, file: str) -> None:
    words = json.loads(given)
    master, config = words.pop("master", None), words.pop("config", None)
    own = master and penstock.spark.session("processing", master=master, config=config)
    spark = own or SparkSession.builder.getOrCreate()
    Path(file).write_text(json.dumps(JOBS[job](spark, **words)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
