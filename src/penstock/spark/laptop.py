"""A Spark session on this machine, with which Penstock's examples, tests and demo run."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import RequirementMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_INSTALL: Final = (
    "install Java 17 or 21, such as `apt install openjdk-17-jre-headless` or `brew install openjdk@17`, "
    "and point JAVA_HOME to it where it is not on the path"
)
_LOOPBACK: Final = "127.0.0.1"


def session(
    app_name: str = "penstock", *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return the Spark session of this process, started where there is none.

    It runs on this machine, listens on the loopback interface alone, shows no web page and reckons in UTC. Spark's
    Python workers run on the interpreter that runs now, unless PYSPARK_PYTHON says otherwise: Spark itself would take
    the first `python3` on the path, whatever it has installed.

    Args:
        app_name: What Spark calls the application.
        master: Where to run, in Spark's words.
        config: Spark's settings, which win over ours.

    Raises:
        ModuleNotFoundError: PySpark is missing; says what to install.
        RequirementMissing: Java is missing; says what to install.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        missing = "Spark needs PySpark: pip install 'penstock[spark]'"
        raise ModuleNotFoundError(missing, name=error.name) from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    check_java(os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in (settings(os.cpu_count() or 1) | dict(config or {})).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() == "JAVA_GATEWAY_EXITED":
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
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


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
