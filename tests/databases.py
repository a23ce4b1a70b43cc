"""PostgreSQL databases that tests use one after the other: to empty one takes a tenth of what it takes to make one."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from typing import Final

import psycopg

from penstock.storage import open_store
from penstock.testing.postgres import PostgresCluster

_STRUCTURE: Final = """
    SELECT format('%s %s %s %s %s', oid, relname, relowner, reloptions, relacl) FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT format('%s %s', count(*), sum(xmin::text::bigint)) FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT format('%s', pg_trigger) FROM pg_trigger WHERE oid >= 16384
    UNION ALL SELECT format('%s %s', oid, convalidated) FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_extension WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_publication WHERE oid >= 16384
    UNION ALL SELECT format('%s %s', oid, nspname) FROM pg_namespace WHERE oid >= 16384 AND nspname NOT LIKE 'pg\\_%'
    UNION ALL SELECT format('%s', pg_db_role_setting) FROM pg_db_role_setting JOIN pg_database AS mine
        ON mine.oid = setdatabase WHERE mine.datname = current_database()
"""
"""Nine tenths of it would be columns: it has how many there are, and the sum of the transactions that wrote them."""
MESSAGE_SHAPE: Final = f"SELECT md5(string_agg(what, ',' ORDER BY what)) FROM ({_STRUCTURE}) AS shape (what)"
"""What there is in a database beside its rows, and what is set for it."""

SHAPE: Final = f"""
SELECT md5(string_agg(what, ',' ORDER BY what)) FROM (
    {_STRUCTURE} UNION ALL SELECT format('%s', penstock_migration) FROM penstock_migration
) AS shape (what)
"""
"""The same of a hub's database, with its migrations."""

WRITTEN: Final = """
SELECT format('%I', relname), pg_relation_size(oid) FROM pg_class WHERE relkind = 'r'
AND relnamespace = 'public'::regnamespace AND relname <> 'penstock_migration' AND pg_relation_size(oid) > 0
"""
COUNTED: Final = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"

CUT_OFF: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
"""Returns a row for each session of others, and ends it. PostgreSQL could wait for that, but by tenths of seconds."""
CUT_OFF_SECONDS_MAX: Final = 10.0
SPECIAL: Final = """
SELECT 1 FROM pg_namespace WHERE oid >= 16384 AND nspname <> 'public' AND nspname !~ '^pg_'
UNION ALL SELECT 1 FROM pg_extension WHERE oid >= 16384
UNION ALL SELECT 1 FROM pg_publication
UNION ALL SELECT 1 FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
    WHERE datname = current_database()
UNION ALL SELECT 1 FROM pg_database WHERE datname = current_database()
    AND (datacl IS NOT NULL OR datconnlimit >= 0 OR datdba <> 'postgres'::regrole)
"""
"""A row for each thing in a database, or setting of it, that goes beyond the schema `public`."""

PUBLIC: Final = "SELECT nspowner::regrole::text, nspacl::text FROM pg_namespace WHERE nspname = 'public'"

LARGE: Final = 512 * 1024
"""Of a table, in bytes: who looks at pages does not want to find more of them than that, with rows that are gone."""


SESSION: Final = "penstock-emptying"
"""The application name of the session that empties a database. It stays, idle, while the database is lent."""


class _LentDatabases(ABC):
    """Lends databases of a cluster, and empties them when they come back; one that cannot be emptied is dropped.

    The session that empties a database is kept for the next time: a new one computes three times as long, since it has
    to read the catalogs first.
    """

    def __init__(self, cluster: PostgresCluster) -> None:
        self._cluster = cluster
        self._idle: list[str] = []
        self._shapes: dict[str, str] = {}
        self._sessions: dict[str, psycopg.Connection] = {}

    def lend(self) -> str:
        """Return the URL of a database."""
        if self._idle:
            return self._idle.pop()
        url = self._cluster.create_database()
        self._fill(url)
        return url

    def take_back(self, url: str) -> None:
        """Empty the database, or drop it."""
        try:
            connection = self._session(url)
            _cut_off(connection)
            is_empty = self._has_emptied(url, connection)
        except psycopg.Error:  # Its tables are not there any more, or it is not, or it is in use.
            is_empty = False
        if is_empty:
            self._idle.append(url)
        else:
            self._shapes.pop(url, None)
            if url in self._sessions:
                self._sessions.pop(url).close()
            self._cluster.drop_database(url)

    def close(self) -> None:
        """End the sessions that empty databases."""
        for connection in self._sessions.values():
            connection.close()

    def _session(self, url: str) -> psycopg.Connection:
        """Return the session that empties the database; a new one if a test has ended it, with its cluster or alone."""
        if (connection := self._sessions.get(url)) is not None:
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                connection.close()
            else:
                return connection
        self._sessions[url] = psycopg.connect(url, autocommit=True, application_name=SESSION)
        return self._sessions[url]

    @abstractmethod
    def _fill(self, url: str) -> None:
        """Make a new database what tests want."""

    @abstractmethod
    def _has_emptied(self, url: str, connection: psycopg.Connection) -> bool:
        """Make a database what it was when it was new; return whether that is so."""


class Databases(_LentDatabases):
    """Databases as a hub has migrated them. One that has come to be of another shape meanwhile is dropped."""

    def _fill(self, url: str) -> None:
        with closing(open_store(url)) as store:
            store.migrate()
        with psycopg.connect(url, autocommit=True) as connection:
            self._shapes[url] = _found(connection, SHAPE)

    def _has_emptied(self, url: str, connection: psycopg.Connection) -> bool:
        """Empty it, unless it has become large; TRUNCATE takes longer, for it writes anew all that refers to it."""
        if _found(connection, SHAPE) != self._shapes[url]:
            return False
        written: dict[str, int] = dict(connection.execute(WRITTEN).fetchall())
        if max(written.values(), default=0) > LARGE:
            return False
        counted = [name for (name,) in connection.execute(COUNTED)]
        emptying = [f"DELETE FROM {name}" for name in written] + [f"ALTER SEQUENCE {name} RESTART" for name in counted]
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")  # So the order does not matter.
            connection.execute("; ".join([*emptying, "INSERT INTO penstock_epoch VALUES ('', 0)"]))  # As the migration.
        return True


class EmptyDatabases(_LentDatabases):
    """Empty databases. One in which more than the schema `public` has changed is dropped.

    `CREATE DATABASE` and `DROP DATABASE` take ten times as long.
    """

    def _fill(self, url: str) -> None:
        pass

    def _has_emptied(self, url: str, connection: psycopg.Connection) -> bool:  # noqa: ARG002 - It has one shape.
        found = connection.execute(PUBLIC).fetchone()
        if found is None or connection.execute(SPECIAL).fetchone() is not None:
            return False
        owner, grants = found
        with connection.transaction():
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute(f"CREATE SCHEMA public AUTHORIZATION {owner}")
            connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
            return connection.execute(PUBLIC).fetchone() == (owner, grants)


class MessageDatabases(_LentDatabases):
    """Databases with an empty MessageDB. One whose tables have changed or moved is dropped.

    Args:
        cluster: Where they are.
        install: Installs MessageDB into an empty database at a URL.
    """

    def __init__(self, cluster: PostgresCluster, install: Callable[[str], None]) -> None:
        super().__init__(cluster)
        self._install = install

    def _fill(self, url: str) -> None:
        self._install(url)
        with psycopg.connect(url) as connection:
            self._shapes[url] = _found(connection, MESSAGE_SHAPE)

    def _has_emptied(self, url: str, connection: psycopg.Connection) -> bool:
        if _found(connection, MESSAGE_SHAPE) != self._shapes[url]:
            return False
        connection.execute("TRUNCATE message_store.messages RESTART IDENTITY")
        return True


def _cut_off(connection: psycopg.Connection) -> None:
    """End the sessions of others in the database, and wait until they have ended."""
    deadline = time.monotonic() + CUT_OFF_SECONDS_MAX
    while connection.execute(CUT_OFF).fetchall() and time.monotonic() < deadline:
        time.sleep(0.002)


def _found(connection: psycopg.Connection, query: str) -> str:
    ((found,),) = connection.execute(query)
    return str(found)
