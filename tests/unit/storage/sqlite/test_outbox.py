import sqlite3
from contextlib import closing
from typing import Any

import pytest

from penstock.storage.log.outbox import OutboxRow
from penstock.storage.sqlite.store import SqliteStore

NO_UTF8 = b'{"a":"\xff\xfe"}'


def insert(store: SqliteStore, *given: Any, columns: str = "event_type, data") -> None:
    with closing(sqlite3.connect(store.path)) as service:
        marks = ",".join("?" * len(given))
        service.execute(f"INSERT INTO penstock_outbox ({columns}) VALUES ({marks})", given)
        service.commit()


def waiting(store: SqliteStore, names: list[str] | None = None) -> list[str]:
    with store.read() as tx:
        return sorted(tx.outbox.find_waiting(names))


def test_a_name_that_is_no_text_names_nothing_and_hides_nobody(store: SqliteStore) -> None:
    insert(store, "b", "{}")
    with pytest.raises(sqlite3.IntegrityError, match="event_type"):
        insert(store, b"a", "{}")
    with closing(sqlite3.connect(store.path)) as service:
        service.execute("INSERT INTO penstock_outbox (event_type, data) VALUES (CAST(x'ff' AS TEXT), '{}')")
        service.commit()

    assert waiting(store) == ["b"]
    assert waiting(store, ["a", "b"]) == ["b"]


@pytest.mark.parametrize("value", [NO_UTF8, b"plain bytes", "text \u00fc"], ids=repr)
def test_whatever_a_service_has_inserted_comes_out_as_text_that_can_be_turned_back(
    store: SqliteStore, value: bytes | str
) -> None:
    insert(store, "a", value, value, value, columns="event_type, data, key, headers")

    with store.write() as tx:
        (row,) = tx.outbox.take("a", 9, 1 << 20).rows

    raw = value if isinstance(value, bytes) else value.encode()
    assert isinstance(row, OutboxRow)
    for text in (row.data, row.key, row.headers):
        assert text is not None
        assert text.encode(errors="surrogateescape") == raw


def test_invalid_utf8_is_rejected_byte_for_byte(store: SqliteStore) -> None:
    insert(store, "a", NO_UTF8)

    with store.write() as tx:
        (row,) = tx.outbox.take("a", 9, 1 << 20).rows
        tx.outbox.reject([(row, "no UTF-8")], 0)

    with closing(sqlite3.connect(store.path)) as service:
        assert service.execute("SELECT CAST(data AS BLOB) FROM penstock_rejected").fetchall() == [(NO_UTF8,)]


def test_bytes_count_as_bytes_and_not_as_characters(store: SqliteStore) -> None:
    for _ in range(3):
        insert(store, "a", "\u00fc" * 5)

    with store.write() as tx:
        assert len(tx.outbox.take("a", 9, 10).rows) == 1
        assert len(tx.outbox.take("a", 9, 11).rows) == 2
