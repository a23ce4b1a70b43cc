from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import EventsLost
from penstock.spark.columns import Column
from penstock.spark.landing import Landing
from penstock.spark.nakadi.landed import PageName
from penstock.spark.nakadi.pages import PAGE_BYTES, Pages, read_page
from penstock.spark.nakadi.rows import to_rows
from penstock.wire.subscriptions import BATCHES
from tests.failing import has_code
from tests.unit.spark.nakadi.serving import line

NUMBER = [Column("data", False)]


def rows(last: int, count: int) -> pa.RecordBatch:
    return to_rows(BATCHES.decode(line(last, count)))


def read(location: Path, number: int) -> list[str]:
    batches = list(read_page(str(location), PageName("q", "r", number), NUMBER))
    return [row["data"] for batch in batches for row in batch.to_pylist()]


def test_small_batches_are_one_page(tmp_path: Path) -> None:
    pages = Pages(Landing(str(tmp_path), "q"), "r", 4)
    pages.add(rows(1, 2))
    pages.add(rows(2, 1))

    assert pages.close() == 5
    assert read(tmp_path, 4) == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert len(list(read_page(str(tmp_path), PageName("q", "r", 4), NUMBER))) == 1, "of one piece"


def test_a_full_page_is_landed_before_the_rest_comes(tmp_path: Path) -> None:
    pages = Pages(Landing(str(tmp_path), "q"), "r", 0)
    one = rows(9_999, 10_000)
    for _ in range(PAGE_BYTES // one.nbytes + 2):
        pages.add(one)

    assert len(read(tmp_path, 0)) * one.nbytes >= PAGE_BYTES * 10_000
    assert pages.close() == 2


def test_no_rows_land_no_page(tmp_path: Path) -> None:
    assert Pages(Landing(str(tmp_path), "q"), "r", 7).close() == 7
    assert not list(tmp_path.iterdir())


def test_missing_landed_page_is_named(tmp_path: Path) -> None:
    with pytest.raises(EventsLost, check=has_code("landed-page-missing"), match="q/r/3"):
        read(tmp_path, 3)
