"""Arrow record batches of a page, made of joined columns."""

from array import array
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.log.arrow import RUNS_MAX, SCHEMA, record_batch, repeat_batch
from penstock.wire.log.arrow import ArrowStream

NULL = b"\x01"
CELL = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)


class Columns(NamedTuple):
    rows: int
    data: bytes
    sizes: bytes
    keys: bytes | None
    kinds: bytes | None
    headers: bytes | None
    received: tuple[bytes, bytes]


def joined(cells: list[str | None]) -> bytes | None:
    if not any(cell is not None for cell in cells):
        return None
    return b"\n".join(NULL if cell is None else cell.encode() for cell in cells)


def one_by_one(cells: list[str]) -> tuple[bytes, bytes]:
    encoded = [cell.encode() for cell in cells]
    return b"".join(encoded), array("i", map(len, encoded)).tobytes()


Rows = list[tuple[str, str | None, str | None, str | None, int, bool]]
MAYBE = st.none() | CELL
ROWS = st.lists(st.tuples(CELL, MAYBE, MAYBE, MAYBE, st.integers(0, 2**52), st.booleans()), min_size=1)


def run_by_run(times: list[int]) -> tuple[bytes, bytes]:
    ends = [end for end in range(1, len(times) + 1) if end == len(times) or times[end] != times[end - 1]]
    return b"\n".join(b"%d" % end for end in ends), b"\n".join(b"%d" % times[end - 1] for end in ends)


@pytest.mark.parametrize("runs", [1, 2, RUNS_MAX, RUNS_MAX + 1, 1_000])
@pytest.mark.parametrize("length", [1, 7])
def test_times_are_repeated_for_the_length_of_their_runs(runs: int, length: int) -> None:
    times = [2**52 + run // length for run in range(runs * length)]
    columns = Columns(len(times), *one_by_one(["{}"] * len(times)), None, None, None, run_by_run(times))

    batch = record_batch(0, range(columns.rows), columns, NULL)

    assert batch.column("received_at").cast(pa.int64()).to_pylist() == times


@given(ROWS, st.integers(0, 2**60), st.booleans(), st.booleans())
def test_joined_columns_become_rows(rows: Rows, start: int, sifted: bool, dense: bool) -> None:
    data, keys, kinds, headers, times, marks = map(list, zip(*rows, strict=True))
    runs = run_by_run(times)
    columns = Columns(len(rows), *one_by_one(data), joined(keys), joined(kinds), joined(headers), runs)
    offsets = range(start, start + len(rows)) if dense else [start + at * at for at in range(len(rows))]
    batch = record_batch(7, offsets, columns, NULL, marks if sifted else None)
    stream = ArrowStream()
    with pa.ipc.open_stream(b"".join([*stream.add(batch), *stream.end()])) as read:
        found = read.read_all()
    assert found.schema == SCHEMA
    received = found.column("received_at").cast(pa.int64()).to_pylist()
    others = [found.column(name).to_pylist() for name in ("partition", "offset", "key", "kind", "headers", "data")]
    kept = [at for at in range(len(rows)) if marks[at] or not sifted]
    assert [list(row) for row in zip(*others, received, strict=True)] == [
        [7, offsets[at], keys[at], kinds[at], headers[at], data[at], times[at]] for at in kept
    ]


@given(ROWS, st.data())
def test_slice_of_a_batch_is_sent_as_if_it_were_made_of_joined_columns(rows: Rows, draw: st.DataObject) -> None:
    """Pages have the same bytes before and after they are sealed, and nothing of the rows beside a slice."""
    data, keys, kinds, headers, times, _ = map(list, zip(*rows, strict=True))
    values = [[0] * len(rows), range(len(rows)), keys, kinds, headers, data, times]
    arrays = [pa.array(each, field.type) for each, field in zip(values, SCHEMA, strict=True)]
    whole = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    start = draw.draw(st.integers(0, len(rows) - 1))
    stop = draw.draw(st.integers(start + 1, len(rows)))
    part = slice(start, stop)
    runs = run_by_run(times[part])
    columns = Columns(
        stop - start, *one_by_one(data[part]), joined(keys[part]), joined(kinds[part]), joined(headers[part]), runs
    )

    repeated = repeat_batch(7, whole.slice(start, stop - start), NULL)

    assert sent(repeated) == sent(record_batch(7, range(start, stop), columns, NULL))


def sent(batch: pa.RecordBatch) -> bytes:
    stream = ArrowStream()
    return b"".join([*stream.add(batch), *stream.end()])


@pytest.mark.parametrize("sizes", [(1, 2), (2, 4), (2, 2)])
def test_sizes_that_contradict_the_data_are_never_sent(sizes: tuple[int, int]) -> None:
    """With them a reader of the batch would look beyond its end, or at the bytes of another event."""
    columns = Columns(2, b"{}{ }", array("i", sizes).tobytes(), None, None, None, (b"2", b"7"))

    with pytest.raises(AssertionError, match="sizes"):
        record_batch(0, range(columns.rows), columns, NULL)


def test_stream_without_batches_has_the_schema() -> None:
    with pa.ipc.open_stream(b"".join(ArrowStream().end())) as read:
        assert read.schema == SCHEMA
        assert read.read_all().num_rows == 0


def test_data_of_a_batch_is_sent_without_a_copy() -> None:
    data = b"{}" * 10
    columns = Columns(10, data, array("i", [2] * 10).tobytes(), None, None, None, (b"10", b"7"))

    parts = ArrowStream().add(record_batch(0, range(columns.rows), columns, NULL))

    assert pa.py_buffer(data).address in [part.address for part in parts if isinstance(part, pa.Buffer)]
