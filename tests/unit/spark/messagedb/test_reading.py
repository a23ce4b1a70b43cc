import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.spark.columns import QueryColumn
from penstock.spark.messagedb.places import CategoryRange
from penstock.spark.messagedb.reading import PAGE_ROWS, PAGE_ROWS_MAX, next_rows, read_stretch, to_batch


class Store:
    """Events at every third global position, each a text of a size."""

    def __init__(self, size: int) -> None:
        self.text = "x" * size
        self.asked: list[tuple[int, int]] = []

    def page(self, stretch: CategoryRange, names: Sequence[str], rows: int) -> list[tuple[Any, ...]]:
        assert list(names) == ["global_position", "data"]
        self.asked.append((stretch.start, rows))
        positions = range(-(-stretch.start // 3) * 3, stretch.end, 3)
        return [(position, position, self.text) for position in positions[:rows]]


def columns(*names: str) -> list[QueryColumn]:
    return [QueryColumn(name, True) for name in names]


def read(store: Store, start: int, end: int) -> list[pa.RecordBatch]:
    return list(read_stretch(store, CategoryRange("account", start, end), columns("global_position", "data")))


def test_a_stretch_is_read_page_by_page_each_event_once() -> None:
    batches = read(Store(10), 1, 30_000)

    positions = [position for batch in batches for position in batch.column("global_position").to_pylist()]
    assert positions == list(range(3, 30_000, 3))
    assert len(batches) > 2


def test_pages_grow_with_small_events_and_shrink_with_large_ones() -> None:
    small, large = Store(10), Store(100_000)
    read(small, 1, 300_000)
    read(large, 1, 2_000)

    assert [rows for _, rows in small.asked][:3] == [PAGE_ROWS, 2 * PAGE_ROWS, 4 * PAGE_ROWS]
    assert max(rows for _, rows in small.asked) == PAGE_ROWS_MAX
    assert large.asked[1] == (1501, 41)


def test_a_page_is_never_without_rows() -> None:
    assert next_rows(1, 1 << 30) == 1


def test_a_stretch_that_is_empty_is_asked_for_once_at_most() -> None:
    store = Store(1)

    assert read(store, 7, 9) == []
    assert read(store, 7, 7) == []
    assert store.asked == [(7, PAGE_ROWS)]


def test_null_columns_stay_null_and_times_are_utc() -> None:
    row = (9, "account-1", None, dt.datetime(2026, 11, 20, 10, 0, 0, 7))  # noqa: DTZ001 - as PostgreSQL says it
    batch = to_batch([(3, None, *row)], "account", columns("category", "position", "stream", "metadata", "received_at"))

    [found] = batch.to_pylist()
    assert found == {
        "category": "account",
        "position": 9,
        "stream": "account-1",
        "metadata": None,
        "received_at": dt.datetime(2026, 11, 20, 10, 0, 0, 7, tzinfo=dt.UTC),
    }
    assert batch.schema.field("metadata").type == pa.string()
