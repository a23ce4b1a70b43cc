"""Errors of ours that tasks have raised on executors, recovered from Spark's error messages.

`tracebacks.py` has Spark put them there without a traceback.
"""

import re
from typing import Final, NamedTuple

_OURS: Final = re.compile(
    r"(?:^|PythonException: |\[PYTHON_\w+\] [^:\n]*: )penstock\.errors\.(?:\w+\.)*(\w+): (.+)", re.MULTILINE
)
"""At the end of a traceback; or, without one, after Spark's own words."""


class TaskError(NamedTuple):
    """An error of ours, as Spark tells of it."""

    kind: str
    """Its class."""
    detail: str


def find_task_error(said: str) -> TaskError | None:
    r"""Return the last error of ours that Spark speaks of: the others are what it came from. None: it speaks of none.

    >>> find_task_error("[STREAM_FAILED] x: Traceback:\n  File\npenstock.errors.log.EventsLost: 7 are gone\n\tat java")
    TaskError(kind='EventsLost', detail='7 are gone')
    """
    found = _OURS.findall(said)
    return TaskError(*found[-1]) if found else None
