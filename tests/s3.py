"""An S3 for tests: a server on this machine that speaks its protocol, and keeps what it is given in memory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.fs as pafs

from penstock.testing.port import free_port
from tests.listening import wait_until_it_listens

BUCKET: Final = "lake"
KEYS: Final = {"access_key": "key", "secret_key": "secret"}


@contextmanager
def s3_server(directory: Path) -> Iterator[str]:
    """Run a server with a bucket while the block runs, and lend its address as Hadoop writes it, with keys."""
    port, log = free_port(), directory / "log"
    program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", f"{port}"]
    with log.open("wb") as said, subprocess.Popen(program, stdout=said, stderr=said) as server:
        try:
            wait_until_it_listens(server, port, log)
            place = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "region": "us-east-1"}
            pafs.S3FileSystem(**place, **KEYS, allow_bucket_creation=True).create_dir(BUCKET)
            options = "&".join(f"{name}={value}" for name, value in place.items())
            yield f"s3a://{':'.join(KEYS.values())}@{BUCKET}/landing?{options}"
        finally:
            server.terminate()


def cold_url(server: str) -> str:
    """Return the URL of a cold tier in the bucket of a server, given its address as `s3_server` lends it."""
    keys, _, rest = server.removeprefix("s3a://").partition("@")
    address = rest.partition("endpoint_override=")[2].partition("&")[0]
    return f"s3://{keys}@{BUCKET}/cold?endpoint=http://{address}"
