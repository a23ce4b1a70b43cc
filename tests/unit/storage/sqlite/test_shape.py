import sqlite3
from array import array

import pytest

from penstock.storage.sqlite.log.events import BEGINS, KEYED, SIZE_MAX, SPARSE, Shapes, decode_shapes


def sizes(*each: int) -> bytes:
    return array("i", each).tobytes()


def test_shapes_decode_to_sizes() -> None:
    assert decode_shapes(b"") == Shapes(b"", [], keyed=0, sparse=False)
    shapes = decode_shapes(f"{BEGINS}{chr(2)}{chr(384)}{chr(999_512)}".encode())
    assert shapes == Shapes(sizes(2, 384, 999_512), [3], keyed=0, sparse=False)


@pytest.mark.parametrize(
    "size", [0, 1, 127, 128, 2047, 2048, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFE, 0x10000, SIZE_MAX]
)
def test_size_survives_sqlite(size: int) -> None:
    with sqlite3.connect(":memory:") as connection:
        (joined,) = connection.execute("SELECT CAST(char(?) AS BLOB)", (size,)).fetchone()

    assert decode_shapes(joined).sizes == sizes(size)


@pytest.mark.parametrize(
    ("shapes", "blocks"),
    [("ab", [2]), (f"{BEGINS}ab", [2]), (f"a{BEGINS}b", [1, 1]), (f"{BEGINS}a{BEGINS}{SPARSE}bc{BEGINS}d", [1, 2, 1])],
)
def test_shapes_decode_to_event_counts_of_blocks(shapes: str, blocks: list[int]) -> None:
    assert decode_shapes(shapes.encode()).blocks == blocks


def test_shapes_are_keyed_or_sparse_if_one_event_is() -> None:
    assert decode_shapes(f"a{SPARSE}b".encode()) == Shapes(sizes(97, 98), [2], keyed=0, sparse=True)
    assert decode_shapes(f"a{KEYED}b".encode()) == Shapes(sizes(97, 98), [2], keyed=1, sparse=False)
    assert decode_shapes(f"{BEGINS}{KEYED}{SPARSE}a".encode()) == Shapes(sizes(97), [1], keyed=1, sparse=True)
