"""The contract of the log's reading side: a range as one value, filtered, by column."""

from itertools import pairwise

import pytest

from penstock.storage import Store
from penstock.storage.log.events import CHUNK_BYTES, NONE, Frame, KindFilter, ReceiveTimes, StoredColumns, StoredLines
from tests.store_contract.database import FIRST_AT, Contract, append, created, data_of, row

FRAME = Frame("<", "|", ">")
JOINED = Frame("", "\n", "")
EVENT_BYTES_MAX = 999_000
AWKWARD = (
    b"{}",
    b'{"tab":"\t\\t","x":"\\\\.","n":"\\\\N"}',
    b'{"quotes":"\' \\" \'\' `"}',
    '{"beyond ASCII":"Zoë 東京 🚰 \u2028 \u00a0"}'.encode(),
    b'{"escaped":"\\u0000\\u0001\\n\\r\\u2028"}',
    b'{"percent":"%s %(x)s %% :name ?1 $1"}',
    b'  { "spaced" : [ 1.0 , 1e2 ] }  ',
    b"\\N",
    b"\\.",
)


class RangeContract(Contract):
    """What was appended comes back byte for byte, as much of it as is asked for."""

    def test_data_keys_kinds_and_headers_come_back_byte_for_byte(self, store: Store) -> None:
        texts = [None, "", "\\N", "a\tb", "'\"", "\\", "Zoë 🚰", "%s :x ?", None, "x" * 1024]
        headers = [None if text is None else f'{{"h":"{len(text)}"}}' for text in texts]
        data = [*AWKWARD, b"{}"]
        partition_id = created(store).partition_ids[0]
        rows = zip(data, texts, headers, strict=True)
        append(store, *(row(partition_id, n, d, key=t, kind=t, headers=h) for n, (d, t, h) in enumerate(rows)))

        with store.read() as tx:
            found = tx.log.read_lines(partition_id, 0, len(data), JOINED, None)
            columns = tx.log.read_columns(partition_id, 0, len(data))
            separated = tx.log.read_columns(partition_id, 0, len(data), '}\n{"é":')

        assert found.body.split(b"\n") == data_of(columns) == data
        assert separated.data == '}\n{"é":'.encode().join(data)
        assert separated._replace(data=columns.data) == columns
        assert _split(columns.keys) == _split(columns.kinds) == texts
        assert _split(columns.headers) == headers

    def test_range_is_one_partition_from_start_to_before_stop(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        append(store, *(row(each, n, b"%d.%d" % (at, n)) for at, each in enumerate((first, second)) for n in range(5)))

        with store.read() as tx:
            assert tx.log.read_lines(first, 1, 4, FRAME, None) == StoredLines(4, 3, 3, b"<0.1|0.2|0.3>")
            assert tx.log.read_lines(second, 4, 5, FRAME, None) == StoredLines(5, 1, 1, b"<1.4>")
            assert tx.log.read_lines(999_999, 0, 9, FRAME, None)[1:] == (0, 0, b"")
            assert data_of(tx.log.read_columns(first, 1, 4)) == [b"0.1", b"0.2", b"0.3"]
            assert tx.log.read_columns(999_999, 0, 9) == StoredColumns(
                9, 0, b"", b"", None, None, None, ReceiveTimes(b"", b"")
            )

    def test_range_with_missing_events_has_a_smaller_count(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, row(partition_id, 3, b"3"), row(partition_id, 4, b"4"))

        with store.read() as tx:
            assert tx.log.read_lines(partition_id, 2, 5, FRAME, None) == StoredLines(5, 2, 2, b"<3|4>")
            assert tx.log.read_lines(partition_id, 2, 9, FRAME, None) == StoredLines(9, 2, 2, b"<3|4>")
            for stop in (5, 9):
                assert tx.log.read_columns(partition_id, 2, stop).rows < stop - 2

    def test_frame_is_kept_byte_for_byte(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, row(partition_id, 0, b"{}"), row(partition_id, 1, b"{}"))
        frame = Frame('{"%s \\ é":', "}\r\n\t'", "\\N")

        with store.read() as tx:
            body = tx.log.read_lines(partition_id, 0, 2, frame, None).body

        assert body.decode() == frame.prefix + "{}" + frame.separator + "{}" + frame.suffix

    @pytest.mark.parametrize(
        ("kinds", "skip", "kept"),
        [
            ({"parcel"}, False, b"<1|2>"),
            ({"parcel"}, True, b"<0|3|4>"),
            ({"order.placed"}, False, b"<0|4>"),
            ({"order.placed", "letter"}, True, b"<1|2>"),
            ({"order.placed", "letter", "parcel"}, False, b"<0|1|2|3|4>"),
            ({"order.placed", "letter", "parcel"}, True, b""),
            ({"unheard of"}, False, b""),
            ({"unheard of"}, True, b"<0|1|2|3|4>"),
        ],
    )
    def test_filter_keeps_or_skips_kinds_without_regard_to_case(
        self, store: Store, kinds: set[str], skip: bool, kept: bytes
    ) -> None:
        partition_id = created(store).partition_ids[0]
        given = [None, "parcel", "PARCEL", "Letter", None]
        append(store, *(row(partition_id, n, b"%d" % n, kind=kind) for n, kind in enumerate(given)))
        wanted = KindFilter(frozenset(kinds), skip, "Order.Placed")

        with store.read() as tx:
            found = tx.log.read_lines(partition_id, 0, 5, FRAME, wanted)

        assert found == StoredLines(5, 5, kept.count(b"|") + 1 if kept else 0, kept)

    def test_filter_takes_kinds_literally(self, store: Store) -> None:
        given = ["a%", "a_", "a\\", "a'", 'a"', "ab", "東京"]
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, b"%d" % n, kind=kind) for n, kind in enumerate(given)))

        with store.read() as tx:
            for n, kind in enumerate(given):
                wanted = KindFilter(frozenset({kind}), skip=False, default="t")
                found = tx.log.read_lines(partition_id, 0, len(given), FRAME, wanted)
                assert found == StoredLines(len(given), len(given), 1, b"<%d>" % n)

    def test_column_without_a_value_is_left_out_and_one_value_has_its_row(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, row(partition_id, 0), row(partition_id, 1, key="k"), row(partition_id, 2, kind="x"))

        with store.read() as tx:
            whole, last = tx.log.read_columns(partition_id, 0, 3), tx.log.read_columns(partition_id, 0, 1)

        assert (_split(whole.keys), _split(whole.kinds)) == ([None, "k", None], [None, None, "x"])
        assert whole.headers is last.keys is last.kinds is last.headers is None
        assert (last.stop, last.rows, data_of(last)) == (1, 1, [b"{}"])

    @pytest.mark.parametrize("run", [1, 2, 7, 64, 333, 999, 1000])
    def test_receive_times_come_back_however_many_events_share_one(self, store: Store, run: int) -> None:
        partition_id = created(store).partition_ids[0]
        times = [FIRST_AT + n // run for n in range(1000)]
        append(store, *(row(partition_id, n, received_at=at) for n, at in enumerate(times)))

        with store.read() as tx:
            for start, stop in ((0, 1000), (1, 1000), (0, 999), (5, 12), (498, 502), (7, 8)):
                assert _each(tx.log.read_columns(partition_id, start, stop).received) == times[start:stop]

    def test_range_ends_early_where_large_events_begin(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, b"small") for n in range(100)))
        append(store, *(row(partition_id, n, b"x" * 600_000) for n in range(100, 112)))

        with store.read() as tx:
            first = tx.log.read_columns(partition_id, 0, 112)
            assert (first.stop, first.rows) == (103, 103)
            assert tx.log.read_columns(partition_id, 103, 112).rows == 3
            assert tx.log.read_lines(partition_id, 103, 112, FRAME, None).scanned == 3

    def test_largest_events_are_read_whole(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        data = [b'{"%c":"%b"}' % (letter, b"\\\\" * ((EVENT_BYTES_MAX - 8) // 2)) for letter in b"abc"]
        append(store, *(row(partition_id, offset, each) for offset, each in enumerate(data)))

        assert _read(store, partition_id, 3) == data

    @pytest.mark.parametrize("size", [300_000, EVENT_BYTES_MAX])
    def test_range_that_is_too_large_is_cut_to_at_least_one_event(self, store: Store, size: int) -> None:
        partition_id = created(store).partition_ids[0]
        data = [b"%d %b" % (n, b"x" * size) for n in range(30)]
        for offset, each in enumerate(data):
            append(store, row(partition_id, offset, each, key="k" * 1024))

        assert _read(store, partition_id, len(data), 2 * CHUNK_BYTES) == data
        with store.read() as tx:
            columns = tx.log.read_columns(partition_id, 0, len(data))
            assert 0 < columns.rows == columns.stop < len(data)
            assert data_of(columns) == data[: columns.stop]
            assert len(columns.data) <= 2 * CHUNK_BYTES


def _read(store: Store, partition_id: int, stop: int, bound: int = 1 << 30) -> list[bytes]:
    found: list[bytes] = []
    with store.read() as tx:
        while len(found) < stop:
            chunk = tx.log.read_lines(partition_id, len(found), stop, JOINED, None)
            assert chunk.kept == chunk.scanned == chunk.stop - len(found) > 0
            assert len(chunk.body) <= bound
            found += chunk.body.split(b"\n")
    return found


def _each(received: ReceiveTimes) -> list[int]:
    ends = [0, *map(int, received.ends.split())]
    times = map(int, received.times.split())
    return [at for at, (start, end) in zip(times, pairwise(ends), strict=True) for _ in range(start, end)]


def _split(column: bytes | None) -> list[str | None]:
    assert column is not None
    return [None if value == NONE else value.decode() for value in column.split(b"\n")]
