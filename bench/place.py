"""Where benchmarks run: databases of their own in build/, gone afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import psycopg

from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster

ROOT: Final = Path(__file__).parent.parent
BUILD: Final = ROOT / "build"


class Place:
    """A directory for files, and a PostgreSQL cluster that starts when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "hub.log"
        """What the hubs had to say."""
        self._numbers = count(1)
        self._cluster: PostgresCluster | None = None

    def sqlite(self) -> str:
        """Return the URL of an SQLite file that does not exist yet."""
        return f"sqlite:///{self.directory}/{next(self._numbers)}.db"

    def postgres(self) -> str:
        """Return the URL of an empty PostgreSQL database."""
        return self.cluster.create_database()

    def database(self, kind: str) -> str:
        """Return the URL of an empty database: `SQLite` or `PostgreSQL`."""
        return self.sqlite() if kind == "SQLite" else self.postgres()

    def drop(self, url: str) -> None:
        """Delete a database, to make room for the next."""
        if url.startswith("sqlite"):
            path = file_of(url)
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink()
        else:
            self.cluster.drop_database(url)

    def hub(self, url: str) -> AbstractContextManager[LiveHub]:
        """Serve a database by `penstock serve`, for as long as the block runs."""
        return live_hub(url, log=self.log)

    def hubs_said(self) -> str:
        """Return the end of what the hubs had to say."""
        return self.log.read_text(encoding="utf-8")[-4000:] if self.log.exists() else ""

    @property
    def cluster(self) -> PostgresCluster:
        """The PostgreSQL cluster, with the durability that PostgreSQL has by default; it notes commit times."""
        if self._cluster is None:
            self._cluster = PostgresCluster(track_commit_timestamp="on")
            self._cluster.start()
        return self._cluster

    @property
    def cluster_pid(self) -> int:
        """The id of the cluster's first process, the parent of all others."""
        with psycopg.connect(self.cluster.url()) as connection:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            return int(Path(f"/proc/{row[0]}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])

    def close(self) -> None:
        """Stop the cluster, delete its files."""
        if self._cluster is not None:
            self._cluster.remove()
            self._cluster = None


@contextmanager
def place() -> Iterator[Place]:
    """Lend a place for as long as the block runs."""
    BUILD.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=BUILD))
    lent = Place(directory)
    try:
        yield lent
    finally:
        lent.close()
        shutil.rmtree(directory)


def file_of(url: str) -> Path:
    """Return the file of an SQLite URL."""
    return Path(url.removeprefix("sqlite:///"))
