import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.projections.projection import Projection
from penstock.spark.projections.files import FilesTarget
from penstock.spark.projections.project import project

HUB = "http://localhost:8080"
SESSION: Any = SimpleNamespace(conf=None, range=print, createDataFrame=print)


@dataclass
class Count:
    n: int = 0


COUNTS = Projection("counts", Count, lambda state, _: state)
FILES = FilesTarget(COUNTS, "/lake")


def refused(projection: Any, told: str, **options: Any) -> None:
    with pytest.raises(BadParameter, match=told):
        project(SESSION, projection, HUB, "order.placed", **{"to": FILES, **options})


@pytest.mark.parametrize("target", ["/lake", None, FilesTarget], ids=str)
def test_where_rows_are_kept_is_a_target(target: Any) -> None:
    refused(COUNTS, r"to is .*; allowed: DatabaseTarget\(projection, database\) or FilesTarget", to=target)


def test_what_is_folded_is_a_projection() -> None:
    refused("counts", "projection is 'counts'; allowed: a Projection")


def test_events_and_tasks_are_counted_from_1() -> None:
    for name in ("events_per_round", "partitions"):
        refused(COUNTS, f"{name} is 0; allowed: a whole number from 1", **{name: 0})


def test_a_projection_that_cannot_be_sent_is_named_before_anything_runs() -> None:
    lock = threading.Lock()

    def evolve(state: Count, event: object) -> Count:
        with lock:
            return state

    refused(Projection("counts", Count, evolve), r"projection is 'Projection'; allowed: what Spark can send .*lock")
