"""Spark for as long as a command needs it, and its chatter in a file."""

import logging
import os
import signal
import socket
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.cli.failures import CommandFailure
from penstock.cli.spark.chatter import warnings_told
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_SECONDS_MAX: Final = 15.0
REMOTE_PORT: Final = 15002
"""Where servers of Spark Connect listen unless told otherwise."""
CONNECT_SECONDS_MAX: Final = 10.0


@contextmanager
def local_spark(
    log: Path, name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """Lend a session whose processes on this machine write to *log*, and which are gone when the block has ended.

    Warnings of ours are told on stderr, too.

    Args:
        log: Where to.
        name: What Spark calls the application.
        master: Where to run, in Spark's words; by default on this machine.
        config: Spark's settings, which win over ours.

    Raises:
        CommandFailure: it does not start; names the log.
    """
    from pyspark import SparkContext

    from penstock.spark import session

    with warnings_told():
        with _undisturbed() as told, _stderr_into(log):
            try:
                spark = session(name, master=master, config={"spark.log.level": "WARN", **(config or {})})
            except PenstockError as error:
                raise CommandFailure(error.detail, f"Spark's own words are in {log}.") from error
        gateway: Any = SparkContext._gateway
        try:
            with _logging_into(log):  # Py4J logs Ctrl-C as an error, with a traceback.
                for number in told:
                    signal.raise_signal(number)
                yield spark
        finally:
            with _undisturbed():
                _stop(spark, gateway)


@contextmanager
def remote_spark(server: str, name: str, config: Mapping[str, str]) -> Iterator["SparkSession"]:
    """Lend a session of a server of Spark Connect, which ends when the block has ended, and its queries with it.

    Args:
        server: Its address, `sc://spark.example:15002`.
        name: What Spark calls the application.
        config: Settings of the session.

    Raises:
        CommandFailure: nothing answers there.
        ModuleNotFoundError: what a client of Spark Connect needs is missing; says what to install.
    """
    from penstock.spark import session
    from penstock.spark.laptop import shown_server

    parts = urlsplit(server)
    try:  # Spark's client would try for many minutes.
        socket.create_connection((parts.hostname or "", parts.port or REMOTE_PORT), CONNECT_SECONDS_MAX).close()
    except (OSError, ValueError) as error:  # A port may be none.
        raise CommandFailure(f"no server of Spark Connect answers at {shown_server(server)}: {error}") from error
    spark = session(name, master=server, config=config)
    try:
        yield spark
    finally:
        with _undisturbed(), suppress(Exception):
            spark.stop()


def _stop(spark: "SparkSession", gateway: Any) -> None:
    from pyspark import SparkContext

    # What was interrupted in the middle of a call may refuse the next one, and warn of it.
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        spark.stop()
    # Spark keeps its Java for the next session, until some time after this process has ended.
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def _undisturbed() -> Iterator[list[int]]:
    """Hold back Ctrl-C and SIGTERM while the block runs, and lend the list of those that came.

    A Java that is half started, or half ended, would be out of our hands.
    """
    came: list[int] = []
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in kept:
        signal.signal(number, lambda given, _: came.append(given))
    try:
        yield came
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextmanager
def _stderr_into(file: Path) -> Iterator[None]:
    """Have processes that are started meanwhile write their stderr to a new *file*, as long as they live."""
    kept = os.dup(2)
    file.write_bytes(b"")
    try:
        with file.open("ab") as target:  # At its end, whoever has written there before.
            os.dup2(target.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _logging_into(file: Path) -> Iterator[None]:
    """Have what is logged in this process at the end of *file* while the block runs."""
    handler = logging.FileHandler(file, encoding="utf-8")
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
