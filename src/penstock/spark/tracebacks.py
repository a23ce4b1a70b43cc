"""Has Spark show an error of ours by its class and message, without the traceback in a Python worker.

Spark calls sources and sinks in Python workers. An error that ends a worker reaches the user as the text that
`pyspark.util.handle_worker_exception` makes of it. That is a long traceback with the message at its end, or the message
alone if the environment variable SPARK_HIDE_TRACEBACK is set. Spark sets the variable for a session with
`spark.sql.execution.pyspark.udf.hideTraceback.enabled`, which hides the tracebacks of everybody's code.

The worker reads the variable when an error has arrived, and then exits. So we set it when a `PenstockError` leaves our
code. Any other error is a defect and keeps its traceback. A PySpark that does not read the variable shows tracebacks.

Source: https://github.com/apache/spark/blob/v4.2.0/python/pyspark/util.py
"""

import os
import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

VARIABLE: Final = "SPARK_HIDE_TRACEBACK"
_HANDLER: Final = "handle_worker_exception"

Kind = TypeVar("Kind", bound=type)


def hide_tracebacks(kind: Kind) -> Kind:
    """Hide the traceback of each PenstockError that *kind* raises in a Python worker of Spark.

    That holds for its constructor, its public methods, and the iterators that these return. Outside of a worker nothing
    changes.
    """
    for name, member in list(vars(kind).items()):
        if isinstance(member, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, _hiding(member))
    return kind


def _hiding(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            result = method(*arguments, **named)
        except PenstockError as error:
            if method.__name__ == "streamReader" and _is_in_worker():
                return RefusedStreamReader(error)
            _hide_in_worker()
            raise
        return _iterate(result) if isinstance(result, Iterator) else result

    return call


def _iterate(items: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from items
    except PenstockError:
        _hide_in_worker()
        raise


def _hide_in_worker() -> None:
    if _is_in_worker():
        os.environ[VARIABLE] = "1"


def _is_in_worker() -> bool:
    """Return whether a program of Spark's workers is among our callers: it reports our error and exits.

    These programs, and no other modules, import `handle_worker_exception` from `pyspark.util`, which a user's program
    may have among its callers, too.
    """
    modules = (frame.f_globals for frame, _ in traceback.walk_stack(None))
    return any(_HANDLER in names and names["__name__"] != "pyspark.util" for names in modules)


@hide_tracebacks
class RefusedStreamReader(DataSourceStreamReader):
    """Raises an error of `streamReader` as soon as Spark wants anything of the stream.

    PySpark 4.2 and 4.3 lose an error that `streamReader` itself raises: the user reads that a variable `reader` has no
    value.

    Source: https://github.com/apache/spark/blob/v4.2.0/python/pyspark/sql/streaming/python_streaming_source_runner.py
    """

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        """Raise the error."""
        raise self._error

    def getDefaultReadLimit(self) -> NoReturn:
        """Raise the error."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: "ReadLimit") -> NoReturn:  # noqa: ARG002 - Spark's parameters
        """Raise the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002 - Spark's parameters
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002 - Spark's parameter
        """Raise the error."""
        raise self._error
