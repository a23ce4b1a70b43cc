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


def test_event_type_that_is_no_text_hides_no_other(store: SqliteStore) -> None:
    insert(store, "b", "{}")
    with pytest.raises(sqlite3.IntegrityError, match="event_type"):
        insert(store, b"a", "{}")
    with closing(sqlite3.connect(store.path)) as service:
        service.execute("INSERT INTO penstock_outbox (event_type, data) VALUES (CAST(x'ff' AS TEXT), '{}')")
        service.commit()

    assert waiting(store) == ["b"]
    assert waiting(store, ["a", "b"]) == ["b"]


def test_event_type_with_a_nul_is_found_by_its_name_to_be_rejected(store: SqliteStore) -> None:
    insert(store, "a\0b", "{}")
    insert(store, "c", "{}")

    assert waiting(store) == ["a\0b", "c"]
    assert waiting(store, ["a", "a\0b", "a\0c", "c"]) == ["a\0b", "c"]


@pytest.mark.parametrize("value", [NO_UTF8, b"plain bytes", "text \u00fc"], ids=repr)
def test_bytes_of_a_service_are_taken_as_text_that_encodes_to_them(store: SqliteStore, value: bytes | str) -> None:
    insert(store, "a", value, value, value, columns="event_type, data, key, headers")

    with store.write() as tx:
        (row,) = tx.outbox.take("a", 9, 1 << 20).rows

    raw = value if isinstance(value, bytes) else value.encode()
    assert isinstance(row, OutboxRow)
    for text in (row.data, row.key, row.headers):
        assert text is not None
        assert text.encode(errors="surrogateescape") == raw
