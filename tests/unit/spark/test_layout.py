"""Lines are sorted by partition, by what was asked and by their bytes, and sent in pieces."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from penstock.errors import BadParameter
from penstock.spark import layout
from penstock.spark.layout import Share, check_laid, laid_schema, shares

ROWS = StructType().add("data", StringType()).add("at", LongType()).add("where", StructType().add("x", LongType()))


def lay_out(rows: list[tuple[int, bytes, int]]) -> list[pa.RecordBatch]:
    """Two batches of rows, each a partition, a line and what it is sorted by."""
    half = len(rows) // 2
    return [
        pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([row[0] for row in part], pa.int32()),
                "line": pa.array([row[1] for row in part], pa.binary()),
                "order_0": pa.array([row[2] for row in part], pa.int64()),
            }
        )
        for part in (rows[:half], rows[half:])
    ]


def describe(found: list[Share]) -> list[tuple[int, int, int, bytes]]:
    return [(*share.place, share.events, bytes(share.lines)) for share in found]


def test_each_partition_has_its_own_numbers_and_order() -> None:
    rows = [(1, b"c\n", 5), (0, b"a\n", 9), (1, b"b\n", 5), (0, b"zz\n", 1), (1, b"d\n", 4)]

    assert describe([*shares(lay_out(rows))]) == [(0, 0, 2, b"zz\na\n"), (1, 0, 3, b"d\nb\nc\n")]
    assert describe([*shares(lay_out(rows[::-1]))]) == describe([*shares(lay_out(rows))])


def test_without_rows_there_is_nothing_to_send() -> None:
    assert not [*shares([])]
    assert not [*shares(lay_out([]))]


def test_pieces_have_so_many_events_and_bytes_or_one_that_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "CHUNK_EVENTS", 3)
    monkeypatch.setattr(layout, "CHUNK_BYTES", 10)
    rows = [(0, b"%d" % number + b"x" * size + b"\n", number) for number, size in enumerate([0, 0, 0, 0, 6, 20, 1])]

    found = [*shares(lay_out(rows))]
    assert [(share.place.number, share.events) for share in found] == [(0, 3), (3, 2), (5, 1), (6, 1)]
    assert b"".join(bytes(share.lines) for share in found) == b"".join(row[1] for row in rows)


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=3), st.integers(0, 2))), st.randoms())
def test_rows_in_any_order_are_sent_alike(rows: list[tuple[int, bytes, int]], chance: object) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]

    found = describe([*shares(lay_out(rows))])
    assert found == describe([*shares(lay_out(shuffled))])
    expected = sorted(rows, key=lambda row: (row[0], row[2], row[1]))
    assert b"".join(share[3] for share in found) == b"".join(row[1] for row in expected)
    assert [share[0] for share in found] == sorted({row[0] for row in rows})


def test_rows_are_laid_out_with_their_sort_columns() -> None:
    schema = laid_schema(ROWS, ["at", "data"])

    assert [field.name for field in schema.fields] == ["partition", "line", "order_0", "order_1"]
    assert [type(field.dataType) for field in schema.fields] == [IntegerType, BinaryType, LongType, StringType]
    check_laid(schema)


@pytest.mark.parametrize("name", ["where", "when"])
def test_only_columns_that_have_an_order_are_sorted_by(name: str) -> None:
    with pytest.raises(BadParameter, match="allowed: columns that have an order: data, at"):
        laid_schema(ROWS, [name])


def test_rows_that_are_not_laid_out_are_refused() -> None:
    with pytest.raises(BadParameter, match=r"penstock\.spark\.direct\(rows"):
        check_laid(ROWS)
