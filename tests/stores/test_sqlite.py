"""The store in SQLite keeps the contract, and keeps what only SQLite lets a service insert."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from penstock.errors import DatabaseUnsuitable
from penstock.storage import open_store
from tests.failing import has_code
from tests.store_contract import StoreContract, database_at


class TestSqlite(StoreContract):
    changes = (
        "UPDATE penstock_event SET place = place + 10",
        """INSERT INTO penstock_event (place, received_at, shape, data)
           SELECT place, received_at, shape, data FROM penstock_event WHERE true
           ON CONFLICT (place) DO UPDATE SET data = excluded.data""",
    )

    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


OUTBOX = """SELECT CAST(data AS BLOB), CAST(key AS BLOB), CAST(headers AS BLOB), "partition", created_at
            FROM penstock_outbox ORDER BY id"""


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_file_with_another_encoding_than_utf8_is_refused(sqlite_url: str, encoding: str) -> None:
    """The encoding of a file cannot be changed once it has tables, and other text than UTF-8 could not be sent."""
    with closing(database_at(sqlite_url).connect()) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("CREATE TABLE shop (name TEXT)")
        connection.commit()

    with (
        closing(open_store(sqlite_url)) as store,
        pytest.raises(DatabaseUnsuitable, check=has_code("encoding-unsuitable")) as told,
    ):
        store.migrate()

    assert told.value.detail == f"the encoding of the database is {encoding}, Penstock needs UTF-8"
    assert not database_at(sqlite_url).run("SELECT name FROM sqlite_schema WHERE name LIKE 'penstock%'")


def test_invalid_utf8_in_rejected_rows_is_shown_and_retried_unchanged(sqlite_url: str) -> None:
    database = database_at(sqlite_url)
    with closing(open_store(sqlite_url)) as store, closing(database.connect()) as connection:
        store.migrate()
        database.insert(connection, "a", b'{"a":"\xff\n"}', key=b"\xfe", headers=b"\xfd", partition=b"\xfc")
        database.insert(connection, "a", "{}", partition=0.5)
        connection.commit()
        before = [*connection.execute(OUTBOX)]

        with store.write() as tx:
            rows = [tx.outbox.take("a", 1, 1).rows[0] for _ in range(2)]
            tx.outbox.reject([(row, "no text") for row in rows], 0)
        with store.read() as tx:
            shown = tx.outbox.list_rejected(9, newest=False)
        with store.write() as tx:
            tx.outbox.retry_rejected()

        assert [row[2:6] for row in shown] == [
            ('{"a":"\\xff\n"}', "\\xfe", "\\xfd", "\\xfc"),
            ("{}", None, None, "0.5"),
        ]
        assert [*connection.execute(OUTBOX)] == before


@pytest.fixture
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes_of(file: Path) -> dict[str, int]:
    """Return the modes of a database's files, by what their names have after that of the database."""
    return {
        each.name.removeprefix(file.name): S_IMODE(each.stat().st_mode) for each in file.parent.glob(f"{file.name}*")
    }


@pytest.mark.usefixtures("generous_umask")
@pytest.mark.parametrize("is_link", [False, True], ids=["file", "link"])
def test_new_database_is_for_its_owner_alone(tmp_path: Path, is_link: bool) -> None:
    file, link = tmp_path / "hub.db", tmp_path / "link"
    link.symlink_to(file)
    with closing(open_store(f"sqlite:///{link if is_link else file}")) as store:
        store.migrate()
        with store.read():
            assert modes_of(link) | modes_of(file) == dict.fromkeys(("", "-wal", "-shm", "-queue"), 0o600)


@pytest.mark.usefixtures("generous_umask")
def test_mode_of_an_existing_database_stays_and_holds_for_the_files_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    file.touch()
    file.chmod(0o660)
    os.umask(0o077)

    with closing(open_store(f"sqlite:///{file}")) as store:
        store.migrate()
        with store.read():
            assert modes_of(file) == dict.fromkeys(("", "-wal", "-shm", "-queue"), 0o660)
