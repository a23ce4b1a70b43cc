import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import Unavailable
from penstock.processing.checkpoints.checkpoint import Advance, MemoryCheckpoints
from penstock.processing.runners import background
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sources.frames import Head
from penstock.spark.processors.sources.table import TableSource

SESSION: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "false"), range=print, createDataFrame=print)


class Empty(TableSource):
    """A table without rows, of which Spark is asked nothing."""

    def heads(self) -> Mapping[str, Head]:
        """Return where its one tranche begins and ends."""
        return {"0": Head(0, 0)}


class Away(MemoryCheckpoints):
    """Checkpoints that cannot be reached. What is to be kept is where a processor begins."""

    def __init__(self) -> None:
        super().__init__()
        self.is_tried = threading.Event()

    def commit(self, advance: Advance) -> None:  # noqa: ARG002 - Nothing of it is kept.
        """Raise Unavailable."""
        self.is_tried.set()
        raise Unavailable(reason="the database is away")


def handle(stream: str, events: Sequence[Any]) -> None:
    raise AssertionError("there are no events")


def test_failed_last_commit_is_logged_and_not_raised(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LAST_PAUSE_SECONDS", 0.0)
    checkpoints, source = Away(), Empty(lambda _: SESSION, index="number", stream="stream")
    with SparkProcessor(SESSION, handle, source, checkpoints=checkpoints) as running:
        assert checkpoints.is_tried.wait(300)

    [last] = [each for each in caplog.messages if "the last commit has failed" in each]
    assert "the database is away" in last
    assert running.snapshot.commit_failure is not None
