"""A PgBouncer in front of a PostgreSQL cluster, for tests of code that must not depend on a session."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg

from penstock.processing.parameters import check_count, check_kind
from penstock.testing.port import free_port
from penstock.testing.postgres import PostgresCluster, guard, identity

__all__ = ["PgBouncer", "PgBouncerMissing"]

START_SECONDS_MAX = 30
SESSIONS = 3

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={cluster_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = {sessions}
server_round_robin = 1
server_login_retry = 1
query_wait_timeout = 10
max_client_conn = 500
"""


class PgBouncerMissing(Exception):
    """PgBouncer is not on this machine."""


class PgBouncer:
    """PgBouncer in transaction mode before *cluster*, on a free port of the loopback interface.

    It is as unkind as it can be: a database has few sessions, and every transaction gets the one that has rested
    longest. Of what a client may say when it connects it takes only what it takes by default. It ends with the process
    that started it, and as root it runs as the user `postgres`.

        with PostgresCluster() as cluster, PgBouncer(cluster) as bouncer:
            url = bouncer.url(cluster.create_database())

    Raises:
        BadParameter: *cluster* is none, or *sessions* is no whole number from 1.
        PgBouncerMissing: There is no `pgbouncer`, neither on the path nor where Debian keeps it.
    """

    def __init__(self, cluster: PostgresCluster, *, sessions: int = SESSIONS) -> None:
        check_kind("cluster", cluster, PostgresCluster, "a PostgresCluster")
        check_count("sessions", sessions)
        self._program = find_program()
        self._identity = identity()
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-pgbouncer-"))
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.log = self._directory / "log"
        """Its log file, which `remove` deletes."""
        settings = _SETTINGS.format(
            cluster_port=cluster.port, port=self.port, directory=self._directory, sessions=sessions
        )
        self._settings.write_text(settings, encoding="utf-8")
        (self._directory / "users").write_text('"postgres" ""\n', encoding="utf-8")
        if user := self._identity.get("user"):
            shutil.chown(self._directory, user, user)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def running(self) -> bool:
        """Tell whether its process is there."""
        return self._server is not None and self._server.poll() is None

    def url(self, cluster_url: str) -> str:
        """Return the URL by which the database at *cluster_url* is reached through the bouncer."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{cluster_url.rpartition('/')[2]}"

    def start(self) -> None:
        """Start it and return when it lends sessions; after `kill` it has the same address.

        Raises:
            RuntimeError: It ended instead, or was not ready in time; holds what it said.
        """
        assert not self.running, "the bouncer is running"
        self.kill()  # It may have ended by itself.
        with self.log.open("ab") as log:
            command = [str(self._program), str(self._settings)]
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory, **self._identity)
        self._guard = guard(self._server.pid)
        self._wait_until_ready()

    def kill(self) -> None:
        """Kill it: every client loses its connection, every session ends."""
        if self._server is None or self._guard is None:
            return
        self._server.kill()
        self._server.wait()
        self._guard.kill()
        self._guard.communicate()
        self._server = self._guard = None

    def remove(self) -> None:
        """Kill it and delete its files, the log included."""
        self.kill()
        shutil.rmtree(self._directory)

    @property
    def _settings(self) -> Path:
        return self._directory / "pgbouncer.ini"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.running and time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.url("/postgres"), connect_timeout=10).close()
                return
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(
            f"PgBouncer does not start:\n{self.log.read_text(encoding='utf-8', errors='replace')[-4000:]}"
        )


def find_program() -> Path:
    """Return the path of PgBouncer's program, which Debian keeps where only root's path leads.

    Raises:
        PgBouncerMissing: There is none.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
    if found := shutil.which("pgbouncer", path=path):
        return Path(found)
    raise PgBouncerMissing("PgBouncer is not installed: on Debian, apt-get install pgbouncer")
