"""A backup of a hub's database."""

import shutil
from pathlib import Path

import psycopg

from tests.databases import SESSION

END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{session}' AND datname = '{database}'
"""
"""Nobody else may have the database open while it is copied."""


class Backup:
    """A copy of a database, which is made and put back while no hub has the database open."""

    def __init__(self, url: str, name: str = "backup") -> None:
        self._copy = name
        self._server, _, self._name = url.rpartition("/")
        self._file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else None
        if self._file:
            shutil.copy(self._file, f"{self._file}.{self._copy}")
        else:
            self._administer(END_SESSION.format(session=SESSION, database=self._name))
            self._administer(f'CREATE DATABASE "{self._name}_{self._copy}" TEMPLATE "{self._name}"')

    def put_back(self) -> None:
        """Replace the database by the copy."""
        if self._file:
            for rest in self._file.parent.glob(f"{self._file.name}-*"):
                rest.unlink()
            shutil.move(f"{self._file}.{self._copy}", self._file)
        else:
            self._administer(f'DROP DATABASE "{self._name}" WITH (FORCE)')
            self._administer(f'ALTER DATABASE "{self._name}_{self._copy}" RENAME TO "{self._name}"')

    def _administer(self, sql: str) -> None:
        with psycopg.connect(f"{self._server}/postgres", autocommit=True) as connection:
            connection.execute(sql.encode())
