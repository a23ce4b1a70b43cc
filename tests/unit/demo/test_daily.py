from datetime import date

import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import LongType, StructType

from penstock_demo.daily import SUMS, add_up

KEY = ("UA", date(2013, 1, 7))


@pytest.fixture
def state() -> GroupState:
    """The state of a carrier's day of which nothing is known yet, as Spark hands it over."""
    schema = StructType()
    for name in SUMS:
        schema.add(name, LongType())
    is_there = {"hasTimedOut": False, "watermarkPresent": False, "defined": False, "updated": False, "removed": False}
    return GroupState(
        optionalValue=Row(None), batchProcessingTimeMs=0, eventTimeWatermarkMs=0, timeoutConf="NoTimeout",
        timeoutTimestamp=-1, keyAsUnsafe=b"", valueSchema=schema, **is_there,
    )  # fmt: skip


def flights(*delays: int | None) -> pd.DataFrame:
    """Flights as they are measured: by how many minutes each was late, None for one that never left."""
    rows = [(1, int(each is None), each or 0, int((each or 0) > 15)) for each in delays]
    return pd.DataFrame(rows, columns=SUMS)


def test_each_micro_batch_is_a_change_with_the_running_totals(state: GroupState) -> None:
    [first] = add_up(KEY, [flights(20, -5), flights(None)], state)
    [second] = add_up(KEY, [flights(100)], state)

    assert first[["data_op", *SUMS]].to_numpy().tolist() == [["C", 3, 1, 15, 1]]
    assert second[["data_op", *SUMS]].to_numpy().tolist() == [["U", 4, 1, 115, 2]]
    assert (second["carrier"][0], second["day"][0]) == KEY
    assert first["eid"][0] != second["eid"][0]


def test_recomputed_change_has_the_same_id(state: GroupState) -> None:
    [first] = add_up(KEY, [flights(20, -5)], state)
    state.remove()

    [again] = add_up(KEY, [flights(20, -5)], state)

    assert again["eid"][0] == first["eid"][0]
