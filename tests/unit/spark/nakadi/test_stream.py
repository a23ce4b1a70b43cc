import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.spark.columns import some_of
from penstock.spark.nakadi.columns import SCHEMA
from penstock.spark.nakadi.stream import SubscriptionStreamReader
from tests.unit.spark.nakadi.serving import Serving, line, offset


@pytest.fixture
def reader(nakadi: Serving, tmp_path: Path) -> SubscriptionStreamReader:
    options = nakadi.options(landing_location=str(tmp_path))
    return SubscriptionStreamReader(options, some_of(SCHEMA, SCHEMA))


def read(reader: SubscriptionStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    """Plan and read a micro-batch, as executors do: with a copy."""
    tasks = reader.partitions(start, end)
    copy = pickle.loads(pickle.dumps(reader))
    return [row["data"] for task in tasks for rows in copy.read(InputPartition(task.value)) for row in rows.to_pylist()]


def test_a_query_goes_on_from_micro_batch_to_micro_batch(nakadi: Serving, reader: SubscriptionStreamReader) -> None:
    nakadi.ends = {"0": offset(4)}
    nakadi.streams = [[line(1, 2), line(2, 1), line(4, 2)]]
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(3))
    second = reader.latestOffset(first, ReadMaxRows(3))
    reader.commit(second)
    reader.stop()

    assert (start["page"], start["cursors"]) == (0, {})
    assert first == start | {"page": 1, "cursors": {"a.b": {"0": offset(2)}}}
    assert start.keys() == {"subscription", "landing", "run", "page", "cursors"}
    for begin in (start, reader.initialOffset()):  # Spark has another one made up where it runs the first again.
        assert read(reader, begin, first) == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert read(reader, first, second) == ['{"n": 3}', '{"n": 4}']
    assert [each["items"][0]["offset"] for each in nakadi.asked_of("POST", "/cursors")] == [offset(2), offset(4)]


def test_no_thread_outlives_the_query(nakadi: Serving, reader: SubscriptionStreamReader) -> None:
    nakadi.streams = [[line(0, 1)]]
    before = threading.active_count()
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    ours = [each for each in threading.enumerate() if each.name == "penstock-nakadi-stream"]
    assert len(ours) == 1

    reader.stop()

    assert not ours[0].is_alive()
    assert threading.active_count() <= before + 1, "the server's own"


def test_unused_stream_reader_stops_without_a_request(nakadi: Serving, reader: SubscriptionStreamReader) -> None:
    reader.stop()

    assert nakadi.asked == []
