import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sendable import check_sendable

HUB = "http://localhost:8080"
SESSION: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "false"), range=print, createDataFrame=print)


class Locked:
    """A handler that has a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, stream: str, events: Any) -> None: ...


def handle(stream: str, events: Any) -> None: ...


def test_a_handler_that_cannot_be_sent_is_named_before_anything_runs() -> None:
    told = r"is '{}'; allowed: what Spark can send to executors, which has failed: .*lock.* be made in the function"
    with pytest.raises(BadParameter, match="handler " + told.format("Locked")):
        SparkProcessor(SESSION, Locked(), HUB, "order.placed")
    lock = threading.Lock()

    def classify(error: Exception) -> str:
        with lock:
            return str(error)

    with pytest.raises(BadParameter, match="classify " + told.format(".*classify")):
        SparkProcessor(SESSION, handle, HUB, "order.placed", classify=classify)


def test_what_is_defined_where_it_stands_can_be_sent() -> None:
    check_sendable("handler", lambda stream, events: None)  # noqa: ARG005
    check_sendable("classify", None)
