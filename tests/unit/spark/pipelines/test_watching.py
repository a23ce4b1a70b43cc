"""Watching a query: what its progress says, and how it is ended."""

from threading import Event
from typing import Any

import pytest

from penstock.spark.pipelines import watch
from penstock.spark.pipelines.watching import STOP_TIMEOUT, Report, gap_of


def progress(number: int, rows: int, *, end: int = 0, head: int = 0, source: Any = None) -> dict[str, Any]:
    places = {
        "endOffset": {"order.placed": {"epoch": 1, "0": end}},
        "latestOffset": {"order.placed": {"epoch": 1, "0": head}},
    }
    return {"batchId": number, "sources": [{"numInputRows": rows, **(source or places)}]}


class Query:
    """A streaming query of Spark that shows the next progress at each look, and ends after the last."""

    def __init__(self, *looks: list[dict[str, Any]], is_busy: bool = False) -> None:
        self._looks = list(looks)
        self.status = {"isTriggerActive": is_busy}
        self.is_stopped = False

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's word
        return self._looks[0]

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - likewise
        return self._looks[0][-1] if self._looks[0] else None

    def awaitTermination(self, _seconds: float) -> bool:  # noqa: N802 - likewise
        self._looks = self._looks[1:] or self._looks
        return len(self._looks) == 1

    def stop(self) -> None:
        self.is_stopped = True


def test_progress_is_reported_only_when_it_changed() -> None:
    first, second = progress(4, 10, end=10, head=25), progress(5, 15, end=25, head=25)
    told: list[Report] = []

    last = watch(
        Query([], [first], [first], [first, second, progress(6, 0)]),  # type: ignore[arg-type]
        told.append,
        lag=lambda: 7.0,
        clock=iter(range(100)).__next__,
    )

    assert [(each.batches, each.events, each.gap, each.lag_seconds) for each in told] == [
        (1, 10, 15, 7.0),
        (2, 25, 0, 0.0),
    ]
    assert last[:2] == (2, 25)
    assert last.rate == 25 / last.seconds


def test_a_query_is_ended_between_two_micro_batches() -> None:
    stop = Event()
    stop.set()
    query = Query([], [], [])

    watch(query, print, stop=stop)  # type: ignore[arg-type]

    assert query.is_stopped


def test_busy_query_is_stopped_after_its_current_micro_batch() -> None:
    stop, looks = Event(), [[progress(number, 10)] for number in (0, 1, 1, 2, 3, 4)]
    query = Query([], *looks, is_busy=True)

    last = watch(query, lambda report: stop.set() if report.batches == 2 else None, stop=stop)  # type: ignore[arg-type]

    assert query.is_stopped
    assert last.batches == 3


def test_micro_batch_that_does_not_end_is_stopped_after_the_limit() -> None:
    stop = Event()
    stop.set()
    query = Query(*[[]] * 10, is_busy=True)
    clock = iter([0.0, 1.0, 1.0, 2.0, 2.0, 1.0 + STOP_TIMEOUT, *[2.0 + STOP_TIMEOUT] * 20])

    watch(query, print, stop=stop, clock=clock.__next__)  # type: ignore[arg-type]

    assert query.is_stopped
    assert len(query._looks) > 1, "it was ended before it had ended by itself"


@pytest.mark.parametrize(
    ("end", "latest", "gap"),
    [
        ({"a": {"epoch": 1, "0": 3}}, {"a": {"epoch": 1, "0": 10}}, 7),
        ({"a": {"epoch": 1, "0": 3}}, {"a": {"epoch": 1, "0": 3}}, 0),
        (
            '{"a": {"epoch": 1, "0": 3}}',
            '{"a": {"epoch": 1, "0": 4, "1": 2}, "b": {"epoch": 1, "0": 5}}',
            1 + 2 + 5,
        ),
        ({"a": {"epoch": 1, "0": 3}}, {"a": {"epoch": 2, "0": 4}}, 4),
        ({"orders": {"0": 3, "1": 7}}, {"orders": {"0": 4, "1": 7}}, 1),
        ({"orders": {"0": 3}}, None, None),
        ({"logOffset": 1}, None, None),
        (None, None, None),
    ],
    ids=[
        "behind",
        "caught up",
        "partitions and event types not read yet",
        "created again",
        "Kafka's",
        "no heads",
        "files",
        "none",
    ],
)
def test_gap_is_what_the_heads_are_ahead_of_the_end_offset(end: Any, latest: Any, gap: int | None) -> None:
    assert gap_of(progress(0, 1, source={"endOffset": end, "latestOffset": latest})) == gap
