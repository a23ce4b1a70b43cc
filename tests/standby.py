"""A hot standby of a cluster, for tests of replicas."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from penstock.storage.store import ReplicaMeasurement, Store
from penstock.testing.postgres import PostgresCluster
from tests.promises.scene import until


def run(cluster: PostgresCluster, statement: str) -> list[Any]:
    """Run a statement in the database `postgres` of a cluster, and return its rows."""
    with psycopg.connect(cluster.url(), autocommit=True, connect_timeout=10) as connection:
        return connection.execute(statement.encode()).fetchall()


class Standby(PostgresCluster):
    """A hot standby of *primary*, made of a base backup: see `PostgresCluster`."""

    def __init__(self, primary: PostgresCluster, **settings: str) -> None:
        self._primary = primary
        super().__init__(**settings)

    def _init(self) -> None:
        if user := self._identity.get("user"):
            shutil.chown(self._directory, user, user)
        source = f"host=127.0.0.1 port={self._primary.port} user=postgres"
        program, data = str(self._programs / "pg_basebackup"), str(self._data)
        command = [program, "-d", source, "-D", data, "-R", "-c", "fast", "--no-sync"]
        done = subprocess.run(
            command, check=False, capture_output=True, encoding="utf-8", cwd=self._directory, **self._identity
        )
        assert done.returncode == 0, done.stderr

    def pause(self) -> None:
        """Have it replay nothing until `resume`."""
        run(self, "SELECT pg_wal_replay_pause()")
        until(lambda: run(self, "SELECT pg_get_wal_replay_pause_state()") == [("paused",)], "replay is paused")

    def resume(self) -> None:
        """Have it replay again."""
        run(self, "SELECT pg_wal_replay_resume()")

    def promote(self) -> None:
        """Make it a primary."""
        run(self, "SELECT pg_promote()")
        until(lambda: run(self, "SELECT pg_is_in_recovery()") == [(False,)], "the standby is promoted")

    def freeze(self) -> None:
        """Have all its processes stand still: it takes connections and does not answer."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Have them go on."""
        self._signal(signal.SIGCONT)

    def catch_up(self) -> None:
        """Wait until it has replayed what is on the primary's disk now."""
        [(position,)] = run(self._primary, "SELECT pg_current_wal_flush_lsn()::text")
        reached = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        until(lambda: run(self, reached) == [(True,)], "the standby has caught up")

    def _signal(self, number: signal.Signals) -> None:
        assert self._server is not None
        pid = self._server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        for each in (pid, *map(int, children)):
            os.kill(each, number)


def only_replica(store: Store) -> ReplicaMeasurement:
    """Return how the only replica of a store does."""
    assert store.replicas is not None
    [found] = store.replicas.measure()
    return found
