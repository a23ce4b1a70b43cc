"""How many of the tasks are done that a job has, as Spark tells it here or over Spark Connect."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.output import number, progress, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_INTERVAL: Final = 0.2
Show = Callable[[int, int], None]
"""Takes how many tasks are done, and how many there are."""


@contextmanager
def counting_tasks(spark: "SparkSession", what: str) -> Iterator[None]:
    """Show how many of its tasks the job that the block runs has done."""
    with progress() as display:
        if not display.console.is_terminal:
            tell(f"{what}.")
        task = display.add_task(what, total=None, events=0)

        def show(done: int, all_: int) -> None:
            text = f"{what}: task {number(done)} of {number(all_)}"
            display.update(task, completed=done, total=all_, description=text)

        with _counts(spark, show):
            yield


def _counts(spark: "SparkSession", show: Show) -> AbstractContextManager[None]:
    from pyspark.sql.utils import is_remote

    return _told(spark, show) if is_remote() else _looked_at(spark, show)


@contextmanager
def _told(spark: Any, show: Show) -> Iterator[None]:
    def told(stages: Any, **_: object) -> None:
        if known := list(stages or ()):
            show(sum(each.num_completed_tasks for each in known), sum(each.num_tasks for each in known))

    spark.registerProgressHandler(told)
    try:
        yield
    finally:
        spark.removeProgressHandler(told)


@contextmanager
def _looked_at(spark: "SparkSession", show: Show) -> Iterator[None]:
    over, tracker = threading.Event(), spark.sparkContext.statusTracker()

    def look() -> None:
        while not over.wait(LOOK_INTERVAL):
            stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            if known := [each for each in stages if each is not None]:
                show(sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known))

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
