"""The pages of one micro-batch: landed one after the other, and read by tasks."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.spark.columns import QueryColumn
from penstock.spark.landing import Landing
from penstock.spark.nakadi.landed import PageName
from penstock.spark.nakadi.rows import ROWS
from penstock.spark.shape import selected

PAGE_BYTES: Final = 4 << 20


class LandingPages:
    """Pages of a lane from the number *first* on. They are landed as they become full, the last one by `close`.

    Memory: one page.
    """

    def __init__(self, landing: Landing, lane: str, first: int) -> None:
        self._landing = landing
        self._lane = lane
        self._next = first
        self._rows: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, in the order of their columns in `ROWS`."""
        self._rows.append(rows)
        self._size += rows.nbytes
        if self._size >= PAGE_BYTES:
            self._land()

    def close(self) -> int:
        """Land what is left; return the number of the page that comes next."""
        if self._rows:
            self._land()
        return self._next

    def _land(self) -> None:
        page = pa.Table.from_batches(self._rows, ROWS).combine_chunks().to_batches()
        self._landing.write(self._lane, self._next, page)
        self._next += 1
        self._rows, self._size = [], 0


def read_page(location: str, page: PageName, columns: Sequence[QueryColumn]) -> Iterator[pa.RecordBatch]:
    """Read a page on an executor, in the columns that the query wants.

    Raises:
        PenstockError: it is not there, or cannot be read.
    """
    for rows in Landing(location, page.landing).read(page.run, page.number):
        yield selected(rows, columns)
