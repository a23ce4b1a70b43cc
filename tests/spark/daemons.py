"""Spark's own programs, each in a process of its own."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

STOP_SECONDS_MAX = 30


@contextlib.contextmanager
def daemon(log: Path, python: Path, *command: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program out of Spark's `bin` until the block ends; its Python workers are of *python*."""
    program, *words = command
    started = [str(spark_home() / "bin" / str(program)), *map(str, words)]
    with log.open("wb") as written:
        process = subprocess.Popen(started, stdout=written, stderr=written, env=environment(python), cwd=log.parent)
    with process:
        try:
            yield process
        finally:
            process.terminate()  # It is Java itself: the scripts end in an exec. A worker ends its executors.
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:  # A server of Spark Connect waits for queries, after a test has failed.
                process.kill()


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec
    assert spec.origin
    return Path(spec.origin).parent


def environment(python: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_", "PYSPARK_"))}
    return ours | {"SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
