"""The log in SQLite."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, chain, count, repeat
from typing import Any, Final, TypeVar

import msgspec

from penstock.storage.ranges import Ask, columns_of
from penstock.storage.sqlite.shape import BEGINS, KEYED, SIZE_MAX, SPARSE, decoded
from penstock.storage.statements import statement
from penstock.storage.store import CHUNK_BYTES, ROW_COLUMNS, Block, Columns, Frame, Head, KindFilter, Lines, Runs

_sql: Final = partial(statement, __package__)
_json: Final = msgspec.json.encode
_BLOCKS: Final = 64
"""The times of so many blocks are looked up one by one; beyond that one scan of them all is cheaper."""
Chunk = TypeVar("Chunk", Lines, Columns)
_OFFSET_BITS: Final = 40
_OFFSETS: Final = 1 << _OFFSET_BITS
"""How many events a partition can ever have had: 34 years of a thousand a second."""
_STATEMENT_ROWS: Final = 1 << 10
_BLOCK_ROWS_MIN: Final = 1 << 6
"""Smaller blocks share statements with each other."""


@cache
def _insert_block(columns: Sequence[str], rows: int) -> str:
    """Return the statement that adds *rows* rows, given the first one's place and mark, and their time, once."""
    own = (range(4 + row * len(columns), 4 + (row + 1) * len(columns)) for row in range(rows))
    values = [f"(?1+{row},?2,{_values(columns, each, '?3' if row == 0 else None)})" for row, each in enumerate(own)]
    return _insert(columns, values)


@cache
def _insert_loose(rows: int) -> str:
    """Return the statement that adds *rows* rows, each with its own place and mark."""
    width = 3 + len(ROW_COLUMNS)
    own = [
        f"(?{at},?{at + 1},{_values(ROW_COLUMNS, range(at + 3, at + width), f'?{at + 2}')})"
        for at in range(1, rows * width, width)
    ]
    return _insert(ROW_COLUMNS, own)


def _insert(columns: Sequence[str], rows: Iterable[str]) -> str:
    names = ",".join(["place", "received_at", "shape", *columns])
    return f"INSERT INTO penstock_event ({names}) VALUES {','.join(rows)}"  # noqa: S608 - its parts are constants


def _values(columns: Sequence[str], parameters: Sequence[int], mark: str | None) -> str:
    """Return the expressions of a row's shape and of its own columns, the last of which is its data, given as bytes."""
    *texts, data = [f"?{at}" for at in parameters]
    marks = [KEYED if name == "key" else SPARSE for name in columns[:-1]]
    shape = [mark] if mark else []
    shape += [f"iif({text} IS NULL,'','{mark}')" for text, mark in zip(texts, marks, strict=True)]
    return ",".join(["||".join([*shape, f"char(length({data}))"]), *texts, f"CAST({data} AS TEXT)"])


def _spans(rows: int) -> Iterator[slice]:
    """Cut *rows* rows into powers of two: few sizes, so that SQLite keeps every statement prepared."""
    at = 0
    while left := rows - at:
        size = min(_STATEMENT_ROWS, 1 << (left.bit_length() - 1))
        yield slice(at, at + size)
        at += size


class SqliteEvents:
    """See `penstock.storage.store.Events`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """See `Events.heads`."""
        rows = self._connection.execute(_sql("heads"), {"ids": _json(partition_ids).decode()})
        return {partition_id: Head(*rest) for partition_id, *rest in rows.fetchall()}

    def lock_heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """See `Events.lock_heads`: the transaction has the whole file already."""
        return self.heads(partition_ids)

    def append(self, blocks: Iterable[Block]) -> None:
        """See `Events.append`. Statements of many rows: Python lets other threads go first at every statement."""
        loose: list[Sequence[Any]] = []
        for block in blocks:
            columns = tuple(zip(*block.rows, strict=True))
            _check_sizes(columns[-1])
            place_of(block.partition_id, block.start + len(block.rows))  # The end has to be a place, too.
            first = place_of(block.partition_id, block.start)
            if len(block.rows) < _BLOCK_ROWS_MIN:
                places = zip(count(first), chain([BEGINS], repeat("")), block.rows, strict=False)
                loose += [(place, block.received_at, mark, *row) for place, mark, row in places]
            else:
                self._append_block(first, block, columns)
        for span in _spans(len(loose)):
            rows = loose[span]
            self._connection.execute(_insert_loose(len(rows)), tuple(chain.from_iterable(rows)))

    def _append_block(self, first: int, block: Block, columns: Sequence[Sequence[Any]]) -> None:
        """Append without the columns that no row has: every value that need not be bound makes it faster."""
        named = zip(ROW_COLUMNS, columns, strict=True)
        own = {name: values for name, values in named if values.count(None) < len(values)}
        for span in _spans(len(block.rows)):
            rows = zip(*[values[span] for values in own.values()], strict=True)
            place = (first + span.start, block.received_at, "" if span.start else BEGINS)
            statement = _insert_block(tuple(own), span.stop - span.start)
            self._connection.execute(statement, (*place, *chain.from_iterable(rows)))

    def lines(self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None) -> Lines:
        """See `Events.lines`."""
        given: dict[str, Any] = frame._asdict()
        name = "lines"
        if kinds is not None:
            name = "lines_of_kinds"
            given |= {"kinds": _json(sorted(kinds.kinds)).decode(), "skip": kinds.skip, "default": kinds.default}

        def read(stop: int) -> Lines:
            scanned, kept, body = self._ask(partition_id, start, stop)(name, **given)
            return Lines(stop, scanned, kept, body or b"")

        return self._fitting(partition_id, start, stop, read)

    def columns(self, partition_id: int, start: int, stop: int) -> Columns:
        """See `Events.columns`."""

        def read(stop: int) -> Columns:
            ask = self._ask(partition_id, start, stop)
            data, joined = ask("columns")
            shapes = decoded(joined or b"")
            received = _received(ask, place_of(partition_id, start), shapes.blocks)
            return columns_of(ask, stop, data or b"", shapes.sizes, received, keyed=shapes.keyed, sparse=shapes.sparse)

        return self._fitting(partition_id, start, stop, read)

    def since(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """See `Events.since`."""
        given = _json([[partition_id, *ends] for partition_id, ends in ranges.items()]).decode()
        return dict(self._connection.execute(_sql("since"), {"ranges": given, "at": at}).fetchall())

    def received(self, positions: Mapping[int, int]) -> dict[int, int]:
        """See `Events.received`."""
        given = _json(list(positions.items())).decode()
        return dict(self._connection.execute(_sql("received"), {"positions": given}).fetchall())

    def _fitting(self, partition_id: int, start: int, stop: int, read: Callable[[int], Chunk]) -> Chunk:
        """Read, and only when SQLite refuses to make so large a value look how much fits into a chunk."""
        while True:
            try:
                return read(stop)
            except sqlite3.DataError as error:
                if stop - start == 1 or getattr(error, "sqlite_errorname", "") != "SQLITE_TOOBIG":
                    raise
            (fits,) = self._ask(partition_id, start, stop)("fitting", bytes=CHUNK_BYTES) or (None,)
            # Separators count too: where all fits but for them, half of it does.
            stop = max(start + 1, start + fits if fits is not None else (start + stop) // 2)

    def _ask(self, partition_id: int, start: int, stop: int) -> Ask:
        """Return who runs a statement by name over a range, and returns the one row that comes of it."""
        first, past = place_of(partition_id, start), place_of(partition_id, stop)

        def ask(statement_name: str, /, **given: Any) -> Any:
            return self._connection.execute(_sql(statement_name), {"first": first, "past": past, **given}).fetchone()

        return ask


def place_of(partition_id: int, offset: int) -> int:
    """Return where an offset lies among the places of all partitions: see migration 0002.

    Raises:
        ValueError: there can be no such offset.

    >>> place_of(1, 5) - place_of(1, 0), place_of(2, 0) > place_of(1, (1 << 40) - 1)
    (5, True)
    """
    if not 0 <= offset <= _OFFSETS:
        raise ValueError(f"the offsets of a partition in SQLite are from 0 to {_OFFSETS - 1}, not {offset}")
    return (partition_id << _OFFSET_BITS) + offset


def _check_sizes(events: Iterable[bytes]) -> None:
    if max(map(len, events)) > SIZE_MAX:
        raise ValueError(f"an event of more than {SIZE_MAX} bytes has no shape, and cannot be kept in SQLite")


def _received(ask: Ask, first: int, blocks: Sequence[int]) -> Runs | None:
    """Return when each of the *blocks* came of which what lies from *first* on consists; None where one is gone."""
    if len(blocks) > _BLOCKS:
        found, ends, times = ask("columns_received")
        return Runs(ends, times) if found == sum(blocks) else None
    stops = list(accumulate(blocks))
    firsts = [first + stop for stop in (0, *stops)[: len(stops)]]
    found, times = ask("columns_received_at", places=_json(firsts).decode())
    return Runs(b"\n".join([b"%d" % stop for stop in stops]), times or b"") if found == len(firsts) else None
