import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import penstock.spark
from penstock.errors import BadParameter
from penstock.spark.traversals.numbering import number_rows
from penstock.spark.traversals.query import write_numbered
from tests.exhaustive import exhaustive

SECOND = 1_000_000_000


class Traversals:
    """A periodic query of a hundred numbers, run after run from one checkpoint, and what it has written."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.written: list[tuple[int, dict[int, int]]] = []
        """By traversal: its first position, and the number at each position."""
        self.fails = False

    def rows(self, spark: SparkSession) -> DataFrame:
        return spark.range(100, numPartitions=7)

    def write(self, rows: DataFrame, first: int) -> None:
        numbers = {row["position"]: row["id"] for row in rows.where(col("id") < 50 if self.fails else "true").collect()}
        self.written.append((first, numbers))
        if self.fails:
            raise OSError("the disk is full")

    def start(self, **given: Any) -> Any:
        return penstock.spark.periodic(self.spark, self.rows, self.write, checkpoint=str(self.checkpoint), **given)

    def run(self, interval: str = "1h") -> None:
        query = self.start(interval=interval, available_now=True)
        try:
            assert query.awaitTermination(300), "the query did not end"
        finally:
            query.stop()


@pytest.fixture
def traversals(spark: SparkSession, tmp_path: Path) -> Traversals:
    return Traversals(spark, tmp_path)


def test_rows_of_a_traversal_have_dense_positions_from_its_start(traversals: Traversals) -> None:
    before = int(time.time())
    traversals.run()

    [(first, numbers)] = traversals.written
    assert before <= first / SECOND <= time.time()
    assert first % SECOND == 0
    assert sorted(numbers) == list(range(first, first + 100))
    assert sorted(numbers.values()) == list(range(100))


@pytest.mark.exhaustive
def test_each_interval_traverses_the_current_rows(traversals: Traversals, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = itertools.chain([30, 0, 50], itertools.repeat(1))
    monkeypatch.setattr(traversals, "rows", lambda spark: spark.range(next(sizes)))
    query = traversals.start(interval="2s")
    try:
        deadline = time.monotonic() + 300
        while len(traversals.written) < 3:
            assert time.monotonic() < deadline
            query.awaitTermination(0.1)
    finally:
        query.stop()

    assert [len(numbers) for _, numbers in traversals.written[:3]] == [30, 0, 50]
    assert all(start <= position < start + 50 for start, numbers in traversals.written for position in numbers)
    starts = [first for first, _ in traversals.written]
    assert all(later - earlier >= 2 * SECOND for earlier, later in itertools.pairwise(starts))


def test_failed_traversal_is_repeated_from_its_first_row(traversals: Traversals) -> None:
    traversals.fails = True
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        traversals.run()
    traversals.fails = False

    traversals.run()

    (failed, half), (again, whole) = traversals.written
    assert failed == again
    assert (len(half), len(whole)) == (50, 100)
    assert half.items() <= whole.items(), "the same rows have the same positions"
    traversals.run()
    assert len(traversals.written) == 2


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda spark: spark.range(0, numPartitions=3), id="empty"),
        pytest.param(
            lambda spark: spark.range(1_000, numPartitions=6).where("id >= 500 AND id % 7 = 0"),
            id="uneven",
        ),
        # How they came about makes no difference to the numbers of rows that are persisted.
        exhaustive(lambda spark: spark.range(10_000).repartition(5), id="shuffled"),
        exhaustive(lambda spark: spark.range(10_000).groupBy((col("id") % 100).alias("id")).count(), id="aggregated"),
    ],
)
def test_rows_are_numbered_without_a_shuffle(spark: SparkSession, made: Callable[[SparkSession], DataFrame]) -> None:
    rows = made(spark).persist()
    try:
        found = number_rows(rows, 7 * SECOND)

        positions = [row["position"] for row in found.select("position").collect()]
        assert sorted(positions) == list(range(7 * SECOND, 7 * SECOND + rows.count()))
        assert found.rdd.getNumPartitions() == rows.rdd.getNumPartitions()
        half = found.where("position % 2 = 0").select("position").collect()
        assert len(half) == (len(positions) + 1) // 2
    finally:
        rows.unpersist()


def test_sorted_rows_are_numbered_in_their_order(spark: SparkSession) -> None:
    rows = spark.range(1_000).repartition(4).orderBy(col("id").desc()).persist()
    try:
        found = number_rows(rows, 0).select("id", "position").collect()
        assert all(row["id"] + row["position"] == 999 for row in found)
    finally:
        rows.unpersist()


def test_rows_are_persisted_until_they_are_written(spark: SparkSession) -> None:
    levels = []
    plain, kept = spark.range(10), spark.range(11).persist()
    for rows in (plain, kept):
        write_numbered(rows, 0, lambda _, __, rows=rows: levels.append(rows.storageLevel.useMemory))

    assert levels == [True, True]
    assert (plain.storageLevel.useMemory, kept.storageLevel.useMemory) == (False, True)
    kept.unpersist()


def test_unusable_rows_and_intervals_are_refused(
    spark: SparkSession, traversals: Traversals, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadParameter, match="option interval is 'soon'"):
        traversals.start(interval="soon")
    with pytest.raises(BadParameter, match="parameter rows is 'a stream'; allowed: a data frame"):
        write_numbered(spark.readStream.format("rate").load(), 0, traversals.write)
    with pytest.raises(BadParameter, match="allowed: columns of other names than position"):
        write_numbered(spark.range(3).withColumnRenamed("id", "Position"), 0, traversals.write)
    monkeypatch.setattr("penstock.spark.traversals.numbering.ROWS_MAX", 99)
    with pytest.raises(BadParameter, match="parameter rows is 100; allowed: up to 99 rows in a traversal"):
        write_numbered(traversals.rows(spark), 0, traversals.write)
    assert traversals.written == []
