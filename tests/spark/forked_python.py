"""A Python for Spark that is forked from one that has loaded PySpark and Penstock.

Spark starts a Python for each streaming query, and forks one for most other calls, which each load these again: that
takes more time than all else that they do.
"""

import contextlib
import gc
import importlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.spark.warnings_file import keep_warnings
from tests.forks import run_python, serve

LOADED: Final = (
    "anyio.to_thread",
    "encodings.idna",
    "httpcore2",
    "hypothesis",
    "pandas",
    "penstock.client",
    "penstock.processing.database",
    "penstock.spark.processors.processor",
    "penstock.spark.projections.database",
    "penstock.spark.projections.files",
    "penstock.spark.projections.project",
    "penstock.spark.reading",
    "penstock.spark.source",
    "penstock.spark.stream",
    "psycopg",
    "pyarrow.compute",
    "pyspark.sql.datasource_internal",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "pytest",
    "tests.exhaustive",
    "tests.spark.recording",
)
"""What Spark's Pythons and the tests' functions in them load, but for the modules that Spark runs as programs."""
PROGRAM: Final = """\
#!{python} -SEs
import array, json, os, signal, socket, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = {{"arguments": sys.argv[1:], "directory": os.getcwd(), "environment": dict(os.environ)}}
with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as forks:
    forks.connect({address!r})
    socket.send_fds(forks, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
[pid] = array.array("i", ours.recv(4))
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
[status] = array.array("i", ours.recv(4))
os._exit(status if status >= 0 else 128 - status)
"""
"""The executable that Spark starts: it has the server fork a process with its own streams, and ends as that ends."""


@contextlib.contextmanager
def forked_python() -> Iterator[Path]:
    """Return an executable that Spark may take for its Python until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        executable, address = Path(folder, "python"), str(Path(folder, "forks"))
        executable.write_text(PROGRAM.format(python=sys.executable, address=address), encoding="utf-8")
        executable.chmod(0o755)
        command = [sys.executable, "-m", "tests.spark.forked_python", address]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # A process with threads is not to be forked.
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            assert server.stdout
            assert server.stdout.readline() == b"ready\n"
            yield executable


def main() -> None:
    """Fork for each request until standard input ends; in what was forked, be a Python."""
    [_, address] = sys.argv
    for name in LOADED:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as requests:
        requests.bind(address)
        os.write(1, b"ready\n")
        gc.freeze()  # Else the first search for garbage would copy all of it.
        serve(requests, until=sys.stdin.fileno())
    keep_warnings(os.environ)  # What was loaded before the fork had another environment.
    run_python(*sys.argv[1:])


if __name__ == "__main__":
    main()
