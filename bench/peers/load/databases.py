"""Publishes into bare tables and reads from them: SQLite by `executemany`, PostgreSQL by `COPY`."""

import socket
import sqlite3
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import psycopg

from bench.events import event
from bench.peers.load.works import (
    BATCH,
    WARM_UP,
    Reader,
    Session,
    Works,
    connect,
    publish_works,
    read_works,
    repeat,
    serve_works,
    summarise,
)
from bench.place import file_of
from penstock.storage.sqlite.connection import connect as connect_sqlite

PAGE: Final = 1000
_READY: Final = b"Z\0\0\0\5I"
"""ReadyForQuery, outside of a transaction."""
_CREATE: Final = "CREATE TABLE IF NOT EXISTS event (place {number} PRIMARY KEY{generated}, data TEXT NOT NULL)"


def make(url: str, events: int) -> Works:
    """Return the works of the database at *url*, with a log of so many *events*."""
    return _sqlite_works(url, events) if url.startswith("sqlite") else _postgres_works(url, events)


def _sqlite_works(url: str, events: int) -> Works:
    path = file_of(url)
    connection = connect_sqlite(path)  # With the hub's own settings.
    connection.execute(_CREATE.format(number="INTEGER", generated=""))

    def insert(rows: Sequence[tuple[str]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO event (data) VALUES (?)", rows)
        connection.execute("COMMIT")

    def insert_single(writers: int, seconds: float) -> dict[str, float]:
        assert writers == 1
        for measured in (WARM_UP * seconds, seconds):
            taken: list[float] = []
            started = now = time.perf_counter()
            while now - started < measured:
                insert([(event(0),)])
                then, now = now, time.perf_counter()
                taken.append(now - then)
        return summarise(taken) | {"rate": len(taken) / (now - started)}

    def insert_batch() -> int:
        insert([(data,) for data in batch])
        return BATCH

    def insert_dicts() -> int:
        insert([(msgspec.json.encode(each).decode(),) for each in dicts])
        return BATCH

    def fill(events: int) -> None:
        connection.execute("DELETE FROM event")
        for first in range(0, events, BATCH):
            insert([(event(number),) for number in range(first, first + BATCH)])

    batch = [event(number) for number in range(BATCH)]
    dicts = [msgspec.json.decode(each) for each in batch]
    pages = _SqlitePages(path, events)
    return {
        "single": insert_single,
        "batches": lambda seconds: repeat(insert_batch, seconds),
        "client": lambda seconds: repeat(insert_dicts, seconds),
        "fill": fill,
        "read": lambda seconds: repeat(lambda: len(pages.read()), seconds),
        "decode": lambda seconds: repeat(lambda: _decode_all(pages.read()), seconds),
    }


class _SqlitePages:
    def __init__(self, path: Path, events: int) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._events, self._place = events, 0

    def read(self) -> list[tuple[str]]:
        if self._place >= self._events:
            self._place = 0
        query = "SELECT data FROM event WHERE place > ? ORDER BY place LIMIT ?"
        rows = self._connection.execute(query, (self._place, PAGE)).fetchall()
        self._place += PAGE
        return rows


def _decode_all(rows: Sequence[tuple[Any]]) -> int:
    for (data,) in rows:
        msgspec.json.decode(data)
    return len(rows)


class CopySession:
    """Copies the rows of a request in one transaction, sent in one piece: `COPY`, the rows, the end."""

    def __init__(self, url: str) -> None:
        self.socket: socket.socket = start_session(url)

    def request(self, numbers: Sequence[int]) -> bytes:
        rows = "".join(f"{event(number)}\n" for number in numbers).encode()
        return _message(b"Q", b"COPY event (data) FROM STDIN\0") + _message(b"d", rows) + _message(b"c", b"")

    def is_answered(self, received: bytes, events: int) -> bool:
        del events
        if received.startswith(b"E"):
            raise RuntimeError(received.decode(errors="replace"))
        return received.endswith(_READY)


class CopyReader:
    """Copies pages out."""

    def __init__(self, url: str, events: int) -> None:
        self._socket = start_session(url)
        self._events, self._place = events, 0
        self._buffer = bytearray(1 << 20)

    def read_page(self) -> int:
        if self._place >= self._events:
            self._place = 0
        rows = f"SELECT data FROM event WHERE place > {self._place} ORDER BY place LIMIT {PAGE}"
        self._socket.sendall(_message(b"Q", f"COPY ({rows}) TO STDOUT\0".encode()))
        tail = b""
        while not tail.endswith(_READY):
            size = self._socket.recv_into(self._buffer)
            if not size:
                raise RuntimeError("the server has closed the connection")
            tail = (tail + self._buffer[max(0, size - 100) : size])[-100:]
        if b"COPY %d\0" % PAGE not in tail:
            raise RuntimeError(tail.decode(errors="replace"))
        self._place += PAGE
        return PAGE


def _postgres_works(url: str, events: int) -> Works:
    create = _CREATE.format(number="BIGINT", generated=" GENERATED ALWAYS AS IDENTITY")
    connection = psycopg.connect(url, autocommit=True)
    connection.execute(create.encode())
    dicts = [msgspec.json.decode(event(number)) for number in range(BATCH)]
    place = 0

    def open_session() -> Session:
        return CopySession(url)

    def open_reader() -> Reader:
        return CopyReader(url, events)

    def copy_dicts() -> int:
        with connection.cursor() as cursor, cursor.copy("COPY event (data) FROM STDIN") as copy:
            copy.write(b"".join(msgspec.json.encode(each) + b"\n" for each in dicts))
        return BATCH

    def read_decoded() -> int:
        nonlocal place
        if place >= events:
            place = 0
        query = "SELECT data FROM event WHERE place > %s ORDER BY place LIMIT %s"
        count = _decode_all(connection.execute(query, (place, PAGE)).fetchall())
        place += PAGE
        return count

    publishing = publish_works(open_session)

    def fill(events: int) -> None:
        connection.execute("TRUNCATE event RESTART IDENTITY")
        publishing["fill"](events=events)
        connection.execute("VACUUM ANALYZE event")

    return {
        **publishing,
        **read_works(open_reader),
        "fill": fill,
        "client": lambda seconds: repeat(copy_dicts, seconds),
        "decode": lambda seconds: repeat(read_decoded, seconds),
    }


def start_session(url: str) -> socket.socket:
    """Return a connection to PostgreSQL that is ready for queries; the server must trust its user."""
    parts = urlsplit(url)
    assert parts.port is not None
    connection = connect(parts.port)
    named = f"user\0{parts.username}\0database\0{parts.path[1:]}\0\0".encode()
    connection.sendall(struct.pack("!II", len(named) + 8, 3 << 16) + named)
    received = b""
    while not received.endswith(_READY):
        more = connection.recv(1 << 16)
        if not more:
            raise RuntimeError(received.decode(errors="replace"))
        received += more
    return connection


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


if __name__ == "__main__":
    serve_works(make)
