"""A PostgreSQL cluster of one's own, for tests that stop, kill and restart their database."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import psycopg

from penstock.testing.port import free_port

__all__ = ["PostgresCluster", "PostgresMissing"]

START_SECONDS_MAX = 180


class PostgresMissing(Exception):
    """PostgreSQL's programs are not on this machine."""


class PostgresCluster:
    """A PostgreSQL cluster in a temporary directory, on a free port of the loopback interface.

    It is durable as a cluster is by default (`fsync` and `synchronous_commit` are on), so that what a test commits
    must survive `kill`. It ends with the process that started it, however that process ends. As root it runs as the
    user `postgres`, since PostgreSQL refuses to run as root.

        with PostgresCluster() as cluster:
            url = cluster.create_database()

    Args:
        settings: The server's own, by name, where they are to differ from the defaults.

    Raises:
        PostgresMissing: There is no `initdb`, neither on the path nor where Debian keeps it.
    """

    def __init__(self, **settings: str) -> None:
        self._settings = settings
        self._programs = find_programs()
        self._identity = identity()
        self._names = (f"penstock_{number}" for number in itertools.count(1))
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.log = self._directory / "log"
        """The server's log file, which `remove` deletes."""
        self._init()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def running(self) -> bool:
        """Tell whether the server's process is there."""
        return self._server is not None and self._server.poll() is None

    def url(self, database: str = "postgres") -> str:
        """Return the URL of *database* for its superuser."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and return when it takes connections; after `kill`, when it has recovered.

        Raises:
            RuntimeError: The server ended instead, or was not ready within three minutes; it holds the end of the log.
        """
        assert not self.running, "the cluster is running"
        self._end(signal.SIGQUIT)  # It may have ended by itself.
        options = ["-D", str(self._data), "-p", str(self.port), "-k", str(self._directory), "-h", "127.0.0.1"]
        options += [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            command = [str(self._programs / "postgres"), *options]
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory, **self._identity)
        self._guard = guard(self._server.pid)
        self._wait_until_ready()

    def stop(self) -> None:
        """Stop the server as an operator would: connections are cut, transactions rolled back, files written."""
        self._end(signal.SIGINT)

    def restart(self) -> None:
        """Stop the server and start it again on the same port."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill all processes of the server at once, as a power cut would; works on Linux alone."""
        assert self._server is not None, "the cluster is not running"
        pid = self._server.pid
        # Stopped first, so that it neither starts another child nor looks after the dying ones.
        os.kill(pid, signal.SIGSTOP)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split():
            os.kill(int(child), signal.SIGKILL)
        self._end(signal.SIGKILL)

    def create_database(self) -> str:
        """Create an empty database and return its URL."""
        name = next(self._names)
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop the database at *url*, and close the connections that are still open to it."""
        name = url.rpartition("/")[2]
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def remove(self) -> None:
        """Stop the server at once and delete its files, the log included."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._directory)

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _init(self) -> None:
        if user := self._identity.get("user"):
            shutil.chown(self._directory, user, user)
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        command = [str(self._programs / "initdb"), *options, "--pgdata", str(self._data)]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=self._directory,
            **self._identity,
        )
        if done.returncode:
            shutil.rmtree(self._directory)
            raise RuntimeError(f"initdb failed:\n{done.stderr}")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.running and time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                self._execute("SELECT 1")
                return
            time.sleep(0.02)
        self._end(signal.SIGQUIT)
        raise RuntimeError(
            f"PostgreSQL does not start:\n{self.log.read_text(encoding='utf-8', errors='replace')[-4000:]}"
        )

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement.encode())

    def _end(self, how: signal.Signals) -> None:
        if self._server is None or self._guard is None:
            return
        self._server.send_signal(how)
        self._server.wait()
        self._guard.kill()
        self._guard.communicate()
        self._server = self._guard = None


def identity() -> dict[str, Any]:
    """Return the options of `subprocess` for a server: out of reach of our Ctrl-C, and never as root."""
    away: dict[str, Any] = {"start_new_session": True}
    return away | {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else away


def find_programs() -> Path:
    """Return the directory of PostgreSQL's programs: the one on the path, else the newest that Debian has installed.

    Raises:
        PostgresMissing: There is none.
    """
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    versions = {float(path.parent.parent.name): path.parent for path in installed}
    if not versions:
        raise PostgresMissing("PostgreSQL is not installed: on Debian, apt-get install postgresql")
    return versions[max(versions)]


def guard(pid: int) -> subprocess.Popen[bytes]:
    """Start a process that quits process *pid* when this one has ended, even by `kill -9`.

    It waits at a pipe whose other end only this process holds.
    """
    command = ["sh", "-c", 'read -r _; kill -QUIT "$1"', "sh", str(pid)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
