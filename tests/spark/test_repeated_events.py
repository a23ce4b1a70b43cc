"""An event that comes again changes nothing, in a processor and in a projection: events 0, 1, 2, 1, 3 of a stream."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.errors import HandlerFailed
from penstock.processing import DatabaseCheckpoints, StreamEvent
from penstock.processing.projections.projection import Projection
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sources.table import TableSource
from penstock.spark.projections.database import DatabaseTarget
from penstock.spark.projections.files import FilesTarget, read
from penstock.spark.projections.project import Projected, ProjectionTarget, project
from tests.exhaustive import exhaustive
from tests.spark.growing_table import GrowingTable
from tests.spark.tables import rows_of

Rounds: TypeAlias = Sequence[Sequence[int]]
EVENTS = (0, 1, 2, 1, 3)
IN_THREE: Rounds = [EVENTS[:3], EVENTS[3:4], EVENTS[4:]]
ROUNDS: dict[str, Rounds] = {"one round": [EVENTS], "three rounds": IN_THREE}
"""In three rounds what comes again lies below the position: it is not read, and neither holds that nor moves it back.
Where it is read, since something else holds the position, is a test of its own; so `make test` has one round."""


POISON = "S0"
"""A stream of which nothing can be folded."""


class Seen(msgspec.Struct):
    count: int = 0
    last: int = -1


def seen(state: Seen, event: StreamEvent) -> Seen:
    if event.stream == POISON:
        raise ValueError("poison")
    return Seen(state.count + 1, event.data["n"])


ROWS = "SELECT key, count, last FROM streams"
STREAMS = Projection("streams", Seen, seen)


class Events(GrowingTable):
    """Files of events, to which more are added."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, pa.schema([("stream", pa.string()), ("number", pa.int64()), ("data", pa.string())]))

    def append(self, numbers: Sequence[int], stream: str = "S1") -> None:
        """Write events of a stream."""
        self.write({"stream": stream, "number": n, "data": json.dumps({"n": n})} for n in numbers)

    @property
    def source(self) -> TableSource:
        return TableSource(self.frame, index="number", stream="stream", data="data")


@pytest.fixture
def table(tmp_path: Path) -> Events:
    return Events(tmp_path / "events")


def write_down(folder: str) -> Any:
    """Return a handler that writes down what it is given."""

    def handle(stream: str, events: Sequence[StreamEvent]) -> None:
        with (Path(folder) / stream).open("a") as file:
            file.writelines(f"{event.data['n']}\n" for event in events)

    return handle


@pytest.mark.parametrize("rounds", [[EVENTS], exhaustive(IN_THREE)], ids=ROUNDS)
def test_processor_handles_a_repeated_event_once(
    spark: SparkSession, table: Events, tmp_path: Path, rounds: Rounds
) -> None:
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/checkpoints.db", "s1")
    for numbers in rounds:
        table.append(numbers)
        with SparkProcessor(spark, write_down(str(tmp_path)), table.source, checkpoints=checkpoints) as running:
            running.wait_until_caught_up(300)
    assert (tmp_path / "S1").read_text().split() == ["0", "1", "2", "3"]
    assert checkpoints.positions() == {"0": 4}


@pytest.mark.parametrize("rounds", [[EVENTS], exhaustive(IN_THREE)], ids=ROUNDS)
def test_rows_in_a_database_count_a_repeated_event_once(
    spark: SparkSession, table: Events, database_url: str, rounds: Rounds
) -> None:
    for numbers in rounds:
        table.append(numbers)
        project(spark, DatabaseTarget(STREAMS, database_url), table.source)
    assert rows_of(database_url, ROWS) == [("S1", 4, 3)]

    DatabaseCheckpoints(database_url, "streams_v1").move({"0": 1}, reason="all but the first once more")
    again = project(spark, DatabaseTarget(STREAMS, database_url), table.source)
    assert (again.events > 0, again.changed) == (True, 0)
    assert rows_of(database_url, ROWS) == [("S1", 4, 3)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
def test_rows_in_files_count_a_repeated_event_once(
    spark: SparkSession, table: Events, tmp_path: Path, rounds: Rounds
) -> None:
    path = str(tmp_path / "streams")
    for numbers in rounds:
        table.append(numbers)
        project(spark, FilesTarget(STREAMS, path), table.source)
    assert [tuple(row) for row in read(spark, STREAMS, path).collect()] == [("S1", 4, 3)]


@pytest.mark.parametrize("is_file", [False, exhaustive(True)], ids=["database", "files"])
def test_event_that_is_read_again_in_a_later_round_changes_no_row(
    spark: SparkSession, table: Events, tmp_path: Path, *, is_file: bool
) -> None:
    url, path = f"sqlite:///{tmp_path}/rows.db", str(tmp_path / "streams")
    table.append([0], POISON)  # The position stays where it is: each round reads all.
    told: list[Projected] = []
    for numbers in IN_THREE:
        table.append(numbers)
        target: ProjectionTarget = FilesTarget(STREAMS, path) if is_file else DatabaseTarget(STREAMS, url)
        with pytest.raises(HandlerFailed, match="poison"):
            project(spark, target, table.source, progress=told.append)
    assert [(each.events, each.changed) for each in told] == [(3, 1), (3, 0), (4, 1)]
    rows = [tuple(row) for row in read(spark, STREAMS, path).collect()] if is_file else rows_of(url, ROWS)
    assert rows == [("S1", 4, 3)]
