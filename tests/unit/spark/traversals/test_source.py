import pickle

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.errors import BadParameter
from penstock.processing.sources.periodic import Timetable
from penstock.spark.traversals.source import PeriodicDataSource, PeriodicStreamReader

ALL = ReadAllAvailable()


class Clock:
    """Begins at second 1000, and goes on only when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def reader(clock: Clock) -> PeriodicStreamReader:
    return PeriodicStreamReader(Timetable(60, clock=clock, elapsed=clock))


def test_a_micro_batch_ends_with_the_start_of_a_traversal() -> None:
    clock = Clock()
    stream = reader(clock)
    begin = stream.initialOffset()

    first = stream.latestOffset(begin, ALL)
    assert first == {"start": 1_000}
    assert stream.latestOffset(first, ALL) == first, "nothing is due"
    clock.now += 60
    assert stream.latestOffset(first, ALL) == {"start": 1_060}


def test_a_micro_batch_that_is_planned_again_is_the_same_traversal() -> None:
    [task] = reader(Clock()).partitions({"start": None}, {"start": 17})
    [batch] = reader(Clock()).read(task)

    assert batch.to_pydict() == {"start": [17]}
    assert reader(Clock()).partitions({"start": 17}, {"start": 17}) == []


def test_available_now_starts_one_traversal_of_any_length() -> None:
    clock = Clock()
    stream = reader(clock)
    stream.prepareForTriggerAvailableNow()

    first = stream.latestOffset({"start": None}, ALL)
    clock.now += 1_000

    assert first == {"start": 1_000}
    assert stream.latestOffset(first, ALL) == first


def test_nothing_is_available_where_no_traversal_is_due() -> None:
    clock = Clock()
    stream = reader(clock)
    stream.prepareForTriggerAvailableNow()

    assert stream.latestOffset({"start": 950}, ALL) == {"start": 950}
    clock.now += 1_000
    assert stream.latestOffset({"start": 950}, ALL) == {"start": 950}


def test_a_source_has_an_interval() -> None:
    source = PeriodicDataSource(CaseInsensitiveDict({"interval": "60 seconds"}))

    assert source.schema().names == ["start"]
    assert source.name() == "periodic"
    assert pickle.loads(pickle.dumps(source.streamReader(source.schema()))).getDefaultReadLimit() == ALL
    with pytest.raises(BadParameter, match="option interval is ''; allowed: a duration"):
        PeriodicDataSource(CaseInsensitiveDict({}))


def test_tasks_can_be_sent_to_executors() -> None:
    assert pickle.loads(pickle.dumps(InputPartition(17))).value == 17
