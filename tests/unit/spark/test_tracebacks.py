import os
from collections.abc import Callable, Iterator

import pytest
from pyspark.util import with_faulthandler

from penstock.errors import Forbidden
from penstock.spark.tracebacks import VARIABLE, hide_tracebacks


@hide_tracebacks
class Refusing:
    def call(self) -> None:
        raise Forbidden("not you")

    def iterate(self) -> Iterator[int]:
        yield 1
        raise Forbidden("not you")

    def divide(self) -> float:
        return 1 / 0


CALLS = {
    "a call": lambda: Refusing().call(),
    "an iterator": lambda: list(Refusing().iterate()),
}


def call_as_worker(call: Callable[[], object]) -> None:
    """Call *call* as a program of Spark's Python workers does."""
    exec("from pyspark.util import handle_worker_exception\ncall()", {"__name__": "__main__", "call": call})


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_penstock_error_hides_its_traceback_in_a_worker(call: Callable[[], object]) -> None:
    with pytest.raises(Forbidden, match="not you"):
        call_as_worker(call)

    assert os.environ[VARIABLE] == "1"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_penstock_error_changes_nothing_outside_of_a_worker(call: Callable[[], object]) -> None:
    with pytest.raises(Forbidden, match="not you"):
        with_faulthandler(call)()  # A function of the module with `handle_worker_exception`.

    assert not os.environ[VARIABLE]


def test_defect_keeps_its_traceback_in_a_worker() -> None:
    with pytest.raises(ZeroDivisionError):
        call_as_worker(Refusing().divide)

    assert not os.environ[VARIABLE]
