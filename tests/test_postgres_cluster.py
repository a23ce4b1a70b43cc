"""The PostgreSQL cluster that tests (and users) start: crashes, restarts, durability, databases."""

import shutil
import signal
import subprocess
import sys

import psycopg
import pytest

from penstock.testing.postgres import PostgresCluster

START_AND_WAIT = """
import sys
from penstock.testing.postgres import PostgresCluster
cluster = PostgresCluster()
cluster.start()
print(cluster.log.parent, cluster.url(), flush=True)
sys.stdin.read()
"""


def test_committed_row_survives_a_kill_of_the_server(postgres_cluster: PostgresCluster, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        connection.commit()
        postgres_cluster.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT n FROM kept")

    postgres_cluster.start()

    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_restart_keeps_the_address(postgres_cluster: PostgresCluster, postgres_url: str) -> None:
    postgres_cluster.restart()

    psycopg.connect(postgres_url).close()


def test_commits_are_durable(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_new_database_is_empty_and_may_be_dropped_while_in_use(postgres_cluster: PostgresCluster) -> None:
    url = postgres_cluster.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()

        postgres_cluster.drop_database(url)

    assert tables == (0,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_server_ends_with_the_process_that_started_it(postgres_cluster: PostgresCluster) -> None:
    command = [sys.executable, "-c", START_AND_WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        directory, url = owner.stdout.readline().split()
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row
            owner.send_signal(signal.SIGKILL)
            owner.wait()

            # The answer to a statement that never ends is the end of the connection.
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT pg_sleep(60)")
    shutil.rmtree(directory, ignore_errors=True)
