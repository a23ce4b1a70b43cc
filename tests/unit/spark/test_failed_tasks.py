import pytest

from penstock.spark.failed_tasks import TaskError, find_task_error

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
    assert find_task_error(CHAINED) == TaskError("Unavailable", "not available now: http://hub: refused")


@pytest.mark.parametrize(
    "said",
    [
        "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source reader: ",
        "[STREAM_FAILED] Query terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when x: ",
        "An exception was thrown from the Python worker:\n",
        "Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): org.apache.spark.api.python.PythonException: ",
    ],
)
def test_penstock_error_without_traceback_is_found_after_the_words_of_spark(said: str) -> None:
    text = f"{said}penstock.errors.log.EventsLost: 7 are gone\n SQLSTATE: 38000"

    assert find_task_error(text) == TaskError("EventsLost", "7 are gone")


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: penstock.errors.root.Unavailable: in the middle of a line",
        "java.io.IOException: the disk is full",
        "",
    ],
)
def test_task_traceback_without_penstock_error_has_no_cause(said: str) -> None:
    assert find_task_error(said) is None
