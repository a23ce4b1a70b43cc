"""Where queries of format("penstock") start that say nothing, or a time."""

from typing import Any

import pytest

from penstock.spark.heads import Heads
from penstock.spark.offsets import decode_places
from penstock.spark.options import AskedOffsets, parse_options
from penstock.spark.stream import FeedStreamReader
from penstock.spark.tasks import plan_batch

SOURCE = {"url": "http://localhost:1", "eventType": "a"}
TIME = "2026-11-20T10:00:00+00:00"


class StubHub:
    """A hub with a feed of two partitions, of which retention has removed some events."""

    def __init__(self, *_: Any) -> None:
        pass

    def heads(self, event_type: str) -> Heads:
        assert event_type == "a"
        return Heads(1, (3, 0), (10, 7))

    def since(self, event_type: str, time: str) -> AskedOffsets:
        assert (event_type, time) == ("a", TIME)
        return AskedOffsets(1, {0: 8, 1: 7})


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.stream.RemoteHub", StubHub)
    monkeypatch.setattr("penstock.spark.tasks.RemoteHub", StubHub)


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({}, (10, 7)),
        ({"startingOffsets": "latest"}, (10, 7)),
        ({"startingOffsets": "earliest"}, (3, 0)),
        ({"startingOffsets": TIME}, (8, 7)),
        ({"startingOffsets": '{"a": {"0": 5}}'}, (5, 0)),
    ],
    ids=["nothing", "latest", "earliest", "a time", "offsets"],
)
def test_new_stream_starts_at_the_latest_event_unless_told_otherwise(
    options: dict[str, str], offsets: tuple[int, ...]
) -> None:
    start = FeedStreamReader(parse_options(SOURCE | options), (), {}).initialOffset()

    assert decode_places(start)["a"].offsets == offsets


@pytest.mark.parametrize(
    ("options", "ranges"),
    [
        ({}, {0: (3, 10), 1: (0, 7)}),
        ({"startingOffsets": "earliest", "endingOffsets": TIME}, {0: (3, 8), 1: (0, 7)}),
        ({"startingOffsets": TIME}, {0: (8, 10)}),
    ],
    ids=["nothing", "up to a time", "from a time"],
)
def test_batch_starts_at_the_earliest_event_unless_told_otherwise(
    options: dict[str, str], ranges: dict[int, tuple[int, int]]
) -> None:
    found: dict[int, list[int]] = {}
    for task in plan_batch(parse_options(SOURCE | options)):
        for each in task:
            found.setdefault(each.partition, []).extend((each.start, each.end))

    assert {partition: (min(ends), max(ends)) for partition, ends in found.items()} == ranges
