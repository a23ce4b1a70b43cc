"""PostgreSQL databases that tests use one after the other: to empty one takes a tenth of what it takes to make one."""

from contextlib import closing
from typing import Final

import psycopg

from penstock.storage import open_store
from penstock.testing.postgres import PostgresCluster

SHAPE: Final = """
SELECT string_agg(what, ',' ORDER BY what) FROM (
    SELECT format('%s %s %s %s %s', oid, relname, relowner, reloptions, relacl) FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT format('%s', pg_attribute) FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT format('%s', penstock_migration) FROM penstock_migration
    UNION ALL SELECT format('%s', pg_trigger) FROM pg_trigger WHERE oid >= 16384
    UNION ALL SELECT format('%s %s', oid, convalidated) FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_extension WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_publication WHERE oid >= 16384
    UNION ALL SELECT format('%s', oid) FROM pg_namespace WHERE oid >= 16384 AND nspname NOT LIKE 'pg\\_%'
    UNION ALL SELECT format('%s', pg_db_role_setting) FROM pg_db_role_setting JOIN pg_database AS mine
        ON mine.oid = setdatabase WHERE mine.datname = current_database()
) AS shape (what)
"""
"""What there is in a database beside a hub's rows, and what is set for it."""

WRITTEN: Final = """
SELECT format('%I', relname), pg_relation_size(oid) FROM pg_class WHERE relkind = 'r'
AND relnamespace = 'public'::regnamespace AND relname <> 'penstock_migration' AND pg_relation_size(oid) > 0
"""
COUNTED: Final = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"

CUT_OFF: Final = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
LARGE: Final = 512 * 1024
"""Of a table, in bytes: who looks at pages does not want to find more of them than that, with rows that are gone."""


class Databases:
    """Lends databases of a cluster, each as a hub has migrated it, and empties them when they come back.

    One that has come to be of another shape meanwhile is dropped.
    """

    def __init__(self, cluster: PostgresCluster) -> None:
        self._cluster = cluster
        self._idle: list[str] = []
        self._shapes: dict[str, str] = {}

    def lend(self) -> str:
        """Return the URL of a database."""
        if self._idle:
            return self._idle.pop()
        url = self._cluster.create_database()
        with closing(open_store(url)) as store:
            store.migrate()
        with psycopg.connect(url, autocommit=True) as connection:
            self._shapes[url] = _shape(connection)
        return url

    def take_back(self, url: str) -> None:
        """Empty the database, or drop it."""
        shape = self._shapes[url]
        if self._emptied(url, shape):
            self._idle.append(url)
        else:
            del self._shapes[url]
            self._cluster.drop_database(url)

    def _emptied(self, url: str, shape: str) -> bool:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(CUT_OFF)
                if _shape(connection) != shape:
                    return False
                return _has_emptied(connection)
        except psycopg.Error:  # Its tables are not there any more, or it is not.
            return False


def _shape(connection: psycopg.Connection) -> str:
    ((shape,),) = connection.execute(SHAPE)
    return str(shape)


def _has_emptied(connection: psycopg.Connection) -> bool:
    """Empty it, unless it has become large; TRUNCATE takes longer, for it writes anew all that refers to it."""
    written: dict[str, int] = dict(connection.execute(WRITTEN).fetchall())
    if max(written.values(), default=0) > LARGE:
        return False
    counted = [name for (name,) in connection.execute(COUNTED)]
    emptying = [f"DELETE FROM {name}" for name in written] + [f"ALTER SEQUENCE {name} RESTART" for name in counted]
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")  # So the order does not matter.
        connection.execute("; ".join([*emptying, "INSERT INTO penstock_epoch VALUES ('', 0)"]))  # As the migration.
    return True
