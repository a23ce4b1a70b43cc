"""A server of Spark Connect in a process of its own, and a session of it."""

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.testing.port import free_port
from tests.spark.daemons import daemon

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS_MAX = 300
STARTS_MAX = 5


@contextlib.contextmanager
def connect_server(
    folder: Path, *, master: str = "local[2]", python: str = sys.executable, **more: str
) -> Iterator[str]:
    """Lend the address of a server; *more* are settings of Spark's, with `_` for each dot."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    log = folder / "connect.log"
    command = ["spark-submit", "--class", SERVER, "--master", master, *words, "spark-internal"]
    with daemon(log, Path(python), *command) as process:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not answers(port):
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, "it does not answer"
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def session_on(server: str) -> Iterator[SparkSession]:
    """Lend a session beside the classic one that other tests in this process may have.

    PySpark itself would refuse that: by the environment it knows, in all its functions, which of the two is meant.
    """
    from pyspark.sql.connect.session import SparkSession as RemoteSparkSession

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        session: Any = RemoteSparkSession.builder.remote(server).create()
        try:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            yield session
        finally:
            session.stop()


def start_query(start: Callable[[], Any]) -> Any:
    """Start a query that calls a function with its micro-batches.

    The server gives the function's Python ten seconds to come up, which no setting changes, and which a busy machine
    can take longer for.
    """
    for _ in range(STARTS_MAX - 1):
        with contextlib.suppress(WorkerLate):
            return _start(start)
    return _start(start)


class WorkerLate(Exception):
    """The server has not waited for its Python worker."""


def _start(start: Callable[[], Any]) -> Any:
    try:
        return start()
    except Exception as error:
        if "Python worker failed to connect back" in str(error):
            raise WorkerLate from error
        raise
