"""The session that a processor on Spark is given."""

from typing import Any, Protocol

from penstock.processing.parameters import check_members


class Session(Protocol):
    """What a session of Spark's has, also over Spark Connect, whose class is another."""

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
