"""The contract of the schema: `Store.migrate` and `Store.check`."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import penstock.outbox
from penstock.errors import DatabaseUnsuitable
from penstock.storage import Store, open_store
from tests.failing import has_code
from tests.forks import FORKS, PYTHON
from tests.store_contract.database import Contract, Database, append, created, database_at, row

MIGRATE = """
import sys
from penstock.storage import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(len(store.migrate()))
store.check()
"""


class MigrationContract(Contract):
    """Tables are created once, and those of a newer Penstock are left alone."""

    @pytest.fixture
    def empty_url(self, url: str) -> str:
        """Return the URL of an empty database: `url`, unless a subclass gives another."""
        return url

    @pytest.fixture
    def empty(self, empty_url: str) -> Database:
        """Return a database without tables."""
        return database_at(empty_url)

    @pytest.fixture
    def bare(self, empty: Database) -> Any:
        """Return a store on an empty database."""
        store = open_store(empty.url)
        yield store
        store.close()

    def test_tables_are_created_once(self, bare: Store) -> None:
        with pytest.raises(DatabaseUnsuitable, check=has_code("schema-missing")) as told:
            bare.check()
        assert told.value.found == 0
        first = list(bare.migrate())
        bare.check()
        feed = created(bare)
        append(bare, row(feed.partition_ids[0], 0))

        assert list(bare.migrate()) == []
        bare.check()
        assert first == [f"{number:04} {name}" for number, name in enumerate([each[5:] for each in first], 1)]
        with bare.read() as tx:
            assert tx.log.read_columns(feed.partition_ids[0], 0, 9).rows == 1

    def test_database_of_a_newer_penstock_is_refused(self, store: Store, database: Database) -> None:
        database.run("INSERT INTO penstock_migration (number, name) VALUES (9999, 'of the future')")

        with pytest.raises(DatabaseUnsuitable, check=has_code("schema-too-new")) as told:
            store.check()
        with pytest.raises(DatabaseUnsuitable, check=has_code("schema-too-new")):
            store.migrate()

        assert told.value.found == 9999

    def test_outbox_created_by_a_service_is_kept(self, bare: Store, empty: Database) -> None:
        connection = empty.connect()
        penstock.outbox.create(connection)
        empty.insert(connection, "a", '{"early":true}')
        connection.commit()
        connection.close()

        bare.migrate()

        with bare.write() as tx:
            assert [each.data for each in tx.outbox.take("a", 10, 1 << 20).rows] == ['{"early":true}']

    def test_one_of_several_concurrent_processes_migrates(self, empty: Database, tmp_path: Path) -> None:
        command = [PYTHON, "-c", MIGRATE, empty.url]
        with ExitStack() as stack:
            processes = [FORKS.with_pipes(command, tmp_path, os.environ, has_input=True) for _ in range(4)]
            for process in processes:
                stack.callback(process.close)
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"

            told = [process.stdin for process in processes if process.stdin]
            for stdin in told:
                stdin.write(b"\n")
                stdin.flush()
            ended = [process.communicate() for process in processes]

        assert [process.returncode for process in processes] == [0] * 4, ended
        done = sorted(int(output) for output, _ in ended)
        assert done[:3] == [0, 0, 0]
        assert done[3] >= 1
