"""The real MessageDB, as its own scripts install it into a database."""

import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from penstock.testing.postgres import PostgresCluster, find_programs
from tests.conftest import BUILD, start_if_down
from tests.databases import MessageDatabases

VERSION: Final = "1.3.1"
SHA256: Final = "d7938e108d950e29da1974e3acad05bcf680045d0961f6a12039fb002140840d"
PLACE: Final = BUILD / f"message-db-{VERSION}"


class MessageDbMissing(Exception):
    """It is not in build/, and npm cannot bring it."""


def install(url: str) -> None:
    """Install MessageDB into the database at *url*.

    Raises:
        MessageDbMissing: it could not be loaded.
    """
    parts = urlsplit(url)
    surroundings = os.environ | {
        "PATH": f"{find_programs()}:{os.environ['PATH']}",
        "PGHOST": parts.hostname or "",
        "PGPORT": str(parts.port),
        "PGUSER": parts.username or "",
        "DATABASE_NAME": parts.path.lstrip("/"),
        "CREATE_DATABASE": "off",
    }
    command = ["bash", str(_scripts() / "install.sh")]
    done = subprocess.run(command, env=surroundings, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def message_databases(postgres_cluster: PostgresCluster) -> Iterator[MessageDatabases]:
    """The databases with a MessageDB that are lent to tests."""
    with closing(MessageDatabases(postgres_cluster, install)) as lent:
        yield lent


@pytest.fixture
def message_db_url(postgres_cluster: PostgresCluster, message_databases: MessageDatabases) -> Iterator[str]:
    """The URL of a database with an empty MessageDB."""
    start_if_down(postgres_cluster)
    try:
        url = message_databases.lend()
    except MessageDbMissing as missing:
        pytest.skip(str(missing))
    yield url
    start_if_down(postgres_cluster)
    message_databases.take_back(url)


def _scripts() -> Path:
    """Return the directory of its scripts; the first time they are loaded from npm's registry."""
    if not PLACE.exists():
        BUILD.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as directory:
            _load(Path(directory))
            try:
                (Path(directory) / "package").rename(PLACE)
            except OSError:
                assert PLACE.exists(), "unless another process of the test run was faster"
    return PLACE / "database"


def _load(directory: Path) -> None:
    try:
        command = ["npm", "pack", "--silent", f"@eventide/message-db@{VERSION}"]
        done = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise MessageDbMissing("npm, which brings MessageDB, is not installed") from error
    if done.returncode:
        raise MessageDbMissing(f"npm cannot bring MessageDB: {done.stderr.strip()[-200:]}")
    [archive] = directory.glob("*.tgz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, "another MessageDB than was tested"
    with tarfile.open(archive) as packed:
        # Its hash is known. Python before 3.11.4 has no filters, and later ones warn where none is chosen.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(directory)
