"""An S3 for tests: a server on this machine that speaks its protocol, and keeps what it is given in memory."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.fs as pafs

from penstock.testing.port import free_port
from tests.listening import wait_until_it_listens

KEYS: Final = {"access_key": "key", "secret_key": "secret"}
_buckets: Final = itertools.count(1)


@contextmanager
def s3_server(directory: Path) -> Iterator[int]:
    """Run a server while the block runs, and lend its port."""
    port, log = free_port(), directory / "log"
    program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", f"{port}"]
    with log.open("wb") as said, subprocess.Popen(program, stdout=said, stderr=said) as server:
        try:
            wait_until_it_listens(server, port, log)
            yield port
        finally:
            server.terminate()


def create_bucket(port: int) -> str:
    """Create a bucket at the server and return its address as Hadoop writes it, with keys."""
    bucket = f"lake-{next(_buckets)}"
    place = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "region": "us-east-1"}
    pafs.S3FileSystem(**place, **KEYS, allow_bucket_creation=True).create_dir(bucket)
    options = "&".join(f"{name}={value}" for name, value in place.items())
    return f"s3a://{':'.join(KEYS.values())}@{bucket}/landing?{options}"


def cold_url(address: str) -> str:
    """Return the URL of a cold tier in a bucket, given the address of the bucket as `create_bucket` returns it."""
    keys, _, rest = address.removeprefix("s3a://").partition("@")
    bucket, server = rest.partition("/")[0], rest.partition("endpoint_override=")[2].partition("&")[0]
    return f"s3://{keys}@{bucket}/cold?endpoint=http://{server}"
