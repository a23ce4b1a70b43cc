"""A Spark session on this machine, with which Penstock's examples, tests and demo run; or on a server."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import BadParameter, RequirementMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_INSTALL: Final = (
    "install Java 17 or 21, such as `apt install openjdk-17-jre-headless` or `brew install openjdk@17`, "
    "and point JAVA_HOME to it where it is not on the path"
)
REMOTE: Final = "sc://"
"""How the address of a server of Spark Connect begins."""
_LOOPBACK: Final = "127.0.0.1"
_TIME_ZONE: Final = {"spark.sql.session.timeZone": "UTC"}


def session(
    app_name: str = "penstock", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return the Spark session of this process; start one if there is none.

    It runs on this machine, listens on the loopback interface alone, shows no web page and uses UTC. Spark's Python
    workers run on the interpreter that runs now, unless PYSPARK_PYTHON says otherwise: Spark itself would take the
    first `python3` on the path.

    A session of a Spark Connect server uses UTC, too; the server decides where it runs.

    Args:
        app_name: The name of the application in Spark.
        master: Where to run, in Spark's words, or the address of a server of Spark Connect: `sc://spark.example:15002`.
            By default the server that SPARK_REMOTE names, else all cores of this machine.
        config: Spark's settings, which win over ours.

    Raises:
        ModuleNotFoundError: PySpark, or a library for Spark Connect, is missing; the message names what to install.
        RequirementMissing: Java is missing; the message names what to install.
        BadParameter: *master* is local, and SPARK_REMOTE names a server.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        missing = "Spark needs PySpark: pip install 'penstock-hub[spark]'"
        raise ModuleNotFoundError(missing, name=error.name) from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    server = server_of(master, os.environ)
    if server is not None:
        return _connect(app_name, server, _TIME_ZONE | dict(config or {}))
    check_java(os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(master or "local[*]")
    for name, value in (settings(os.cpu_count() or 1) | dict(config or {})).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() == "JAVA_GATEWAY_EXITED":
            if packages := (config or {}).get("spark.jars.packages"):
                needed, install = (
                    f"Spark with the packages {packages}",
                    "if they cannot be loaded from here, spark.jars names files",
                )
                raise RequirementMissing(needed=needed, found="one that does not start", install=install) from error
            found = "one that does not start (it says why above) was"
            raise RequirementMissing(needed="A Java that Spark can use", found=found, install=JAVA_INSTALL) from error
        raise


def settings(cores: int) -> dict[str, str]:
    """Return what a session on one machine with *cores* is started with.

    >>> settings(2)["spark.sql.shuffle.partitions"]
    '2'
    """
    return {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.python.unix.domain.socket.enabled": "true",  # To the Python workers: no port, and less to copy.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_TIME_ZONE,
    }


def server_of(master: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the address of the server of Spark Connect that is meant; None: Spark is to be started.

    Raises:
        BadParameter: Spark is to be started, and SPARK_REMOTE says otherwise, which Spark itself would follow.

    >>> server_of("sc://spark.example", {}), server_of("local[2]", {})
    ('sc://spark.example', None)
    >>> server_of(None, {"SPARK_REMOTE": "sc://other.example"})
    'sc://other.example'
    """
    remote = environment.get("SPARK_REMOTE")
    if master is None:
        return remote
    if master.startswith(REMOTE):
        return master
    if remote is not None:
        allowed = f"a server of Spark Connect, {REMOTE}…, as long as SPARK_REMOTE is set: it is {hide_token(remote)}"
        raise BadParameter(parameter="master", value=master, allowed=allowed)
    return None


def hide_token(server: str) -> str:
    """Return the address of a server of Spark Connect without what may be secret in it.

    >>> hide_token("sc://spark.example:443/;use_ssl=true;token=secret")
    'sc://spark.example:443'
    """
    return server.partition(";")[0].rstrip("/")


def _connect(app_name: str, server: str, config: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).remote(server)
    for name, value in config.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except ImportError as error:
        missing = "Spark Connect needs more than PySpark alone: pip install 'penstock-hub[connect]'"
        raise ModuleNotFoundError(missing, name=error.name) from error


def check_java(environment: Mapping[str, str]) -> None:
    """Raise RequirementMissing unless there is a `java` where Spark looks for one."""
    home = environment.get("JAVA_HOME")
    if home:
        found = (Path(home) / "bin" / "java").exists()
    else:
        found = shutil.which("java", path=environment.get("PATH")) is not None
    if not found:
        where = f"none in JAVA_HOME={home} was" if home else "none on the path was"
        raise RequirementMissing(needed="Java", found=where, install=JAVA_INSTALL)


_MISSING: Final = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source")


def check_format(spark: "SparkSession", format: str, setting: str) -> None:
    """Raise RequirementMissing, with the *setting* that brings it, unless the session has a format."""
    try:
        _ = spark.read.format(format).load().schema  # Over Spark Connect, only this asks.
    except Exception as error:  # noqa: BLE001 - in any case: it misses options. Of which kind depends on the session.
        if any(each in str(error) for each in _MISSING):
            needed = f"a session of Spark with format({format!r})"
            raise RequirementMissing(needed=needed, found="none", install=f"start it with {setting}") from None
