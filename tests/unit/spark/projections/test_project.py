import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.projections.projection import Projection
from penstock.spark.projections.database import DatabaseTarget
from penstock.spark.projections.files import FilesTarget
from penstock.spark.projections.project import project
from penstock_demo.delays import DELAYS

HUB = "http://localhost:1"
SESSION: Any = SimpleNamespace(conf=None, range=print, createDataFrame=print)


@dataclass
class Count:
    n: int = 0


COUNTS = FilesTarget(Projection("counts", Count, lambda state, _: state), "/lake")


def refused(target: Any, told: str, **options: Any) -> None:
    with pytest.raises(BadParameter, match=told):
        project(SESSION, target, HUB, "order.placed", **options)


@pytest.mark.parametrize(
    ("given", "shown"),
    [("lake/delays", "'lake/delays'"), ("s3a://key@lake", "'s3a://…'"), (DELAYS, ".*Projection"), (None, "missing")],
)
def test_projection_target_of_another_kind_is_refused_with_the_allowed_ones(given: Any, shown: str) -> None:
    would_be = r"DatabaseTarget\(projection, database\) or FilesTarget\(projection, "
    refused(given, rf"parameter target is {shown}.*; allowed: {would_be}")


def test_custom_target_without_a_projection_is_refused(tmp_path: Path) -> None:
    class Counted:
        def __init__(self, target: DatabaseTarget) -> None:
            self.positions, self.rows, self.keep = target.positions, target.rows, target.keep
            self.fold = target.fold

    refused(Counted(DatabaseTarget(DELAYS, f"sqlite:///{tmp_path}/delays.db")), r"; this one has no projection$")


def test_target_with_swapped_arguments_is_refused() -> None:
    swapped: Any = ("/lake", COUNTS.projection)
    with pytest.raises(BadParameter, match="projection is '/lake'; allowed: a Projection; the path comes after it"):
        FilesTarget(*swapped)
    with pytest.raises(BadParameter, match="projection is '/lake'; allowed: a Projection; the database comes after it"):
        DatabaseTarget(*swapped)


def test_events_and_tasks_are_counted_from_1() -> None:
    for name in ("events_per_round", "partitions"):
        refused(COUNTS, f"{name} is 0; allowed: a whole number from 1", **{name: 0})


def test_a_projection_that_cannot_be_sent_is_named_before_anything_runs() -> None:
    lock = threading.Lock()

    def evolve(state: Count, event: object) -> Count:
        with lock:
            return state

    target = FilesTarget(Projection("counts", Count, evolve), "/lake")
    refused(target, r"projection is 'Projection'; allowed: what Spark can send .*lock")
