import pytest

from penstock.spark.failed_tasks import TaskError, told_of

CHAINED = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "feed_reading.py", line 60, in __call__
penstock.errors.http.Unreachable: http://hub: refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "feed_reading.py", line 64, in __call__
penstock.errors.root.Unavailable: not available now: http://hub: refused

\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_last_penstock_error_in_a_task_traceback_is_the_cause() -> None:
    assert told_of(CHAINED) == TaskError("Unavailable", "not available now: http://hub: refused")


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: penstock.errors.root.Unavailable: in the middle of a line",
        "java.io.IOException: the disk is full",
        "",
    ],
)
def test_task_traceback_without_penstock_error_has_no_cause(said: str) -> None:
    assert told_of(said) is None
