from pathlib import Path
from typing import Any

import pytest

from penstock.cli.demo.delays import DELAYS
from penstock.errors import BadParameter
from penstock.spark.projections.database import DatabaseTarget
from penstock.spark.projections.project import project

SPARK: Any = None
"""What is refused is refused before there has to be a session."""


@pytest.mark.parametrize(
    ("given", "shown"),
    [("lake/delays", "'lake/delays'"), ("s3a://key@lake", "'s3a://…'"), (DELAYS, ".*Projection"), (None, "missing")],
)
def test_what_is_no_target_is_refused_and_what_would_be_one_is_said(given: Any, shown: str) -> None:
    told = (
        rf"parameter target is {shown}.*; allowed: DatabaseTarget\(projection, database\) or FilesTarget\(projection, "
    )
    with pytest.raises(BadParameter, match=told):
        project(SPARK, given, "http://localhost:1", "flight.departed")


def test_a_target_of_ones_own_is_told_that_it_has_to_have_a_projection(tmp_path: Path) -> None:
    class Counted:
        def __init__(self, target: DatabaseTarget) -> None:
            self.positions, self.rows, self.keep = target.positions, target.rows, target.keep

    given: Any = Counted(DatabaseTarget(DELAYS, f"sqlite:///{tmp_path}/delays.db"))
    with pytest.raises(BadParameter, match=r"; this one has no projection$"):
        project(SPARK, given, "http://localhost:1", "flight.departed")
