from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.projections.project import project

HUB = "http://localhost:8080"


def handle(stream: str, events: Any) -> None: ...


@pytest.mark.parametrize("given", [None, handle, HUB, SimpleNamespace], ids=["None", "handle", "url", "class"])
def test_what_is_no_session_is_refused_by_whoever_is_given_it(given: Any) -> None:
    told = r"spark is .*; allowed: a session of Spark's, such as penstock\.spark\.session\("
    with pytest.raises(BadParameter, match=told):
        SparkProcessor(given, handle, HUB, "order.placed")
    with pytest.raises(BadParameter, match=told):
        project(given, given, HUB, "order.placed")
