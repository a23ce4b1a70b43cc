"""The Spark session of a processor: its number of cores, and checks that values can be sent to its executors."""

from typing import Any, Final, Protocol

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from penstock.errors import BadParameter
from penstock.processing.parameters import check_members

UNKNOWN: Final = 8
"""Over Spark Connect there is no telling."""


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks go on at once."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - PySpark says in several ways that a session has no context.
        return UNKNOWN


def check_sendable(parameter: str, value: Any) -> None:
    """Raise BadParameter unless *value* can be sent to executors as Spark sends functions; says what cannot be."""
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        allowed = (
            f"what Spark can send to executors, which has failed: {reason}. Have locks, connections, sessions and open "
            "files be made in the function that is called, or when it is called first"
        )
        name = getattr(value, "__qualname__", type(value).__qualname__)
        raise BadParameter(parameter=parameter, value=name, allowed=allowed) from error


class Session(Protocol):
    """The part of a Spark session that is used here; sessions of Spark Connect are of another class."""

    conf: Any = None

    def range(self, start: int, end: int) -> Any:
        """Return numbers as a data frame."""
        ...

    def createDataFrame(self, data: Any) -> Any:
        """Return data as a data frame."""
        ...


def check_session(value: Any) -> None:
    """Raise BadParameter unless *value* is a session of Spark's, as far as that can be told."""
    check_members("spark", value, Session, "a session of Spark's, such as penstock.spark.session('my program') makes")
